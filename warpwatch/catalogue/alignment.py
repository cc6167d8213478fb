"""Describes fallbacks of kernels for rows that do not start at multiples of 16 bytes, which the widest loads need."""

from __future__ import annotations

from collections.abc import Callable

from warpwatch.catalogue.declaration import Shape


def by_elements(accesses: str, *axes: int) -> Callable[[Shape, int], str]:
    """Make a ``Variant.fallback`` for a kernel that accesses single elements where rows are not aligned to 16 bytes.

    ``accesses``: the loads or stores that are slower then. ``axes``: the sizes of a shape that rows are as long as.
    """

    def fallback(shape: Shape, itemsize: int) -> str:
        unaligned = any(shape[axis] * itemsize % 16 for axis in axes)
        return f"{accesses} element by element: rows off 16 bytes" if unaligned else ""

    return fallback
