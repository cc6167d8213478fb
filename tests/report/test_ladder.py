"""Tests shares and ladders: what a case reaches of its reference."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

import pytest

from kernels import FAMILIES
from tests.project import ROOT
from warpwatch.catalogue.cases import find_case
from warpwatch.catalogue.selection import timed_cases
from warpwatch.report.entries import Results, share
from warpwatch.report.family_tables import moved_blocks, report
from warpwatch.report.ladder import runs_of_same_work, tables
from warpwatch.runs.record import BadRun, RunRecord, read_runs

CASES = {case.id: case for case in timed_cases(FAMILIES)}
MOVED = "transpose-tiled-16x16-2048x2048-float32"
TILED = find_case(FAMILIES, "matmul-tiled-16x16-4096x4096x4096-float32")


@functools.cache
def committed() -> list[RunRecord]:
    """Return the runs of the H200's baseline."""
    return read_runs(ROOT / "bench" / "baselines" / "nvidia-h200")


def test_a_share_is_a_ratio_of_times_on_the_same_shape() -> None:
    times = {TILED.id: 20e-3, "matmul-cublas-vendor-4096x4096x4096-float32": 3e-3}
    assert share(CASES, TILED, times) == pytest.approx(0.15)


def test_a_share_is_a_ratio_of_bandwidths_where_bytes_are_what_counts() -> None:
    case = find_case(FAMILIES, "transpose-padded-32x32-10000x10000-float32")
    reference = find_case(FAMILIES, case.reference_case)
    times = {case.id: case.work.bytes / 2e12, reference.id: reference.work.bytes / 4e12}
    assert share(CASES, case, times) == pytest.approx(0.5)


def test_there_is_no_share_without_a_reference_nor_for_the_host() -> None:
    assert share(CASES, TILED, {TILED.id: 1.0}) is None
    serial = find_case(FAMILIES, "matmul-serial-host-128x128x128-float32")
    assert share(CASES, serial, {serial.id: 1.0, "matmul-cublas-vendor-128x128x128-float32": 1.0}) is None


@pytest.mark.slow
def test_the_page_of_results_shows_the_ladders_of_the_committed_runs() -> None:
    assert tables(committed(), FAMILIES) in (ROOT / "docs" / "h200.md").read_text()


def test_tables_say_what_their_times_are() -> None:
    run = committed()[-1]
    noted = replace(run, gpu=replace(run.gpu, note="times of the host"))
    assert tables([noted], FAMILIES) == f"**{run.gpu.name}: times of the host.**\n\n{tables([run], FAMILIES)}"


def test_tables_are_made_of_runs_of_the_same_work() -> None:
    runs = committed()
    assert runs_of_same_work(runs) == runs
    name, timed = next((n, t) for n, t in runs[0].cases.items() if "transpose-naive" in n)
    changed = {**runs[0].cases, name: replace(timed, facts=replace(timed.facts, identity=None))}
    assert runs_of_same_work([replace(runs[0], cases=changed), *runs[1:]]) == runs[1:]


@pytest.mark.slow
def test_runs_of_some_cases_have_the_tables_of_those() -> None:
    run = committed()[-1]

    def of(*words: str) -> RunRecord:
        return replace(run, cases={n: t for n, t in run.cases.items() if any(word in n for word in words)})

    text = tables([of("transpose-vectorised", "matmul-tiled")], FAMILIES)
    assert text.startswith("| matmul 4096×4096×4096, float32 |")
    assert "| transpose 8192×8192, float32 | vectorised, 64x64 |  |  |" in text
    assert "conv2d" not in text
    text = tables([of("transpose-vectorised", "matmul-tiled"), run], FAMILIES)
    assert "| transpose 8192×8192, float32 | vectorised, 64x64 | 0.97" in text
    text = tables([run, of("transpose-vectorised", "matmul-tiled")], FAMILIES)  # the last one lacks most cases
    assert "| matmul 4096×4096×4096, float64 |" in text
    with pytest.raises(BadRun, match="no shape that a family names in ladder_shapes"):
        tables([of("hello")], FAMILIES)


def test_a_report_says_where_the_fastest_block_of_another_gpu_is_another() -> None:
    run = committed()[-1]
    name = "transpose-naive-16x16-2048x2048-float32"  # the fastest; 8x8 comes next
    slow = replace(run.cases[name], samples=tuple(3 * each for each in run.cases[name].samples))
    other_work = replace(run.cases[MOVED], samples=slow.samples, facts=replace(run.cases[MOVED].facts, identity=None))
    there = replace(run, gpu=replace(run.gpu, name="Another"), cases={**run.cases, name: slow, MOVED: other_work})
    here, beside = (Results(families=FAMILIES, runs=[each]) for each in (run, there))
    table = moved_blocks(here, beside)
    assert table.columns[-3:] == ("NVIDIA H200", "Another", "cost")
    (row,) = table.texts()
    assert row[:6] == ["transpose", "naive", "2048x2048", "float32", "16x16", "8x8"]
    assert 130 < float(row[6].removesuffix(" %")) < 145
    assert f"### {table.title}" in report(here, Path("none"), beside)


def test_a_report_beside_runs_of_other_work_says_that_nothing_was_compared() -> None:
    run = committed()[-1]
    other = replace(run, cases={n: replace(t, facts=replace(t.facts, identity=None)) for n, t in run.cases.items()})
    table = moved_blocks(*(Results(families=FAMILIES, runs=[each]) for each in (run, other)))
    assert not table.rows
    assert table.note.startswith("Nothing was compared: no variant")
