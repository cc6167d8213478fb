"""Tests of warpwatch.verdict."""
