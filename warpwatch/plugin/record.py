"""Records every test of a run: outcome, message and faults with their places. Writes them to files for programs.

The process in which a test runs makes its faults, from the error itself and the case at hand. They travel with the
test's report, through xdist too.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from warpwatch.catalogue.cases import Build, Case
from warpwatch.catalogue.validation import Problem
from warpwatch.devices.compile.compiler import CompileError
from warpwatch.devices.foreign_text import limited, plain_lines
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.machine import LATE, DeviceError
from warpwatch.devices.mismatch import WrongResult
from warpwatch.plugin.cases import CASE, LAUNCHED, is_timed, parameter_of
from warpwatch.plugin.device import DEVICE
from warpwatch.plugin.options import OPTIONS, value_of
from warpwatch.plugin.storage import Results
from warpwatch.report.sarif import document
from warpwatch.runs.faults import (
    COMPILE_ERROR,
    FAILED,
    LOST,
    MISTAKE,
    SLOWER,
    TIMEOUT,
    WRONG,
    Fault,
    Place,
    merged,
    place_of,
    reported,
)
from warpwatch.runs.files import write_whole
from warpwatch.runs.record import Outcome, TestRecord, recorded, write_record
from warpwatch.verdict.rule import Verdict

TESTS = pytest.StashKey["Tests"]()
MOST = 2**14  # characters of a message that are recorded
LONGEST = 2000  # characters of a sentence
ATTRIBUTE = "warpwatch"  # of a report: what is known in the process that ran the test
KNOWN = (WrongResult, DeviceError, CompileError)
Parameter = Case | Build | Problem | None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the place of a test, and the faults that it found, to its report."""
    report = yield
    parameter = parameter_of(item)
    if report.failed or is_timed(item):
        place = _place(parameter, report.location)
        faults = faults_of(call.excinfo, parameter, place) if report.failed and call.excinfo else []
        setattr(
            report, ATTRIBUTE, msgspec.to_builtins({"kernel": _kernel(parameter), "place": place, "faults": faults})
        )
    return report


def _kernel(parameter: Parameter) -> str:
    build = parameter.build if isinstance(parameter, Case) else parameter
    return f"{build.family.name}-{build.variant.name}" if isinstance(build, Build) else ""


def _place(parameter: Parameter, location: tuple[str, int | None, str]) -> Place:
    """Return where a kernel begins, or else where its test does."""
    place = place_of(parameter) if isinstance(parameter, Case) else Place()
    return place if place.file else Place(file=_sentence(location[0]), line=(location[1] or 0) + 1)


def faults_of(raised: pytest.ExceptionInfo[BaseException], parameter: Parameter, place: Place) -> list[Fault]:
    """Return the faults of an error: those that it names with a line in a source, or the error itself at ``place``."""
    error = next((each for each in _chain(raised.value) if isinstance(each, KNOWN)), raised.value)
    text = plain_lines(str(error))
    if not isinstance(error, (*KNOWN, pytest.fail.Exception)):
        text = plain_lines(raised.exconly(tryshort=True))
    elif faults := reported(text):
        return faults
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    worst = [line for line in lines[1:] if isinstance(error, WrongResult) and line.startswith("worst ")][:1]
    message = _sentence("; ".join([*lines[:1], *worst]) or "no message")
    return [Fault(kind=_kind(error, parameter), place=structs.replace(place, message=message))]


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, then those that it was raised for."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _kind(error: BaseException, parameter: Parameter) -> str:
    if isinstance(parameter, Problem):
        return MISTAKE
    if isinstance(error, WrongResult):
        return WRONG
    if isinstance(error, CompileError):
        return COMPILE_ERROR
    if isinstance(error, DeviceError) and error.lost:
        return TIMEOUT if error.lost == LATE else LOST
    return FAILED


def _sentence(text: str) -> str:
    """Return a text as a record holds it: one line, cut off where it is too long."""
    return " ".join(plain_lines(text).split())[:LONGEST]


