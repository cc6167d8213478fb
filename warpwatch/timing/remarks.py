"""Says what of a GPU's settings and of its host a reader of times must know: each is one sentence with what helps."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any


def remarks(nvml: Any, handle: Any) -> list[str]:
    """Return sentences about a GPU. ``handle``: NVML's of it. What NVML does not tell is left out."""
    asked: tuple[Callable[[Any, Any], str], ...] = (_slices, _server, _persistence, _memory_errors, _display)
    found = []
    for ask in asked:
        try:
            found.append(ask(nvml, handle))
        except (nvml.NVMLError, AttributeError):  # an older NVML, or no right to ask
            continue
    return [text for text in found if text]


def host_remark(load: float | None = None, cores: int | None = None) -> str:
    """Say that more is at work on the host than it has cores for; empty where it is not.

    ``load``, ``cores``: those of this machine, unless given.
    """
    busy = os.getloadavg()[0] if load is None else load
    here = len(os.sched_getaffinity(0)) if cores is None else cores
    if busy <= here:
        return ""
    return (
        f"the host is busy (load {busy:.1f} on {here} cores): holds may run into their limit, and times of "
        "calls and of serial kernels vary; end other work"
    )


def _slices(nvml: Any, handle: Any) -> str:
    if nvml.nvmlDeviceIsMigDeviceHandle(handle):
        return "this is a slice of a GPU (MIG): its other slices share the clock and the power with it"
    current, _ = nvml.nvmlDeviceGetMigMode(handle)
    return "the GPU is divided into slices (MIG), which share its clock and power" if current else ""


def _server(nvml: Any, handle: Any) -> str:
    if not nvml.nvmlDeviceGetMPSComputeRunningProcesses(handle):
        return ""
    return "processes share the GPU through MPS, so that others' kernels may run beside a timed one; end its server"


def _persistence(nvml: Any, handle: Any) -> str:
    if nvml.nvmlDeviceGetPersistenceMode(handle):
        return ""
    return "persistence mode is off: each process waits for the driver to load; `nvidia-smi -pm 1` keeps it loaded"


def _memory_errors(nvml: Any, handle: Any) -> str:
    current, _ = nvml.nvmlDeviceGetEccMode(handle)
    return "" if current else "ECC is off, which changes the speed of some GPUs' memory: compare with such runs alone"


def _display(nvml: Any, handle: Any) -> str:
    return "a display is attached: what it draws shares the GPU" if nvml.nvmlDeviceGetDisplayActive(handle) else ""
