"""Measures what a launch takes of the host, and what it takes in a CUDA graph, where --host asks for it.

The host's seconds are those from the beginning of a launch to its return. The stream is held meanwhile, so that nothing
of the GPU's time is in them, and few launches are queued, so that none waits for room. Of a kernel they are the
driver's call, with arguments that are packed, between two readings of the clock in C++; of a call its Python.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import ClassVar

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.collector import without_collector
from warpwatch.devices.compile.compiler import NoCompiler, gxx
from warpwatch.devices.gpu import QueuedCall
from warpwatch.devices.machine import DeviceError, in_order, in_parts, nothing
from warpwatch.devices.outside import allocated_bytes
from warpwatch.devices.runner import Loaded
from warpwatch.devices.worker import gpu
from warpwatch.timing.observers.observer import Facts, Observer, no_repetition
from warpwatch.timing.pair_samples import Sides

UNUSED = 2  # first launches of a burst, for which the host's caches are not warm
# Launches on a held stream, whose queue has room for 1,024 of kernels: a call may launch many.
BURST, SHORT_BURST, SHORTEST_BURST = 18, 6, UNUSED + 1
LONG = 1e-3  # seconds of a launch on the GPU, from which on bursts are short
BURSTS = 10  # of a case, and of each side of a pair at least
MOST_BURSTS, SECONDS = 40, 0.6  # of each side of a pair, within so much wall time
TRIES = 5  # of a burst whose hold runs into its limit
LEAST = 50e-9  # seconds, below which the clock tells nothing
NODES, GRAPHS = 100, 5  # launches of a graph, and how often it is launched
LONG_IN_GRAPH = 5e-3  # seconds of a launch, of which a graph of many would tell nothing more


class Host(Observer):
    """Measures the host's time of a launch where --host asks for it, after the samples of a case."""

    option: ClassVar = "host"
    units: ClassVar = {
        "host_seconds": "s",
        "host_iqr": "s",
        "graph_seconds": "s",
        "graph_of_one_seconds": "s",
        "allocated_bytes": "B",
    }
    missing: ClassVar = "its test failed before, or it queues so much that a launch waits for the GPU"
    is_apart: ClassVar = True

    def __init__(self) -> None:
        self._side: _Side | None = None  # whose turns are taken
        self._until_release = ExitStack()

    def objection(self) -> str:
        try:
            gxx()
        except NoCompiler as error:
            return f"a small program reads the clock beside the driver's calls: {error}"
        return ""

    def leaves_out(self, case: Case) -> str:
        if case.variant.on_host:
            return "it runs on the host"
        return "its launches print" if case.family.prints else ""

    def launch(self, copies: Sequence[Loaded]) -> Facts:
        side = _Side(copies[0])
        if not (taken := list(itertools.chain(*(side.burst() for _ in range(BURSTS))))):
            return {}
        low, median, high = statistics.quantiles(taken, n=4)
        facts: Facts = {"host_seconds": round(median, 10), "host_iqr": round(high - low, 10)}
        alone = in_order((copies[0].restore, copies[0].start, copies[0].machine.finish))
        if copies[0].case.variant.call and (size := allocated_bytes(alone)):
            return {**facts, "allocated_bytes": size}  # which a graph could not record
        return {**facts, **_in_graph(copies[0])}

    def launch_sides(self, both: Sequence[tuple[Loaded, Loaded]]) -> Mapping[str, Sides]:
        old, new = map(_Side, both[0])
        with _on_core(current_core()):
            return in_turns(lambda is_new: (new if is_new else old).turn())

    def turn(self, copies: Sequence[Loaded], core: int) -> float | None:
        if self._side is None:
            self._side = _Side(copies[0])
            self._until_release.enter_context(_on_core(core))  # in each turn the core's caches are its own
        return self._side.turn()

    def release(self) -> None:
        self._side = None
        self._until_release.close()


def in_turns(take: Callable[[bool], float | None]) -> Mapping[str, Sides]:
    """Take values of both sides in turns: old new new old, new old old new; none where one cannot be taken.

    ``take``: takes one, of the new side or not.
    """
    values: dict[bool, list[float]] = {False: [], True: []}
    begin, first = time.perf_counter(), False
    while (count := len(values[True])) < BURSTS or (count < MOST_BURSTS and time.perf_counter() - begin < SECONDS):
        for is_new in (first, not first, not first, first):
            if (value := take(is_new)) is None:
                return {}
            values[is_new].append(value)
        first = not first
    return {"host_seconds": (tuple(values[False]), tuple(values[True]))}


