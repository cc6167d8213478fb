"""Shows differences in machine code: as text for a terminal, as Markdown for a pull request, as JSON for machines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from warpwatch.compare.code_difference import BuildChange, Kernel, KernelChange, State

FORMAT = 1  # of the JSON document
LISTED = 12  # names in a line of builds that are new or gone
SAID = {
    State.IDENTICAL: "identical",
    State.DIFFERENT: "different",
    State.NEW: "new",
    State.GONE: "gone",
    State.FAILED: "not compiled",
    State.TOO_NEW: "for newer GPUs only",
}


@dataclass(frozen=True, kw_only=True)
class Heading:
    """Both sides of a comparison of machine code. ``revision``: as it was named; ``tree``: what the working tree is.

    ``notes``: sentences on what could not be compared.
    """

    revision: str
    commit: str
    tree: str
    architectures: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """One figure of a kernel on both sides, as text; empty where a side has none."""

    name: str
    old: str
    new: str

    @property
    def differs(self) -> bool:
        return self.old != self.new

    def said(self, arrow: str = "->") -> str:
        return f"{self.old or 'none'} {arrow} {self.new or 'none'}" if self.differs else self.new


def figures(change: KernelChange) -> list[Row]:
    """List the figures of a kernel but for its mix of instructions."""
    needs: dict[str, Callable[[Kernel], str]] = {
        "registers": lambda side: f"{side.needs.registers}",
        "local memory": _local,
        "static shared memory": lambda side: f"{side.needs.shared_bytes:,} B",
    }
    code: dict[str, Callable[[Kernel], str]] = {
        "instructions": lambda side: f"{side.code.instructions:,}" if side.code else "",
        "loops": lambda side: _loops(side.code.loops) if side.code else "",
    }
    return [*_rows(change, needs), *_occupancies(change), *_rows(change, code)]


def _rows(change: KernelChange, said: Mapping[str, Callable[[Kernel], str]]) -> list[Row]:
    sides = (change.old, change.new)
    return [Row(name, *("" if side is None else value(side) for side in sides)) for name, value in said.items()]


def _local(side: Kernel) -> str:
    said = f"{side.needs.local_bytes:,} B"
    if not side.code:
        return said
    loads, stores = (side.count(f"local {word}") for word in ("load", "store"))
    return f"{said}, {loads} loads, {stores} stores" if loads or stores else said


def _loops(sizes: Sequence[int]) -> str:
    """Return how many loops there are, and their instructions."""
    return f"{len(sizes)} ({', '.join(map(str, sizes[:LISTED]))}{', ...' * (len(sizes) > LISTED)})" if sizes else "0"


def _occupancies(change: KernelChange) -> Iterator[Row]:
    found: dict[tuple[int, int], list[str]] = {}
    for i, side in enumerate((change.old, change.new)):
        for each in side.occupancies if side else ():
            both = found.setdefault((each.threads, each.dynamic_bytes), ["", ""])
            known = each.occupancy
            both[i] = f"{known.share:.2f} (by {known.limited_by})" if known else "unknown"
    for (threads, dynamic), (old, new) in sorted(found.items()):
        more = f" + {dynamic:,} B" if dynamic else ""
        yield Row(f"occupancy, {threads:,} threads{more}", old, new)


def mix_changes(change: KernelChange) -> dict[str, list[Row]]:
    """List the kinds of instructions whose numbers differ, inside loops and outside."""
    codes = [side.code if side else None for side in (change.old, change.new)]
    if not any(codes):
        return {}
    found = {}
    for place in ("inside", "outside"):
        old, new = (getattr(code, place) if code else {} for code in codes)
        rows = [Row(kind, str(old.get(kind, 0)), str(new.get(kind, 0))) for kind in sorted({*old, *new})]
        found[place] = [row for row in rows if row.differs]
    return found


def summary(changes: Sequence[BuildChange], arch: str) -> str:
    """Return one line on all builds for an architecture."""
    own = [change for change in changes if change.arch == arch]
    counts = Counter(change.state for change in own)
    parts = ", ".join(f"{counts[state]} {said}" for state, said in SAID.items() if counts[state])
    return f"{arch}: {len(own)} build{'s' * (len(own) != 1)}: {parts or 'none'}"


def text(heading: Heading, changes: Sequence[BuildChange]) -> str:
    """Return everything for a terminal."""
    lines = [f"{heading.tree}, against {heading.revision} ({heading.commit[:12]})", *heading.notes]
    lines += [summary(changes, arch) for arch in heading.architectures]
    for change in changes:
        if change.state in (State.DIFFERENT, State.NEW, State.FAILED):
            lines += ["", f"{change.id} ({change.arch}): {SAID[change.state]}", *(f"  {note}" for note in change.notes)]
            for kernel in change.kernels:
                lines += _kernel_lines(kernel, named=len(change.kernels) > 1, whole=change.state == State.NEW)
    gone = _names(changes, State.GONE)
    return "\n".join([*lines, *([f"\nonly in {heading.revision}: {gone}"] if gone else [])])


def _kernel_lines(kernel: KernelChange, *, named: bool, whole: bool) -> list[str]:
    rows = [row for row in figures(kernel) if whole or row.differs]
    places = {"inside": "in loops", "outside": "outside loops"}
    mix = [] if whole else [(places[place], row) for place, rows in mix_changes(kernel).items() for row in rows]
    lines = [f"  kernel {kernel.entry}"] if named else []
    lines += [f"  {row.name:<34} {row.new if whole else row.said()}" for row in rows]
    return lines + [f"  {f'{place}: {row.name}':<34} {row.said()}" for place, row in mix]


def _names(changes: Sequence[BuildChange], state: State) -> str:
    names = [f"{change.id} ({change.arch})" for change in changes if change.state == state]
    return ", ".join(names[:LISTED]) + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "")


def markdown(heading: Heading, changes: Sequence[BuildChange]) -> str:
    """Return everything as Markdown, a table of the kernels that differ."""
    against = f"{_words(heading.revision)} ({heading.commit[:12]})"
    lines = [f"### Machine code: {_words(heading.tree)}, against {against}", ""]
    lines += [f"- {_words(note)}" for note in heading.notes]
    lines += [f"- {summary(changes, arch)}" for arch in heading.architectures]
    shown = [c for c in changes if c.kernels]
    if shown:
        names = ("build", "registers", "local memory", "shared", "occupancy", "instructions", "loops")
        lines += ["", f"| {' | '.join((*names, 'in loops', 'outside loops'))} |", "|---" * (len(names) + 2) + "|"]
        lines += [_table_row(change, kernel) for change in shown for kernel in change.kernels]
    notes = [f"- {change.id} ({change.arch}): {_words(note)}" for change in changes for note in change.notes]
    gone = _names(changes, State.GONE)
    lines += ["", *notes, *([f"- only in {_words(heading.revision)}: {gone}"] if gone else [])] if notes or gone else []
    return "\n".join((*lines, ""))


def _table_row(change: BuildChange, kernel: KernelChange) -> str:
    rows = figures(kernel)
    needs, rest = rows[:3], rows[3:]
    occupancy = "<br>".join(f"{row.name.removeprefix('occupancy, ')}: {row.said('→')}" for row in rest[:-2])
    name = f"`{change.id}` ({change.arch})" + (", new" if change.state == State.NEW else "")
    name += f"<br>`{kernel.entry}`" if len(change.kernels) > 1 else ""
    mix = {} if change.state == State.NEW else mix_changes(kernel)
    cells = [name, *(row.said("→") for row in needs), occupancy, *(row.said("→") for row in rest[-2:])]
    for place in ("inside", "outside"):
        cells.append("<br>".join(f"{row.name}: {row.said('→')}" for row in mix.get(place, ())))
    if change.state == State.NEW:
        cells[1:4] = [row.new for row in needs]
        cells[5:7] = [row.new for row in rest[-2:]]
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(said: str) -> str:
    """Return a text that stays in its cell of a table."""
    return said.replace("|", "\\|").replace("\n", " ")


def _words(said: str) -> str:
    """Return a text of which nothing is taken for HTML."""
    return _cell(said).replace("&", "&amp;").replace("<", "&lt;")


def document(heading: Heading, changes: Sequence[BuildChange], failures: Sequence[str]) -> str:
    """Return everything as JSON. ``failures``: what --fail-on has found."""
    counts = {arch: Counter(str(c.state) for c in changes if c.arch == arch) for arch in heading.architectures}
    builds = [_plain(change) for change in changes if change.state != State.IDENTICAL]
    whole: Mapping[str, object] = {
        "format": FORMAT,
        **asdict(heading),
        "counts": counts,
        "builds": builds,
        "failures": list(failures),
    }
    return json.dumps(whole, indent=1) + "\n"


def _plain(change: BuildChange) -> dict[str, object]:
    return {**asdict(change), "state": str(change.state)}
