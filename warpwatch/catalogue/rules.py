"""Rules for the declarations of families and variants.

A rule belongs to a field and yields checks (plausibility.py): a test, and the sentence that holds where it fails. Rules
are asked in the order of the tables at the end, and each relies on those before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from warpwatch.catalogue.arrays import DeclaredArray, Role, Scalar, Shape
from warpwatch.catalogue.by_name import asked_for, call
from warpwatch.catalogue.calls import Call, PythonPackage
from warpwatch.catalogue.cases import Build, Case, Checks, exists, given_of
from warpwatch.catalogue.declaration import LARGEST_SIZE, Family, arrays_of
from warpwatch.catalogue.elements import C_TYPES, NONE, no_word, word_of
from warpwatch.catalogue.launches import Capability, Step
from warpwatch.catalogue.names import size_name
from warpwatch.catalogue.plausibility import (
    draw_checks,
    is_count,
    reference_checks,
    tolerance_checks,
    within,
    work_checks,
)
from warpwatch.catalogue.tolerance import Rule
from warpwatch.catalogue.variants import Benchmarks, Variant

NAME = r"[a-z][a-z0-9_]*"
TYPES = [name for name in C_TYPES if name != NONE]
# What functions of a declaration are given besides the sizes and arrays, which therefore cannot have these names.
RESERVED = {"shape", "sizes", "dtype", "itemsize", "part", "magnitudes", "rng", "exact", "at", "padding", "stream"}
NO_SIZES = RESERVED | {"block", "configuration", "index", "offset"}  # which functions ask for beside the sizes
FIRST_POINTER, SPACING = 1 << 44, 1 << 40  # addresses that are never accessed


def _name(declared: Family | Variant) -> Checks:
    name = declared.name
    cure = "a name has lower-case letters, digits and _ alone, because case ids are split at '-'"
    yield isinstance(name, str) and re.fullmatch(NAME, name, re.ASCII), f"is {name!r}: {cure}"


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name.isidentifier()


def _folder(family: Family) -> Checks:
    is_folder = isinstance(family.folder, Path) and family.folder.is_dir()
    yield is_folder, f"is {str(family.folder)!r}, which is not a folder: give Path(__file__).parent"


def _sizes(family: Family) -> Checks:
    sizes = family.sizes
    are_names = isinstance(sizes, tuple) and sizes and all(isinstance(size, str) and size for size in sizes)
    yield are_names, f"is {sizes!r}: give a tuple of names, such as ('m', 'n')"
    for size in sorted(sizes):
        yield size not in NO_SIZES, f"has {size!r}, by which functions ask for something else: choose another name"
    yield len(set(sizes)) == len(sizes), f"is {sizes!r}, which names a size twice"


def _scalars(family: Family) -> Checks:
    for name, scalar in family.scalars.items():
        is_scalar = isinstance(scalar, Scalar) and scalar.dtype in ("", *TYPES)
        cure = "give a Scalar of a value and a type, such as Scalar(1e-5, 'float32')"
        yield is_scalar, f"has {name!r} = {scalar!r}: {cure}"
        yield _is_free(name, {*family.sizes, *NO_SIZES}), f"has {name!r}, {TAKEN}"


TAKEN = "which is not a name or stands for something else too: choose another"


def _is_free(name: object, taken: Container[object]) -> bool:
    return _is_name(name) and name not in taken


def _fits(family: Family) -> Checks:
    problem = family.problem_of((1,) * len(family.sizes))
    yield problem is None or isinstance(problem, str), f"returns {problem!r}: give a sentence, or None"


def _variants(family: Family) -> Checks:
    variants = family.variants
    yield isinstance(variants, tuple) and variants, "is empty or not a tuple: a family needs at least one variant"
    for variant in variants:
        cure = "make it by kernel(), call() or serial()"
        yield isinstance(variant, Variant), f"holds {variant!r}, which is not a Variant: {cure}"


def _dtypes(dtypes: object) -> Checks:
    """Check a list of element types."""
    if not isinstance(dtypes, tuple):
        yield False, f"is {dtypes!r}: give a tuple of element types, such as ('float32',)"
        return
    for dtype in dtypes:
        yield dtype in TYPES, f"has {dtype!r}, which is not an element type; there are {', '.join(TYPES)}"
    yield len(set(dtypes)) == len(dtypes), f"names an element type twice: {', '.join(dtypes)}"


def _shapes(family: Family, shapes: tuple[Shape, ...]) -> Checks:
    count = len(family.sizes)
    yield isinstance(shapes, tuple), f"has {shapes!r} where a tuple of shapes is due"
    for i, shape in enumerate(shapes):
        is_shape = isinstance(shape, tuple) and len(shape) == count and all(map(_is_size, shape))
        cure = f"a tuple of {count} ({', '.join(family.sizes)}) whole numbers from 1 to {LARGEST_SIZE:,}"
        yield is_shape, f"has {shape!r}: a shape is {cure}"
        yield not (problem := family.problem_of(shape)), f"has {shape!r}: {problem}"
        yield shape not in shapes[:i], f"has {shape!r} twice"


def _is_size(value: object) -> bool:
    return isinstance(value, int) and is_count(value) and value <= LARGEST_SIZE


def _tests(family: Family) -> Checks:
    yield from _shapes(family, family.tests)
    yield family.tests, "is empty: nothing is tested"


def _benchmarks(family: Family, benchmarks: Benchmarks, known: Callable[[], Iterable[str]]) -> Checks:
    """Check the shapes that are timed. ``known``: -> element types that they may name."""
    for dtype, shapes in benchmarks.items() if isinstance(benchmarks, Mapping) else [("", benchmarks)]:
        if dtype:
            listed = ", ".join(known())
            yield dtype in known(), f"has shapes for {dtype!r}, which is none of the element types {listed}"
        yield from _shapes(family, shapes)


def _arrays(family: Family) -> Checks:
    for shape in _every_shape(family):
        declared, words = call(family.arrays, family.given(shape, next(iter(types(family)), NONE))), size_name(shape)
        cure = "give a name and In, Out, InOut or Scratch for each"
        yield isinstance(declared, Mapping), f"of {words} is {declared!r}: {cure}"
        for name, array in declared.items():
            yield from within(f"of {words} has {name!r}", _array(family, name, array))
        writes = family.prints or any(array.is_result for array in declared.values())
        yield writes, "has no Out or InOut, and prints is None: a kernel writes a result or prints lines"


def _array(family: Family, name: object, array: Any) -> Checks:
    yield isinstance(array, DeclaredArray), f"= {array!r}: declare it by In, Out, InOut or Scratch"
    yield _is_name(name), "as a name: functions ask for arrays by name, so it must be one"
    taken = {*family.sizes, *family.scalars, *RESERVED}
    yield name not in taken, "as a name, which stands for something else too: choose another"
    is_drawn = family.draw and array.is_input
    yield array.shape is not None or is_drawn, "without a shape: give it one, or let `draw` make an input"
    is_shape = array.shape is None or _is_extent(array.shape)
    yield is_shape, f"of shape {array.shape!r}: a shape is one or more sizes above 0"
    own = all(variant.dtypes for variant in family.variants)
    has_type = array.dtype or family.dtypes or family.prints or own
    yield has_type, "without an element type, and the family has no `dtypes`: give one of them, such as 'float32'"
    yield array.dtype in ("", *C_TYPES), f"of type {array.dtype!r}, which does not exist"
    for dtype in [array.dtype] if array.dtype else types(family):
        repeats = array.initial is None or word_of(array.initial, dtype) is not None
        yield repeats, f"which {no_word(array.initial, dtype)}"


def _is_extent(size: object) -> bool:
    return isinstance(size, tuple) and bool(size) and all(isinstance(each, int) and each > 0 for each in size)


def _every_shape(family: Family) -> list[Shape]:
    """List every shape that the family names, and the shape of ones, where even a small error of a formula shows."""
    own = [variant for variant in family.variants if variant.benchmarks is None]
    timed = (shape for dtype, v in product(types(family), own) for shape in family.benchmarks_of(v, dtype))
    shapes = dict.fromkeys([(1,) * len(family.sizes), *family.tests, *timed])
    return [shape for shape in shapes if not family.problem_of(shape)]


def types(family: Family) -> list[str]:
    """List the valid element types of its cases; an invalid one is a fault of its variant."""
    named = dict.fromkeys(dtype for variant in family.variants for dtype in _types_of(family, variant))
    return [dtype for dtype in named if dtype in C_TYPES and (dtype != NONE or bool(family.prints))]


def _types_of(family: Family, variant: Variant) -> tuple[str, ...]:
    given = variant.dtypes or family.dtypes
    return given if isinstance(given, tuple) and given else (family.own_type,)


def _serial_seconds(family: Family) -> Checks:
    for shape in _every_shape(family):
        seconds = call(family.serial_seconds, family.given(shape, types(family)[0]))
        is_time = isinstance(seconds, int | float) and 0 <= seconds < float("inf")
        yield is_time, f"of {size_name(shape)} is {seconds!r}: give a time in seconds"


def _work(family: Family) -> Checks:
    for shape, dtype in product(_every_shape(family), types(family)):
        yield from work_checks(family, shape, dtype)


def _of_each_type(checks: Callable[[Family, str], Checks], family: Family) -> Checks:
    """Make the checks of a family's results in every element type."""
    for dtype in () if family.prints else types(family):
        yield from checks(family, dtype)


