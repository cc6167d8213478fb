"""Prepares a case, checks it and takes its samples: the half of a benchmark that runs in the worker process."""

from __future__ import annotations

import functools
import hashlib
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.launches import Launch
from warpwatch.devices.digest import Queue, digest, digests, queue_of
from warpwatch.devices.gpu import Device
from warpwatch.devices.machine import Function, GuardedArray, NoFigure, in_order
from warpwatch.devices.mismatch import WrongResult
from warpwatch.devices.runner import Loaded, captured_stdout, launch_and_wait, load, with_variables
from warpwatch.devices.worker import gpu, machine
from warpwatch.timing import candidate_samples, nvml, observers
from warpwatch.timing.checks import (
    check_fresh_launch,
    check_lines,
    check_on_other_poison,
    check_result,
    check_sample,
    check_surroundings,
    fingerprint,
    late,
    other_bits,
)
from warpwatch.timing.inputs import Inputs, Shared, sharing_key
from warpwatch.timing.probes import check_exchanged, check_work, left_out
from warpwatch.timing.roofs import check_hardware
from warpwatch.timing.stopping import of_samples
from warpwatch.timing.timer import GpuTimer, HostTimer, Timer

COLD_SAMPLES = 2  # on each copy, of a case whose figure is that of a warm cache


@dataclass(kw_only=True)
class State:
    """State of the worker process between two calls.

    ``loaded``: the prepared case, once for each copy of its arrays. ``queue``: digests of the results of samples that
    are not read yet; None on the host, and where the kernel prints. ``queued``: what took these samples. ``by_value``:
    each sample's result is compared by value. ``is_judged``: another process has checked that the case does its work
    each time. ``launched``: what took the last sample on each copy, in the order of these samples. ``bits``:
    fingerprint of the first result on each set of inputs, of a case whose bits must be the same again. ``printed``: the
    lines of the last sample, where the kernel prints. ``turn``: how many samples were taken. ``inputs``: of this case
    and of later ones.
    """

    loaded: tuple[Loaded, ...] = ()
    queue: Queue | None = None
    by_value: bool = False
    is_judged: bool = False
    launched: dict[int, Loaded] = field(default_factory=dict)
    queued: list[Loaded] = field(default_factory=list)
    bits: dict[int, int] = field(default_factory=dict)
    printed: tuple[str, ...] = ()
    turn: int = 0
    inputs: Inputs = field(default_factory=Inputs)

    @property
    def shared(self) -> Shared:
        """The inputs of the prepared case."""
        assert self.inputs.shared
        return self.inputs.shared


# Wall seconds for the samples of one call. A call costs 0.08 ms (H200's host), a fifth of a short kernel's sample.
CALL_SECONDS = 0.1
Accepted = tuple[tuple[int, ...], ...]  # fingerprints of right results, for each set of inputs
state = State()


def prepare(
    case: Case, image: Path, cold: bool, checking_image: Path | None = None, accepted: Accepted | None = None
) -> dict[str, Any]:
    """Load a case and check its result, and return what is recorded of it. Raises WrongResult or DeviceError.

    ``checking_image``: a build of the same kernel that finds more faults; it is checked too where it is another file.
    ``accepted``: of right results, where another process has checked the case, so that nothing is compared.
    """
    if candidate_samples.takes(case):
        release()
        return candidate_samples.prepare(case, cold)
    shared, where = begin_case(case, image, checking_image, accepted), machine(case.variant.on_host)
    load_all(lambda arrays, beside: load(where, case, image, arrays, beside=beside))
    if accepted is None and not case.variant.on_host:  # there the samples themselves are checked, see sample_of
        check_result(state.loaded[0], shared)
    return describe(state.loaded[0], len(shared.copies), cold)


def begin_case(case: Case, image: Path, checking_image: Path | None, accepted: Accepted | None) -> Shared:
    """Free the last case, and return the inputs of this one; launch its checking build once, if it has one.

    ``accepted``: as for ``prepare``; None: with its right results. Raises WrongResult or DeviceError.
    """
    release(keep=sharing_key(case))
    state.is_judged = accepted is not None
    shared = state.inputs.share(case, reference=accepted is None)
    for given, known in zip(shared.sets, accepted or (), strict=False):
        given.accepted.update(known)
    if accepted is None and checking_image not in (None, image):
        loaded = load(machine(case.variant.on_host), case, checking_image, shared.copies[0])
        try:
            check_result(loaded, shared)
        finally:
            loaded.free_own()
    return shared


