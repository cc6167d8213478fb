"""Rules for the declaration of a family, one for each field; a rule relies on those before it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from warpwatch.catalogue.declaration import C_TYPES, LARGEST_SIZE, Family, Shape, Variant
from warpwatch.catalogue.names import size_name
from warpwatch.catalogue.work_rules import bound_fault, reference_fault, work_fault

NAME = r"[a-z][a-z0-9_]*"


def name_fault(declared: Family | Variant) -> str | None:
    if isinstance(declared.name, str) and re.fullmatch(NAME, declared.name, re.ASCII):
        return None
    return f"is {declared.name!r}: a name has lower-case letters, digits and _ alone, because case ids are split at '-'"


def _folder_fault(family: Family) -> str | None:
    if isinstance(family.folder, Path) and family.folder.is_dir():
        return None
    return f"is {str(family.folder)!r}, which is no folder: give Path(__file__).parent"


def _sizes_fault(family: Family) -> str | None:
    sizes = family.sizes
    if not isinstance(sizes, tuple) or not sizes or not all(isinstance(size, str) and size for size in sizes):
        return f"is {sizes!r}: give a tuple of names, such as ('m', 'n')"
    return f"is {sizes!r}, which names a size twice" if len(set(sizes)) < len(sizes) else None


def _variants_fault(family: Family) -> str | None:
    if not isinstance(family.variants, tuple) or not family.variants:
        return "is empty or no tuple: a family needs at least one variant"
    strange = [variant for variant in family.variants if not isinstance(variant, Variant)]
    return f"holds {strange[0]!r}, which is no Variant" if strange else None


def shapes_fault(family: Family, shapes: object) -> str | None:
    """Return what is wrong with a list of shapes, or None."""
    if not isinstance(shapes, tuple):
        return f"has {shapes!r} where a tuple of shapes is due"
    count = len(family.sizes)
    for shape in shapes:
        if not isinstance(shape, tuple) or len(shape) != count or not all(_is_size(size) for size in shape):
            named = f"{count} ({', '.join(family.sizes)})"
            return f"has {shape!r}: a shape is a tuple of {named} whole numbers from 1 to {LARGEST_SIZE:,}"
        if problem := family.fits(shape):
            return f"has {shape!r}: {problem}"
    twice = [shape for i, shape in enumerate(shapes) if shape in shapes[:i]]
    return f"has {twice[0]!r} twice" if twice else None


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= LARGEST_SIZE


def _test_shapes_fault(family: Family) -> str | None:
    return shapes_fault(family, family.test_shapes) or (None if family.test_shapes else "is empty: nothing is tested")


def _bench_shapes_fault(family: Family) -> str | None:
    known = {dtype for variant in family.variants for dtype in variant.dtypes}
    for dtype, shapes in family.bench_shapes.items():
        if dtype not in known:
            return f"has shapes for {dtype!r}, and no variant has that element type"
        if fault := shapes_fault(family, shapes):
            return fault
    return None


def _result_fault(family: Family) -> str | None:
    if family.result is None:
        return None if family.prints else "is None, and so is prints: a kernel writes a result or prints lines"
    for shape in _every_shape(family):
        name, size = family.result(shape)
        if not isinstance(name, str) or not _is_extent(size):
            return f"of {size_name(shape)} is {(name, size)!r}: give a name and a shape of one or more sizes above 0"
    return None


def _operands_fault(family: Family) -> str | None:
    for shape in _every_shape(family):
        operands = family.operands(shape)
        if not isinstance(operands, Mapping):
            return f"of {size_name(shape)} is {operands!r}: give a name and a shape for each"
        for name, size in operands.items():
            if not isinstance(name, str) or not _is_extent(size):
                return f"of {size_name(shape)} has {name!r} of shape {size!r}: a shape is one or more sizes above 0"
        if family.result and family.result(shape)[0] in operands:
            return f"has {family.result(shape)[0]!r}, which is the result's name too"
    return None


def _is_extent(size: object) -> bool:
    return isinstance(size, tuple) and bool(size) and all(isinstance(each, int) and each > 0 for each in size)


def _every_shape(family: Family) -> list[Shape]:
    """List every shape that the family names, and the shape of ones, where even a small error of a formula shows."""
    timed = (shape for shapes in family.bench_shapes.values() for shape in shapes)
    shapes = dict.fromkeys([(1,) * len(family.sizes), *family.test_shapes, *timed])
    return [shape for shape in shapes if not family.fits(shape)]


def _types(family: Family) -> list[str]:
    """List the valid element types of its variants; an invalid one is a fault of its variant."""
    named = dict.fromkeys(dtype for variant in family.variants for dtype in variant.dtypes)
    return [dtype for dtype in named if dtype in C_TYPES and (dtype == "none") == (family.result is None)]


def _work_fault(family: Family) -> str | None:
    faults = (work_fault(family, shape, dtype) for shape in _every_shape(family) for dtype in _types(family))
    return next(filter(None, faults), None)


def _serial_fault(family: Family) -> str | None:
    for shape in _every_shape(family):
        seconds = family.serial_seconds(shape)
        if not isinstance(seconds, int | float) or not 0 <= seconds < float("inf"):
            return f"of {size_name(shape)} is {seconds!r}: give a time in seconds"
    return None


def _of_each_type(rule: Callable[[Family, str], str | None]) -> Callable[[Family], str | None]:
    """Make a rule of a family from a rule for its results in one element type."""
    return lambda family: next(filter(None, (rule(family, dtype) for dtype in _types(family) if family.result)), None)


FAMILY_RULES: Mapping[str, Callable[[Family], str | None]] = {
    "name": name_fault,
    "folder": _folder_fault,
    "sizes": _sizes_fault,
    "variants": _variants_fault,
    "test_shapes": _test_shapes_fault,
    "bench_shapes": _bench_shapes_fault,
    "result": _result_fault,
    "operands": _operands_fault,
    "serial_seconds": _serial_fault,
    "work": _work_fault,
    "reference": _of_each_type(reference_fault),
    "bound": _of_each_type(bound_fault),
}
