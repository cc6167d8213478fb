"""Tests how a comparison of pairs takes its processes: in which order, how many are started, which open the GPU."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.fake_gpu import INFO
from tests.project import PROJECT
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.selection import timed_cases
from warpwatch.compare import pairs
from warpwatch.compare.pairs import Pair, PairComparison, open_spares, start_spares
from warpwatch.devices.kernel import Kernel
from warpwatch.devices.other_kernel import OtherKernel
from warpwatch.devices.worker import Worker
from warpwatch.timing import measurement, sampling
from warpwatch.timing.measurement import Again, Measured
from warpwatch.timing.nvml import POWER_CAP, Clock
from warpwatch.timing.pair_samples import PairSamples
from warpwatch.timing.side_by_side import Plan, measure_pair
from warpwatch.verdict.rule import MAX_PAIR_PROCESSES, MIN_PROCESSES, SCREENING_PROCESSES, Decision, Verdict

CASE = next(iter(timed_cases(PROJECT.families)))


class FakeWorker:
    """Writes down what it is asked for: processes that load modules or open the GPU, the next one, calls."""

    def __init__(self, ready: int = MIN_PROCESSES - 1) -> None:
        self.ready, self.loaded, self.asked = ready, 0, list[tuple[str, object]]()
        self.kind, self.one_queue = "", True

    @property
    def has_opened_spares(self) -> bool:
        return self.ready > 0

    @property
    def spares(self) -> int:
        return self.ready + self.loaded

    def renew(self, meanwhile: Callable[[], object] | None = None) -> None:
        self.asked.append(("renew", None))
        self.ready = max(0, self.ready - 1)
        if meanwhile:
            meanwhile()

    def call(self, function: Callable[..., object], *given: object) -> None:
        self.asked.append(("call", function))

    def open_spares(self, count: int, get_ready: object, kind: str, *, one_queue: bool) -> None:
        self.kind, self.one_queue = kind, one_queue
        self.asked.append(("open", count))
        self.ready, self.loaded = self.ready + count, max(0, self.loaded - count)

    def start_spares(self, count: int) -> None:
        self.asked.append(("start", count))
        self.loaded += count


def compare(
    worker: FakeWorker, undecided_for: int, monkeypatch: pytest.MonkeyPatch, stamped: str = ""
) -> list[tuple[str, int]]:
    """Compare pairs "a" and "b", undecided until so many processes; return which was measured in which process.

    ``stamped``: the one whose clock is read beside its samples.
    """
    taken: list[tuple[str, int]] = []

    def pair(name: str) -> SimpleNamespace:
        measured = SimpleNamespace(kernel=SimpleNamespace(worker=worker), case=CASE, kind="cold")
        take = lambda process: taken.append((name, process))  # noqa: E731
        return SimpleNamespace(measured=measured, take=take, taken=[SimpleNamespace(has_clocks=name == stamped)])

    def decide(self: PairComparison, prior: object) -> dict[str, Decision]:
        decided = taken[-1][1] + 1 >= undecided_for
        return dict.fromkeys(self.pairs, Decision(verdict=Verdict.SAME if decided else Verdict.UNSURE))

    monkeypatch.setattr(PairComparison, "_decide", decide)
    monkeypatch.setattr(PairComparison, "_effects", lambda self: {})
    monkeypatch.setattr(PairComparison, "_decide_beside", lambda self: None)
    monkeypatch.setattr(pairs, "_may_change", lambda decision: decision.verdict == Verdict.UNSURE)
    monkeypatch.setattr(measurement, "announce_next", lambda *given, reference: None)
    comparison = PairComparison(pairs={name: cast("Pair", pair(name)) for name in "ab"})
    comparison.decide(Again(cold=True, progress=lambda done, of: None, broken={}))
    assert worker.one_queue
    return taken


LOAD = ("start", MAX_PAIR_PROCESSES - MIN_PROCESSES)


@pytest.mark.parametrize(
    ("spares", "undecided_for", "wanted"),
    [
        (MIN_PROCESSES - 1, SCREENING_PROCESSES, []),
        (MIN_PROCESSES - 1, MIN_PROCESSES, [LOAD]),
        (MIN_PROCESSES - 1, MIN_PROCESSES + 1, [LOAD, ("open", MAX_PAIR_PROCESSES - MIN_PROCESSES)]),
        (MIN_PROCESSES - 1, MAX_PAIR_PROCESSES + 1, [LOAD, ("open", MAX_PAIR_PROCESSES - MIN_PROCESSES)]),
        (SCREENING_PROCESSES - 1, MIN_PROCESSES, [("open", MIN_PROCESSES - SCREENING_PROCESSES), LOAD]),
        (MAX_PAIR_PROCESSES - 1, MAX_PAIR_PROCESSES + 1, []),
    ],
)
def test_more_processes_open_the_gpu_only_for_undecided_pairs_that_have_none(
    spares: int, undecided_for: int, wanted: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = FakeWorker(spares)
    compare(worker, undecided_for, monkeypatch)
    assert [each for each in worker.asked if each[0] in ("open", "start")] == wanted


def test_processes_that_have_loaded_their_modules_are_not_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = FakeWorker()
    worker.loaded = MAX_PAIR_PROCESSES - MIN_PROCESSES
    compare(worker, MIN_PROCESSES + 1, monkeypatch)
    assert [each for each in worker.asked if each[0] in ("open", "start")] == [
        ("open", MAX_PAIR_PROCESSES - MIN_PROCESSES)
    ]


class Measuring(FakeWorker):
    """Measures a pair by the name of its image: what it takes in each process, and what is seen beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.measured = Counter[str]()

    def call(self, function: Callable[..., object], *given: Any) -> Any:
        if function is not measure_pair:
            return None
        name = given[1].name
        self.measured[name] += 1
        seconds = 20e-6 if name == "short" else 1e-3
        new = seconds * (1.002 if name == "nearly slower" else 1.0)
        capped = (POWER_CAP,) if name == "capped" else ()
        clock = Clock(1980, capped)
        beside = {"mhz": ((1980.0,) * 4,) * 2} if capped else {}
        return PairSamples(old=(seconds,) * 4, new=(new,) * 4, clocks=(clock, clock), beside=beside)


