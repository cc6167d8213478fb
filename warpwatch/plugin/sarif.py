"""Writes --warpwatch-sarif=FILE: the faults that this run's tests found, for code hosts."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from warpwatch.report.sarif import Found, document, found_in, merged


class SarifPlugin:
    """Collects the faults that failed tests name, and writes the file when the run ends.

    A run that finds nothing writes a file without results, so that a code host takes old ones away.
    """

    def __init__(self, path: Path, root: Path, saving: Callable[[str], AbstractContextManager[None]]) -> None:
        """``saving``: turns an error of the file system into a line at the end of the run, which then fails."""
        self._path, self._root, self._saving = path, root, saving
        self._faults: list[Found] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._faults += found_in(report.longreprtext, report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        with self._saving(f"--warpwatch-sarif={self._path}"):
            write_whole(self._path, json.dumps(document(merged(self._faults), self._root), indent=1) + "\n")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        count = len(merged(self._faults))
        terminalreporter.line(f"{count} fault{'' if count == 1 else 's'} in {self._path}")


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all. Raises OSError."""
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, prefix=f".{path.name}-", suffix=".tmp", delete=False
    ) as file:
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).chmod(0o644)
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
