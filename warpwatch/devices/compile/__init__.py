"""Compile kernels: compilers, their cache, and the kernels that machine code holds."""
