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
from dataclasses import dataclass
from typing import Any

from warpwatch.report.site.material import Entry, Roof


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Chart: its title, a sentence for readers who cannot see it, and its data."""

    title: str
    says: str
    spec: Mapping[str, Any]
    note: str = ""


def rounded(value: float, digits: int = 4) -> float | int:
    """Round to significant digits: a page holds hundreds of figures, and a chart shows no more."""
    if not math.isfinite(value) or value == 0:
        return 0
    exact = round(value, digits - 1 - math.floor(math.log10(abs(value))))
    return int(exact) if exact == int(exact) else exact


def roofline(
    roof: Roof, points: Mapping[str, Sequence[tuple[float, float]]], case: Entry, says: str, **more: int
) -> Chart:
    """Show rates (operations a second) over intensity (operations a byte), by label, under the roof of a case."""
    short = {label: [[rounded(x), rounded(y / 1e9)] for x, y in each] for label, each in points.items()}
    limits = [rounded(roof.bytes_per_second / 1e9), rounded(roof.rate / 1e9)]
    return Chart(
        title="Roofline",
        says=says,
        spec={"k": "roofline", "roof": limits, "u": case.unit, "v": short, **more},
        note=f"Flat part: the highest rate of {case.dtype} in this run, of {roof.of}.",
    )


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Cell of a table. ``heat``: how strongly it is shaded, 0 to 1; None for not at all."""

    text: str
    more: str = ""
    page: str = ""
    heat: float | None = None


@dataclass(frozen=True, kw_only=True)
class Table:
    """Table: each row has its names, then its cells. ``note`` says what shade and figures mean."""

    title: str
    columns: Sequence[str]
    rows: Sequence[tuple[Sequence[str], Sequence[Cell | None]]]
    note: str = ""


def cell_of(entry: Entry, text: str, more: str = "", heat: float | None = None) -> Cell:
    """Return a cell that links to the page of a case."""
    return Cell(text=text, more=more, page=entry.page, heat=None if heat is None else round(max(0, min(1, heat)), 2))


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


FORMATS = {"micro": micro, "percent": percent, "nano": nano}  # by the names that templates use
