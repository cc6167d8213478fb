"""The half of a benchmark that runs where the kernels run: prepare a case, prove it right, take samples."""

from __future__ import annotations

import platform
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from warpwatch.catalogue.declaration import Case
from warpwatch.devices.machine import Machine
from warpwatch.devices.runner import Loaded, captured_stdout, load
from warpwatch.devices.worker import gpu, machine
from warpwatch.timing.clocks import Clock, Clocks
from warpwatch.timing.timer import GpuTimer, HostTimer, Timer, floor
from warpwatch.timing.worker_checks import (
    Shared,
    is_intact,
    poison,
    prove,
    prove_again,
    prove_fresh,
    share,
    sharing_key,
)


@dataclass
class State:
    """What the process keeps from one call to the next."""

    shared: Shared | None = None
    loaded: tuple[Loaded, ...] = ()  # the prepared case, once for each place
    fingerprint: int | None = None  # of its result, where this process has proved it right
    launched: set[int] = field(default_factory=set)  # the places that have a sample's result
    printed: tuple[str, ...] = ()  # the lines of the last sample, where the kernel prints
    turn: int = 0
    timers: dict[str, Timer] = field(default_factory=dict)
    clocks: Clocks | None = None


state = State()


def prepare(case: Case, image: Path, cold: bool, checked: Path | None = None, proved: bool = False) -> dict[str, Any]:
    """Load a case, launch it once, and compare, unless another process has ``proved`` it right.

    ``checked``: a build of the same kernel that finds more faults, proved too, if it is another. What there is to
    record of the case. Raises WrongResult or DeviceError.
    """
    release(keep=sharing_key(case))
    shared = share_operands(case, reference=not proved)
    where = machine(case.variant.on_host)
    if not proved and checked not in (None, image):
        prove_checked(where, case, checked, shared)
    for place in shared.places:
        state.loaded += (load(where, case, image, place),)
    if not proved:
        state.fingerprint = prove(state.loaded[0], shared)
        poison(state.loaded[:1])  # the others still are
    return describe(state.loaded[0], len(shared.places), cold)


def prove_checked(where: Machine, case: Case, checked: Path, shared: Shared) -> None:
    """Launch a case's build that finds more faults, and compare. Raises WrongResult or DeviceError."""
    loaded = load(where, case, checked, shared.places[0])
    try:
        prove(loaded, shared)
    finally:
        if loaded.result:
            loaded.result.free()


def finish(proved: int | None) -> int:
    """Prove the prepared case once more, by what the last samples left. Raises WrongResult or DeviceError.

    ``proved``: the fingerprint of its right result, where another process has found it. Returns it.
    """
    assert state.shared
    known = state.fingerprint if state.fingerprint is not None else proved
    assert known is not None
    for place in sorted(state.launched):
        prove_again(state.loaded[place], state.shared, known, state.printed)
    prove_fresh(state.loaded[0], state.shared, known)
    return known


def describe(loaded: Loaded, places: int, cold: bool) -> dict[str, Any]:
    """What is recorded beside a case's samples."""
    case, launch = loaded.case, loaded.case.launch
    return {
        **asdict(loaded.function.resources),
        "occupancy": loaded.machine.occupancy(loaded.function, launch),
        "fallback": case.variant.fallback(case.shape, case.itemsize),
        "library": case.variant.library.version() if case.variant.library else "",
        "places": places,
        "grid": list(launch.grid),
        "dynamic_shared_bytes": launch.shared_bytes,
        "hold_timeouts": 0,
        "cache": "host" if case.variant.on_host else "cold" if cold else "warm",
    }


def release(keep: tuple[object, ...] | None = None) -> None:
    """Give back the memory of the last case; the operands too, unless the next case shares them."""
    for loaded in state.loaded:
        if loaded.result:
            loaded.result.free()
    state.loaded, state.fingerprint, state.printed = (), None, ()
    state.launched.clear()
    if state.shared and state.shared.key != keep:
        state.shared.free()
        state.shared = None


