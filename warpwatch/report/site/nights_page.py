"""Makes the page of all nights: a calendar, what each run did to every case, every lasting change, every run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise
from typing import Any

from warpwatch.report.site.figures import Chart, Spec, rounded
from warpwatch.report.site.material import Material
from warpwatch.runs.record import RunRecord
from warpwatch.verdict.process_effects import ProcessEffect

LONGEST_GAP = 2  # weeks without a run that the calendar shows; of more it says the number


@dataclass(frozen=True, kw_only=True)
class Night:
    """Run of the history. ``number``: its place, from which links are made."""

    number: int
    run: RunRecord
    effect: ProcessEffect
    verdicts: Counter[str]
    steps: int = 0

    @property
    def state(self) -> str:
        """The worst that there is to say of it, in a word that is also its colour."""
        if self.run.failed:
            return "failed"
        if self.verdicts["slower"] or self.run.slower:
            return "slower"
        return "compared" if self.verdicts else "measured"


@dataclass(frozen=True, kw_only=True)
class Day:
    """Day of the calendar and its runs, the last of which it links to."""

    date: date
    nights: Sequence[Night] = ()

    @property
    def state(self) -> str:
        order = ("failed", "slower", "compared", "measured")
        return next((state for state in order if any(night.state == state for night in self.nights)), "")

    @property
    def said(self) -> str:
        """Number of cases that failed in its runs, or became slower; nothing on a quiet day."""
        failed = sum(len(night.run.failed) for night in self.nights)
        slower = sum(night.verdicts["slower"] or len(night.run.slower) for night in self.nights)
        return f"{failed} failed" if failed else f"{slower} slower" if slower else ""


@dataclass(frozen=True, kw_only=True)
class Week:
    """Seven days from Monday on, or in their place how many weeks had no run."""

    days: Sequence[Day] = ()
    without: int = 0


def nights_page(material: Material) -> dict[str, Any]:
    """Return what the page of all nights shows, the newest first."""
    begun = Counter(step.after.path for step in material.steps)
    nights = [
        Night(number=i, run=run, effect=effect, verdicts=_verdicts(run), steps=begun[run.path])
        for i, (run, effect) in enumerate(zip(material.nights, material.effects, strict=True))
    ]
    return {"nights": nights[::-1], "weeks": calendar(nights), "steps": material.steps, "charts": _charts(nights)}


def _verdicts(run: RunRecord) -> Counter[str]:
    return Counter(str(decision.verdict) for decision in run.decisions.values())


def calendar(nights: Sequence[Night]) -> list[Week]:
    """Arrange nights by weeks, oldest first; of longer gaps only the number of weeks is told."""
    by_day: dict[date, list[Night]] = {}
    for night in nights:
        if night.run.when:
            by_day.setdefault(night.run.when.date(), []).append(night)
    if not by_day:
        return []
    mondays = sorted({day - timedelta(days=day.weekday()) for day in by_day})
    weeks = [_week(mondays[0], by_day)]
    for before, monday in pairwise(mondays):
        empty = (monday - before).days // 7 - 1
        if empty > LONGEST_GAP:
            weeks.append(Week(without=empty))
        else:
            weeks += [_week(before + timedelta(weeks=i), by_day) for i in range(1, empty + 1)]
        weeks.append(_week(monday, by_day))
    return weeks


def _week(monday: date, by_day: dict[date, list[Night]]) -> Week:
    days = [monday + timedelta(days=i) for i in range(7)]
    return Week(days=[Day(date=day, nights=by_day.get(day, ())) for day in days])


def _charts(nights: Sequence[Night]) -> list[Chart]:
    if len(nights) < 2 or not any(night.effect.controls for night in nights):
        return []
    factors = [100 * (night.effect.factor - 1) for night in nights]
    offsets = [1e9 * night.effect.offset for night in nights]
    return [
        Chart(
            title="Common factor",
            spec=_over_nights(factors, "factor", "%"),
            says=f"What each run does to the time of every long case: {min(factors):+.2f} to {max(factors):+.2f} %",
        ),
        Chart(
            title="Common offset",
            spec=_over_nights(offsets, "offset", "ns"),
            says=f"What each run adds to every launch: {min(offsets):+.0f} to {max(offsets):+.0f} ns",
        ),
    ]


def _over_nights(values: Sequence[float], label: str, unit: str) -> Spec:
    """One value for each night."""
    series = [{"l": label, "k": "both", "c": 0, "v": [rounded(value) for value in values]}]
    return {"h": 180, "x": {"k": "nights"}, "y": {"l": unit, "k": "num"}, "s": series}
