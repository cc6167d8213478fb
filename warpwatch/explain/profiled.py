"""Launches one side of a case once, in a process that a profiler watches.

``python -m warpwatch.explain.profiled FILE``: FILE holds a pickled ``Side``, which warpwatch/explain/profile.py wrote
for this process alone.
"""

from __future__ import annotations

import pickle
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

from warpwatch.catalogue.cases import find_case
from warpwatch.catalogue.inputs import random_inputs
from warpwatch.catalogue.leaving import end_now
from warpwatch.catalogue.project import load_project
from warpwatch.devices.gpu import Settings, open_device
from warpwatch.devices.other_kernel import OtherKernel
from warpwatch.devices.runner import launch_and_wait, upload
from warpwatch.timing.side_by_side import load_side


@dataclass(frozen=True, kw_only=True)
class Side:
    """Holds what is launched. ``other``: a revision's kernel; None for the case's own."""

    root: Path
    module: str
    case: str
    image: Path
    other: OtherKernel | None


def launch(side: Side) -> None:
    """Launch a side's kernels once on random data."""
    project = load_project(side.root, side.module)
    case = find_case(project.families, side.case)
    machine = open_device(Settings(kind="gpu"))
    loaded = load_side(machine, case, side.image, upload(machine, case, random_inputs(case, 0)), side.other)
    launch_and_wait(loaded)


if __name__ == "__main__":
    try:
        launch(pickle.loads(Path(sys.argv[1]).read_bytes()))
    except Exception:
        traceback.print_exc()
        end_now(1)
    end_now(0)  # without the interpreter's own exit, where PyCUDA aborts if a context is left
