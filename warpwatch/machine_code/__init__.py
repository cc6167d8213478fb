"""Reads machine code, without a GPU: what a kernel needs, and which instructions it is made of."""
