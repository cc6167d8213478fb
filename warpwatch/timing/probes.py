"""Launches that show whether a kernel does its work in each: none of them counts as a sample.

Samples take two sets of inputs in turn and start on poisoned results. A kernel may all the same keep more results than
two, in variables of its module or in memory that is nobody's, or return early where its result is there already. So a
few launches are timed in other ways, beside launches in the usual way, and may not differ clearly in time:

- again: the same inputs as in the launch before, whose results are left where they are;
- unseen: values that no launch has had before, in arrays of their own;
- reset: variables of the module have the values that they had after loading.

A time below what it takes to read the inputs from memory is not a result either.
"""

from __future__ import annotations

import contextlib
import secrets
import statistics
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from warpwatch.catalogue.cases import Case
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.machine import DeviceError, GuardedArray, in_order
from warpwatch.devices.mismatch import WrongResult
from warpwatch.devices.references import drawn
from warpwatch.devices.runner import Loaded, upload
from warpwatch.devices.worker import gpu
from warpwatch.timing.checks import check_sample
from warpwatch.timing.inputs import SMALL_BYTES, Shared
from warpwatch.timing.timer import GpuTimer

USUAL = "usual"
# Launches of each way: a first look, and more only where that shows a difference.
ROUNDS, MORE_ROUNDS = 2, 10
# A way is clearly faster where its median is below this share of the other's: times of a GPU, and of the host, which
# are those of the software device.
CLEARLY, CLEARLY_ON_HOST = 0.8, 0.5
DRAWN_BYTES = 2**16  # of inputs, up to which new ones are drawn; larger ones are rotated on the device
KEEPS = "it keeps results from launch to launch: compute them in each"
# What is said of a kernel by the way that differs.
SAID = {
    "again": f"where its result is already there ({{}}, {{}} on fresh inputs and results): {KEEPS}",
    "unseen": f"on inputs that it has not seen ({{}}, {{}} on those of its samples): {KEEPS}",
    "reset": f"where its __device__ variables are as after loading ({{}}, {{}} as its launches leave them): {KEEPS}",
}
Timed = Mapping[str, list[float]]  # seconds by way
LoadOn = Callable[[tuple[GuardedArray, ...]], Loaded]


def check_work(
    copies: Sequence[Loaded],
    shared: Shared,
    load_on: LoadOn,
    timer: GpuTimer,
) -> None:
    """Launch in each way, and raise WrongResult where one differs clearly in time. Raises DeviceError.

    ``load_on``: loads the case on other arrays.
    """
    first, clearly = copies[0], CLEARLY if gpu().info.has_gpu_clock else CLEARLY_ON_HOST
    with contextlib.ExitStack() as cleanup:
        ways = _ways(first, shared, load_on, timer, cleanup)
        times: Timed = {name: [] for name in ways}
        for rounds, share in ((ROUNDS, (1 + clearly) / 2), (MORE_ROUNDS, clearly)):
            for _ in range(rounds):
                if len(copies) > 1:  # so that the next inputs are not those of the launch before
                    _launch(copies[1], timer)
                for name, launch in ways.items():
                    times[name].append(launch())
                check_sample(first, shared, 0)
            if not (problem := _problem(times, share)):
                return
    raise WrongResult(f"{first.case.id} {problem}")


def _launch(loaded: Loaded, timer: GpuTimer) -> float:
    """Take a sample as it is usual."""
    return timer.sample(loaded.start, in_order((loaded.poison, loaded.restore)))


def _ways(
    first: Loaded,
    shared: Shared,
    load_on: LoadOn,
    timer: GpuTimer,
    cleanup: contextlib.ExitStack,
) -> dict[str, Callable[[], float]]:
    """Return the ways to launch a case, each of which returns its seconds; "again" comes directly after the usual."""
    ways: dict[str, Callable[[], float]] = {
        USUAL: lambda: _launch(first, timer),
        "again": lambda: timer.sample(first.start, first.restore),
    }
    if unseen := _unseen(first, shared, cleanup):
        arrays, renew = unseen
        loaded = load_on(arrays)
        cleanup.callback(loaded.free_own)
        renew()
        _launch(loaded, timer)  # what a call makes once

        def on_new_values() -> float:
            renew()
            return _launch(loaded, timer)

        ways["unseen"] = on_new_values
    if variables := first.variables:
        ways["reset"] = lambda: timer.sample(first.start, in_order((variables.restore, first.poison, first.restore)))
    return ways


