"""Makes the page of a family: ladder, times by variant and block, growth with size, gain over serial, roofline."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from warpwatch.report.site.figures import Cell, Chart, Roof, Spec, Table, cell_of, micro, roofline, rounded
from warpwatch.report.site.material import Entry, of_family


def family_pages(entries: Sequence[Entry], roofs: Mapping[str, Roof]) -> list[dict[str, Any]]:
    """Return what the page of each family shows that has measured cases, in the catalogue's order."""
    return [_page(name, entries, roofs) for name in dict.fromkeys(e.family for e in entries if e.seconds)]


def _page(name: str, entries: Sequence[Entry], roofs: Mapping[str, Roof]) -> dict[str, Any]:
    """Return what the page of a family shows. ``notes``: what is special about each variant, by its name."""
    own = of_family(entries, name)
    parts = [
        {"dtype": dtype, "charts": _charts(cases, roofs.get(dtype)), "tables": _tables(cases)}
        for dtype in dict.fromkeys(entry.dtype for entry in own)
        for cases in [of_family(entries, name, dtype)]
    ]
    shares = [(e.share, e) for e in own if e.share is not None and not e.is_library]
    best = ""
    if shares:
        share, entry = max(shares, key=lambda pair: pair[0])
        best = f"{share:.2f} of the reference: {entry.variant}, {entry.block}, {entry.shape}, {entry.dtype}"
    notes = {e.variant: e.case.variant.note for e in own if e.case and e.case.variant.note}
    return {"name": name, "page": f"f/{name}.html", "cases": len(own), "parts": parts, "notes": notes, "best": best}


def fastest(cases: Sequence[Entry]) -> dict[tuple[str, str], Entry]:
    """Return the fastest block of each variant on each shape."""
    best: dict[tuple[str, str], Entry] = {}
    for entry in cases:
        key = (entry.variant, entry.shape)
        if key not in best or _seconds(entry) < _seconds(best[key]):
            best[key] = entry
    return best


def _seconds(entry: Entry) -> float:
    assert entry.seconds is not None  # only measured cases come here
    return entry.seconds


def _charts(cases: Sequence[Entry], roof: Roof | None) -> list[Chart]:
    shapes = list(dict.fromkeys(e.shape for e in cases))
    best = {key: e for key, e in fastest(cases).items() if not e.on_host}
    drawn = []
    shares: dict[str, list[float | None]] = {}
    for variant in dict.fromkeys(variant for variant, _ in best):
        row = [best[variant, shape].share if (variant, shape) in best else None for shape in shapes]
        if any(value is not None for value in row):
            shares[variant] = row
    if shares and len(shapes) > 1:
        says = f"Share of the reference's rate by shape, of the best block of {len(shares)} variants"
        drawn.append(
            Chart(title="Ladder", says=says, spec=_by_category(shapes, shares, "share of the reference", "shape"))
        )
    points: dict[str, list[tuple[float, float]]] = {}
    for e in best.values():
        if e.operations and e.bytes and e.own_seconds:
            points.setdefault(e.variant, []).append((e.operations / e.bytes, e.operations / e.own_seconds))
    if roof and points:
        drawn.append(
            Chart(
                title="Roofline",
                says=f"Rate over intensity of {len(points)} variants, best blocks",
                spec={**roofline(roof, points, cases[0].unit), "h": 340},
                note=f"Flat part: the highest rate of {cases[0].dtype} in this run, of {roof.of}.",
            )
        )
    return drawn


def _tables(cases: Sequence[Entry]) -> list[Table]:
    tables = [_times(cases), _blocks(cases), _growth(cases), _gains(cases), _ladder(cases)]
    return [table for table in tables if table and table.rows]


def _grid(
    cases: Sequence[Entry],
    cells: Mapping[str, Cell],
    *,
    title: str,
    note: str,
    heads: Sequence[str] = ("variant", "block"),
    column: str = "shape",
    columns: Sequence[str] | None = None,
) -> Table:
    """Return a table with a column for each shape, or another part of the ids, and rows named by ``heads``.

    ``cells``: by case id; a row without any is left out. ``columns``: some of them.
    """
    rows: dict[tuple[str, ...], dict[str, Cell | None]] = {}
    for entry in cases:
        row = rows.setdefault(tuple(getattr(entry, head) for head in heads), {})
        row[getattr(entry, column)] = cells.get(entry.id)
    if columns is None:
        columns = list(dict.fromkeys(getattr(entry, column) for entry in cases))
    lines = [(names, [own.get(name) for name in columns]) for names, own in rows.items() if any(own.values())]
    return Table(title=title, columns=[*heads, *columns], rows=lines, note=note)


