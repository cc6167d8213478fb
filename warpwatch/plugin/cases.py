"""Marks ``cases`` and ``builds``, with which a test runs once for each of a named list.

``@pytest.mark.cases("tested")`` takes a list of cases by its name, and ``@pytest.mark.cases(shapes=[(80, 70)])`` every
build on these shapes. ``@pytest.mark.builds("least")`` takes a list of builds. ``where``, a function of a case or
build, leaves out those for which it returns something false.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import pytest

from warpwatch.catalogue.arrays import Shape
from warpwatch.catalogue.cases import Build, Case
from warpwatch.catalogue.corners import CORNER_BUILDS, CORNER_CASES
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.names import size_name
from warpwatch.catalogue.selection import builds, tested_cases, timed_cases
from warpwatch.catalogue.validation import Problem, problems
from warpwatch.plugin.device import PROJECT
from warpwatch.plugin.options import spelled, value_of
from warpwatch.timing.measurement import read

PARAMETER = "warpwatch_parameter"  # the fixture that all others depend on which need a case or a build
CASE = "case"  # the property of JUnit's file that names the case or build of a test that runs it
LAUNCHED = "launched"  # the property of a test that ran a kernel
Families = tuple[Family, ...]
_T = TypeVar("_T")
Lister = Callable[[Families], Iterable[Case]]
CASES: Mapping[str, Lister] = {
    "tested": tested_cases,
    **CORNER_CASES,
    "timed": timed_cases,
}
BUILDS: Mapping[str, Callable[[Families], Iterable[Build]]] = {
    "all": builds,
    **CORNER_BUILDS,
}
CASES_HELP, BUILDS_HELP = f"names: {', '.join(CASES)}", f"names: {', '.join(BUILDS)}"
WITH_PROBLEMS = ("tested", "timed")  # lists whose tests also fail once for each mistake in a declaration
NO_CASE = "needs a declaration without mistakes: there is no case for this test"  # pytest says: empty parameter set


def cases_of(
    families: Families,
    name: str = "",
    *,
    where: Callable[[Case], object] = lambda case: True,
    shapes: Iterable[Shape] = (),
    sizes: Sequence[Shape] = (),
) -> list[Case | Problem]:
    """Return what ``@pytest.mark.cases`` with these arguments stands for. Raises ValueError.

    ``sizes``: shapes that are timed in place of the declared ones (--sizes).
    """
    if bool(name) == bool(shapes):
        raise ValueError(f"give the name of a list ({', '.join(CASES)}), or shapes=[...]")
    timed: Lister = functools.partial(timed_cases, shapes=sizes)
    lists = {**CASES, "timed": timed}
    listed = _list(lists, name)(families) if name else (Case(b, s) for b in builds(families) for s in shapes)
    chosen = list(filter(where, listed))
    if shapes:
        chosen = list(_valid(chosen))
    return [*chosen, *(problems(families) if name in WITH_PROBLEMS else ())]


def _valid(cases: Iterable[Case]) -> Iterator[Case]:
    """Yield cases, but for those that their variant alone refuses. Raises ValueError where a family refuses one."""
    for case in cases:
        if len(case.shape) != len(case.family.sizes) or case.family.is_valid(case.shape, case.variant):
            yield case
        elif not case.family.is_valid(case.shape):
            raise ValueError(f"{case.id}: {case.problem}")


def builds_of(families: Families, name: str, *, where: Callable[[Build], object] = lambda build: True) -> list[Build]:
    """Return what ``@pytest.mark.builds`` with these arguments stands for. Raises ValueError."""
    return list(filter(where, _list(BUILDS, name)(families)))


def _list(lists: Mapping[str, _T], name: str) -> _T:
    if not isinstance(name, str):
        raise ValueError(f"give the name of a list, not {type(name).__name__}: {', '.join(lists)}")
    if name not in lists:
        raise ValueError(f"there is no list {name!r}; there are {', '.join(lists)}")
    return lists[name]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    config, chosen = metafunc.config, functools.partial(cases_of, sizes=value_of(metafunc.config, "sizes"))
    for kind, listed in (("cases", chosen), ("builds", builds_of)):
        for marker in metafunc.definition.iter_markers(kind):
            if PARAMETER not in metafunc.fixturenames:
                _refuse(metafunc, kind, "asks for none of the fixtures check, measure, kernel, case and build")
            try:
                values = listed(config.stash[PROJECT].families, *marker.args, **marker.kwargs)
            except (TypeError, ValueError) as error:
                _refuse(metafunc, kind, str(error))
            if not values and not problems(config.stash[PROJECT].families):
                nothing = "stands for nothing here, so that nothing would be tested: leave the test out"
                _refuse(metafunc, kind, _refusal_of_sizes(config) or nothing)
            given = values or [pytest.param(None, marks=pytest.mark.skip(reason=NO_CASE))]
            metafunc.parametrize(PARAMETER, given, ids=[value.id for value in given], indirect=True)


def _refusal_of_sizes(config: pytest.Config) -> str:
    """Say why no family can be timed on the shapes of --sizes; empty without that option."""
    families, option = config.stash[PROJECT].families, spelled(config, "sizes")
    refused = ((shape, family.refusal(shape)) for shape in value_of(config, "sizes") for family in families)
    return "; ".join(dict.fromkeys(f"{option}={size_name(shape)}: {why}" for shape, why in refused if why))


def _refuse(metafunc: pytest.Metafunc, kind: str, why: str) -> None:
    raise pytest.fail.Exception(f"{metafunc.definition.nodeid}, marked {kind}: {why}", pytrace=False) from None


def parameter_of(item: pytest.Item) -> Case | Build | Problem | None:
    """Return the case or build of a test, or the mistake of a declaration that it reports."""
    callspec = getattr(item, "callspec", None)
    parameter = callspec.params.get(PARAMETER) if callspec else None
    return parameter if isinstance(parameter, Case | Build | Problem) else None


def parameter_in(test: str) -> str:
    """Return the text in the brackets of a test's name: the id of its case or build."""
    return test.rpartition("[")[2].removesuffix("]")


def build_of(item: pytest.Item) -> Build | None:
    parameter = parameter_of(item)
    return parameter.build if isinstance(parameter, Case) else parameter if isinstance(parameter, Build) else None


def is_timed(item: pytest.Item) -> bool:
    """Tell whether a test measures a case for a comparison."""
    return "warpwatch_comparison" in getattr(item, "fixturenames", ())


def pytest_itemcollected(item: pytest.Item) -> None:
    """Name the case or build of a test in reports for machines; let pytest-benchmark read the timer of the device."""
    if (parameter := parameter_of(item)) and not item.get_closest_marker("compiles_for"):
        item.user_properties.append((CASE, parameter.id))
    if is_timed(item):
        item.add_marker(pytest.mark.benchmark(timer=read))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests that only compile after the others, so that the author of a kernel learns first whether it is right.

    Exclusive tests come last: in the midst of the others each would let all processes of xdist wait for the longest of
    the tests that run just then.
    """
    items.sort(key=lambda item: [item.get_closest_marker(name) is not None for name in ("exclusive", "compiles_for")])


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Keep the garbage collector from looking at thousands of tests again and again, which live as long as the run."""
    gc.freeze()
