"""Times calls that are not trusted: by this process's own clock, with fresh inputs in every launch.

A sample is the slope of wall time over the number of launches. The call runs on 1, 2, 4 and 8 sets of arrays, in a
random order, in its process (devices/foreign/candidate.py). Before each go that process is stopped, while this one
writes inputs that were never there before, poisons the results, and replaces what L2 holds; so each launch finds its
inputs in memory. Then it tells the process to go, and the time ends when it has itself read digests of pieces of all
results, chosen at random. What every go costs, however many launches it has, is no part of a slope, and nothing is
gained by saying "done" too early: what is digested later must be the same.

A slope cannot be shorter than the host takes to launch. Where it is no longer than that of an empty kernel, which this
process launches from Python in the same way, the case gets no figure.
"""

from __future__ import annotations

import functools
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from warpwatch.catalogue.arrays import ALL_ROWS, Array, Role
from warpwatch.catalogue.cases import Case, initial_values
from warpwatch.catalogue.draws import Draw
from warpwatch.devices.digest import MOST_RANGES, Range, digests
from warpwatch.devices.evaluate import nothing_shown
from warpwatch.devices.foreign.candidate import Candidates
from warpwatch.devices.foreign.secret_random import SecretRandom
from warpwatch.devices.gpu import ONE, Device
from warpwatch.devices.machine import GuardedArray, NoFigure, Resources
from warpwatch.devices.mismatch import WrongResult, compare_all, explain
from warpwatch.devices.references import expected
from warpwatch.devices.runner import initial_word, naming
from warpwatch.devices.worker import gpu
from warpwatch.timing import observers
from warpwatch.timing.fresh_inputs import FreshInputs, Recipe
from warpwatch.timing.inputs import compared_rows
from warpwatch.timing.timer import SHORTEST, GpuTimer

HOW = "slope of wall time"  # facts["how"]
COUNTS = (1, 2, 4, 8)  # launches of a go
MEMORY_SHARE = 0.8  # of the free memory, which sets of arrays take at most
PASSES, SAMPLE_SECONDS = 5, 0.02  # of a sample: more passes where they are short
PILOT = 5  # samples that show whether there is a figure
# So many launches are proved against the reference at least, chosen at random; more as long as that takes no longer.
# With half of the launches wrong, one in 2^12 such calls is not found; where a proof takes LONG_PROOF seconds, as of
# arrays of a gigabyte, half as many are proved, and one in 2^6 is not.
FEWEST_PROVED, PROOF_SECONDS, SAMPLES = 12, 1.0, 30  # of a case's samples, about so many
LONG_PROOF = 0.5
EMPTY_ROUNDS = 11
CHECKED_BYTES = 2**24  # of the inputs, above which some rows of the result are enough after a whole one
PIECE_BYTES = 8192  # of a large result, which are looked at first
LONG = 5e-3  # seconds of a launch from which on a few show its time
# A launch alone takes longer than one more beside others, by what the host does first, and by the GPU's change from one
# process to the other. Launches of a go that overlap are told apart from that where one alone takes OVERLAP times as
# long, and besides what a first launch has taken that was to be trusted, and LATENCY seconds. Of 120 honest goes of
# cuBLAS on two H200s the slowest took 0.24 ms more than the first two together.
OVERLAP, LATENCY = 2.0, 3e-4
# A GPU's slope is that of the call's own queuing where this takes QUEUED of it, which a process that says less does not
# gain from; and nobody's where the middle half of the slopes is SCATTER of it wide. Of 40 calls of libraries on an H200
# those within both are 0.9 to 1.13 times as long as by events.
QUEUED, SCATTER = 0.7, 0.25


class Shareable:
    """Device whose memory the other process may have."""

    def __init__(self, device: Device, candidates: Candidates) -> None:
        self._device, self.allocate = device, candidates.allocate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)


