"""Measures the energy of a launch, by NVML's counter of the whole GPU while launches follow each other for a second.

The counter advances in steps, on an H200 every 0.1 s, so that the time from one step to another is exact and not that
of two readings. The energy is the GPU's with everything on it: memory, the rest of the chip and what leaks while
nothing runs. Launches repeat on the same arrays with no scrub between, so L2 holds what fits.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from warpwatch.catalogue.arrays import Role
from warpwatch.catalogue.cases import Case
from warpwatch.devices.gpu import Device
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.runner import Loaded

SECONDS = 1.0  # of launches between the first step of the counter and the last, at least
RUN_UP_SECONDS = 0.3  # until the power is that of these launches
POLL_SECONDS = 0.0005
BATCH_SECONDS = 0.02  # of launches that are queued at once; two batches are queued at any time
MOST_NODES = 1000  # launches of a graph, which is launched again and again where a batch needs more
FEWEST_ENDS = 3  # of batches, from which their length is known
LONGEST_STEP = 2.0  # seconds without a step of the counter, after which none is expected


@dataclass(frozen=True, kw_only=True)
class Energy:
    """Energy of a launch in joules, and the mean power in watts."""

    joules: float
    watts: float


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Launches that are queued at once. ``queue`` returns a function that says whether the GPU has ended them."""

    queue: Callable[[], Callable[[], bool]]
    launches: int


def why_not(case: Case) -> str:
    """Say why the energy of a case is not measured; empty where it is."""
    if case.variant.on_host:
        return "it runs on the host"
    if case.family.prints:
        return "its launches print"
    if any(array.role is Role.IN_OUT for array in case.arrays):
        return "a launch changes what the next one begins with"
    return ""


def measure(
    batch: Batch,
    counter: Callable[[], float],
    *,
    seconds: float,
    patience: float,
    now: Callable[[], float] = time.perf_counter,
) -> Energy:
    """Queue batches until the counter has stepped over at least ``seconds``; their power and length give the energy.

    ``counter``: reads joules. ``patience``: seconds that a batch may take. Raises DeviceError where one takes longer,
    and where the counter does not step.
    """
    begin, last = now(), counter()
    queued = deque([batch.queue(), batch.queue()])
    steps: list[tuple[float, float]] = []  # moments and joules
    ends: list[float] = []  # of batches
    stepped = ended = begin
    while len(steps) < 2 or len(ends) < FEWEST_ENDS or steps[-1][0] - steps[0][0] < seconds:
        if queued[0]():
            queued.popleft()
            queued.append(batch.queue())
            ended = now()
            ends += [ended] * (ended >= begin + RUN_UP_SECONDS)
        joules, moment = counter(), now()
        if joules != last:
            last, stepped = joules, moment
            steps += [(moment, joules)] * (moment >= begin + RUN_UP_SECONDS)
        if moment - stepped > LONGEST_STEP:
            raise DeviceError(f"NVML's counter of energy did not advance within {LONGEST_STEP:g} s of launches")
        if moment - ended > patience:
            raise DeviceError(f"launches for the energy of a kernel did not end within {patience:g} s")
        time.sleep(POLL_SECONDS)
    (first, low), (end, high) = steps[0], steps[-1]
    watts = (high - low) / (end - first)
    launch = (ends[-1] - ends[0]) / (len(ends) - 1) / batch.launches
    return Energy(joules=watts * launch, watts=watts)


@contextmanager
def batch_of(device: Device, loaded: Sequence[Loaded]) -> Iterator[Batch]:
    """Yield launches for BATCH_SECONDS, which use the copies of a case in turn.

    They are recorded in a graph where the kernels are ours, because Python launches one in 7 µs and many kernels take
    less. A call is anybody's code, which need not allow that.
    """
    starts = [each.start for each in loaded]
    for start in starts:
        start()
    device.finish()
    seconds = max(device.time(starts[0]) or 0.0, 1e-6)
    rounds = max(1, math.ceil(BATCH_SECONDS / seconds / len(starts)))
    if loaded[0].case.variant.call:
        yield Batch(queue=_queue(device, starts * rounds), launches=rounds * len(starts))
        return
    recorded = min(rounds, max(1, MOST_NODES // len(starts)))
    graphs = math.ceil(rounds / recorded)
    with device.graph(starts * recorded) as launch:
        yield Batch(queue=_queue(device, [launch] * graphs), launches=graphs * recorded * len(starts))


def _queue(device: Device, starts: Sequence[Callable[[], None]]) -> Callable[[], Callable[[], bool]]:
    """Return a function that queues these, and returns another that says whether the GPU has ended them."""

    def queue() -> Callable[[], bool]:
        for start in starts:
            start()
        return device.end_of_queue()

    return queue


def energy_of(device: Device, loaded: Sequence[Loaded], counter: Callable[[], float], seconds: float) -> Energy:
    """Measure the energy of a launch of a loaded case. Raises DeviceError."""
    with batch_of(device, loaded) as batch:
        try:
            return measure(batch, counter, seconds=seconds, patience=device.launch_timeout)
        finally:
            device.finish()  # of what is queued still
