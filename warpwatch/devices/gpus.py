"""Finds out which GPUs this machine has, without opening one: by the CUDA driver in another process, and by NVML.

Another process asks the driver, because a libcuda that is loaded cannot be unloaded. Little is imported here, so that
the worker process asks before it imports anything else: the answer takes 0.2 s (H200).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO

# Prints the answers of cuInit and cuDeviceGetCount, or why libcuda cannot be loaded, and waits until its input ends.
ASK_FOR_GPUS = """
import ctypes, os, sys
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    print("unloadable", error, flush=True)
else:
    count = ctypes.c_int()
    print(cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)), count.value, flush=True)
sys.stdin.read()
os._exit(0)  # at once, because the device is opened by now and the first case waits
"""
STUB_LIBRARY, NO_DEVICE = 34, 100  # CUresult
_started: list[tuple[subprocess.Popen[str], IO[str]]] = []  # the process whose answer is still to come, and its errors


def begin_for(settings: str) -> None:
    """Start the process that asks, unless ``settings`` (of devices/gpu.py, as JSON) want no GPU, or one was seen."""
    given = json.loads(settings)
    if given["kind"] != "software" and not given["gpu_seen"]:
        _begin()


def _begin() -> None:
    """Start the process that asks the driver, so that ``asked`` waits less for its answer."""
    command, pipe = [sys.executable, "-I", "-S", "-c", ASK_FOR_GPUS], subprocess.PIPE
    errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115  # a pipe that nobody reads may become full
    _started.append((subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True), errors))


@contextlib.contextmanager
def asked() -> Iterator[tuple[str, int]]:
    """Yield what is missing for a GPU, empty where there is one, and the number of GPUs.

    The driver stays initialized in the other process while the body runs: to initialize it once more takes half as long
    then (H100: 0.09 s, not 0.18). Raises DeviceError where the driver does not work.
    """
    if not _started:
        _begin()
    process, errors = _started.pop()
    with errors, process:  # at the end of the body its standard input is closed, at which it ends
        assert process.stdout
        answer = process.stdout.readline().strip()
        if not answer:
            from warpwatch.devices.machine import DeviceError  # noqa: PLC0415

            process.communicate()
            errors.seek(0)
            last = (errors.read().strip().splitlines() or ["no message"])[-1]
            raise DeviceError(f"the NVIDIA driver cannot be asked for GPUs: exit status {process.returncode}; {last}")
        missing = _missing(answer)
        yield missing, 0 if missing else int(answer.split()[1])


def _missing(answer: str) -> str:
    """Return what is missing for a GPU by an answer of the other process, or an empty text. Raises DeviceError."""
    from warpwatch.devices.machine import DeviceError  # noqa: PLC0415

    status, _, more = answer.partition(" ")
    if status == "unloadable":
        if more.startswith("libcuda.so.1: ") and "No such file" in more:
            return "no NVIDIA driver (libcuda.so.1 cannot be loaded)"
        raise DeviceError(f"the NVIDIA driver cannot be loaded: {more}")
    if int(status) == STUB_LIBRARY:
        return "no NVIDIA driver (libcuda.so.1 is the stub of a CUDA toolkit)"
    if int(status) == NO_DEVICE or (status == "0" and more == "0"):
        return f"the NVIDIA driver finds no GPU (error {status})"
    if status != "0":
        raise DeviceError(f"the NVIDIA driver does not work: cuInit returns error {status}; `nvidia-smi` may say why")
    return ""


def why_no_gpu() -> str:
    """Return what is missing for a GPU, or an empty text. Raises DeviceError where the driver does not work."""
    with asked() as (missing, _):
        return missing


def number_of_gpus() -> int:
    """Return how many GPUs, or parts of GPUs, CUDA shows to this process. Raises as ``why_no_gpu``."""
    with asked() as (_, count):
        return count


def slug_of(name: str) -> str:
    """Return a GPU's name as the name of a folder: 'nvidia-h200' for 'NVIDIA H200'."""
    return "-".join(name.lower().split()).replace("/", "-")


def model_of_all() -> str:
    """Return the slug of the GPUs that CUDA shows to this process; empty where they may differ or NVML cannot say.

    Processes of xdist need only know of which model theirs must be.
    """
    names = set(_names())
    return slug_of(names.pop()) if len(names) == 1 else ""


def sees_gpu() -> bool:
    """Return whether NVML sees a GPU that CUDA shows to this process whole."""
    return bool(_names())


def _names() -> Sequence[str]:
    """Return the name of each GPU; nothing where one is divided, or NVML does not answer."""
    shown = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
    if not re.match(r"\d|GPU-", shown):  # none, or parts of one, which are other models
        return ()
    try:
        import pynvml  # noqa: PLC0415  # the import loads the driver's library

        pynvml.nvmlInit()
        gpus = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        for gpu in gpus:
            with contextlib.suppress(pynvml.NVMLError_NotSupported):
                if pynvml.nvmlDeviceGetMigMode(gpu)[0]:
                    return ()  # divided into parts (MIG), which have names of their own
        return [str(pynvml.nvmlDeviceGetName(gpu)) for gpu in gpus]
    except Exception:  # without NVML a GPU is opened, which says what is wrong
        return ()
