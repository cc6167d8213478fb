"""Tests that results with other bits are found where every launch is within tolerance."""

from __future__ import annotations

import contextlib
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import warpwatch as ww
from kernels import FAMILIES
from tests.catalogue.changed import with_family, with_variant
from tests.devices.planted_bits import HONEST, ONES, SUMS
from tests.own import SCALE
from tests.project import ROOT
from tests.stranger import TABLE, run_command, run_pytest
from warpwatch.catalogue.arrays import Array
from warpwatch.catalogue.cases import Build, Case, find_case
from warpwatch.catalogue.validation import problems
from warpwatch.compare.with_baseline import BaselineComparison
from warpwatch.devices import same_bits
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.evaluate import judged
from warpwatch.devices.host import Host
from warpwatch.devices.kernel import Kernel
from warpwatch.devices.runner import Outcome, launch_once, load, upload
from warpwatch.devices.same_bits import Repeated, Watch, between_processes, difference
from warpwatch.devices.worker import Worker, gpu
from warpwatch.runs.identity import Difference
from warpwatch.runs.record import CaseRecord, Facts, RunRecord, read_run
from warpwatch.timing.measurement import Measured

COPY = find_case(FAMILIES, "copy-naive-256-4096-float32")
TEST = 'import pytest\n\n@pytest.mark.cases("tested")\ndef test_right(check):\n    check()\n'
PLANTED = {*(f"sum-{name}" for name in SUMS), *(f"one-{name}" for name in ONES), "bins-histogram"}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Copy the planted kernels into a repository of their own."""
    shutil.copytree(ROOT / "tests/devices/planted_bits", tmp_path / "mine", ignore=shutil.ignore_patterns("__pyc*"))
    (tmp_path / "pyproject.toml").write_text(TABLE)
    (tmp_path / "test_kernels.py").write_text(TEST)
    return tmp_path


@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")
@pytest.mark.parametrize(
    "asked", [["--deterministic"], pytest.param([], marks=pytest.mark.slow)], ids=["asked", "free"]
)
def test_every_planted_kernel_is_told_and_no_honest_one(repository: Path, asked: list[str]) -> None:
    done = run_pytest(repository, "-q", "--device=software", *asked)
    remarks = re.findall(r"^remark: (\w+-\w+)-.*: bits differ between launches 1 and \d+", done.stdout, re.MULTILINE)
    assert sorted(remarks) == sorted(PLANTED), done.stdout
    assert len(PLANTED) == 11
    assert "each is within tolerance" in done.stdout
    assert "sum-required-64-1000-float32 must give the same bits again (deterministic=True): bits differ" in done.stdout
    apart = re.findall(r"^remark: (\w+-\w+)-.*: bits differ between two processes: y", done.stdout, re.MULTILINE)
    assert apart == ["one-by_address"] * len(asked)
    split = (
        r"rows-split\S+: the same rows have other bits for m = 16 and m = 8: y\[\d+\] \S+ and \S+ \(\d of 8 elements"
    )
    assert re.search(split, done.stdout)
    assert re.search(r"^2 failed, 17 passed", done.stdout.splitlines()[-1]), done.stdout
    assert not any(f"{name}-" in done.stdout for name in (*HONEST, "kept", "allowed", "whole"))
    counted = " and in another process: 4 of 17 cases" if asked else ": 2 of 3 cases"
    assert f"the same bits in later launches, in other orders of blocks{counted}" in done.stdout


def launched(values: list[float], launch: int) -> Outcome:
    return Outcome(results={"y": np.array(values, np.float32)}, damage=(), launch=launch)


def test_launches_with_other_bits_are_named_with_the_element_that_is_furthest_off() -> None:
    watch = Watch(4)
    seen = [launched([1, 2, 3], 1), launched([1.0000001, 2.5, 3], 3), launched([1, 2, 3.1], 4)]
    assert [*watch.over(iter(seen))] == seen
    said = "bits differ between launches 1 and 3: y[1] 2 and 2.5 (2 of 3 elements differ), in 2 of 4 launches; each is"
    assert watch.sentence.startswith(said)
    same = Watch(2)
    assert [*same.over(iter(seen[:1]))]
    assert same.sentence == ""


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (np.float32(1), np.nextafter(np.float32(1), np.float32(2)), "y[0] 1 and 1.00000012 ("),
        (np.float64(1), np.nextafter(1.0, 2.0), "y[0] 1 and 1.0000000000000002 ("),
        (np.float32(0), np.float32(-0.0), "y[0] 0 and -0 ("),
        (np.uint32(0x7FC00000).view("f4"), np.uint32(0x7FC00001).view("f4"), "y[0] 0x7fc00000 and 0x7fc00001 ("),
        (np.int8(3), np.int8(-3), "y[0] 3 and -3 (1 of 1 elements differ)"),
        (np.bool_(True), np.bool_(False), "y[0] True and False ("),
        (np.complex64(1), np.complex64(1j), "y[0] (1+0j) and 1j ("),
    ],
)
def test_values_are_told_so_that_they_differ(one: np.generic, other: np.generic, said: str) -> None:
    assert str(difference({"y": np.array([one])}, {"y": np.array([other])})).startswith(said)
    assert difference({"y": np.array([one])}, {"y": np.array([one])}) is None


def test_processes_with_other_bits_are_told() -> None:
    def repeated(value: float, right: bool = True) -> Repeated:
        return Repeated(digest=str(value), results={"y": np.array([value])}, right=right)

    said = between_processes(repeated(1), repeated(2))
    assert said == "bits differ between two processes: y[0] 1 and 2 (1 of 1 elements differ); each is within tolerance"
    assert between_processes(repeated(1), repeated(2, right=False)).endswith("one of them is not within tolerance")
    assert "two processes" in between_processes(Repeated(digest="1"), repeated(2))


@pytest.mark.parametrize("deterministic", [None, True, False])
def test_the_declaration_decides_what_other_bits_are(deterministic: bool | None) -> None:
    family = replace(SCALE, deterministic=deterministic)
    (variant,) = family.variants
    case = Case(Build(family, variant, variant.listed[0], "float32"), (100,))
    faults, remark = judged(case, "bits differ", "again")
    assert (bool(faults), bool(remark)) == (deterministic is True, deterministic is None)


MISTAKES = [
    ({"deterministic": 1}, "deterministic is 1: give True where the same bits are required, False where they may"),
    ({"same_for": "m"}, "same_for is 'm': give a tuple of sizes, such as ('m',)"),
    ({"same_for": ("rows",)}, "same_for has 'rows', which is not a size; there are m, n, k"),
    ({"same_for": ("n",)}, "same_for has 'n', along which no result grows: name sizes that the first rows of a result"),
]


@pytest.mark.parametrize(("fields", "said"), MISTAKES, ids=[said for _, said in MISTAKES])
def test_a_mistake_is_a_sentence(fields: dict[str, object], said: str) -> None:
    (of_family,) = problems(with_family(**fields))
    assert str(of_family).startswith(f"family matmul: {said}")
    (of_variant,) = problems(with_variant(**fields))
    assert said in str(of_variant)


def test_a_reference_that_depends_on_the_number_of_rows_is_a_mistake() -> None:
    def centred(x: Array) -> Any:
        return x.astype(np.float64) - x.mean(axis=0)

    family = ww.Family(
        "centre",
        sizes=("m", "n"),
        arrays=lambda m, n: {"x": ww.In((m, n), "float32"), "y": ww.Out((m, n), "float32")},
        reference=centred,
        tolerance=ww.relative(1e-5, absolute=1e-6),
        same_for=("n", "m"),
        tests=((5, 7),),
        variants=(ww.kernel("own", configurations=((16, 16),), source=str(ROOT / "kernels/copy/naive.cu")),),
    )
    (problem,) = problems([family])
    assert "same_for has 'm', but the reference gives another y for 1x7 than the first rows of that for 5x7" in str(
        problem
    )


def test_a_smaller_case_whose_kernel_was_not_compiled_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    family = replace(
        SCALE,
        sizes=("m",),
        same_for=("m",),
        tests=((8,),),
        arrays=lambda m: {"x": ww.In(m, "float32"), "y": ww.Out(m, "float32")},
        variants=(ww.kernel("own", entry=lambda m: f"own<{m > 4}>", configurations=((64,),), grid=1),),
    )
    (variant,) = family.variants
    case = Case(Build(family, variant, variant.listed[0], "float32"), (8,))
    inputs = {"x": np.zeros(8, np.float32)}
    monkeypatch.setattr(same_bits, "loaded_with", lambda *given: contextlib.nullcontext())
    monkeypatch.setattr(same_bits, "launch_once", lambda loaded: {"y": np.zeros(7, np.float32)})
    said = [*same_bits._on_fewer_rows(Host(), case, Path(), inputs, {"y": np.zeros(8, np.float32)})]
    why = "own<False> is launched on no shape of `tests` or `benchmarks`; add such a shape to `tests`"
    assert said == [f"m = {m} cannot be compared: {why}" for m in (1, 4)]


KEPT, TIMED = "sum-kept-64-1000-float32", "    tests=((1000,),),\n    variants=(\n        *map(summing"
MEASURE = 'import pytest\n\n@pytest.mark.cases("timed")\ndef bench_kernel(measure):\n    measure()\n'


def add_benchmarks(repository: Path) -> None:
    """Have sums timed, and one more whose order is the clock's, of which the same bits are required."""
    file = repository / "mine" / "__init__.py"
    text = file.read_text()
    assert TIMED in text
    text = text.replace(TIMED, f"    benchmarks=((1000,),),\n{TIMED}")
    kept = 'summing("kept",'
    file.write_text(text.replace(kept, f'summing("timely", "by_the_clock", deterministic=True), {kept}'))
    (repository / "bench").mkdir()
    (repository / "bench" / "bench_kernels.py").write_text(MEASURE)


