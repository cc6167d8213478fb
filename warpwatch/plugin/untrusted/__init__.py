"""Tests of ``--untrusted``: those that a repository brings are not run then (warpwatch/plugin/judge.py)."""
