"""Asks NVML about a GPU: SM clock, what keeps it down, programs of others at work, settings that change times.

The binding is nvidia-ml-py, the vendor's own. Beside two kernels of other processes that never ended, a
kernel of 2.8 ms took 12.0 on an H200: the GPU gives each process in turn some 3 ms.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpwatch.devices.worker import gpu

# Reasons of a low clock that are a fault. Others are none: nothing to do, or a setting that the owner chose.
POWER_CAP = "software power cap"
HARMFUL = {
    0x4: POWER_CAP,
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
SETTLE_SECONDS = 2.0
LEAST_CLOCK = 0.97  # of the SM clock that a kernel could have: below that the clock counts as kept down
STEADY_CLOCK = 0.985  # lowest over highest clock of a case: below that, its samples cannot be pooled
WINDOW_SECONDS = 2.0  # the last of NVML's measurements of a process is at most so old: it makes one or more a second
# What others were at work is known for so long. The question takes 1.3 ms (an H200, under a profiler), the clock 0.1.
OTHERS_SECONDS = 0.25


@dataclass(frozen=True)
class Clock:
    """SM clock in MHz (0 where NVML does not say), the reasons that keep it down, and processes of others at work."""

    mhz: int
    throttle: tuple[str, ...]
    others: tuple[str, ...] = ()

    @property
    def is_disturbed(self) -> bool:
        """True where a kernel takes longer now for a reason that is not its own."""
        return bool(self.throttle or self.others)


UNKNOWN = Clock(0, ())


def clock_facts(clocks: Sequence[Clock]) -> dict[str, Any]:
    """Return what is recorded of clocks before and after samples; processes of others where any were at work."""
    others = tuple(dict.fromkeys(name for clock in clocks for name in clock.others))
    facts: dict[str, Any] = {"sm_clock_mhz": tuple(clock.mhz for clock in clocks)}
    facts["throttle"] = tuple(clock.throttle for clock in clocks)
    return facts | ({"other_processes": others} if others else {})


class Clocks:
    """Clocks of one GPU as NVML reports them; all unknown where there is no NVML."""

    def __init__(self, pci_bus_id: str) -> None:
        self._nvml: Any = None
        self._in_vain = False
        self._others, self._asked = tuple[str, ...](), -math.inf  # who is at work, and when that was asked
        with contextlib.suppress(Exception):  # without NVML or the right to use it, times are measured all the same
            import pynvml  # noqa: PLC0415  # the import loads the driver's library

            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id)
            self._nvml = pynvml

    def read(self) -> Clock:
        """Read the clock and its throttle reasons."""
        if self._nvml is None:
            return UNKNOWN
        mhz = self._nvml.nvmlDeviceGetClockInfo(self._handle, self._nvml.NVML_CLOCK_SM)
        mask = self._nvml.nvmlDeviceGetCurrentClocksEventReasons(self._handle)
        throttle = tuple(name for bit, name in HARMFUL.items() if mask & bit)
        if time.monotonic() - self._asked > OTHERS_SECONDS:
            self._others, self._asked = at_work(self._nvml, self._handle), time.monotonic()
        return Clock(int(mhz), throttle, self._others)

    def settle(self, is_up: Callable[[], bool] | None = None) -> None:
        """Wait until neither earlier launches nor others slow a kernel down, unless the last wait was in vain.

        A power cap lasts: on an H200, two seconds of float64 tensor products slowed the next eleven cases. ``is_up``:
        measures whether the SM clock is high. It is called where NVML tells of a power cap and of nothing else: that is
        not waited for if the clock is high.
        """
        begin = time.monotonic()
        while (clock := self.read()).is_disturbed:
            if is_up and clock.throttle == (POWER_CAP,) and not clock.others and is_up():
                self._in_vain = False
                return
            if self._in_vain or time.monotonic() - begin > SETTLE_SECONDS:
                break
            time.sleep(0.01)
        self._in_vain = clock.is_disturbed

    def ask(self, question: str) -> Any:
        """Return the answer to a question about the GPU; None where NVML has none, as of older GPUs."""
        if self._nvml is None:
            return None
        try:
            return getattr(self._nvml, question)(self._handle)
        except (self._nvml.NVMLError, AttributeError):  # AttributeError: an older NVML
            return None

    @functools.cached_property
    def highest(self) -> int:  # cached, because the question takes 2 ms
        """The highest SM clock in MHz, or 0 where unknown."""
        nvml = self._nvml
        return 0 if nvml is None else int(nvml.nvmlDeviceGetMaxClockInfo(self._handle, nvml.NVML_CLOCK_SM))

    def remarks(self) -> list[str]:
        """Return what of the GPU's settings and of the host's load a reader of times must know, a sentence each."""
        settings = [] if self._nvml is None else remarks(self._nvml, self._handle)
        return settings + host_remarks(os.getloadavg()[0], len(os.sched_getaffinity(0)))

    @property
    def uuid(self) -> str:
        """The GPU's UUID; empty where unknown."""
        return "" if self._nvml is None else str(self._nvml.nvmlDeviceGetUUID(self._handle))

    @property
    def driver(self) -> str:
        """Version of the driver, such as '580.159.04'; empty where unknown."""
        return "" if self._nvml is None else str(self._nvml.nvmlSystemGetDriverVersion())


