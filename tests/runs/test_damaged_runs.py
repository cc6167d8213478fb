"""Tests that every command answers a damaged run with one sentence, and does nothing else wrong."""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import json
import lzma
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels import FAMILIES
from tests.project import EARLIER, PROJECT
from tools import recording, replay
from warpwatch.catalogue.cases import find_case
from warpwatch.catalogue.selection import timed_cases
from warpwatch.cli import history
from warpwatch.cli.baseline_promote import promote
from warpwatch.compare import saved_self_check as selfcheck
from warpwatch.compare.reference import difference, find_runs
from warpwatch.compare.with_baseline import BaselineComparison
from warpwatch.devices.kernel import Kernel
from warpwatch.report import family_tables, ladder
from warpwatch.report import tables as report
from warpwatch.report.entries import Results
from warpwatch.report.pictures import pictures_of
from warpwatch.report.site.content import Content
from warpwatch.report.site.render import render
from warpwatch.runs.faults import Fault, Place
from warpwatch.runs.files import run_files
from warpwatch.runs.record import (
    About,
    BadRun,
    Commit,
    Facts,
    Gpu,
    Outcome,
    RecordedDecision,
    RunRecord,
    Sides,
    TestRecord,
    read_document,
    read_run,
    read_usable,
    recorded,
)
from warpwatch.timing import sampling
from warpwatch.timing.measurement import Again, Measured
from warpwatch.timing.nvml import Clock
from warpwatch.verdict.rule import Decision, Verdict

MUTATIONS = int(os.environ.get("MUTATIONS", "150"))
H200 = EARLIER / "nvidia-h200"
RECORDINGS = EARLIER.parent / "nvidia-h200"
# What stands where the file gets something that Python would not write.
DEEP, DEPTH = "a list 200,000 deep", 200_000
LONG = "a number of 5,000 digits"
# One rung of each family that tables show, a library's and the host's.
CASES = {
    "matmul-cublas-vendor-4096x4096x4096-float32",
    "matmul-tiled-16x16-4096x4096x4096-float32",
    "matvec-split-512-8192x8192-float32",
    "transpose-vectorised-64x64-8192x8192-float32",
    "conv2d-columns-512x128-8192x8192x7-float32",
    "separable-columns-512x20-8192x8192x7-float32",
    "matmul-serial-host-128x128x128-float32",
}


DECLARED = {case.id: case for case in timed_cases(FAMILIES)}


@functools.cache
def whole() -> list[dict[str, Any]]:
    """Real runs with few cases and samples: of a baseline, and of pairs."""
    runs = [read_document(path) for path in run_files(H200)[-3:]]
    runs.append(json.loads(lzma.decompress((RECORDINGS / "0014_self-check.json.xz").read_bytes())))
    for run in runs:
        run["benchmarks"] = [entry for entry in run["benchmarks"] if entry["param"] in CASES]
        for number, entry in enumerate(run["benchmarks"]):
            entry["stats"]["data"] = entry["stats"]["data"][: 1 + number % 3]
            for side in entry["extra_info"].get("pairs", {}).values():
                side[:] = [samples[:4] for samples in side]
    runs[0]["warpwatch"] |= about()
    return runs


def about() -> dict[str, Any]:
    """What a run of now records of itself."""
    decision = Decision(
        verdict=Verdict.SLOWER, before=1e-3, after=1.1e-3, ratio=1.1, low=1.09, high=1.11, floor=0.01, processes=5
    )
    fault = Fault(kind="race", kernel="copy", place=Place(file="copy.cu", line=3), others=(Place(file="b.cu", line=4),))
    test = TestRecord(id="bench::one[x]", outcome=Outcome.FAILED, case="x", reason="two\nlines", faults=(fault,))
    decisions = dict.fromkeys(sorted(CASES), decision)
    facts = {"tests": [test], "notes": ["a note"], "alarm": "all", "past": ["1"]}
    return recorded({"decisions": decisions, "energies": decisions} | facts)


@functools.cache
def whole_check() -> dict[str, Any]:
    """A real self-check with few cases."""
    document: dict[str, Any] = json.loads((PROJECT.baselines / "nvidia-h200.self-check.json").read_bytes())
    return document | {"cases": dict(list(document["cases"].items())[::60])}


