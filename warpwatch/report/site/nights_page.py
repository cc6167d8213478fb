"""Page of all nights: a calendar, what each run did to every case, every lasting change, every run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from itertools import pairwise

from warpwatch.report.numbers import rounded
from warpwatch.report.site.content import Content
from warpwatch.report.site.figures import Chart
from warpwatch.runs.record import RunRecord
from warpwatch.verdict.process_effects import ProcessEffect

LONGEST_GAP = 2  # weeks without a run that the calendar shows; of more it says the number
WEEK = timedelta(weeks=1)


@dataclass(frozen=True, kw_only=True)
class Night:
    """Run of the history. ``number``: its place, for links. ``steps``: changes of kernels from it on."""

    number: int
    run: RunRecord
    effect: ProcessEffect
    steps: int

    @cached_property
    def verdicts(self) -> Counter[str]:
        return Counter(str(decision.verdict) for decision in self.run.decisions.values())

    @property
    def slower(self) -> int:
        return self.verdicts["slower"] or len(self.run.slower)

    @property
    def state(self) -> str:
        """The worst that there is to say of it, in a word that is also its colour."""
        if self.run.failed:
            return "failed"
        if self.slower:
            return "slower"
        return "compared" if self.verdicts else "measured"


@dataclass(frozen=True, kw_only=True)
class Day:
    """Day of the calendar and its runs, the last of which it links to."""

    date: date
    nights: Sequence[Night]

    @property
    def state(self) -> str:
        states = {night.state for night in self.nights}
        return next((state for state in ("failed", "slower", "compared", "measured") if state in states), "")

    @property
    def said(self) -> str:
        """Number of cases that failed in its runs, or became slower; nothing on a quiet day."""
        failed = sum(len(night.run.failed) for night in self.nights)
        slower = sum(night.slower for night in self.nights)
        return f"{failed} failed" if failed else f"{slower} slower" if slower else ""


@dataclass(frozen=True)
class NightsPage:
    content: Content

    @cached_property
    def nights(self) -> list[Night]:
        """The nights, the newest first."""
        begun = Counter(step.after.path for step in self.content.kernel_steps)
        runs = zip(self.content.nights, self.content.effects, strict=True)
        nights = [
            Night(number=i, run=run, effect=effect, steps=begun[run.path]) for i, (run, effect) in enumerate(runs)
        ]
        return nights[::-1]

    @property
    def weeks(self) -> list[list[Day] | int]:
        """The days of each week from Monday on, oldest first; of longer gaps the number of weeks without a run."""
        nights, weeks = defaultdict[date, list[Night]](list), list[list[Day] | int]()
        for night in reversed(self.nights):
            if night.run.when:
                nights[night.run.when.date()].append(night)
        mondays = sorted({day - timedelta(days=day.weekday()) for day in nights})
        for before, monday in pairwise([mondays[0] - WEEK, *mondays]):
            empty = (monday - before) // WEEK - 1
            if empty > LONGEST_GAP:
                weeks.append(empty)
                empty = 0
            for first in (monday - i * WEEK for i in range(empty, -1, -1)):
                days = (first + timedelta(days=i) for i in range(7))
                weeks.append([Day(date=day, nights=nights.get(day, ())) for day in days])
        return weeks

    @property
    def charts(self) -> list[Chart]:
        """Effects of each run on every case."""
        effects = [night.effect for night in reversed(self.nights)]
        if len(effects) < 2 or not any(effect.controls for effect in effects):
            return []
        factors = [100 * (effect.factor - 1) for effect in effects]
        offsets = [1e9 * effect.offset for effect in effects]
        multiplied = f"does to the time of every long case: {min(factors):+.2f} to {max(factors):+.2f} %"
        added = f"adds to every launch: {min(offsets):+.0f} to {max(offsets):+.0f} ns"
        return [_chart("factor", "%", factors, multiplied), _chart("offset", "ns", offsets, added)]


def _chart(label: str, unit: str, values: Sequence[float], what: str) -> Chart:
    series = [{"l": label, "k": "both", "c": 0, "v": [rounded(value) for value in values]}]
    spec = {"h": 180, "x": {"k": "nights"}, "y": {"l": f"{label}, {unit}", "k": "num"}, "s": series}
    return Chart(title=f"Common {label}", says=f"What each run {what}", spec=spec)
