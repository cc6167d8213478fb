"""Lists the cases that are compiled, tested and timed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from warpwatch.catalogue.arrays import Shape
from warpwatch.catalogue.cases import Build, Case, exists
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.validation import sound


def builds(families: Iterable[Family]) -> list[Build]:
    """List all builds of variants that are declared without a mistake (warpwatch/catalogue/validation.py)."""
    return [
        Build(family, variant, configuration, dtype)
        for family, variant in sound(families)
        for dtype in family.dtypes_of(variant)
        for configuration in variant.listed
        if exists(variant, configuration, dtype)
    ]


def _cases(families: Iterable[Family], shapes: Callable[[Build], Iterable[Shape]]) -> list[Case]:
    return [Case(build, shape) for build in builds(families) for shape in shapes(build)]


def tested_cases(families: Iterable[Family]) -> list[Case]:
    """List every build on every shape that its family is tested on."""
    return _cases(families, lambda build: build.family.tests)


def unaligned_cases(families: Iterable[Family]) -> list[Case]:
    """List every build on the first shape of its family, for arrays that start off an allocation's alignment."""
    return _cases([f for f in families if not f.prints], lambda build: build.family.tests[:1])


def _timed_shapes(build: Build) -> Iterable[Shape]:
    return build.family.benchmarks_of(build.variant, build.dtype)


def timed_cases(families: Iterable[Family]) -> list[Case]:
    """List the cases that the benchmark times, shape by shape, so that those of a shape can share their operands."""
    cases = _cases(families, _timed_shapes)
    order = {family.name: i for i, family in enumerate(families)}
    cases.sort(key=lambda case: (order[case.family.name], case.dtype, case.shape))
    return [case for case in cases if not case.omitted]


def omitted_cases(families: Iterable[Family]) -> list[Case]:
    """List the cases that the benchmark leaves out; ``Case.omitted`` says why."""
    return [c for c in _cases(families, _timed_shapes) if c.omitted]
