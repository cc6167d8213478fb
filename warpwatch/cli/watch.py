"""Checks kernels whenever a file of theirs is saved: ``warpwatch watch``.

The kernels that a file belongs to are compiled, tested and timed against HEAD by child processes, so that each round
sees the files as they are then. A save while a round runs ends it, and the next one checks what both were to check.
"""

from __future__ import annotations

import argparse
import functools
import signal
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from warpwatch.catalogue.project import find_setting
from warpwatch.cli.options import add_device, add_keywords, selector
from warpwatch.cli.processes import INTERRUPTED, ended_by_signals
from warpwatch.cli.watch_files import folders_of
from warpwatch.cli.watch_look import Look
from warpwatch.cli.watch_reports import plural
from warpwatch.cli.watch_steps import Round, Watched, check
from warpwatch.revision.commit import files_unlike_head
from warpwatch.revision.declared import BadRevision

Notices = Callable[..., Iterable[set[tuple[Any, str]]]]
TICK = 0.1  # seconds between two looks at the step that runs
SUFFIXES = (".py", ".cu", ".cuh", ".h", ".hpp", ".hxx", ".inc", ".cpp", ".cc", ".c", ".cubin", ".ptx", ".fatbin")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``warpwatch watch``."""
    add_keywords(parser, "only kernels with a case that matches, as pytest -k")
    add_device(parser)
    parser.add_argument("--once", action="store_true", help="check what differs from HEAD, and end with 0 or 1")


def run(*, keywords: str, device: str, once: bool) -> int:
    """Check what differs from HEAD and then, without ``once``, each file that is saved; returns the exit status.

    Raises BadProject, BadCase for a malformed -k, and ImportError where the library that watches files is missing.
    """
    setting = find_setting(Path.cwd())
    selector(keywords)
    notices = None if once else _notices()  # missing, it is said before anything is checked
    try:
        changed, problem = files_unlike_head(setting.root), ""
    except BadRevision as error:
        changed, problem = [], str(error).removeprefix("HEAD: ")
        _say(f"no HEAD to compare with: {problem}; {'nothing' if once else 'only what is saved'} is checked")
    watched = Watched(root=setting.root, module=setting.module, keywords=keywords, device=device, head_problem=problem)
    watcher = Watcher(watched=watched, once=once)
    try:
        with ended_by_signals():
            return watcher.go_on(changed, notices) if notices else watcher.check_once(changed)
    except KeyboardInterrupt:
        print()
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is ending, which a second Ctrl-C would leave half done
        watcher.end()


def _notices() -> Notices:
    """Return the function that yields what was saved. Raises ImportError where its library is missing."""
    import watchfiles  # noqa: PLC0415  # of an extra, which other commands do without

    milliseconds = int(1000 * TICK)
    return functools.partial(
        watchfiles.watch, recursive=False, yield_on_timeout=True, rust_timeout=milliseconds, step=50, debounce=400
    )


@dataclass(kw_only=True)
class Watcher:
    """Holds what is known of the files, and the round that runs.

    ``checked``: the files whose kernels the last round checked, or was to check. ``good``: how the last one ended.
    """

    watched: Watched
    once: bool
    files: frozenset[Path] = frozenset()
    folders: Sequence[Path] = ()
    families: int = 0
    checked: frozenset[Path] = frozenset()
    good: bool = True
    round: Round | None = None
    stamps: dict[Path, tuple[int, ...] | None] = field(default_factory=dict)
    _scratch: tempfile.TemporaryDirectory[str] | None = None
    _starting: bool = True
    _known: str = ""  # what was last said to be watched

    def check_once(self, changed: Iterable[Path]) -> int:
        """Check what differs from HEAD; returns 1 where it is not right, or could not be checked."""
        self.begin(changed)
        while not self.step(10.0):
            pass
        return int(not self.good or bool(self.watched.head_problem))

    def go_on(self, changed: Iterable[Path], notices: Notices) -> NoReturn:
        """Check what differs from HEAD, then whatever is saved, until an interruption."""
        self.begin(changed)
        while True:
            folders = [folder for folder in self._folders() if folder.is_dir()] or [self.watched.root]
            places, first = _identities(folders), True
            for events in notices(*folders):
                saved = {Path(path).resolve() for _, path in events}
                if first:  # what was saved before the library began to watch
                    saved |= {path for path, stamp in self.stamps.items() if _stamp(path) != stamp}
                    first = False
                self.take(saved)
                self.step(0)
                if folders != [each for each in self._folders() if each.is_dir()] or places != _identities(folders):
                    break

    def take(self, saved: Iterable[Path]) -> None:
        """Begin a round for files that were saved, if kernels may be made of them; a round that runs is ended."""
        saved = frozenset(saved)
        known = saved & self.files
        # A file that was missing may have come; where nothing was wrong, a new one belongs to nothing yet.
        if not known and (self.good or not any(path.suffix in SUFFIXES for path in saved)):
            return
        running, self._starting = self.round is not None, False
        self.end()
        _say(f"{datetime.now():%H:%M:%S}  {self.watched.shown(sorted(known or saved))}")
        self.begin(saved | self.checked if running or not known else saved)

    def begin(self, changed: Iterable[Path]) -> None:
        """Begin a round."""
        self.checked = frozenset(path.resolve() for path in changed)
        self.stamps = {path: _stamp(path) for path in self.files}
        self._scratch = tempfile.TemporaryDirectory(prefix="warpwatch-watch-", ignore_cleanup_errors=True)
        steps = check(self.watched, self.checked, Path(self._scratch.name), _say, self._learn)
        self.round = Round(steps)

    def step(self, seconds: float) -> bool:
        """Go on with the round that runs, if there is one; tells whether none runs any more."""
        if self.round and self.round.advance(seconds):
            result, starting = self.round.result, self._starting
            assert result
            self.end()
            self.good, self._starting = result.good, False
            if result.nothing and not starting:
                _say("  no kernel is made of it")
            elif result.nothing and not self.watched.head_problem:
                _say("nothing that kernels are made of differs from HEAD")
            if not self.once and self._known != (now := self._watching()):
                self._known = now
                _say(now)
        return self.round is None

    def end(self) -> None:
        """End the round that runs."""
        if self.round:
            self.round.end()
            self.round = None
        if self._scratch:
            self._scratch.cleanup()

    def _learn(self, found: Look) -> None:
        """Take over which files kernels are made of. Where that cannot be said, what was known before still holds."""
        if found.files:
            self.files, self.folders = frozenset(map(Path, found.files)), tuple(map(Path, found.folders))
            self.families = found.families
            self.stamps = {path: _stamp(path) for path in self.files} | self.stamps
        if self._starting and (since := self.checked & self.files):
            _say(f"since HEAD  {self.watched.shown(sorted(since))}")

    def _folders(self) -> list[Path]:
        return list(self.folders) or list(folders_of((), self.watched.root, self.watched.module))

    def _watching(self) -> str:
        files = plural(len(self.files), "file") if self.files else f"the folders of {self.watched.module}"
        count = f" of {self.families} famil{'y' if self.families == 1 else 'ies'}" if self.files else ""
        return f"watching {files}{count}; Ctrl-C ends it"


def _say(line: str) -> None:
    print(line, flush=True)


def _stamp(path: Path) -> tuple[int, ...] | None:
    """Return what differs after a file was written or replaced; None where there is none."""
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_ino, about.st_mtime_ns, about.st_size


def _identities(folders: Iterable[Path]) -> list[tuple[int, int] | None]:
    """Return which folders these are: one that was removed and made again is watched no more."""
    found: list[tuple[int, int] | None] = []
    for folder in folders:
        try:
            about = folder.stat()
        except OSError:
            found.append(None)
        else:
            found.append((about.st_dev, about.st_ino))
    return found
