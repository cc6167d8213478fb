"""Tests the pictures: every rung has its line, and its name where it can be read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kernels import FAMILIES
from tests.project import PROJECT
from tests.report.test_ladder import CASES, committed
from warpwatch.catalogue.cases import find_case
from warpwatch.cli.picture import pictures, shares, spread
from warpwatch.report.ladder import share
from warpwatch.report.tables import medians


def test_a_rung_has_the_share_of_its_best_block() -> None:
    times = medians(committed())
    matmul = next(family for family in FAMILIES if family.name == "matmul")
    reached = shares(CASES, matmul, "float32", times)
    assert next(iter(reached)) == "128x128x128"
    assert list(reached)[-1] == "4096x4096x4096"
    large = reached["4096x4096x4096"]
    assert "serial" not in large
    assert large["cublas"] == 1
    blocks = [find_case(FAMILIES, f"matmul-tiled-{b}x{b}-4096x4096x4096-float32") for b in (8, 16, 32)]
    assert large["tiled"] == max(value for case in blocks if (value := share(CASES, case, times)))


def test_names_keep_their_distance() -> None:
    assert spread({"a": 0.5, "b": 0.51, "c": 0.1}, 0.05) == pytest.approx({"c": 0.1, "a": 0.5, "b": 0.55})


@pytest.mark.slow
def test_a_gpu_may_have_any_name(tmp_path: Path) -> None:
    """matplotlib would read what lies between two dollars as mathematics."""
    run = committed()[-1]
    run = replace(run, gpu=replace(run.gpu, name="$\\frac $ <&>"))
    one = {name: timed for name, timed in run.cases.items() if name.startswith(("transpose", "copy"))}
    (path,) = pictures([replace(run, cases=one)], FAMILIES, tmp_path)
    assert "transpose, float32: $\\frac $" in path.read_text()


@pytest.mark.slow
def test_every_family_of_the_readme_is_drawn(tmp_path: Path) -> None:
    runs = committed()
    made, times = pictures(runs, FAMILIES, tmp_path), medians(runs)
    kept = {path.name for path in (PROJECT.baselines / "nvidia-h200").glob("*.svg")}
    assert {path.name for path in made} == kept
    for path in made:
        text = path.read_text()
        assert "share of the reference" in text
        family = next(family for family in FAMILIES if family.name == path.stem.split("-")[0])
        rungs = {rung for reached in shares(CASES, family, path.stem.split("-")[1], times).values() for rung in reached}
        assert len(rungs) > 1
        assert all(f">{rung}</text>" in text for rung in rungs)
