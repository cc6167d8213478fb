"""End of a benchmark run: likely causes, whether the run fails, and what is printed and recorded of it as a whole.

A run that was asked to compare and compared nothing must not look like one that found every kernel as fast as before.
"""

from __future__ import annotations

import functools
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from warpwatch.catalogue.names import size_name, unknown_word
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import timed_cases, weights_of
from warpwatch.compare import compile_cost
from warpwatch.compare.beside import ENERGY, HOST_TIME
from warpwatch.compare.beside import lines as lines_beside
from warpwatch.compare.comparison import COMPARED, Comparison
from warpwatch.compare.contracts import broken
from warpwatch.compare.reference import RECORD
from warpwatch.devices.compile.background import on_all_cores
from warpwatch.devices.info import DeviceInfo
from warpwatch.explain.explanation import CaseCode, explain, explain_call, other_code, own_code
from warpwatch.plugin import judge
from warpwatch.plugin.benchmark_run import Asked, Run
from warpwatch.plugin.contracts import BROKEN
from warpwatch.plugin.options import named_options, spelled, value_of
from warpwatch.plugin.pytest_benchmark_bridge import Benchmarks
from warpwatch.report.ladder import add_shares
from warpwatch.report.tables import contract_lines, line, sentence, summary, total_lines
from warpwatch.runs.files import run_files, write_whole
from warpwatch.runs.launched import LAUNCHES, Launched
from warpwatch.timing import observers
from warpwatch.timing.observers.data import KINDS
from warpwatch.verdict.contracts import Standing
from warpwatch.verdict.other_data import LEAST, DataEffect
from warpwatch.verdict.rule import Verdict
from warpwatch.verdict.totals import Total, total

# What observers that are asked for may have found of no case, by their options.
MEASURED = {
    "energy": "NO ENERGY WAS MEASURED",
    "host": "NO HOST TIME WAS MEASURED",
    "data": "NOTHING WAS TIMED ON OTHER DATA",
}
NOT_COMPARED = "not compared"  # a count in pytest's last line, which keeps it from being green
ENDED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
SHOWN = 20  # lines of a verdict, and rows of pytest-benchmark's table
SHOWN_WITHOUT_CLOCK = 5  # lines of a verdict, where the times are the host's and judge no kernel
# Options of pytest-benchmark that are for its tables.
FOR_TABLES = ("columns", "sort", "group-by", "name", "histogram", "verbose", "time-unit", "cprofile")
EXPLAINED = 40  # cases of a run: disassembling takes a third of a second each
TOO_MANY = f"not explained: the {EXPLAINED} worst are; python -m warpwatch explain CASE does it"
EXPLANATION = "explanation"  # a property of a report
Reporter = pytest.TerminalReporter | None