@dataclass(kw_only=True)
class Set:
    """Arrays of one launch by name, in memory that the other process has.

    ``recipe``: what its inputs are made of. ``inputs``: digests of these with their guard bands.
    """

    arrays: Mapping[str, GuardedArray]
    recipe: Recipe = field(default_factory=Recipe)
    inputs: Sequence[int] = ()

    def free(self) -> None:
        for array in self.arrays.values():
            array.free()


def slope(times: Mapping[int, Sequence[float]]) -> float:
    """Return the seconds that one more launch takes. ``times``: of goes, by their numbers of launches.

    It is the median of the slopes between all pairs of numbers (Theil and Sen).
    """
    points = [(count, statistics.median(seconds)) for count, seconds in times.items()]
    return statistics.median((b[1] - a[1]) / (b[0] - a[0]) for i, a in enumerate(points) for b in points[i + 1 :])


def measured_slope(counts: Sequence[int], run: Callable[[int], float], rng: SecretRandom, passes: int = 1) -> float:
    """Run so many launches at a time, in a random order in each pass; return what one more takes in seconds.

    There are several passes as long as they take less than SAMPLE_SECONDS.
    """
    times: dict[int, list[float]] = {count: [] for count in counts}
    begin = time.perf_counter()
    for number in range(passes):
        if number and time.perf_counter() - begin > SAMPLE_SECONDS:
            break
        for count in rng.sample(counts, len(counts)):
            times[count].append(run(count))
    return slope(times)


def doubt(slopes: Sequence[float], *, shortest: float, alone: float, first: float, queued: float, on_gpu: bool) -> str:
    """Say why slopes tell no time; empty where they do. All in seconds.

    ``shortest``: of the host's launch. ``alone``: of a go with one launch, beyond one with none. ``first``: that a
    first launch takes besides. ``queued``: that the call takes on the host.
    """
    figure = statistics.median(slopes)
    low, most = np.quantile(slopes, (0.25, 0.75))  # a busy host disturbs some
    if figure <= shortest:
        return (
            f"a launch takes {1e6 * figure:.1f} µs, shorter than the host's launch of an empty kernel "
            f"({1e6 * shortest:.1f} µs): time a larger shape, or without --untrusted"
        )
    if alone > OVERLAP * most + first + LATENCY:
        return (
            f"a launch alone takes {1e6 * alone:.1f} µs and each one more {1e6 * figure:.1f}, as if they "
            "overlapped: queue on `stream` alone"
        )
    if on_gpu and queued > QUEUED * figure:
        return (
            f"a launch takes {1e6 * figure:.1f} µs, of which the call takes {1e6 * queued:.1f} on the host: time a "
            "larger shape, or without --untrusted"
        )
    if on_gpu and most - low > SCATTER * figure:
        return (
            f"a launch takes {1e6 * low:.1f} to {1e6 * most:.1f} µs by wall time: time a larger shape, or without "
            "--untrusted"
        )
    return ""


@functools.cache
def timer() -> GpuTimer:
    """Return this process's timer, of which only kernels are used."""
    return GpuTimer(gpu(), cold=True)


@functools.cache
def launch_seconds() -> float:
    """Return the seconds that the host takes to launch an empty kernel from Python, as the slope of wall time.

    A slope of a busy host may be negative; a launch takes SHORTEST at least.
    """
    device, start = gpu(), timer().kernel("empty", ONE)

    def run(count: int) -> float:
        device.finish()
        begin = time.perf_counter_ns()
        for _ in range(count):
            start()
        device.finish()
        return 1e-9 * (time.perf_counter_ns() - begin)

    rng = SecretRandom()
    return max(SHORTEST, round(statistics.median(measured_slope(COUNTS, run, rng) for _ in range(EMPTY_ROUNDS)), 10))


