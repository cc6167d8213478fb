"""Checks kernels whenever a file of theirs is saved: ``warpwatch watch``.

The kernels that a file belongs to are compiled, tested and timed against HEAD by child processes, so that each round
sees the files as they are then. A save while a round runs ends it, and the next one checks what both were to check.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import shlex
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn
from xml.etree import ElementTree

import msgspec

from warpwatch.catalogue.project import find_setting
from warpwatch.cli.options import add_device, add_keywords, selector
from warpwatch.cli.processes import INTERRUPTED, Child, ended_by_signals
from warpwatch.cli.watch_files import Look, LookRequest, folders_of
from warpwatch.report.sarif import found_in
from warpwatch.revision.commit import files_unlike_head
from warpwatch.revision.declared import BadRevision
from warpwatch.verdict.rule import Verdict

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


NAMED = 3  # files or kernels that a line names


@dataclass(frozen=True, kw_only=True)
class Watched:
    """Holds what is watched. ``head_problem``: why nothing can be compared with HEAD, or an empty text."""

    root: Path
    module: str
    keywords: str
    device: str
    head_problem: str = ""

    def shown(self, paths: Collection[Path]) -> str:
        """Name files in a line, relative to the root where they lie in it."""
        return named([str(path.relative_to(self.root) if path.is_relative_to(self.root) else path) for path in paths])


@dataclass(frozen=True, kw_only=True)
class Result:
    """Holds how a round ended. ``nothing``: no file that was changed belongs to a kernel."""

    good: bool
    nothing: bool = False


Say = Callable[[str], None]
Steps = Generator[Child, None, Result]


class Round:
    """One round of checks, whose children are waited for one after the other."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._child = next(steps)
        self.result: Result | None = None

    def advance(self, seconds: float) -> bool:
        """Wait for the step that runs, at most for a time, and begin the next one; tells whether all have ended."""
        if self.result is None and self._child.wait(seconds):
            try:
                self._child = next(self._steps)
            except StopIteration as done:
                self.result = done.value
        return self.result is not None

    def end(self) -> None:
        """End the step that runs."""
        self._steps.close()


def check(watched: Watched, changed: Collection[Path], scratch: Path, say: Say, learn: Callable[[Look], None]) -> Steps:
    """Check the kernels that changed files belong to, and say in at most four lines what is found.

    ``scratch``: an empty folder. ``learn``: is told what is known of the kernels, before they are tested.
    """
    begun = time.monotonic()
    with _looking(watched, changed, scratch) as child:
        yield child
        found = _answer(child, scratch)
    learn(found)
    for line in _first_lines(found):
        say(line)
    good = not (found.error or found.problems or found.broken)
    if not found.affected or found.error:
        return Result(good=good, nothing=good)
    if not found.broken:
        good &= yield from _run(watched, found, scratch, say)
    say(f"  {time.monotonic() - begun:.1f} s; in full: {' && '.join(_in_full(watched, found))}")
    return Result(good=good)


def _first_lines(found: Look) -> list[str]:
    """Say what is wrong before a kernel runs, or how much was compiled; nothing where no kernel is affected."""
    if found.error:
        return [f"  error     {found.error.splitlines()[0]}"]
    lines = []
    if found.problems:
        more = f" (and {len(found.problems) - 1} more)" if len(found.problems) > 1 else ""
        lines.append(f"  mistake   {found.problems[0]}{more}")
    if found.broken:
        fault, more = first_fault(next(iter(found.broken.values()))), plural(len(found.broken), "build")
        lines.append(f"  broken    {more} of {named(found.affected)}: {fault}")
    elif found.affected:
        lines.append(f"  compiled  {plural(found.compiled, 'build')} of {named(found.affected)} for {found.device}")
    return lines


def _run(watched: Watched, found: Look, scratch: Path, say: Say) -> Generator[Child, None, bool]:
    """Test the kernels and, where they are right, time them; returns whether they are right and not slower."""
    if not found.tests:
        say("  untested  no file of tests has pytest.mark.cases or pytest.mark.builds")
        return False
    report = scratch / "right.xml"
    with _pytest(watched, found, report, _tests(watched, found), *found.tests, "-m", "not compiles_for", "-x") as child:
        yield child
        right = correctness(read_report(report), child.lines())
    say(f"  {right.line}")
    if not right.good:
        return False
    if why := _untimed(watched, found):
        say(f"  times     {why}")
        return True
    report = scratch / "times.xml"
    with _pytest(watched, found, report, _chosen(watched, found), "bench", "--warpwatch-against=HEAD") as child:
        yield child
        timed = times(read_report(report), child.lines())
    say(f"  {timed.line}")
    return timed.good


