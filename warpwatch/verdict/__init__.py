"""Turns times into verdicts: pure arithmetic, without files, clocks or pytest."""
