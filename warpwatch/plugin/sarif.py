"""Writes --warpwatch-sarif=FILE: the faults that this run's tests found, for code hosts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from warpwatch.catalogue.declaration import Family
from warpwatch.plugin.storage import Results
from warpwatch.plugin.xdist.several_gpus import parameter_in
from warpwatch.report.sarif import Found, Place, document, failure, found_in, merged, place_of
from warpwatch.runs.files import write_whole

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