def test_long_pairs_that_are_clearly_the_same_are_measured_in_two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Measuring()
    kernel = cast("Kernel", SimpleNamespace(worker=worker))
    monkeypatch.setattr(measurement, "announce_next", lambda *given, reference: None)
    comparison = PairComparison()
    for name in ("long", "short", "nearly slower", "capped", "observed"):
        measured = Measured(kernel=kernel, case=CASE, kind="cold")
        observers = ("energy",) if name == "observed" else ()
        other = cast("OtherKernel", None)
        pair = Pair(measured=measured, other=other, other_image=Path(), image=Path(name), observers=observers)
        pair.take(0)
        comparison.pairs[name] = pair
    decisions = comparison.decide(Again(cold=True, progress=lambda done, of: None, broken={}))
    assert {decision.verdict for decision in decisions.values()} == {Verdict.SAME}
    others = dict.fromkeys(("short", "nearly slower", "capped", "observed"), SCREENING_PROCESSES)
    assert worker.measured == {"long": 2, **others}


def test_every_other_process_takes_pairs_in_the_reversed_order(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = compare(FakeWorker(), SCREENING_PROCESSES, monkeypatch)
    assert taken == [("b", 1), ("a", 1), ("a", 2), ("b", 2)]


def test_the_clock_recovers_while_a_process_ends_unless_a_pair_measures_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settled = [("renew", None), ("call", sampling.settle)]
    for stamped, wanted in (("", [*settled, *settled]), ("b", [settled[0], *settled]), ("a", [*settled, settled[0]])):
        worker = FakeWorker()
        compare(worker, SCREENING_PROCESSES, monkeypatch, stamped)
        assert [each for each in worker.asked if each[0] in ("renew", "call")] == wanted


@pytest.mark.parametrize(
    ("slowed", "settle"), [((), True), ((True,), False), ((True, False), True), ((False, True), False)]
)
def test_a_pair_that_kept_the_clock_down_in_the_last_process_does_not_wait_for_it(
    slowed: tuple[bool, ...], settle: bool
) -> None:
    plans: list[Plan] = []

    def call(function: object, *given: Any) -> PairSamples:
        plans.append(given[-1])
        return one

    one = PairSamples(old=(1.0,) * 2, new=(1.0,) * 2, clocks=(Clock(1980, ()), Clock(1980, ())))
    kernel = SimpleNamespace(worker=SimpleNamespace(call=call))
    measured = Measured(kernel=cast("Kernel", kernel), case=CASE, kind="cold")
    pair = Pair(measured=measured, other=cast("OtherKernel", None), other_image=Path(), image=Path())
    pair.taken += [replace(one, keeps_clock_down=each) for each in slowed]
    pair.take(1)
    assert [plan.settle for plan in plans] == [settle]


# At the beginning

MOST, ALL = MIN_PROCESSES - 1, MAX_PAIR_PROCESSES - 1  # the spare processes that most pairs need, and all


@pytest.mark.parametrize(
    ("cores", "parts", "started"),
    [(2, 1, MOST), (15, 1, MOST), (16, 1, ALL), (64, 1, ALL), (32, 2, ALL), (32, 3, MOST)],
)
def test_all_processes_are_started_where_each_has_two_cores(
    cores: int, parts: int, started: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)))
    worker = FakeWorker(0)
    start_spares(cast("Worker", worker), parts)
    assert worker.asked == [("start", started)]


@pytest.mark.parametrize(
    ("started", "gigabytes", "parts", "opened"),
    [(ALL, 8, 1, MOST), (ALL, 24, 1, MOST), (ALL, 80, 1, ALL), (ALL, 80, 2, MOST), (MOST, 80, 1, MOST)],
)
def test_all_that_are_there_open_the_gpu_where_they_hold_a_small_part_of_its_memory(
    started: int, gigabytes: int, parts: int, opened: int
) -> None:
    worker, info = FakeWorker(started), replace(INFO, memory_bytes=gigabytes * 10**9)
    open_spares(cast("Worker", worker), PROJECT.families, info, cold=True, parts=parts)
    assert worker.asked == [("open", opened)]


@pytest.mark.parametrize("cold", [True, False])
def test_spares_use_one_queue_where_everything_is_launched_on_one_stream(cold: bool) -> None:
    worker = FakeWorker()
    libraries = [family for family in PROJECT.families if "attention" not in family.name]  # which PyTorch is called for
    open_spares(cast("Worker", worker), libraries, INFO, cold=cold)
    assert (worker.kind, worker.one_queue) == ("cold" if cold else "warm", True)
    for missing in ("", "torch is not installed"):
        call = SimpleNamespace(is_library=False, missing=lambda missing=missing: missing)
        families = [SimpleNamespace(variants=[SimpleNamespace(call=None), SimpleNamespace(call=call)])]
        open_spares(cast("Worker", worker), cast("list[Family]", families), INFO, cold=cold)
        assert worker.one_queue == bool(missing)