def current_core() -> int:
    """Return the number of the core that this thread runs on; another one may be twice as fast."""
    return int(ctypes.CDLL(None).sched_getcpu())


def remark(size: int) -> str:
    """Say that a call allocates memory; empty where it allocates none."""
    return f"allocates {size:,} bytes in each launch: allocate them once, in `prepare`" if size else ""


class _Side:
    """Launches of a loaded case that tell how long each takes of the host."""

    def __init__(self, loaded: Loaded) -> None:
        """Prepare the launches, and time one of them on the GPU. Raises DeviceError or CompileError."""
        self._restore, self._after = loaded.restore, nothing
        self._errors: Callable[[], AbstractContextManager[None]] = nullcontext
        self.launch: Callable[[], float]  # returns the host's seconds
        if isinstance(call := loaded.start, QueuedCall):
            self.launch = functools.partial(_seconds_of, call.queue)
            self._after, self._errors = call.settings.return_to_context, call.errors
        else:
            self.launch = _timed_launches(loaded)
        loaded.restore()
        is_long = (gpu().time(in_parts(loaded.start)[1], watched=False) or 0.0) >= LONG
        self._sizes = [*[BURST] * (not is_long), SHORT_BURST, SHORTEST_BURST]

    def burst(self) -> list[float]:
        """Return the host's seconds of launches, none of which waits; none where the shortest burst does.

        Raises DeviceError where a call fails.
        """
        while self._sizes:
            with self._errors(), without_collector():
                taken = _burst(self.launch, self._sizes[0], self._restore, self._after)
            if taken:
                return taken
            self._sizes.pop(0)
        return []

    def turn(self) -> float | None:
        """Return the median of a burst; None where launches wait."""
        taken = self.burst()
        return round(statistics.median(taken), 10) if taken else None


def _timed_launches(loaded: Loaded) -> Callable[[], float]:
    """Return a function that launches kernels, and returns the host's seconds of the driver's calls together."""
    taken, launches = list[float](), [launch for _, launch, _ in loaded.launches]
    arguments = ([each.value for each in given] for _, _, given in loaded.launches)
    timed = map(gpu().timed_launcher, (function for function, _, _ in loaded.launches), launches, arguments)

    def take(launch: Callable[[], float]) -> None:
        taken.append(launch())

    sequence = gpu().in_sequence(launches, [functools.partial(take, launch) for launch in timed])

    def start() -> float:
        taken.clear()
        sequence()
        return math.fsum(taken)

    return start


def _seconds_of(start: Callable[[], object]) -> float:
    """Return the seconds that a function takes, of which the clock adds a tenth of a microsecond."""
    begin = time.perf_counter_ns()
    start()
    return (time.perf_counter_ns() - begin) * 1e-9


def _burst(
    launch: Callable[[], float],
    size: int,
    before: Callable[[], None] = nothing,
    after: Callable[[], None] = nothing,
) -> list[float]:
    """Return what ``launch`` returns while the stream is held; nothing where the hold does not last."""
    taken = list[float]()

    def queue() -> None:
        for _ in range(size):
            before()
            taken.append(max(launch(), LEAST))
            after()

    for _ in range(TRIES):
        taken.clear()
        if gpu().time(queue, watched=False) is not None:
            return taken[UNUSED:]
    return []


@contextmanager
def _on_core(core: int) -> Iterator[None]:
    """Keep this thread on a core, if it may run there."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before & {core} or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _in_graph(loaded: Loaded) -> Facts:
    """Return the seconds of a launch in a CUDA graph, alone and of NODES; none where it cannot be recorded."""
    facts = dict[str, float]()
    if no_repetition(loaded.case):
        return facts
    with suppress(DeviceError):  # a call is anybody's code, which need not allow to be recorded
        for name, nodes in (("graph_of_one_seconds", 1), ("graph_seconds", NODES)):
            with gpu().graph([in_parts(loaded.start)[1]] * nodes) as graph:
                taken = [gpu().time(graph, watched=False) for _ in range(GRAPHS)]
                gpu().finish()
            facts[name] = round(statistics.median(seconds or 0.0 for seconds in taken) / nodes, 10)
            if facts[name] > LONG_IN_GRAPH:
                break
    return {name: seconds for name, seconds in facts.items() if seconds}
