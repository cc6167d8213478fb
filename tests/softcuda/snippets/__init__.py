"""Snippets of CUDA C++: one construct each, with what it must compute, from CUDA's documentation or by NumPy and SciPy."""
