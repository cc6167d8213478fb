"""Rules for the declarations of families and variants, one for each field; a rule relies on those before it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from warpwatch.catalogue.arrays import DeclaredArray, Role, Scalar, Shape
from warpwatch.catalogue.by_name import asked_for, call
from warpwatch.catalogue.calls import Call, PythonPackage
from warpwatch.catalogue.cases import Build, Case, exists, given_of
from warpwatch.catalogue.declaration import LARGEST_SIZE, Family, arrays_of
from warpwatch.catalogue.elements import C_TYPES, NONE, no_word, word_of
from warpwatch.catalogue.launches import Capability, Step
from warpwatch.catalogue.names import size_name
from warpwatch.catalogue.plausibility import draw_fault, reference_fault, tolerance_fault, work_fault
from warpwatch.catalogue.tolerance import Rule
from warpwatch.catalogue.variants import Benchmarks, Variant

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


FIRST_POINTER, SPACING = 1 << 44, 1 << 40  # addresses that are never accessed


def _call_fault(family: Family, variant: Variant) -> str | None:
    if variant.call is not None and not isinstance(variant.call, Call):
        return f"is {variant.call!r}: declare it by call(), which says how its work is queued"
    return "is given, and on_host too: a variant is one or the other" if variant.call and variant.on_host else None


def _function_fault(family: Family, variant: Variant) -> str | None:
    """Check that the function of a call asks for what it can be given."""
    if not variant.call:
        return None
    case = next(iter(_cases(family, variant)))
    there = [*(array.name for array in case.arrays), *case.given, "stream"]
    unknown = sorted(asked_for(variant.call.prepare)[0] - set(there))
    return f"asks for {unknown[0]!r}; it can be given {', '.join(there)}" if unknown else None


def _dtypes_fault(family: Family, variant: Variant) -> str | None:
    if variant.dtypes is None:
        return None
    return dtypes_fault(variant.dtypes) or (
        None if variant.dtypes else "is empty: name at least one element type, or leave it out"
    )


def _configurations_fault(family: Family, variant: Variant) -> str | None:
    if variant.has_no_block:
        given = variant.configurations
        return None if given == ((),) else f"is {given!r}: on the host and of a call there is none"
    try:
        listed = variant.listed
    except ValueError as error:
        return str(error)
    most = 3 if variant.grid or variant.launches else 2
    if not listed[0].block and not variant.launches:
        return "is left out: give at least one block, such as ((16, 16),)"
    if len(listed[0].block) > most:
        return f"has {listed[0].block!r}: a block is one or two whole numbers, or three where `grid` is given"
    return None


def _is_count(value: object, least: int = 1) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= least


def _takes_fault(family: Family, variant: Variant) -> str | None:
    for dtype in family.dtypes_of(variant):
        if not any(exists(variant, configuration, dtype) for configuration in variant.listed):
            return f"leaves no configuration for {dtype}, which the variant says that it has"
    return None


def _source_fault(family: Family, variant: Variant) -> str | None:
    source = Build(family, variant, variant.listed[0], family.dtypes_of(variant)[0]).source
    if variant.call or callable(variant.source) or source.is_file():
        return None
    shown = source.relative_to(family.root) if source.is_relative_to(family.root) else source
    return f"is missing: there is no file {shown}"


def _include_fault(family: Family, variant: Variant) -> str | None:
    if not isinstance(variant.include, tuple):
        return f"is {variant.include!r}: give a tuple of folders, such as ('../include',)"
    missing = [folder for folder in variant.include if not (family.folder / folder).is_dir()]
    return f"names {missing[0]!r}, which is no folder in {family.folder.name}" if missing else None


def _flags_fault(family: Family, variant: Variant) -> str | None:
    if isinstance(variant.flags, tuple) and all(isinstance(flag, str) for flag in variant.flags):
        return None
    return f"is {variant.flags!r}: give a tuple of options, such as ('--use_fast_math',)"


def _needs_fault(family: Family, variant: Variant) -> str | None:
    needs = variant.capability
    if not isinstance(needs, Capability):
        return f"is {needs!r}: give an architecture, such as 'sm_80'"
    packages = (*variant.requires, *(variant.call.needs if variant.call else ()))
    wrong = [each.name for each in packages if isinstance(each, PythonPackage) and not _is_import_path(each.name)]
    return f"has {wrong[0]!r}: give an architecture, such as 'sm_80', or a package that is imported" if wrong else None


def _is_import_path(name: str) -> bool:
    return all(part.isidentifier() for part in name.split(".")) and not name.startswith("sm_")


def _axis_fault(family: Family, variant: Variant) -> str | None:
    result = family.result_shape(family.tests[0])
    if result is None or not variant.follows_tiles:
        return None
    for axis in (variant.x, *([] if variant.y is None else [variant.y])):
        if not _is_count(axis, 0) or axis >= len(result):
            axes = ", ".join(map(str, range(len(result))))
            return f"or y is {axis!r}: the result has the axes {axes}; give x, y (y=None where there is none) or grid"
    return f"and y are both {variant.x}" if variant.x == variant.y else None


def _variant_benchmarks_fault(family: Family, variant: Variant) -> str | None:
    return benchmarks_fault(family, variant.benchmarks or (), lambda: TYPES)


def _variant_work_fault(family: Family, variant: Variant) -> str | None:
    """Check the family's formula on the shapes that only this variant is timed on."""
    chosen = [(shape, dtype) for dtype in family.dtypes_of(variant) for shape in family.benchmarks_of(variant, dtype)]
    return next(filter(None, (work_fault(family, *each) for each in chosen)), None) if variant.benchmarks else None