def share_operands(case: Case, reference: bool = True) -> Shared:
    """Operands in the machine's memory and, unless nothing is to be proved, what NumPy makes of them.

    Those of the last case, where it shares them and has not changed them.
    """
    kept = state.shared
    same = kept is not None and kept.key == sharing_key(case) and (kept.reference is not None or not reference)
    if kept is not None and same and is_intact(kept):
        return kept
    release()
    state.shared = share(machine(case.variant.on_host), case, reference)
    return state.shared


def timer_of(kind: str) -> Timer:
    """The process's timer of a kind: cold, warm or host."""
    if kind not in state.timers:
        state.timers[kind] = HostTimer() if kind == "host" else GpuTimer(gpu(), kind == "cold")
    return state.timers[kind]


def sample(kind: str) -> tuple[float, int]:
    """One sample of the prepared case: seconds, and how many were thrown away for it. ``kind``: cold, warm, host."""
    place = state.turn % len(state.loaded)
    state.turn += 1
    state.launched.add(place)
    return sample_of(state.loaded[place], timer_of(kind))


def sample_of(loaded: Loaded, timer: Timer) -> tuple[float, int]:
    """One sample of a loaded case, as ``sample``."""
    before = timer.timeouts
    if loaded.result is None:  # what it prints is not for this terminal
        with captured_stdout() as printed:
            seconds = timer.sample(loaded.start)
        launches = 1 + timer.timeouts - before
        state.printed = tuple(printed[len(printed) - len(printed) // launches :])
    else:
        seconds = timer.sample(loaded.start)
    return seconds, timer.timeouts - before


def read_clock() -> Clock:
    """SM clock and throttle reasons of the GPU."""
    state.clocks = state.clocks or Clocks(gpu().info.pci_bus_id)
    return state.clocks.read()


def settle() -> None:
    """Wait until what other cases did to the clock is over."""
    read_clock()
    assert state.clocks
    state.clocks.settle()


def warm_up(kind: str, seconds: float) -> None:
    """Launch until the SM clock is up: at its highest, or no higher than 2 ms ago. At most ``seconds``."""
    clock, before = read_clock(), Clock(0, ())
    assert state.clocks
    begin = time.perf_counter()
    while True:
        step = time.perf_counter()
        while time.perf_counter() - step < 0.002:
            sample(kind)
        before, clock = clock, read_clock()
        up = clock.mhz >= 0.97 * state.clocks.highest or clock.mhz <= before.mhz
        if up or time.perf_counter() - begin > seconds:
            return


def describe_gpu(cold: bool) -> dict[str, Any]:
    """What a saved run says of the GPU: its name, driver, and whether cold was shown to be cold."""
    device = gpu()
    read_clock()
    assert state.clocks
    timer = timer_of("cold" if cold else "warm")
    assert isinstance(timer, GpuTimer)
    return {
        "name": device.info.name,
        "slug": device.info.slug,
        "uuid": state.clocks.uuid if device.info.has_gpu_clock else f"{device.info.slug} on {platform.node()}",
        "capability": str(device.info.capability),
        "driver": state.clocks.driver or device.info.driver,
        "cuda": device.info.driver,
        "multiprocessors": device.info.multiprocessors,
        "memory_bytes": device.info.memory_bytes,
        "l2_bytes": device.info.l2_bytes,
        "peak_bytes_per_second": device.info.peak_bytes_per_second,
        "cache": "cold" if cold else "warm",
        "coldness": round(timer.coldness(), 2),
        "note": device.info.note,
    }


def timer_floor(cold: bool) -> dict[str, Any]:
    """Samples of an empty kernel and of a small copy."""
    timer = timer_of("cold" if cold else "warm")
    assert isinstance(timer, GpuTimer)
    return {**floor(timer), "timeouts": timer.timeouts}