def _tolerance(family: Family) -> Checks:
    """Check that ``tolerance`` is made of rules for existing results, and what they allow."""
    dtype, shape, chosen, cure = (
        types(family)[0],
        family.tests[0],
        family.tolerance,
        "give a rule, such as relative(1e-6)",
    )
    if callable(chosen):
        chosen = call(chosen, family.given(shape, dtype))
    yield isinstance(chosen, Mapping | Rule), f"is {chosen!r}: {cure}"
    known = [array.name for array in arrays_of(family, shape, dtype) if array.is_result]
    for name, rule in chosen.items() if isinstance(chosen, Mapping) else ():
        yield name in known, f"names {name!r}, which is not a result; there are {', '.join(known)}"
        yield isinstance(rule, Rule), f"of {name} is {rule!r}: {cure}"
    yield from _of_each_type(tolerance_checks, family)


def _call(family: Family, variant: Variant) -> Checks:
    is_call = variant.call is None or isinstance(variant.call, Call)
    yield is_call, f"is {variant.call!r}: declare it by call(), which says how its work is queued"
    yield not (variant.call and variant.on_host), "is given, and on_host too: a variant is one or the other"


def _function(family: Family, variant: Variant) -> Checks:
    """Check that the function of a call asks for what it can be given."""
    if variant.call:
        case = next(iter(_cases(family, variant)))
        given = [*(array.name for array in case.arrays), *case.given, "stream"]
        for name in sorted(asked_for(variant.call.prepare)[0]):
            yield name in given, f"asks for {name!r}; it can be given {', '.join(given)}"


