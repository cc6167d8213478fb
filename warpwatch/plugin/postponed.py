"""Postpones reports of tests until everything is measured, because only then is it known which of them fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import pytest
from _pytest.runner import runtestprotocol


class Postponed:
    """A test runner that holds back the reports of passed tests until ``release``.

    ``announce`` is called with each item before its reports are given.
    """

    def __init__(self, announce: Callable[[pytest.Item], None] = lambda item: None) -> None:
        self._announce = announce
        self._kept: list[tuple[pytest.Item, list[pytest.TestReport]]] = []

    def run(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Run one item. A failure or a skip is reported at once."""
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        if all(report.passed for report in reports):
            self._kept.append((item, reports))
        else:
            self._tell(item, reports)

    def release(self, failures: Mapping[str, str], properties: Mapping[str, Mapping[str, str]]) -> None:
        """Report the tests that were held back. ``failures``: messages of cases that fail after all, by id.

        ``properties``: what reports for machines, such as pytest's JUnit XML, hold of a case beside its outcome, by id.
        """
        for item, reports in self._kept:
            why = failures.get(item.callspec.id)  # type: ignore[attr-defined]
            for report in reports:
                report.user_properties += properties.get(item.callspec.id, {}).items()  # type: ignore[attr-defined]
                if why and report.when == "call":
                    report.outcome, report.longrepr = "failed", why
            self._tell(item, reports)
        self._kept.clear()

    def _tell(self, item: pytest.Item, reports: list[pytest.TestReport]) -> None:
        self._announce(item)
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


SECONDS = 10  # between two lines of progress


class Progress:
    """A line of progress, which is overwritten on a terminal and repeated every ten seconds elsewhere."""

    def __init__(self, reporter: pytest.TerminalReporter | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._reporter, self._clock = reporter, clock
        self._begin, self._what, self._told = clock(), "", clock()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Report progress. ``what``, such as 'timing', starts a new estimate of the time left where it changes."""
        if what != self._what:
            self._begin, self._what, self._told = self._clock(), what, self._clock()
        if self._reporter is None or self._reporter.verbosity < 0:
            return
        text = self._text(done, total)
        if self._reporter.isatty:
            self._reporter.rewrite(text + " ", erase=True)
            if done == total:
                self._reporter.line("")
        elif self._clock() - self._told > SECONDS:
            self._told = self._clock()
            self._reporter.write_line(text)

    def between_dots(self, what: str, done: int, total: int) -> None:
        """Report progress on a line of its own every ten seconds, where pytest prints a dot for each test."""
        if what != self._what:
            self._begin, self._what, self._told = self._clock(), what, self._clock()
        elif self._reporter and self._reporter.verbosity >= 0 and self._clock() - self._told > SECONDS:
            self._told = self._clock()
            self._reporter.ensure_newline()
            self._reporter.write_line(self._text(done, total))

    def _text(self, done: int, total: int) -> str:
        left = (self._clock() - self._begin) / max(done, 1) * (total - done)
        return f"{self._what}: {done} of {total}, {int(left) // 60}:{int(left) % 60:02} left"
