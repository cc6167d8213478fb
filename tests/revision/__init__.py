"""Tests of warpwatch.revision."""