def _own_dtypes(family: Family, variant: Variant) -> Checks:
    if variant.dtypes is not None:
        yield from _dtypes(variant.dtypes)
        yield variant.dtypes, "is empty: name at least one element type, or leave it out"


def _configurations(family: Family, variant: Variant) -> Checks:
    given, most = variant.configurations, 3 if variant.grid or variant.launches else 2
    if variant.has_no_block:
        yield given == ((),), f"is {given!r}: on the host and of a call there is none"
        return
    try:
        block = variant.listed[0].block
    except ValueError as error:
        yield False, str(error)
        return
    yield block or variant.launches, "is left out: give at least one block, such as ((16, 16),)"
    cure = "a block is one or two whole numbers, or three where `grid` is given"
    yield len(block) <= most, f"has {block!r}: {cure}"


def _takes(family: Family, variant: Variant) -> Checks:
    for dtype in family.dtypes_of(variant):
        some = any(exists(variant, configuration, dtype) for configuration in variant.listed)
        yield some, f"leaves no configuration for {dtype}, which the variant says that it has"


def _source(family: Family, variant: Variant) -> Checks:
    source = Build(family, variant, variant.listed[0], family.dtypes_of(variant)[0]).source
    shown = source.relative_to(family.root) if source.is_relative_to(family.root) else source
    is_there = variant.call or callable(variant.source) or source.is_file()
    yield is_there, f"is missing: there is no file {shown}"


