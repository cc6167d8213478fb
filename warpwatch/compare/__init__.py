"""Compares a run with a baseline, with another revision, or with itself."""
