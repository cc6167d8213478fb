"""Machine code, read without a GPU: what a kernel needs, and which instructions it is made of."""
