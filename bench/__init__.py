"""The benchmark of this repository's kernels, and the saved runs that it compares with."""
