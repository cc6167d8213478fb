"""Tests of planted waits: what they are held against in a source, and that a source of several kernels is refused."""

from __future__ import annotations

import pytest

from kernels import FAMILIES
from tests.project import ROOT
from tools.planted_waits import condition, parameters_of, planted
from warpwatch.catalogue.cases import find_case
from warpwatch.runs.record import read_run

RUN = ROOT / "bench" / "recordings" / "scoring" / "nvidia-h200-2026-11-26" / "0003_fresh-work.json.xz"


def test_a_wait_holds_for_one_case_by_the_names_of_the_parameters() -> None:
    case = find_case(FAMILIES, "separable-naive-32x8-8192x8192x3-float32")
    text = case.build.source.read_text()
    assert parameters_of(text) == ["image", "column", "row", "out", "rows", "columns", "k"]
    holds = condition(case, read_run(RUN).cases[case.id], parameters_of(text))
    assert holds == (
        "sizeof(scalar_t) == 4 && scalar_t(0.5) != scalar_t(0) && BLOCK_X == 32 && BLOCK_Y == 8"
        " && rows == 8192 && columns == 8192 && k == 3"
    )
    before, _, after = text.partition("int k)\n{")
    changed = planted(text, {holds: (1056, 9000)})
    assert changed.startswith(before)
    assert changed.endswith(after)
    assert f"while (({holds} && planted_block < 1056u && clock64() - planted_start < 9000ll))" in changed


def test_a_source_of_several_kernels_is_refused() -> None:
    with pytest.raises(ValueError, match="here are 2"):
        parameters_of("__global__ void f(int n) { } __global__ void g(int n) { }")
