"""Reports of tests: what is printed of failures and skips, and the record of every test with its faults.

The process in which a test runs makes its faults, from the error itself and the case at hand. They travel with the
test's report, through xdist too. The first process records them, and writes them to files for programs.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from warpwatch.catalogue.cases import Build, Case
from warpwatch.catalogue.names import BadCase
from warpwatch.catalogue.validation import Problem, problems
from warpwatch.devices.accepting import accepted_of
from warpwatch.devices.compile.builds import suspicious_lines
from warpwatch.devices.compile.compiler import CompileError, cache_notes
from warpwatch.devices.foreign_text import limited, plain_lines
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.mismatch import WrongResult
from warpwatch.devices.opening import NoDevice
from warpwatch.devices.worker import accepted_findings
from warpwatch.plugin import judge
from warpwatch.plugin import pytest_benchmark_bridge as bridge
from warpwatch.plugin.benchmark_run import RUN
from warpwatch.plugin.cases import CASE, LAUNCHED, build_of, is_timed, parameter_of
from warpwatch.plugin.contracts import BROKEN
from warpwatch.plugin.device import CACHE_NOTES, DEVICE, PROJECT, WORKER
from warpwatch.plugin.fixtures import (
    FAILURES,
    LEFT_OUT,
    REMARK,
    REPEATED,
    command_for,
    command_of,
    with_command,
)
from warpwatch.plugin.json_file import LOST, RECORD, begin
from warpwatch.plugin.options import BENCHMARK, OPTIONS, spelled, value_of
from warpwatch.plugin.xdist.processes import is_part
from warpwatch.report.sarif import document
from warpwatch.runs.faults import (
    CONTRACT,
    FAILED,
    MISTAKE,
    SLOWER,
    Fault,
    Place,
    compile_errors,
    merged,
    of_error,
    one_line,
    reported,
)
from warpwatch.runs.files import compact_json, write_whole
from warpwatch.runs.record import Outcome, TestRecord, facts_of, recorded
from warpwatch.verdict.contracts import BrokenContract
from warpwatch.verdict.rule import Verdict

WITH_WHOLE_MESSAGES = 2  # the verbosity, as of -vv, with which pytest's short summary is not short
MOST_SHOWN = 2**15  # characters that a test's kernel printed
TESTS = pytest.StashKey["Tests"]()
FOUND = pytest.StashKey[str]()  # what compute-sanitizer finds in a test that fails by itself
MOST_REMARKS = 20  # lines that are printed
MOST = 2**14  # characters of a message that are recorded
OF_KERNEL = "of_kernel"  # attribute of a report, which xdist hands on
ATTRIBUTE = "warpwatch"  # attribute of a report: what is known in the process that ran the test
REPORT_BYTES = 2**16  # of a record or a file of faults, for which there must be space
# Properties of a test: findings, with their reasons.
ACCEPTED, NOT_NEEDED, REFUSED = "accepted", "accepted and not found", "not accepted"
REMARKS = (LEFT_OUT, REMARK, ACCEPTED)  # properties of a test that are remarks on its case
KNOWN = (WrongResult, DeviceError, CompileError, BrokenContract)
Parameter = Case | Build | Problem | None


class Sent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts that the process in which a test ran sends along with a report; the place is empty where it sent none."""

    kernel: str = ""
    place: Place = Place()
    declared: Place = Place()
    faults: tuple[Fault, ...] = ()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for text in _lines_on_run(terminalreporter):
        terminalreporter.line(text)


