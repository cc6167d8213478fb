"""Tests of warpwatch.report."""
