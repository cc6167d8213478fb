"""Explanations: why a kernel became slower or faster, and since when."""