def _times(cases: Sequence[Entry]) -> Table:
    least: dict[str, float] = {}
    for e in cases:
        if not e.on_host:
            least[e.shape] = min(_seconds(e), least.get(e.shape, math.inf))
    cells = {
        e.id: cell_of(
            e,
            micro(_seconds(e)),
            f"{e.rate:,.0f}" if e.rate else "",
            least[e.shape] / _seconds(e) if e.shape in least else None,
        )
        for e in cases
    }
    note = f"µs, and {cases[0].unit} below. Shade: how near it comes to the fastest of its column."
    return _grid(cases, cells, title="Time by variant, block and shape", note=note)


def _blocks(cases: Sequence[Entry]) -> Table | None:
    """Times by variant (how memory is accessed) and block, on the shape that has the most of both; None without."""
    by_shape: dict[str, list[Entry]] = {}
    for e in cases:
        if not (e.on_host or e.is_library):
            by_shape.setdefault(e.shape, []).append(e)
    shape, own = max(reversed(by_shape.items()), key=lambda pair: len(pair[1]), default=("", []))
    if len({e.block for e in own}) < 2:
        return None
    least = min(map(_seconds, own))
    cells = {e.id: cell_of(e, micro(_seconds(e)), "", least / _seconds(e)) for e in own}
    note = "µs. Shade: how near it comes to the fastest."
    return _grid(own, cells, title=f"Block size by variant, {shape}", note=note, heads=["variant"], column="block")


def _growth(cases: Sequence[Entry]) -> Table:
    cells: dict[str, Cell] = {}
    shapes = list(dict.fromkeys(e.shape for e in cases))
    for names in dict.fromkeys((e.variant, e.block) for e in cases):
        own = sorted((e for e in cases if (e.variant, e.block) == names), key=lambda e: shapes.index(e.shape))
        for before, after in itertools.pairwise(own):
            work = (after.operations or after.bytes) / ((before.operations or before.bytes) or 1)
            if work:
                grown = _seconds(after) / _seconds(before)
                cells[after.id] = cell_of(after, f"{grown:.2f}×", f"of {work:.2f}×", min(grown / work, work / grown))
    note = "Time over that of the row's shape before, of the work over the work there. Shade: how near the two are."
    return _grid(cases, cells, title="Growth from shape to shape", note=note, columns=shapes[1:])


def _gains(cases: Sequence[Entry]) -> Table:
    serial = {e.shape: _seconds(e) for e in cases if e.on_host}
    gains = {e.id: serial[e.shape] / _seconds(e) for e in cases if e.shape in serial and not e.on_host}
    most = max(gains.values(), default=1.0)
    cells = {e.id: cell_of(e, f"{gains[e.id]:,.0f}×", "", gains[e.id] / most) for e in cases if e.id in gains}
    note = "Shade: share of the largest gain. Larger shapes are not timed serially."
    title = "Gain over serial C++ on one core of the host"
    return _grid(cases, cells, title=title, note=note, columns=list(serial))


def _ladder(cases: Sequence[Entry]) -> Table | None:
    """The rungs on the shapes that the family's declaration names for ladders, each with its best block."""
    family = next((e.case.family for e in cases if e.case), None)
    shapes = family.ladder_shapes.get(cases[0].dtype, ()) if family else ()
    named = {"x".join(map(str, shape)) for shape in shapes}
    rows: list[tuple[Sequence[str], Sequence[Cell | None]]] = []
    before: Entry | None = None
    for (_, shape), e in fastest(cases).items():
        if shape not in named or e.on_host or not e.timed:
            continue
        facts = e.timed.facts
        gain = _seconds(before) / _seconds(e) if before and before.shape == shape and not e.is_library else None
        shared = facts.shared_bytes + (facts.dynamic_shared_bytes or 0)
        rows.append(
            (
                [e.variant, e.block, shape],
                [
                    cell_of(e, micro(_seconds(e))),
                    Cell(text=f"{e.rate:,.0f}" if e.rate else ""),
                    Cell(text="" if e.share is None else f"{e.share:.2f}", heat=e.share and round(min(1, e.share), 2)),
                    Cell(text=f"{gain:.2f}×" if gain else ""),
                    Cell(text="" if e.is_library else f"{facts.registers}"),
                    Cell(text="" if e.is_library else f"{shared:,}"),
                ],
            )
        )
        before = before if e.is_library else e
    columns = ["variant", "block", "shape", "µs", cases[0].unit, "share", "gain", "registers", "shared, B"]
    return Table(
        title="Ladder in figures",
        columns=columns,
        rows=rows,
        note="Best block of each variant. Gain: over the rung above.",
    )


def _by_category(
    names: Sequence[str], series: Mapping[str, Sequence[float | None]], label: str, x: str, *, zero: bool = True
) -> Spec:
    """A line for each series over named categories, such as shapes."""
    return {
        "h": 340,
        "x": {"l": x, "k": "cat", "v": list(names)},
        "y": {"l": label, "k": "num", "z": int(zero)},
        "s": [
            {
                "l": name,
                "k": "both",
                "c": i,
                "v": [None if value is None else rounded(value) for value in values],
            }
            for i, (name, values) in enumerate(series.items())
        ],
    }
