"""Lists the cases that are compiled, tested and timed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

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


def tested_cases(families: Iterable[Family]) -> list[Case]:
    """List every build on every shape that its family is tested on."""
    return [Case(build, shape) for build in builds(families) for shape in build.family.tests_of(build.variant)]


def _cases_of_benchmarks(families: Iterable[Family], shapes: Sequence[Shape] = ()) -> list[Case]:
    """List what is declared as timed, or all builds on those of the shapes that they take."""
    if not shapes:
        return [Case(b, shape) for b in builds(families) for shape in b.family.benchmarks_of(b.variant, b.dtype)]
    return [Case(b, shape) for b in builds(families) for shape in shapes if not b.family.refusal(shape, b.variant)]


def timed_cases(families: Iterable[Family], shapes: Sequence[Shape] = ()) -> list[Case]:
    """List the cases that the benchmark times, shape by shape, so that those of a shape can share their operands.

    ``shapes``: in place of the declared ones.
    """
    cases = [case for case in _cases_of_benchmarks(families, shapes) if not case.omitted]
    order = {family.name: i for i, family in enumerate(families)}
    return sorted(cases, key=lambda case: (order[case.family.name], case.dtype, case.shape))


def launch_cost(builds: Iterable[Build], shape: Shape) -> float:
    """Return the largest ``Case.launch_cost`` of the builds that take a shape; infinite where none does."""
    taking = [build for build in builds if not build.family.problem_of(shape, build.variant)]
    return max((Case(build, shape).launch_cost for build in taking), default=math.inf)


def omitted_cases(families: Iterable[Family]) -> list[Case]:
    """List the cases that the benchmark leaves out; ``Case.omitted`` says why."""
    return [case for case in _cases_of_benchmarks(families) if case.omitted]


def weights_of(build: Build) -> dict[str, float]:
    """Return how often each timed shape of a build runs, by the case's id; those without a weight are left out."""
    weights, shapes = build.family.weights, build.family.benchmarks_of(build.variant, build.dtype)
    return {Case(build, shape).id: weights[shape] for shape in shapes if shape in weights}
