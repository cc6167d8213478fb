"""Prints failures without tracebacks, skips by their reason, and mistakes in declarations."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.names import BadCase
from warpwatch.catalogue.validation import problems
from warpwatch.devices.check import WrongResult
from warpwatch.devices.compile.compiler import CompileError, cache_notes
from warpwatch.devices.foreign_text import limited, plain_lines
from warpwatch.devices.machine import DeviceError
from warpwatch.plugin import pytest_benchmark_bridge as bridge
from warpwatch.plugin.cases import parameter_in, parameter_of
from warpwatch.plugin.device import CACHE_NOTES, PROJECT, WORKER
from warpwatch.plugin.fixtures import FAILURES, LEFT_OUT, command_of, with_command
from warpwatch.plugin.storage import Results
from warpwatch.report.sarif import Found, Place, compile_errors, document, failure, found_in, merged, place_of
from warpwatch.runs.files import write_whole

LAUNCHED = "launched"  # the property of JUnit's file of a test that ran a kernel
OF_KERNEL = "of_kernel"  # attribute of a test's report, which xdist hands on
WITH_WHOLE_MESSAGES = 2  # the verbosity, as of -vv, with which pytest's short summary is not short
MOST_SHOWN = 2**15  # characters that a test's kernel printed


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a line for each reason of skips; pytest's own -rs has a line for every test function.

    It also prints the declarations that have no cases because of a mistake, which a selection would hide.
    """
    stash = terminalreporter.config.stash
    if PROJECT not in stash:
        return
    reports = terminalreporter.stats.get("skipped", ())
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports)
    for reason, count in reasons.most_common():
        terminalreporter.line(f"{count} skipped: {reason}")
    tested = (*terminalreporter.stats.get("passed", ()), *terminalreporter.stats.get("failed", ()))
    properties = (dict(report.user_properties) for report in tested if report.when == "call")
    left_out = Counter(found[LEFT_OUT] for found in properties if LEFT_OUT in found)
    for reason, count in left_out.most_common():
        terminalreporter.line(f"{count} tested on the usual inputs alone: {reason}")
    for problem in problems(stash[PROJECT].families):
        terminalreporter.line(f"left out because of a mistake in the declaration: {problem}")
    for sentence in dict.fromkeys((*stash[CACHE_NOTES], *cache_notes())):
        terminalreporter.line(f"cache: {sentence}")


@pytest.hookimpl(specname="pytest_terminal_summary", wrapper=True, tryfirst=True)
def pytest_print_failures_once(terminalreporter: pytest.TerminalReporter) -> Generator[None, object, object]:
    """Print the failure of a kernel in full once; JUnit's file has every failure by now.

    The first test that an error of the compiler fails shows it, and the others name that test. The short summary, in
    which pytest prints whole messages where the environment has CI, shows a line of each.
    """
    first: dict[object, str] = {}
    for report in (*terminalreporter.stats.get("error", ()), *terminalreporter.stats.get("failed", ())):
        text = report.longreprtext if isinstance(report, pytest.TestReport) else ""
        first_line = text.partition("\n")[0]
        if getattr(report, OF_KERNEL, False) and terminalreporter.verbosity < WITH_WHOLE_MESSAGES:
            bridge.shorten_in_summary(report)
        if errors := compile_errors(text):
            before = first.setdefault(errors, report.nodeid)
            if before != report.nodeid:
                bridge.replace_failure(report, f"{first_line}: see {before} above", in_summary=first_line)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make what a kernel and its compiler printed plain, and show the begin and the end of it."""
    report = yield
    if parameter_of(item) is None:
        return report
    setattr(report, OF_KERNEL, True)
    rest = f"`pytest -s '{item.nodeid}'` prints all of them"
    report.sections = [(name, limited(text, MOST_SHOWN, rest)) for name, text in report.sections]
    bridge.change_lines(report, plain_lines)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail with the message of an error alone, because this plugin's traceback does not help a kernel's developer.

    A test that had something run by the worker process, or launched kernels itself, is recorded as one that did. One
    that passes although a check of it failed fails all the same.
    """
    worker = item.config.stash.get(WORKER, None)
    before = worker.calls if worker else 0
    failures = item.stash.get(FAILURES, [])
    failures.clear()  # of an earlier run of this test
    try:
        result = yield
        if failures:
            hidden = "the test passes although check() failed; mark it xfail if that is meant:"
            pytest.fail(f"{hidden}\n{failures[0]}", pytrace=False)
        return result
    except DeviceError as error:
        raise pytest.fail.Exception(with_command(str(error), command_of(item)), pytrace=False) from None
    except (BadCase, CompileError, WrongResult) as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    finally:
        if (worker and worker.calls > before) or "warpwatch_source_module" in getattr(item, "fixturenames", ()):
            item.user_properties.append((LAUNCHED, "yes"))


ENDED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


class SarifPlugin:
    """Collects the faults of failed tests, each of which has one at least, and writes the file when the run ends.

    A file without results says that nothing was found, and a code host takes old ones away. So no file without results
    is written where no test ran to its end, or where the run was cut short: the last line says so, and the run fails.
    """

    def __init__(self, path: Path, root: Path, families: Sequence[Family], results: Results) -> None:
        """``results``: turns an error of the file system into a line at the end of the run, which then fails."""
        self._path, self._root, self._families, self._results = path, root, families, results
        self._faults: list[Found] = []
        self._tested = False
        self._said = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._add(report)
        self._tested = self._tested or report.failed or (report.passed and report.when == "call")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Take note of a file that could not be collected."""
        if report.failed:
            self._add(report)

    def _add(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        """Add the faults that a failure names with a line, or the failure itself, at the kernel or else at the test."""
        text, name = report.longreprtext, report.nodeid
        file, line = place_of(parameter_in(name), self._families)
        if not file:
            where = report.location if isinstance(report, pytest.TestReport) else None
            file, line = (where[0], (where[1] or 0) + 1) if where else (name.partition("::")[0] or "conftest.py", 1)
        self._faults += found_in(text, name) or [failure(text, name, Place(file=file, line=line, said=""))]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        named = f"--warpwatch-sarif={self._path}"
        if not self._faults and (not self._tested or exitstatus not in ENDED):
            why = "the run was cut short" if self._tested else "no test ran"
            self._said = f"{named} is not written, because {why}: a file without faults would say that there are none"
            session.exitstatus = exitstatus or pytest.ExitCode.TESTS_FAILED
            return
        faults = merged(self._faults)
        self._said = f"{len(faults)} fault{'' if len(faults) == 1 else 's'} in {self._path}"
        with self._results.saving(named):
            write_whole(self._path, json.dumps(document(faults, self._root), indent=1) + "\n")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.line(self._said)
