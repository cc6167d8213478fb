"""Rules for the declaration of a variant, one for each field; a rule relies on those before it.

A rule also relies on its family, whose own rules (warpwatch/catalogue/family_rules.py) are applied before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from warpwatch.catalogue.declaration import C_TYPES, Block, Build, Capability, Case, Family, Shape, Variant
from warpwatch.catalogue.family_rules import name_fault, shapes_fault
from warpwatch.catalogue.library import Library
from warpwatch.catalogue.names import size_name
from warpwatch.catalogue.work_rules import work_fault

FIRST_POINTER, SPACING = 1 << 44, 1 << 40  # addresses that are never accessed


def _library_fault(family: Family, variant: Variant) -> str | None:
    if variant.library is not None and not isinstance(variant.library, Library):
        return f"is {variant.library!r}: give a Library, which says how its call is queued"
    return "is given, and on_host too: a variant is one or the other" if variant.library and variant.on_host else None


def _dtypes_fault(family: Family, variant: Variant) -> str | None:
    dtypes = variant.dtypes
    if not isinstance(dtypes, tuple) or not dtypes:
        return f"is {dtypes!r}: give a tuple of at least one element type, such as ('float32',)"
    for dtype in dtypes:
        if dtype not in C_TYPES:
            return f"has {dtype!r}, which is no element type; there are {', '.join(C_TYPES)}"
        if (dtype == "none") != (family.result is None):
            return f"has {dtype!r}: 'none' is for kernels that print, and for no others"
    return f"names an element type twice: {', '.join(dtypes)}" if len(set(dtypes)) < len(dtypes) else None


def _blocks_fault(family: Family, variant: Variant) -> str | None:
    blocks = variant.blocks
    if variant.has_no_block:
        return None if blocks == ((),) else f"is {blocks!r}: on the host and of a library there is ((),) alone"
    if not isinstance(blocks, tuple) or not blocks:
        return f"is {blocks!r}: give a tuple of at least one block, such as ((16, 16),)"
    for block in blocks:
        if not isinstance(block, tuple) or len(block) not in (1, 2) or not all(_is_count(size) for size in block):
            return f"has {block!r}: a block is one or two whole numbers from 1 on, such as (16, 16)"
        if len(block) != len(blocks[0]):
            return f"has blocks of one size and of two: {blocks[0]!r} and {block!r}"
    return f"has a block twice: {', '.join(map(size_name, blocks))}" if len(set(blocks)) < len(blocks) else None


def _is_count(value: object, least: int = 1) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= least


def _takes_fault(family: Family, variant: Variant) -> str | None:
    for dtype in variant.dtypes:
        if not any(variant.takes(block, dtype) for block in variant.blocks):
            return f"leaves no block for {dtype}, which the variant says that it has"
    return None


def _source_fault(family: Family, variant: Variant) -> str | None:
    source = Build(family, variant, variant.blocks[0], variant.dtypes[0]).source
    if variant.library or source.is_file():
        return None
    return f"is missing: there is no file {source.relative_to(family.root)}"


def _needs_fault(family: Family, variant: Variant) -> str | None:
    needs = variant.needs
    return None if isinstance(needs, Capability) else f"is {needs!r}: give a Capability, such as Capability(8, 0)"


def _axis_fault(family: Family, variant: Variant) -> str | None:
    if family.result is None:
        return None
    rank = len(family.result(family.test_shapes[0])[1])
    for axis in (variant.x, *([] if variant.y is None else [variant.y])):
        if not _is_count(axis, 0) or axis >= rank:
            return f"or y is {axis!r}: the result has the axes {', '.join(map(str, range(rank)))}"
    return f"and y are both {variant.x}" if variant.x == variant.y else None


def _bench_shapes_fault(family: Family, variant: Variant) -> str | None:
    for dtype, shapes in (variant.bench_shapes or {}).items():
        if dtype not in C_TYPES:
            return f"has shapes for {dtype!r}, which is no element type; there are {', '.join(C_TYPES)}"
        if fault := shapes_fault(family, shapes):
            return fault
    return None


def _work_fault(family: Family, variant: Variant) -> str | None:
    """Check the family's formula on the shapes that only this variant is timed on."""
    pairs = ((shape, dtype) for dtype, shapes in (variant.bench_shapes or {}).items() for shape in shapes)
    return next(filter(None, (work_fault(family, shape, dtype) for shape, dtype in pairs)), None)


