"""When rows do not start at multiples of 16 bytes, which is what the widest loads need."""

from __future__ import annotations

from collections.abc import Callable

from warpwatch.catalogue.declaration import Shape


def by_elements(what: str, *axes: int) -> Callable[[Shape, int], str]:
    """For ``Variant.fallback``: what is done element by element where a row as long as one of these sizes is off."""

    def fallback(shape: Shape, itemsize: int) -> str:
        off = any(shape[axis] * itemsize % 16 for axis in axes)
        return f"{what} element by element: rows off 16 bytes" if off else ""

    return fallback
