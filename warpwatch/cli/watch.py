"""Checks kernels whenever a file of theirs is saved: ``warpwatch watch``.

The kernels that a file belongs to are compiled, tested and timed against HEAD, step by step. Each step is a child
process, so that it sees the files as they are then, and it can be ended: a save while a round of steps runs ends it,
and the next one checks what both were to check.
"""

from __future__ import annotations

import argparse
import importlib
import shlex
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from warpwatch.catalogue.project import find_setting
from warpwatch.cli.json_file import JsonFile, add_json
from warpwatch.cli.options import INTERRUPTED, add_device, add_keywords, few, selector
from warpwatch.cli.programs import Program, ended_by_signals, pytest_words, record_of
from warpwatch.cli.watch_files import Answer, folders_of
from warpwatch.report import tables
from warpwatch.revision.commit import files_unlike_head
from warpwatch.revision.declared import BadRevision
from warpwatch.runs.faults import MISTAKE, Fault, Place, sentence
from warpwatch.runs.record import Outcome, RunRecord, TestRecord
from warpwatch.verdict.rule import Verdict

Notices = Callable[..., Iterable[set[tuple[Any, str]]]]  # yields what was saved, and nothing at each tick
TICK = 100  # milliseconds between two looks at the step that runs
SUFFIXES = (".py", ".cu", ".cuh", ".h", ".hpp", ".hxx", ".inc", ".cpp", ".cc", ".c", ".cubin", ".ptx", ".fatbin")
FILE, FOLDER = ("st_ino", "st_mtime_ns", "st_size"), ("st_dev", "st_ino")  # what differs where another one is there
LONGEST = 400  # characters of a line
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_keywords(parser, "only kernels with a case that matches, as pytest -k")
    add_device(parser)
    parser.add_argument("--once", action="store_true", help="check what differs from HEAD, and end with 0 or 1")
    add_json(parser)


def run(*, keywords: str, device: str, once: bool, json: JsonFile | None = None) -> int:
    """Check what differs from HEAD and then, without ``once``, each file that is saved; returns the exit status.

    Raises BadProject, BadCase for a malformed -k, and ImportError where the library that watches files is missing.
    """
    setting = find_setting(Path.cwd())
    selector(keywords)
    json = json or JsonFile()
    json.root, json.checks = setting.root, True
    notices: Notices | None = None
    if not once:  # missing, it is said before anything is checked
        notices = importlib.import_module("watchfiles").watch  # of an extra, which other commands do without
    try:
        changed, problem = files_unlike_head(setting.root), ""
    except BadRevision as error:
        changed, problem = [], str(error).removeprefix("HEAD: ")
        _say(f"no HEAD to compare with: {problem}; {'nothing' if once else 'only what is saved'} is checked")
    watch = Watch(
        root=setting.root, module=setting.module, keywords=keywords, device=device, head_problem=problem, json=json
    )
    try:
        with ended_by_signals():
            return watch.go_on(changed, notices) if notices else watch.check_once(changed)
    except KeyboardInterrupt:
        print()
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is ending, which a second Ctrl-C would leave half done
        watch.end()


