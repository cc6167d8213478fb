"""Makes saved runs the baseline of their GPU.

A baseline is all the runs in a folder named after the GPU: one process says nothing of the noise between processes.
"""

from __future__ import annotations

import contextlib
import lzma
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from warpwatch.devices.file_lock import take_lock
from warpwatch.runs.files import PACKED, PLAIN, compact_json, run_files, write_numbered
from warpwatch.runs.record import SETTINGS, BadRun, RunRecord, read_document

ANCHORS = "anchors"  # folder beside the runs of a baseline
WORDS = ("failed", "partial", "dirty", "mixed", "gpu", "against", "same", "drift")  # each allows a kind of objection


def objections(runs: Sequence[RunRecord], previous: Sequence[RunRecord]) -> dict[str, list[str]]:
    """Objections to making these runs a baseline: sentences by the word that allows them all the same."""
    there = _alike(previous)
    sentences = [
        ("same", f"{same[0].path}: is in the baseline already, as {run.path}")
        for key, same in _alike(runs).items()
        for run in there.get(key, ())
    ]
    for run in runs:
        mixed = (("mixed", text) for text in _other_settings(run, runs[0], previous))
        sentences += [(word, f"{run.path}: {text}") for word, text in (*_objections_to(run, runs[0]), *mixed)]
    by_word = {word: [text for own, text in sentences if own == word] for word in WORDS}
    return {word: texts for word, texts in by_word.items() if texts}


def _objections_to(run: RunRecord, first: RunRecord) -> list[tuple[str, str]]:
    """Return what speaks against a run, each with its word. ``first``: of the runs that are to become a baseline."""
    clean, committed = run.commit.dirty is False, re.fullmatch("[0-9a-f]{40}", run.commit.id)
    rows = (
        ("failed", run.failed, f"{len(run.failed)} cases failed: {', '.join(run.failed[:3])} ..."),
        ("partial", not run.whole or run.cases.keys() != first.cases.keys(), "does not hold every case"),
        ("dirty", not clean, "was measured on uncommitted changes"),
        ("dirty", clean and not committed, "was measured outside a git checkout"),
        ("against", run.against, f"was measured side by side with {run.against[:12]}, in fewer samples"),
        ("gpu", not run.gpu.slug, "was measured without a GPU"),
    )
    return [(word, text) for word, is_wrong, text in rows if is_wrong]


def _other_settings(run: RunRecord, first: RunRecord, previous: Sequence[RunRecord]) -> Iterator[str]:
    for name, word in SETTINGS.items():
        here, wanted = run.setting(name), first.setting(name)
        if here != wanted:
            yield f"another {word} ({here}, not {wanted})"
        elif previous and here != previous[0].setting(name):
            yield f"another {word} than the baseline ({previous[0].setting(name)})"


@dataclass(frozen=True)
class Baseline:
    """Baseline of a GPU: a folder, and the runs that were read from it."""

    folder: Path
    runs: Sequence[RunRecord]

    @staticmethod
    def refuse_twice(runs: Sequence[RunRecord]) -> None:
        """Raise BadRun where two runs are the same one, which would count as two processes without any noise."""
        for same in _alike(runs).values():
            if len(same) > 1:
                files = list(dict.fromkeys(str(run.path) for run in same))
                one, other = f"{files[0]} is named {len(same)} times", f"{' and '.join(files)} are the same run"
                raise BadRun(f"{other if files[1:] else one}, and a baseline counts each process once: name it once")

    def replace(self, runs: Sequence[RunRecord]) -> list[Path]:
        """Make copies of saved runs the baseline, in place of its own: all of them, or none. Returns their paths.

        Raises BadRun, where another process changes the baseline meanwhile too.
        """
        files, previous = [_copy(run.path) for run in runs], [run.path for run in self.runs]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with _locked(self.folder):
                if run_files(self.folder) != previous:
                    raise BadRun(f"{self.folder}: another process has changed this baseline meanwhile: promote again")
                return write_numbered(self.folder, files, instead_of=previous)
        except OSError as error:
            why = error.strerror or str(error)
            raise BadRun(f"{self.folder}: cannot be written ({why}), so the baseline stays as it was") from None


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
    try:
        return f"{unnumbered(path)}{PACKED}", lzma.compress(compact_json(read_document(path)))
    except ValueError as error:
        raise BadRun(f"{path}: holds a number that JSON does not have ({error})") from None


def unnumbered(path: Path) -> str:
    """Return the name of a run's file without number and ending."""
    return re.sub("^[0-9]{4,}_", "", path.name.removesuffix(PACKED).removesuffix(PLAIN))


def _alike(runs: Iterable[RunRecord]) -> dict[object, list[RunRecord]]:
    """Sort runs by what they are, whatever their files are called: when and where one began, or else its samples."""
    alike: dict[object, list[RunRecord]] = {}
    for run in runs:
        samples = tuple(sorted((name, timed.samples) for name, timed in run.cases.items()))
        alike.setdefault((run.when, run.gpu_uuid) if run.when else samples, []).append(run)
    return alike
