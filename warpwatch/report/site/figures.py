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

from warpwatch.report.site.material import Entry

Spec = Mapping[str, Any]


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
