"""Loads a case and ends the process, for the commands of this folder that measure on a GPU in their own process."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.inputs import random_inputs
from warpwatch.catalogue.leaving import end_now
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.gpu import Device
from warpwatch.devices.runner import Loaded, load, upload

ROOT = Path(__file__).resolve().parent.parent


def load_case(device: Device, case: Case) -> Loaded:
    """Compile a case as it is timed, and load it on random inputs."""
    image = compile_build(case.build, device.info.timing_target)
    return load(device, case, image.path, upload(device, case, random_inputs(case, 0)))


def leave(status: int = 0) -> NoReturn:
    """End without the interpreter's own exit, where PyCUDA aborts if a context is left."""
    sys.stdout.flush()
    end_now(status)