class Ending:
    """End of a run: what follows from the verdicts, once all cases are measured."""

    def __init__(self, run: Run) -> None:
        self._run, self._config = run, run.config

    def explain(self, progress: Callable[[int, int], None]) -> None:
        """Give slower and faster cases the likely cause: the worst of them, where there are many."""
        comparison, device, calls = self._run.comparison, self._run.device, {}
        decisions = comparison.decisions
        chosen = [name for name, each in decisions.items() if each.verdict in (Verdict.SLOWER, Verdict.FASTER)]
        chosen.sort(key=lambda name: -decisions[name].ratio)
        if not chosen or not isinstance(device, DeviceInfo):
            return
        target, codes = device.timing_target, list[CaseCode]()
        explanations = dict.fromkeys(chosen, TOO_MANY)
        for name, side in comparison.old_codes(chosen[:EXPLAINED], self._run.project, target).items():
            if isinstance(side, str):
                besides = changed.besides("code", LAUNCHES) if (changed := comparison.changed.get(name)) else ""
                launched = comparison.old_launches(name), Launched.of(comparison.measured[name].facts)
                call = explain_call(*launched, besides, target.arch, decisions[name].verdict)
                explanations[name] = call.sentence if call.besides else f"not explained: {side}"
                if all(each.words for each in launched):
                    comparison.explained[name] = call.record
            else:
                measured = comparison.measured[name]
                both = other_code(*side), own_code(measured.case, measured.kernel.image)
                calls[name] = functools.partial(explain, *both, target.arch, decisions[name].verdict)
                codes += both
        read = {code.image.image_hash: code.read_ahead for code in codes}
        steps = len(read)  # many cases have one image, which takes a third of a second to be read
        on_all_cores(read, lambda done, _: progress(done, steps + len(calls)))
        explained = on_all_cores(calls, lambda done, _: progress(steps + done, steps + len(calls)))
        explanations |= {name: job.result().sentence for name, job in explained.items()}
        comparison.explained |= {name: job.result().record for name, job in explained.items()}
        for name, explanation in explanations.items():
            decisions[name] = replace(decisions[name], explanation=explanation)

    def reports(self) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
        """Return the messages of cases that are slower or break a contract, and what reports hold of each, by id."""
        slower: dict[str, str] = {}
        properties: dict[str, dict[str, str]] = {}
        for name, each in self._run.comparison.decisions.items():
            properties[name] = {"verdict": str(each.verdict), "comparison": sentence(each)}
            if each.explanation:
                properties[name][EXPLANATION] = each.explanation
            if each.verdict == Verdict.SLOWER:
                slower[name] = line(each)
        for name, clauses in self._run.comparison.contracts.items():
            if text := "\n".join(broken(clauses)):
                properties.setdefault(name, {})[BROKEN] = text
                slower[name] = "\n".join(filter(None, (slower.get(name), text)))
        return slower, properties

    def about(self, benchmarks: list[dict[str, Any]]) -> dict[str, Any]:
        """Add shares to the cases of a run that is to be saved, and return what it records of itself: of ``About``."""
        run, comparison = self._run, self._run.comparison
        add_shares(run.cases, benchmarks)
        slower = {name for name, decision in comparison.decisions.items() if decision.verdict == Verdict.SLOWER}
        over = {name for name, clauses in comparison.contracts.items() if broken(clauses)}
        untrusted = judge.notes(run.worker, run.device)
        return {
            "failed": sorted(run.failed - slower - over),
            "slower": sorted(slower),
            "whole": run.whole and len(benchmarks) == len(run.selected),
            "against": comparison.against,
            "decisions": comparison.decisions,
            "controls": {name: str(decision.verdict) for name, decision in comparison.controls.items()},
            "energies": comparison.energy,
            "hosts": comparison.host,
            "contracts": comparison.contracts,
            "totals": self._totals(),
            "costs": comparison.costs,
            "past": comparison.past,
            "notes": [*(comparison.describe() if comparison.active else ()), *untrusted, *self.remarks()],
            "alarm": comparison.alarm,
            "missing": run.missing,
        }

    def conclude(self, session: pytest.Session, exitstatus: int, reporter: Reporter) -> list[str]:
        """Set the exit status that follows from the comparison, choose tables, and return the last lines of the run."""
        words: list[str] = []
        if not self._wants_tables():
            Benchmarks(self._config).hide_tables()
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and not self._config.option.collectonly:
            words = [_nothing_ran(self._config, self._run.project)]
        elif self._run.selected and exitstatus in ENDED:
            words = self._judge(session, reporter)
        return words or _nothing_tested(reporter)

    def _judge(self, session: pytest.Session, reporter: Reporter) -> list[str]:
        run, comparison, asked = self._run, self._run.comparison, self._run.asked
        reasons = value_of(self._config, "fail-on")
        observed = {option: self._observed(option) for option in MEASURED}
        silent = {option: left_out for option, (measured, left_out) in observed.items() if left_out and not measured}
        costs = compile_cost.failures(comparison.costs, reasons)
        unsure = any(each.standing == Standing.UNSURE for own in comparison.contracts.values() for each in own)
        gated = silent.keys() & {*reasons} or ("unsure" in reasons and unsure)
        if run.missing or costs or _fails(asked, comparison, reasons) or gated:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        nothing = bool(asked.option) and not comparison.compared
        others = [name for name, each in comparison.decisions.items() if each.verdict not in COMPARED]
        if reporter and (left := list(run.passed) if nothing else others):  # whole reports: other plugins read them
            reporter.stats[NOT_COMPARED] = [run.passed[name] for name in left if name in run.passed]
        words = costs
        for option, left_out in silent.items():
            words.append(f"{MEASURED[option]} ({spelled(self._config, option)}): {_reasons(left_out)}")
        if nothing:
            why = asked.nothing or _why_nothing(comparison)
            words.append(f"NOTHING WAS COMPARED ({asked.option}): {why}; no kernel could be called slower")
            words += asked.advice
        return words

    def summary(self) -> list[str]:
        """Return the lines that are printed of a run, on its comparison first."""
        run, comparison, lines = self._run, self._run.comparison, list(self._run.notes)
        facts, report = Benchmarks(self._config).facts, "--benchmark-columns=median"
        if thrown := sum(each.get("hold_timeouts", 0) for _, each in facts):
            lines.append(f"{thrown} samples were thrown away and taken again, because the hold ran into its limit")
        lines += self.remarks()
        if comparison.active:
            lines += comparison.describe()
            lines += self._verdicts() if run.concluded else ["interrupted: no case has a verdict"]
        lines += total_lines(self._totals(), self._most)
        lines += contract_lines(comparison.contracts, self._most)
        for option, subject in (("energy", "energy"), ("host", "host time")):
            measured, left_out = self._observed(option)
            if measured and left_out:
                count = f"{left_out.total()} of {measured + left_out.total()}"
                lines.append(f"{subject} of {count} kernels was not measured: {_reasons(left_out)}")
        lines += self._on_other_data()
        is_cut = any(text.startswith("... and ") for text in lines)
        if run.results.saved:
            report = f"python -m warpwatch report {shlex.quote(run.results.saved)}"
        if not self._wants_tables():
            lines.append(f"times of {len(facts)} cases: {report}; a run with -v prints them")
        if run.results.saved and is_cut:
            lines.append(f"every verdict of this run: {report} --html FOLDER")
        lines += [f"next: {step}" for step in self.next_step()]
        slug = run.gpu.get("slug", "")
        if slug and self._has_clock and not run.asked.option and not run_files(run.project.baselines / slug):
            lines.append(f"there is no baseline for {slug} yet; `{RECORD}` makes one")
        return lines

    def _totals(self) -> dict[str, Total]:
        """Return the totals of the builds whose family gives weights, by id."""
        builds = dict.fromkeys(case.build for case in self._run.cases.values() if case.family.weights)
        decisions, weights = self._run.comparison.decisions, {build: weights_of(build) for build in builds}
        totals = {b.id: total(own, decisions, len(b.family.weights) - len(own)) for b, own in weights.items()}
        return {name: each for name, each in totals.items() if each}

    def remarks(self) -> list[str]:
        """Return a line for each remark on cases, which counts them."""
        return _remarks(Benchmarks(self._config).facts)

    @property
    def _has_clock(self) -> bool:
        return bool(self._run.gpu) and not self._run.gpu.get("note")

    def _verdicts(self) -> list[str]:
        """Return lines on what was found of times, then of energies and host times, where they were measured.

        Where a list is cut, the whole of it is written beside the saved run, so that nothing is measured again to see
        it.
        """
        decisions, missing, results = self._run.comparison.decisions, self._run.missing, self._run.results
        most = self._most if self._has_clock else SHOWN_WITHOUT_CLOCK
        lines, whole = summary(decisions, missing, most), summary(decisions, missing)
        if results.saved and len(lines) != len(whole):
            file = Path(results.saved).with_suffix(".verdicts.txt")
            with results.saving(f"the list of verdicts, as {file},"):
                write_whole(file, "\n".join(whole) + "\n")
                lines = summary(decisions, missing, most, f": {file} has all")
        comparison = self._run.comparison
        return [*lines, *lines_beside(comparison.energy, ENERGY), *lines_beside(comparison.host, HOST_TIME)]

    @property
    def _most(self) -> int | None:
        """Lines of a list; None: all of them."""
        return SHOWN if not self._config.get_verbosity() > 0 else None

    def _wants_tables(self) -> bool:
        """Tell whether pytest-benchmark's tables are printed: those that are asked for, and small ones.

        Options in a repository's settings say what tables look like, and ask for none.
        """
        named, few = named_options(self._config, with_settings=False), len(Benchmarks(self._config).facts) <= SHOWN
        return few or self._config.get_verbosity() > 0 or any(f"--benchmark-{name}" in named for name in FOR_TABLES)

    def next_steps(self) -> dict[str, str]:
        """Return what to do about each slower case."""
        comparison, against = self._run.comparison, spelled(self._config, "against")
        slower = [name for name, each in comparison.decisions.items() if each.verdict == Verdict.SLOWER]
        steps = {n: each.next for n, clauses in comparison.contracts.items() for each in clauses if each.next}
        return steps | {name: step for name in slower if (step := comparison.next_step(name, against))}

    def next_step(self) -> Iterator[str]:
        """Yield what to do after a run that found a kernel wrong or slower."""
        comparison = self._run.comparison
        slower = {name: each.ratio for name, each in comparison.decisions.items() if each.verdict == Verdict.SLOWER}
        over = {name for name, clauses in comparison.contracts.items() if broken(clauses)}
        if wrong := sorted(self._run.failed - slower.keys() - over):
            is_untrusted = self._run.worker.settings.untrusted
            again = 'pytest "bench::bench_kernel[{}]" --untrusted' if is_untrusted else "python -m warpwatch run {}"
            case = next((f"; {again.format(name)}" for name in wrong if name.count("-") == 4), "")
            yield f"mend what is wrong{case}"  # a mistake in a declaration has no case
        elif slower:
            steps = self.next_steps()
            if known := slower.keys() & steps.keys():  # of a call there is none
                yield steps[max(known, key=lambda name: (slower[name], name))]
        elif over and (step := self.next_steps().get(min(over))):
            yield step

    def _on_other_data(self) -> list[str]:
        """Say how many cases were timed on other data, and of how many the time differs there."""
        timed, left_out = self._observed("data")
        lines = list[str]()
        if timed:
            facts = (facts.get("data", {}) for _, facts in Benchmarks(self._config).facts)
            effects = [[DataEffect(**effect) for effect in each.values()] for each in facts]
            differ = sum(any(effect.differs for effect in each) for each in effects)
            unsure = len(effects) - differ - sum(all(effect.is_same for effect in each) for each in effects)
            said = f"{differ} of {timed} kernels differ in time by more than {LEAST:.0%}"
            lines.append(f"other data ({', '.join(KINDS)}): {said}{f', {unsure} are unsure' if unsure else ''}")
        if timed and left_out:
            lines.append(f"other data: {left_out.total()} kernels were not timed on them: {_reasons(left_out)}")
        return lines

    def _observed(self, option: str) -> tuple[int, Counter[str]]:
        """Return how many timed cases an observer has measured, and why not others; neither where nobody asked."""
        measured, left_out, observer = 0, Counter[str](), observers.BY_OPTION[option]
        for name, facts in Benchmarks(self._config).facts if value_of(self._config, option) else ():
            if any(map(facts.get, observer.units)):
                measured += 1
            elif why := observer.leaves_out(self._run.cases[name]):
                left_out[why] += 1
            elif self._run.cases[name].variant.call and (
                (self._run.asked.against and not observer.is_apart) or value_of(self._config, "untrusted")
            ):
                left_out["it is a call, which runs in a process of its own"] += 1
            else:
                left_out[observer.missing] += 1
        return measured, left_out


