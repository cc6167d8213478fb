"""Tests of warpwatch/machine_code."""
