"""Tests of warpwatch.cli."""
