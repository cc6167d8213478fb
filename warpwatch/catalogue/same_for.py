"""Makes the smaller cases that ``same_for`` of a declaration compares with: the same first rows, and fewer of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from warpwatch.catalogue.arrays import Array, Shape
from warpwatch.catalogue.cases import Case, exists
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.variants import Variant


def smaller_shapes(family: Family, shape: Shape, size: str, variant: Variant | None = None) -> Iterator[Shape]:
    """Yield valid shapes with less of one size: 1, half of it, and one less, or what is valid near them."""
    axis = family.sizes.index(size)
    before, whole, after = shape[:axis], shape[axis], shape[axis + 1 :]
    near = (family.near((*before, value, *after), variant) for value in (1, whole // 2, whole - 1) if value)
    for smaller in filter(None, dict.fromkeys(near)):
        alone = smaller == (*before, smaller[axis], *after)
        if alone and smaller[axis] < whole and not family.problem_of(smaller, variant):
            yield smaller


def smaller_cases(case: Case) -> Iterator[tuple[str, Case]]:
    """Yield a size that the case's results do not depend on, and a case with less of it, for each that there is."""
    if exists(case.variant, case.build.configuration, case.dtype):
        for size in case.same_for:
            for shape in smaller_shapes(case.family, case.shape, size, case.variant):
                yield size, replace(case, shape=shape)


def first_part(array: Array, shape: Shape) -> Array:
    """Return the elements of an array that one of a smaller shape has too: those from index 0 on, along each axis."""
    return array[tuple(slice(length) for length in shape)]