def _include(family: Family, variant: Variant) -> Checks:
    yield (
        isinstance(variant.include, tuple),
        f"is {variant.include!r}: give a tuple of folders, such as ('../include',)",
    )
    for folder in variant.include:
        is_folder = (family.folder / folder).is_dir()
        yield is_folder, f"names {folder!r}, which is not a folder in {family.folder.name}"


def _flags(family: Family, variant: Variant) -> Checks:
    are_options = isinstance(variant.flags, tuple) and all(isinstance(flag, str) for flag in variant.flags)
    yield are_options, f"is {variant.flags!r}: give a tuple of options, such as ('--use_fast_math',)"


def _needs(family: Family, variant: Variant) -> Checks:
    needs, cure = variant.capability, "give an architecture, such as 'sm_80'"
    yield isinstance(needs, Capability), f"is {needs!r}: {cure}"
    for package in (*variant.requires, *(variant.call.needs if variant.call else ())):
        if isinstance(package, PythonPackage):
            is_import_path = all(map(_is_name, package.name.split("."))) and not package.name.startswith("sm_")
            yield is_import_path, f"has {package.name!r}: {cure}, or a package that is imported"


def _axes(family: Family, variant: Variant) -> Checks:
    result = family.result_shape(family.tests[0])
    if result is None or not variant.follows_tiles:
        return
    listed = ", ".join(map(str, range(len(result))))
    for axis in (variant.x, *([] if variant.y is None else [variant.y])):
        cure = f"the result has the axes {listed}; give x, y (y=None where there is none) or grid"
        yield is_count(axis, 0) and axis < len(result), f"or y is {axis!r}: {cure}"
    yield variant.x != variant.y, f"and y are both {variant.x}"


def _own_work(family: Family, variant: Variant) -> Checks:
    """Check the family's formula on the shapes that only this variant is timed on."""
    for dtype in family.dtypes_of(variant) if variant.benchmarks else ():
        for shape in family.benchmarks_of(variant, dtype):
            yield from work_checks(family, shape, dtype)


def _pair(field: str, family: Family, variant: Variant) -> Checks:
    """Check ``threads`` or ``tile``, which give two counts for a block."""
    counts = getattr(variant, field)
    for case in _cases(family, variant) if counts else ():
        pair = call(counts, case.given)
        is_pair = isinstance(pair, tuple) and len(pair) == len("xy") and all(map(is_count, pair))
        yield is_pair, f"of {size_name(case.build.block)} is {pair!r}: give two whole numbers from 1 on, (x, y)"


def _shared_bytes(family: Family, variant: Variant) -> Checks:
    for case in _cases(family, variant):
        yield from _bytes(case, variant.shared_bytes)


def _bytes(case: Case, given: Any) -> Checks:
    size = case.value(given)
    yield is_count(size, 0), f"of {case.id} is {size!r}: give a whole number of bytes"