def _lines_on_run(terminalreporter: pytest.TerminalReporter) -> list[str]:
    """Return what is printed and recorded of the run as a whole.

    It has a line for each reason of skips; pytest's own -rs has a line for every test function. It also has the
    declarations without cases because of a mistake, which a selection would hide.
    """
    stash = terminalreporter.config.stash
    reports = terminalreporter.stats.get("skipped", ())
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports)
    lines = [f"{count} skipped: {reason}" for reason, count in reasons.most_common()]
    tested = (*terminalreporter.stats.get("passed", ()), *terminalreporter.stats.get("failed", ()))
    properties = (dict(report.user_properties) for report in tested if report.when == "call")
    left_out = Counter(named[LEFT_OUT] for named in properties if LEFT_OUT in named)
    lines += [f"{count} tested on the usual inputs alone: {reason}" for reason, count in left_out.most_common()]
    lines += _of_accepted(tested)
    if sanitizers := terminalreporter.config.pluginmanager.get_plugin("warpwatch-sanitizers"):
        lines += sanitizers.lines()
    lines += _of_same_bits(tested, value_of(terminalreporter.config, "deterministic"))
    lines += [f"suspicious: {sentence}" for sentence in _suspicious(terminalreporter.config)]
    mistakes = problems(stash[PROJECT].families)
    lines += [f"left out because of a mistake in the declaration: {problem}" for problem in mistakes]
    lines += judge.notes(stash[WORKER], stash.get(DEVICE, None))
    lines += [f"cache: {sentence}" for sentence in dict.fromkeys((*stash[CACHE_NOTES], *cache_notes()))]
    return lines


def _suspicious(config: pytest.Config) -> list[str]:
    """List what is unusual in the sources of foreign code; nothing where the code is trusted."""
    untrusted = getattr(config.stash[WORKER].settings, "untrusted", False)
    return suspicious_lines(config.stash[PROJECT]) if untrusted and not is_part(config) else []


def _of_same_bits(tested: Iterable[pytest.TestReport], everywhere: bool) -> list[str]:
    """Return a line for each remark, and one on the cases that were asked for the same bits.

    ``everywhere``: another process was asked too.
    """
    named = [each for report in tested if report.when == "call" for each in report.user_properties]
    remarks = [f"remark: {text}" for text in dict.fromkeys(text for name, text in named if name == REMARK)]
    cut = [f"... and {len(remarks) - MOST_REMARKS} more remarks: --junitxml=FILE has all"]
    asked = Counter(answer for name, answer in named if name == REPEATED)
    where = f"in later launches, in other orders of blocks{' and in another process' * everywhere}"
    counted = [f"the same bits {where}: {asked['yes']} of {asked.total()} cases"]
    return [*remarks[:MOST_REMARKS], *cut * (len(remarks) > MOST_REMARKS), *counted * bool(asked)]


@pytest.hookimpl(specname="pytest_terminal_summary", wrapper=True, tryfirst=True)
def pytest_print_failures_once(terminalreporter: pytest.TerminalReporter) -> Generator[None, object, object]:
    """Print the failure of a kernel in full once; JUnit's file has every failure by now.

    The first test that an error of the compiler fails shows it, and the others name that test. The short summary, in
    which pytest prints whole messages where the environment has CI, shows a line of each.
    """
    first: dict[object, str] = {}
    for report in (*terminalreporter.stats.get("error", ()), *terminalreporter.stats.get("failed", ())):
        text = report.longreprtext if isinstance(report, pytest.TestReport) else ""
        first_line = text.partition("\n")[0]
        if getattr(report, OF_KERNEL, False) and terminalreporter.verbosity < WITH_WHOLE_MESSAGES:
            bridge.shorten_in_summary(report)
        if errors := compile_errors(text):
            before = first.setdefault(errors, report.nodeid)
            if before != report.nodeid:
                bridge.replace_failure(report, f"{first_line}: see {before} above", in_summary=first_line)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail with the message of an error alone, because this plugin's traceback does not help a kernel's developer.

    A test that had something run by the worker process, or launched kernels itself, is recorded as one that did. One
    that passes although a check of it failed fails all the same.
    """
    worker = item.config.stash[WORKER]
    before = worker.calls
    failures = item.stash.get(FAILURES, [])
    failures.clear()  # of an earlier run of this test
    try:
        result = yield
        if failures:
            hidden = "the test passes although check() failed; mark it xfail if that is meant:"
            pytest.fail(f"{hidden}\n{failures[0]}", pytrace=False)
        return result
    except DeviceError as error:
        raise pytest.fail.Exception(with_command(str(error), command_of(item)), pytrace=False) from None
    except (BadCase, BrokenContract, CompileError, WrongResult) as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    finally:
        if worker.calls > before or "warpwatch_source_module" in getattr(item, "fixturenames", ()):
            item.user_properties.append((LAUNCHED, "yes"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the place of a test and the faults that it found to its report.

    What a kernel and its compiler printed is made plain, and its begin and its end alone are shown.
    """
    if call.when == "call":
        item.user_properties += accepted(item)
    report = yield
    parameter = parameter_of(item)
    if report.failed or is_timed(item):
        place = _place(parameter, report.location)
        faults = faults_of(call.excinfo, parameter, place) if report.failed and call.excinfo else []
        if found := item.stash.get(FOUND, "") if call.when == "call" else "":
            faults += reported(found)
            report.sections.append(("compute-sanitizer", found))
        declared = Place.of_declaration(parameter) if isinstance(parameter, Case) else Place()
        sent = Sent(kernel=_kernel(parameter), place=place, declared=declared, faults=tuple(faults))
        setattr(report, ATTRIBUTE, msgspec.to_builtins(sent))
    if parameter is not None:
        setattr(report, OF_KERNEL, True)
        rest = f"`pytest -s '{item.nodeid}'` prints all of them"
        report.sections = [(name, limited(text, MOST_SHOWN, rest)) for name, text in report.sections]
        bridge.change_lines(report, plain_lines)
    return report


