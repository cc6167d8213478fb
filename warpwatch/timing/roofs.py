"""Times that the GPU cannot reach: more operations in a second, or more bytes, than its hardware allows."""

from __future__ import annotations

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.pipes import PIPES, USUAL
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.mismatch import WrongResult
from warpwatch.devices.worker import gpu
from warpwatch.timing import nvml


def check_hardware(case: Case, kind: str, seconds: float | None) -> None:
    """Raise WrongResult where the GPU cannot do a case's work in its time."""
    if seconds is not None:
        check_operations(case, gpu().info, seconds)
        if kind == "cold":
            check_bandwidth(case, gpu().info, seconds)


def peak_rate(case: Case, info: DeviceInfo, highest: float = 0.0) -> tuple[float, str]:
    """Return how many of a case's operations a GPU can do in a second, and on which pipe; 0 where that is not known.

    The pipe is the declared one, or else the fastest that operations of the case's type may run on. ``highest``: the
    clock of the GPU in hertz, where that is more than the driver says.
    """
    pipes = (case.work.pipe,) if case.work.pipe else USUAL.get(case.dtype, ("",))
    operations, pipe = max((PIPES.get(each, {}).get(info.capability, 0), each) for each in pipes)
    return operations * info.multiprocessors * max(info.clock_hz, highest), pipe


def excess(case: Case, info: DeviceInfo, seconds: float, highest: float = 0.0) -> str:
    """Say how a time is too short for the declared operations; empty where it is not, or where nothing is known.

    ``highest``: the clock of the GPU in hertz, where that is more than the driver says.
    """
    peak, pipe = peak_rate(case, info, highest)
    rate = case.work.operations / seconds
    if not info.has_gpu_clock or not peak or rate <= peak:
        return ""
    return f"{rate / 1e12:,.1f} {'Top' if pipe.endswith('int8') else 'TFLOP'}/s of {peak / 1e12:,.1f} ({pipe})"


def check_operations(case: Case, info: DeviceInfo, seconds: float) -> None:
    """Raise WrongResult where the pipe that a case names cannot do its operations in a time."""
    if case.work.pipe and (said := excess(case, info, seconds, 1e6 * nvml.clocks().highest)):
        raise WrongResult(
            f"{case.id} is faster than the hardware: {said}: the declared work is too large, the kernel skips some, or "
            "its operations run on another pipe"
        )


def remark_on_rate(case: Case, info: DeviceInfo, seconds: float) -> str:
    """Say that a time is too short for the pipe that operations of its type usually run on; empty where it is not."""
    if case.work.pipe or not (said := excess(case, info, seconds)):
        return ""
    return (
        f"{said}: on another pipe, or with fewer operations than are declared; Work(operations, bytes, pipe=...) makes "
        "it a fault"
    )


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
