"""Tests of warpwatch.devices."""