@dataclass(kw_only=True)
class Watch:
    """The kernels that are watched, and the round of checks that runs, whose steps follow one another.

    ``head_problem``: why nothing can be compared with HEAD, or an empty text. ``files``, ``folders``: what the kernels
    are made of. ``checked``: the files whose kernels the last round checked, or was to check. ``good``: how it ended.
    ``states``: of the files when it began. ``json``: takes the result of each round.
    """

    root: Path
    module: str
    keywords: str
    device: str
    head_problem: str = ""
    files: frozenset[Path] = frozenset()
    folders: Sequence[Path] = ()
    families: int = 0
    checked: frozenset[Path] = frozenset()
    good: bool = True
    states: dict[Path, tuple[int, ...] | None] = field(default_factory=dict)
    json: JsonFile = field(default_factory=JsonFile)
    _round: Generator[Program, None, bool | None] | None = None
    _child: Program | None = None  # of the step that runs
    _starting: bool = True
    _goes_on: bool = False  # after a round
    _shown: str = ""  # what was last said to be watched

    def check_once(self, changed: Iterable[Path]) -> int:
        """Check what differs from HEAD; returns 1 where it is not right, or could not be checked."""
        self.begin(changed)
        while not self.step(10.0):
            pass
        return int(not self.good or bool(self.head_problem))

    def go_on(self, changed: Iterable[Path], notices: Notices) -> NoReturn:
        """Check what differs from HEAD, then whatever is saved, until an interruption."""
        self._goes_on = True
        self.begin(changed)
        while True:
            folders = self._folders() or [self.root]
            places, first = [_state(folder, FOLDER) for folder in folders], True
            for events in notices(
                *folders, recursive=False, yield_on_timeout=True, rust_timeout=TICK, step=50, debounce=400
            ):
                saved = {Path(path).resolve() for _, path in events}
                if first:  # what was saved before the library began to watch
                    saved |= {path for path, state in self.states.items() if _state(path, FILE) != state}
                    first = False
                self.take(saved)
                if self.step(0) and self._shown != (now := self._watching()):
                    self._shown = now
                    _say(now)
                # One that was removed and made again is watched no more.
                if folders != self._folders() or places != [_state(folder, FOLDER) for folder in folders]:
                    break

    def take(self, saved: Iterable[Path]) -> None:
        """Begin a round for files that were saved, if kernels may be made of them; a round that runs is ended."""
        saved = frozenset(saved)
        known = saved & self.files
        # A file that was missing may have come; where nothing was wrong, a new one belongs to nothing yet.
        if not known and (self.good or not any(path.suffix in SUFFIXES for path in saved)):
            return
        running, self._starting = self._round is not None, False
        self.end()
        _say(f"{datetime.now():%H:%M:%S}  {self._names(known or saved)}")
        self.begin(saved | self.checked if running or not known else saved)

    def begin(self, changed: Iterable[Path]) -> None:
        self.checked = frozenset(path.resolve() for path in changed)
        self.json.restart({"device": self.device, "-k": self.keywords})
        self.states = {path: _state(path, FILE) for path in self.files}
        self._round = self._check()
        self._child = next(self._round)

    def step(self, seconds: float) -> bool:
        """Wait for the step that runs, if there is one, and begin the next; tells whether none runs any more."""
        if self._round and self._child and self._child.wait(seconds):
            try:
                self._child = next(self._round)
            except StopIteration as done:
                self._round = None
                self._conclude(done.value)
        return self._round is None

    def _conclude(self, good: bool | None) -> None:
        """Say how a round ended. ``good``: as ``_check`` returns it."""
        if good is None and not self._starting:
            self._say_of_nothing("  no kernel is made of it")
        elif good is None and not self.head_problem:
            self._say_of_nothing("nothing that kernels are made of differs from HEAD")
        elif good is None:
            self.json.nothing(f"there is no HEAD to compare with: {self.head_problem}")
        self.good, self._starting = good is not False, False
        if self._goes_on:
            self.json.end(int(not self.good))

    def _say_of_nothing(self, line: str) -> None:
        _say(line)
        self.json.nothing(line)

    def end(self) -> None:
        if self._round:
            self._round.close()
            self._round = None

    def _names(self, paths: Iterable[Path]) -> str:
        """Name files in a line, relative to the root where they lie in it."""
        root = self.root
        return few([str(path.relative_to(root) if path.is_relative_to(root) else path) for path in sorted(paths)])

    def _folders(self) -> list[Path]:
        """Return the folders that are watched, as far as they exist."""
        folders = self.folders or folders_of((), self.root, self.module)
        return [folder for folder in folders if folder.is_dir()]

    def _watching(self) -> str:
        files = _plural(len(self.files), "file") if self.files else f"the folders of {self.module}"
        count = f" of {self.families} famil{'y' if self.families == 1 else 'ies'}" if self.files else ""
        return f"watching {files}{count}; Ctrl-C ends it"

    def _check(self) -> Generator[Program, None, bool | None]:
        """Check the kernels that changed files belong to, and say in at most four lines what is wrong or right.

        Yields the program of each step. Returns whether all is right and not slower; None where no kernel is made of
        the files.
        """
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="warpwatch-watch-", ignore_cleanup_errors=True) as name:
            path = Path(name) / "answer.json"
            words = ["warpwatch.cli.watch_files", str(path), self.device, self.keywords, *map(str, self.checked)]
            with Program(words, self.root) as child:
                yield child
                answer = _answer(path, child)
            self._learn(answer)
            for line in _first_lines(answer):
                _say(line)
            self._take_answer(answer)
            good = not (answer.error or answer.problems or answer.broken)
            if not answer.affected or answer.error:
                return None if good else False
            if not answer.broken:
                good &= yield from self._test_and_time(answer, Path(name))
        _say(f"  {time.monotonic() - begun:.1f} s; in full: {' && '.join(self._in_full(answer))}")
        return good

    def _learn(self, answer: Answer) -> None:
        """Take over which files kernels are made of. Where that is unknown, what was known before still holds."""
        if answer.files:
            self.files, self.folders = frozenset(map(Path, answer.files)), tuple(map(Path, answer.folders))
            self.families = answer.families
            self.states = {path: _state(path, FILE) for path in self.files} | self.states
        if self._starting and (since := self.checked & self.files):
            _say(f"since HEAD  {self._names(since)}")

    def _take_answer(self, answer: Answer) -> None:
        """Hand what was found before a kernel runs to programs."""
        if answer.error:
            self.json.nothing(answer.error)
        mistakes = (Fault(kind=MISTAKE, place=Place(message=problem)) for problem in answer.problems)
        self.json.add(
            *(
                TestRecord(id="declarations", outcome=Outcome.FAILED, reason=each.place.message, faults=(each,))
                for each in mistakes
            ),
            *answer.refused,
        )
        commands = list(self._in_full(answer)) if answer.affected else []
        self.json.record = replace(self.json.record, next=commands)

    def _take(self, record: RunRecord | None, line: str, good: bool) -> None:
        """Print the line on a step, and hand its record to programs."""
        _say(f"  {line}")
        before = self.json.record
        if record:
            self.json.record = replace(
                record,
                tests=(*before.tests, *record.tests),
                nothing=(*before.nothing, *record.nothing),
                left_out={**before.left_out, **record.left_out},
                settings=before.settings,
                next=before.next,
            )
        if not good and not _failed(self.json.record.tests):
            self.json.nothing(line)

    def _test_and_time(self, answer: Answer, scratch: Path) -> Generator[Program, None, bool]:
        """Test the kernels and, where they are right, time them; returns whether they are right and not slower."""
        if not answer.tests:
            self._take(None, "untested  no file of tests has pytest.mark.cases or pytest.mark.builds", False)
            return False
        path = scratch / "right.json"
        with self._pytest([*answer.tests, "-m", "not compiles_for", "-x", "-k", answer.tested], path) as child:
            yield child
            record = record_of(path)
            line, good = _correctness(record, child.lines())
        self._take(record, line, good)
        if not good:
            return False
        if why := self._untimed(answer):
            _say(f"  times     {why}")
            left_out = {**self.json.record.left_out, f"times {why}": answer.affected}
            self.json.record = replace(self.json.record, left_out=left_out)
            return True
        path = scratch / "times.json"
        with self._pytest(["bench", "--warpwatch-against=HEAD", "-k", answer.timed], path) as child:
            yield child
            record = record_of(path)
            line, good = times(record, child.lines())
        self._take(record, line, good)
        return good

    def _pytest(self, words: Sequence[str], record: Path) -> Program:
        """Start pytest. A save saves no run of its own accord."""
        storage = f"--benchmark-storage=file://{record.parent / 'runs'}"
        options = ["-p", "no:cacheprovider", "-q", f"--warpwatch-device={self.device}", storage]
        return Program(pytest_words([*words, *options], record), self.root)

    def _untimed(self, answer: Answer) -> str:
        """Say why nothing is timed; empty where it is."""
        if not answer.judges_times:
            return f"not taken: those of {answer.device} say nothing about a GPU"
        if self.head_problem:
            return f"not taken: there is no HEAD to compare with ({self.head_problem})"
        if not answer.timed:
            return "not taken: none of these cases is one that the benchmark times"
        return "" if (self.root / "bench").is_dir() else "not taken: there is no folder bench"

    def _in_full(self, answer: Answer) -> Iterator[str]:
        """Yield the commands that test the affected kernels wholly, for every architecture too, and time them."""
        parents = {test: Path(test).parent for test in answer.tests}
        folders = sorted({str(parent) for parent in parents.values() if parent != Path()})
        files = [test for test, parent in parents.items() if parent == Path()]
        device = [] if self.device == "auto" else [f"--warpwatch-device={self.device}"]
        yield shlex.join(["pytest", *folders, *files, "-k", answer.tested, *device])
        if not self._untimed(answer):
            yield shlex.join(["pytest", "bench", "--warpwatch-against=HEAD", "-k", answer.timed, *device])


