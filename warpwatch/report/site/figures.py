"""Charts of the pages. A chart is data that assets/site.js gives to uPlot: a dictionary that becomes JSON.

uPlot has 51 kB; Plotly's basic bundle has 1,192 and Vega with Vega-Lite 772, of the 5 MB that a site may have.

A thousand pages shall be small. So charts of a case hold their figures alone, of a kind ``k`` (samples, change, history
or roofline), and assets/site.js adds the rest. The others say all: a height ``h``, axes ``x`` and ``y`` (``l`` label,
``k`` kind: num, log, cat or nights, ``v`` values) and series ``s`` (``l`` label, ``c`` number of the colour, ``w``
width, ``k`` kind: line, dot or both, ``v`` values, null where there is none). The values of kind nights are in
assets/nights.js.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from warpwatch.report.entries import Entry, Roof
from warpwatch.report.numbers import rounded


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Chart: its title, a sentence for readers who cannot see it, and its data."""

    title: str
    says: str
    spec: Mapping[str, Any]
    note: str = ""


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