class Tests:
    """Collects the tests of a run as they are reported, those of all processes in the first one."""

    def __init__(self, path: Path | None, results: Results) -> None:
        """``path``: the file to write, if any. ``results``: turns an error of the file system into a failed run."""
        self._path, self._results = path, results
        self._tests: dict[str, TestRecord] = {}
        self.about: dict[str, Any] = {}  # fields of ``About`` that the benchmark knows
        self.document: dict[str, Any] = {"benchmarks": []}  # what the benchmark records besides

    @property
    def is_written(self) -> bool:
        """True where a file is asked for."""
        return self._path is not None

    @property
    def tests(self) -> list[TestRecord]:
        """The tests so far, in the order of their first reports."""
        return list(self._tests.values())

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase of a test to what is known of it."""
        known = self._tests.get(report.nodeid)
        if known is None or report.when == "setup":  # it runs again
            known = TestRecord(id=_sentence(report.nodeid), outcome=Outcome.INTERRUPTED)
        properties, sent = dict(report.user_properties), getattr(report, ATTRIBUTE, {})
        self._tests[report.nodeid] = structs.replace(
            known,
            outcome=_outcome(report, known.outcome),
            case=_sentence(str(properties.get(CASE, ""))),
            kernel=sent.get("kernel", known.kernel),
            reason=known.reason or _reason(report),
            seconds=known.seconds + report.duration,
            launched=known.launched or LAUNCHED in properties,
            place=msgspec.convert(sent["place"], Place) if "place" in sent else known.place,
            faults=(*known.faults, *_faults(report, sent, properties)),
        )

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Take note of a file that could not be collected."""
        if report.failed:
            place = Place(file=_sentence(report.nodeid.partition("::")[0]) or "conftest.py", line=1)
            self._tests[report.nodeid] = TestRecord(
                id=_sentence(report.nodeid) or "conftest.py",
                outcome=Outcome.FAILED,
                reason=_reason(report),
                place=place,
                faults=(_unknown(str(report.longrepr), place),),
            )

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if self._path is None:
            return
        about = {**self.about, "tests": self.tests, "settings": settings(session.config)}
        about["exit_status"] = int(session.exitstatus)
        document = {"machine_info": {"gpu": gpu_of(session.config)}, "datetime": datetime.now(UTC).isoformat()}
        document["commit_info"] = session.config.hook.pytest_benchmark_generate_commit_info(config=session.config)
        with self._results.saving(f"--warpwatch-record={self._path}"):
            write_record(self._path, document | self.document | {"warpwatch": recorded(about)})


def _outcome(report: pytest.TestReport, before: Outcome) -> Outcome:
    if report.failed or before == Outcome.FAILED:
        return Outcome.FAILED
    if report.skipped:
        return Outcome.EXPECTED if hasattr(report, "wasxfail") else Outcome.SKIPPED
    return Outcome.PASSED if report.when == "call" else before


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return why a test was skipped, or what its failure says."""
    if report.skipped:
        why = getattr(report, "wasxfail", "") or (report.longrepr[2] if isinstance(report.longrepr, tuple) else "")
        return _sentence(str(why).removeprefix("Skipped: "))
    return limited(str(report.longrepr), MOST, "the run printed all of them") if report.failed else ""


def _faults(report: pytest.TestReport, sent: Mapping[str, Any], properties: Mapping[str, object]) -> tuple[Fault, ...]:
    """Return the faults of a report: at least one where it failed, though the process that ran the test has died."""
    if not report.failed:
        return ()
    if faults := msgspec.convert(sent.get("faults", ()), tuple[Fault, ...]):
        return faults
    place = msgspec.convert(sent["place"], Place) if "place" in sent else _place(None, report.location)
    fault = _unknown(str(report.longrepr), place)
    return (structs.replace(fault, kind=SLOWER) if properties.get("verdict") == Verdict.SLOWER else fault,)


def _unknown(text: str, place: Place) -> Fault:
    """Return the fault of a failure of which nothing but its text is known."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [line.removeprefix("E ").strip() for line in lines if line.startswith("E  ")]  # in pytest's traceback
    message = _sentence((raised or lines or ["no message"])[0])
    return Fault(kind=FAILED, place=structs.replace(place, message=message))


class SarifFile:
    """Writes the faults of a run, of which each failed test has one at least, as SARIF when the run ends.

    A file without results says that nothing was found, and a code host takes old ones away. So no file without results
    is written where no test ran to its end, or where the run was cut short: the last line says so, and the run fails.
    """

    def __init__(self, path: Path, root: Path, tests: Tests, results: Results) -> None:
        """``results``: turns an error of the file system into a line at the end of the run, which then fails."""
        self._path, self._root, self._tests, self._results = path, root, tests, results
        self._line = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        named = f"--warpwatch-sarif={self._path}"
        faults = merged((fault, test.id) for test in self._tests.tests for fault in test.faults)
        tested = any(test.outcome in (Outcome.PASSED, Outcome.FAILED) for test in self._tests.tests)
        if not faults and (not tested or exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)):
            why = "the run was cut short" if tested else "no test ran"
            self._line = f"{named} is not written, because {why}: a file without faults would say that there are none"
            session.exitstatus = exitstatus or pytest.ExitCode.TESTS_FAILED
            return
        self._line = f"{len(faults)} fault{'' if len(faults) == 1 else 's'} in {self._path}"
        with self._results.saving(named):
            write_whole(self._path, json.dumps(document(faults, self._root), indent=1) + "\n")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.line(self._line)


def gpu_of(config: pytest.Config) -> dict[str, Any]:
    """Return what is recorded of the device of a run that measures nothing."""
    device = config.stash.get(DEVICE, None)
    if not isinstance(device, DeviceInfo):
        return {}
    names = ("name", "slug", "driver", "note", "multiprocessors", "memory_bytes", "l2_bytes", "peak_bytes_per_second")
    return {name: getattr(device, name) for name in names} | {"capability": str(device.capability)}


def settings(config: pytest.Config) -> dict[str, str]:
    """Return the options of this run that were chosen, by name."""
    values = {name: value_of(config, name) for name in OPTIONS if name != "record"}
    chosen = {name: v for name, v in values.items() if v != OPTIONS[name].get("default", v and None) and v}
    named = {"-k": config.option.keyword, "-m": config.option.markexpr}
    return {name: _sentence(str(value)) for name, value in (chosen | named).items() if value}