def _untimed(watched: Watched, found: Look) -> str:
    """Say why nothing is timed; empty where it is."""
    if not found.judges_times:
        return f"not taken: those of {found.device} say nothing about a GPU"
    if watched.head_problem:
        return f"not taken: there is no HEAD to compare with ({watched.head_problem})"
    if not found.timed:
        return "not taken: none of these cases is one that the benchmark times"
    return "" if (watched.root / "bench").is_dir() else "not taken: there is no folder bench"


@contextlib.contextmanager
def _looking(watched: Watched, changed: Collection[Path], scratch: Path) -> Iterator[Child]:
    request, answer = scratch / "request.json", scratch / "answer.json"
    asked = LookRequest(keywords=watched.keywords, device=watched.device, changed=tuple(map(str, changed)))
    request.write_bytes(msgspec.json.encode(asked))
    command = (sys.executable, "-m", "warpwatch.cli.watch_files", str(request), str(answer))
    with _running(command, watched.root) as child:
        yield child


def _answer(child: Child, scratch: Path) -> Look:
    """Read what the first step found, or say how it ended."""
    try:
        return msgspec.json.decode((scratch / "answer.json").read_bytes(), type=Look)
    except (OSError, msgspec.DecodeError):
        last = (child.lines() or ["it said nothing"])[-1]
        return Look(error=f"the kernels cannot be looked at (exit status {child.status}): {last}")


def _pytest(
    watched: Watched, found: Look, report: Path, chosen: str, *arguments: str
) -> contextlib.AbstractContextManager[Child]:
    """Run pytest on the ``chosen`` cases. The plugin is named for engines that are found by PYTHONPATH alone."""
    command = [sys.executable, "-m", "pytest", "-p", "warpwatch.plugin", *arguments]
    command += ["-p", "no:cacheprovider", "-q", "-k", chosen]
    command += [f"--warpwatch-device={watched.device}", f"--junitxml={report}"]
    command.append(f"--benchmark-storage=file://{report.parent / 'runs'}")  # a save saves no run
    return _running(command, watched.root)


@contextlib.contextmanager
def _running(command: Sequence[str], folder: Path) -> Iterator[Child]:
    child = Child(command, folder)
    try:
        yield child
    finally:
        child.end()


def _chosen(watched: Watched, found: Look) -> str:
    """Return pytest's expression for the affected kernels, whose ids begin so."""
    kernels = " or ".join(found.words)
    if not watched.keywords.strip():
        return kernels
    return f"({watched.keywords}) and ({kernels})"


def _tests(watched: Watched, found: Look) -> str:
    """Return pytest's expression for the tests: without -k where that names what is timed alone, such as a shape."""
    return _chosen(watched, found) if found.tested else " or ".join(found.words)


def _in_full(watched: Watched, found: Look) -> list[str]:
    """Return the commands that test the affected kernels wholly, for every architecture too, and time them."""
    parents = (Path(test).parent for test in found.tests)
    folders = sorted({str(parent) for parent in parents if parent != Path()})
    files = [test for test in found.tests if Path(test).parent == Path()]
    device = [] if watched.device == "auto" else [f"--warpwatch-device={watched.device}"]
    commands = [["pytest", *folders, *files, "-k", _tests(watched, found), *device]]
    if not _untimed(watched, found):
        commands.append(["pytest", "bench", "--warpwatch-against=HEAD", "-k", _chosen(watched, found), *device])
    return [shlex.join(command) for command in commands]


def named(words: Sequence[str]) -> str:
    """Name some of several things, and how many more there are."""
    more = f" and {len(words) - NAMED} more" if len(words) > NAMED else ""
    return ", ".join(words[:NAMED]) + more


WORST_FIRST = (
    Verdict.SLOWER,
    Verdict.UNSURE,
    Verdict.INCOMPARABLE,
    Verdict.MISSING,
    Verdict.NEW,
    Verdict.FASTER,
    Verdict.SAME,
    Verdict.IDENTICAL,
)
FAILED = ("failure", "error")
LONGEST = 400  # characters of a line


