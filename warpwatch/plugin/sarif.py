"""Writes --warpwatch-sarif=FILE: the faults that this run's tests found, for code hosts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from warpwatch.plugin.storage import Results
from warpwatch.report.sarif import Found, document, found_in, merged
from warpwatch.runs.files import write_whole


class SarifPlugin:
    """Collects the faults that failed tests name, and writes the file when the run ends.

    A file without results says that nothing was found, and a code host takes old ones away. So no file is written where
    no test ran to its end, or where the run was cut short: the last line says so, and the run fails.
    """

    def __init__(self, path: Path, root: Path, results: Results) -> None:
        """``results``: turns an error of the file system into a line at the end of the run, which then fails."""
        self._path, self._root, self._results = path, root, results
        self._faults: list[Found] = []
        self._tested = False
        self._said = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._faults += found_in(report.longreprtext, report.nodeid)
        self._tested = self._tested or report.failed or (report.passed and report.when == "call")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        named = f"--warpwatch-sarif={self._path}"
        if not self._tested or exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
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
