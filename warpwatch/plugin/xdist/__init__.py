"""Runs of several processes, by pytest-xdist."""