@functools.cache
def clocks() -> Clocks:
    """Return this process's clocks of its GPU."""
    return Clocks(gpu().info.pci_bus_id)


# Settings of a GPU that change its times: each asks NVML about a GPU, and says what helps.
SETTINGS: tuple[tuple[Callable[[Any, Any], bool], str], ...] = (
    (
        lambda nvml, gpu: nvml.nvmlDeviceIsMigDeviceHandle(gpu),
        "this is a slice of a GPU (MIG): its other slices share the clock and the power with it",
    ),
    (
        lambda nvml, gpu: not nvml.nvmlDeviceIsMigDeviceHandle(gpu) and nvml.nvmlDeviceGetMigMode(gpu)[0],
        "the GPU is divided into slices (MIG), which share its clock and power",
    ),
    (
        lambda nvml, gpu: nvml.nvmlDeviceGetMPSComputeRunningProcesses(gpu),
        "processes share the GPU through MPS, so that others' kernels may run beside a timed one; end its server",
    ),
    (
        lambda nvml, gpu: not nvml.nvmlDeviceGetPersistenceMode(gpu),
        "persistence mode is off: each process waits for the driver to load; `nvidia-smi -pm 1` keeps it loaded",
    ),
    (
        lambda nvml, gpu: not nvml.nvmlDeviceGetEccMode(gpu)[0],
        "ECC is off, which changes the speed of some GPUs' memory: compare with such runs alone",
    ),
    (
        lambda nvml, gpu: (
            nvml.nvmlDeviceGetApplicationsClock(gpu, nvml.NVML_CLOCK_SM)
            != nvml.nvmlDeviceGetDefaultApplicationsClock(gpu, nvml.NVML_CLOCK_SM)
        ),
        "its application clocks are not the default ones: compare with such runs alone, or `nvidia-smi -rac`",
    ),
    (
        lambda nvml, gpu: nvml.nvmlDeviceGetDisplayActive(gpu),
        "a display is attached: what it draws shares the GPU",
    ),
)


def remarks(nvml: Any, handle: Any) -> list[str]:
    """Return sentences about a GPU. ``handle``: NVML's of it. What NVML does not tell is left out."""
    sentences = []
    for matters, sentence in SETTINGS:
        with contextlib.suppress(nvml.NVMLError, AttributeError):  # an older NVML, or no right to ask
            sentences += [sentence] * bool(matters(nvml, handle))
    return sentences


def host_remarks(load: float, cores: int) -> list[str]:
    """Return a sentence where more is at work on the host than it has cores for."""
    remark = (
        f"the host is busy (load {load:.1f} on {cores} cores): holds may run into their limit, and times of "
        "calls and of serial kernels vary; end other work"
    )
    return [remark] * (load > cores)


def at_work(nvml: Any, handle: Any) -> tuple[str, ...]:
    """Name other processes that have used a GPU lately, such as 'python3 (process 4711)'; empty where unknown.

    ``handle``: NVML's of the GPU. A process that holds memory and has computed nothing in the last seconds is none of
    them. One of which NVML has measured nothing yet is. Work that begins and ends between two questions is not seen.
    """
    listed = {process.pid for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle)}
    others = {pid for pid in listed if not _is_of_this_run(pid)}
    # In some containers NVML tells numbers that mean nothing inside: our own process is not among them.
    if not others or os.getpid() not in listed:
        return ()
    return tuple(_described(nvml, pid) for pid in sorted(others) if _has_worked(nvml, handle, pid))


def _is_of_this_run(pid: int) -> bool:
    """Tell whether a process is this one, or has the same parent: two sides of a call take turns."""
    if pid == os.getpid():
        return True
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return int(fields[1]) == os.getppid()


def _has_worked(nvml: Any, handle: Any, pid: int) -> bool:
    """Tell whether a process has used the GPU in the last seconds, as far as NVML knows."""
    since = int((time.time() - WINDOW_SECONDS) * 1e6)
    try:
        measured = nvml.nvmlDeviceGetProcessUtilization(handle, since)
        shares = [process.smUtil for process in measured if process.pid == pid]
    except nvml.NVMLError:  # nothing was measured, or this GPU does not measure it
        return True
    return not shares or max(shares) > 0


def _described(nvml: Any, pid: int) -> str:
    try:
        name = nvml.nvmlSystemGetProcessName(pid)
    except nvml.NVMLError:
        name = ""
    text = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
    words = text.split()  # a command line in some releases of the driver
    program = Path(words[0]).name if words else "a program"
    return f"{program} (process {pid})"
