"""Records the baseline of this machine's GPU in one command: ``warpwatch baseline record``.

Each run is ``python -m pytest bench`` in a process of its own, because one process says nothing of the noise between
processes. What is saved becomes the baseline by the code of ``warpwatch baseline promote``, or not at all.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from warpwatch.catalogue.project import Project
from warpwatch.cli.baseline_promote import promote
from warpwatch.cli.options import INTERRUPTED, add_recording, selector
from warpwatch.cli.programs import Program, ended_by_signals
from warpwatch.devices.gpus import why_no_gpu
from warpwatch.devices.opening import NoDevice
from warpwatch.report.tables import spreads
from warpwatch.revision.commit import git
from warpwatch.runs.baseline import objections
from warpwatch.runs.files import run_files
from warpwatch.runs.record import RunRecord, read_run

LAST_LINES = 12  # of a failed run's output
SHOWN = 20  # lines on the cases
CHANGED = "the checkout has changes that are not committed: commit them first, or use a clean clone"
TICK = 1.0  # seconds between two looks at the clock


class BadRecording(Exception):
    """Raised where a recording ends without a baseline."""


@dataclass(kw_only=True)
class Recording:
    """Runs of one recording. ``label``: what all its files are named after."""

    project: Project
    label: str
    count: int
    keywords: str
    allowed: Collection[str]
    runs: list[RunRecord] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # of each run that has ended
    begun: float = field(default_factory=time.monotonic)

    @property
    def name(self) -> str:
        """Name of the run that is under way, or of the next one."""
        return f"run {len(self.runs) + 1} of {self.count}"

    def saved(self) -> list[Path]:
        return [path for folder in self.project.saved_runs.glob("*/") for path in run_files(folder, f"*_{self.label}")]

    def progress(self) -> str:
        """Say how far it is; the time left is known once a run has ended. The first run compiles, the others do not."""
        passed = time.monotonic() - self.begun
        text = f"{self.name}: {passed:,.0f} s so far"
        if not self.runs:
            return text
        alike = self.seconds[1:] or self.seconds
        left = sum(alike) / len(alike) * (self.count - len(self.runs)) - (passed - sum(self.seconds))
        how = "about" if len(self.seconds) > 1 else "at most"
        return f"{text}, {how} {max(left, 0):,.0f} s left"

    def kept(self) -> str:
        """Say that nothing became a baseline, and where the runs saved so far are."""
        paths = self.saved()
        kept = f"what was saved so far is kept: {', '.join(map(str, paths))}" if paths else "no run was saved"
        return f"nothing was promoted, and {kept}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_recording(parser)


def run(project: Project, *, count: int, keywords: str, allowed: Collection[str]) -> int:
    """Measure in ``count`` processes, show what they found and make it the baseline; returns the exit status.

    Raises BadCase, BadRun, NoDevice, DeviceError or OSError.
    """
    selector(keywords)
    if missing := why_no_gpu():
        raise NoDevice(f"a baseline is recorded on a GPU: {missing}")
    label = f"baseline-{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}"
    recording = Recording(project=project, label=label, count=count, keywords=keywords, allowed=allowed)
    try:
        with ended_by_signals():
            describe = ("describe", "--always", "--dirty")  # as pytest-benchmark records it
            if "dirty" not in allowed and git("HEAD", project.root, *describe).stdout.strip().endswith(b"-dirty"):
                raise BadRecording(CHANGED)
            for _ in range(count):
                _measure(recording)
                _check(recording)
            print("\n".join(_shown(recording)))
    except KeyboardInterrupt:
        print(f"\ninterrupted in {recording.name}: {recording.kept()}", file=sys.stderr)
        return INTERRUPTED
    except BadRecording as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return _promoted(recording)


def _promoted(recording: Recording) -> int:
    """Make the runs the baseline and say what to do next; returns the exit status. Raises BadRun or OSError."""
    paths, project = [run.path for run in recording.runs], recording.project
    folder = os.path.relpath(project.baselines / recording.runs[0].slug)
    try:
        status = promote(project, paths, allowed=_allowances(recording), dry_run=False)
    except KeyboardInterrupt:
        either = f"{folder} holds the earlier runs, or the new ones; `git status` shows which"
        print(f"\ninterrupted while the baseline was replaced: {either}", file=sys.stderr)
        return INTERRUPTED
    if status == 0:
        print(f"next: commit {folder}, the baseline that later runs are compared with")
    return status


def _measure(recording: Recording) -> None:
    """Run the benchmark once in another process and read what it saved. Raises BadRecording or BadRun."""
    words = ["pytest", "bench", f"--benchmark-save={recording.label}"]
    words += [f"--benchmark-storage=file://{recording.project.saved_runs}"]
    words += ["-k", recording.keywords] if recording.keywords.strip() else []
    before, begun = recording.saved(), time.monotonic()
    status, last = _wait(words, recording)
    new = [path for path in recording.saved() if path not in before]
    if status or len(new) != 1:
        how = f"exit status {status}" if status else "exit status 0, but without one saved run of a GPU"
        output = "".join(f"\n  {line}" for line in last)
        raise BadRecording(f"{recording.name} ended with {how}; {recording.kept()}; its output ended so:{output}")
    recording.seconds.append(time.monotonic() - begun)
    recording.runs.append(read_run(new[0]))


def _wait(words: Sequence[str], recording: Recording) -> tuple[int | None, list[str]]:
    """Run pytest to its end, and show how far the recording is; returns the exit status and the last lines printed."""
    live = sys.stderr.isatty()
    print(recording.progress(), end="" if live else "\n", file=sys.stderr, flush=True)
    try:
        with Program(words, recording.project.root) as program:
            while not program.wait(TICK):
                if live:
                    print(f"\r{recording.progress()}  ", end="", file=sys.stderr, flush=True)
            return program.status, program.lines()[-LAST_LINES:]
    finally:
        if live:
            print(file=sys.stderr)


def _check(recording: Recording) -> None:
    """Raise BadRecording as soon as the runs so far could not become the baseline."""
    runs, allowed = recording.runs, _allowances(recording)
    previous = [read_run(path) for path in run_files(recording.project.baselines / runs[0].slug)]
    if mixed := objections(runs, []).get("mixed"):
        raise BadRecording(f"{mixed[-1]}; {recording.kept()}")
    for word, reasons in objections(runs, previous).items():
        if word not in allowed:
            raise BadRecording(f"{reasons[-1]}; to do it all the same: --allow {word}; {recording.kept()}")
    first, last = runs[0], runs[-1]
    differs = {
        "commit": first.commit.id != last.commit.id,
        "GPU": first.gpu_uuid != last.gpu_uuid,
        "choice of cases": first.cases.keys() != last.cases.keys(),
    }
    for name, is_other in differs.items():
        if is_other:
            raise BadRecording(f"{last.path}: has another {name} than {first.path.name}; {recording.kept()}")


def _allowances(recording: Recording) -> Sequence[str]:
    """Words that promote is given: -k asks for a part, which is right where the baseline loses no case by it."""
    folder = recording.project.baselines / recording.runs[0].slug
    past = {name for path in run_files(folder) for name in read_run(path).cases}
    part = recording.keywords.strip() and past <= recording.runs[0].cases.keys()
    return [*recording.allowed, *(["partial"] if part else [])]


def _shown(recording: Recording) -> list[str]:
    """Lines on the cases, the widest spread first; all of them are in a file beside the runs. Raises OSError."""
    lines = spreads(recording.runs)
    path = recording.runs[0].path.parent / f"{recording.label}.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if len(lines) <= SHOWN:
        return lines
    return [*lines[: SHOWN - 1], f"... and {len(lines) - SHOWN + 1} more in {path}"]
