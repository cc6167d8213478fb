"""Hands on softcuda's way of writing an output to the whole engine, of which devices alone import softcuda."""

from softcuda.compiling.outputs import replaced, write_whole

__all__ = ["replaced", "write_whole"]
