"""Studies a family: times it on several sizes, and writes tables and pictures for a report: ``warpwatch study``."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from warpwatch.arguments import shapes
from warpwatch.catalogue.arrays import Shape
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.names import BadCase, pick, size_name
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import builds, launch_cost, timed_cases
from warpwatch.catalogue.validation import problems
from warpwatch.cli.options import (
    INTERRUPTED,
    BadArgument,
    add_device,
    add_keywords,
    completed,
    family_names,
    progress,
    selector,
)
from warpwatch.cli.programs import Program, ended_by_signals
from warpwatch.devices.info import HALVED, QUICK
from warpwatch.devices.opening import Settings
from warpwatch.devices.worker import Worker, describe_device
from warpwatch.report.entries import Results
from warpwatch.report.study import files_of, write
from warpwatch.runs.files import chosen_files, run_files
from warpwatch.runs.record import BadRun, RunRecord, read_run

MOST_SIZES = 4
BENCHMARK = "bench/bench_kernels.py"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    completed(parser.add_argument("family", help="such as matmul"), family_names)
    parser.add_argument(
        "--sizes", type=shapes, default=(), metavar="SHAPES", help="such as 64x64,128x128 (those that are declared)"
    )
    add_keywords(parser)
    add_device(parser)
    parser.add_argument(
        "--from",
        dest="runs",
        nargs="+",
        type=Path,
        default=[],
        metavar="RUN",
        help="use saved runs, and measure nothing",
    )
    parser.add_argument("--to", dest="folder", type=Path, metavar="FOLDER", help="where files go (study-FAMILY)")


def run(
    project: Project,
    *,
    family: str,
    sizes: Sequence[Shape],
    keywords: str,
    device: str,
    runs: Sequence[Path],
    folder: Path | None,
) -> int:
    """Measure a family or read saved runs, and write its study; returns 1 where a kernel failed.

    Raises BadCase, BadRun, NoDevice, ImportError or OSError.
    """
    import matplotlib  # noqa: F401, PLC0415  # an extra, whose lack is said before anything is measured

    chosen, matches = _chosen(project, family, sizes, runs), selector(keywords)
    folder = folder or Path(f"study-{family}")
    if folder.exists() and not folder.is_dir():
        raise BadArgument(f"--to {folder}: is a file: name a folder")
    records, status = [read_run(path) for path in chosen_files(runs)], 0
    if not runs:
        sizes = sizes or _small(project, chosen, device)
        if not any(matches(case.id) for case in timed_cases([chosen], sizes)):
            raise BadCase(f"-k {keywords!r}: no case of {family} has these words; `warpwatch list` shows all")
        record, status = _measured(project, chosen, sizes, keywords, device)
        records = [record]
    results = Results(families=project.families, runs=[_without_others(each, family, matches) for each in records])
    if not results.by_type(family):
        raise BadRun(_nothing(records, family, keywords))
    write(files_of(results, family, progress("drawing")), folder)
    print(f"{folder}: study.md, study.tex, and their tables and pictures as files of their own")
    if note := results.today.gpu.note:
        print(f"{results.today.gpu.name}: {note}")
    if not runs:
        print(f"the same again, without measuring: warpwatch study {family} --from {os.path.relpath(records[0].path)}")
    if status:
        print(f"error: {family}: cases failed, see above, and are left out", file=sys.stderr)
    return status


def _chosen(project: Project, name: str, sizes: Sequence[Shape], runs: Sequence[Path]) -> Family:
    """Return the family of that name, which can be studied on these sizes. Raises BadCase or BadArgument."""
    if runs and sizes:
        given = ",".join(map(size_name, sizes))
        raise BadArgument(f"--sizes={given}: chooses what is measured, and --from measures nothing: leave one out")
    family = pick(name, {each.name: each for each in project.families}, "family")
    if not builds([family]):
        raise BadCase("\n".join(str(each) for each in problems(project.families) if each.family == name))
    for shape in sizes:
        if why := family.refusal(shape):
            raise BadCase(f"--sizes={size_name(shape)}: {why}")
    return family


def _nothing(records: Sequence[RunRecord], family: str, keywords: str) -> str:
    """Say why runs have nothing of a family: its cases do not match, or there are none."""
    if any(name.startswith(f"{family}-") for record in records for name in record.cases):
        return f"-k {keywords!r}: no case of {family} in these runs has these words"
    known = ", ".join(dict.fromkeys(name.partition("-")[0] for name in records[-1].cases)) or "no family"
    return f"{records[-1].path}: no such case of {family} was timed; it has cases of {known}"


def _without_others(record: RunRecord, family: str, matches: Callable[[str], bool]) -> RunRecord:
    """Return a record without the family's cases that do not match."""
    kept = {name: t for name, t in record.cases.items() if matches(name) or not name.startswith(f"{family}-")}
    return replace(record, cases=kept)