def load_all(load_on: Callable[[tuple[GuardedArray, ...], Function | None], Loaded]) -> None:
    """Load a case on each copy of its arrays. Raises DeviceError.

    ``load_on``: loads it on other arrays, with the module of a kernel that is given.
    """
    copies = state.shared.copies
    first = with_variables(load_on(copies[0], None))
    state.loaded = (first,)
    for copy in copies[1:]:
        state.loaded += (load_on(copy, first.function),)
    if isinstance(first.machine, Device) and first.results:
        queue, ranges = queue_of(first.machine), [[each.with_bands for each in it.results] for it in state.loaded]
        state.by_value = not queue.begin(ranges, GpuTimer.TRIES)  # of results that are too many
        state.queue = None if state.by_value else queue


def finish(kind: str, seconds: float | None = None) -> Accepted:
    """Check the prepared case after its last sample, and return the fingerprints of its right results.

    ``seconds``: the median of the samples, if there are any. Raises WrongResult or DeviceError.
    """
    if call := candidate_samples.current():
        candidate_samples.finish()
        check_hardware(call.case, kind, call.at_most)
        try:
            check_hardware(call.case, kind, seconds)
        except WrongResult as fault:  # of a slope, which scatters, it is none
            raise NoFigure(f"{call.case.id}: no figure by wall time: {fault}") from None
        return ()
    shared, first = state.shared, state.loaded[0]
    if not state.launched:  # no sample was taken, which would have been checked
        check_fresh_launch(first, shared)
    if first.case.family.prints:
        if state.launched:
            check_lines([*state.launched.values()][-1], shared.sets[0], state.printed)
    else:
        finish_samples()
    if not first.case.variant.on_host and not first.case.family.prints and not state.is_judged:
        check_work_of_case(kind, seconds)
        check_hardware(first.case, kind, seconds)
    return accepted_so_far()


def finish_samples() -> None:
    """Check the last sample on each copy, and that nothing but results was written. Raises as ``finish``."""
    for copy, loaded in state.launched.items():
        check_sample(loaded, state.shared, copy)
    check_surroundings(state.loaded, state.shared)


def check_work_of_case(kind: str, seconds: float | None) -> None:
    """Launch the prepared case in ways that show whether it does its work each time. Raises as ``finish``."""
    timer, first, cold_seconds = timer_of("cold"), state.loaded[0], seconds
    assert isinstance(timer, GpuTimer)
    if kind == "warm":  # whose samples show nothing: their results are not poisoned
        copies = list(enumerate(state.loaded)) * COLD_SAMPLES
        cold_seconds = statistics.median(sample_of(loaded, copy, timer)[0] for copy, loaded in copies)
        if not prove():
            finish_samples()
    last = [*state.launched.values()][-1:]
    own = last[0] if cold_seconds and last and any(last[0] is loaded for loaded in state.loaded) else None
    check_work(state.loaded, state.shared, timer, cold_seconds, own)
    check_exchanged(state.loaded, state.shared, timer)
    check_on_other_poison(first, state.shared, late(first.case))


def accepted_so_far() -> Accepted:
    """Return the fingerprints of right results of the prepared case, for other processes."""
    return tuple(tuple(sorted(given.accepted)) for given in state.shared.sets)


def result_bits() -> str:
    """Launch the prepared case once more; return a digest of its results, equal where they are equal to the bit.

    It is empty for a call that is not trusted, whose inputs are never the same.
    """
    if not state.loaded:
        return ""
    first = state.loaded[0]
    first.poison()
    launch_and_wait(first)
    each = digests(first.machine, [(array.address, array.nbytes) for array in first.results])
    return hashlib.sha256(repr(each).encode()).hexdigest()[:16]


def describe(loaded: Loaded, copies: int, cold: bool) -> dict[str, Any]:
    """Return what is recorded beside a case's samples."""
    case, launch = loaded.case, loaded.case.launch
    remarks = (*loaded.machine.remarks_on_call(), *left_out(case, copies, len(state.shared.sets)))
    launches = loaded.machine.launched_by_call()
    kernels = [each.kernel for each in launches if each.kernel]
    resources = asdict(loaded.function.resources)
    return {
        **{name: max([value, *(each.get(name, 0) for each in kernels)]) for name, value in resources.items()},
        "occupancy": loaded.machine.occupancy(loaded.function, launch),
        "fallback": case.fallback,
        "library": case.variant.call.version() if case.variant.call else "",
        "places": copies,  # the key of saved runs
        "grid": list(launch.grid),
        "dynamic_shared_bytes": launch.shared_bytes,
        "hold_timeouts": 0,
        **observers.constants(on_host=case.variant.on_host),
        "cache": "host" if case.variant.on_host else "cold" if cold else "warm",
        **({"remarks": remarks} if remarks else {}),
        **({"launches": [each.words for each in launches], "kernels": kernels} if launches else {}),
    }


