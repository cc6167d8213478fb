"""Puts the software device in the place of the CUDA driver, before PyCUDA is imported."""

from __future__ import annotations

import shutil
from pathlib import Path

from warpwatch.devices.compile.compiler import NoCompiler
from warpwatch.devices.machine import POISON, DeviceError


def activate(launch_timeout: float, schedule_seed: int | None, missing: str) -> Path:
    """Make the software device's driver the one that PyCUDA finds, and return its compiler.

    ``missing``: what a GPU lacks. Raises NoCompiler, which says that too, or DeviceError.
    """
    import softcuda  # noqa: PLC0415  # where it is needed

    if not shutil.which("g++"):
        reasons = filter(None, [missing, "no g++ to build the software device with: install it (apt install g++)"])
        raise NoCompiler("; ".join(reasons))
    # The software device's own limit is shorter, so that it ends first even on a busy machine: its message names the
    # line where the kernel hangs. Its fresh memory is poison.
    limit = max(launch_timeout / 2, launch_timeout - 1)
    try:
        return softcuda.activate(launch_seconds=limit, seed=schedule_seed, fill=POISON)
    except (softcuda.BuildError, OSError, ImportError) as error:
        raise DeviceError(f"the software device cannot be built: {error}") from None