def _small(project: Project, family: Family, device: str) -> tuple[Shape, ...]:
    """Return sizes that a slow device times in a while: a declared one, halved; () where it takes what is declared.

    Raises NoDevice, DeviceError, or BadCase where none is small enough.
    """
    worker = Worker(project, Settings(kind=device))
    try:
        info = worker.call(describe_device)
    finally:
        worker.stop()
    if info.largest_launch_cost == math.inf:
        return ()
    kernels = [build for build in builds([family]) if not build.variant.on_host]

    def cost(shape: Shape) -> float:
        return launch_cost(kernels, shape) if kernels else 0.0

    timed = {case.shape for case in timed_cases([family])} or {*family.tests}
    shape = min(timed, key=lambda shape: (sum(size & (size - 1) != 0 for size in shape if size >= HALVED), cost(shape)))
    halves: list[Shape] = []
    while not family.refusal(shape):
        halves += [shape]
        if max(shape, default=0) < HALVED:
            break
        shape = tuple(size // 2 if size >= HALVED else size for size in shape)
    most = info.largest_launch_cost
    sizes = [shape for shape in halves if cost(shape) <= QUICK * most][:MOST_SIZES]
    sizes = sizes or [shape for shape in halves if cost(shape) <= most][-MOST_SIZES:]
    sizes = sizes or [shape for shape in family.tests if cost(shape) <= most]
    if not sizes:
        raise BadCase(f"{family.name}: no declared size is small enough for {info.name}: give small ones by --sizes")
    return tuple(sorted(sizes))


def _measured(
    project: Project, family: Family, sizes: Sequence[Shape], keywords: str, device: str
) -> tuple[RunRecord, int]:
    """Time a family in another process, which shows its progress; returns the saved run and pytest's exit status.

    Raises BadRun where nothing was saved.
    """
    if not (project.root / BENCHMARK).is_file():
        cure = "which times kernels: `warpwatch init` writes one"
        raise BadCase(f"{family.name}: {project.root} has no {BENCHMARK}, {cure}")
    label = f"study-{family.name}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}"
    chosen = f"[{family.name}-" + (f" and ({keywords})" if keywords.strip() else "")
    if sizes:
        print(f"sizes: {', '.join(map(size_name, sizes))}; --sizes chooses others", file=sys.stderr)
    else:  # what they are held against is in the run too
        references = {case.reference_case for case in timed_cases([family])} - {""}
        chosen = " or ".join([chosen, *sorted(f"[{name}]" for name in references)])
    words = ["pytest", "-p", "warpwatch.plugin", "bench", "-k", chosen, f"--warpwatch-device={device}"]
    words += [f"--warpwatch-sizes={','.join(map(size_name, sizes))}"] if sizes else []
    words += ["--benchmark-quiet", f"--benchmark-save={label}", f"--benchmark-storage=file://{project.saved_runs}"]
    # What it prints goes beside the output of this command, as soon as it is printed.
    try:
        with ended_by_signals(), Program(words, project.root, os.fdopen(os.dup(2), "wb")) as program:
            program.wait()
            status = program.status or 0
    except KeyboardInterrupt:
        print(f"\ninterrupted while {family.name} was measured: no file was written", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None
    saved = [path for folder in project.saved_runs.glob("*/") for path in run_files(folder, f"*_{label}")]
    if not saved:
        raise BadRun(f"{family.name}: `pytest bench` ended with exit status {status} and timed nothing, see above")
    return read_run(saved[0]), int(status != 0)