def release(keep: tuple[object, ...] | None = None) -> None:
    """Free the results of the last case, and its inputs unless ``keep`` says that the next case shares them."""
    for loaded in state.loaded:
        loaded.free_own()
        loaded.machine.leave_call()
    state.loaded, state.queue, state.by_value, state.printed = (), None, False, ()
    for known in (state.launched, state.queued, state.bits):
        known.clear()
    state.inputs.release(keep)
    candidate_samples.release()
    observers.release()


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
    queue_of(gpu())
    array.free()


def sample(kind: str) -> tuple[float, int]:
    """Take one sample of the prepared case; return its seconds, and how many samples were discarded before it.

    ``kind``: cold, warm or host.
    """
    taken = _next_sample(kind)
    return taken if prove() else _next_sample(kind)


def _next_sample(kind: str) -> tuple[float, int]:
    """Take one sample as ``sample`` does; whether its result is right is known after ``prove``."""
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
    taken = _take(kind, fewest, most, before)
    return taken if prove() else _take(kind, fewest, most, before)


def _take(kind: str, fewest: int, most: int, before: Sequence[float]) -> list[tuple[float, int]]:
    begin, rule, taken = time.perf_counter(), of_samples(fewest, most, before), list[tuple[float, int]]()
    observers.look()
    while not taken or (time.perf_counter() - begin < CALL_SECONDS and not rule.is_finished):
        taken.append(_next_sample(kind))
        rule.add(math.log(taken[-1][0]))
    return taken


def prove(blaming: Callable[[Loaded], AbstractContextManager[None]] = lambda loaded: nullcontext()) -> bool:
    """Return whether the result of each sample since the last call is known to be right, to the bit.

    Where it is not, each later sample's result is compared by value: results of a kernel may differ in their last bits.
    ``blaming``: of what is loaded, in which errors of its last sample are raised. Raises WrongResult or DeviceError.
    """
    taken, queued = state.queue.take() if state.queue else [], [*state.queued]
    state.queued.clear()
    for copy, sums in dict(taken).items():
        if fingerprint(sums) not in state.shared.set_of(copy).accepted:  # the last on that copy, which still is there
            with blaming(state.launched[copy]):
                check_sample(state.launched[copy], state.shared, copy)
    for (copy, sums), loaded in zip(taken, queued, strict=True):
        require_same_bits(loaded, copy, fingerprint(sums))
    known = all(fingerprint(sums) in state.shared.set_of(copy).accepted for copy, sums in taken)
    state.by_value = state.by_value or not known
    return known


def require_same_bits(loaded: Loaded, copy: int, result: int) -> None:
    """Raise WrongResult where the prepared case had another result on these inputs and the same bits are required.

    ``result``: its fingerprint. Another side of a pair declares for itself.
    """
    own = loaded.case.deterministic and any(loaded is each for each in state.loaded)
    if own and state.bits.setdefault(copy % len(state.shared.sets), result) != result:
        raise other_bits(loaded)


def sample_of(loaded: Loaded, copy: int, timer: Timer) -> tuple[float, int]:
    """Take one sample of what is loaded on a copy of the arrays; return the same as ``sample``.

    Results are poisoned before each, unless the cache is to be warm. Behind each a digest of them is queued, which
    ``prove`` reads. On the host results are compared after the last sample alone, as a check may take seconds.
    """
    state.launched.pop(copy, None)
    state.launched[copy] = loaded
    before, restore, after = timer.timeouts, loaded.restore, None
    if isinstance(timer, HostTimer) or timer.is_cold:
        restore = in_order((loaded.poison, loaded.restore))
    if isinstance(timer, GpuTimer) and timer.is_cold and state.queue and not state.by_value:
        if state.queue.room < timer.TRIES:
            prove()
        after = in_order((functools.partial(state.queue.add, copy), functools.partial(state.queued.append, loaded)))
    if loaded.case.family.prints:  # its lines are kept from the terminal
        with captured_stdout() as printed:
            seconds = timer.sample(loaded.start, restore)
        launches = 1 + timer.timeouts - before
        state.printed = tuple(printed[len(printed) - len(printed) // launches :])
    else:
        seconds = timer.sample(loaded.start, restore, after)
    if state.by_value:
        require_same_bits(loaded, copy, check_sample(loaded, state.shared, copy))
    return seconds, timer.timeouts - before


def read_clock() -> nvml.Clock:
    """Read the SM clock and the throttle reasons of the GPU."""
    return nvml.clocks().read()


def observe(asked: Collection[str]) -> dict[str, Any]:
    """Return what observers that are asked for record of the prepared case by launches of their own."""
    return observers.launch(asked, state.loaded) if state.loaded else {}


def observe_turn(option: str, core: int) -> float | None:
    """Return a value that an observer compares in turns with another process, or None. Raises DeviceError."""
    return observers.BY_OPTION[option].turn(state.loaded, core)


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
            _next_sample(kind)
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