@dataclass(frozen=True, kw_only=True)
class Report:
    """Holds what a run reports. ``failures``: messages. ``skips``: reasons. ``compared``: id, verdict and its line."""

    passed: int
    failures: tuple[str, ...]
    skips: tuple[str, ...]
    compared: tuple[tuple[str, Verdict, str], ...]


@dataclass(frozen=True, kw_only=True)
class Told:
    """Holds a line, and whether it is good news."""

    line: str
    good: bool


def read_report(path: Path) -> Report | None:
    """Read a report; None where the run wrote none that is whole."""
    try:
        cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return None
    failures = [entry.text or entry.get("message") or "" for case in cases for entry in case if entry.tag in FAILED]
    skips = [entry.get("message") or "" for case in cases for entry in case if entry.tag == "skipped"]
    passed = sum(not any(entry.tag in (*FAILED, "skipped") for entry in case) for case in cases)
    return Report(
        passed=passed,
        failures=tuple(text.strip() for text in failures),
        skips=tuple(skips),
        compared=tuple(filter(None, map(_compared, cases))),
    )


def _compared(case: ElementTree.Element) -> tuple[str, Verdict, str] | None:
    """Return the id, the verdict and the line of a case that was compared."""
    said = {each.get("name"): each.get("value", "") for each in case.iter("property")}
    if "verdict" not in said:
        return None
    name = str(case.get("name")).partition("[")[2].removesuffix("]")
    return name, Verdict(said["verdict"]), said.get("comparison", "")


def correctness(report: Report | None, printed: Sequence[str]) -> Told:
    """Say whether all tests found their kernels right. ``printed``: by the run, for where there is no report."""
    if report is None or not (report.passed or report.failures or report.skips):
        return Told(line=f"untested  {_last(printed)}", good=False)
    if report.failures:
        return Told(line=f"wrong     {first_fault(report.failures[0])}", good=False)
    reason, count = Counter(report.skips).most_common(1)[0] if report.skips else ("", 0)
    if not report.passed:
        return Told(line=f"untested  all {count} tests were skipped: {reason}", good=False)
    left = f", {len(report.skips)} skipped: {reason}" if report.skips else ""
    return Told(line=f"right     {plural(report.passed, 'test')}{left}", good=True)


def first_fault(message: str) -> str:
    """Return a failure's message in one line: place and fault where it names them, else how far a result is off."""
    if found := found_in(message, ""):
        fault, place = found[0], found[0].place
        kernel = f" in {fault.kernel}" if fault.kernel else ""
        others = (f"; {each.file}:{each.line}: {each.said}" for each in fault.others)
        return _short(f"{place.file}:{place.line}: {fault.rule}{kernel}: {place.said}{''.join(others)}")
    lines = [" ".join(line.split()) for line in message.splitlines() if line.strip()]
    raised = [line.removeprefix("E ") for line in lines if line.startswith("E ")]
    if raised:  # a traceback of pytest's
        return _short(raised[-1])
    worst = [line for line in lines[1:] if line.startswith("worst ")][:1]
    return _short("; ".join([*lines[:1], *worst]))


def times(report: Report | None, printed: Sequence[str]) -> Told:
    """Say how the times compare with HEAD: a count of each verdict, then the worst one's line."""
    compared = report.compared if report else ()
    known = {text for _, _, text in compared}
    broken = [text for text in (report.failures if report else ()) if text not in known]
    if broken:
        return Told(line=f"times     {first_fault(broken[0])}", good=False)
    if not compared:
        nothing = [line for line in printed if line.startswith("NOTHING")]
        return Told(line=f"times     {_last(nothing or printed)}", good=False)
    counts = Counter(verdict for _, verdict, _ in compared)
    name, worst, said = min(compared, key=lambda each: WORST_FIRST.index(each[1]))
    total = ", ".join(f"{counts[verdict]} {verdict}" for verdict in WORST_FIRST if counts[verdict])
    more = " (the same work)" if worst == Verdict.IDENTICAL else f"; {name}: {said}"
    return Told(line=_short(f"times     {total}{more}"), good=worst != Verdict.SLOWER)


def plural(count: int, word: str) -> str:
    """Return a count with its word: ``1 test``, ``2 tests``."""
    return f"{count:,} {word}{'s' * (count != 1)}"


def _last(printed: Sequence[str]) -> str:
    errors = [line.removeprefix("ERROR: ") for line in printed if line.startswith("ERROR: ")]
    return _short((errors or [*printed[-1:]] or ["pytest ended and said nothing"])[0])


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
