"""Detects whether this machine has a GPU, and tells a machine without one from a driver that does not work."""

from __future__ import annotations

import subprocess
import sys

from warpwatch.devices.machine import DeviceError

# Prints the answers of cuInit and cuDeviceGetCount, or why libcuda cannot be loaded.
ASK_FOR_GPUS = """
import ctypes
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    print("unloadable", error)
else:
    count = ctypes.c_int()
    print(cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)), count.value)
"""
STUB_LIBRARY, NO_DEVICE = 34, 100  # CUresult
_asked: list[subprocess.Popen[str]] = []  # the process that asks already


def ask_early() -> None:
    """Begin to ask the driver for GPUs, which takes 0.2 s (H200), so that ``why_no_gpu`` waits less for the answer."""
    command = [sys.executable, "-I", "-S", "-c", ASK_FOR_GPUS]
    _asked.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))


def why_no_gpu() -> str:
    """Return what is missing for a GPU, or an empty text. Raises DeviceError where the driver does not work.

    The driver is asked in another process, because a libcuda that is loaded cannot be unloaded.
    """
    if not _asked:
        ask_early()
    with _asked.pop() as process:
        said, errors = process.communicate()
    answer, _, more = said.strip().partition(" ")
    if process.returncode or not answer:
        last = (errors.strip().splitlines() or ["no message"])[-1]
        raise DeviceError(f"the NVIDIA driver cannot be asked for GPUs: exit status {process.returncode}; {last}")
    if answer == "unloadable":
        if more.startswith("libcuda.so.1: ") and "No such file" in more:
            return "no NVIDIA driver (libcuda.so.1 cannot be loaded)"
        raise DeviceError(f"the NVIDIA driver cannot be loaded: {more}")
    if int(answer) == STUB_LIBRARY:
        return "no NVIDIA driver (libcuda.so.1 is the stub of a CUDA toolkit)"
    if int(answer) == NO_DEVICE or (answer == "0" and more == "0"):
        return f"the NVIDIA driver finds no GPU (error {answer})"
    if answer != "0":
        raise DeviceError(f"the NVIDIA driver does not work: cuInit returns error {answer}; `nvidia-smi` may say why")
    return ""
