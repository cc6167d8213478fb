"""Page of a family: the pictures and tables of its study, and its roofline."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

from warpwatch.report.entries import Entry, Results
from warpwatch.report.family_tables import Table, fastest, tables_of
from warpwatch.report.numbers import fraction
from warpwatch.report.pictures import pictures_of
from warpwatch.report.site.content import Content
from warpwatch.report.site.figures import Chart, chart_of, roofline
from warpwatch.report.tables import total_lines


@dataclass(frozen=True)
class FamilyPage:
    content: Content
    name: str

    @property
    def path(self) -> str:
        return f"f/{self.name}.html"

    @cached_property
    def cases(self) -> list[Entry]:
        return [entry for entry in self.content.entries if entry.family == self.name and entry.seconds]

    @cached_property
    def parts(self) -> dict[str, tuple[list[Chart], list[Table]]]:
        """Charts and tables by element type."""
        by_type = self.content.by_type(self.name)
        return {dtype: (_charts(self.content, self.name, dtype), tables_of(cases)) for dtype, cases in by_type.items()}

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
    def totals(self) -> list[str]:
        """Weighted totals of the run's builds, where the family gives weights."""
        own = {name: each for name, each in self.content.today.totals.items() if name.startswith(f"{self.name}-")}
        return total_lines(own)

    @property
    def notes(self) -> dict[str, str]:
        return {e.variant: e.case.variant.note for e in self.cases if e.case and e.case.variant.note}


def _charts(results: Results, name: str, dtype: str) -> list[Chart]:
    """Return the charts of a family and element type: the pictures of its study, and the roofline."""
    cases, roof = results.by_type(name)[dtype], results.roofs.get(dtype)
    points = defaultdict[str, list[tuple[float, float]]](list)
    for (variant, _), e in fastest(cases).items():
        if e.intensity_and_rate:
            points[variant].append(e.intensity_and_rate)
    drawn = [chart_of(picture) for picture in pictures_of(results, name, dtype)]
    if roof and points:
        says = f"Rate over intensity of {len(points)} variants, best blocks"
        names = list(dict.fromkeys(e.variant for e in cases))
        places = [names.index(name) for name in points]
        drawn.insert(1, roofline(roof, points, cases[0], says, h=340, c=places, n=len(names)))
    return drawn
