"""Tables of a family's cases: times, block sizes, work partition, growth, gain, energy, host times and ladders.

They are made once, as data. The site shows them as HTML, ``warpwatch report`` as Markdown, and ``warpwatch study`` as
Markdown, CSV and LaTeX.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from warpwatch.catalogue.arrays import Shape
from warpwatch.catalogue.cases import Case
from warpwatch.compare import saved_self_check
from warpwatch.compare.beside import microseconds, millijoules
from warpwatch.report.entries import Entry, Results
from warpwatch.report.numbers import fraction, micro, ratio, significant
from warpwatch.runs.identity import difference

LEAST_COST = 0.02  # of a block, where another GPU has another one; GPUs of one model differ by less
# What TeX reads otherwise; a command takes the space behind it unless it ends with braces.
TEX = {c: rf"\{c}" for c in "&%$#_{}"} | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
TEX |= {"\\": r"\textbackslash{}", "×": r"$\times$", "µ": r"$\mu$", "–": "--", "≤": r"$\le$"}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Cell of a table. ``values``: its figures as numbers. ``heat``: how strongly it is shaded, 0 to 1; None: not.

    ``more``: a second text, in smaller letters where these exist.
    """

    text: str
    more: str = ""
    page: str = ""
    heat: float | None = None
    values: Sequence[float] = ()


