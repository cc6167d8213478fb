"""Storage of results: space for them before anything is measured, and a report at the end of what could not be saved.

Results are the saved run, the file of ``--benchmark-json``, the self-check and JUnit's file. If the disk becomes full
while kernels are timed, only that file is lost: the table, the verdict and the other files exist, and the run fails.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from warpwatch.devices.atomic_write import replaced
from warpwatch.plugin import pytest_benchmark_bridge as bridge
from warpwatch.runs.files import write_run, write_whole

BYTES_OF_A_CASE = 4096  # in a saved run, with 100 samples: 2.6 kB on average


def require_space(path: Path, size: int) -> None:
    """Make sure that ``size`` bytes can be written at ``path``, by a file beside it that is removed again.

    The folder is made if it is missing. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    target = replaced(path)
    if target is None:
        return  # the space of a device or a pipe is unknown
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(f"{path} may not be written")
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".space-", suffix=".tmp") as file:
        file.write(bytes(size))
        file.flush()
        os.fsync(file.fileno())


class Results:
    """Files of a run: a pytest plugin that reports those which could not be written, and fails the run then.

    It takes the place of pytest-benchmark's storage, in <root>/<gpu>/ instead of <root>/<Python version>/, with whole
    files only.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.lost: list[str] = []
        self.saved = ""  # the file of this run
        self.root = Path()  # the folder of saved runs, once it is taken over
        storage: str = config.option.benchmark_storage  # FOLDER or file://FOLDER; pytest-benchmark has others
        if "://" in storage and not storage.startswith("file://"):
            raise pytest.UsageError(f"--benchmark-storage={storage}: give a folder, as FOLDER or file://FOLDER")

    @contextlib.contextmanager
    def saving(self, title: str) -> Generator[None]:
        """Turn an OSError into a line at the end of the run, which then fails."""
        try:
            yield
        except OSError as error:
            self.lost.append(f"{title} could not be saved: {error.strerror or error}")

    def require_space(self, path: Path, size: int, cure: str) -> None:
        """Make sure that ``size`` bytes can be written. Raises pytest.UsageError, whose message ends with ``cure``."""
        try:
            require_space(path, size)
        except OSError as error:
            raise pytest.UsageError(f"{path} cannot be written ({error.strerror or error}): {cure}") from None

    def take_over(self, slug: str, cases: int, notes: list[str]) -> None:
        """Replace pytest-benchmark's storage, once its folder and --benchmark-json can be written.

        ``notes``: lines to print, among them the file of the run once it is saved.
        """
        benchmarks, size = bridge.Benchmarks(self._config), cases * BYTES_OF_A_CASE
        self.root, self._slug, self._notes = benchmarks.folder, slug, notes
        if benchmarks.saves:
            run = self.root / slug / "run.json"
            self.require_space(run, size, "runs are saved there; free some space, or give --benchmark-storage=FOLDER")
        if benchmarks.writes:
            bridge.ask_early(self._config)
        if file := benchmarks.json_file:
            self.require_space(Path(file), size, "free some space, or give another --benchmark-json=FILE")
        benchmarks.save_by(self, write_whole, self.saving)

    def save(self, document: Mapping[str, Any], name: str) -> None:
        """Save a run; pytest-benchmark calls this when everything is measured."""
        folder = self.root / self._slug
        with self.saving(f"this run, in {folder},"):
            self.saved = str(write_run(folder, name, document))
            self._notes.append(f"saved {self.saved}")

    def pytest_sessionstart(self) -> None:
        """Catch errors in writing JUnit's file, which pytest writes at the end, where they would hide the summary."""

        def guarded(path: Path) -> AbstractContextManager[None]:
            self.require_space(path, BYTES_OF_A_CASE, "free some space, or give another --junitxml=FILE")
            return self.saving(f"--junitxml={path}")

        bridge.guard_junit(self._config, guarded)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if self.lost and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.lost:
            terminalreporter.section("not saved")
        for sentence in self.lost:
            terminalreporter.line(sentence)
