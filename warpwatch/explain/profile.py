"""Profiles of both sides of a case by Nsight Compute: its counters, and where warps wait.

ncu replays a kernel several times with other counters each time, so nothing here takes part in a verdict. It leaves the
clocks as they are, and empties L2 before each replay, as the timer does. ``python -m warpwatch.explain.profile FILE``
is the process that it watches: FILE holds a pickled ``Side``, which ``Side.profile`` wrote for this process alone.
"""

from __future__ import annotations

import importlib
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warpwatch.catalogue.cases import find_case
from warpwatch.catalogue.inputs import random_inputs
from warpwatch.catalogue.leaving import end_now
from warpwatch.catalogue.project import load_project
from warpwatch.devices.opening import Settings, open_device
from warpwatch.devices.other_kernel import OtherKernel
from warpwatch.devices.runner import launch_and_wait, upload
from warpwatch.timing.side_by_side import load_side

SECONDS = 180.0
HOW_NCU = "it comes with the CUDA toolkit and as Nsight Compute; put it on the PATH"
HOW_REPORT = "pip install ncu-report (extra 'profile')"
HOW_RIGHTS = (
    "this user may not read the GPU's counters: run as root, or load the driver with "
    "NVreg_RestrictProfilingToAdminUsers=0 (NVIDIA's page on ERR_NVGPUCTRPERM says how)"
)
ENGINE = Path(__file__).parents[2]
STALL = "smsp__pcsamp_warps_issue_stalled_"
MORE_BYTES = 1.1  # a side that moves this many times more is slower for it
LINES = 3  # whose stalls grew most
# What is shown: name, ncu's metric, the factor to the unit that is shown, and that unit.
METRICS: Sequence[tuple[str, str, float, str]] = (
    ("time", "gpu__time_duration.sum", 1e-3, "µs"),
    ("read from memory", "dram__bytes_read.sum", 1e-6, "MB"),
    ("written to memory", "dram__bytes_write.sum", 1e-6, "MB"),
    ("moved by L2", "lts__t_bytes.sum", 1e-6, "MB"),
    ("L1 hit rate", "l1tex__t_sector_hit_rate.pct", 1.0, "%"),
    ("L2 hit rate", "lts__t_sector_hit_rate.pct", 1.0, "%"),
    ("bank conflicts, loads", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", 1.0, ""),
    ("bank conflicts, stores", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum", 1.0, ""),
    ("instructions of warps", "smsp__inst_executed.sum", 1.0, ""),
    ("issue slots used", "smsp__issue_active.avg.pct_of_peak_sustained_active", 1.0, "%"),
    ("achieved occupancy", "sm__warps_active.avg.pct_of_peak_sustained_active", 1.0, "%"),
)


@dataclass(frozen=True, kw_only=True)
class Side:
    """Side of a case that is launched. ``other``: a revision's kernel; None for the case's own."""

    root: Path
    module: str
    case: str
    image: Path
    other: OtherKernel | None

    def launch(self) -> None:
        case = find_case(load_project(self.root, self.module).families, self.case)
        machine = open_device(Settings(kind="gpu"))
        launch_and_wait(load_side(machine, case, self.image, upload(machine, case, random_inputs(case, 0)), self.other))

    def profile(self, symbols: Iterable[str]) -> Profile:
        """Profile one launch. ``symbols``: of its kernels. Raises NoProfile."""
        program, reader = find_ncu(), find_reader()
        with tempfile.TemporaryDirectory(prefix="warpwatch-ncu-") as folder:
            described, report = Path(folder) / "side", Path(folder) / "report.ncu-rep"
            described.write_bytes(pickle.dumps(self))
            names = "|".join(map(re.escape, symbols))
            command = [
                program,
                *("--target-processes", "application-only", "--clock-control", "none", "--cache-control", "all"),
                *("--kernel-name-base", "mangled", "--kernel-name", f"regex:^({names})$"),
                *("--section", "SourceCounters", "--metrics", ",".join(metric for _, metric, _, _ in METRICS)),
                *("--export", str(report), "--force-overwrite"),
                *(sys.executable, "-P", "-m", "warpwatch.explain.profile", str(described)),
            ]
            printed = _run(command, self.root)
            if not report.is_file():
                raise NoProfile(f"ncu made no report: {_reason(printed)}")
            return read_report(reader, report)


class NoProfile(Exception):
    """Raised where nothing could be profiled; the message says why, and what helps."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Counters of ncu for one side, of all its kernels together.

    ``values``: by the names of METRICS, without those that the GPU does not have. ``stalls``: samples of warps that
    waited, by reason. ``lines``: the same by line of the source where the code says it, else by instruction.
    """

    values: Mapping[str, float]
    stalls: Mapping[str, float] = field(default_factory=dict)
    lines: Mapping[str, float] = field(default_factory=dict)

    def more_from_memory(self, old: Profile) -> str:
        """Say that this side moves more bytes from and to memory than the old one, where it does; else nothing."""
        names = ("read from memory", "written to memory")
        before, after = (sum(side.values.get(name, 0.0) for name in names) for side in (old, self))
        more = after > MORE_BYTES * before > 0
        return f"more bytes from and to memory: {before:,.1f} -> {after:,.1f} MB" if more else ""


def find_ncu() -> str:
    program = shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
    if not Path(program).is_file():
        raise NoProfile(f"there is no ncu (Nsight Compute), so the counters of both sides are not compared: {HOW_NCU}")
    return program


def find_reader() -> Any:
    """Import NVIDIA's reader of ncu's reports. Raises NoProfile."""
    try:
        return importlib.import_module("ncu_report")
    except ImportError as error:
        raise NoProfile(f"ncu's reports cannot be read ({error}): {HOW_REPORT}") from None


def _run(command: Sequence[str], folder: Path) -> str:
    path = os.pathsep.join(filter(None, (str(ENGINE), os.environ.get("PYTHONPATH", ""))))
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise NoProfile(f"ncu did not end within {SECONDS:g} s") from None
    except OSError as error:
        raise NoProfile(f"{command[0]} cannot be run ({error}): {HOW_NCU}") from None
    return done.stdout


def _reason(printed: str) -> str:
    if "ERR_NVGPUCTRPERM" in printed:
        return HOW_RIGHTS
    errors = [line.rpartition("==")[2].strip() for line in printed.splitlines() if "ERROR" in line.upper()]
    return (errors or printed.strip().splitlines()[-1:] or ["it said nothing"])[0]


def read_report(reader: Any, path: Path) -> Profile:
    """Read the counters of all kernels in a report. Raises NoProfile."""
    try:
        actions = [action for span in reader.load_report(str(path)) for action in span]
    except Exception as error:  # the library raises its own errors, of no common kind
        raise NoProfile(f"{path.name} cannot be read: {error}; {HOW_REPORT}, as new as ncu") from None
    if not actions:
        raise NoProfile("ncu saw no launch of these kernels")
    values: dict[str, float] = {}
    for name, metric, factor, unit in METRICS:
        if counts := [each.as_double() for a in actions if (each := a.metric_by_name(metric)) is not None]:
            values[name] = sum(counts) / (len(counts) if unit == "%" else 1) * factor
    stalls, lines = dict[str, float](), dict[str, float]()
    for action in actions:
        for metric in action.metric_names():
            if metric.startswith(STALL) and not metric.endswith("_not_issued"):
                _add_stalls(action, metric, stalls, lines)
    return Profile(values=values, stalls=stalls, lines=lines)


def _add_stalls(action: Any, metric: str, stalls: dict[str, float], lines: dict[str, float]) -> None:
    """Add the samples of one stall reason: as a whole, and by line."""
    counted = action.metric_by_name(metric)
    reason = metric.removeprefix(STALL).replace("_", " ")
    stalls[reason] = stalls.get(reason, 0.0) + counted.as_double()
    if reason == "selected" or not counted.has_correlation_ids():  # a warp that issues does not wait
        return
    places = counted.correlation_ids()
    for i in range(counted.num_instances()):
        if samples := counted.as_double(i):
            place = _place(action, places.as_uint64(i))
            lines[place] = lines.get(place, 0.0) + samples


def _place(action: Any, address: int) -> str:
    """Name a line of the source, or the instruction where the code does not say which line it is of."""
    source = action.source_info(address)
    if source is not None and source.line():
        return f"{Path(source.file_name()).name}:{source.line()}"
    return re.sub(r"\s+0x[0-9a-f]+$", "", " ".join(str(action.sass_by_pc(address)).split()))  # a branch's own address


def grown(old: Mapping[str, float], new: Mapping[str, float], count: int = LINES) -> list[tuple[str, float, float]]:
    """List what grew most from old to new, as name, old and new."""
    every = ((name, old.get(name, 0.0), new.get(name, 0.0)) for name in {*old, *new})
    return sorted((row for row in every if row[2] > row[1]), key=lambda row: (row[1] - row[2], row[0]))[:count]


if __name__ == "__main__":
    try:
        pickle.loads(Path(sys.argv[1]).read_bytes()).launch()
    except Exception:
        traceback.print_exc()
        end_now(1)
    end_now(0)  # without the interpreter's own exit, where PyCUDA aborts if a context is left
