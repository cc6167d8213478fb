"""Every private name of pytest and pytest-benchmark that the plugin needs, behind plain functions.

Any release may change them: tests/plugin/test_private_names.py fails with a version outside of ``TRIED``. Those of
pytest-xdist stand in warpwatch/plugin/xdist/, and no other module names one.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol
from xml.etree import ElementTree

import pytest
import pytest_benchmark.plugin
from _pytest._code.code import ExceptionChainRepr
from _pytest.junitxml import xml_key
from _pytest.runner import runtestprotocol
from pytest_benchmark.fixture import BenchmarkFixture
from pytest_benchmark.stats import Stats
from pytest_benchmark.utils import get_tag, safe_dumps

__all__ = ["BenchmarkFixture"]

# The oldest and the newest version with which tests/plugin were run; the oldest is what pyproject.toml asks for.
TRIED = {
    "pytest": ("8.4.0", "9.2.0"),
    "pytest-benchmark": ("5.3.0", "5.3.1"),
    "pytest-xdist": ("3.6.1", "3.8.0"),
}
CPU_INFO_SECONDS = 10.0  # that the description of the processor may take
_Guard = Callable[[str], AbstractContextManager[object]]


# pytest


class Postponed:
    """Runner of tests that holds back the reports of passed ones until ``release``."""

    def __init__(self) -> None:
        self._kept: list[tuple[pytest.Item, list[pytest.TestReport]]] = []

    def run(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Run one item. A failure or a skip is reported at once."""
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        if all(report.passed for report in reports):
            self._kept.append((item, reports))
        else:
            self._report(item, reports)

    def release(self, failures: Mapping[str, str], properties: Mapping[str, Mapping[str, str]]) -> None:
        """Report the tests that were held back. ``failures``: messages of cases that fail after all, by id.

        ``properties``: what reports for machines, such as pytest's JUnit XML, hold of a case beside its outcome, by id.
        """
        for item, reports in self._kept:
            name = item.callspec.id  # type: ignore[attr-defined]
            for report in reports:
                report.user_properties += properties.get(name, {}).items()
                if report.when == "call" and name in failures:
                    report.outcome, report.longrepr = "failed", failures[name]
            self._report(item, reports)
        self._kept.clear()

    def _report(self, item: pytest.Item, reports: list[pytest.TestReport]) -> None:
        for plugin in item.config.pluginmanager.get_plugins():
            if hasattr(plugin, "item_index"):  # xdist takes the next reports for those of that test
                plugin.item_index = item.session.items.index(item)
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def option_names(parser: pytest.Parser) -> set[str]:
    """Return the names of all options that pytest, its plugins and conftest.py files have added so far."""
    groups = (parser._anonymous, *parser._groups)
    return {name for group in groups for option in group.options for name in option.names()}


def without_capture(config: pytest.Config) -> AbstractContextManager[object]:
    """Return a context in which pytest captures no output."""
    capture = config.pluginmanager.get_plugin("capturemanager")
    return capture.global_and_fixture_disabled() if capture else contextlib.nullcontext()


def change_lines(report: pytest.TestReport, change: Callable[[str], str]) -> None:
    """Apply a function to each line of a failure, and to its message in the short summary."""
    if isinstance(report.longrepr, ExceptionChainRepr):
        for traceback, place, _ in report.longrepr.chain:
            for entry in traceback.reprentries:
                entry.lines = [change(line) for line in entry.lines]
            if place:
                place.message = change(place.message)


@dataclass(frozen=True)
class _Text:
    """Failure that is a text, with what pytest's short summary reads; of a plain text it would print all."""

    text: str
    reprcrash: SimpleNamespace

    def __str__(self) -> str:
        return self.text


def replace_failure(report: pytest.TestReport, text: str, *, in_summary: str) -> None:
    """Replace what is printed of a failure, in full and in pytest's short summary."""
    report.longrepr = _Text(text, SimpleNamespace(message=in_summary))  # type: ignore[assignment]


def shorten_in_summary(report: pytest.TestReport) -> None:
    """Keep the first line of a failure's message in pytest's short summary, where CI prints all of them."""
    failure = report.longrepr
    if isinstance(failure, str):
        replace_failure(report, failure, in_summary=failure.partition("\n")[0])
    elif place := getattr(failure, "reprcrash", None):
        place.message = place.message.partition("\n")[0]


def add_to_junit(config: pytest.Config, report: pytest.TestReport, text: str) -> None:
    """Write a text to the <system-out> of a test's entry in JUnit's file, if that is written."""
    if xml := config.stash.get(xml_key, None):
        node = ElementTree.Element("system-out")
        node.text = text
        xml.node_reporter(report).append(node)


def guard_junit(config: pytest.Config, guarded: Callable[[Path], AbstractContextManager[object]]) -> None:
    """Write JUnit's file in the context that is made for its path, and name it at the end if it was written.

    The context may suppress errors. Nothing is done where no such file is asked for.
    """
    xml = config.stash.get(xml_key, None)
    if xml is None:
        return
    saving = guarded(Path(xml.logfile))
    write, tell, written = xml.pytest_sessionfinish, xml.pytest_terminal_summary, []

    def write_or_tell() -> None:
        with saving:
            write()
            written.append(True)

    def tell_if_written(*arguments: Any) -> None:  # pytest 8.4 gives one, and 9 two
        if written:
            tell(*arguments)

    hook = config.hook
    for implementation in (*hook.pytest_sessionfinish.get_hookimpls(), *hook.pytest_terminal_summary.get_hookimpls()):
        if implementation.plugin is xml:
            own = write_or_tell if implementation.function == write else tell_if_written
            implementation.function = own  # type: ignore[misc]  # pytest offers no hook around the writing