def _pair_fault(field: str) -> Callable[[Family, Variant], str | None]:
    """Make the rule of ``threads`` or ``tile``, which give two counts for a block."""

    def fault(family: Family, variant: Variant) -> str | None:
        counts: Callable[[Block], object] | None = getattr(variant, field)
        for block in variant.blocks if counts else ():
            pair = counts(block) if counts else None
            if not isinstance(pair, tuple) or len(pair) != 2 or not all(map(_is_count, pair)):
                return f"of {size_name(block)} is {pair!r}: give two whole numbers from 1 on, (x, y)"
        return None

    return fault


def _shared_fault(family: Family, variant: Variant) -> str | None:
    for case in _cases(family, variant):
        size = variant.shared_bytes(case.shape, case.build.block, case.itemsize)
        if not _is_count(size, 0):
            return f"of {case.id} is {size!r}: give a whole number of bytes"
    return None


def _macros_fault(family: Family, variant: Variant) -> str | None:
    for block in variant.blocks:
        for name, value in variant.macros(block).items():
            if not re.fullmatch(r"[A-Za-z_]\w*", str(name), re.ASCII) or not isinstance(value, int | np.integer):
                return f"of {size_name(block)} has {name!r} = {value!r}: a macro is a name and a whole number"
    return None


def _entry_fault(family: Family, variant: Variant) -> str | None:
    ends = [variant.entry(shape) for shape in family.test_shapes]
    wrong = [end for end in ends if not isinstance(end, str) or not re.fullmatch(r"\w*", end, re.ASCII)]
    return f"is {wrong[0]!r}: give what follows the kernel's name, or nothing" if wrong else None


def _arguments_fault(family: Family, variant: Variant) -> str | None:
    if variant.library:
        return None
    for shape in family.test_shapes:
        count = len(family.operands(shape)) + (family.result is not None)
        arguments = variant.arguments([FIRST_POINTER + i * SPACING for i in range(count)], shape)
        for i, value in enumerate(arguments, 1):
            if not isinstance(value, np.generic):
                cure = "NumPy's scalars, such as np.int32(5), say how many bytes the kernel takes"
                return f"has {value!r} of Python's type {type(value).__name__} as number {i}: {cure}"
    return None


def _constant_fault(family: Family, variant: Variant) -> str | None:
    operands = family.operands(family.test_shapes[0])
    if not variant.constant or variant.constant in operands:
        return None
    return f"is {variant.constant!r}, which is no operand; there are {', '.join(operands)}"


def _owner_fault(family: Family, variant: Variant) -> str | None:
    """Check the owner of the first and the last element, which several fields determine."""
    if not family.result or variant.has_no_block:
        return None
    case = next(iter(_cases(family, variant)))
    _, size = family.result(case.shape)
    grid = case.launch.grid
    for index in ((0,) * len(size), tuple(each - 1 for each in size)):
        block = case.owner(index).block
        if not all(0 <= mine < most for mine, most in zip(block, grid, strict=False)):
            return f"of {case.id} says that block {block} writes the element {index}; the grid is {grid}"
    return None


def _fallback_fault(family: Family, variant: Variant) -> str | None:
    for case in _cases(family, variant):
        said = variant.fallback(case.shape, case.itemsize)
        if not isinstance(said, str):
            return f"of {case.shape_name} is {said!r}: give words, or an empty string"
    return None


def _cases(family: Family, variant: Variant) -> Iterable[Case]:
    """List the variant's cases on the shapes that its family is tested on."""
    shapes: tuple[Shape, ...] = family.test_shapes
    for dtype in variant.dtypes:
        for block in variant.blocks:
            if variant.takes(block, dtype):
                yield from (Case(Build(family, variant, block, dtype), shape) for shape in shapes)


VARIANT_RULES: Mapping[str, Callable[[Family, Variant], str | None]] = {
    "name": lambda family, variant: name_fault(variant),
    "library": _library_fault,
    "dtypes": _dtypes_fault,
    "blocks": _blocks_fault,
    "takes": _takes_fault,
    "source": _source_fault,
    "needs": _needs_fault,
    "x": _axis_fault,
    "bench_shapes": _bench_shapes_fault,
    "work": _work_fault,
    "threads": _pair_fault("threads"),
    "tile": _pair_fault("tile"),
    "shared_bytes": _shared_fault,
    "macros": _macros_fault,
    "entry": _entry_fault,
    "arguments": _arguments_fault,
    "constant": _constant_fault,
    "owner": _owner_fault,
    "fallback": _fallback_fault,
}
