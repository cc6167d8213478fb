"""Outcome of a benchmark run: which runs fail, what is printed at their end, and when reports of tests are given.

A run that was asked to compare and compared nothing must not look like one that found every kernel as fast as before.
"""

from __future__ import annotations

import functools
import shlex
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from warpwatch.catalogue.cases import Case
from warpwatch.compare.comparison import COMPARED, Comparison
from warpwatch.compare.energy import lines as energy_lines
from warpwatch.compare.reference import RECORD
from warpwatch.devices.gpu import NoDevice
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.worker import Worker
from warpwatch.plugin import pytest_benchmark_bridge as bridge
from warpwatch.plugin.cases import id_of
from warpwatch.plugin.options import named_options, spelled, value_of
from warpwatch.plugin.storage import Results
from warpwatch.plugin.xdist.processes import announce
from warpwatch.report.tables import summary
from warpwatch.revision.commit import check_name
from warpwatch.revision.declared import BadRevision
from warpwatch.runs.files import run_files, write_whole
from warpwatch.timing import observers
from warpwatch.verdict.rule import Decision, Verdict

ENERGY = observers.BY_OPTION["energy"]
NOT_COMPARED = "not compared"  # a count in pytest's last line, which keeps it from being green
ENDED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


@dataclass
class Asked:
    """The comparison that a run was asked for.

    ``option``: --benchmark-compare, --against or --self-check, or empty. ``required``: True where comparing nothing is
    an error. ``nothing``: the reason why nothing can be compared, once that is known. ``advice``: lines on what to do
    then.
    """

    option: str = ""
    required: bool = False
    nothing: str = ""
    advice: Sequence[str] = field(default_factory=list)

    def refuse(self) -> None:
        """Raise UsageError before anything is measured, where nothing can be compared and that is an error."""
        if self.required and self.nothing:
            reason = self.nothing if self.option == "--benchmark-compare" else f"{self.option}: {self.nothing}"
            raise pytest.UsageError("\n".join([f"{reason}, so nothing would be compared", *self.advice]))

    def last_words(self, decisions: Mapping[str, Decision], compared: int) -> list[str]:
        """Return the last lines of a run that was asked to compare and compared nothing."""
        if not self.option or compared:
            return []
        why = self.nothing or why_nothing(decisions)
        line = f"NOTHING WAS COMPARED ({self.option}): {why}; no kernel could be called slower"
        return [line, *self.advice]


def why_nothing(decisions: Mapping[str, Decision]) -> str:
    """Say why none of these cases was compared."""
    reasons = Counter(
        f"{decision.verdict}{': ' * bool(decision.reason)}{decision.reason}" for decision in decisions.values()
    )
    listed = "; ".join(f"{count} {reason}" for reason, count in reasons.most_common(3))
    return listed or "no case was measured to its end"


def uncompared(asked: Asked, decisions: Mapping[str, Decision], ran: Collection[str], compared: int) -> list[str]:
    """List the cases that were compared with nothing, in a run that was asked to compare."""
    if asked.option and not compared:
        return list(ran)
    return [name for name, decision in decisions.items() if decision.verdict not in COMPARED]


def fails(asked: Asked, comparison: Comparison, reasons: Collection[str]) -> bool:
    """Say whether the comparison fails a run whose tests all passed. ``reasons``: of --fail-on."""
    decisions = comparison.decisions
    if ("common" in reasons and comparison.alarm) or ("energy" in reasons and comparison.takes_more_energy):
        return True
    if asked.option and not comparison.compared and (asked.required or "incomparable" in reasons):
        return True
    verdicts = {decision.verdict for decision in decisions.values()}
    if Verdict.INCOMPARABLE in verdicts and comparison.lacks:
        return True  # a case may have needed a submodule that is not here
    return any(str(verdict) in reasons for verdict in verdicts & {Verdict.UNSURE, Verdict.INCOMPARABLE})


def nothing_ran(config: pytest.Config) -> str:
    """Say that no test is left, and by which selection."""
    chosen = [f"-k {config.option.keyword!r}" * bool(config.option.keyword)]
    chosen += [f"-m {config.option.markexpr!r}" * bool(config.option.markexpr), " ".join(config.args)]
    return f"NOTHING RAN: no test is left of those that {' and '.join(filter(None, chosen))} select"


