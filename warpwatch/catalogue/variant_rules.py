"""Rules for the declarations of variants, which are asked as those for families are (rules.py)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain, product
from typing import Any

import numpy as np

from warpwatch.catalogue.accepted import Accept, BadComment, comments_in
from warpwatch.catalogue.arrays import DeclaredArray, Role
from warpwatch.catalogue.calls import Call, PythonPackage
from warpwatch.catalogue.cases import Build, Case, Checks, exists, given_of
from warpwatch.catalogue.contracts import LEAST, MOST, RESOURCES, faults
from warpwatch.catalogue.declaration import Family, arrays_of, is_drawn_by_run
from warpwatch.catalogue.launches import Capability, Step
from warpwatch.catalogue.named_arguments import asked_for, call
from warpwatch.catalogue.names import size_name
from warpwatch.catalogue.rules import (
    RESERVED,
    at,
    benchmarks_rule,
    deterministic_rule,
    dtypes_rule,
    initial_rule,
    is_count,
    is_name,
    name_rule,
    same_for_rule,
    taken_name,
    valid_rule,
    within,
    work_checks,
)
from warpwatch.catalogue.texts import Text
from warpwatch.catalogue.variants import Variant

HOST_LIMIT = "limits what runs on the host, whose times are not judged: leave it out"
FIRST_POINTER, SPACING = 1 << 44, 1 << 40  # addresses that are never accessed
# Options of nvcc that change code alone: others name programs that it would run, or files that it would write.
PLAIN_FLAG = re.compile(
    r"--?(cubin|O[0-3]|std=c\+\+\d\d|lineinfo|generate-line-info|use_fast_math|restrict|fmad=\w+|ftz=\w+|prec-div=\w+"
    r"|prec-sqrt=\w+|maxrregcount=\d+|arch=sm_\d+a|extra-device-vectorization|expt-relaxed-constexpr|(expt-)?extended-lambda"
    r"|default-stream=[\w-]+|D\w+(=\w*)?|U\w+)"
)


def _own_dtypes(family: Family, variant: Variant) -> Checks:
    if variant.dtypes is not None:
        yield from dtypes_rule(variant.dtypes)
        yield variant.dtypes, "is empty: name at least one element type, or leave it out"


def _own_work(family: Family, variant: Variant) -> Checks:
    """Check the family's formula on the shapes that only this variant is timed on."""
    for dtype in family.dtypes_of(variant) if variant.benchmarks else ():
        for shape in family.benchmarks_of(variant, dtype):
            yield from within(at(shape, dtype), work_checks(family, shape, dtype))


def _call(family: Family, variant: Variant) -> Checks:
    yield (
        variant.call is None or isinstance(variant.call, Call),
        f"is {variant.call!r}: declare it by call(), which says how its work is queued",
    )
    yield not (variant.call and variant.on_host), "is given, and on_host too: a variant is one or the other"


def _function(family: Family, variant: Variant) -> Checks:
    """Check that the function of a call asks for what it can be given."""
    if variant.call:
        case = next(_cases(family, variant))
        given = [*(array.name for array in case.arrays), *case.given, "stream"]
        for name in sorted(asked_for(variant.call.prepare)[0]):
            yield name in given, f"asks for {name!r}; it can be given {', '.join(given)}"


def _configurations(family: Family, variant: Variant) -> Checks:
    given, most = variant.configurations, 3 if variant.grid or variant.launches else 2
    if variant.has_no_block:
        yield given == ((),), f"is {given!r}: on the host and of a call there is none"
        return
    try:
        block = variant.listed[0].block
    except ValueError as error:
        yield False, str(error)
    else:
        yield block or variant.launches, "is left out: give at least one block, such as ((16, 16),)"
        yield len(block) <= most, f"has {block!r}: a block is one or two whole numbers, or three where `grid` is given"


def _takes(family: Family, variant: Variant) -> Checks:
    for dtype in family.dtypes_of(variant):
        yield (
            any(exists(variant, configuration, dtype) for configuration in variant.listed),
            f"leaves no configuration for {dtype}, which the variant says that it has",
        )


def _source(family: Family, variant: Variant) -> Checks:
    if isinstance(text := variant.source, Text):
        yield not text.problem, text.problem
        kinds = {tuple(map(type, mark)) for mark in text.marks if isinstance(mark, tuple)}
        yield isinstance(text.code, str) and kinds <= {(int, str, int)}, "is not what ww.text or ww.from_python made"
        yield text.make or text.code.strip(), "is an empty text: give ww.text the kernel's CUDA C++"
        return
    yield not re.search(r"[\n{]", str(text)) or callable(text), "is CUDA C++, not a file: write source=ww.text(...)"
    source = Build(family, variant, variant.listed[0], family.dtypes_of(variant)[0]).source
    shown = source.relative_to(family.root) if source.is_relative_to(family.root) else source
    yield (
        variant.call or callable(variant.source) or source.is_file(),
        f"is missing: there is no file {shown}",
    )