# pytest-benchmark


@contextlib.contextmanager
def timed_rounds(
    benchmark: BenchmarkFixture,
    sample: Callable[[], object],
    rounds: int,
    *,
    parameters: Mapping[str, Any],
    facts: dict[str, Any],
) -> Iterator[Stats | None]:
    """Take samples of a case, and yield their statistics; None where pytest-benchmark is disabled.

    An error in this context, such as that the kernel is wrong, discards them: they are neither saved nor shown.
    """
    benchmark.params, benchmark.extra_info = parameters, facts
    benchmark.pedantic(sample, rounds=rounds)
    stats = benchmark.stats.stats if benchmark.stats else None
    try:
        yield stats
    except Exception:
        benchmark.has_error = True
        if stats:
            stats.data.clear()
        raise


class Storage(Protocol):
    """Folder of saved runs."""

    root: Path

    def save(self, document: Mapping[str, Any], name: str) -> None:
        """Save a run, when everything is measured."""


class Benchmarks:
    """Session of pytest-benchmark: the cases that it timed, and how it saves and shows them."""

    def __init__(self, config: pytest.Config) -> None:
        self._config, self._session = config, config._benchmarksession  # type: ignore[attr-defined]

    @property
    def facts(self) -> list[tuple[str, dict[str, Any]]]:
        """Id of each case that was timed, and its facts."""
        return [(timed.param, timed.extra_info) for timed in self._session.benchmarks]

    def documents(self, **facts: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return, of each case that was timed here, what is saved and what is shown; ``facts`` are added to its own."""
        right = [timed for timed in self._session.benchmarks if not timed.has_error]
        for timed in right if facts else ():
            timed.extra_info |= facts
        return [(timed.as_dict(include_data=True), timed.as_dict(include_data=False, flat=True)) for timed in right]

    def take_over(self, documents: Iterable[tuple[dict[str, Any], dict[str, Any]]]) -> None:
        """Save and show cases that other processes measured, in this order."""
        self._session.benchmarks = [_MeasuredElsewhere(saved, shown) for saved, shown in documents]

    def hide_tables(self) -> None:
        self._session.quiet = True

    def measure_here(self, *, save: bool) -> None:
        """Let pytest-benchmark measure, which under xdist it does not. ``save``: and write results."""
        option, session = self._config.option, self._session
        session.disabled = option.benchmark_disable and not option.benchmark_enable
        session.xdist_benchmark_found = False  # or it says that it is disabled
        if not save:
            session.save = session.autosave = session.json = None

    def save_samples(self, *, always: bool) -> None:
        """Save the samples of each case too. ``always``: also where no option asks for a saved run."""
        session = self._session
        session.save_data = True
        if always and not (session.save or session.disabled):
            session.autosave = session.autosave or get_tag()  # asks git

    @property
    def folder(self) -> Path:
        """Folder of saved runs that the options name, or that the repository has for them."""
        return Path(self._session.storage.path)

    @property
    def saves(self) -> bool:
        return bool((self._session.save or self._session.autosave) and not self._session.disabled)

    @property
    def writes(self) -> bool:
        """True where this run is saved, or written to the file of --benchmark-json."""
        return self.saves or bool(self._session.json and not self._session.disabled)

    @property
    def json_file(self) -> str:
        return str(self._session.json or "")

    def save_by(self, storage: Storage, write: Callable[[Path, str], object], saving: _Guard) -> None:
        """Save runs by a storage, and the file of --benchmark-json by ``write``.

        ``saving``: makes a context, of the file's title, that may suppress errors.
        """
        session = self._session

        def save_json(document: Mapping[str, Any]) -> None:
            with saving(f"--benchmark-json={session.json}"):
                write(Path(session.json), safe_dumps(document, ensure_ascii=True, indent=4))
                session.logger.info(f"Wrote benchmark data in: {session.json}", purple=True)

        session.storage, session.save_json = storage, save_json


@dataclass(frozen=True)
class _MeasuredElsewhere:
    """Case of another process, in the place of pytest-benchmark's own record of one."""

    saved: dict[str, Any]
    shown: dict[str, Any]
    has_error = False

    @property
    def extra_info(self) -> dict[str, Any]:
        return dict(self.saved["extra_info"])

    @property
    def param(self) -> str:
        return str(self.saved["param"])

    def as_dict(self, include_data: bool = True, flat: bool = False, **_: object) -> dict[str, Any]:
        """Return what is saved of the case, or where ``flat`` what is shown."""
        if flat:
            return dict(self.shown)
        stats = {name: value for name, value in self.saved["stats"].items() if include_data or name != "data"}
        return self.saved | {"stats": stats}


def ask_early(config: pytest.Config) -> None:
    """Start to describe the processor in a process of its own, and let pytest-benchmark wait for it only at the end.

    pytest-benchmark saves that description, and it can take over a second. Where the process does not give it,
    pytest-benchmark's own function does.
    """
    asking = subprocess.Popen(
        [sys.executable, "-m", "cpuinfo", "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    module = vars(pytest_benchmark.plugin)
    own = module["get_cpu_info"]

    def answer() -> Any:
        with contextlib.suppress(subprocess.TimeoutExpired, ValueError):
            description = json.loads(asking.communicate(timeout=CPU_INFO_SECONDS)[0])
            if isinstance(description, dict):
                return description
        return own()

    def end() -> None:
        module["get_cpu_info"] = own
        asking.kill()
        asking.communicate()

    module["get_cpu_info"] = answer
    config.add_cleanup(end)
