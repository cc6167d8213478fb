"""Runs kernels: on a GPU by PyCUDA, on the software device, or on the host; compiles, uploads, launches, checks."""
