"""Messages of a run on its tests: failures without tracebacks, skips by their reason, mistakes in declarations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator

import pytest

from warpwatch.catalogue.names import BadCase
from warpwatch.catalogue.validation import problems
from warpwatch.devices.compile.compiler import CompileError, cache_notes
from warpwatch.devices.foreign_text import limited, plain_lines
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.mismatch import WrongResult
from warpwatch.plugin import pytest_benchmark_bridge as bridge
from warpwatch.plugin.cases import LAUNCHED, parameter_of
from warpwatch.plugin.device import CACHE_NOTES, PROJECT, WORKER
from warpwatch.plugin.fixtures import FAILURES, LEFT_OUT, command_of, with_command
from warpwatch.runs.faults import compile_errors

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
    left_out = Counter(named[LEFT_OUT] for named in properties if LEFT_OUT in named)
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
