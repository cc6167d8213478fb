"""Rules for the declaration of a family, one for each field; a rule relies on those before it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from warpwatch.catalogue.arrays import DeclaredArray, Role, Scalar, Shape
from warpwatch.catalogue.by_name import call
from warpwatch.catalogue.declaration import LARGEST_SIZE, Family, arrays_of
from warpwatch.catalogue.elements import C_TYPES, NONE, no_word, word_of
from warpwatch.catalogue.names import size_name
from warpwatch.catalogue.tolerance import Rule
from warpwatch.catalogue.variants import Benchmarks, Variant
from warpwatch.catalogue.work_rules import draw_fault, reference_fault, tolerance_fault, work_fault

NAME = r"[a-z][a-z0-9_]*"
TYPES = [name for name in C_TYPES if name != NONE]
# What functions of a declaration are given besides the sizes and arrays, which therefore cannot have these names.
RESERVED = {"shape", "sizes", "dtype", "itemsize", "part", "magnitudes", "rng", "exact", "at", "padding", "stream"}
NO_SIZES = RESERVED | {"block", "configuration", "index", "offset"}  # which functions ask for beside the sizes


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
    if reserved := sorted(NO_SIZES & set(sizes)):
        return f"has {reserved[0]!r}, by which functions ask for something else: choose another name"
    return f"is {sizes!r}, which names a size twice" if len(set(sizes)) < len(sizes) else None


def _scalars_fault(family: Family) -> str | None:
    for name, scalar in family.scalars.items():
        if not isinstance(scalar, Scalar) or (scalar.dtype and scalar.dtype not in TYPES):
            return f"has {name!r} = {scalar!r}: give a Scalar of a value and a type, such as Scalar(1e-5, 'float32')"
        if not _is_name(name) or name in family.sizes or name in NO_SIZES:
            return f"has {name!r}, which is no name or stands for something else too: choose another"
    return None


def _fits_fault(family: Family) -> str | None:
    said = family.problem_of((1,) * len(family.sizes))
    return None if said is None or isinstance(said, str) else f"returns {said!r}: give a sentence, or None"


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name.isidentifier()


def _variants_fault(family: Family) -> str | None:
    if not isinstance(family.variants, tuple) or not family.variants:
        return "is empty or no tuple: a family needs at least one variant"
    strange = [variant for variant in family.variants if not isinstance(variant, Variant)]
    return f"holds {strange[0]!r}, which is no Variant: make it by kernel(), call() or serial()" if strange else None


def dtypes_fault(dtypes: object) -> str | None:
    """Return what is wrong with a list of element types, or None."""
    if not isinstance(dtypes, tuple):
        return f"is {dtypes!r}: give a tuple of element types, such as ('float32',)"
    for dtype in dtypes:
        if dtype not in C_TYPES or dtype == NONE:
            return f"has {dtype!r}, which is no element type; there are {', '.join(TYPES)}"
    return f"names an element type twice: {', '.join(dtypes)}" if len(set(dtypes)) < len(dtypes) else None


def shapes_fault(family: Family, shapes: object) -> str | None:
    """Return what is wrong with a list of shapes, or None."""
    if not isinstance(shapes, tuple):
        return f"has {shapes!r} where a tuple of shapes is due"
    count = len(family.sizes)
    for shape in shapes:
        if not isinstance(shape, tuple) or len(shape) != count or not all(_is_size(size) for size in shape):
            named = f"{count} ({', '.join(family.sizes)})"
            return f"has {shape!r}: a shape is a tuple of {named} whole numbers from 1 to {LARGEST_SIZE:,}"
        if problem := family.problem_of(shape):
            return f"has {shape!r}: {problem}"
    twice = [shape for i, shape in enumerate(shapes) if shape in shapes[:i]]
    return f"has {twice[0]!r} twice" if twice else None


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= LARGEST_SIZE


def _tests_fault(family: Family) -> str | None:
    return shapes_fault(family, family.tests) or (None if family.tests else "is empty: nothing is tested")


def benchmarks_fault(family: Family, benchmarks: Benchmarks, known: Callable[[], Iterable[str]]) -> str | None:
    """Return what is wrong with the shapes that are timed, or None. ``known``: -> element types that they may name."""
    for dtype, shapes in benchmarks.items() if isinstance(benchmarks, Mapping) else [("", benchmarks)]:
        if dtype and dtype not in known():
            return f"has shapes for {dtype!r}, which is none of the element types {', '.join(known())}"
        if fault := shapes_fault(family, shapes):
            return fault
    return None


def _benchmarks_fault(family: Family) -> str | None:
    return benchmarks_fault(family, family.benchmarks, lambda: types(family))


def _arrays_fault(family: Family) -> str | None:
    for shape in _every_shape(family):
        declared = call(family.arrays, family.given(shape, next(iter(types(family)), NONE)))
        if not isinstance(declared, Mapping):
            return f"of {size_name(shape)} is {declared!r}: give a name and In, Out, InOut or Scratch for each"
        for name, array in declared.items():
            if fault := _array_fault(family, name, array):
                return f"of {size_name(shape)} has {name!r} {fault}"
        roles = {array.role for array in declared.values()}
        if not roles & {Role.OUT, Role.IN_OUT} and not family.prints:
            return "has no Out or InOut, and prints is None: a kernel writes a result or prints lines"
    return None


def _array_fault(family: Family, name: object, array: object) -> str | None:
    if not isinstance(array, DeclaredArray):
        return f"= {array!r}: declare it by In, Out, InOut or Scratch"
    if not _is_name(name):
        return "as a name: functions ask for arrays by name, so it must be one"
    if name in family.sizes or name in family.scalars or name in RESERVED:
        return "as a name, which stands for something else too: choose another"
    return _extent_fault(family, array) or _type_fault(family, array) or _initial_fault(family, array)


def _extent_fault(family: Family, array: DeclaredArray) -> str | None:
    if array.shape is None:
        drawn = family.draw and array.role in (Role.IN, Role.IN_OUT)
        return None if drawn else "without a shape: give it one, or let `draw` make an input"
    return None if _is_extent(array.shape) else f"of shape {array.shape!r}: a shape is one or more sizes above 0"


def _type_fault(family: Family, array: DeclaredArray) -> str | None:
    if not array.dtype and not family.dtypes and not family.prints and not _typed(family):
        return "without an element type, and the family has no `dtypes`: give one of them, such as 'float32'"
    return f"of type {array.dtype!r}, which there is not" if array.dtype and array.dtype not in C_TYPES else None


def _initial_fault(family: Family, array: DeclaredArray) -> str | None:
    for dtype in [array.dtype] if array.dtype else types(family):
        if array.initial is not None and word_of(array.initial, dtype) is None:
            return f"which {no_word(array.initial, dtype)}"
    return None


def _typed(family: Family) -> bool:
    """Tell whether every variant has element types of its own."""
    return all(variant.dtypes for variant in family.variants)


def _is_extent(size: object) -> bool:
    return isinstance(size, tuple) and bool(size) and all(isinstance(each, int) and each > 0 for each in size)


def _timed(family: Family) -> Iterable[Shape]:
    for dtype in types(family):
        for variant in family.variants:
            yield from family.benchmarks_of(variant, dtype) if variant.benchmarks is None else ()


def _every_shape(family: Family) -> list[Shape]:
    """List every shape that the family names, and the shape of ones, where even a small error of a formula shows."""
    shapes = dict.fromkeys([(1,) * len(family.sizes), *family.tests, *_timed(family)])
    return [shape for shape in shapes if not family.problem_of(shape)]


def types(family: Family) -> list[str]:
    """List the valid element types of its cases; an invalid one is a fault of its variant."""
    named = dict.fromkeys(dtype for variant in family.variants for dtype in _types_of(family, variant))
    return [dtype for dtype in named if dtype in C_TYPES and (dtype != NONE or bool(family.prints))]


def _types_of(family: Family, variant: Variant) -> tuple[str, ...]:
    given = variant.dtypes or family.dtypes
    return given if isinstance(given, tuple) and given else (family.own_type,)


def _work_fault(family: Family) -> str | None:
    faults = (work_fault(family, shape, dtype) for shape in _every_shape(family) for dtype in types(family))
    return next(filter(None, faults), None)


def _serial_fault(family: Family) -> str | None:
    for shape in _every_shape(family):
        seconds = call(family.serial_seconds, family.given(shape, types(family)[0]))
        if not isinstance(seconds, int | float) or not 0 <= seconds < float("inf"):
            return f"of {size_name(shape)} is {seconds!r}: give a time in seconds"
    return None


def _rules_fault(family: Family) -> str | None:
    """Check that ``tolerance`` is made of rules for results that there are."""
    dtype = types(family)[0]
    chosen = family.tolerance
    if callable(chosen):
        chosen = call(chosen, family.given(family.tests[0], dtype))
    if not isinstance(chosen, Mapping):
        return None if isinstance(chosen, Rule) else f"is {chosen!r}: give a rule, such as relative(1e-6)"
    known = [array.name for array in arrays_of(family, family.tests[0], dtype) if array.is_result]
    for name, rule in chosen.items():
        if name not in known:
            return f"names {name!r}, which is no result; there are {', '.join(known)}"
        if not isinstance(rule, Rule):
            return f"of {name} is {rule!r}: give a rule, such as relative(1e-6)"
    return None


def _of_each_type(rule: Callable[[Family, str], str | None]) -> Callable[[Family], str | None]:
    """Make a rule of a family from a rule for its results in one element type."""
    return lambda family: next(
        filter(None, (rule(family, dtype) for dtype in types(family) if not family.prints)), None
    )


FAMILY_RULES: Mapping[str, Callable[[Family], str | None]] = {
    "name": name_fault,
    "folder": _folder_fault,
    "sizes": _sizes_fault,
    "scalars": _scalars_fault,
    "fits": _fits_fault,
    "variants": _variants_fault,
    "dtypes": lambda family: dtypes_fault(family.dtypes),
    "tests": _tests_fault,
    "benchmarks": _benchmarks_fault,
    "arrays": _arrays_fault,
    "draw": _of_each_type(draw_fault),
    "serial_seconds": _serial_fault,
    "work": _work_fault,
}
# Those that let the reference compute, which may take long, or end the process.
COMPUTED_RULES: Mapping[str, Callable[[Family], str | None]] = {
    "reference": _of_each_type(reference_fault),
    "tolerance": lambda family: _rules_fault(family) or _of_each_type(tolerance_fault)(family),
}