def _include(family: Family, variant: Variant) -> Checks:
    include = variant.include
    yield isinstance(include, tuple), f"is {include!r}: give a tuple of folders, such as ('../include',)"
    for folder in include:
        is_folder = (family.folder / folder).is_dir()
        yield is_folder, f"names {folder!r}, which is not a folder in {family.folder.name}"


def _flags(family: Family, variant: Variant) -> Checks:
    yield (
        isinstance(variant.flags, tuple) and all(isinstance(flag, str) for flag in variant.flags),
        f"is {variant.flags!r}: give a tuple of options, such as ('--use_fast_math',)",
    )
    for flag in variant.flags if is_drawn_by_run() else ():
        yield PLAIN_FLAG.fullmatch(flag), f"has {flag!r}: --untrusted takes options that change code, and no others"


def _needs(family: Family, variant: Variant) -> Checks:
    needs, cure = variant.capability, "give an architecture, such as 'sm_80'"
    yield isinstance(needs, Capability), f"is {needs!r}: {cure}"
    for package in (*variant.requires, *(variant.call.needs if variant.call else ())):
        if isinstance(package, PythonPackage):
            yield (
                all(map(is_name, package.name.split("."))) and not package.name.startswith("sm_"),
                f"has {package.name!r}: {cure}, or a package that is imported",
            )


def _axes(family: Family, variant: Variant) -> Checks:
    if variant.follows_tiles and not family.prints:
        result = family.result_shape(family.tests[0])
        listed = ", ".join(map(str, range(len(result))))
        cure = f"the result has the axes {listed}; give x, y (y=None where there is none) or grid"
        for axis in (variant.x, *([] if variant.y is None else [variant.y])):
            yield is_count(axis, 0) and axis < len(result), f"or y is {axis!r}: {cure}"
        yield variant.x != variant.y, f"and y are both {variant.x}"


def _pair(field: str, case: Case) -> Checks:
    """Check ``threads`` or ``tile``, which give two counts for a block."""
    if counts := getattr(case.variant, field):
        pair = call(counts, case.given)
        yield (
            isinstance(pair, tuple) and len(pair) == len("xy") and all(map(is_count, pair)),
            f"of {size_name(case.build.block)} is {pair!r}: give two whole numbers from 1 on, (x, y)",
        )


def _bytes(case: Case, given: Any) -> Checks:
    size = case.count(given)
    yield is_count(size, 0), f"of {case.id} is {size!r}: give a whole number of bytes"


def _macros(case: Case) -> Checks:
    if case.variant.macros:
        given = given_of(case.build.configuration, case.dtype)
        for name, value in call(case.variant.macros, given).items():
            yield (
                re.fullmatch(r"[A-Za-z_]\w*", str(name), re.ASCII) and isinstance(value, int | np.integer | str),
                f"of {size_name(case.build.block)} has {name!r} = {value!r}: "
                "a macro is a name, and a whole number or a text",
            )


def _scratch(case: Case) -> Checks:
    if case.variant.scratch:
        declared = call(case.variant.scratch, case.given)
        yield isinstance(declared, Mapping), f"of {case.id} is {declared!r}: give a name and Scratch for each array"
        arrays = arrays_of(case.family, case.shape, case.dtype)
        taken = {*(array.name for array in arrays), *case.given, *RESERVED}
        for name, array in declared.items():
            yield (
                isinstance(array, DeclaredArray) and array.role is Role.SCRATCH,
                f"of {case.id} has {name!r} = {array!r}: declare it by Scratch",
            )
            yield is_name(name) and name not in taken, f"of {case.id} has {name!r}, {taken_name(taken)}"
            yield from within(f"of {case.id} has {name!r}", initial_rule(array, [array.dtype or case.dtype]))


def _entry(case: Case) -> Checks:
    name = case.value(case.variant.entry or case.build.entry)
    yield isinstance(name, str) and name.strip(), f"is {name!r}: give the kernel's name"


def _accept(family: Family, variant: Variant) -> Checks:
    source = Build(family, variant, variant.listed[0], family.dtypes_of(variant)[0]).source
    for each in variant.accept if isinstance(variant.accept, tuple) else (variant.accept,):
        is_whole = isinstance(each, Accept) and is_count(each.line) and all((each.kind, str(each.reason).strip()))
        yield is_whole, f"has {each!r}: give a tuple of ww.Accept('race', line=15, reason='why it is right')"
        yield not each.file or (family.folder / each.file).is_file(), f"names {each.file!r}, which is not a file"
    if source.suffix == ".cu" and source.is_file():
        try:
            list(comments_in(source.read_text(errors="replace")))
        except BadComment as error:
            yield False, f"of {source.name}, {error}"


