"""Tests of warpwatch.timing."""