@dataclass(frozen=True, kw_only=True)
class Table:
    """Table: each row has its names, then its cells. ``note`` says what its figures mean, ``shade`` what shades do.

    ``key``: its name in files. ``columns``: heads of names and cells. ``axis``: what the cells' heads are values of,
    such as "shape", and ``measures`` what the figures in each cell are; empty where each head is a measure itself.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[tuple[Sequence[str], Sequence[Cell | None]]]
    key: str = ""
    note: str = ""
    shade: str = ""
    axis: str = ""
    measures: Sequence[str] = ()

    @property
    def names(self) -> int:
        """Number of the columns that name a row."""
        return len(self.columns) - len(self.rows[0][1]) if self.rows else 0

    def texts(self) -> Iterable[list[str]]:
        """Yield the rows as texts."""
        for heads, cells in self.rows:
            yield [*heads, *(f"{c.text} ({c.more})" if c and c.more else c.text if c else "" for c in cells)]

    def markdown(self) -> str:
        rule = "|" + "---|" * self.names + "---:|" * (len(self.columns) - self.names)
        rows = ("| " + " | ".join(row) + " |" for row in self.texts())
        return "\n".join(["| " + " | ".join(self.columns) + " |", rule, *rows])

    def latex(self, label: str, caption: str) -> str:
        """Return a table in LaTeX, for the packages booktabs and graphicx. ``caption``: what stands above it."""
        kinds = "l" * self.names + "r" * (len(self.columns) - self.names)
        rows = [" & ".join(map(tex, row)) + r" \\" for row in [self.columns, *self.texts()]]
        begin = [
            r"\begin{table}[htbp]",
            r"\centering\scriptsize",
            rf"\caption{{{tex(caption)}}}",
            rf"\label{{{label}}}",
        ]
        begin.append(r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%")  # a wide one is made smaller
        body = [rf"\begin{{tabular}}{{{kinds}}}", r"\toprule", rows[0], r"\midrule", *rows[1:], r"\bottomrule"]
        return "\n".join([*begin, *body, r"\end{tabular}}", r"\end{table}"])

    def as_csv(self, device: str) -> str:
        """Return the figures as CSV, a line for each; ``device``: stands in the first column of each line."""
        text = io.StringIO()
        writer, heads = csv.writer(text, lineterminator="\n"), self.columns[: self.names]
        if not self.measures:
            writer.writerow(["device", *self.columns])
            for names, cells in self.rows:
                writer.writerow(
                    [
                        device,
                        *names,
                        *(cell.values[0] if cell and cell.values else cell and cell.text for cell in cells),
                    ]
                )
            return text.getvalue()
        writer.writerow(["device", *heads, self.axis, *self.measures])
        for names, cells in self.rows:
            for column, cell in zip(self.columns[self.names :], cells, strict=True):
                if cell:
                    writer.writerow([device, *names, column, *cell.values])
        return text.getvalue()


def tex(text: str) -> str:
    """Write a text for LaTeX."""
    return re.sub("[" + re.escape("".join(TEX)) + "]", lambda found: TEX[found[0]], text)


def cell_of(
    entry: Entry, text: str, more: str = "", heat: float | None = None, values: Sequence[float | None] = ()
) -> Cell:
    """Return a cell that links to the page of a case."""
    return replace(shaded(text, more, heat, values), page=entry.page)


def shaded(text: str, more: str, heat: float | None, values: Sequence[float | None]) -> Cell:
    shade = None if heat is None else round(max(0, min(1, heat)), 2)
    return Cell(text=text, more=more, heat=shade, values=[math.nan if value is None else value for value in values])


def fastest(cases: Iterable[Entry]) -> dict[tuple[str, str], Entry]:
    """Return the fastest block of each variant on each shape."""
    best: dict[tuple[str, str], Entry] = {}
    for entry in cases:
        key = (entry.variant, entry.shape)
        if key not in best or entry.seconds < best[key].seconds:
            best[key] = entry
    return best


def moved_blocks(here: Results, there: Results) -> Table:
    """Return where the fastest block is one on the first GPU and another on the second, of what did the same work.

    A row's cost is how much longer the first one's block takes on the second; less than ``LEAST_COST`` is noise.
    """
    others = {entry.id: entry.timed for entry in there.entries if entry.seconds}
    times = {entry.id: entry.seconds for entry in there.entries}
    blocks = defaultdict[tuple[str, ...], list[Entry]](list)
    for entry in here.entries:
        other = others.get(entry.id)
        if entry.timed and other and not difference(entry.timed.facts.identity, other.facts.identity):
            blocks[entry.family, entry.variant, entry.shape, entry.dtype].append(entry)
    moved = []
    for key, entries in blocks.items():
        best, best_there = min(entries, key=lambda each: each.seconds), min(entries, key=lambda each: times[each.id])
        if (cost := times[best.id] / times[best_there.id] - 1) >= LEAST_COST:
            moved.append((cost, key, (best.block, best_there.block)))
    rows = [
        (key, [*(Cell(text=block) for block in pair), Cell(text=f"{100 * cost:+.1f} %", values=[cost])])
        for cost, key, pair in sorted(moved, reverse=True)
    ]
    several = sum(len(entries) > 1 for entries in blocks.values())
    first, second = (results.today.gpu.name for results in (here, there))
    return Table(
        key="moved",
        title=f"Where the fastest block moves from {first} to {second}",
        note=f"The first one's block costs so much time on the second; below {100 * LEAST_COST:.0f} % it is noise. "
        f"{len(rows)} of {several} variants on a shape, those of several blocks that did the same work on both."
        if several
        else "Nothing was compared: no variant has several blocks in both that are known to have done the same work.",
        columns=("family", "variant", "shape", "type", first, second, "cost"),
        rows=rows,
    )


def tables_of(cases: Sequence[Entry]) -> list[Table]:
    """Return the tables of the cases of a family and element type, of which there is at least one."""
    made = [times(cases), blocks(cases), partition(cases), growth(cases), gains(cases), energy(cases)]
    made += [host_times(cases)]
    return [*(table for table in made if table.rows), *ladders(cases)]


def _grid(
    table: Table,
    cases: Sequence[Entry],
    cells: Mapping[str, Cell],
    *,
    heads: Sequence[str] = ("variant", "block"),
    columns: Sequence[str] | None = None,
) -> Table:
    """Return the table with a column for each value of its axis, and rows named by ``heads``.

    ``cells``: by case id; a row without any is left out. ``columns``: some of them.
    """
    rows = defaultdict[tuple[str, ...], dict[str, Cell | None]](dict)
    for entry in cases:
        rows[tuple(getattr(entry, head) for head in heads)][getattr(entry, table.axis)] = cells.get(entry.id)
    if columns is None:
        columns = list(dict.fromkeys(getattr(entry, table.axis) for entry in cases))
    lines = [(names, [own.get(name) for name in columns]) for names, own in rows.items() if any(own.values())]
    return Table(**vars(table) | {"columns": [*heads, *columns], "rows": lines})


def _empty(key: str, title: str, axis: str, measures: Sequence[str], note: str, shade: str = "") -> Table:
    return Table(key=key, title=title, axis=axis, measures=measures, note=note, shade=shade, columns=(), rows=())


def times(cases: Sequence[Entry]) -> Table:
    least = defaultdict[str, float](lambda: math.inf)
    for e in cases:
        if not e.on_host:
            least[e.shape] = min(e.seconds, least[e.shape])
    cells = {}
    for e in cases:
        heat = least[e.shape] / e.seconds if e.shape in least else None
        rate = significant(e.rate) if e.rate else ""
        cells[e.id] = cell_of(e, micro(e.seconds), rate, heat, (1e6 * e.seconds, e.rate))
    unit = cases[0].unit
    note = "Median time in µs."
    if any(e.rate for e in cases):
        note = f"Median time in µs, and the rate in {unit} that it is for the least work which the family needs."
    shade = "Shade: how near it comes to the fastest of its column."
    table = _empty("time", "Time by variant, block and shape", "shape", ("time, µs", f"rate, {unit}"), note, shade)
    return _grid(table, cases, cells)


def of_widest_shape(cases: Sequence[Entry]) -> tuple[str, list[Entry]]:
    """Return the kernels on the shape that has the most variants and blocks, the largest of those, and its name."""
    by_shape = defaultdict[str, list[Entry]](list)
    for e in cases:
        if not (e.on_host or e.is_library):
            by_shape[e.shape].append(e)
    return max(by_shape.items(), key=lambda pair: (len(pair[1]), pair[1][0].work), default=("", []))


def blocks(cases: Sequence[Entry]) -> Table:
    """Show times by variant (how memory is accessed) and block, on the shape that has the most of both."""
    (shape, own), cells = of_widest_shape(cases), dict[str, Cell]()
    if len({e.block for e in own}) > 1:
        least = min(e.seconds for e in own)
        cells = {e.id: cell_of(e, micro(e.seconds), "", least / e.seconds, [1e6 * e.seconds]) for e in own}
    note, shade = f"Median time in µs on {shape}.", "Shade: how near it comes to the fastest."
    table = _empty("block", f"Block size by variant, {shape}", "block", ("time, µs",), note, shade)
    return _grid(table, own, cells, heads=["variant"])


def partition(cases: Sequence[Entry]) -> Table:
    """Show how the work is shared among blocks and threads, and what a thread takes, on a large shape of each."""
    largest: dict[tuple[str, str], Entry] = {}
    kernels = [e for e in cases if e.threads and e.case and e.timed]
    for e in [*sorted(kernels, key=lambda e: e.work), *of_widest_shape(kernels)[1]]:
        largest[e.variant, e.block] = e
    heads = ["blocks", "threads a block", "elements a thread", "registers a thread", "shared memory, B", "occupancy"]
    heads += ["machine code, B", "compile time, s"]
    rows = [([e.variant, e.block, e.shape], _shared_out(e)) for e in kernels if largest[e.variant, e.block] is e]
    filled = [i for i in range(len(heads) + 1) if any(cells[i].text for _, cells in rows)]
    names, heads = ["variant", "block", "shape"], [*heads, "time, µs"]
    note = "Thread blocks of the grid, threads in each, elements of the result for each thread, and what those take."
    return Table(
        key="partition",
        title="Work partition",
        columns=[*names, *(heads[i] for i in filled)],
        rows=[(own, [cells[i] for i in filled]) for own, cells in rows],
        note=f"{note} Occupancy: at most, by registers and shared memory.",
    )


def _shared_out(e: Entry) -> list[Cell]:
    """Return the cells on the first launch of a kernel that was timed."""
    assert e.case
    assert e.timed
    facts, each, grid = e.timed.facts, e.elements_per_thread, e.case.launch.grid
    return [
        Cell(text="×".join(map(str, grid))),
        _count(e.threads),
        _figure(significant, each),
        _count(facts.registers),
        _count(facts.shared_bytes + (facts.dynamic_shared_bytes or 0)),
        Cell(text=f"{100 * facts.occupancy:.0f} %" if facts.occupancy else ""),
        _count(facts.code_bytes),
        _figure("{:.2f}".format, facts.compile_seconds),
        cell_of(e, micro(e.seconds), values=[1e6 * e.seconds]),
    ]


def _count(number: int) -> Cell:
    return Cell(text=f"{number:,}", values=[number]) if number else Cell(text="")


def growths(cases: Sequence[Entry]) -> dict[str, tuple[float, float]]:
    """Return how much longer each case takes than the row's shape before, by work, and how much more work it is."""
    found = {}
    by_names = defaultdict[tuple[str, str], list[Entry]](list)
    for e in sorted(cases, key=lambda e: (e.operations, e.bytes)):
        by_names[e.variant, e.block].append(e)
    for before, after in itertools.chain.from_iterable(map(itertools.pairwise, by_names.values())):
        if before.work and after.work:
            found[after.id] = (after.seconds / before.seconds, after.work / before.work)
    return found


