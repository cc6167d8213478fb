"""Measures energy in the worker process: of the prepared case, and of both sides of a pair in turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from warpwatch.devices.machine import DeviceError
from warpwatch.devices.runner import Loaded
from warpwatch.devices.worker import gpu
from warpwatch.timing import sampling
from warpwatch.timing.energy import SECONDS, energy_of, why_not

NEXT_RUN_UP = 0.1  # seconds: the other side of a pair draws about as much power


def objection() -> str:
    """Say why this device's energy cannot be measured; empty where it can."""
    info = gpu().info
    if not info.has_gpu_clock:
        return f"{info.name} is no GPU and takes no energy of its own: leave this out, or run where there is a GPU"
    if sampling.clocks().joules() is None:
        return f"NVML does not count the energy of {info.name}: it does so for whole GPUs of Volta and newer"
    return ""


def _counter() -> Callable[[], float]:
    clocks = sampling.clocks()

    def read() -> float:
        joules = clocks.joules()
        if joules is None:
            raise DeviceError("NVML does not count this GPU's energy any more")
        return joules

    return read


def energy_of_case() -> dict[str, float]:
    """Return joules of a launch of the prepared case, and watts; nothing for one of which no energy is measured."""
    loaded = sampling.state.loaded
    if why_not(loaded[0].case):
        return {}
    found = energy_of(gpu(), loaded, _counter())
    return {"joules": found.joules, "watts": round(found.watts, 1)}


def energy_of_sides(
    pairs: Sequence[tuple[Loaded, Loaded]],
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return joules of a launch, twice of the old and of the new side, measured in turns: old new new old."""
    if why_not(pairs[0][1].case):
        return (), ()
    joules: dict[bool, list[float]] = {False: [], True: []}
    energy_of(gpu(), [old for old, _ in pairs], _counter(), seconds=0.0)  # until the power is that of these launches
    for is_new in (False, True, True, False):
        side = [pair[is_new] for pair in pairs]
        found = energy_of(gpu(), side, _counter(), seconds=SECONDS / 2, run_up=NEXT_RUN_UP)
        joules[is_new].append(found.joules)
    return tuple(joules[False]), tuple(joules[True])
