"""Parametrizes tests: a test that is marked with cases or builds runs once for each."""

from __future__ import annotations

import pytest

from warpwatch.catalogue.declaration import Build, Case
from warpwatch.catalogue.validation import Problem


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for marker in metafunc.definition.iter_markers("cases"):
        values: list[Case | Problem] = [*marker.args[0], *(marker.args[1] if len(marker.args) > 1 else ())]
        metafunc.parametrize("case", values, ids=[value.id for value in values], indirect=True)
    for marker in metafunc.definition.iter_markers("builds"):
        builds: list[Build] = marker.args[0]
        metafunc.parametrize("build", builds, ids=[build.id for build in builds], indirect=True)


def parameter_of(item: pytest.Item) -> Case | Build | Problem | None:
    """Return the case or build of a test, or the mistake of a declaration that it reports."""
    callspec = getattr(item, "callspec", None)
    params = callspec.params if callspec else {}
    found = params.get("case", params.get("build"))
    return found if isinstance(found, Case | Build | Problem) else None


def build_of(item: pytest.Item) -> Build | None:
    """Return the build of a test, if it has one."""
    found = parameter_of(item)
    return found.build if isinstance(found, Case) else found if isinstance(found, Build) else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests that only compile last, so that the author of a kernel learns first whether it is right."""
    items.sort(key=lambda item: item.get_closest_marker("compiles_for") is not None)
