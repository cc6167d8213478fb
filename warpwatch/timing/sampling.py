"""Prepares a case, checks it and takes its samples: the half of a benchmark that runs in the worker process."""

from __future__ import annotations

import functools
import math
import os
import platform
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.launches import Launch
from warpwatch.devices.digest import digest
from warpwatch.devices.machine import GuardedArray, in_order
from warpwatch.devices.runner import Loaded, captured_stdout, load
from warpwatch.devices.worker import gpu, machine
from warpwatch.timing import candidate_samples, nvml, observers
from warpwatch.timing.checks import are_right, check_fresh_launch, check_last_result, check_result
from warpwatch.timing.inputs import Inputs, Shared, sharing_key
from warpwatch.timing.stopping import of_samples
from warpwatch.timing.timer import GpuTimer, HostTimer, Timer


@dataclass(kw_only=True)
class State:
    """State of the worker process between two calls.

    ``loaded``: the prepared case, once for each copy of its arrays. ``fingerprint``: of its right result, where this
    process has checked it. ``launched``: what took the last sample on each copy, in the order of these samples.
    ``printed``: the lines of the last sample, where the kernel prints. ``turn``: how many samples were taken.
    ``inputs``: of this case and of later ones.
    """

    loaded: tuple[Loaded, ...] = ()
    fingerprint: int | None = None
    launched: dict[int, Loaded] = field(default_factory=dict)
    printed: tuple[str, ...] = ()
    turn: int = 0
    inputs: Inputs = field(default_factory=Inputs)


# Wall seconds for the samples of one call. A call costs 0.08 ms (H200's host), a fifth of a short kernel's sample.
CALL_SECONDS = 0.1
state = State()


def prepare(
    case: Case, image: Path, cold: bool, checking_image: Path | None = None, already_checked: bool = False
) -> dict[str, Any]:
    """Load a case and check its result, and return what is recorded of it. Raises WrongResult or DeviceError.

    ``checking_image``: a build of the same kernel that finds more faults; it is checked too where it is another file.
    ``already_checked``: another process has checked the case, so that nothing is compared.
    """
    if candidate_samples.takes(case):
        release()
        return candidate_samples.prepare(case, cold)
    shared = begin_case(case, image, checking_image, check=not already_checked)
    for copy in shared.copies:
        state.loaded += (load(machine(case.variant.on_host), case, image, copy),)
    if not already_checked and not case.variant.on_host:  # there the samples themselves are checked, see sample_of
        state.fingerprint = check_result(state.loaded[0], shared)
        state.loaded[0].poison()  # the results of the other copies still are poison
    return describe(state.loaded[0], len(shared.copies), cold)


def begin_case(case: Case, image: Path, checking_image: Path | None, *, check: bool) -> Shared:
    """Free the last case, and return the inputs of this one; launch its checking build once, if it has one.

    ``check``: with its right results. Raises WrongResult or DeviceError.
    """
    release(keep=sharing_key(case))
    shared = state.inputs.share(case, reference=check)
    if check and checking_image not in (None, image):
        loaded = load(machine(case.variant.on_host), case, checking_image, shared.copies[0])
        try:
            check_result(loaded, shared)
        finally:
            loaded.free_own()
    return shared


def finish(fingerprint: int | None) -> int | None:
    """Check the prepared case after its last sample, and return the fingerprint of its right result, if it has one.

    ``fingerprint``: that of a right result, where another process has found it. Raises WrongResult or DeviceError.
    """
    if candidate_samples.current():
        candidate_samples.finish()
        return None
    shared, first = state.inputs.shared, state.loaded[0]
    assert shared
    known = state.fingerprint if state.fingerprint is not None else fingerprint
    launched = [*state.launched.values()]
    if not are_right(launched, shared, [known] * len(launched)):
        for loaded in launched:
            check_last_result(loaded, shared, known, state.printed)
    if not first.case.variant.on_host:  # there each sample was of a fresh launch
        assert known is not None
        check_fresh_launch(first, shared, known)
    elif not state.launched:  # no sample was taken, which would have been checked
        check_result(first, shared)
    return known


def describe(loaded: Loaded, copies: int, cold: bool) -> dict[str, Any]:
    """Return what is recorded beside a case's samples."""
    case, launch = loaded.case, loaded.case.launch
    return {
        **asdict(loaded.function.resources),
        "occupancy": loaded.machine.occupancy(loaded.function, launch),
        "fallback": case.fallback,
        "library": case.variant.call.version() if case.variant.call else "",
        "places": copies,  # the key of saved runs
        "grid": list(launch.grid),
        "dynamic_shared_bytes": launch.shared_bytes,
        "hold_timeouts": 0,
        **observers.constants(on_host=case.variant.on_host),
        "cache": "host" if case.variant.on_host else "cold" if cold else "warm",
    }


def release(keep: tuple[object, ...] | None = None) -> None:
    """Free the results of the last case, and its inputs unless ``keep`` says that the next case shares them."""
    for loaded in state.loaded:
        loaded.free_own()
    state.loaded, state.fingerprint, state.printed = (), None, ()
    state.launched.clear()
    state.inputs.release(keep)
    candidate_samples.release()


def announce(cases: Sequence[Case], reference: bool = True) -> None:
    """Name cases that come later, with other inputs. ``reference``: their results will be compared with NumPy."""
    state.inputs.announce(cases, reference)


def begin_ahead() -> None:
    """Begin to prepare the announced cases, while samples of this one are taken.

    Nothing begins where the times are the host's, or where the kernel prints: ``Inputs.share`` says why.
    """
    if candidate_samples.current():
        return
    if gpu().info.has_gpu_clock and not any(loaded.case.family.prints for loaded in state.loaded):
        state.inputs.begin(gpu())


