"""Measures times by CUDA events on a held stream, with L2 scrubbed: the half in pytest and the half in the worker."""
