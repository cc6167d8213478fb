"""Makes test cases of the catalogue: a test that is marked with cases or builds runs once for each."""

from __future__ import annotations

import pytest

from kernels import FAMILIES
from warpwatch.catalogue.declaration import Build, Case
from warpwatch.catalogue.validation import Problem

NO_BLOCK = "wrong"  # stands for the block where what is wrong with a declaration takes a case's place


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for marker in metafunc.definition.iter_markers("cases"):
        cases: list[Case] = marker.args[0]
        names = ("family", "variant", "block", "shape", "dtype")
        wrong: tuple[Problem, ...] = marker.args[1] if len(marker.args) > 1 else ()
        values = [(*_names(case.build)[:3], case.shape_name, case.dtype) for case in cases]
        values += [(problem.family, problem.variant, NO_BLOCK, problem.field, "none") for problem in wrong]
        metafunc.parametrize(names, values, ids=[*(case.id for case in cases), *(problem.id for problem in wrong)])
    for marker in metafunc.definition.iter_markers("builds"):
        chosen: list[Build] = marker.args[0]
        metafunc.parametrize(
            ("family", "variant", "block", "dtype"), [_names(b) for b in chosen], ids=[b.id for b in chosen]
        )


def _names(build: Build) -> tuple[str, str, str, str]:
    return build.family.name, build.variant.name, build.block_name, build.dtype


def named_build(family: str, variant: str, block: str, dtype: str) -> Build:
    found = next(f for f in FAMILIES if f.name == family)
    sizes = () if found.variant(variant).has_no_block else tuple(map(int, block.split("x")))
    return Build(found, found.variant(variant), sizes, dtype)


def build_of(item: pytest.Item) -> Build:
    """The build that a test's parameters name."""
    params = item.callspec.params  # type: ignore[attr-defined]
    return named_build(*(params[key] for key in ("family", "variant", "block", "dtype")))
