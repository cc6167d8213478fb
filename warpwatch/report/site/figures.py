"""Charts of the pages. A chart is data that assets/site.js gives to uPlot: a dictionary that becomes JSON.

uPlot has 51 kB; Plotly's basic bundle has 1,192 and Vega with Vega-Lite 772, of the 5 MB that a site may have.

A thousand pages shall be small. So charts of a case hold their figures alone, of a kind ``k`` (samples, change, history
or roofline), and assets/site.js adds the rest. The others say all: a height ``h``, axes ``x`` and ``y`` (``l`` label,
``k`` kind: num, log, cat or nights, ``v`` values) and series ``s`` (``l`` label, ``c`` number of the colour, ``w``
width, ``k`` kind: line, dot or both, ``v`` values, null where there is none), and where colours are those of a family's
other charts, ``n``, how many it has. The values of kind nights are in assets/nights.js.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from warpwatch.report.entries import Entry, Roof
from warpwatch.report.numbers import rounded
from warpwatch.report.pictures import Picture


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Chart: its title, a sentence for readers who cannot see it, and its data."""

    title: str
    says: str
    spec: Mapping[str, Any]
    note: str = ""


def chart_of(picture: Picture) -> Chart:
    """Show a picture of a study."""

    def series(name: str, line: Mapping[str, float], **look: Any) -> dict[str, Any]:
        return {"l": name, **look, "v": [rounded(line[place]) if place in line else None for place in picture.places]}

    lines = [series(name, line, k="both", c=picture.names.index(name)) for name, line in picture.lines.items()]
    above = [series(name, line, k="line", c="grey", w=2) for name, line in picture.above.items()]
    x = {"l": picture.x, "k": "cat", "v": picture.places}
    y = {"l": picture.y, "k": "log"} if picture.is_log else {"l": picture.y, "k": "num", "z": 1}
    spec = {"h": 340, "n": len(picture.names), "x": x, "y": y, "s": [*above, *lines]}
    title = picture.title.partition(": ")[2]  # the page says of which family
    return Chart(title=title[:1].upper() + title[1:], says=picture.caption.removesuffix("."), spec=spec)


def roofline(
    roof: Roof, points: Mapping[str, Sequence[tuple[float, float]]], case: Entry, says: str, **more: Any
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