def accepted(item: pytest.Item) -> list[tuple[str, object]]:
    """Return properties of a test: the findings that are accepted of its kernel, and whether there were such ones."""
    build, worker = build_of(item), item.config.stash[WORKER]
    try:
        known = accepted_of(build) if build and (LAUNCHED, "yes") in item.user_properties else ()
    except BadCase:  # a comment that cannot be read, for which the test has failed
        return []
    if worker.settings.untrusted:
        return [(REFUSED, str(each)) for each in known]
    if not known:
        return []
    try:
        keys = worker.call(accepted_findings)
    except (DeviceError, NoDevice):
        return []
    return [] if keys is None else [(ACCEPTED if each.key in keys else NOT_NEEDED, str(each)) for each in known]


def _of_accepted(tested: Iterable[pytest.TestReport]) -> list[str]:
    """Return a line for each finding that is accepted, with how many tests had it, and for each that none had."""
    named = [each for report in tested if report.when == "call" for each in report.user_properties]
    tests = Counter(str(text) for name, text in named if name == ACCEPTED)
    unused = dict.fromkeys(str(text) for name, text in named if name == NOT_NEEDED and text not in tests)
    lines = [f"accepted: {text} ({count} test{'s' if count > 1 else ''})" for text, count in tests.most_common()]
    refused = dict.fromkeys(text for name, text in named if name == REFUSED)
    lines += [f"accepted, and found by no test of this run: {text}" for text in unused]
    return [*lines, *(f"untrusted: not accepted, whatever its code says: {text}" for text in refused)]


def _kernel(parameter: Parameter) -> str:
    build = parameter.build if isinstance(parameter, Case) else parameter
    return f"{build.family.name}-{build.variant.name}" if isinstance(build, Build) else ""


def _place(parameter: Parameter, location: tuple[str, int | None, str]) -> Place:
    """Return where a kernel begins, or else where its test does."""
    place = Place.of_kernel(parameter) if isinstance(parameter, Case) else Place()
    return place if place.file else Place(file=one_line(location[0]), line=(location[1] or 0) + 1)


