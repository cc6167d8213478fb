"""The run's judge: finds the baseline, gives every case its verdict, and keeps them for the summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from bench.baseline import BASELINES, SETTINGS, BadRun, Run, read_run, read_runs
from bench.measure import Measured
from bench.verdict import OWN_RUNS, Judgement, Past, Verdict, judge


@dataclass
class Gate:
    """``runs`` is the baseline, ``unit`` the GPU at hand; ``apart`` says why the two cannot be compared, if so.

    ``doubt`` says why a time of this device proves nothing, if so.
    """

    runs: Sequence[Run] = ()
    unit: str = ""
    apart: str = ""
    doubt: str = ""
    cases: int = 1
    judgements: dict[str, Judgement] = field(default_factory=dict)

    def judge(self, measured: Measured, samples: Sequence[float]) -> None:
        """Judge one case; pytest.fail where it is slower. The serial variants are not judged: no GPU runs them."""
        if not self.runs or measured.case.variant.on_host:
            return
        name = measured.case.id
        history = [Past(run.cases[name].samples, run.unit) for run in self.runs if name in run.cases]
        if not history:
            judgement = Judgement(Verdict.NEW)
        elif self.apart:
            judgement = Judgement(Verdict.INCOMPARABLE, reason=self.apart)
        else:
            judgement = judge(history, samples, None, self.unit, self.cases)
            if judgement.change > judgement.limit:
                again = measured.again()
                measured.facts["again"] = again
                judgement = judge(history, samples, again, self.unit, self.cases)
            judgement = doubted(throttled(judgement, measured), self.doubt)
        self.judgements[name] = judgement
        measured.facts["verdict"] = str(judgement.verdict)
        if judgement.verdict == Verdict.SLOWER:
            pytest.fail(line(judgement), pytrace=False)

    def describe(self) -> str:
        """What is compared with, in a line."""
        own = sum(run.unit == self.unit for run in self.runs)
        text = f"baseline: {len(self.runs)} runs in {self.runs[0].path.parent}, {own} of them on this very device"
        if own < OWN_RUNS:
            text += f"; with {OWN_RUNS} of them, limits would be those of one GPU, not of its model"
        return text

    def missing(self, ran: set[str]) -> list[str]:
        """GPU cases of the baseline that a whole run did not have."""
        known = {name for run in self.runs for name, timed in run.cases.items() if timed.facts.get("cache") != "host"}
        return sorted(known - ran)


def throttled(judgement: Judgement, measured: Measured) -> Judgement:
    """A slowdown that a low clock explains is not the kernel's: unsure, with the reason."""
    reasons = sorted({reason for side in measured.facts.get("throttle", ()) for reason in side})
    if judgement.verdict != Verdict.SLOWER or not reasons:
        return judgement
    return replace(judgement, verdict=Verdict.UNSURE, reason=f"clock throttled: {', '.join(reasons)}")


def doubted(judgement: Judgement, reason: str) -> Judgement:
    """A slowdown that is the host's as likely as the kernel's: unsure, with the reason."""
    if judgement.verdict != Verdict.SLOWER or not reason:
        return judgement
    return replace(judgement, verdict=Verdict.UNSURE, reason=reason)


def line(judgement: Judgement) -> str:
    """Such as: slower than baseline: median 45.2 -> 47.9 µs (+6.0 %, limit +2.1 %)."""
    verdict = judgement.verdict
    said = f"{verdict} than baseline" if verdict in (Verdict.SLOWER, Verdict.FASTER) else verdict
    then, now = judgement.baseline * 1e6, judgement.median * 1e6
    digits = 2 if then < 100 else 1
    return (
        f"{said}: median {then:,.{digits}f} -> {now:,.{digits}f} µs "
        f"({100 * judgement.change:+.1f} %, limit {100 * judgement.limit:+.1f} %)"
    )


def find_runs(chosen: str | bool, storage: Path, slug: str, unit: str) -> list[Run]:
    """The baseline that --benchmark-compare names. Raises BadRun.

    Without a value: the committed one of this GPU, or for want of that what was saved here and is neither wrong nor
    slower. With one: a file, a folder of runs, or the start of the names of saved runs, such as 0003.
    """
    if chosen is True:
        return read_runs(BASELINES / slug) or [
            run for run in read_runs(storage / slug) if run.unit == unit and not run.failed and not run.slower
        ]
    path = Path(str(chosen))
    if path.is_file():
        return [read_run(path)]
    folder = path if path.is_dir() else storage / slug
    found = sorted(folder.glob("*.json" if path.is_dir() else f"{chosen}*.json"))
    if not found:
        raise BadRun(f"--benchmark-compare={chosen}: no such run in {folder}")
    return [read_run(path) for path in found]


def difference(runs: Sequence[Run], gpu: Mapping[str, object]) -> str:
    """What makes this run and the baseline incomparable, or nothing."""
    here = Run(Path(), gpu, {}, True, {})
    apart = [
        f"another {word} ({run.setting(name)} then, {here.setting(name)} now)"
        for name, word in SETTINGS.items()
        for run in runs
        if run.setting(name) != here.setting(name)
    ]
    return "; ".join(dict.fromkeys(apart))