def nothing_tested(reporter: pytest.TerminalReporter) -> list[str]:
    """Return the last line of a run whose tests were all skipped, which would otherwise end like a good one."""
    skipped = len(reporter.stats.get("skipped", ()))
    if not skipped or any(reporter.stats.get(kind) for kind in ("passed", "failed", "error", "xfailed", "xpassed")):
        return []
    return [f"NOTHING WAS TESTED: all {skipped} tests were skipped; the lines above say what each of them needs"]


def asked_for(config: pytest.Config, compare: str | bool, against: str | None) -> Asked:
    """Return the comparison that the options ask for. Raises UsageError for two, or for an empty name."""
    words = {name: spelled(config, name) for name in ("against", "self-check")}
    chosen = {
        "--benchmark-compare": compare,
        words["against"]: against,
        words["self-check"]: value_of(config, "self-check"),
    }
    if isinstance(compare, str) and not compare.strip():
        raise pytest.UsageError("--benchmark-compare= names no run: leave the `=` out to compare with the baseline")
    if against is not None:
        try:
            check_name(against)
        except BadRevision as error:
            raise pytest.UsageError(worded(config, error)) from None
    if len(named := [name for name, value in chosen.items() if value]) > 1:
        raise pytest.UsageError(f"{' and '.join(named)} are different things to do: choose one")
    option = next(iter(named), "")
    required = option != "--benchmark-compare" or bool(value_of(config, "require-baseline"))
    return Asked(option, required=bool(option) and required)


def worded(config: pytest.Config, error: Exception) -> str:
    """Return the message of an error on a revision behind the option that took it, as it is written here."""
    return f"{spelled(config, 'against')}={error}"


def refuse_rules_without_comparison(config: pytest.Config, compare: str | bool, asked: Asked) -> None:
    """Refuse options that say when a comparison fails the run, where there is no comparison. Raises UsageError."""
    word = functools.partial(spelled, config)
    named = {"baseline": compare, "require-baseline": compare, "fail-on": asked.option}
    for name, comparison in named.items():
        if value_of(config, name) and not comparison:
            others = "" if name != "fail-on" else f", {word('against')} or {word('self-check')}"
            raise pytest.UsageError(f"{word(name)} compares nothing by itself: give --benchmark-compare{others} too")


def facts_of_run(comparison: Comparison, failed: Collection[str], *, whole: bool) -> dict[str, Any]:
    """Return fields of ``About``, which a saved run records of itself.

    ``failed``: cases that failed, slower ones among them. ``whole``: all cases were timed.
    """
    slower = {name for name, decision in comparison.decisions.items() if decision.verdict == Verdict.SLOWER}
    return {
        "failed": sorted(set(failed) - slower),
        "slower": sorted(slower),
        "whole": whole,
        "against": comparison.against,
        "decisions": comparison.decisions,
        "controls": {name: str(decision.verdict) for name, decision in comparison.controls.items()},
        "energies": comparison.energy,
        "past": comparison.past,
        "notes": comparison.describe() if comparison.active else (),
        "alarm": comparison.alarm,
    }


SHOWN = 20  # lines of a verdict, and rows of pytest-benchmark's table
SHOWN_WITHOUT_CLOCK = 5  # lines of a verdict, where the times are the host's and judge no kernel
# Options of pytest-benchmark that are for its tables.
FOR_TABLES = ("columns", "sort", "group-by", "name", "histogram", "verbose", "time-unit", "cprofile")


def is_verbose(config: pytest.Config) -> bool:
    """Tell whether everything is to be printed."""
    return bool(config.get_verbosity() > 0)


def wants_tables(config: pytest.Config, cases: int) -> bool:
    """Tell whether pytest-benchmark's tables are printed: those that are asked for, and small ones.

    Options in a repository's settings say what tables look like, and ask for none.
    """
    named = named_options(config, with_settings=False)
    return any(f"--benchmark-{name}" in named for name in FOR_TABLES) or is_verbose(config) or cases <= SHOWN


def choose_tables(config: pytest.Config) -> None:
    """Keep pytest-benchmark from printing tables of more cases than anybody reads, unless they are asked for."""
    if not wants_tables(config, len(bridge.facts_by_case(config))):
        bridge.hide_tables(config)


def how_times_are_read(gpu: Mapping[str, Any]) -> str:
    """Say in which state of L2 a GPU's times are read, and what of them is not the kernel's; empty if not measured."""
    if "coldness" not in gpu:
        return ""
    state = f"L2 {gpu['cache']}; after a scrub, reading half takes {gpu['coldness']} times as long"
    beside = 1e6 * gpu.get("overhead", 0.0)
    return (
        f"{state}; {beside:.1f} µs of each time are not the kernel's, and rates are without them" if beside else state
    )


