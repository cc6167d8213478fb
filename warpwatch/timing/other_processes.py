"""Sees processes other than this run's at work on the GPU, through NVML: they share its time, and kernels take longer.

On an H200 two kernels that never ended, of other processes, made a kernel of 2.8 ms take 12.0: the GPU gives each
process in turn some 3 ms.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

WINDOW_SECONDS = 2.0  # the last of NVML's measurements of a process is at most so old: it makes one or more a second


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
        shares = [each.smUtil for each in nvml.nvmlDeviceGetProcessUtilization(handle, since) if each.pid == pid]
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