def _unseen(
    first: Loaded, shared: Shared, cleanup: contextlib.ExitStack
) -> tuple[tuple[GuardedArray, ...], Callable[[], None]] | None:
    """Return arrays like the inputs, and a function that gives them values that no launch has had.

    None where there is nothing to draw, where a draw chooses the shapes, or where there is no memory for them.
    """
    case, machine, size = first.case, first.machine, sum(array.nbytes for array in first.inputs)
    is_small = size <= (SMALL_BYTES if case.family.draw else DRAWN_BYTES)
    if not size or any(array.is_drawn for array in case.inputs) or (case.family.draw and not is_small):
        return None
    try:
        machine.require(2 * case.array_bytes)
    except DeviceError:
        return None
    if is_small:
        arrays = upload(machine, case, drawn(case, secrets.randbits(32)))
    else:
        arrays = tuple(
            GuardedArray(machine, each.name, each.shape, each.dtype.name, operand=True) for each in first.inputs
        )
    for array in arrays:
        cleanup.callback(array.free)

    def renew() -> None:
        if is_small:
            values = drawn(case, secrets.randbits(32))
            for array in arrays:
                array.write(values[array.name])
            return
        for array, source in zip(arrays, first.inputs, strict=True):
            _rotate(array, source)

    return arrays, renew


def _rotate(array: GuardedArray, source: GuardedArray) -> None:
    """Fill an array with the values of another, from a random one on."""
    elements = array.nbytes // array.dtype.itemsize
    first = secrets.randbelow(elements) * array.dtype.itemsize
    rest = array.nbytes - first
    array.machine.copy(array.address, source.address + first, rest)
    if first:
        array.machine.copy(array.address + rest, source.address, first)


def _problem(times: Timed, share: float) -> str:
    """Say how a way differs clearly from the usual one; empty where none does."""
    usual = times[USUAL]
    for name, seconds in times.items():
        fast, slow = (seconds, usual) if name == "again" else (usual, seconds)
        if name != USUAL and _is_faster(fast, slow, share):
            own, other = statistics.median(seconds), statistics.median(usual)
            said = SAID[name].format(*(f"{each * 1e6:,.2f} µs" for each in (own, other)))
            return f"takes {own / other:.3g} times as long {said}"
    return ""


def _is_faster(fast: Sequence[float], slow: Sequence[float], share: float) -> bool:
    """Return whether the median is below that share of the other one, and hardly a value of both overlaps."""
    is_apart = np.quantile(fast, 0.75) < np.quantile(slow, 0.25)
    return bool(is_apart) and statistics.median(fast) < share * statistics.median(slow)


def check_bandwidth(case: Case, info: DeviceInfo, seconds: float) -> None:
    """Raise WrongResult where a time with L2 cold is below what reading the inputs takes at the GPU's peak bandwidth.

    What fits into L2 does not count, and of arrays that are not read whole only the declared bytes do.
    """
    inputs, peak = sum(array.nbytes for array in case.inputs), info.peak_bytes_per_second
    read = min(inputs, case.work.bytes)
    if info.has_gpu_clock and peak and seconds < (read - info.l2_bytes) / peak:
        raise WrongResult(
            f"{case.id} is faster than the hardware: its inputs, {read / 1e6:,.0f} MB, in {seconds * 1e6:,.1f} µs are "
            f"{read / seconds / 1e12:.1f} TB/s of {peak / 1e12:.1f}: the declared work is too large, or the kernel "
            "skips some"
        )
