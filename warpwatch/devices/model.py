"""Tells by NVML which GPUs this machine has, without opening one, which takes a second."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from warpwatch.devices.info import slug_of


def model_of_all() -> str:
    """Return the slug of the GPUs that CUDA shows to this process; empty where they may differ or NVML cannot say.

    Processes of xdist need only know of which model theirs must be.
    """
    names = set(_names())
    return slug_of(names.pop()) if len(names) == 1 else ""


def sees_gpu() -> bool:
    """Tell whether NVML sees a GPU that CUDA shows to this process whole."""
    return bool(_names())


def _names() -> Sequence[str]:
    """Return the name of each GPU; nothing where one is divided, or NVML does not answer."""
    shown = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
    if not re.match(r"\d|GPU-", shown):  # none, or parts of one, which are other models
        return ()
    try:
        import pynvml  # noqa: PLC0415  # the import loads the driver's library

        pynvml.nvmlInit()
        every = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        if any(_is_split(pynvml, each) for each in every):
            return ()
        return [str(pynvml.nvmlDeviceGetName(each)) for each in every]
    except Exception:  # without NVML a GPU is opened, which says what is wrong
        return ()


def _is_split(nvml: Any, handle: object) -> bool:
    """Tell whether a GPU is divided into parts (MIG), which have names of their own."""
    try:
        return bool(nvml.nvmlDeviceGetMigMode(handle)[0])
    except nvml.NVMLError_NotSupported:
        return False
