"""Describes fallbacks of kernels for rows that do not start at multiples of 16 bytes, which the widest loads need."""

from __future__ import annotations

from collections.abc import Callable, Mapping


def by_elements(accesses: str, *lengths: str) -> Callable[..., str]:
    """Make the ``fallback`` of a kernel that accesses single elements where rows are not aligned to 16 bytes.

    ``accesses``: the loads or stores that are slower then. ``lengths``: the sizes that rows are as long as.
    """

    def fallback(sizes: Mapping[str, int], itemsize: int) -> str:
        unaligned = any(sizes[length] * itemsize % 16 for length in lengths)
        return f"{accesses} element by element: rows off 16 bytes" if unaligned else ""

    return fallback