@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")
def test_samples_with_other_bits_get_no_figure_where_the_same_are_required(repository: Path) -> None:
    add_benchmarks(repository)
    options = ("--device=software", "--benchmark-max-time=1e-9", "--benchmark-min-rounds=3")
    done = run_pytest(repository, "-q", "bench", *options, "-k", "timely or by_the_clock or kept")
    said = (
        r"^sum-timely-64-1000-float32 must give the same bits again \(deterministic=True\): "
        r"bits differ between two samples: total\[0\] \S+ and \S+ \(1 of 1 elements differ\)"
    )
    assert re.search(said, done.stdout, re.MULTILINE), done.stdout
    assert "1 failed, 2 passed" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")
def test_a_saved_run_keeps_the_bits_that_are_required_and_compares_them(repository: Path) -> None:
    add_benchmarks(repository)
    options = ("--device=software", "--benchmark-max-time=1e-9", "--benchmark-min-rounds=3", "-k", "kept or in_order")
    facts = []
    for name in ("first", "second"):
        done = run_pytest(repository, "-q", "bench", *options, f"--benchmark-json={name}.json")
        assert "2 passed" in done.stdout, done.stdout
        run = read_run(repository / f"{name}.json")
        facts.append({case: timed.facts.bits for case, timed in run.cases.items()})
    assert facts[0] == facts[1]
    assert len(facts[0][KEPT]) == 16
    assert [bits for case, bits in facts[0].items() if case != KEPT] == [""]


