"""Rules for the declaration of a variant, one for each field; a rule relies on those before it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from warpwatch.catalogue.arrays import DeclaredArray, Role
from warpwatch.catalogue.by_name import asked_for, call
from warpwatch.catalogue.calls import Call, PythonPackage
from warpwatch.catalogue.cases import Build, Case, exists, given_of
from warpwatch.catalogue.declaration import Family, arrays_of
from warpwatch.catalogue.family_rules import RESERVED, TYPES, benchmarks_fault, dtypes_fault, name_fault
from warpwatch.catalogue.launches import Capability, Step
from warpwatch.catalogue.names import size_name
from warpwatch.catalogue.variants import Variant
from warpwatch.catalogue.work_rules import work_fault

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


def _benchmarks_fault(family: Family, variant: Variant) -> str | None:
    return benchmarks_fault(family, variant.benchmarks or (), lambda: TYPES)


def _work_fault(family: Family, variant: Variant) -> str | None:
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


def _extent_fault(field: str) -> Callable[[Family, Variant], str | None]:
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
    "benchmarks": _benchmarks_fault,
    "work": _work_fault,
    "threads": _pair_fault("threads"),
    "tile": _pair_fault("tile"),
    "shared_bytes": _shared_fault,
    "macros": _macros_fault,
    "scratch": _scratch_fault,
    "launches": _launches_fault,
    "entry": _entry_fault,
    "grid": _extent_fault("grid"),
    "cluster": _extent_fault("cluster"),
    "function": _function_fault,
    "arguments": _arguments_fault,
    "symbols": _symbols_fault,
    "owner": _owner_fault,
    "fallback": _fallback_fault,
}