def growth(cases: Sequence[Entry]) -> Table:
    shapes = list(dict.fromkeys(e.shape for e in sorted(cases, key=lambda e: (e.operations, e.bytes))))
    found, cells = growths(cases), {}
    for e in cases:
        if e.id in found:
            time, work = found[e.id]
            cells[e.id] = shaded(ratio(time), f"work {ratio(work)}", min(time / work, work / time), (time, work))
    grown = {e.shape for e in cases if e.id in cells}
    note = "Time over that of the row's next smaller shape, and how much more work there is to do."
    shade = "Shade: how near the two are."
    table = _empty("growth", "Growth from shape to shape", "shape", ("growth of time", "growth of work"), note, shade)
    return _grid(table, cases, cells, columns=[shape for shape in shapes if shape in grown])


def gains_over_serial(cases: Sequence[Entry]) -> dict[str, float]:
    """Return the time of the serial variant over that of each case on the same shape, by id."""
    serial = {e.shape: e.seconds for e in cases if e.on_host}
    return {e.id: serial[e.shape] / e.seconds for e in cases if e.shape in serial and not e.on_host}


def gains(cases: Sequence[Entry]) -> Table:
    found = gains_over_serial(cases)
    most = max(found.values(), default=1.0)
    cells = {name: shaded(ratio(value), "", value / most, [value]) for name, value in found.items()}
    note = "How many times faster than serial C++ on one core of the host."
    if {e.shape for e in cases} > {e.shape for e in cases if e.on_host}:
        note += " Larger shapes are not timed serially."
    shade = "Shade: share of the largest gain."
    table = _empty("gain", "Gain over serial C++ on one core of the host", "shape", ("gain over serial",), note, shade)
    return _grid(table, cases, cells, columns=list(dict.fromkeys(e.shape for e in cases if e.on_host)))


