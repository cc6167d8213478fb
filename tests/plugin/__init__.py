"""Tests of warpwatch.plugin."""
