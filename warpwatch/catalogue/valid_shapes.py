"""Finds valid shapes near others, where a declaration says by ``valid`` which shapes its kernels take."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterable, Iterator
from itertools import product

from warpwatch.catalogue.arrays import Shape

REACH = 1024  # as far from a size valid ones are looked for
STEPS = tuple(2**i for i in range(1, 11))  # sizes are often multiples of one of these
MOST_PRODUCTS = 20_000  # combinations of sizes that are tried

IsValid = Callable[[Shape], bool]


def nearest(
    shape: Shape, is_valid: IsValid, known: Iterable[Shape] = (), axes: Container[int] = range(sys.maxsize)
) -> Shape | None:
    """Return the valid shape nearest to another one, or None if none is near.

    One size alone is changed if that is enough; otherwise each is changed by itself in the place of a size of a
    ``known`` valid shape; otherwise all sizes are rounded together. ``axes``: those whose sizes can be enough alone.
    """
    if is_valid(shape):
        return shape
    changed = (_along(shape, axis, size, is_valid) for axis, size in enumerate(shape) if axis in axes)
    if single := [each for each in changed if each]:
        return min(single, key=lambda each: _distance(each, shape))
    for base in known:
        lines = [_along(base, axis, size, is_valid) for axis, size in enumerate(shape)]
        sizes = tuple(line[axis] for axis, line in enumerate(lines) if line)
        if len(sizes) == len(shape) and is_valid(sizes):
            return sizes
    rounded = [sorted(_rounded(size), key=lambda each, size=size: (abs(each - size), -each)) for size in shape]  # type: ignore[misc]
    few = int(MOST_PRODUCTS ** (1 / len(shape)))
    tried = sorted(product(*(sizes[:few] for sizes in rounded)), key=lambda each: _distance(each, shape))
    return next(filter(is_valid, tried), None)


def _along(shape: Shape, axis: int, wanted: int, is_valid: IsValid) -> Shape | None:
    """Return a shape with the valid size nearest to the one that is wanted along an axis; of two, the larger one."""
    for size in (wanted + away * sign for away in range(REACH + 1) for sign in (1, -1)):
        changed = (*shape[:axis], size, *shape[axis + 1 :])
        if size > 0 and is_valid(changed):
            return changed
    return None


def _rounded(size: int) -> set[int]:
    """Return a size, its neighbours, and the multiples of powers of two around it."""
    multiples = {size // step * step + more for step in STEPS for more in (0, step)}
    return {each for each in {size - 1, size, size + 1} | multiples if each > 0}


def _distance(shape: Shape, wanted: Shape) -> tuple[int, tuple[int, ...]]:
    """Return what shapes are sorted by: how far all sizes are from those wanted, and the larger ones first."""
    return sum(abs(a - b) for a, b in zip(shape, wanted, strict=True)), tuple(-size for size in shape)


def describe(names: Iterable[str], shape: Shape, near: Shape | None) -> str:
    """Say that a shape is invalid, and which one is nearest."""
    sizes = list(zip(names, shape, strict=True))
    fault = f"{', '.join(f'{name} = {size}' for name, size in sizes)} is not valid"
    if near is None:
        return f"{fault}, and no valid size is near"
    if len(shape) == 1:
        return f"{fault}; the nearest valid size is {near[0]}"
    changes = list(_changes(sizes, near))
    return f"{fault}; the nearest valid size{' is' if len(changes) == 1 else 's are'} {', '.join(changes)}"


def _changes(sizes: Iterable[tuple[str, int]], near: Shape) -> Iterator[str]:
    for (name, size), other in zip(sizes, near, strict=True):
        if size != other:
            yield f"{name} = {other}"
