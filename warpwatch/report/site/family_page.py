"""Page of a family: ladder, times by variant and block, growth with size, gain over serial, roofline."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from warpwatch.report.site.figures import Cell, Chart, Table, cell_of, micro, roofline, rounded
from warpwatch.report.site.material import Entry, Material, Roof


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
        by_dtype = defaultdict[str, list[Entry]](list)
        for entry in self.cases:
            by_dtype[entry.dtype].append(entry)
        makers, roofs = (_times, _blocks, _growth, _gains, _ladder), self.material.roofs
        return {
            dtype: (_charts(cases, roofs.get(dtype)), [table for make in makers if (table := make(cases)).rows])
            for dtype, cases in by_dtype.items()
        }

    @cached_property
    def best(self) -> str:
        """The highest share of the reference, and the case that reaches it."""
        shares = [(e.share, e) for e in self.cases if e.share is not None and not e.is_library]
        if not shares:
            return ""
        share, entry = max(shares, key=lambda pair: pair[0])
        return f"{share:.2f} of the reference: {entry.variant}, {entry.block}, {entry.shape}, {entry.dtype}"

    @property
    def notes(self) -> dict[str, str]:
        return {e.variant: e.case.variant.note for e in self.cases if e.case and e.case.variant.note}


def _fastest(cases: Sequence[Entry]) -> dict[tuple[str, str], Entry]:
    """Return the fastest block of each variant on each shape."""
    best: dict[tuple[str, str], Entry] = {}
    for entry in cases:
        key = (entry.variant, entry.shape)
        if key not in best or entry.seconds < best[key].seconds:
            best[key] = entry
    return best


def _charts(cases: Sequence[Entry], roof: Roof | None) -> list[Chart]:
    shapes, drawn = list(dict.fromkeys(e.shape for e in cases)), []
    shares = defaultdict[str, list[float | None]](lambda: [None] * len(shapes))
    points = defaultdict[str, list[tuple[float, float]]](list)
    for (variant, shape), e in _fastest(cases).items():
        if e.share is not None and not e.on_host:
            shares[variant][shapes.index(shape)] = rounded(e.share)
        if e.intensity_and_rate:
            points[variant].append(e.intensity_and_rate)
    if shares and len(shapes) > 1:
        lines = [{"l": name, "k": "both", "c": i, "v": row} for i, (name, row) in enumerate(shares.items())]
        x, y = {"l": "shape", "k": "cat", "v": shapes}, {"l": "share of the reference", "k": "num", "z": 1}
        says = f"Share of the reference's rate by shape, of the best block of {len(shares)} variants"
        drawn.append(Chart(title="Ladder", says=says, spec={"h": 340, "x": x, "y": y, "s": lines}))
    if roof and points:
        says = f"Rate over intensity of {len(points)} variants, best blocks"
        drawn.append(roofline(roof, points, cases[0], says, h=340))
    return drawn


def _grid(
    title: str,
    note: str,
    cases: Sequence[Entry],
    cells: Mapping[str, Cell],
    *,
    heads: Sequence[str] = ("variant", "block"),
    column: str = "shape",
    columns: Sequence[str] | None = None,
) -> Table:
    """Return a table with a column for each shape, or another part of the ids, and rows named by ``heads``.

    ``cells``: by case id; a row without any is left out. ``columns``: some of them.
    """
    rows = defaultdict[tuple[str, ...], dict[str, Cell | None]](dict)
    for entry in cases:
        rows[tuple(getattr(entry, head) for head in heads)][getattr(entry, column)] = cells.get(entry.id)
    if columns is None:
        columns = list(dict.fromkeys(getattr(entry, column) for entry in cases))
    lines = [(names, [own.get(name) for name in columns]) for names, own in rows.items() if any(own.values())]
    return Table(title=title, columns=[*heads, *columns], rows=lines, note=note)


def _times(cases: Sequence[Entry]) -> Table:
    least = defaultdict[str, float](lambda: math.inf)
    for e in cases:
        if not e.on_host:
            least[e.shape] = min(e.seconds, least[e.shape])
    cells = {
        e.id: cell_of(
            e,
            micro(e.seconds),
            f"{e.rate:,.0f}" if e.rate else "",
            least[e.shape] / e.seconds if e.shape in least else None,
        )
        for e in cases
    }
    note = f"µs, and {cases[0].unit} below. Shade: how near it comes to the fastest of its column."
    return _grid("Time by variant, block and shape", note, cases, cells)


def _blocks(cases: Sequence[Entry]) -> Table:
    """Times by variant (how memory is accessed) and block, on the shape that has the most of both."""
    by_shape = defaultdict[str, list[Entry]](list)
    for e in cases:
        if not (e.on_host or e.is_library):
            by_shape[e.shape].append(e)
    shape, own = max(reversed(by_shape.items()), key=lambda pair: len(pair[1]), default=("", []))
    cells = {}
    if len({e.block for e in own}) > 1:
        least = min(e.seconds for e in own)
        cells = {e.id: cell_of(e, micro(e.seconds), "", least / e.seconds) for e in own}
    note = "µs. Shade: how near it comes to the fastest."
    return _grid(f"Block size by variant, {shape}", note, own, cells, heads=["variant"], column="block")


def _growth(cases: Sequence[Entry]) -> Table:
    shapes, cells = list(dict.fromkeys(e.shape for e in cases)), {}
    by_names = defaultdict[tuple[str, str], list[Entry]](list)
    for e in sorted(cases, key=lambda e: shapes.index(e.shape)):
        by_names[e.variant, e.block].append(e)
    for own in by_names.values():
        for before, after in itertools.pairwise(own):
            work = (after.operations or after.bytes) / ((before.operations or before.bytes) or 1)
            if work:
                grown = after.seconds / before.seconds
                cells[after.id] = cell_of(after, f"{grown:.2f}×", f"of {work:.2f}×", min(grown / work, work / grown))
    note = "Time over that of the row's shape before, of the work over the work there. Shade: how near the two are."
    return _grid("Growth from shape to shape", note, cases, cells, columns=shapes[1:])


def _gains(cases: Sequence[Entry]) -> Table:
    serial = {e.shape: e.seconds for e in cases if e.on_host}
    gains = [(e, serial[e.shape] / e.seconds) for e in cases if e.shape in serial and not e.on_host]
    most = max((gain for _, gain in gains), default=1.0)
    cells = {e.id: cell_of(e, f"{gain:,.0f}×", "", gain / most) for e, gain in gains}
    note = "Shade: share of the largest gain. Larger shapes are not timed serially."
    return _grid("Gain over serial C++ on one core of the host", note, cases, cells, columns=list(serial))


def _ladder(cases: Sequence[Entry]) -> Table:
    """The rungs on the shapes that the family's declaration names for ladders, each with its best block."""
    family = next((e.case.family for e in cases if e.case), None)
    shapes = family.ladder_shapes.get(cases[0].dtype, ()) if family else ()
    named = {"x".join(map(str, shape)) for shape in shapes}
    rows: list[tuple[Sequence[str], Sequence[Cell]]] = []
    before: Entry | None = None
    for (_, shape), e in _fastest(cases).items():
        if shape not in named or e.on_host or not e.timed:
            continue
        facts = e.timed.facts
        gain = before.seconds / e.seconds if before and before.shape == shape and not e.is_library else None
        shared = facts.shared_bytes + (facts.dynamic_shared_bytes or 0)
        cells = [
            cell_of(e, micro(e.seconds)),
            Cell(text=f"{e.rate:,.0f}" if e.rate else ""),
            Cell(text="" if e.share is None else f"{e.share:.2f}", heat=e.share and round(min(1, e.share), 2)),
            Cell(text=f"{gain:.2f}×" if gain else ""),
            Cell(text="" if e.is_library else f"{facts.registers}"),
            Cell(text="" if e.is_library else f"{shared:,}"),
        ]
        rows.append(([e.variant, e.block, shape], cells))
        before = before if e.is_library else e
    columns = ["variant", "block", "shape", "µs", cases[0].unit, "share", "gain", "registers", "shared, B"]
    note = "Best block of each variant. Gain: over the rung above."
    return Table(title="Ladder in figures", columns=columns, rows=rows, note=note)
