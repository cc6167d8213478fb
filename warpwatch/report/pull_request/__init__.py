"""Tells a pull request what became of its kernels: results of a job, annotations, and one comment."""
