"""Tests that compare every kernel of this repository with NumPy."""