class CandidateSamples:
    """A prepared case whose call is not trusted, and its samples."""

    def __init__(self, case: Case, cold: bool) -> None:
        """Prepare the call while inputs have other values than later. Raises DeviceError, BadCase or NoFigure."""
        self.case, self._device, self._cold = case, gpu(), cold
        assert isinstance(self._device.calls, Candidates)
        self._candidates = self._device.calls
        self._rng = SecretRandom()
        self._results: set[tuple[int, ...]] = set()  # digests of all so far
        self._digested: list[tuple[int, ...]] = []  # results of the last go
        self._pieces, self._digested_pieces = list[Range](), list[int]()  # of them
        self._proved, self._share = 0, 1.0
        self._sets: list[Set] = []
        self._slopes: list[float] = []
        self._alone: list[float] = []  # seconds of goes with one launch
        self._idle: list[float] = []  # and with none, as long as these took before anything was imported
        self._queued: list[float] = []  # that the call took on the host, as its process says
        self.at_most = math.inf  # seconds that a launch can have taken, with all that a go costs
        self._candidates.release()
        self._fresh = FreshInputs(self._device, case, self._rng)
        try:
            self._counts = self._affordable()
            self._sets += (self._new_set() for _ in range(self._counts[-1]))
            for each in self._sets:
                self._fresh.write(self._inputs_of(each))
            self._device.finish()
            addresses = [{name: array.address for name, array in each.arrays.items()} for each in self._sets]
            with naming(case):
                self._candidates.prepare(case, addresses)
        except BaseException:
            self.release()
            raise

    def check(self) -> None:
        """Prove single launches, and see whether there is a figure. Raises WrongResult, DeviceError or NoFigure."""
        shortest = min(self.go(1, certain=True) for _ in range(2))
        if shortest > LONG:
            self._counts = self._counts[:2]
        for _ in range(PILOT):
            self.sample()
        self.look()
        self.check_figure()

    def look(self) -> None:
        """Raise WrongResult where the call's process is not what it was, or goes on."""
        if found := self._candidates.look():
            self._candidates.stop()
            raise WrongResult(f"{self.case.id}: {found}")

    def sample(self) -> float:
        """Take a sample, in seconds. Raises WrongResult or DeviceError."""
        self.go(0)
        self._slopes.append(measured_slope(self._counts, self.go, self._rng, PASSES))
        return max(launch_seconds(), round(self._slopes[-1], 10))  # what is shorter was disturbed

    def check_figure(self) -> None:
        """Raise NoFigure where the samples so far tell no time."""
        why = doubt(
            self._slopes,
            shortest=launch_seconds(),
            alone=min(self._alone) - statistics.median(self._idle),
            first=self._candidates.first_seconds,
            queued=statistics.median(self._queued),
            on_gpu=self._device.info.has_gpu_clock,
        )
        if why:
            raise NoFigure(f"{self.case.id}: no figure: {why}")

    def go(self, count: int, certain: bool = False) -> float:
        """Launch on the first sets with fresh inputs; return the seconds until all results are digested.

        ``certain``: all of them are proved. A process whose call is wrong is not used again. Raises WrongResult or
        DeviceError.
        """
        try:
            seconds = self._go(count, certain)
        except WrongResult:
            self._candidates.stop()
            raise
        if count == 1:
            self._alone.append(seconds)
        if count:
            self._queued.append(self._candidates.queued / count)
            self.at_most = min(self.at_most, seconds / count)
        return seconds

    def facts(self) -> dict[str, Any]:
        """Return what is recorded beside the samples."""
        call = self.case.variant.call
        return {
            **asdict(Resources()),
            "occupancy": None,
            "fallback": self.case.fallback,
            "library": call.version() if call else "",
            "places": len(self._sets),
            "grid": list(self.case.launch.grid),
            "dynamic_shared_bytes": 0,
            "hold_timeouts": 0,
            **observers.constants(on_host=False),
            "overhead": 0.0,  # of events, which a slope has not
            "how": HOW,
            "launch_seconds": launch_seconds(),
            "seed": self._rng.seed_value,
            "cache": "cold" if self._cold else "warm",
        }

    def release(self) -> None:
        """Give all memory back, which the other process closes first."""
        self._candidates.close()
        for each in self._sets:
            each.free()
        self._sets = []
        self._fresh.free()

    # A go

    def _go(self, count: int, certain: bool) -> float:
        second, sets = bool(self._rng.getrandbits(1)), self._sets[:count]
        self._candidates.pause()
        for each in sets:
            self._refresh(each, second)
        for each, known in zip(sets, self._digests_of_inputs(sets), strict=True):
            each.inputs = known
        if self._cold:
            timer().scrub()
        self._device.finish()
        self._pieces = self._choose_pieces()
        begin = time.perf_counter_ns()
        with naming(self.case):
            answered = self._candidates.go(count)
        self._digested_pieces = digests(self._device, self._pieces)
        seconds = 1e-9 * (time.perf_counter_ns() - begin)
        if not count:
            self._idle.append(seconds - max(0.0, answered - self._candidates.idle_seconds))
        self._digested = results = self._digests_of_results()
        for each, result in zip(sets, results, strict=False):
            is_known = result in self._results
            self._results.add(result)
            if certain or is_known or self._rng.random() < self._share:
                self._prove(each, is_known)
        self._check_damage(sets)
        self._check_that_it_is_done()
        return seconds

    def _check_that_it_is_done(self) -> None:
        """Raise WrongResult where results have changed since they were digested."""
        pieces = digests(self._device, self._pieces)
        if pieces != self._digested_pieces or self._digests_of_results() != self._digested:
            raise WrongResult(f"{self.case.id}: its results changed after it had said that it was done")

    def _refresh(self, each: Set, second: bool) -> None:
        """Poison what the call writes, and write new inputs."""
        for array in self.case.arrays:
            own = each.arrays[array.name]
            if array.role is not Role.IN:
                own.clear(second)
            if callable(array.initial):
                own.write(initial_values(self.case, array))
            elif array.initial is not None and array.role is not Role.IN_OUT:
                self._device.fill(own.address, own.nbytes, initial_word(array))
        each.recipe = self._fresh.write(self._inputs_of(each))

    def _prove(self, each: Set, is_known: bool) -> None:
        """Compare the results of a set with the reference. ``is_known``: they are those of a launch before."""
        begin, case = time.perf_counter(), self.case
        self._candidates.pause()  # what is read now cannot be another result than was digested
        self._check_that_it_is_done()
        inputs, rows = self._fresh.host(each.recipe), self._rows()
        right = expected(case, inputs, ALL_ROWS if rows is None else rows)
        if not self._proved and rows is None and (nothing := nothing_shown(case, [Draw(inputs=inputs, right=right)])):
            raise WrongResult(f"{case.id}: {nothing}")
        results: dict[str, Array] = {name: each.arrays[name].read_sample(rows) for name in right}
        notes = ["inputs    the result is that of the inputs of an earlier launch"] if is_known else []
        command = f'pytest "bench::bench_kernel[{case.id}]" --untrusted'
        if wrong := compare_all(results, right, rows):
            raise WrongResult(
                "\n".join(explain(case, name, mismatch, command, notes=notes) for name, mismatch in wrong.items())
            )
        self._proved += 1
        seconds = time.perf_counter() - begin
        fewest = FEWEST_PROVED / 2 if seconds > LONG_PROOF else FEWEST_PROVED
        self._share = min(1.0, max(fewest, PROOF_SECONDS / max(seconds, 1e-6)) / (SAMPLES * sum(self._counts)))

    def _rows(self) -> Array | None:
        """Choose the rows that are compared, others each time; None for all of small ones, and in the first proof."""
        rows = compared_rows(self.case, CHECKED_BYTES if self._proved else None)
        if rows is None:
            return None
        return np.sort(np.array(self._rng.sample(range(self.case.results[0].shape[0]), len(rows))))

    def _check_damage(self, sets: Sequence[Set]) -> None:
        """Raise WrongResult where a call wrote into its inputs, or beside its arrays."""
        for each, now in zip(sets, self._digests_of_inputs(sets), strict=True):
            changed = [
                name for name, before, after in zip(self._operands, each.inputs, now, strict=True) if before != after
            ]
            looked_at = [array for name, array in each.arrays.items() if name in changed or name not in self._operands]
            harm = [array.overrun() for array in looked_at] + [f"changed its operand {name}" for name in changed]
            if said := next(filter(None, harm), ""):
                raise WrongResult(f"{self.case.id} {said}")

    @property
    def _operands(self) -> list[str]:
        """Names of the arrays that a call only reads."""
        return [array.name for array in self.case.arrays if array.role is Role.IN]

    def _digests_of_inputs(self, sets: Sequence[Set]) -> list[tuple[int, ...]]:
        return self._digests([[each.arrays[name].with_bands for name in self._operands] for each in sets])

    def _digests_of_results(self) -> list[tuple[int, ...]]:
        """Return digests of the results of all sets."""
        names = [array.name for array in self.case.results]
        sets = ([each.arrays[name] for name in names] for each in self._sets)
        return self._digests([[(array.address, array.nbytes) for array in arrays] for arrays in sets])

    def _choose_pieces(self) -> list[Range]:
        """Choose what of the results of all sets is digested first: pieces of large ones, others each time.

        They are read by one launch, which takes as long after any number of launches of the call.
        """
        results = [each.arrays[array.name] for each in self._sets for array in self.case.results]
        count, chosen = max(1, MOST_RANGES // len(results)), list[Range]()
        for array in results:
            if array.nbytes <= count * PIECE_BYTES:
                chosen.append((array.address, array.nbytes))
                continue
            words = (array.nbytes - PIECE_BYTES) // 4 + 1
            chosen += ((array.address + 4 * self._rng.randrange(words), PIECE_BYTES) for _ in range(count))
        return chosen

    def _digests(self, ranges: Sequence[Sequence[Range]]) -> list[tuple[int, ...]]:
        flat = iter(digests(self._device, [each for group in ranges for each in group]))
        return [tuple(next(flat) for _ in group) for group in ranges]

    # Memory

    def _inputs_of(self, each: Set) -> dict[str, GuardedArray]:
        return {array.name: each.arrays[array.name] for array in self.case.inputs}

    def _new_set(self) -> Set:
        """Allocate the arrays of a launch. Raises DeviceError."""
        shareable: Any = Shareable(self._device, self._candidates)
        return Set(
            arrays={
                array.name: GuardedArray(shareable, array.name, array.shape, array.dtype, operand=array.role is Role.IN)
                for array in self.case.arrays
            }
        )

    def _affordable(self) -> tuple[int, ...]:
        """Return the numbers of launches for which there is memory. Raises NoFigure where there are not two."""
        free, need = MEMORY_SHARE * self._device.free_memory, max(1, self.case.array_bytes)
        counts = tuple(count for count in COUNTS if count * need <= free)
        if len(counts) < 2:
            raise NoFigure(
                f"{self.case.id}: no figure: --untrusted times several launches with arrays of their own, and there "
                f"is memory for {int(free // need)}: time a smaller shape"
            )
        return counts


_current: list[CandidateSamples] = []


def takes(case: Case) -> bool:
    """Tell whether a case is timed here: a call, where calls are not trusted."""
    return bool(case.variant.call) and gpu().calls is not None


def current() -> CandidateSamples | None:
    """Return the prepared case, if the last one is timed here."""
    return _current[0] if _current else None


def missing() -> tuple[str, ...]:
    """Return sentences on what the process of calls is not kept from."""
    calls = gpu().calls
    return calls.missing if isinstance(calls, Candidates) else ()


def prepare(case: Case, cold: bool) -> dict[str, Any]:
    """Prepare and check a case; return what is recorded of it. Raises WrongResult, DeviceError or NoFigure."""
    release()
    _current.append(CandidateSamples(case, cold))
    try:
        _current[0].check()
    except BaseException:
        release()
        raise
    return _current[0].facts()


def finish() -> None:
    """Check the prepared case after its last sample, of which each was checked. Raises WrongResult or NoFigure."""
    try:
        _current[0].look()
        _current[0].check_figure()
    finally:
        release()


def release() -> None:
    """Give the memory of the prepared case back."""
    while _current:
        _current.pop().release()