def energy(cases: Sequence[Entry]) -> Table:
    cells = {e.id: cell_of(e, f"{millijoules(e.joules)} mJ", values=[1e3 * e.joules]) for e in cases if e.joules}
    note = "Energy of a launch in mJ, of launches one after the other."
    return _grid(_empty("energy", "Energy of a launch", "shape", ("energy, mJ",), note), cases, cells)


def host_times(cases: Sequence[Entry]) -> Table:
    own = {e.id: (e, e.timed.facts.host_seconds) for e in cases if e.timed}
    cells = {n: cell_of(e, f"{microseconds(s)} µs", values=[1e6 * s]) for n, (e, s) in own.items() if s}
    note = "The host's time of a launch in µs: of a kernel the driver's call, of a call its Python."
    return _grid(_empty("host", "Host time of a launch", "shape", ("host time, µs",), note), cases, cells)


def shape_of(case: Case) -> str:
    return f"{case.family.name} {'×'.join(map(str, case.shape))}, {case.dtype}"


def ladders(cases: Sequence[Entry]) -> list[Table]:
    """Show the rungs on each shape that the family's declaration names for ladders, each with its best block."""
    on_shapes = defaultdict[Shape, list[Entry]](list)
    for e in fastest(cases).values():
        if e.case and e.timed and not e.on_host and e.case.shape in e.case.family.ladder_shapes.get(e.dtype, ()):
            on_shapes[e.case.shape].append(e)
    return [_ladder(rungs) for rungs in on_shapes.values()]


