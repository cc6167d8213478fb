"""Arithmetic that C++ leaves to the device or undefined: operations, values, and what a GPU gives, to the bit."""
