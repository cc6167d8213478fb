"""The judge of --benchmark-compare: finds the baseline, and when all is measured gives every case its verdict."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from math import exp, log
from pathlib import Path
from statistics import fmean, median

from warpwatch.catalogue.declaration import Case
from warpwatch.compare.comparison import count_compared, recorded_facts
from warpwatch.compare.doubts import SAME_CODE, clock_ratio, doubt, same_code, slow_clock
from warpwatch.devices.worker import Kernel
from warpwatch.runs.saved import SETTINGS, BadRun, Gpu, Run, read_usable, typed
from warpwatch.timing.parent_samples import Again, Budget, Measured, prepare, remeasure
from warpwatch.verdict.rule import (
    CONTROLS,
    Common,
    Decision,
    Effect,
    Prior,
    Verdict,
    aligned,
    apart,
    common,
    decide,
    furthest,
    learn,
    mean_of,
)

OWN_RUNS = 3  # so many runs on the very GPU at hand are enough to compare with these alone
FEW_UNITS = 3  # with fewer GPUs in the baseline than this, nobody knows how far two of them differ
# Two H200s with the same machine code: 478 of 484 cases within 4.5 %, the other six up to 24 % apart. That is the least
# floor on a GPU that the baseline does not have, unless three others and enough unchanged cases show a smaller one: of
# ten H200s, each against four of the others, the furthest of 845 cases was up to 12 floors off, in half of them 1.8.
BETWEEN_GPUS = 0.25
MOST_PROCESSES = 6  # of a case that is hard to decide
# Of one whose machine code is the baseline's: it can only be the same or unsure. On an H200 that the baseline does not
# know, three left 26 of 867 unsure, and six 22.
ENOUGH_OF_THE_SAME = 3
CONTROL_SECONDS = 1e-3  # medians of the cases that a confirmation measures beside the undecided ones


@dataclass
class BaselineComparison:
    """``runs`` is the baseline, ``unit`` the GPU at hand; ``apart`` says why the two cannot be compared, if so.

    ``doubt`` says why a time of this device proves nothing, if so.
    """

    runs: Sequence[Run] = ()
    unit: str = ""
    apart: str = ""
    doubt: str = ""
    measured: dict[str, Measured] = field(default_factory=dict)
    decisions: dict[str, Decision] = field(default_factory=dict)
    prior: Prior | None = None
    common: Common = field(default_factory=Common)
    alarm: str = ""  # of what every case has in common
    widened: str = ""  # why floors are wider than the baseline's spread asks for, if so

    @property
    def active(self) -> bool:
        return bool(self.runs)

    @property
    def compared(self) -> int:
        return count_compared(self.decisions)

    def measure(self, kernel: Kernel, case: Case, cold: bool, budget: Budget) -> Measured | None:
        """Ready to be sampled; None would be a case that needs no measuring. Raises WrongResult or DeviceError."""
        return prepare(kernel, case, cold, budget)

    def add(self, measured: Measured, samples: Sequence[float]) -> None:
        """Take note of a measured case. The serial variants are not judged: no GPU runs them."""
        if self.runs and not measured.case.variant.on_host:
            measured.processes.append(list(samples))
            self.measured[measured.case.id] = measured

    def conclude(self, again: Again) -> None:
        """Judge all cases together. Fresh processes measure again what is undecided."""
        compared: dict[str, Measured] = {}
        past = self._past()
        for name, measured in self.measured.items():
            spoilt = next((run.problems[name] for run in self.runs if name in run.problems), "")
            if not any(name in run.cases for run in self.runs):
                self.decisions[name] = Decision(Verdict.INCOMPARABLE if spoilt else Verdict.NEW, reason=spoilt)
            elif self.apart:
                self.decisions[name] = Decision(Verdict.INCOMPARABLE, reason=self.apart)
            elif not any(name in run.cases for run in past):
                self.decisions[name] = Decision(Verdict.INCOMPARABLE, reason="only runs on another GPU have it")
            else:
                compared[name] = measured
        if not compared:
            return
        trial = Trial(past, compared, self.unit, self.doubt)
        self.decisions |= trial.run(again)
        self.prior, self.common, self.widened = trial.prior, trial.commons[0], trial.describe()
        self.alarm = self.common.alarm(trial.known)
        for name, measured in self.measured.items():
            measured.facts["verdict"] = str(self.decisions[name].verdict)
            if len(measured.processes) > 1:
                measured.facts["again"] = measured.processes[1:]

    def _past(self) -> list[Run]:
        own = [run for run in self.runs if run.unit == self.unit]
        return own if len(own) >= OWN_RUNS else list(self.runs)

    def describe(self) -> list[str]:
        """What is compared with, and what this run has in common."""
        own = sum(run.unit == self.unit for run in self.runs)
        text = f"baseline: {len(self.runs)} runs in {self.runs[0].path.parent}, {own} of them on this very device"
        if own < min(OWN_RUNS, len(self.runs)):
            text += f"; with {OWN_RUNS} of them, floors would be those of one GPU, not of its model"
        lines = [text]
        if len(self.runs) < OWN_RUNS:
            lines.append(
                f"of {len(self.runs)} runs nobody learns a spread: that of an H200 is taken; five make a baseline"
            )
        if self.common.controls:
            found = f"{100 * (self.common.factor - 1):+.2f} % and {self.common.offset * 1e9:+.0f} ns"
            lines.append(f"common to this run, and taken out: {found}, by {self.common.controls} unchanged cases")
        return [*lines, *filter(None, [self.widened, self.alarm])]

    def missing(self, ran: set[str]) -> list[str]:
        """GPU cases of the baseline that a whole run did not have."""
        known = {name for run in self.runs for name, timed in run.cases.items() if timed.facts.cache != "host"}
        return sorted(known - ran)


class Trial:
    """Cases that the baseline knows: this run's processes against those of ``past``."""

    def __init__(self, past: Sequence[Run], measured: Mapping[str, Measured], unit: str, doubt: str) -> None:
        self.measured, self.unit, self.doubt = measured, unit, doubt
        runs = [{name: median(t.samples) for name, t in run.cases.items() if name in measured} for run in past]
        self.units = dict.fromkeys(run.unit for run in past)
        self.own = set(self.units) == {unit}
        self.past = aligned(runs)
        if not self.own:  # a GPU counts once, however many its runs
            of_unit = [[own for own, run in zip(self.past, past, strict=True) if run.unit == u] for u in self.units]
            self.past = [mean_of(processes) for processes in of_unit]
        self.facts = {name: [run.cases[name].facts for run in past if name in run.cases] for name in measured}
        self.reference = mean_of(self.past)
        self.known = [common(self.reference, run) for run in runs]
        self.unchanged = {name for name, m in measured.items() if same_code(recorded_facts(m), self.facts[name])}
        self.prior: Prior | None = None
        self.widened = 1.0
        self.commons: list[Common] = []
        self._new: list[dict[str, float]] = []
        self._absorb({name: measured.processes[0] for name, measured in measured.items()})

    def _absorb(self, samples: Mapping[str, Sequence[float]]) -> None:
        """One more process of this run, rid of what it does to every case."""
        medians = {name: median(values) for name, values in samples.items()}
        controls = {name: medians[name] for name in self.unchanged if name in medians}
        self.commons.append(common(self.reference, controls))
        self._new.append({name: self.commons[-1].remove(seconds) for name, seconds in medians.items()})

    def run(self, again: Again) -> dict[str, Decision]:
        decisions = self._decide()
        for _ in range(MOST_PROCESSES - 1):
            todo = [
                name
                for name, decision in decisions.items()
                if decision.verdict == Verdict.UNSURE and self._may_change(name)
            ]
            if not todo or self.doubt:
                break
            chosen = dict.fromkeys([*todo, *self._controls()])
            samples = remeasure([self.measured[name] for name in chosen], again)
            for name, values in samples.items():
                self.measured[name].processes.append(list(values))
            self._absorb(samples)
            decisions = self._decide()
        return decisions

    def _may_change(self, name: str) -> bool:
        """Whether another process could make more of an unsure case."""
        measured = self.measured[name]
        enough = name in self.unchanged and len(measured.processes) >= ENOUGH_OF_THE_SAME
        return not (enough or slow_clock(recorded_facts(measured)))

    def _controls(self) -> list[str]:
        """Quick cases of unchanged code, evenly over their sizes: they show what a process does to all."""
        quick = sorted((self.reference[n], n) for n in self.unchanged if self.reference[n] < CONTROL_SECONDS)
        return [name for _, name in quick[:: max(1, len(quick) // (CONTROLS + CONTROLS // 3))]]

    def _decide(self) -> dict[str, Decision]:
        effects = {name: self._effect(name) for name in self.measured}
        if self.prior is None:
            self.prior = learn(list(effects.values()))
        steady = [effects[name] for name in self.unchanged if not slow_clock(recorded_facts(self.measured[name]))]
        if steady and not (self.own or self._least_floor()):
            self.widened = furthest(steady, self.prior)
        return decide(effects, self.prior, looks=MOST_PROCESSES, widened=self.widened)

    def _least_floor(self) -> float:
        known = self.own or (len(self.units) >= FEW_UNITS and len(self.unchanged) >= CONTROLS)
        return 0.0 if known else BETWEEN_GPUS

    def describe(self) -> str:
        """Why floors are wider than the baseline's spread asks for, or nothing."""
        if self._least_floor():
            return (
                f"nothing below {100 * BETWEEN_GPUS:.0f} % is called slower: it takes {FEW_UNITS} GPUs in the baseline "
                f"and {CONTROLS} cases of unchanged machine code in the run to tell how this GPU differs"
            )
        if self.widened > 1:
            return f"floors are {self.widened:.1f} times as wide: so far off is a case of unchanged machine code here"
        return ""

    def _effect(self, name: str) -> Effect:
        old, new = ([process[name] for process in side if name in process] for side in (self.past, self._new))
        facts = recorded_facts(self.measured[name])
        why, clock = self.doubt or doubt(facts, self.facts[name]), clock_ratio(facts, self.facts[name])
        no_gain = self.doubt or SAME_CODE * (name in self.unchanged)
        if self.own:
            return replace(apart(old, new), doubt=why, no_gain=no_gain, clock=clock)
        one = apart(old, [exp(fmean(map(log, new)))])
        return replace(one, doubt=why, no_gain=no_gain, clock=clock, floor=self._least_floor(), processes=len(new))


def find_runs(chosen: str | bool, storage: Path, baselines: Path, slug: str, unit: str) -> tuple[list[Run], list[str]]:
    """The baseline that --benchmark-compare names, and what could not be used of it. Raises BadRun.

    Without a value: the committed one of this GPU, or for want of that what was saved here and is neither wrong nor
    slower. With one: a file, a folder of runs, or the start of the names of saved runs, such as 0003.
    """
    if chosen is True:
        runs, problems = read_usable(sorted((baselines / slug).glob("*.json")))
        if runs:
            return runs, problems
        runs, problems = read_usable(sorted((storage / slug).glob("*.json")))
        return [r for r in runs if r.unit == unit and not (r.failed or r.slower or r.against)], problems
    path = Path(str(chosen))
    if os.path.isfile(path):  # unlike Path.is_file, never an error
        return read_usable([path])
    folder = path if os.path.isdir(path) else storage / slug
    pattern = "*.json" if folder == path else f"{chosen}*.json"
    found = sorted(run for run in folder.glob("*.json") if fnmatchcase(run.name, pattern))  # glob refuses "/no/such"
    if not found:
        raise BadRun(f"--benchmark-compare={chosen}: no such run in {folder}")
    return read_usable(found)


def difference(runs: Sequence[Run], gpu: Mapping[str, object]) -> str:
    """What makes this run and the baseline incomparable, or nothing."""
    here = Run(path=Path(), gpu=typed(gpu, Gpu))
    apart = [
        f"another {word} ({run.setting(name) or 'none'} then, {here.setting(name) or 'none'} now)"
        for name, word in SETTINGS.items()
        for run in runs
        if run.setting(name) != here.setting(name)
    ]
    return "; ".join(dict.fromkeys(apart))
