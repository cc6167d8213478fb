"""Tests weighted totals in whole runs of a benchmark: printed, in --json, in the saved run, and on the site."""

from __future__ import annotations

import html
import json
import re
import sys
from typing import Any

import pytest

from tests.checkout import Bench
from warpwatch.report.numbers import micro
from warpwatch.runs.record import read_run

BUILD = "matmul-naive-16x16-float32"
SMALL, LARGE = (f"matmul-naive-16x16-{n}x{n}x{n}-float32" for n in (128, 256))
CHOSEN = ("-k", f"{SMALL} or {LARGE}")
WEIGHTS = "weights={(128, 128, 128): 30, (256, 256, 256): 10},"
SLOWER: dict[str, Any] = {"slower": {SMALL: 1.1}, "changed": ["matmul-naive-16x16"]}


def weigh(checkout: Bench) -> None:
    file = checkout.folder / "kernels" / "matmul" / "__init__.py"
    file.write_text(file.read_text().replace("    benchmarks=STUDY,\n", f"    benchmarks=STUDY,\n    {WEIGHTS}\n", 1))
    checkout.commit()


def run(checkout: Bench, *chosen: str, **play: Any) -> tuple[int, str, dict[str, Any]]:
    file = checkout.folder / "run.json"
    done = checkout.bench("--against=HEAD", f"--json={file}", *(chosen or CHOSEN), few=False, **play)
    return done.returncode, done.stdout, json.loads(file.read_text())


def test_the_total_of_a_build_is_printed_recorded_and_shown(checkout: Bench) -> None:
    weigh(checkout)
    status, printed, document = run(checkout, **SLOWER)
    assert status == 1  # for the slower case, and for nothing else
    assert document["counts"]["verdicts"] == {"slower": 1, "same": 1}
    total, cases = document["totals"][BUILD], {case["id"]: case["comparison"] for case in document["cases"]}
    times = {SMALL: 30 * cases[SMALL]["before"], LARGE: 10 * cases[LARGE]["before"]}
    share = times[SMALL] / sum(times.values())
    assert total["shares"] == pytest.approx({SMALL: share, LARGE: 1 - share})
    assert total["ratio"] == pytest.approx(1 + 0.1 * share, abs=2e-3)
    assert total["mean"] == pytest.approx(1.1**0.75, abs=2e-3)
    line = re.search(rf"^total of {BUILD}: (.+)$", printed, re.M)
    assert line
    figures = [total[name] for name in ("ratio", "low", "high", "mean", "mean_low", "mean_high")]
    assert re.findall(r"([+-]\d+\.\d)", line[1]) == [f"{100 * (each - 1):+.1f}" for each in figures]
    assert line[1].startswith(f"{micro(total['before'])} -> {micro(total['after'])} µs, ")
    (path,) = checkout.saved
    record = read_run(checkout.folder / path)
    assert record.totals[BUILD].ratio == total["ratio"]
    site = checkout.folder / "site"
    done = checkout._run(sys.executable, "-m", "warpwatch", "report", path, "--html", str(site))
    assert done.returncode == 0, done.stderr
    assert f"<p>{line[0]}</p>" in html.unescape((site / "f" / "matmul.html").read_text())


@pytest.mark.slow
def test_a_total_fails_no_run_and_a_part_has_none(checkout: Bench) -> None:
    weigh(checkout)
    status, printed, document = run(checkout, "-k", SMALL, changed=["matmul-naive-16x16"])
    assert status == 0, printed
    reason = "1 of 2 shapes with weights were not compared"
    assert f"total of {BUILD}: unknown, because {reason}\n" in printed
    assert (document["totals"][BUILD]["reason"], document["totals"][BUILD]["ratio"]) == (reason, None)


@pytest.mark.slow
def test_processes_that_share_the_shapes_have_one_total(checkout: Bench) -> None:
    weigh(checkout)
    _, printed, document = run(checkout, *CHOSEN, "-n", "2", gpus=2, **SLOWER)
    assert document["totals"][BUILD]["shares"].keys() == {SMALL, LARGE}
    assert f"total of {BUILD}: " in printed


@pytest.mark.slow
def test_without_weights_nothing_is_said(checkout: Bench) -> None:
    _, printed, document = run(checkout, **SLOWER)
    assert "total of" not in printed
    assert document["totals"] == {}
