"""Tests of warpwatch.catalogue."""
