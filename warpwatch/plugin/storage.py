"""Storage of results: space for them before anything is measured, and a report at the end of what could not be saved.

Results are the saved run, the file of ``--benchmark-json``, the self-check and JUnit's file. If the disk becomes full
while kernels are timed, only that file is lost: the table, the verdict and the other files exist, and the run fails.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from warpwatch.devices.atomic_write import replaced
from warpwatch.plugin import pytest_benchmark_bridge as bridge
from warpwatch.runs.files import write_run, write_whole

CPU_INFO_SECONDS = 10.0  # that the description of the processor may take
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


class Storage:
    """The storage of pytest-benchmark, in <root>/<gpu>/ in place of <root>/<Python version>/, with whole files only."""

    def __init__(self, root: Path, slug: str, say: Callable[[str], None], results: Results) -> None:
        self.root, self.slug, self._say, self._results = root, slug, say, results

    def save(self, document: Mapping[str, Any], name: str) -> None:
        """Save a run; pytest-benchmark calls this when everything is measured."""
        folder = self.root / self.slug
        with self._results.saving(f"this run, in {folder},"):
            self._results.saved = str(write_run(folder, name, document))
            self._say(f"saved {self._results.saved}")


class Results:
    """A pytest plugin that reports result files which could not be written, and fails the run then."""

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

    def take_over(self, slug: str, cases: int, say: Callable[[str], None]) -> None:
        """Replace pytest-benchmark's storage by ``Storage``, once its folder and --benchmark-json can be written."""
        config, size = self._config, cases * BYTES_OF_A_CASE
        self.root = bridge.storage_folder(config)
        bridge.replace_storage(config, Storage(self.root, slug, say, self))
        saves, json_file = bridge.saves(config), bridge.json_file(config)
        if saves:
            run = self.root / slug / "run.json"
            self.require_space(run, size, "runs are saved there; free some space, or give --benchmark-storage=FOLDER")
        if saves or (json_file and bridge.is_enabled(config)):
            ask_early(config)
        if json_file:
            self.require_space(Path(json_file), size, "free some space, or give another --benchmark-json=FILE")
            bridge.write_json_by(config, write_whole, self.saving(f"--benchmark-json={json_file}"))

    def pytest_sessionstart(self) -> None:
        """Catch errors in writing JUnit's file, which pytest writes at the end, where they would hide the summary."""
        if path := bridge.junit_file(self._config):
            self.require_space(path, BYTES_OF_A_CASE, "free some space, or give another --junitxml=FILE")
            bridge.guard_junit(self._config, self.saving(f"--junitxml={path}"))

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


def ask_early(config: pytest.Config) -> None:
    """Start to describe the processor in a process of its own, and let pytest-benchmark wait for it only at the end.

    pytest-benchmark saves that description, and it can take over a second.
    """
    asking = subprocess.Popen(
        [sys.executable, "-m", "cpuinfo", "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )

    def answer(late: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the description, by ``late`` where the process did not give it."""
        try:
            output, _ = asking.communicate(timeout=CPU_INFO_SECONDS)
            description = json.loads(output)
        except (subprocess.TimeoutExpired, ValueError):
            return late()
        return description if isinstance(description, dict) else late()

    def end() -> None:
        asking.kill()
        asking.communicate()

    bridge.replace_cpu_info(config, answer)
    config.add_cleanup(end)