def _pair_fault(field: str) -> Callable[[Family, Variant], str | None]:
    """Make the rule of ``threads`` or ``tile``, which give two counts for a block."""

    def fault(family: Family, variant: Variant) -> str | None:
        counts = getattr(variant, field)
        for case in _cases(family, variant) if counts else ():
            pair = call(counts, case.given)
            if not isinstance(pair, tuple) or len(pair) != 2 or not all(map(_is_count, pair)):
                return f"of {size_name(case.build.block)} is {pair!r}: give two whole numbers from 1 on, (x, y)"
        return None

    return fault


def _shared_fault(family: Family, variant: Variant) -> str | None:
    for case in _cases(family, variant):
        given = variant.shared_bytes
        size = call(given, case.given) if callable(given) else given
        if not _is_count(size, 0):
            return f"of {case.id} is {size!r}: give a whole number of bytes"
    return None


def _macros_fault(family: Family, variant: Variant) -> str | None:
    for case in _cases(family, variant) if variant.macros else ():
        given = given_of(case.build.configuration, case.dtype)
        for name, value in (call(variant.macros, given) if variant.macros else {}).items():
            if not re.fullmatch(r"[A-Za-z_]\w*", str(name), re.ASCII) or not isinstance(value, int | np.integer | str):
                cure = "a macro is a name, and a whole number or a text"
                return f"of {size_name(case.build.block)} has {name!r} = {value!r}: {cure}"
    return None


def _scratch_fault(family: Family, variant: Variant) -> str | None:
    for case in _cases(family, variant) if variant.scratch else ():
        declared = call(variant.scratch, case.given) if variant.scratch else {}
        if not isinstance(declared, Mapping):
            return f"of {case.id} is {declared!r}: give a name and Scratch for each array"
        taken = {*(array.name for array in arrays_of(family, case.shape, case.dtype)), *case.given, *RESERVED}
        for name, array in declared.items():
            if not isinstance(array, DeclaredArray) or array.role is not Role.SCRATCH:
                return f"of {case.id} has {name!r} = {array!r}: declare it by Scratch"
            if not isinstance(name, str) or not name.isidentifier() or name in taken:
                return f"of {case.id} has {name!r}, which is no name or stands for something else too: choose another"
    return None


def _entry_fault(family: Family, variant: Variant) -> str | None:
    for case in _cases(family, variant):
        name = call(variant.entry, case.given) if callable(variant.entry) else variant.entry or case.build.entry
        if not isinstance(name, str) or not name.strip():
            return f"is {name!r}: give the kernel's name"
    return None


def _variant_extent_fault(field: str) -> Callable[[Family, Variant], str | None]:
    """Make the rule of ``grid`` or ``cluster``, which are one to three counts."""

    def fault(family: Family, variant: Variant) -> str | None:
        if field == "cluster" and variant.cluster != 1 and not variant.grid:
            return "is given without `grid`: say how many blocks there are, which clusters divide"
        found = (_wrong_extent(case, getattr(variant, field)) for case in _cases(family, variant))
        return next(filter(None, found), None)

    return fault