def places(node: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every node below this one."""
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield (*at, key)
        yield from places(child, (*at, key))


READ = {each.name for kind in (Facts, Gpu, Commit, Sides, selfcheck.CheckedCase) for each in fields(kind)}
READ |= {name for kind in (Fault, Place, TestRecord) for name in kind.__struct_fields__}
READ |= {each.name for kind in (About, RecordedDecision) for each in fields(kind)}
READ |= {"machine_info", "gpu", "commit_info", "datetime", "warpwatch", "whole", "failed", "slower", "against"}
READ |= {"benchmarks", "param", "name", "stats", "data", "extra_info", "cases", "*"}  # *: an element of a list


def node_at(document: Any, way: Sequence[Any]) -> Any:
    """Node to which a path leads."""
    return functools.reduce(lambda node, step: node[step], way, document)


ODD: list[Any] = [
    *(None, True, False, "", "x", "a\nb\x1b[2J", "\ud800", "../../../x", "x" * 20_000, DEEP, LONG),
    *([], {}, [[]], [None]),
    *(0, -1, 1, 2**31, 2**63, 10**400, -(10**400)),
    *(0.0, -0.0, 0.5, 1e-300, 1e300, 1.7e308, float("nan"), float("inf"), float("-inf")),
    *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "2026-02-30T00:00:00", "NaN", "1e-6"),
]
ODD_VALUES = st.sampled_from(ODD) | st.sampled_from([[odd] for odd in ODD]) | st.floats() | st.integers() | st.text()


def likeness(way: Sequence[Any]) -> tuple[Any, ...]:
    """Make one name for the same node of every case, and for every sample."""
    return tuple("*" if isinstance(step, int) else step for step in way)


@st.composite
def mutated(draw: st.DrawFn, document: dict[str, Any]) -> dict[str, Any]:
    """The document with one to three nodes replaced, removed, doubled, exchanged or added.

    A node is replaced or removed alone, or with all that are like it: so a whole file from another tool looks.
    """
    changed: dict[str, Any] = copy.deepcopy(document)
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
        ways: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
        for way in places(changed):
            ways.setdefault(likeness(way), []).append(way)
        read = [like for like in ways if like[-1] in READ]  # half of the time what some code looks at
        if not ways:
            break
        alike = ways[draw(st.sampled_from(draw(st.sampled_from([list(ways), read or list(ways)]))))]
        way = draw(st.sampled_from(alike))
        chosen = draw(st.sampled_from([[way], draw(st.lists(st.sampled_from(alike), unique=True)), alike]))
        parent, value = node_at(changed, way[:-1]), draw(ODD_VALUES)
        match draw(st.sampled_from(["replace", "replace", "remove", "double", "exchange", "add"])):
            case "replace":
                for each in chosen:
                    node_at(changed, each[:-1])[each[-1]] = copy.deepcopy(value)
            case "remove":
                for each in sorted(chosen, reverse=True):
                    del node_at(changed, each[:-1])[each[-1]]
            case "double" if isinstance(parent, list):
                parent.insert(way[-1], copy.deepcopy(parent[way[-1]]))
            case "exchange":
                other = draw(st.sampled_from(ways[draw(st.sampled_from(list(ways)))]))
                parent[way[-1]] = copy.deepcopy(node_at(changed, other))
            case _ if isinstance(parent, dict):
                parent[draw(st.sampled_from(sorted(READ)) | st.text(max_size=5))] = copy.deepcopy(value)
    return changed


def as_bytes(document: Any) -> bytes:
    """Write JSON, with what Python cannot write in the places that stand for it."""
    text = json.dumps(document).replace(json.dumps(DEEP), "[" * DEPTH + "]" * DEPTH)
    return text.replace(json.dumps(LONG), "9" * 5000).encode()


@st.composite
def broken(draw: st.DrawFn, content: bytes) -> bytes:
    """The bytes cut off, turned, left out or put in, at one to three places."""
    for _ in range(draw(st.integers(1, 3))):
        at, some = draw(st.integers(0, max(0, len(content) - 1))), draw(st.binary(min_size=1, max_size=8))
        match draw(st.sampled_from(["cut", "overwrite", "insert", "leave out"])):
            case "cut":
                content = content[:at]
            case "overwrite":
                content = content[:at] + some + content[at + len(some) :]
            case "insert":
                content = content[:at] + some + content[at:]
            case _:
                content = content[:at] + content[at + len(some) :]
    return content


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, bytes]:
    """The name and the bytes of a damaged run: by JSON twice as often as by bytes, packed by xz now and then."""
    document = draw(st.sampled_from(whole()))
    packed = draw(st.sampled_from([False, False, True]))
    structural = draw(st.sampled_from([True, True, False]))
    content = as_bytes(draw(mutated(document)) if structural else document)
    if packed:
        content = lzma.compress(content, preset=0)
    if not structural:
        content = draw(broken(content))
    return ("0004_night.json" + ".xz" * packed), content


class FakeWorker:
    """Answers like the process with the kernels: every sample takes as long."""

    def renew(self, meanwhile: Callable[[], object] | None = None) -> None:
        """There is no process."""
        if meanwhile:
            meanwhile()

    def open_spares(self, count: int, get_ready: Callable[..., object], *args: object) -> None:
        """Nor are there others."""

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        answers = {sampling.take_samples: [(1e-3, 0)], sampling.read_clock: Clock(1980, ())}
        return answers.get(function, {})


def measured_now() -> dict[str, Measured]:
    """Measure the same cases as a run would have."""
    found = {}
    for entry in whole()[0]["benchmarks"]:
        case = find_case(FAMILIES, entry["param"])
        kernel = cast(Kernel, SimpleNamespace(worker=FakeWorker(), image=SimpleNamespace(path=Path("none"))))
        facts = {**entry["extra_info"], "hold_timeouts": 0}
        processes = [[1.1 * sample for sample in entry["stats"]["data"]]]
        found[case.id] = Measured(kernel=kernel, case=case, kind="cold", rounds=3, facts=facts, processes=processes)
    return found


def compare_with(path: Path) -> None:
    """Compare as `pytest bench --benchmark-compare=PATH` and --benchmark-compare=FOLDER do."""
    gpu = whole()[0]["machine_info"]["gpu"]
    for chosen in (path, path.parent):
        runs, problems = find_runs(str(chosen), path.parent, path.parent / "baselines", gpu["slug"], gpu["uuid"])
        comparison = BaselineComparison(
            runs=runs, gpu_uuid=gpu["uuid"], incomparable_reason=difference(runs, gpu), measured=measured_now()
        )
        comparison.conclude(Again(True, lambda done, total: None, {}))
        print(*comparison.describe(), *report.summary(comparison.decisions, comparison.missing(set())), *problems)


def kept_beside(nights: Path) -> Path:
    """Folder of the baselines that the site compares with: inside that of the nights it would be a GPU of theirs."""
    return nights.with_name(f"{nights.name}-baselines")


def site_of(path: Path, good: Sequence[Path]) -> None:
    """Make the pages of a run with good nights before it, and compared with a baseline of those."""
    project = replace(PROJECT, root=path.parent, baselines_folder=str(kept_beside(path.parent)))
    files = render(Content.gather(project, [*good, path]), path.parent / "site")
    print(*files.values())


def _pictures(results: Results) -> None:
    for family in FAMILIES:
        print(*(pictures_of(results, family.name, dtype) for dtype in results.by_type(family.name)))


def use(path: Path, order: int) -> None:
    """Do all that commands do with a saved run. Each part may say that the run is bad, and nothing else.

    ``order``: whether the run is given by itself, as the first of several, or as the last.
    """
    good = [read_run(other) for other in sorted(path.parent.glob("000[123]_*"))]

    def with_it(text: Callable[[Sequence[RunRecord]], object]) -> Callable[[], object]:
        return lambda: text([*(good if order == 2 else ()), read_run(path), *(good if order == 1 else ())])

    def unseen_gpus(runs: Sequence[RunRecord]) -> object:
        return [replay.play_unseen(good, runs), replay.play_unseen(runs[:1], good)]

    project = replace(PROJECT, root=path.parent)  # which has no baselines
    every = ("failed", "partial", "dirty", "mixed", "gpu", "against")
    parts: list[Callable[[], object]] = [
        with_it(lambda runs: family_tables.report(Results(families=FAMILIES, runs=runs), Path("none"))),
        with_it(lambda runs: ladder.tables(runs, FAMILIES)),
        with_it(lambda runs: _pictures(Results(families=FAMILIES, runs=runs))),
        with_it(recording.record),
        with_it(recording.record_pairs),
        with_it(unseen_gpus),
        lambda: promote(project, [path], allowed=(), dry_run=True),
        lambda: promote(project, [path, *(run.path for run in good)], allowed=every, dry_run=True),
        lambda: history.run(project, case="", folder=path.parent, new=None),
        lambda: history.run(project, case=next(iter(good[0].cases)), folder=path.parent, new=None),
        lambda: compare_with(path),
        lambda: read_usable([path]),
    ]
    parts += [lambda: site_of(path, [run.path for run in good])] * (order == 0)
    for part in parts:
        said = ""
        try:
            print(part())
        except BadRun as error:
            said = str(error)
        assert not said or str(path.parent) in said or "these runs" in said, said
        assert "\n" not in said


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of three good nights, into which a damaged one comes; the baselines are in an empty one meanwhile."""
    folder = tmp_path_factory.mktemp("nights")
    for number, document in enumerate(whole()[:3], 1):
        (folder / f"{number:04}_night.json").write_bytes(as_bytes(document))
        kept = kept_beside(folder) / "nvidia-h200"
        kept.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / f"{number:04}_night.json", kept)
    return folder


@pytest.mark.slow
@settings(max_examples=MUTATIONS, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(damage=damaged(), order=st.integers(0, 2))
def test_a_damaged_run_is_told_by_a_sentence(nights: Path, damage: tuple[str, bytes], order: int) -> None:
    name, content = damage
    path = nights / name
    path.write_bytes(content)
    said = io.TextIOWrapper(io.BytesIO(), "utf-8")  # a terminal takes what UTF-8 has
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            use(path, order)
    finally:
        path.unlink()


@settings(max_examples=MUTATIONS // 3, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(data=st.data())
def test_a_damaged_self_check_is_told_by_a_sentence(nights: Path, data: st.DataObject) -> None:
    content = as_bytes(data.draw(mutated(whole_check())))
    if data.draw(st.booleans()):
        content = data.draw(broken(content))
    path = selfcheck.path_of("nvidia-h200", nights)
    path.write_bytes(content)
    try:
        with contextlib.suppress(BadRun):
            print(selfcheck.table(selfcheck.read(path)), selfcheck.read_variances("nvidia-h200", nights))
        with pytest.raises(BadRun):  # of a few cases, so never a whole
            selfcheck.merge([path], FAMILIES, nights / "merged")
    finally:
        path.unlink()
