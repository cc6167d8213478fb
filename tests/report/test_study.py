"""Tests what a study of a family says: its tables as Markdown, LaTeX and CSV, and the lines of its pictures."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from kernels import FAMILIES
from tests.project import EARLIER
from tests.report.test_ladder import committed
from warpwatch.report.entries import Results
from warpwatch.report.family_tables import Cell, Table, growths, tables_of, tex
from warpwatch.report.numbers import fraction, micro, ratio, significant
from warpwatch.report.pictures import pictures_of
from warpwatch.report.study import files_of
from warpwatch.runs.record import RunRecord, read_run

NOTE = "times of nobody's"
TILED = "transpose-tiled-16x16-2048x2048-float32"
SERIAL = "transpose-serial-host-2048x2048-float32"


@pytest.fixture(scope="module")
def run() -> RunRecord:
    return read_run(sorted((EARLIER / "nvidia-h200").glob("*.xz"))[-1])


@pytest.fixture(scope="module")
def results(run: RunRecord) -> Results:
    return Results(families=FAMILIES, runs=[run])


def tables(results: Results, family: str = "transpose") -> dict[str, Table]:
    return {table.key: table for table in tables_of(results.by_type(family)["float32"])}


def rows(table: Table) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(table.as_csv("a device"))))


def test_the_figures_of_a_table_are_those_of_the_run(run: RunRecord, results: Results) -> None:
    made = tables(results)
    assert [*made] == ["time", "block", "partition", "growth", "gain", "ladder-8192x8192"]
    seconds = {name: median(timed.samples) for name, timed in run.cases.items()}
    (row,) = [
        r for r in rows(made["time"]) if (r["variant"], r["block"], r["shape"]) == ("tiled", "16x16", "2048x2048")
    ]
    assert float(row["time, µs"]) == pytest.approx(1e6 * seconds[TILED])
    assert float(row["rate, GB/s"]) == pytest.approx(2 * 2048**2 * 4 / seconds[TILED] / 1e9)
    (row,) = [
        r for r in rows(made["gain"]) if (r["variant"], r["block"], r["shape"]) == ("tiled", "16x16", "2048x2048")
    ]
    assert float(row["gain over serial"]) == pytest.approx(seconds[SERIAL] / seconds[TILED])


def test_growth_is_of_the_next_smaller_shape_by_work_beside_that_of_the_work(run: RunRecord, results: Results) -> None:
    found = growths(results.by_type("transpose")["float32"])
    before = "transpose-tiled-16x16-4096x1000-float32"  # less work than 2048x2048, though a larger number comes first
    time, work = found[TILED]
    assert time == pytest.approx(median(run.cases[TILED].samples) / median(run.cases[before].samples))
    assert work == pytest.approx(2048**2 / (4096 * 1000))
    assert "transpose-tiled-16x16-1000x1000-float32" not in found


def test_the_partition_of_the_work_is_that_of_the_launch(results: Results) -> None:
    found = {(r["variant"], r["block"]): r for r in rows(tables(results)["partition"])}
    row = found["vectorised", "64x64"]
    assert (row["shape"], row["blocks"]) == ("4096x4096", "64×64×1")  # which most variants and blocks have
    assert (float(row["threads a block"]), float(row["elements a thread"])) == (256, 64 * 64 / 256)
    assert not [key for key in found if key[0] == "serial"]


def test_a_table_is_the_same_in_each_form() -> None:
    cells = [Cell(text="1.5", more="2 %", values=[1.5, 0.02]), None]
    table = Table(title="A", columns=["a_b", "8x8", "16x16"], rows=[(["x"], cells)], axis="block", measures=("t", "s"))
    assert table.markdown() == "| a_b | 8x8 | 16x16 |\n|---|---:|---:|\n| x | 1.5 (2 %) |  |"
    assert table.as_csv("gpu") == "device,a_b,block,t,s\ngpu,x,8x8,1.5,0.02\n"
    latex = table.latex("tab:a", "50 % of µs")
    assert r"\caption{50 \% of $\mu$s}" in latex
    assert "\\toprule\na\\_b & 8x8 & 16x16 \\\\\n\\midrule\nx & 1.5 (2 \\%) &  \\\\\n\\bottomrule" in latex
    assert tex("a\\b{c}~^") == r"a\textbackslash{}b\{c\}\textasciitilde{}\textasciicircum{}"


def test_the_roof_is_the_time_of_the_least_bytes_and_of_the_highest_rate(results: Results) -> None:
    peak = results.today.gpu.peak_bytes_per_second
    over_size = pictures_of(results, "transpose", "float32")[1]
    assert over_size.key == "time-over-size"
    assert next(iter(over_size.above.values()))["4096x4096"] == pytest.approx(1e6 * 2 * 4096**2 * 4 / peak)
    over_size = pictures_of(results, "matmul", "float32")[1]
    highest = max(e.rate or 0 for e in results.entries if e.dtype == "float32" and e.operations and not e.on_host)
    assert next(iter(over_size.above.values()))["4096x4096x4096"] == pytest.approx(1e6 * 2 * 4096**3 / highest / 1e9)
    assert "of matmul-cublas-vendor-" in over_size.caption
    unknown = replace(results.today, gpu=replace(results.today.gpu, peak_bytes_per_second=0.0))
    over_size = pictures_of(replace(results, runs=[unknown]), "transpose", "float32")[1]
    assert not over_size.above
    assert "No roof is drawn" in over_size.caption


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (0.0123, "0.0123"), (0.9996, "1.00"), (1234.5, "1,234"), (4e-9, "4.00e-09"), (float("nan"), "–")],
)
def test_numbers_have_significant_digits_at_any_scale(value: float, shown: str) -> None:
    assert significant(value) == shown


def test_times_shares_and_ratios_are_never_0_where_there_is_any() -> None:
    assert [micro(3.21e-9), micro(1.5e-6), micro(2e-3), micro(0.5)] == ["0.00321", "1.50", "2,000.0", "500,000"]
    assert [fraction(0.954), fraction(0.0123), ratio(0.00052), ratio(50)] == ["0.95", "0.012", "0.000520×", "50.0×"]


@pytest.mark.slow
def test_every_file_says_on_which_device_it_was_measured(run: RunRecord) -> None:
    noted = replace(run, gpu=replace(run.gpu, note=NOTE))
    drawn: list[tuple[int, int]] = []
    files = files_of(Results(families=FAMILIES, runs=[noted]), "copy", lambda *step: drawn.append(step))
    assert drawn[-1][0] == drawn[-1][1] == len(drawn)
    kinds = {Path(name).suffix for name in files}
    assert kinds == {".md", ".tex", ".csv", ".svg", ".pdf"}
    for name, content in files.items():
        if name.endswith(".pdf"):
            assert content.startswith(b"%PDF")
        elif name.endswith(".csv"):
            assert all(line.startswith(f"NVIDIA H200: {NOTE},") for line in content.decode().splitlines()[1:])
        else:
            assert NOTE in content.decode(), name
    latex, text = files["study.tex"].decode(), files["study.md"].decode()
    for begun in re.findall(r"\\begin{(\w+)}", latex):
        assert latex.count(rf"\begin{{{begun}}}") == latex.count(rf"\end{{{begun}}}")
    assert latex.count(r"\caption") == latex.count(NOTE) - 1 == len(re.findall(r"^\*\*\d+\. .*\*\* .*\.$", text, re.M))
    assert {*re.findall(r"{([\w-]+\.pdf)}", latex)} == {name for name in files if name.endswith(".pdf")}
    assert {*re.findall(r"\(([\w-]+\.svg)\)", text)} == {name for name in files if name.endswith(".svg")}


def test_several_runs_are_shown_by_their_medians() -> None:
    runs = committed()[:3]
    (entry,) = [e for e in Results(families=FAMILIES, runs=runs).entries if e.id == TILED]
    assert entry.seconds == median(median(each.cases[TILED].samples) for each in runs)
