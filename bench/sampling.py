"""The half of a benchmark that runs where the kernels run: prepare a case, prove it right, take samples."""

from __future__ import annotations

import platform
import time
from dataclasses import asdict, dataclass, field
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from bench.clocks import Clock, Clocks
from bench.timer import GpuTimer, HostTimer, Timer, floor
from kernels import FAMILIES, vendor
from kernels.catalogue import ALL_ROWS, Array, Case, find_case
from kernels.check import WrongResult, compare, explain
from kernels.machine import GuardedArray
from kernels.runner import Loaded, captured_stdout, launch_once, load, random_operands, require_memory, upload
from kernels.worker import gpu, machine

WHOLE_ELEMENTS = 2**23  # a result of up to so many elements is compared whole, a larger one on some rows
SAMPLED_ROWS = 64
# Where arrays lie in memory moves the time of a small kernel by per cents, and from process to process: so
# small arrays are there several times, and samples go round among the copies.
PLACES, SMALL_BYTES = 4, 2**25
SEED = 20  # every run times the same numbers


@dataclass(frozen=True)
class Shared:
    """What the cases of one shape share: operands, on the host and in the machine's memory, and reference."""

    key: tuple[object, ...]
    places: tuple[tuple[GuardedArray, ...], ...]  # copies of the operands
    rows: Array | slice
    reference: Array | None  # None where there is nothing to prove
    bound: Array | float


@dataclass
class State:
    """What the process keeps from one call to the next."""

    shared: Shared | None = None
    loaded: tuple[Loaded, ...] = ()  # the prepared case, once for each place
    turn: int = 0
    timers: dict[str, Timer] = field(default_factory=dict)
    clocks: Clocks | None = None


state = State()


def prepare(case_id: str, image: Path, cold: bool, proved: bool = False) -> dict[str, Any]:
    """Load a case, launch it once, and compare, unless another process has ``proved`` it right.

    What there is to record of it. Raises WrongResult or DeviceError.
    """
    case = find_case(FAMILIES, case_id)
    release(keep=sharing_key(case))
    shared = share_operands(case, reference=not proved)
    where = machine(case.variant.on_host)
    for place in shared.places:
        state.loaded += (load(where, case, image, place),)
    if not proved:
        prove(state.loaded[0], shared)
    return describe(state.loaded[0], len(shared.places), cold)


def describe(loaded: Loaded, places: int, cold: bool) -> dict[str, Any]:
    """What is recorded beside a case's samples."""
    case, launch = loaded.case, loaded.case.launch
    return {
        **asdict(loaded.function.resources),
        "occupancy": loaded.machine.occupancy(loaded.function, launch),
        "fallback": case.variant.fallback(case.shape, case.itemsize),
        "library": vendor.version(case.variant.library) if case.variant.library else "",
        "places": places,
        "grid": list(launch.grid),
        "dynamic_shared_bytes": launch.shared_bytes,
        "hold_timeouts": 0,
        "cache": "host" if case.variant.on_host else "cold" if cold else "warm",
    }


def sharing_key(case: Case) -> tuple[object, ...]:
    return (case.family.name, case.dtype, case.shape, case.variant.on_host)


def release(keep: tuple[object, ...] | None = None) -> None:
    """Give back the memory of the last case; the operands too, unless the next case shares them."""
    for loaded in state.loaded:
        if loaded.result:
            loaded.result.free()
    state.loaded = ()
    if state.shared and state.shared.key != keep:
        for array in chain.from_iterable(state.shared.places):
            array.free()
        state.shared = None


def share_operands(case: Case, reference: bool = True) -> Shared:
    """Operands in the machine's memory and, unless nothing is to be proved, what NumPy makes of them."""
    kept = state.shared
    if kept and kept.key == sharing_key(case) and (kept.reference is not None or not reference):
        return kept
    release()
    require_memory(machine(case.variant.on_host), case)
    host = random_operands(case, SEED)
    rows: Array | slice = ALL_ROWS
    if case.family.result and prod(case.family.result(case.shape)[1]) > WHOLE_ELEMENTS:
        height = case.family.result(case.shape)[1][0]
        inside = np.random.default_rng(SEED).choice(height, SAMPLED_ROWS - 4, replace=False)
        rows = np.unique(np.concatenate([[0, 1, height - 2, height - 1], inside]))
    wanted = case.family.reference(host, rows) if reference else None
    bound = case.family.bound(host, rows) if reference else 0.0
    copies = PLACES if case.array_bytes <= SMALL_BYTES and not case.variant.on_host else 1
    places = tuple(upload(machine(case.variant.on_host), case, host) for _ in range(copies))
    state.shared = Shared(sharing_key(case), places, rows, wanted, bound)
    return state.shared


def prove(loaded: Loaded, shared: Shared) -> None:
    """One launch, compared with NumPy: the whole of a small result, the first, last and random rows of a large one."""
    case, reference = loaded.case, shared.reference
    assert reference is not None
    if loaded.result is None:
        assert case.family.prints
        wanted = np.sort(np.array(case.family.prints(case.build.block, case.shape)))
        mismatch = compare(launch_once(loaded), wanted, 0.0)
    elif isinstance(shared.rows, slice):
        mismatch = compare(launch_once(loaded), reference, shared.bound)
    else:
        loaded.start()
        loaded.machine.finish()
        rows = [loaded.result.read_rows(int(row), int(row) + 1) for row in shared.rows]
        mismatch = compare(np.concatenate(rows), reference, shared.bound, shared.rows)
    damage = [array.overrun() for array in (*loaded.operands, loaded.result) if array]
    again = f"python -m kernels run {case.id} --seed {SEED}"
    problems = [f"{case.id} {sentence}" for sentence in damage if sentence]
    if mismatch:
        problems.append(explain(case, mismatch, again))
    if problems:
        raise WrongResult("\n".join(problems))


def timer_of(kind: str) -> Timer:
    """The process's timer of a kind: cold, warm or host."""
    if kind not in state.timers:
        state.timers[kind] = HostTimer() if kind == "host" else GpuTimer(gpu(), kind == "cold")
    return state.timers[kind]


def sample(kind: str) -> tuple[float, int]:
    """One sample of the prepared case: seconds, and how many were thrown away for it. ``kind``: cold, warm, host."""
    loaded = state.loaded[state.turn % len(state.loaded)]
    state.turn += 1
    return sample_of(loaded, timer_of(kind))


def sample_of(loaded: Loaded, timer: Timer) -> tuple[float, int]:
    """One sample of a loaded case, as ``sample``."""
    before = timer.timeouts
    if loaded.result is None:  # what it prints is not for this terminal
        with captured_stdout():
            seconds = timer.sample(loaded.start)
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
        "uuid": state.clocks.uuid if device.info.own_clock else f"{device.info.slug} on {platform.node()}",
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
