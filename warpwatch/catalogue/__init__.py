"""Describes kernels as data: families, variants, arrays, launches, cases, tolerances."""