def _answer(path: Path, child: Program) -> Answer:
    """Read what the first step found out, or say how it ended."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Answer)
    except (OSError, msgspec.DecodeError):
        last = (child.lines() or ["it said nothing"])[-1]
        return Answer(error=f"the kernels cannot be looked at (exit status {child.status}): {last}")


def _first_lines(answer: Answer) -> list[str]:
    """Say what is wrong before a kernel runs, or how much was compiled; nothing where no kernel is affected."""
    if answer.error:
        return [f"  error     {answer.error.splitlines()[0]}"]
    lines = []
    if answer.problems:
        more = f" (and {len(answer.problems) - 1} more)" if len(answer.problems) > 1 else ""
        lines.append(f"  mistake   {answer.problems[0]}{more}")
    kernels = few(answer.affected)
    if answer.broken:
        lines.append(f"  broken    {_plural(len(answer.broken), 'build')} of {kernels}: {_short(answer.broken[0])}")
    elif answer.affected:
        lines.append(f"  compiled  {_plural(answer.compiled, 'build')} of {kernels} for {answer.device}")
    return lines


def _correctness(record: RunRecord | None, printed: Sequence[str]) -> tuple[str, bool]:
    """Say in a line whether all tests found their kernels right. ``printed``: what the run printed."""
    tests = record.tests if record else ()
    if not tests:
        return f"untested  {_last(printed)}", False
    if failed := _failed(tests):
        return f"wrong     {_fault(failed[0].faults[0])}", False
    skips = [test.reason for test in tests if test.outcome != Outcome.PASSED]
    reason, count = Counter(skips).most_common(1)[0] if skips else ("", 0)
    if len(skips) == len(tests):
        return f"untested  all {count} tests were skipped: {reason}", False
    left = f", {len(skips)} skipped: {reason}" if skips else ""
    return f"right     {_plural(len(tests) - len(skips), 'test')}{left}", True


def times(record: RunRecord | None, printed: Sequence[str]) -> tuple[str, bool]:
    """Say in a line how the times compare with HEAD: a count of each verdict, then the worst one."""
    if not record:
        return f"times     {_last(printed)}", False
    if broken := [test for test in _failed(record.tests) if not record.is_slower(test)]:
        return f"times     {_fault(broken[0].faults[0])}", False
    if not record.decisions:
        return f"times     {_last(record.nothing or printed)}", False
    counts = Counter(decision.verdict for decision in record.decisions.values())
    name, worst = min(record.decisions.items(), key=lambda item: WORST_FIRST.index(item[1].verdict))
    total = ", ".join(f"{counts[verdict]} {verdict}" for verdict in WORST_FIRST if counts[verdict])
    more = " (the same work)" if worst.verdict == Verdict.IDENTICAL else f"; {name}: {tables.sentence(worst)}"
    return _short(f"times     {total}{more}"), worst.verdict != Verdict.SLOWER


def _failed(tests: Iterable[TestRecord]) -> list[TestRecord]:
    return [test for test in tests if test.outcome == Outcome.FAILED]


def _fault(fault: Fault) -> str:
    """Return a fault in a line, with its place where that is the fault's own."""
    place = f"{fault.place.file}:{fault.place.line}: {sentence(fault)}"
    return _short(place if fault.in_source else fault.place.message)


def _plural(count: int, word: str) -> str:
    """Return a count with its word: ``1 test``, ``2 tests``."""
    return f"{count:,} {word}{'s' * (count != 1)}"


def _last(printed: Sequence[str]) -> str:
    """Return the last line that a run printed, for where it ended early."""
    return _short((printed or ["pytest ended and said nothing"])[-1].removeprefix("ERROR: "))


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def _say(line: str) -> None:
    print(line, flush=True)


def _state(path: Path, names: Sequence[str]) -> tuple[int, ...] | None:
    """Return parts of the status of a file or folder; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return tuple(getattr(status, name) for name in names)
