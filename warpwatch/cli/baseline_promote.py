"""Makes saved runs the baseline of their GPU: ``warpwatch baseline promote``.

A baseline is all the runs in a folder named after the GPU: one process says nothing of the noise between processes.
"""

from __future__ import annotations

import argparse
import contextlib
import lzma
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from warpwatch.catalogue.project import Project
from warpwatch.cli.options import add_runs
from warpwatch.devices.file_lock import take_lock
from warpwatch.report.tables import changes
from warpwatch.runs.files import PACKED, PLAIN, chosen_files, compact_json, run_files, write_numbered
from warpwatch.runs.record import SETTINGS, BadRun, RunRecord, read_document, read_run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_runs(parser, "a file in .benchmarks/<gpu>/, or a folder of them")
    parser.add_argument(
        "--allow", dest="allowed", nargs="+", default=[], metavar="WORD", help="failed, partial, dirty, mixed, same"
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would change, and write nothing")


def run(project: Project, *, runs: Sequence[Path], allowed: Sequence[str], dry_run: bool) -> int:
    """Make saved runs the baseline, after showing what changes; returns the exit status. Raises BadRun or OSError."""
    return promote(project, chosen_files(runs), allowed=allowed, dry_run=dry_run)


def promote(project: Project, paths: Sequence[Path], *, allowed: Sequence[str], dry_run: bool) -> int:
    """Make saved runs the baseline of their GPU, after showing what changes; returns the exit status.

    Raises BadRun or OSError.
    """
    runs = [read_run(path) for path in paths]
    _refuse_twice(runs)
    folder = project.baselines / runs[0].slug
    previous = [read_run(path) for path in run_files(folder)]
    print(f"{len(runs)} runs become the baseline of {runs[0].slug}; it has {len(previous)} now")
    print(changes(previous, runs))
    refused = {word: reasons for word, reasons in objections(runs, previous).items() if word not in allowed}
    for word, reasons in refused.items():
        print("\n".join(reasons) + f"\n  refused; to do it all the same: --allow {word}", file=sys.stderr)
    if refused or dry_run:
        return 1 if refused else 0
    for path in replace_baseline(folder, runs, previous):
        print(f"wrote {path}")
    return 0


def objections(runs: Sequence[RunRecord], previous: Sequence[RunRecord]) -> dict[str, list[str]]:
    """Return the objections to making these runs a baseline: sentences by the word that allows them all the same."""
    there, names = _alike(previous), runs[0].cases.keys()
    sentences: dict[str, list[str]] = {
        "failed": [
            f"{run.path}: {len(run.failed)} cases failed: {', '.join(run.failed[:3])} ..." for run in runs if run.failed
        ],
        "partial": [
            f"{run.path}: does not hold every case" for run in runs if not run.whole or run.cases.keys() != names
        ],
        "dirty": [f"{run.path}: was measured {where}" for run in runs if (where := _not_a_commit(run))],
        "mixed": [f"{run.path}: another {word}" for run in runs for word in _other_settings(run, runs[0], previous)],
        "gpu": [f"{run.path}: was measured without a GPU" for run in runs if not run.gpu.slug],
        "against": [
            f"{run.path}: was measured side by side with {run.against[:12]}, in fewer samples"
            for run in runs
            if run.against
        ],
        "same": [
            f"{same[0].path}: is in the baseline already, as {known.path}"
            for key, same in _alike(runs).items()
            for known in there.get(key, ())
        ],
    }
    return {word: reasons for word, reasons in sentences.items() if reasons}


def _not_a_commit(run: RunRecord) -> str:
    """Say where a run was measured if not on a commit; else an empty text."""
    if run.commit.dirty is not False:
        return "on uncommitted changes"
    return "" if re.fullmatch("[0-9a-f]{40}", run.commit.id) else "outside a git checkout"


def _other_settings(run: RunRecord, first: RunRecord, previous: Sequence[RunRecord]) -> Iterator[str]:
    """Yield the settings of a run that differ from the first run's, or else from the baseline's."""
    for name, word in SETTINGS.items():
        if run.setting(name) != first.setting(name):
            yield f"{word} ({run.setting(name)}, not {first.setting(name)})"
        elif previous and run.setting(name) != previous[0].setting(name):
            yield f"{word} than the baseline ({previous[0].setting(name)})"


def replace_baseline(folder: Path, runs: Sequence[RunRecord], previous: Sequence[RunRecord]) -> list[Path]:
    """Make copies of saved runs the baseline in a folder, in place of the ``previous`` ones: all of them, or none.

    Returns their paths. Raises BadRun, where another process changes the baseline meanwhile too.
    """
    files = [_copy(run.path) for run in runs]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder):
            if run_files(folder) != [run.path for run in previous]:
                raise BadRun(f"{folder}: another process has changed this baseline meanwhile: promote again")
            return write_numbered(folder, files, instead_of=[run.path for run in previous])
    except OSError as error:
        why = error.strerror or str(error)
        raise BadRun(f"{folder}: cannot be written ({why}), so the baseline stays as it was") from None


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a baseline's folder. Raises BadRun where another process holds the lock, and OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        is_ours = True
        with contextlib.suppress(OSError):  # some network file systems lock no folder: the check of its files is left
            is_ours = take_lock(descriptor, seconds=0)
        if not is_ours:
            raise BadRun(f"{folder}: another process replaces this baseline now: promote again later")
        yield
    finally:
        os.close(descriptor)


def _copy(path: Path) -> tuple[str, bytes]:
    """Return the name without a number, and the compressed content, of a run in a baseline. Raises BadRun."""
    name = re.sub("^[0-9]{4,}_", "", path.name.removesuffix(PACKED).removesuffix(PLAIN))
    try:
        return f"{name}{PACKED}", lzma.compress(compact_json(read_document(path)))
    except ValueError as error:
        raise BadRun(f"{path}: holds a number that JSON does not have ({error})") from None


def _refuse_twice(runs: Sequence[RunRecord]) -> None:
    """Raise BadRun where two of these runs are the same one, which would count as two processes without any noise."""
    for same in _alike(runs).values():
        if len(same) > 1:
            files = list(dict.fromkeys(str(run.path) for run in same))
            named = f"{' and '.join(files)} are the same run" if files[1:] else f"{files[0]} is named {len(same)} times"
            raise BadRun(f"{named}, and a baseline counts each process once: name it once")


def _alike(runs: Iterable[RunRecord]) -> dict[object, list[RunRecord]]:
    """Sort runs by what they are, whatever their files are called: when and where one began, or else its samples."""
    alike: dict[object, list[RunRecord]] = {}
    for run in runs:
        samples = tuple(sorted((name, timed.samples) for name, timed in run.cases.items()))
        alike.setdefault((run.when, run.gpu_uuid) if run.when else samples, []).append(run)
    return alike
