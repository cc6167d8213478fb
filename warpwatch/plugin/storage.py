"""Makes sure, before anything is measured, that results can be written, and reports at the end which could not be.

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
from _pytest.junitxml import xml_key
from pytest_benchmark.utils import safe_dumps

from warpwatch.devices.outputs import replaced
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
        storage: str = config.option.benchmark_storage  # FOLDER or file://FOLDER; pytest-benchmark has others
        if "://" in storage and not storage.startswith("file://"):
            raise pytest.UsageError(f"--benchmark-storage={storage}: give a folder, as FOLDER or file://FOLDER")

    @contextlib.contextmanager
    def saving(self, what: str) -> Generator[None]:
        """Turn an OSError into a line at the end of the run, which then fails."""
        try:
            yield
        except OSError as error:
            self.lost.append(f"{what} could not be saved: {error.strerror or error}")

    def require_space(self, path: Path, size: int, cure: str) -> None:
        """Make sure that ``size`` bytes can be written. Raises pytest.UsageError, whose message ends with ``cure``."""
        try:
            require_space(path, size)
        except OSError as error:
            raise pytest.UsageError(f"{path} cannot be written ({error.strerror or error}): {cure}") from None

    def take_over(self, slug: str, cases: int, say: Callable[[str], None]) -> None:
        """Replace pytest-benchmark's storage by ``Storage``, once its folder and --benchmark-json can be written."""
        benchmark = self._config._benchmarksession  # type: ignore[attr-defined]
        benchmark.storage = Storage(Path(benchmark.storage.path), slug, say, self)
        size = cases * BYTES_OF_A_CASE
        if (benchmark.save or benchmark.autosave) and not benchmark.disabled:
            run = benchmark.storage.root / slug / "run.json"
            self.require_space(run, size, "runs are saved there; free some space, or give --benchmark-storage=FOLDER")
        if (benchmark.save or benchmark.autosave or benchmark.json) and not benchmark.disabled:
            ask_early(self._config)
        if benchmark.json:
            self.require_space(Path(benchmark.json), size, "free some space, or give another --benchmark-json=FILE")

            def save_json(document: Mapping[str, Any]) -> None:
                with self.saving(f"--benchmark-json={benchmark.json}"):
                    write_whole(benchmark.json, safe_dumps(document, ensure_ascii=True, indent=4))
                    benchmark.logger.info(f"Wrote benchmark data in: {benchmark.json}", purple=True)

            benchmark.save_json = save_json

    def pytest_sessionstart(self) -> None:
        """Catch errors in writing JUnit's file, which pytest writes at the end, where they would hide the summary."""
        xml = self._config.stash.get(xml_key, None)
        if xml is None:
            return
        self.require_space(Path(xml.logfile), BYTES_OF_A_CASE, "free some space, or give another --junitxml=FILE")
        write, tell, written = xml.pytest_sessionfinish, xml.pytest_terminal_summary, [False]

        def write_or_tell() -> None:
            with self.saving(f"--junitxml={xml.logfile}"):
                write()
                written[0] = True

        def tell_if_written(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
            if written[0]:
                tell(terminalreporter, config)

        hook = self._config.hook
        for implementation in (
            *hook.pytest_sessionfinish.get_hookimpls(),
            *hook.pytest_terminal_summary.get_hookimpls(),
        ):
            if implementation.plugin is xml:
                own = write_or_tell if implementation.function == write else tell_if_written
                implementation.function = own  # type: ignore[misc]  # pytest offers no hook around the writing

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


SECONDS = 10.0  # that the answer may take


def ask_early(config: pytest.Config) -> None:
    """Start to describe the processor in a process of its own, and let pytest-benchmark wait for it only at the end."""
    from pytest_benchmark import plugin  # noqa: PLC0415  # only where something is timed

    asking = subprocess.Popen(
        [sys.executable, "-m", "cpuinfo", "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    before = plugin.get_cpu_info
    vars(plugin)["get_cpu_info"] = lambda: _answer(asking, before)
    config.add_cleanup(lambda: _end(asking, before))


def _answer(asking: subprocess.Popen[bytes], before: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the description, by ``before`` where the process did not give it."""
    try:
        output, _ = asking.communicate(timeout=SECONDS)
        found = json.loads(output)
    except (subprocess.TimeoutExpired, ValueError):
        return before()
    return found if isinstance(found, dict) else before()


def _end(asking: subprocess.Popen[bytes], before: Callable[[], dict[str, Any]]) -> None:
    from pytest_benchmark import plugin  # noqa: PLC0415

    vars(plugin)["get_cpu_info"] = before
    asking.kill()
    asking.communicate()
