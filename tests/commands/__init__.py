"""Tests of warpwatch.commands."""
