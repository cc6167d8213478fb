"""Makes saved runs the baseline of their GPU.

A baseline is all the runs in a folder named after the GPU: one process says nothing of the noise between processes.
"""

from __future__ import annotations

import contextlib
import lzma
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from warpwatch.devices.file_lock import take_lock
from warpwatch.runs.files import PACKED, PLAIN, compact_json, run_files, write_numbered
from warpwatch.runs.record import SETTINGS, BadRun, RunRecord, read_document


def objections(runs: Sequence[RunRecord], previous: Sequence[RunRecord]) -> dict[str, list[str]]:
    """Objections to making these runs a baseline: sentences by the word that allows them all the same."""
    sentences: dict[str, list[str]] = {
        word: [] for word in ("failed", "partial", "dirty", "mixed", "gpu", "against", "same")
    }
    there = _alike(previous)
    for key, same in _alike(runs).items():
        sentences["same"] += [
            f"{same[0].path}: is in the baseline already, as {run.path}" for run in there.get(key, ())
        ]
    settings = [(run, {name: run.setting(name) for name in SETTINGS}) for run in runs]
    for run, setting in settings:
        if run.failed:
            sentences["failed"].append(f"{run.path}: {len(run.failed)} cases failed: {', '.join(run.failed[:3])} ...")
        if not run.whole or run.cases.keys() != runs[0].cases.keys():
            sentences["partial"].append(f"{run.path}: does not hold every case")
        if run.commit.dirty is not False:
            sentences["dirty"].append(f"{run.path}: was measured on uncommitted changes")
        elif not re.fullmatch("[0-9a-f]{40}", run.commit.id):
            sentences["dirty"].append(f"{run.path}: was measured outside a git checkout")
        if run.against:
            sentences["against"].append(
                f"{run.path}: was measured side by side with {run.against[:12]}, in fewer samples"
            )
        if not run.gpu.slug:
            sentences["gpu"].append(f"{run.path}: was measured without a GPU")
        for name, word in SETTINGS.items():
            if setting[name] != settings[0][1][name]:
                sentences["mixed"].append(f"{run.path}: another {word} ({setting[name]}, not {settings[0][1][name]})")
            elif previous and setting[name] != previous[0].setting(name):
                sentences["mixed"].append(f"{run.path}: another {word} than the baseline ({previous[0].setting(name)})")
    return {word: what for word, what in sentences.items() if what}


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


def refuse_twice(runs: Sequence[RunRecord]) -> None:
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