def _macros(family: Family, variant: Variant) -> Checks:
    for case in _cases(family, variant) if variant.macros else ():
        assert variant.macros
        for name, value in call(variant.macros, given_of(case.build.configuration, case.dtype)).items():
            is_macro = re.fullmatch(r"[A-Za-z_]\w*", str(name), re.ASCII) and isinstance(value, int | np.integer | str)
            cure = "a macro is a name, and a whole number or a text"
            yield is_macro, f"of {size_name(case.build.block)} has {name!r} = {value!r}: {cure}"


def _scratch(family: Family, variant: Variant) -> Checks:
    for case in _cases(family, variant) if variant.scratch else ():
        assert variant.scratch
        declared = call(variant.scratch, case.given)
        yield isinstance(declared, Mapping), f"of {case.id} is {declared!r}: give a name and Scratch for each array"
        taken = {*(array.name for array in arrays_of(family, case.shape, case.dtype)), *case.given, *RESERVED}
        for name, array in declared.items():
            is_scratch = isinstance(array, DeclaredArray) and array.role is Role.SCRATCH
            yield is_scratch, f"of {case.id} has {name!r} = {array!r}: declare it by Scratch"
            yield _is_free(name, taken), f"of {case.id} has {name!r}, {TAKEN}"


def _entry(family: Family, variant: Variant) -> Checks:
    for case in _cases(family, variant):
        name = case.value(variant.entry or case.build.entry)
        yield isinstance(name, str) and name.strip(), f"is {name!r}: give the kernel's name"


def _extent(field: str, family: Family, variant: Variant) -> Checks:
    """Check ``grid`` or ``cluster``, which are one to three counts."""
    whole = field != "cluster" or variant.cluster == 1 or variant.grid
    yield whole, "is given without `grid`: say how many blocks there are, which clusters divide"
    for case in _cases(family, variant):
        yield from _counts(case, getattr(variant, field))


def _counts(case: Case, given: Any) -> Checks:
    """Check a field of a launch that is one to three counts, or left out."""
    sizes = case.value(given)
    each = tuple(sizes) if isinstance(sizes, tuple | list) else (sizes,)
    are_counts = given == () or (1 <= len(each) <= len("xyz") and all(map(is_count, each)))
    yield are_counts, f"of {case.id} is {sizes!r}: give one to three whole numbers from 1 on"


def _launches(family: Family, variant: Variant) -> Checks:
    """Check the steps of a variant that has several launches."""
    for step in variant.launches:
        yield isinstance(step, Step), f"holds {step!r}, which is not a Step: give ww.Step for each launch"
    for step, case in product(variant.launches, _cases(family, variant) if variant.launches else ()):
        is_named = isinstance(step.entry, str) and step.entry.strip()
        yield is_named, f"has a step of the kernel {step.entry!r}: give the kernel's name"
        for field in ("grid", "block", "cluster"):
            yield from within(f"of {step.entry}: {field}", _counts(case, getattr(step, field)))
        yield from within(f"of {step.entry}: shared_bytes", _bytes(case, step.shared_bytes))
        cure = "and the variant has no configurations with one: give block="
        yield step.block or case.build.block, f"of {step.entry} has no block, {cure}"


def _arguments(family: Family, variant: Variant) -> Checks:
    given = [variant.arguments, *(step.arguments for step in variant.launches)]
    cases = _cases if any(map(callable, given)) else _cases_of_every_shape
    for case in () if variant.call else cases(family, variant):
        at = {array.name: FIRST_POINTER + i * SPACING for i, array in enumerate(case.arrays)}
        for step in case.steps:
            for i, value in enumerate(case.arguments(step, at), 1):
                if not isinstance(value, np.generic):
                    cure = "NumPy's scalars, such as np.int32(5), say how many bytes the kernel takes"
                    yield False, f"has {value!r} of Python's type {type(value).__name__} as number {i}: {cure}"