@functools.cache
def timer_of(kind: str) -> Timer:
    """Return this process's timer of a kind: cold, warm or host."""
    return HostTimer() if kind == "host" else GpuTimer(gpu(), kind == "cold")


def get_ready(kind: str, *, one_queue: bool = False) -> None:
    """Open the device and load what the samples of a kind need, so that the first case of this process is quick.

    ``one_queue``: the driver need not make more than one queue of work, because everything is launched on one stream.
    It makes eight unless told otherwise, and opening the device takes twice as long (H100: four processes at the same
    time 0.64 s, with one queue 0.32). What a call queues on other streams would wait for the held one then.
    """
    if one_queue:
        os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")
    timer = timer_of(kind)
    if isinstance(timer, GpuTimer):
        timer.sample(timer.kernel("empty", Launch((1, 1, 1), (1, 1, 1))))
    read_clock()
    array = GuardedArray(gpu(), "one", (1,), "float32")
    digest(array)
    array.free()


def sample(kind: str) -> tuple[float, int]:
    """Take one sample of the prepared case; return its seconds, and how many samples were discarded before it.

    ``kind``: cold, warm or host.
    """
    if call := candidate_samples.current():
        return call.sample(), 0
    copy = state.turn % len(state.loaded)
    state.turn += 1
    return sample_of(state.loaded[copy], copy, timer_of(kind))


def take_samples(kind: str, fewest: int, most: int, before: Sequence[float] = ()) -> list[tuple[float, int]]:
    """Take samples of the prepared case for CALL_SECONDS, at least one; return as ``sample``.

    ``before``: those that were taken already, in seconds. With them there are at most ``most``, and fewer, but at least
    ``fewest``, where they are precise before.
    """
    begin, rule, taken = time.perf_counter(), of_samples(fewest, most, before), list[tuple[float, int]]()
    while not taken or (time.perf_counter() - begin < CALL_SECONDS and not rule.is_finished):
        taken.append(sample(kind))
        rule.add(math.log(taken[-1][0]))
    return taken


def sample_of(loaded: Loaded, copy: int, timer: Timer) -> tuple[float, int]:
    """Take one sample of what is loaded on a copy of the arrays; return the same as ``sample``.

    On the host results are poisoned before each sample, where nobody compares times: so the last one shows whatever a
    check would find, without a launch before the samples and one after them, each of which may take seconds.
    """
    state.launched.pop(copy, None)
    state.launched[copy] = loaded
    before, restore = timer.timeouts, loaded.restore
    if isinstance(timer, HostTimer):
        restore = in_order((loaded.poison, loaded.restore))
    if loaded.case.family.prints:  # its lines are kept from the terminal
        with captured_stdout() as printed:
            seconds = timer.sample(loaded.start, restore)
        launches = 1 + timer.timeouts - before
        state.printed = tuple(printed[len(printed) - len(printed) // launches :])
    else:
        seconds = timer.sample(loaded.start, restore)
    return seconds, timer.timeouts - before


def read_clock() -> nvml.Clock:
    """Read the SM clock and the throttle reasons of the GPU."""
    return nvml.clocks().read()


def observe(asked: Collection[str]) -> dict[str, Any]:
    """Return what observers that are asked for record of the prepared case by launches of their own."""
    return observers.launch(asked, state.loaded) if state.loaded else {}


def settle(is_up: Callable[[], bool] | None = None) -> None:
    """Wait until no earlier case keeps the SM clock down any more. ``is_up``: as for ``Clocks.settle``."""
    nvml.clocks().settle(is_up)


def warm_up(kind: str, seconds: float) -> nvml.Clock:
    """Launch for at most ``seconds``, until the SM clock is near its highest or no longer rises within 2 ms.

    Returns the clock at the end.
    """
    clock, before = read_clock(), nvml.UNKNOWN
    begin = time.perf_counter()
    while True:
        step = time.perf_counter()
        while time.perf_counter() - step < 0.002:
            sample(kind)
        before, clock = clock, read_clock()
        up = clock.mhz >= nvml.LEAST_CLOCK * nvml.clocks().highest or clock.mhz <= before.mhz
        if up or time.perf_counter() - begin > seconds:
            return clock


def describe_gpu(cold: bool, measures: bool = True) -> dict[str, Any]:
    """Return what a saved run records of the GPU: its name, its driver, and how much slower a cold cache was read.

    ``measures``: false where another process measures on this GPU meanwhile, and records what is left out here.
    """
    device, measured, clocks = gpu(), dict[str, Any](), nvml.clocks()
    if measures:
        timer = timer_of("cold" if cold else "warm")
        assert isinstance(timer, GpuTimer)
        measured = {"coldness": round(timer.coldness(), 2), **observers.constants(on_host=False)}
    return {
        "name": device.info.name,
        "slug": device.info.slug,
        "uuid": clocks.uuid if device.info.has_gpu_clock else f"{device.info.slug} on {platform.node()}",
        "capability": str(device.info.capability),
        "driver": clocks.driver or device.info.driver,
        "cuda": device.info.driver,
        "multiprocessors": device.info.multiprocessors,
        "memory_bytes": device.info.memory_bytes,
        "l2_bytes": device.info.l2_bytes,
        "peak_bytes_per_second": device.info.peak_bytes_per_second,
        "cache": "cold" if cold else "warm",
        **measured,
        "note": device.info.note,
        "remarks": clocks.remarks() if device.info.has_gpu_clock else [],
    }
