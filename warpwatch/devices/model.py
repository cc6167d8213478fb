"""Tells of which model the GPUs of this machine are, by NVML, without opening one."""

from __future__ import annotations

import os
import re

from warpwatch.devices.info import slug_of


def model_of_all() -> str:
    """Return the slug of the GPUs that CUDA shows to this process; empty where they may differ or NVML cannot say.

    To open a GPU takes a second, and processes of xdist need only know of which model theirs must be.
    """
    shown = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
    if not re.match(r"\d|GPU-", shown):  # none, or parts of one, which are other models
        return ""
    try:
        import pynvml  # noqa: PLC0415  # the import loads the driver's library

        pynvml.nvmlInit()
        every = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        names = {str(pynvml.nvmlDeviceGetName(each)) for each in every}
        if any(_is_split(pynvml, each) for each in every) or len(names) != 1:
            return ""
    except Exception:  # without NVML a GPU is opened, which says what is wrong
        return ""
    return slug_of(names.pop())


def _is_split(nvml: object, handle: object) -> bool:
    """Tell whether a GPU is divided into parts (MIG), which have names of their own."""
    try:
        return bool(nvml.nvmlDeviceGetMigMode(handle)[0])  # type: ignore[attr-defined]
    except nvml.NVMLError_NotSupported:  # type: ignore[attr-defined]
        return False