def most_lines(config: pytest.Config, *, has_clock: bool) -> int | None:
    """Return how many lines of a verdict are printed; None for all of them."""
    if not has_clock:
        return SHOWN_WITHOUT_CLOCK
    return None if is_verbose(config) else SHOWN


def verdicts(
    config: pytest.Config, comparison: Comparison, missing: Sequence[str], *, has_clock: bool, results: Results
) -> list[str]:
    """Lines on what was found of times, then of energies, where they were measured.

    Where a list is cut, the whole of it is written beside the saved run, so that nothing is measured again to see it.
    """
    most, whole = most_lines(config, has_clock=has_clock), summary(comparison.decisions, missing)
    lines = summary(comparison.decisions, missing, most)
    if results.saved and len(lines) != len(whole):
        file = Path(results.saved).with_suffix(".verdicts.txt")
        with results.saving(f"the list of verdicts, as {file},"):
            write_whole(file, "\n".join(whole) + "\n")
            lines = summary(comparison.decisions, missing, most, f": {file} has all")
    return [*lines, *energy_lines(comparison.energy)]


def timeouts(config: pytest.Config) -> Iterator[str]:
    """Yield how many samples were thrown away, if any were."""
    if thrown := sum(facts.get("hold_timeouts", 0) for _, facts in bridge.facts_by_case(config)):
        yield f"{thrown} samples were thrown away and taken again, because the hold ran into its limit"


def what_is_left_out(config: pytest.Config, lines: Collection[str], saved: str) -> Iterator[str]:
    """Yield where the times and verdicts are that are not printed.

    ``lines``: of the summary. ``saved``: the run's file, or an empty text.
    """
    cases = len(bridge.facts_by_case(config))
    report = f"python -m warpwatch report {shlex.quote(saved)}"
    if not wants_tables(config, cases):
        yield f"times of {cases} cases: {report if saved else '--benchmark-columns=median'}; -v prints them here"
    if saved and any(line.startswith("... and ") for line in lines):
        yield f"every verdict of this run: {report} --html FOLDER"


def next_step(
    config: pytest.Config, comparison: Comparison, decisions: Mapping[str, Decision], failed: Collection[str]
) -> Iterator[str]:
    """Yield a line on what to do after a run that found a kernel wrong or slower."""
    slower = [(each.ratio, name) for name, each in decisions.items() if each.verdict == Verdict.SLOWER]
    if wrong := sorted(set(failed) - {name for _, name in slower}):
        case = next((f"; python -m warpwatch run {name}" for name in wrong if name.count("-") == 4), "")
        yield f"next: mend what is wrong{case}"  # a mistake in a declaration has no case
    elif slower and (step := comparison.next_step(max(slower)[1], spelled(config, "against"))):
        yield f"next: {step}"


def first_baseline(baselines: Path, slug: str, *, has_clock: bool, compared: bool) -> Iterator[str]:
    """Yield the command that makes a GPU's baseline, where there is none and the run did not say so already."""
    if slug and has_clock and not compared and not run_files(baselines / slug):
        yield f"there is no baseline for {slug} yet; `{RECORD}` makes one"