def _remarks(cases: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Return a line for each remark, with the first case that has it."""
    named: dict[str, list[str]] = {}
    for name, facts in cases:
        for remark in facts.get("remarks", ()):
            named.setdefault(remark, []).append(name)
    return [
        f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {remark}"
        for remark, names in named.items()
    ]


def _reasons(left_out: Counter[str]) -> str:
    return ", ".join(f"{count} because {why}" for why, count in left_out.most_common())


def _why_nothing(comparison: Comparison) -> str:
    """Say why no case was compared."""
    decisions = comparison.decisions.values()
    reasons = Counter(": ".join(filter(None, [str(each.verdict), each.reason])) for each in decisions)
    listed = "; ".join(f"{count} {reason}" for reason, count in reasons.most_common(3))
    return listed or "no case was measured to its end"


def _fails(asked: Asked, comparison: Comparison, reasons: list[str]) -> bool:
    """Tell whether the comparison fails a run whose tests all passed. ``reasons``: of --fail-on."""
    if ("common" in reasons and comparison.alarm) or comparison.grown & {*reasons}:
        return True
    if asked.option and not comparison.compared and (asked.required or "incomparable" in reasons):
        return True
    verdicts = {decision.verdict for decision in comparison.decisions.values()}
    if Verdict.INCOMPARABLE in verdicts and comparison.lacks:
        return True  # a case may have needed a submodule that is not here
    return any(str(verdict) in reasons for verdict in verdicts & {Verdict.UNSURE, Verdict.INCOMPARABLE})


def _nothing_ran(config: pytest.Config, project: Project) -> str:
    """Say that no test is left, and by which selection, or which file is not there, of which xdist is silent."""
    here, given = config.invocation_params.dir, [] if config.option.pyargs else config.args
    if absent := [each for each in given if not (here / each.partition("::")[0]).exists()]:
        return f"NOTHING RAN: file or directory not found: {', '.join(absent)}"
    chosen = [f"-k {config.option.keyword!r}" * bool(config.option.keyword)]
    chosen += [f"-m {config.option.markexpr!r}" * bool(config.option.markexpr)]
    sizes = ",".join(map(size_name, value_of(config, "sizes")))
    chosen += [f"{spelled(config, 'sizes')} {sizes}" * bool(sizes), " ".join(config.args)]
    hint = unknown_word(config.option.keyword, (case.id for case in timed_cases(project.families)))
    return f"NOTHING RAN: no test is left of those that {' and '.join(filter(None, chosen))} select{hint}"


def _nothing_tested(reporter: Reporter) -> list[str]:
    """Return the last line of a run whose tests were all skipped, which would otherwise end like a good one."""
    stats = reporter.stats if reporter else {}
    skipped = len(stats.get("skipped", ()))
    if not skipped or any(stats.get(kind) for kind in ("passed", "failed", "error", "xfailed", "xpassed")):
        return []
    return [f"NOTHING WAS TESTED: all {skipped} tests were skipped; the lines above say what each of them needs"]
