"""Charts and tables of the pages. A chart is data that assets/site.js gives to uPlot: a dictionary that becomes JSON.

uPlot has 51 kB; Plotly's basic bundle has 1,192 and Vega with Vega-Lite 772, of the 5 MB that a site may have.

A thousand pages shall be small. So charts of a case hold their figures alone, of a kind ``k`` (samples, change, history
or roofline), and assets/site.js adds the rest. The others say all: a height ``h``, axes ``x`` and ``y`` (``l`` label,
``k`` kind: num, log, cat or nights, ``v`` values) and series ``s`` (``l`` label, ``c`` number of the colour, ``w``
width, ``k`` kind: line, dot or both, ``v`` values, null where there is none). The values of kind nights are in
assets/nights.js.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from warpwatch.report.site.material import Entry
from warpwatch.verdict.rule import Decision

Spec = Mapping[str, Any]
MOST_BINS = 24


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Chart: its title, a sentence for readers who cannot see it, and its data."""

    title: str
    says: str
    spec: Spec = field(default_factory=dict)
    note: str = ""


def rounded(value: float, digits: int = 4) -> float | int:
    """Round to significant digits: a page holds hundreds of figures, and a chart shows no more."""
    if not math.isfinite(value) or value == 0:
        return 0
    exact = round(value, digits - 1 - math.floor(math.log10(abs(value))))
    return int(exact) if exact == int(exact) else exact


def distribution(old: Sequence[float], new: Sequence[float]) -> Spec:
    """Histograms of samples in seconds, of both sides on the same bins; the farthest 1 % at each end is left out."""
    both = 1e6 * np.array([*old, *new])
    low, high = np.percentile(both, [1, 99])
    inside = both[(both >= low) & (both <= high)]
    edges = np.histogram_bin_edges(inside, bins="auto")
    if len(edges) - 1 > MOST_BINS:
        edges = np.linspace(low, high, MOST_BINS + 1)
    if len(edges) < 3:
        edges = np.linspace(low - 0.02 * low, high + 0.02 * high, 6)
    step = float(edges[1] - edges[0])
    shares = [
        [rounded(100 * count / len(side), 2) for count in np.histogram(1e6 * np.array(side), bins=edges)[0]]
        if len(side)
        else []
        for side in (old, new)
    ]
    first = rounded(float(edges[0]) + step / 2, 7)
    return {"k": "samples", "e": [first, rounded(step, 5)], "v": shares}


def change(decision: Decision) -> Spec:
    """The change in per cent with its 95 % interval, and the noise floor."""
    low, middle, high = (rounded(100 * (value - 1)) for value in (decision.low, decision.ratio, decision.high))
    floor = 100 * decision.floor
    under = rounded(100 * (1 / (1 + decision.floor) - 1))
    return {"k": "change", "v": [low, middle, high, under, rounded(floor)]}


def history(medians: Sequence[float | None], levels: Sequence[tuple[int, int, float]]) -> Spec:
    """Medians in seconds, night by night, and the levels between change points: first night, last night, seconds.

    Medians are written as whole numbers of a unit, above the least of them.
    """
    known = [1e6 * value for value in medians if value is not None]
    unit = 10.0 ** (math.floor(math.log10(min(known))) - 3)  # four digits
    least = round(min(known) / unit)
    values = [None if value is None else round(1e6 * value / unit) - least for value in medians]
    lines = [[first, last, rounded(1e6 * seconds)] for first, last, seconds in levels] if len(levels) > 1 else []
    return {"k": "history", "u": [rounded(unit), least], "v": values, "levels": lines}


@dataclass(frozen=True, kw_only=True)
class Roof:
    """Limits of a roofline: the memory's peak in bytes a second, and the highest rate that was measured."""

    bytes_per_second: float
    rate: float
    of: str = ""


def roofline(roof: Roof, points: Mapping[str, Sequence[tuple[float, float]]], unit: str) -> Spec:
    """Rates (operations a second) over intensity (operations a byte), by label, under the roof."""
    short = {label: [[rounded(x), rounded(y / 1e9)] for x, y in each] for label, each in points.items()}
    return {
        "k": "roofline",
        "roof": [rounded(roof.bytes_per_second / 1e9), rounded(roof.rate / 1e9)],
        "u": unit,
        "v": short,
    }


def by_category(
    names: Sequence[str], series: Mapping[str, Sequence[float | None]], label: str, x: str, *, zero: bool = True
) -> Spec:
    """A line for each series over named categories, such as shapes."""
    return {
        "h": 340,
        "x": {"l": x, "k": "cat", "v": list(names)},
        "y": {"l": label, "k": "num", "z": int(zero)},
        "s": [
            {"l": name, "k": "both", "c": i, "v": [None if value is None else rounded(value) for value in values]}
            for i, (name, values) in enumerate(series.items())
        ],
    }


def scatter(series: Mapping[str, Sequence[tuple[float, float]]], x: str, y: str) -> Spec:
    """Points over a logarithmic axis, of several colours."""
    xs = sorted({a for points in series.values() for a, _ in points})
    place = {a: i for i, a in enumerate(xs)}
    drawn = []
    for i, (name, points) in enumerate(series.items()):
        values: list[float | None] = [None] * len(xs)
        for a, b in points:
            values[place[a]] = rounded(b)
        drawn.append({"l": name, "k": "dot", "c": i, "w": 5, "v": values})
    return {
        "h": 260,
        "x": {"l": x, "k": "log", "v": [rounded(a) for a in xs]},
        "y": {"l": y, "k": "log"},
        "s": drawn,
    }


def over_nights(values: Sequence[float], label: str, unit: str) -> Spec:
    """One value for each night."""
    series = [{"l": label, "k": "both", "c": 0, "v": [rounded(value) for value in values]}]
    return {"h": 180, "x": {"k": "nights"}, "y": {"l": unit, "k": "num"}, "s": series}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Cell of a table. ``heat``: how strongly it is shaded, 0 to 1; None for not at all."""

    text: str = ""
    more: str = ""
    page: str = ""
    heat: float | None = None


@dataclass(frozen=True, kw_only=True)
class Table:
    """Table whose first ``heads`` columns name its rows. ``note`` says what shade and figures mean."""

    title: str
    columns: Sequence[str]
    rows: Sequence[tuple[Sequence[str], Sequence[Cell | None]]]
    note: str = ""

    @property
    def heads(self) -> int:
        return len(self.columns) - (len(self.rows[0][1]) if self.rows else 0)


def micro(seconds: float) -> str:
    """Write seconds as µs, with digits that suit the size."""
    us = 1e6 * seconds
    return f"{us:,.2f}" if us < 1000 else f"{us:,.1f}" if us < 10_000 else f"{us:,.0f}"


def percent(ratio: float, digits: int = 1) -> str:
    """Write a ratio as a change: 1.06 -> +6.0 %."""
    if math.isnan(ratio):
        return "–"
    text = f"{100 * (ratio - 1):+.{digits}f}"
    return f"{text[1:] if float(text) == 0 else text} %".replace("-", "−")


def nano(seconds: float) -> str:
    """Write what is added to every launch: −1,096 ns."""
    nanoseconds = round(1e9 * seconds)
    return f"{nanoseconds:+,} ns".replace("-", "−") if nanoseconds else "0 ns"


def cell_of(entry: Entry, text: str, more: str = "", heat: float | None = None) -> Cell:
    return Cell(text=text, more=more, page=entry.page, heat=None if heat is None else round(max(0, min(1, heat)), 2))