class Postponed:
    """Runner of tests that holds back the reports of passed ones until ``release``."""

    def __init__(self) -> None:
        self._kept: list[tuple[pytest.Item, list[pytest.TestReport]]] = []

    def run(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Run one item. A failure or a skip is reported at once."""
        reports = bridge.run_unreported(item, nextitem)
        if all(report.passed for report in reports):
            self._kept.append((item, reports))
        else:
            self._report(item, reports)

    def release(self, failures: Mapping[str, str], properties: Mapping[str, Mapping[str, str]]) -> None:
        """Report the tests that were held back. ``failures``: messages of cases that fail after all, by id.

        ``properties``: what reports for machines, such as pytest's JUnit XML, hold of a case beside its outcome, by id.
        """
        for item, reports in self._kept:
            why = failures.get(id_of(item))
            for report in reports:
                report.user_properties += properties.get(id_of(item), {}).items()
                if why and report.when == "call":
                    report.outcome, report.longrepr = "failed", why
            self._report(item, reports)
        self._kept.clear()

    def _report(self, item: pytest.Item, reports: list[pytest.TestReport]) -> None:
        announce(item)
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


SECONDS = 10  # between two lines of progress


class Progress:
    """Line of progress, which is overwritten on a terminal and repeated every ten seconds elsewhere."""

    def __init__(self, reporter: pytest.TerminalReporter | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._reporter, self._clock = reporter, clock
        self._begin, self._step, self._printed = clock(), "", clock()

    def __call__(self, step: str, done: int, total: int) -> None:
        """Report progress. ``step``, such as 'timing', starts a new estimate of the time left where it changes."""
        if step != self._step:
            self._begin, self._step, self._printed = self._clock(), step, self._clock()
        if self._reporter is None or self._reporter.verbosity < 0:
            return
        text = self._text(done, total)
        if self._reporter.isatty:
            self._reporter.rewrite(text + " ", erase=True)
            if done == total:
                self._reporter.line("")
        elif self._clock() - self._printed > SECONDS:
            self._printed = self._clock()
            self._reporter.write_line(text)

    def between_dots(self, step: str, done: int, total: int) -> None:
        """Report progress on a line of its own every ten seconds, where pytest prints a dot for each test."""
        if step != self._step:
            self._begin, self._step, self._printed = self._clock(), step, self._clock()
        elif self._reporter and self._reporter.verbosity >= 0 and self._clock() - self._printed > SECONDS:
            self._printed = self._clock()
            self._reporter.ensure_newline()
            self._reporter.write_line(self._text(done, total))

    def _text(self, done: int, total: int) -> str:
        left = (self._clock() - self._begin) / max(done, 1) * (total - done)
        return f"{self._step}: {done} of {total}, {int(left) // 60}:{int(left) % 60:02} left"


def asked_observers(config: pytest.Config) -> tuple[str, ...]:
    """Return the options of the observers that a run is asked for."""
    return tuple(option for option in observers.BY_OPTION if value_of(config, option))


def objection_to_energy(config: pytest.Config, device: DeviceInfo | NoDevice, worker: Worker) -> str:
    """Say why the options on energy cannot be followed; empty where they can."""
    word = spelled(config, "energy")
    if not value_of(config, "energy"):
        asked = "energy" in value_of(config, "fail-on")
        return f"{spelled(config, 'fail-on')} energy measures none by itself: give {word} too" if asked else ""
    if value_of(config, "self-check"):
        return f"{spelled(config, 'self-check')} measures no energy: leave {word} out"
    if "energy" in value_of(config, "fail-on") and not value_of(config, "against"):
        against = spelled(config, "against")
        given = f"{spelled(config, 'fail-on')} energy"
        return f"energies are compared with those of another revision: give {against} REV, or leave {given} out"
    if isinstance(device, NoDevice):
        return f"{word} needs a GPU: {device}"
    why = worker.call(observers.objection, asked_observers(config))
    return f"{word}: {why}" if why else ""


def nothing_measured(config: pytest.Config, cases: Mapping[str, Case]) -> list[str]:
    """Return the last line of a run that was asked for energies, measured kernels, and has no energy of any."""
    measured, left_out = _count(config, cases)
    if measured or not left_out:
        return []
    return [f"NO ENERGY WAS MEASURED ({spelled(config, 'energy')}): {_reasons(left_out)}"]


def left_out_lines(config: pytest.Config, cases: Mapping[str, Case]) -> list[str]:
    """Return a line on the kernels without an energy, where others have one."""
    measured, left_out = _count(config, cases)
    if not measured or not left_out:
        return []
    total = measured + left_out.total()
    return [f"energy of {left_out.total()} of {total} kernels was not measured: {_reasons(left_out)}"]


def _count(config: pytest.Config, cases: Mapping[str, Case]) -> tuple[int, Counter[str]]:
    """Return how many timed cases have an energy, and why others have none; neither where no energy was asked for."""
    measured, left_out = 0, Counter[str]()
    if not value_of(config, "energy"):
        return measured, left_out
    for name, facts in bridge.facts_by_case(config):
        if any(map(facts.get, ENERGY.units)):
            measured += 1
        else:
            left_out[_reason(cases[name], config)] += 1
    return measured, left_out


def _reason(case: Case, config: pytest.Config) -> str:
    if why := ENERGY.leaves_out(case):
        return why
    if case.variant.call and value_of(config, "against"):
        return "it is a call, whose two sides run in processes of their own"
    return "its test failed before"


def _reasons(left_out: Counter[str]) -> str:
    return ", ".join(f"{count} because {why}" for why, count in left_out.most_common())