def _cluster(family: Family, variant: Variant) -> Checks:
    yield (
        variant.cluster == 1 or variant.grid,
        "is given without `grid`: say how many blocks there are, which clusters divide",
    )
    for case in _cases(family, variant):
        yield from _counts(case, variant.cluster)


def _counts(case: Case, given: Any) -> Checks:
    """Check a field of a launch that is one to three counts, or left out."""
    sizes = case.counts(given)
    each = tuple(sizes) if isinstance(sizes, tuple | list) else (sizes,)
    yield (
        given == () or (1 <= len(each) <= len("xyz") and all(map(is_count, each))),
        f"of {case.id} is {sizes!r}: give one to three whole numbers from 1 on",
    )


def _launches(family: Family, variant: Variant) -> Checks:
    """Check the steps of a variant that has several launches."""
    own = not (variant.launches and variant.cooperative)
    yield own, "are steps, and cooperative=True is the variant's: give it to each ww.Step that needs it"
    for step in variant.launches:
        yield isinstance(step, Step), f"holds {step!r}, which is not a Step: give ww.Step for each launch"
    for i, step in enumerate(variant.launches):
        entries = [other.entry for other in variant.launches[:i]]
        for name, value in (("cooperative", step.cooperative), ("programmatic", step.programmatic)):
            yield isinstance(value, bool), f"has {step.entry} with {name} = {value!r}: give True or False"
        yield isinstance(step.stream, str), f"has a step of {step.entry} on the stream {step.stream!r}: give it a name"
        for name in step.awaited:
            yield (
                name in entries,
                f"has {step.entry} after {name!r}; the steps before it are {', '.join(entries) or 'none'}",
            )
    for i, step in enumerate(variant.launches):
        if step.programmatic:
            yield from _programmatic(variant, step.entry, is_first=i == 0)
    for step, case in product(variant.launches, _cases(family, variant) if variant.launches else ()):
        yield (
            isinstance(step.entry, str) and step.entry.strip(),
            f"has a step of the kernel {step.entry!r}: give the kernel's name",
        )
        for field in ("grid", "block", "cluster"):
            yield from within(f"of {step.entry}: {field}", _counts(case, getattr(step, field)))
        yield from within(f"of {step.entry}: shared_bytes", _bytes(case, step.shared_bytes))
        yield (
            step.block or case.build.block,
            f"of {step.entry}: block is missing; give it to the step, or give the variant configurations",
        )


HOPPER = Capability(9, 0)


def _programmatic(variant: Variant, entry: str, *, is_first: bool) -> Checks:
    what = f"has the programmatic step {entry}"
    yield not is_first, f"{what} first: give programmatic=True to a step that follows another one"
    one_stream = not any(step.stream for step in variant.launches)
    yield one_stream, f"{what} beside streams, between which events are waited for: give it one stream"
    yield variant.capability >= HOPPER, f'{what}, which GPUs before compute capability 9.0 cannot: give needs="sm_90"'


def _arguments(family: Family, variant: Variant) -> Checks:
    given = [variant.arguments, *(step.arguments for step in variant.launches)]
    cases = _cases if any(map(callable, given)) else _cases_of_every_shape
    for case in () if variant.call else cases(family, variant):
        at = {array.name: FIRST_POINTER + i * SPACING for i, array in enumerate(case.arrays)}
        for step in case.steps:
            for i, value in enumerate(case.arguments(step, at), 1):
                if not isinstance(value, np.generic):
                    kind = f"has {value!r} of Python's type {type(value).__name__} as number {i}"
                    yield False, f"{kind}: NumPy's scalars, such as np.int32(5), say how many bytes the kernel takes"


def _symbols(family: Family, variant: Variant) -> Checks:
    known = [array.name for array in next(_cases(family, variant)).inputs]
    for name in variant.symbols.values():
        yield name in known, f"has {name!r}, which is not an input; there are {', '.join(known)}"


def _owner(family: Family, variant: Variant) -> Checks:
    """Check the owner of the first and the last element, which several fields determine."""
    if family.prints or not variant.follows_tiles:
        return
    case = next(_cases(family, variant))
    size, grid = case.results[0].shape, case.launch.grid
    for index in ((0,) * len(size), tuple(each - 1 for each in size)):
        if owner := case.owner(index):
            yield (
                all(0 <= mine < most for mine, most in zip(owner.block, grid, strict=False)),
                f"of {case.id} says that block {owner.block} writes the element {index}; the grid is {grid}",
            )