def faults_of(raised: pytest.ExceptionInfo[BaseException], parameter: Parameter, place: Place) -> list[Fault]:
    """Return the faults of an error: those that it names with a line in a source, or the error itself at ``place``."""
    error = next((each for each in _chain(raised.value) if isinstance(each, KNOWN)), raised.value)
    known = isinstance(error, (*KNOWN, pytest.fail.Exception))
    faults = of_error(error, place, "" if known else plain_lines(raised.exconly(tryshort=True)))
    return [structs.replace(each, kind=MISTAKE) for each in faults] if isinstance(parameter, Problem) else faults


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, then those that it was raised for."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def pytest_configure(config: pytest.Config) -> None:
    """Have the tests of this run recorded, and files for programs written that options name.

    xdist's processes leave all of it to the first one.
    """
    results, files = config.stash[RUN].results, dict[str, Path]()
    for name in () if is_part(config) else ("record", "sarif"):
        if given := value_of(config, name):
            files[name] = config.invocation_params.dir / given
            cure = f"free some space, or give another --warpwatch-{name}=FILE"
            results.require_space(files[name], REPORT_BYTES, cure)
    config.stash[TESTS] = tests = Tests(config, files.get("record"), files.get("sarif"))
    if not is_part(config):
        config.stash[LOST] = results.lost
        if given := value_of(config, "json"):
            begin(config, config.invocation_params.dir / given, spelled(config, "json"))
        config.pluginmanager.register(tests, "warpwatch-tests")


