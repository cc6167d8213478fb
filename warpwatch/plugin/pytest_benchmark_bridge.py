"""Every private name of pytest and pytest-benchmark that the plugin needs, behind plain functions.

Any release may change them: tests/plugin/test_private_names.py fails with a version outside of ``TRIED``. Those of
pytest-xdist stand in warpwatch/plugin/xdist/, and no other module names one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
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


# pytest


def run_unreported(item: pytest.Item, nextitem: pytest.Item | None) -> list[pytest.TestReport]:
    """Run a test and return its reports, which no hook has been given."""
    return runtestprotocol(item, log=False, nextitem=nextitem)


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
    """Failure that is a text, with what pytest's short summary reads."""

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


def junit_file(config: pytest.Config) -> Path | None:
    """Return the path of JUnit's file, or None if none is written."""
    xml = config.stash.get(xml_key, None)
    return Path(xml.logfile) if xml else None


def guard_junit(config: pytest.Config, saving: AbstractContextManager[object]) -> None:
    """Write JUnit's file in a context, which may suppress errors, and name it at the end if it was written."""
    xml = config.stash[xml_key]
    write, tell, written = xml.pytest_sessionfinish, xml.pytest_terminal_summary, []

    def write_or_tell() -> None:
        with saving:
            write()
            written.append(True)

    def tell_if_written(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        if written:
            tell(terminalreporter, config)

    hook = config.hook
    for implementation in (*hook.pytest_sessionfinish.get_hookimpls(), *hook.pytest_terminal_summary.get_hookimpls()):
        if implementation.plugin is xml:
            own = write_or_tell if implementation.function == write else tell_if_written
            implementation.function = own  # type: ignore[misc]  # pytest offers no hook around the writing


# pytest-benchmark


def _session(config: pytest.Config) -> Any:
    return config._benchmarksession  # type: ignore[attr-defined]


def time_rounds(
    benchmark: BenchmarkFixture,
    sample: Callable[[], object],
    rounds: int,
    *,
    parameters: Mapping[str, Any],
    facts: dict[str, Any],
) -> Stats | None:
    """Take samples of a case, and return their statistics; None where pytest-benchmark is disabled."""
    benchmark.params, benchmark.extra_info = parameters, facts
    benchmark.pedantic(sample, rounds=rounds)
    return benchmark.stats.stats if benchmark.stats else None


def discard(benchmark: BenchmarkFixture) -> None:
    """Discard the samples of a wrong kernel, so that they are neither saved nor shown."""
    benchmark.has_error = True
    if benchmark.stats:
        benchmark.stats.stats.data.clear()


def facts_by_case(config: pytest.Config) -> list[tuple[str, dict[str, Any]]]:
    """Return the id of each case that was timed, and its facts."""
    return [(timed.param, timed.extra_info) for timed in _session(config).benchmarks]


def measured(config: pytest.Config, **facts: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return, of each case that was timed here, what is saved and what is shown; ``facts`` are added to its own."""
    documents = []
    for timed in _session(config).benchmarks:
        if not timed.has_error:
            if facts:
                timed.extra_info |= facts
            documents.append((timed.as_dict(include_data=True), timed.as_dict(include_data=False, flat=True)))
    return documents


@dataclass(frozen=True, kw_only=True)
class _MeasuredElsewhere:
    """Case of another process, in the place of pytest-benchmark's own record of one."""

    saved: dict[str, Any]
    shown: dict[str, Any]

    @property
    def has_error(self) -> bool:
        return False

    @property
    def extra_info(self) -> dict[str, Any]:
        """Facts of the case."""
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


def take_over_measured(config: pytest.Config, documents: Iterable[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """Save and show cases that other processes measured, in this order."""
    _session(config).benchmarks = [_MeasuredElsewhere(saved=saved, shown=shown) for saved, shown in documents]


def hide_tables(config: pytest.Config) -> None:
    """Keep pytest-benchmark from printing its tables."""
    _session(config).quiet = True


def measure_here(config: pytest.Config, *, save: bool) -> None:
    """Let pytest-benchmark measure, which under xdist it does not. ``save``: and write results."""
    session = _session(config)
    session.disabled = config.option.benchmark_disable and not config.option.benchmark_enable
    session.xdist_benchmark_found = False  # or it says that it is disabled
    if not save:
        session.save = session.autosave = session.json = None


def save_samples(config: pytest.Config, *, always: bool) -> None:
    """Save the samples of each case too. ``always``: also where no option asks for a saved run."""
    session = _session(config)
    session.save_data = True
    if always and not (session.save or session.disabled):
        session.autosave = session.autosave or get_tag()  # asks git


def storage_folder(config: pytest.Config) -> Path:
    """Return the folder of saved runs that the options name, or that the repository has for them."""
    return Path(_session(config).storage.path)


def replace_storage(config: pytest.Config, storage: object) -> None:
    """Save runs by ``storage.save(document, name)``, which has its folder as ``root``."""
    _session(config).storage = storage


def is_enabled(config: pytest.Config) -> bool:
    """Tell whether pytest-benchmark measures."""
    return not _session(config).disabled


def saves(config: pytest.Config) -> bool:
    """Tell whether this run is saved."""
    session = _session(config)
    return bool((session.save or session.autosave) and not session.disabled)


def json_file(config: pytest.Config) -> str:
    """Return the file of --benchmark-json; empty where none is given."""
    return str(_session(config).json or "")


def write_json_by(
    config: pytest.Config, write: Callable[[str, str], object], saving: AbstractContextManager[object]
) -> None:
    """Write the file of --benchmark-json by ``write(path, text)``, in a context that may suppress errors."""
    session = _session(config)

    def save_json(document: Mapping[str, Any]) -> None:
        with saving:
            write(session.json, safe_dumps(document, ensure_ascii=True, indent=4))
            session.logger.info(f"Wrote benchmark data in: {session.json}", purple=True)

    session.save_json = save_json


def replace_cpu_info(config: pytest.Config, answer: Callable[[Callable[[], dict[str, Any]]], dict[str, Any]]) -> None:
    """Describe the processor by ``answer``, which is given pytest-benchmark's own function, until pytest ends."""
    module = vars(pytest_benchmark.plugin)
    own = module["get_cpu_info"]
    module["get_cpu_info"] = lambda: answer(own)
    config.add_cleanup(lambda: module.__setitem__("get_cpu_info", own))
