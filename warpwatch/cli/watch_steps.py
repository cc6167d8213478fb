"""Checks the kernels that changed files belong to, step by step: compile, test, time against HEAD, say what it took.

Each step is a child process, which the caller waits for and may end. The results are read from files.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
import time
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from warpwatch.cli.processes import Child
from warpwatch.cli.watch_look import Look, Request
from warpwatch.cli.watch_reports import correctness, first_fault, plural, read_report, times

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
    with _look(watched, changed, scratch) as child:
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
def _look(watched: Watched, changed: Collection[Path], scratch: Path) -> Iterator[Child]:
    request, answer = scratch / "request.json", scratch / "answer.json"
    asked = Request(keywords=watched.keywords, device=watched.device, changed=tuple(map(str, changed)))
    request.write_bytes(msgspec.json.encode(asked))
    command = (sys.executable, "-m", "warpwatch.cli.watch_look", str(request), str(answer))
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