def _ladder(rungs: Sequence[Entry]) -> Table:
    rows: list[tuple[Sequence[str], Sequence[Cell]]] = []
    before: Entry | None = None
    for e in rungs:
        assert e.case
        assert e.timed
        facts, name, gain = e.timed.facts, e.variant, 0.0
        if not e.is_library:
            name, gain = f"{name}, {e.block}", before.seconds / e.seconds if before else 0.0
            before = e
        cells = [
            cell_of(e, micro(e.seconds), values=[1e6 * e.seconds]),
            _figure(significant, e.rate),
            replace(_figure(fraction, e.share), heat=None if e.share is None else round(min(1, e.share), 2)),
            _figure(ratio, gain),
        ]
        for number in (facts.registers, facts.shared_bytes + (facts.dynamic_shared_bytes or 0)):
            is_unknown = e.is_library and not facts.kernels
            cells.append(Cell(text="") if is_unknown else Cell(text=f"{number:,}", values=[number]))
        rows.append(([f"{name} ({facts.fallback})" if facts.fallback else name], cells))
    case, of = rungs[0].case, ", ".join(dict.fromkeys(e.reference for e in rungs if e.reference))
    heads = ["time, µs", rungs[0].unit, "share", "gain", "registers", "shared, bytes"]
    share = f" Share: of the rate of {of}." if of else ""
    return Table(
        key=f"ladder-{rungs[0].shape}",
        title=f"Ladder, {rungs[0].shape}",
        columns=[shape_of(case) if case else "", *heads],
        rows=rows,
        note=f"Best block of each variant.{share} Gain: over the rung above. Of a call: the most of any kernel.",
    )


def _figure(write: Callable[[float], str], value: float | None) -> Cell:
    return Cell(text=write(value), values=[value]) if value else Cell(text="")


def report(results: Results, check: Path, beside: Results | None = None) -> str:
    """Return the tables of all families in Markdown, but ladders, which ``warpwatch ladder`` shows.

    ``check``: the file of the self-check on its GPU, if there is one. ``beside``: runs of another GPU.
    """
    parts = ["; ".join(filter(None, [results.described, results.today.gpu.note]))]
    if check.exists():
        title = "A/A test and injected slowdowns on this GPU (`pytest bench --self-check`):"
        parts.append("\n".join([title, *saved_self_check.table(saved_self_check.read(check))]))
    if beside:
        table = moved_blocks(results, beside)
        parts.append("\n\n".join([f"### {table.title}", table.note, *([table.markdown()] if table.rows else [])]))
    for family in dict.fromkeys(entry.family for entry in results.entries):
        for dtype, cases in results.by_type(family).items():
            for table in tables_of(cases):
                if not table.key.startswith("ladder"):
                    parts.append(f"### {family}, {dtype}: {table.title}\n\n{table.note}\n\n{table.markdown()}")
    return "\n\n".join(parts)