def _wrong_extent(case: Case, given: Any) -> str | None:
    """Return what is wrong with a field of a launch that is one to three counts, or left out, or None."""
    sizes = call(given, case.given) if callable(given) else given
    each = tuple(sizes) if isinstance(sizes, tuple | list) else (sizes,)
    if given != () and not (1 <= len(each) <= len("xyz") and all(map(_is_count, each))):
        return f"of {case.id} is {sizes!r}: give one to three whole numbers from 1 on"
    return None


def _launches_fault(family: Family, variant: Variant) -> str | None:
    """Check the steps of a variant that has several launches."""
    if wrong := [step for step in variant.launches if not isinstance(step, Step)]:
        return f"holds {wrong[0]!r}, which is no Step: give ww.Step for each launch"
    for step, case in ((step, case) for step in variant.launches for case in _cases(family, variant)):
        if not isinstance(step.entry, str) or not step.entry.strip():
            return f"has a step of the kernel {step.entry!r}: give the kernel's name"
        for field in ("grid", "block", "cluster"):
            if fault := _wrong_extent(case, getattr(step, field)):
                return f"of {step.entry}: {field} {fault}"
        shared = call(step.shared_bytes, case.given) if callable(step.shared_bytes) else step.shared_bytes
        if not _is_count(shared, 0):
            return f"of {step.entry}: shared_bytes of {case.id} is {shared!r}: give a whole number of bytes"
        if not step.block and not case.build.block:
            return f"of {step.entry} has no block, and the variant has no configurations with one: give block="
    return None


def _arguments_fault(family: Family, variant: Variant) -> str | None:
    if variant.call:
        return None
    given = [variant.arguments, *(step.arguments for step in variant.launches)]
    for case in _cases(family, variant) if any(map(callable, given)) else _cases_of_every_shape(family, variant):
        at = {array.name: FIRST_POINTER + i * SPACING for i, array in enumerate(case.arrays)}
        for step in case.steps:
            for i, value in enumerate(case.arguments(step, at), 1):
                if not isinstance(value, np.generic):
                    cure = "NumPy's scalars, such as np.int32(5), say how many bytes the kernel takes"
                    return f"has {value!r} of Python's type {type(value).__name__} as number {i}: {cure}"
    return None


def _symbols_fault(family: Family, variant: Variant) -> str | None:
    known = [array.name for array in next(iter(_cases(family, variant))).inputs]
    wrong = [name for name in variant.symbols.values() if name not in known]
    return f"has {wrong[0]!r}, which is no input; there are {', '.join(known)}" if wrong else None


def _owner_fault(family: Family, variant: Variant) -> str | None:
    """Check the owner of the first and the last element, which several fields determine."""
    if family.prints or not variant.follows_tiles:
        return None
    case = next(iter(_cases(family, variant)))
    size, grid = case.results[0].shape, case.launch.grid
    for index in ((0,) * len(size), tuple(each - 1 for each in size)):
        owner = case.owner(index)
        if owner and not all(0 <= mine < most for mine, most in zip(owner.block, grid, strict=False)):
            return f"of {case.id} says that block {owner.block} writes the element {index}; the grid is {grid}"
    return None


def _fallback_fault(family: Family, variant: Variant) -> str | None:
    for case in _cases(family, variant):
        if not isinstance(said := case.fallback, str):
            return f"of {case.shape_name} is {said!r}: give words, or an empty string"
    return None


def _cases(family: Family, variant: Variant) -> Iterable[Case]:
    """List the variant's cases on the shapes that its family is tested on."""
    for dtype in family.dtypes_of(variant):
        for configuration in variant.listed:
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


VARIANT_RULES: Mapping[str, Callable[[Family, Variant], str | None]] = {
    "name": lambda family, variant: name_fault(variant),
    "call": _call_fault,
    "dtypes": _dtypes_fault,
    "configurations": _configurations_fault,
    "takes": _takes_fault,
    "source": _source_fault,
    "include": _include_fault,
    "flags": _flags_fault,
    "needs": _needs_fault,
    "x": _axis_fault,
    "benchmarks": _variant_benchmarks_fault,
    "work": _variant_work_fault,
    "threads": _pair_fault("threads"),
    "tile": _pair_fault("tile"),
    "shared_bytes": _shared_fault,
    "macros": _macros_fault,
    "scratch": _scratch_fault,
    "launches": _launches_fault,
    "entry": _entry_fault,
    "grid": _variant_extent_fault("grid"),
    "cluster": _variant_extent_fault("cluster"),
    "function": _function_fault,
    "arguments": _arguments_fault,
    "symbols": _symbols_fault,
    "owner": _owner_fault,
    "fallback": _fallback_fault,
}