def _symbols(family: Family, variant: Variant) -> Checks:
    known = [array.name for array in next(iter(_cases(family, variant))).inputs]
    for name in variant.symbols.values():
        yield name in known, f"has {name!r}, which is not an input; there are {', '.join(known)}"


def _owner(family: Family, variant: Variant) -> Checks:
    """Check the owner of the first and the last element, which several fields determine."""
    if family.prints or not variant.follows_tiles:
        return
    case = next(iter(_cases(family, variant)))
    size, grid = case.results[0].shape, case.launch.grid
    for index in ((0,) * len(size), tuple(each - 1 for each in size)):
        if owner := case.owner(index):
            is_in_grid = all(0 <= mine < most for mine, most in zip(owner.block, grid, strict=False))
            writes = f"says that block {owner.block} writes the element {index}; the grid is {grid}"
            yield is_in_grid, f"of {case.id} {writes}"


def _fallback(family: Family, variant: Variant) -> Checks:
    for case in _cases(family, variant) if variant.fallback else ():
        words = case.fallback
        yield isinstance(words, str), f"of {case.shape_name} is {words!r}: give words, or an empty string"


def _cases(family: Family, variant: Variant) -> Iterable[Case]:
    """List the variant's cases on the shapes that its family is tested on."""
    for dtype, configuration in product(family.dtypes_of(variant), variant.listed):
        if exists(variant, configuration, dtype):
            yield from (Case(Build(family, variant, configuration, dtype), shape) for shape in family.tests)


def _cases_of_every_shape(family: Family, variant: Variant) -> Iterable[Case]:
    """List a case of each shape that the variant is tested or timed on, for what no configuration changes.

    A size may fit into 32 bits on every shape that is tested, and not on one that is timed.
    """
    for dtype in family.dtypes_of(variant):
        configuration = next(each for each in variant.listed if exists(variant, each, dtype))
        timed = () if family.draw else family.benchmarks_of(variant, dtype)  # drawing large inputs takes its time
        for shape in dict.fromkeys((*family.tests, *timed)):
            yield Case(Build(family, variant, configuration, dtype), shape)


FAMILY_RULES: Mapping[str, Callable[[Family], Checks]] = {
    "name": _name,
    "folder": _folder,
    "sizes": _sizes,
    "scalars": _scalars,
    "fits": _fits,
    "variants": _variants,
    "dtypes": lambda family: _dtypes(family.dtypes),
    "tests": _tests,
    "benchmarks": lambda family: _benchmarks(family, family.benchmarks, lambda: types(family)),
    "arrays": _arrays,
    "draw": partial(_of_each_type, draw_checks),
    "serial_seconds": _serial_seconds,
    "work": _work,
}
# Those that let the reference compute, which may take long, or end the process.
COMPUTED_RULES: Mapping[str, Callable[[Family], Checks]] = {
    "reference": partial(_of_each_type, reference_checks),
    "tolerance": _tolerance,
}
VARIANT_RULES: Mapping[str, Callable[[Family, Variant], Checks]] = {
    "name": lambda family, variant: _name(variant),
    "call": _call,
    "dtypes": _own_dtypes,
    "configurations": _configurations,
    "takes": _takes,
    "source": _source,
    "include": _include,
    "flags": _flags,
    "needs": _needs,
    "x": _axes,
    "benchmarks": lambda family, variant: _benchmarks(family, variant.benchmarks or (), lambda: TYPES),
    "work": _own_work,
    "threads": partial(_pair, "threads"),
    "tile": partial(_pair, "tile"),
    "shared_bytes": _shared_bytes,
    "macros": _macros,
    "scratch": _scratch,
    "launches": _launches,
    "entry": _entry,
    "grid": partial(_extent, "grid"),
    "cluster": partial(_extent, "cluster"),
    "function": _function,
    "arguments": _arguments,
    "symbols": _symbols,
    "owner": _owner,
    "fallback": _fallback,
}
