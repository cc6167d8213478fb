"""Detects whether this machine has a GPU, and tells a machine without one from a driver that does not work."""

from __future__ import annotations

from warpwatch.devices import ask_driver
from warpwatch.devices.machine import DeviceError

STUB_LIBRARY, NO_DEVICE = 34, 100  # CUresult


def why_no_gpu() -> str:
    """Return what is missing for a GPU, or an empty text. Raises DeviceError where the driver does not work."""
    with ask_driver.asked() as found:
        return what_is_missing(*found)


def number_of_gpus() -> int:
    """Return how many GPUs, or parts of GPUs, CUDA shows to this process. Raises as ``why_no_gpu``."""
    with ask_driver.asked() as found:
        return 0 if what_is_missing(*found) else int(found[0].split()[1])


def what_is_missing(said: str, errors: str, status: int) -> str:
    """Return what is missing for a GPU by an answer of ``ask_driver.asked``, or an empty text. Raises DeviceError."""
    answer, _, more = said.partition(" ")
    if not answer:
        last = (errors.strip().splitlines() or ["no message"])[-1]
        raise DeviceError(f"the NVIDIA driver cannot be asked for GPUs: exit status {status}; {last}")
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
