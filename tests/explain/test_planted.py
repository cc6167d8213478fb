"""Tests that planted faults are named by their rules, from machine code that nvcc makes here, without a GPU."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

import pytest

from tests.explain import planted
from tests.explain.planted import EXPECTED
from warpwatch.devices.compile.compiler import Image, Target
from warpwatch.devices.other_kernel import key
from warpwatch.explain.explanation import CaseCode, explain, other_code
from warpwatch.revision.commit import compile_other_kernels, read_other_kernels
from warpwatch.verdict.rule import Verdict

pytestmark = pytest.mark.slow
ARCH = "sm_90"
Codes = Mapping[str, tuple[CaseCode, CaseCode]]


@pytest.fixture(scope="module")
def codes(tmp_path_factory: pytest.TempPathFactory) -> Codes:
    """Machine code of every kernel without its fault and with it, by the kernel's family."""
    sides = []
    for name in ("without", "with"):
        tree = tmp_path_factory.mktemp(name)
        shutil.copytree(planted.FOLDER, tree / "planted", ignore=shutil.ignore_patterns("__pycache__"))
        if name == "with":
            planted.plant(tree / "planted")
        others = read_other_kernels(tree, "planted", name, ARCH)
        images = compile_other_kernels(others.values(), Target(ARCH), lambda done, total: None)
        side = {}
        for case, other in others.items():
            image = images[key(other)]
            assert isinstance(image, Image), image
            side[case.partition("-")[0]] = other_code(other, image)
        sides.append(side)
    return {name: (sides[0][name], sides[1][name]) for name in EXPECTED}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_planted_fault_is_named_as_the_cause(codes: Codes, name: str) -> None:
    found = explain(*codes[name], ARCH, Verdict.SLOWER)
    assert found.likely, found
    assert found.likely.rule == EXPECTED[name], [cause for _, cause in found.causes]


def test_registers_that_are_spilled_are_told_from_arrays(codes: Codes) -> None:
    likely = explain(*codes["spills"], ARCH, Verdict.SLOWER).likely
    assert likely
    assert likely.sentence.startswith("registers are spilled: local memory of a thread")


@pytest.mark.parametrize("name", EXPECTED)
def test_a_fault_that_is_gone_is_named_as_the_cause_of_a_gain(codes: Codes, name: str) -> None:
    old, new = codes[name]
    found = explain(new, old, ARCH, Verdict.FASTER)
    assert found.likely, found
    assert found.likely.rule == EXPECTED[name], [cause for _, cause in found.causes]
