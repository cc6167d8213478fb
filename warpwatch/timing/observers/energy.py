"""Measures the energy of a launch, by NVML's counter of the whole GPU while launches follow each other for a second.

The counter advances in steps, on an H100 every 0.1 s, so that the times of steps count and not those of readings. The
energy is the GPU's with everything on it: memory, the rest of the chip and what leaks while nothing runs. Launches
repeat on the same arrays with no scrub between, so L2 holds what fits.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import ClassVar, NamedTuple, TypeAlias

from warpwatch.catalogue.cases import Case
from warpwatch.devices.gpu import Device
from warpwatch.devices.machine import DeviceError, in_parts
from warpwatch.devices.runner import Loaded
from warpwatch.devices.worker import gpu
from warpwatch.timing import nvml
from warpwatch.timing.observers.observer import Facts, Observer, no_repetition
from warpwatch.timing.pair_samples import Sides

SECONDS = 1.0  # of launches between the first step of the counter and the last, at least
RUN_UP_SECONDS = 0.3  # until the power is that of these launches
NEXT_RUN_UP = 0.1  # seconds: the other side of a pair draws about as much power
POLL_SECONDS = 0.0005
BATCH_SECONDS = 0.02  # of launches that are queued at once; two batches are queued at any time
MOST_NODES = 1000  # launches of a graph, which is launched again and again where a batch needs more
FEWEST = 3  # steps, and ends of batches, from which slopes are known
QUIET_SHARE = 0.9  # of the shortest time between two steps, in which no other is looked for
LONGEST_STEP = 2.0  # seconds without a step of the counter, after which none is expected


# Queues a batch of launches, and returns a function that says whether the GPU has ended them.
Queue: TypeAlias = Callable[[], Callable[[], bool]]


class LaunchEnergy(NamedTuple):
    """Energy of a launch in joules, and the mean power in watts."""

    joules: float
    watts: float


class Steps:
    """Steps of a counter of joules. ``read`` reads it, in 3 ms on an H100: so it is called where a step may come."""

    def __init__(self, read: Callable[[], float], now: Callable[[], float]) -> None:
        self._read, self._now = read, now
        self._last, self._quiet_until, self._gaps = read(), 0.0, list[float]()
        self.seen = now()  # when the last step was

    def next(self) -> tuple[float, float] | None:
        """Return moment and joules of a step that has come since the last call; None where none has."""
        if self._now() < self._quiet_until:
            return None
        joules, moment = self._read(), self._now()
        if joules == self._last:
            return None
        self._gaps.append(moment - self.seen)
        self._last, self.seen = joules, moment
        self._quiet_until = moment + QUIET_SHARE * min(self._gaps[1:], default=0.0)  # the first began between two steps
        return moment, joules


def measure(
    queue: Queue,
    launches: int,
    read: Callable[[], float],
    *,
    seconds: float,
    run_up: float = RUN_UP_SECONDS,
    patience: float,
    now: Callable[[], float] = time.perf_counter,
) -> LaunchEnergy:
    """Queue batches of so many launches until a counter of joules has stepped over at least ``seconds``.

    ``read`` reads the counter. The slope of its steps is the power, that of the ends of batches the time of a launch.
    ``run_up``: seconds before the first step that counts. ``patience``: seconds that a batch may take. Raises
    DeviceError where one takes longer, and where the counter does not step.
    """
    begin = ended = now()
    counter = Steps(read, now)
    queued = deque([queue(), queue()])
    steps: list[tuple[float, float]] = []  # moments and joules
    ends: list[float] = []  # of batches
    while len(steps) < FEWEST or len(ends) < FEWEST or steps[-1][0] - steps[0][0] < seconds:
        if queued[0]():
            queued.popleft()
            queued.append(queue())
            ended = now()
            ends += [ended] * (ended >= begin + run_up)
        if (step := counter.next()) and step[0] >= begin + run_up:
            steps.append(step)
        if now() - counter.seen > LONGEST_STEP:
            raise DeviceError(f"NVML's counter of energy did not advance within {LONGEST_STEP:g} s of launches")
        if now() - ended > patience:
            raise DeviceError(f"launches for the energy of a kernel did not end within {patience:g} s")
        time.sleep(POLL_SECONDS)
    watts = statistics.linear_regression(*zip(*steps, strict=True)).slope
    launch = statistics.linear_regression(range(len(ends)), ends).slope / launches
    return LaunchEnergy(watts * launch, watts)


@contextmanager
def batch_of(device: Device, loaded: Sequence[Loaded]) -> Iterator[tuple[Queue, int]]:
    """Yield what queues launches for BATCH_SECONDS, which use the copies of a case in turn, and their number.

    They are recorded in a graph where the kernels are ours, because Python launches one in 7 µs and many kernels take
    less. A call is anybody's code, which need not allow that.
    """
    starts = [in_parts(copy.start)[1] for copy in loaded]
    for copy in loaded:
        copy.start()
    device.finish()
    seconds = max(device.time(starts[0]) or 0.0, 1e-6)
    rounds = max(1, math.ceil(BATCH_SECONDS / seconds / len(starts)))
    queued, launches = starts * rounds, rounds * len(starts)

    def queue() -> Callable[[], bool]:
        for start in queued:
            start()
        return device.end_of_queue()

    with ExitStack() as stack:
        if not loaded[0].case.variant.call:
            recorded = min(rounds, max(1, MOST_NODES // len(starts)))
            graphs = math.ceil(rounds / recorded)
            queued = [stack.enter_context(device.graph(starts * recorded))] * graphs
            launches = graphs * recorded * len(starts)
        stack.callback(device.finish)  # of what is queued still, while the graph is there
        yield queue, launches


def joules_so_far() -> float | None:
    """Return the energy that the GPU has taken since its driver was loaded; None where NVML does not count it."""
    millijoules = nvml.clocks().ask("nvmlDeviceGetTotalEnergyConsumption")  # of whole GPUs, Volta and newer
    return None if millijoules is None else float(millijoules) * 1e-3


def _joules() -> float:
    if (joules := joules_so_far()) is None:
        raise DeviceError("NVML does not count this GPU's energy any more")
    return joules


class Energy(Observer):
    """Measures the energy of a launch where --energy asks for it, after the samples of a case."""

    option: ClassVar = "energy"
    units: ClassVar = {"joules": "J", "watts": "W"}

    def objection(self) -> str:
        name = gpu().info.name
        if not gpu().info.has_gpu_clock:
            return f"{name} is not a GPU and takes no energy of its own: leave this out, or run where there is a GPU"
        if joules_so_far() is None:
            return f"NVML does not count the energy of {name}: it does so for whole GPUs of Volta and newer"
        return ""

    def leaves_out(self, case: Case) -> str:
        if case.variant.on_host:
            return "it runs on the host"
        if case.family.prints:
            return "its launches print"
        return no_repetition(case)

    def launch(self, copies: Sequence[Loaded]) -> Facts:
        energy = _energy_of(copies)
        return {"joules": energy.joules, "watts": round(energy.watts, 1)}

    def launch_sides(self, both: Sequence[tuple[Loaded, Loaded]]) -> Mapping[str, Sides]:
        """Measure each side twice, in turns: old new new old."""
        old, new = zip(*both, strict=True)
        _energy_of(old, seconds=0.0)  # until the power is that of these launches
        turns = [_energy_of(side, SECONDS / 2, NEXT_RUN_UP).joules for side in (old, new, new, old)]
        return {"joules": ((turns[0], turns[3]), (turns[1], turns[2]))}


def _energy_of(loaded: Sequence[Loaded], seconds: float = SECONDS, run_up: float = RUN_UP_SECONDS) -> LaunchEnergy:
    """Measure launches of a loaded case. Raises DeviceError."""
    with batch_of(gpu(), loaded) as (queue, launches):
        return measure(queue, launches, _joules, seconds=seconds, run_up=run_up, patience=gpu().launch_timeout)