class Tests:
    """Collects the tests of a run as they are reported, those of all processes in the first one, and writes files."""

    def __init__(self, config: pytest.Config, record: Path | None, sarif: Path | None) -> None:
        """``record``, ``sarif``: files to write."""
        run = config.stash[RUN]
        self._config, self._asked, self._results = config, run.asked, run.results
        self._record, self._sarif = record, sarif
        self.is_recorded = bool(record or value_of(config, "json"))
        self._line = ""  # on SARIF's file
        self.tests: dict[str, TestRecord] = {}  # by their ids, in the order of their first reports
        self.about: dict[str, Any] = {}  # fields of ``About`` that the benchmark knows
        self.document: dict[str, Any] = {"benchmarks": []}  # what the benchmark records besides
        self.left_out: dict[str, list[str]] = {}  # by the reason: cases and tests that did not run
        self._collected: dict[str, None] = {}  # ids of tests

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._collected.update((item.nodeid, None) for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: list[str]) -> None:
        self._collected.update(dict.fromkeys(ids))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase of a test to what is known of it."""
        known = self.tests.get(report.nodeid)
        if known is None or report.when == "setup":  # it runs again
            known = TestRecord(id=one_line(report.nodeid), outcome=Outcome.INTERRUPTED)
        properties = dict(report.user_properties)
        sent = msgspec.convert(getattr(report, ATTRIBUTE, {}), Sent)
        self.tests[report.nodeid] = structs.replace(
            known,
            outcome=_outcome(report, known.outcome),
            case=one_line(str(properties.get(CASE, ""))),
            kernel=sent.kernel or known.kernel,
            reason=known.reason or _reason(report),
            seconds=known.seconds + report.duration,
            launched=known.launched or LAUNCHED in properties,
            place=sent.place if sent.place.file else known.place,
            declared=sent.declared if sent.declared.file else known.declared,
            again=known.again or self._again(report.nodeid),
            remarks=tuple(one_line(str(text)) for name, text in report.user_properties if name in REMARKS),
            faults=(*known.faults, *(_faults(report, sent, properties) if report.failed else ())),
        )

    def _again(self, nodeid: str) -> str:
        """Return the command that runs a test once more, with what it was compared with."""
        words, asked = [command_for(self._config, nodeid)], self._asked
        if asked.option and nodeid.partition("::")[0].endswith(BENCHMARK):
            value = asked.against or (asked.compare if isinstance(asked.compare, str) else "")
            words.append(f"{asked.option}={shlex.quote(value)}" if value else asked.option)
        return one_line(" ".join(words))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Take note of a file that could not be collected."""
        if report.failed:
            place = Place(file=one_line(report.nodeid.partition("::")[0]) or "conftest.py", line=1)
            self.tests[report.nodeid] = TestRecord(
                id=one_line(report.nodeid) or "conftest.py",
                outcome=Outcome.FAILED,
                reason=_reason(report),
                place=place,
                faults=(_unknown(str(report.longrepr), place),),
            )

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Make the record, and write it where that is asked for."""
        if not self.is_recorded:
            return
        about = {**self.about, "tests": [*self.tests.values()], "settings": _settings(session.config)}
        about["left_out"] = {reason: names for reason, names in self._left_out().items() if names}
        if reporter := session.config.pluginmanager.get_plugin("terminalreporter"):
            about["remarks"] = [*about.get("remarks", ()), *map(one_line, _lines_on_run(reporter))]
        about["exit_status"] = int(session.exitstatus)
        device = session.config.stash.get(DEVICE, None)  # which the benchmark, where it measures, describes in full
        gpu = facts_of(device) if isinstance(device, DeviceInfo) else {}
        document = {"machine_info": {"gpu": gpu}, "datetime": datetime.now(UTC).isoformat()}
        document["commit_info"] = session.config.hook.pytest_benchmark_generate_commit_info(config=session.config)
        content = session.config.stash[RECORD] = compact_json(document | self.document | {"warpwatch": recorded(about)})
        if self._record:
            with self._results.saving(f"--warpwatch-record={self._record}"):
                write_whole(self._record, content)

    def _left_out(self) -> dict[str, list[str]]:
        """Return by the reason what was to run and did not: it is in no test's outcome."""
        mistakes = {
            one_line(f"mistake in the declaration: {problem}"): [one_line(problem.id)]
            for problem in problems(self._config.stash[PROJECT].families)
        }
        waiting = [one_line(name) for name in self._collected if name not in self.tests]
        why = "--collect-only runs no test" if self._config.option.collectonly else "the run ended before they ran"
        return {**self.left_out, **mistakes, why: waiting}

    @pytest.hookimpl(specname="pytest_sessionfinish", tryfirst=True)
    def pytest_write_sarif(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the faults of a run, of which each failed test has one at least, as SARIF.

        A file without results says that nothing was found, and a code host takes old ones away. So none is written
        where no test ran to its end, or where the run was cut short: the last line says so, and the run fails.
        """
        if self._sarif is None:
            return
        named = f"--warpwatch-sarif={self._sarif}"
        faults = merged((fault, test.id) for test in self.tests.values() for fault in test.faults)
        tested = any(test.outcome in (Outcome.PASSED, Outcome.FAILED) for test in self.tests.values())
        if not faults and (not tested or exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)):
            why = "the run was cut short" if tested else "no test ran"
            self._line = f"{named} is not written, because {why}: a file without faults would say that there are none"
            session.exitstatus = exitstatus or pytest.ExitCode.TESTS_FAILED
            return
        self._line = f"{len(faults)} fault{'' if len(faults) == 1 else 's'} in {self._sarif}"
        with self._results.saving(named):
            write_whole(self._sarif, json.dumps(document(faults, session.config.rootpath), indent=1) + "\n")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._line:
            terminalreporter.line(self._line)


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
        return one_line(str(why).removeprefix("Skipped: "))
    return limited(str(report.longrepr), MOST, "the run printed all of them") if report.failed else ""


def _faults(report: pytest.TestReport, sent: Sent, properties: Mapping[str, object]) -> tuple[Fault, ...]:
    """Return the faults of a test that failed: at least one, though the process that ran it has died."""
    if sent.faults:
        return sent.faults
    fault = _unknown(str(report.longrepr), sent.place if sent.place.file else _place(None, report.location))
    kind = SLOWER if properties.get("verdict") == Verdict.SLOWER else CONTRACT if BROKEN in properties else fault.kind
    return (structs.replace(fault, kind=kind),)


def _unknown(text: str, place: Place) -> Fault:
    """Return the fault of a failure of which nothing but its text is known."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [line.removeprefix("E ").strip() for line in lines if line.startswith("E  ")]  # in pytest's traceback
    message = one_line((raised or lines or ["no message"])[0])
    return Fault(kind=FAILED, place=structs.replace(place, message=message))


def _settings(config: pytest.Config) -> dict[str, str]:
    values = {name: value_of(config, name) for name in OPTIONS if name not in ("record", "json")}
    chosen = {name: v for name, v in values.items() if v != OPTIONS[name].get("default", v and None) and v}
    named = {"-k": config.option.keyword, "-m": config.option.markexpr}
    return {name: one_line(str(value)) for name, value in (chosen | named).items() if value}