@pytest.mark.parametrize(
    ("bits", "said"),
    [
        ("a", ["the same bits as in the baseline: 1 of 1 cases"]),
        ("b", [f"the same bits as in the baseline: 0 of 1 cases; not {COPY.id}"]),
        ("", []),
    ],
)
def test_a_run_says_whether_its_bits_are_those_of_the_baseline(bits: str, said: list[str]) -> None:
    facts = {"bits": bits} if bits else {}
    saved = RunRecord(path=Path("0001.json"), cases={COPY.id: CaseRecord(samples=(1e-6,), facts=Facts(bits="a"))})
    comparison = BaselineComparison(runs=[saved])
    comparison.measured[COPY.id] = Measured(kernel=cast("Kernel", None), case=COPY, kind="cold", facts=facts)
    assert [line for line in comparison.describe() if "bits" in line] == said
    comparison.changed[COPY.id] = Difference(changed={"draw": ("drawn otherwise",)})
    assert not any("bits" in line for line in comparison.describe())


def copy_beside_another_kernel() -> bool:
    """Copy, in the worker, while blocks of another kernel take room; return whether the copy is right."""
    device, x = gpu(), np.arange(4096, dtype=np.float32)
    image = compile_build(COPY.build, device.info.target).path
    guarded = upload(device, COPY, {"A": x})
    loaded = load(device, COPY, image, guarded)
    with device._crowded(1):
        results = launch_once(loaded)
    loaded.free_own()
    return np.array_equal(x, next(iter(results.values())))


@pytest.mark.slow
def test_a_kernel_runs_beside_one_that_takes_room(software: Worker) -> None:
    assert software.call(copy_beside_another_kernel)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")
def test_a_case_that_is_run_by_hand_says_so(repository: Path) -> None:
    case = "sum-atomic_sum-64-1000-float32"
    done = run_command(repository, "run", case, "--device=software", "--seed=1", "--launches=4")
    assert re.search(r"^remark    bits differ between launches 1 and \d: total\[0\]", done.stdout, re.MULTILINE), done
    assert done.returncode == 0
