"""Tests of warpwatch.compare."""