def _at_least(case: Case) -> Checks:
    """Check the least shares of a case: a reference is another case's rate."""
    given = case.value(case.variant.at_least)
    least = given if isinstance(given, Mapping) else {"reference": given}
    yield from within(f"of {case.id}", faults({k: v for k, v in least.items() if given is not None}, LEAST))
    cure = "name another in reference_case, or give dict(roof=0.6)"
    is_other = given is None or "reference" not in least or case.reference_case not in ("", case.id)
    yield is_other, f"of {case.id} is a share of no other case's rate: {cure}"
    yield given is None or not case.variant.on_host, HOST_LIMIT


def _at_most(case: Case) -> Checks:
    given = case.value(case.variant.at_most)
    yield from within(f"of {case.id}", faults({} if given is None else given, MOST))
    own = not case.variant.call or not given or given.keys().isdisjoint(RESOURCES)
    yield (
        own,
        f"of {case.id} has {', '.join(RESOURCES)}, and it is a call, whose machine code is not ours: give seconds",
    )
    yield not given or not case.variant.on_host, HOST_LIMIT


def _threshold(case: Case) -> Checks:
    given = case.value(case.variant.threshold)
    checks = faults({} if given is None else {"threshold": given}, ("threshold",))
    yield from within(f"of {case.id}", checks)


def _fallback(case: Case) -> Checks:
    words = case.fallback
    yield isinstance(words, str), f"of {case.shape_name} is {words!r}: give words, or an empty string"


def _cases(family: Family, variant: Variant) -> Iterator[Case]:
    """List the variant's cases on the shapes that its family is tested on."""
    for dtype, configuration in product(family.dtypes_of(variant), variant.listed):
        if exists(variant, configuration, dtype):
            build = Build(family, variant, configuration, dtype)
            yield from (Case(build, shape) for shape in family.tests_of(variant))


def _cases_of_every_shape(family: Family, variant: Variant) -> Iterator[Case]:
    """List a case of each shape that the variant is tested or timed on, for what no configuration changes.

    A size may fit into 32 bits on every shape that is tested, and not on one that is timed.
    """
    for dtype in family.dtypes_of(variant):
        configuration = next(each for each in variant.listed if exists(variant, each, dtype))
        timed = () if family.draw else family.benchmarks_of(variant, dtype)  # drawing large inputs takes its time
        for shape in dict.fromkeys((*family.tests_of(variant), *timed)):
            yield Case(Build(family, variant, configuration, dtype), shape)


def _each_case(rule: Callable[[Case], Checks]) -> Callable[[Family, Variant], Checks]:
    """Make a rule for a variant of a rule for each of its cases."""
    return lambda family, variant: chain.from_iterable(map(rule, _cases(family, variant)))


def _of_every_case(name: str, rule: Callable[[Case], Checks]) -> Callable[[Family, Variant], Checks]:
    """Make a rule for a field that most variants leave out of a rule for each case that is tested or timed."""

    def checks(family: Family, variant: Variant) -> Checks:
        if getattr(variant, name) is not None:
            for case in (*_cases(family, variant), *_cases_of_every_shape(family, variant)):
                yield from rule(case)

    return checks


VARIANT_RULES: Mapping[str, Callable[[Family, Variant], Checks]] = {
    "name": lambda family, variant: name_rule(variant),
    "call": _call,
    "dtypes": _own_dtypes,
    "configurations": _configurations,
    "takes": _takes,
    "valid": valid_rule,
    "source": _source,
    "include": _include,
    "flags": _flags,
    "needs": _needs,
    "x": _axes,
    "benchmarks": benchmarks_rule,
    "deterministic": lambda family, variant: deterministic_rule(variant),
    "same_for": same_for_rule,
    "work": _own_work,
    "threads": _each_case(partial(_pair, "threads")),
    "tile": _each_case(partial(_pair, "tile")),
    "shared_bytes": _each_case(lambda case: _bytes(case, case.variant.shared_bytes)),
    "macros": _each_case(_macros),
    "scratch": _each_case(_scratch),
    "launches": _launches,
    "entry": _each_case(_entry),
    "grid": _each_case(lambda case: _counts(case, case.variant.grid)),
    "cluster": _cluster,
    "accept": _accept,
    "function": _function,
    "arguments": _arguments,
    "symbols": _symbols,
    "owner": _owner,
    "fallback": _each_case(_fallback),
    "at_least": _of_every_case("at_least", _at_least),
    "at_most": _of_every_case("at_most", _at_most),
    "threshold": _of_every_case("threshold", _threshold),
}
