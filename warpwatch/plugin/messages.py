"""Prints failures without tracebacks, skips by their reason, and mistakes in declarations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator

import pytest

from warpwatch.catalogue.names import BadCase
from warpwatch.catalogue.validation import problems
from warpwatch.devices.check import WrongResult
from warpwatch.devices.compiler import CompileError, cache_notes
from warpwatch.devices.machine import DeviceError
from warpwatch.plugin.device import CACHE_NOTES, PROJECT
from warpwatch.plugin.verify import command_of, with_command


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
    for problem in problems(stash[PROJECT].families):
        terminalreporter.line(f"left out because of a mistake in the declaration: {problem}")
    for sentence in dict.fromkeys((*stash[CACHE_NOTES], *cache_notes())):
        terminalreporter.line(f"cache: {sentence}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail with the message of an error alone, because this plugin's traceback does not help a kernel's developer."""
    try:
        return (yield)
    except DeviceError as error:
        raise pytest.fail.Exception(with_command(str(error), command_of(item)), pytrace=False) from None
    except (BadCase, CompileError, WrongResult) as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
