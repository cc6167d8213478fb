"""Tests what runs with --energy and --host record and say, and what energies of two revisions are called."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from kernels import FAMILIES
from tests.checkout import Bench
from tests.compare.test_with_revision import NAIVE, old  # noqa: F401  # the fixture
from warpwatch.compare.beside import lines, millijoules
from warpwatch.compare.pairs import ENERGY_PRIOR, energy_effect
from warpwatch.compare.with_baseline import BaselineComparison
from warpwatch.report.entries import Results
from warpwatch.report.family_tables import report
from warpwatch.runs.record import read_run
from warpwatch.timing.nvml import Clock
from warpwatch.timing.pair_samples import PairSamples
from warpwatch.verdict.rule import Verdict, decide


def taken(ratio: float, others: tuple[str, ...] = ()) -> PairSamples:
    clock = Clock(1980, (), others)
    joules = (0.05, 0.0501), (0.05 * ratio, 0.0501 * ratio)
    return PairSamples(old=(1e-3,) * 2, new=(1e-3,) * 2, clocks=(clock, clock), beside={"joules": joules})


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([1.05, 1.06, 1.05, 1.055, 1.05], Verdict.SLOWER),
        ([1.05, 1.06, 1.05], Verdict.UNSURE),  # of five processes
        ([0.95, 0.94, 0.95, 0.945, 0.95], Verdict.FASTER),
        ([1.002, 0.998, 1.001], Verdict.SAME),
    ],
)
def test_energies_are_judged_as_times_are(ratios: list[float], verdict: Verdict) -> None:
    effect = energy_effect([taken(ratio) for ratio in ratios], "")
    assert effect
    decision = decide({"case": effect}, ENERGY_PRIOR)["case"]
    assert decision.verdict == verdict
    assert BaselineComparison(energy={"case": decision}).grown == ({"energy"} if verdict == Verdict.SLOWER else set())
    assert decision.ratio == pytest.approx(math.exp(sum(map(math.log, ratios)) / len(ratios)))


def test_others_at_work_make_an_energy_unsure() -> None:
    effect = energy_effect([taken(1.1), taken(1.1, ("train (process 7)",)), *[taken(1.1)] * 3], "")
    assert effect
    decision = decide({"case": effect}, ENERGY_PRIOR)["case"]
    assert (decision.verdict, decision.reason) == (
        Verdict.UNSURE,
        "another process was at work on the GPU: train (process 7)",
    )


def test_pairs_without_energies_have_no_effect() -> None:
    assert energy_effect([PairSamples(old=(1.0,) * 2, new=(1.0,) * 2)], "") is None


@pytest.mark.parametrize(
    ("joules", "text"), [(0.2163, "216.3"), (0.0013, "1.300"), (2.5, "2,500"), (1e-6, "0.001000"), (0.0, "0")]
)
def test_energies_are_written_with_four_digits(joules: float, text: str) -> None:
    assert millijoules(joules) == text


def test_nothing_is_said_of_no_energies() -> None:
    assert lines({}) == []


@pytest.mark.slow
def test_a_run_records_energies_and_tables_show_them(old: Bench) -> None:  # noqa: F811
    done = old.bench("--energy", "--benchmark-save=joules")
    assert done.returncode == 0, done.stdout
    run = read_run(next(path for path in map(type(old.folder), old.saved) if path.name.endswith("_joules.json")))
    recorded = {name: timed.facts.joules for name, timed in run.cases.items()}
    assert recorded[NAIVE] == 0.05
    assert all((joules is None) is ("-host-" in name) for name, joules in recorded.items())
    assert "50.00 mJ" in report(Results(families=FAMILIES, runs=[run]), Path("none"))


@pytest.mark.slow
def test_more_energy_is_said_and_fails_no_run_unless_asked(old: Bench) -> None:  # noqa: F811
    play: dict[str, Any] = {"changed": ["matmul-naive"], "energy": {"matmul-naive-8x8": 1.08}}
    done = old.bench("--against", "HEAD", "--energy", "--benchmark-save=compared", **play)
    assert done.returncode == 0, done.stdout
    assert re.search(r"energy of \d+ kernels: 1 more, \d+ same", done.stdout)
    said = rf"{NAIVE}: more energy: 50\.\d\d -> 5[34]\.\d\d mJ a launch, \+[78]\.\d % \(95 %: .*\), floor \d\.\d %"
    assert re.search(said, done.stdout)
    path = next(path for path in old.saved if path.endswith("_compared.json"))
    with open(path) as file:
        entries = {each["param"]: each["extra_info"] for each in json.load(file)["benchmarks"]}
    energy = read_run(Path(path)).energies[NAIVE]
    assert (energy.verdict, round(energy.ratio, 1)) == (Verdict.SLOWER, 1.1)
    assert len(entries[NAIVE]["pairs"]["new_joules"]) == 3
    asked = old.bench("--against", "HEAD", "--energy", "--fail-on", "energy", **play)
    assert asked.returncode == 1
    less = old.bench(
        "--against", "HEAD", "--energy", "--fail-on", "energy", changed=["matmul-naive"], energy={"matmul-naive": 0.9}
    )
    assert less.returncode == 0
    assert " less" in less.stdout


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "play", "said"),
    [
        (
            ("--fail-on", "energy", "--against", "HEAD"),
            {},
            "energy measures none by itself: give --energy too",
        ),
        (("--energy", "--self-check"), {}, "--self-check measures no energy: leave --energy out"),
        (
            ("--energy", "--fail-on", "energy", "--benchmark-compare"),
            {},
            "energies are compared with those of another revision: give --against REV, or leave --fail-on energy out",
        ),
        (("--energy",), {"no_energy": "NVML does not count it"}, "--energy: NVML does not count it"),
        (("--fail-on", "host", "--against", "HEAD"), {}, "host measures none by itself: give --host too"),
        (("--host", "--self-check"), {}, "--self-check measures no host time: leave --host out"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is(
    old: Bench,  # noqa: F811
    arguments: tuple[str, ...],
    play: dict[str, Any],
    said: str,
) -> None:
    done = old.bench(*arguments, **play)
    assert done.returncode == 4
    assert said in done.stderr
    assert " passed" not in done.stdout


@pytest.mark.slow
def test_more_host_time_is_said_and_fails_no_run_unless_asked(old: Bench) -> None:  # noqa: F811
    play: dict[str, Any] = {"changed": ["matmul-naive"], "host": {"matmul-naive-8x8": 1.4}}
    done = old.bench("--against", "HEAD", "--host", "--benchmark-save=hosts", **play)
    assert done.returncode == 0, done.stdout
    assert re.search(r"host time of \d+ kernels: 1 more, \d+ same", done.stdout)
    said = rf"{NAIVE}: more host time: [45]\.\d\d -> 7\.\d\d µs a launch, \+\d\d\.\d % \(95 %: .*\), floor \d+\.\d %"
    assert re.search(said, done.stdout)
    run = read_run(Path(next(path for path in old.saved if path.endswith("_hosts.json"))))
    pairs = run.cases[NAIVE].facts.pairs
    assert (run.hosts[NAIVE].verdict, run.energies, pairs and len(pairs.new_host_seconds)) == (Verdict.SLOWER, {}, 3)
    assert re.search(
        r"Host time of a launch(.*\n)+.* 7\.0\d µs", report(Results(families=FAMILIES, runs=[run]), Path("none"))
    )
    for gate, status in (("host", 1), ("common", 0)):
        assert old.bench("--against", "HEAD", "--host", "--fail-on", gate, **play).returncode == status


HELLO = ("-k", "hello-hello")


@pytest.mark.slow
def test_a_run_that_measured_no_energy_says_so_last(old: Bench) -> None:  # noqa: F811
    done = old.bench("--energy", *HELLO, few=False)
    assert done.returncode == 0, done.stdout
    last = done.stdout.splitlines()[-1]
    assert last == "NO ENERGY WAS MEASURED (--energy): 4 because its launches print"


@pytest.mark.slow
def test_a_gate_that_measured_no_energy_is_not_green(old: Bench) -> None:  # noqa: F811
    compare = ("--against", "HEAD", "--energy", *HELLO)
    play: dict[str, Any] = {"few": False, "changed": ["hello"]}
    assert old.bench(*compare, **play).returncode == 0
    gate = old.bench(*compare, "--fail-on", "energy", **play)
    assert gate.returncode == 1, gate.stdout
    assert "NO ENERGY WAS MEASURED (--energy): 4 because its launches print" in gate.stdout.splitlines()[-1]


@pytest.mark.slow
def test_the_same_machine_code_takes_the_same_energy(old: Bench) -> None:  # noqa: F811
    done = old.bench("--against", "HEAD", "--energy", "--fail-on", "energy")
    assert done.returncode == 0, done.stdout
    assert "17 identical" in done.stdout
    assert "NO ENERGY" not in done.stdout


def test_kernels_without_an_energy_are_counted_beside_others(old: Bench) -> None:  # noqa: F811
    done = old.bench("--energy", "-k", "hello-hello or (matmul-naive and 128x128x128 and float32)", few=False)
    assert re.search(r"energy of 4 of \d+ kernels was not measured: 4 because its launches print", done.stdout)
    assert "NO ENERGY" not in done.stdout
