"""Measures a case from pytest: chooses its rounds, has the worker process take samples, and keeps its facts."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.named_arguments import call
from warpwatch.devices.compile.compiler import code_size
from warpwatch.devices.kernel import Kernel
from warpwatch.devices.machine import DeviceError, NoFigure
from warpwatch.devices.mismatch import WrongResult
from warpwatch.devices.opening import NoDevice
from warpwatch.devices.worker import Worker, describe_device
from warpwatch.timing import observers, sampling
from warpwatch.timing.inputs import SHAPES_AHEAD, shape_key, sharing_key
from warpwatch.timing.observers import host
from warpwatch.timing.roofs import remark_on_rate
from warpwatch.timing.stopping import of_samples
from warpwatch.timing.timer import kernel_seconds
from warpwatch.verdict import other_data
from warpwatch.verdict.other_data import DataEffect

PILOT_SAMPLES = 3
MOST_ROUNDS = 100  # more rounds do not help: processes differ by more than 100 rounds resolve
WARM_UP_SHARE = 1 / 3  # of a case's time, at most
_played: list[float] = []  # samples that pytest-benchmark was given, in seconds


@dataclass(frozen=True)
class Reading:
    """Number of samples at a moment. The difference of two readings is the sum of the samples between, in seconds.

    A difference of times since a far epoch would lose the precision of CUDA's float32 milliseconds.
    """

    count: int

    def __sub__(self, earlier: Reading) -> float:
        return math.fsum(_played[earlier.count : self.count])


def read() -> Reading:
    """Return a reading: the timer function of pytest-benchmark, which subtracts that before a round from that after.

    What it times is ``Measured.sample``, which plays back a sample.
    """
    return Reading(len(_played))


@dataclass(frozen=True)
class Budget:
    """Time that a case may take: ``seconds`` of wall time, but never fewer than ``rounds`` samples.

    ``observers``: options of those that are asked for (observers/), which take time of their own. ``serial_rounds``:
    the most samples of a slow serial variant, of which ``rounds`` would take longer than ``seconds``; None: as many as
    ``rounds``.
    """

    seconds: float
    rounds: int
    warm_up: bool
    observers: tuple[str, ...] = ()
    serial_rounds: int | None = None


@dataclass(kw_only=True)
class Measured:
    """A case that was checked and can be sampled.

    ``kind``: cold, warm or host. ``facts``: what is recorded beside its samples. ``processes``: samples in seconds of
    each process that measured it. ``is_pair``: all samples were taken and checked beforehand. ``accepted``:
    fingerprints of its right results, for processes that check it again. ``pending``: samples of this process that no
    round has had yet. ``before``: the first ones, and all where they are taken round by round. ``fewest``, ``most``:
    limits of the samples of a process; between them they end when they are precise.
    """

    kernel: Kernel
    case: Case
    kind: str
    rounds: int = 0
    facts: dict[str, Any] = field(default_factory=dict)
    processes: list[list[float]] = field(default_factory=list)
    is_pair: bool = False
    accepted: sampling.Accepted | None = None
    pending: list[float] = field(default_factory=list)
    before: list[float] = field(default_factory=list)
    fewest: int = 1
    most: int = 1

    def sample(self) -> float:
        """Take one round: the timer of pytest-benchmark advances by the time that the GPU took."""
        if not self.pending:
            self.pending = self.take(self.before)
            self.before += self.pending
        _played.append(self.pending.pop(0))
        return _played[-1]

    def take_for_rounds(self) -> None:
        """Take all samples of this process now, for the rounds to come: their number is that of the rounds.

        Those of the host may take seconds, and are taken round by round; those of a pair were taken already.
        """
        if self.kind == "host" or self.is_pair:
            return
        self.pending = self.take_all(self.before)
        self.rounds = len(self.pending)
        self.facts |= self.kernel.worker.call(observers.end)

    def take_all(self, before: Sequence[float] = ()) -> list[float]:
        """Take samples in seconds until they are precise: at least ``fewest``, at most ``most``.

        ``before``: the first of them, which this process has taken already.
        """
        samples = list(before)
        while not of_samples(self.fewest, self.most, samples).is_finished:
            samples += self.take(samples)
        return samples

    def take(self, before: Sequence[float]) -> list[float]:
        """Take at least one sample after those of ``before``: so many as one call to the worker takes."""
        taken = self.kernel.worker.call(sampling.take_samples, self.kind, self.fewest, self.most, before)
        self.facts["hold_timeouts"] += sum(thrown_away for _, thrown_away in taken)
        return [seconds for seconds, _ in taken]

    def check(self, median: float | None) -> None:
        """Check the case after its samples, in the process that took them. Raises WrongResult or DeviceError.

        ``median``: of the samples, in seconds.
        """
        if not self.is_pair:  # pairs are checked where they are taken
            self.accepted = self.kernel.worker.call(sampling.finish, self.kind, median)

    def record_bits(self) -> None:
        """Record a digest of the results where the declaration requires the same bits again. Raises DeviceError."""
        is_asked = self.case.deterministic and self.case.results and not self.is_pair
        if is_asked and (bits := self.kernel.worker.call(sampling.result_bits)):
            self.facts["bits"] = bits

    def observe(self, asked: Collection[str]) -> None:
        """Record what observers that are asked for measure apart, of a case that is not a pair. Raises DeviceError."""
        if asked and not self.is_pair and self.kind != "host":
            self.facts |= self.kernel.worker.call(sampling.observe, asked)
            self.remark_on_facts()

    def remark_on_facts(self) -> None:
        """Record a remark on what observers that are asked for have found."""
        effects = self.facts.get("data", {}).items()
        self._remark(other_data.remark({name: DataEffect(**effect) for name, effect in effects}))
        self._remark(host.remark(self.facts.get("allocated_bytes", 0)))

    def finish(self, median: float) -> None:
        """Record rates, and a remark where one is odd. ``median``: of the samples, in seconds."""
        work, seconds = self.case.work, kernel_seconds(median, self.facts.get("overhead", 0.0))
        self.facts["gflops"] = round(work.operations / seconds / 1e9, 3)
        self.facts["gbs"] = round(work.bytes / seconds / 1e9, 3)
        if self.kind == "host":
            return
        self._remark(remark_on_rate(self.case, self.kernel.worker.call(describe_device), median))

    def _remark(self, remark: str) -> None:
        if remark:
            self.facts["remarks"] = (*self.facts.get("remarks", ()), remark)


def prepare(kernel: Kernel, case: Case, cold: bool, budget: Budget) -> Measured:
    """Check a case, warm up, and choose its rounds from a few first samples. Raises WrongResult or DeviceError."""
    kind = "host" if case.variant.on_host else "cold" if cold else "warm"
    measured = Measured(kernel=kernel, case=case, kind=kind)
    worker, image = kernel.worker, kernel.image
    measured.facts |= worker.call(sampling.prepare, case, image.path, cold, kernel.checked.path)
    measured.facts |= facts_before_launch(kernel, case)
    if kind != "host":
        worker.call(sampling.settle)  # outside this case's time, because earlier cases slowed the clock
        worker.call(sampling.begin_ahead)
    elif call(case.family.serial_seconds, case.given) * budget.rounds > budget.seconds:
        # A first sample would cost as much as a round.
        measured.rounds = measured.fewest = measured.most = min(budget.rounds, budget.serial_rounds or budget.rounds)
        return measured
    begin = time.perf_counter()
    if kind != "host":
        if budget.warm_up:
            worker.call(sampling.warm_up, kind, budget.seconds * WARM_UP_SHARE)
        worker.call(observers.begin)
    cost = _take_pilot(measured, budget)
    left = budget.seconds - (time.perf_counter() - begin)
    measured.rounds = measured.most = _choose_rounds(left, cost, budget.rounds)
    measured.fewest = measured.rounds if kind == "host" else budget.rounds
    return measured


def _choose_rounds(seconds: float, cost: float, fewest: int) -> int:
    """Return how many rounds of ``cost`` seconds fit: at least ``fewest``, else at most MOST_ROUNDS."""
    return max(fewest, min(MOST_ROUNDS, int(seconds / cost)))


def _take_pilot(measured: Measured, budget: Budget) -> float:
    """Take a few first samples, and return the seconds that each took of wall time.

    They count as samples where the GPU was warmed up before. The host's one does not: its caches are still cold.
    """
    begin = time.perf_counter()
    for taken in range(1, 1 + (1 if measured.kind == "host" else PILOT_SAMPLES)):
        seconds, thrown_away = measured.kernel.worker.call(sampling.sample, measured.kind)
        if measured.kind != "host" and budget.warm_up:
            measured.before.append(seconds)
            measured.facts["hold_timeouts"] += thrown_away
        cost = (time.perf_counter() - begin) / taken
        if cost * budget.rounds > budget.seconds:
            break
    measured.pending = list(measured.before)
    return cost


def facts_before_launch(kernel: Kernel, case: Case) -> dict[str, Any]:
    """Return what is recorded of a case before it runs."""
    return {
        "operations": case.work.operations,
        "bytes": case.work.bytes,
        "source_hash": kernel.image.source_hash,
        "image_hash": kernel.image.image_hash,
        "code_bytes": code_size(kernel.image.path),
        "compile_seconds": kernel.image.seconds,
        "prints": bool(case.family.prints),
    }


@dataclass(frozen=True)
class Again:
    """Instructions to measure cases again.

    ``progress``: is told how many are done, of how many. ``broken``: is filled with the message of each case that was
    right before and fails now, by its id. ``say``: prints a line.
    """

    cold: bool
    progress: Callable[[int, int], None]
    broken: dict[str, str]
    say: Callable[[str], object] = bool

    def each(
        self, cases: Mapping[str, Measured], measure: Callable[[str], object], how: str = "again in a fresh process"
    ) -> None:
        """Measure cases in the current process, one after the other. ``measure``: is called with the id of each."""
        later = [measured.case for measured in cases.values()]
        for done, (name, measured) in enumerate(cases.items(), 1):
            try:
                announce_next(measured.kernel.worker, measured.case, later[done:], reference=False)
                measure(name)
            except NoFigure:
                pass  # the process before had one
            except (DeviceError, WrongResult) as error:
                self.broken[name] = f"measured {how}: {error}"
            self.progress(done, len(cases))


def take_next_process(worker: Worker) -> None:
    """End the worker's process; the next one waits meanwhile until the last cases keep the SM clock down no more."""

    def settle() -> None:
        with contextlib.suppress(DeviceError, NoDevice):  # the first case in that process says why
            worker.call(sampling.settle)

    worker.renew(settle)


def announce_next(worker: Worker, case: Case, later: Iterable[Case], *, reference: bool = True) -> None:
    """Tell the worker which cases will need other inputs than ``case``: it makes them while ``case`` is measured.

    ``later``: the cases after it, in their order. ``reference``: their results will be compared with NumPy.
    """
    following: dict[tuple[object, ...], Case] = {}  # the first of each shape
    for other in later:
        if sharing_key(other) != sharing_key(case):
            following.setdefault(shape_key(other), other)
        if len(following) == SHAPES_AHEAD:
            break
    worker.call(sampling.announce, list(following.values()), reference)  # none is news too: nothing is kept for others
