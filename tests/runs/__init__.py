"""Tests of warpwatch.runs."""
