"""Page of a family: ladder, times by variant and block, growth with size, gain over serial, roofline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from warpwatch.report.entries import Entry, Roof
from warpwatch.report.family_tables import Table, fastest, tables_of
from warpwatch.report.numbers import fraction, rounded
from warpwatch.report.site.figures import Chart, roofline
from warpwatch.report.site.material import Material


@dataclass(frozen=True)
class FamilyPage:
    material: Material
    name: str

    @property
    def path(self) -> str:
        return f"f/{self.name}.html"

    @cached_property
    def cases(self) -> list[Entry]:
        return [entry for entry in self.material.entries if entry.family == self.name and entry.seconds]

    @cached_property
    def parts(self) -> dict[str, tuple[list[Chart], list[Table]]]:
        """Charts and tables by element type."""
        by_type, roofs = self.material.by_type(self.name), self.material.roofs
        return {dtype: (_charts(cases, roofs.get(dtype)), tables_of(cases)) for dtype, cases in by_type.items()}

    @cached_property
    def best(self) -> str:
        """The highest share of the reference, and the case that reaches it."""
        shares = [(e.share, e) for e in self.cases if e.share is not None and not e.is_library]
        if not shares:
            return ""
        share, entry = max(shares, key=lambda pair: pair[0])
        how = f"{fraction(share)} of the rate of {entry.reference}"
        return f"{how}: {entry.variant}, {entry.block}, {entry.shape}, {entry.dtype}"

    @property
    def notes(self) -> dict[str, str]:
        return {e.variant: e.case.variant.note for e in self.cases if e.case and e.case.variant.note}


def _charts(cases: Sequence[Entry], roof: Roof | None) -> list[Chart]:
    shapes, drawn = list(dict.fromkeys(e.shape for e in cases)), []
    shares = defaultdict[str, list[float | None]](lambda: [None] * len(shapes))
    points = defaultdict[str, list[tuple[float, float]]](list)
    for (variant, shape), e in fastest(cases).items():
        if e.share is not None and not e.on_host:
            shares[variant][shapes.index(shape)] = rounded(e.share)
        if e.intensity_and_rate:
            points[variant].append(e.intensity_and_rate)
    if shares and len(shapes) > 1:
        lines = [{"l": name, "k": "both", "c": i, "v": row} for i, (name, row) in enumerate(shares.items())]
        of = ", ".join(dict.fromkeys(e.reference for e in cases if e.reference))
        x, y = {"l": "shape", "k": "cat", "v": shapes}, {"l": f"share of {of}'s rate", "k": "num", "z": 1}
        says = f"Share of the rate of {of} by shape, of the best block of {len(shares)} variants"
        drawn.append(Chart(title="Ladder", says=says, spec={"h": 340, "x": x, "y": y, "s": lines}))
    if roof and points:
        says = f"Rate over intensity of {len(points)} variants, best blocks"
        drawn.append(roofline(roof, points, cases[0], says, h=340))
    return drawn
