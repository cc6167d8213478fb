"""Shows an explanation in full: the likely cause, what differs in the machine code, rates, and what ncu counted."""

from __future__ import annotations

from collections.abc import Iterator

from warpwatch.catalogue.cases import Case
from warpwatch.compare.code_difference import KernelChange
from warpwatch.explain.causes import Effect, KernelSide
from warpwatch.explain.explanation import Explanation
from warpwatch.explain.profile import METRICS, Profile, grown
from warpwatch.report.code_tables import figures, mix_changes

MOST_REASONS = 4  # stall reasons that are shown
WIDTH = 34
EFFECTS = {Effect.SLOWER: "makes it slower", Effect.FASTER: "makes it faster", Effect.EITHER: "slower or faster"}


def lines_of(found: Explanation) -> Iterator[str]:
    """Yield the cause, what else the rules found, and the figures of the machine code that differ."""
    yield found.sentence
    for entry, cause in found.causes:
        if cause is not found.likely:
            named = f"{entry}: " if len(found.sides) > 1 else ""
            yield f"  also ({EFFECTS[cause.effect]}): {named}{cause.sentence}"
    if found.note and found.note != found.sentence:
        yield f"  {found.note}"
    for entry, (old, new) in found.sides.items():
        yield from _differences(entry, old, new)


def _differences(entry: str, old: KernelSide, new: KernelSide) -> Iterator[str]:
    change = KernelChange(entry=entry, old=old, new=new)
    rows = [(row.name, row.old, row.new) for row in figures(change) if row.differs]
    for place, where in (("inside", "in loops"), ("outside", "outside loops")):
        rows += [(f"{where}: {row.name}", row.old, row.new) for row in mix_changes(change).get(place, ())]
    if rows:
        yield f"  {entry + ', machine code':<{WIDTH}} {'old':>24} {'new':>24}"
    for name, before, after in rows:
        yield f"  {name:<{WIDTH}} {before:>24} {after:>24}"


def profile_lines(case: Case, old: Profile, new: Profile, peak: float) -> Iterator[str]:
    """Yield what ncu counted on both sides. ``peak``: bytes a second that memory moves at most, or 0."""
    yield f"  {'Nsight Compute, one launch':<{WIDTH}} {'old':>16} {'new':>16} {'new/old':>8}"
    for name, _, _, unit in METRICS:
        if name in old.values and name in new.values:
            yield _row(f"{name}{f', {unit}' * bool(unit)}", old.values[name], new.values[name])
    yield from _roofline(case, old, new, peak)
    for reason, before, after in grown(old.stalls, new.stalls, MOST_REASONS):
        if reason != "selected":
            yield _row(f"warps that waited: {reason}", before, after)
    for place, before, after in grown(old.lines, new.lines):
        yield f"  waits grew at {place}: {before:,.0f} -> {after:,.0f} samples"


def _row(name: str, before: float, after: float) -> str:
    ratio = f"{after / before:8.2f}" if before else " " * 8
    return f"  {name:<{WIDTH}} {before:>16,.2f} {after:>16,.2f} {ratio}"


def _roofline(case: Case, old: Profile, new: Profile, peak: float) -> Iterator[str]:
    """Yield where the case stands under the roofline, by the work that was declared."""
    times = [side.values.get("time", 0.0) * 1e-6 for side in (old, new)]
    if not all(times) or not case.work.bytes:
        return
    rates = [case.work.bytes / seconds / 1e9 for seconds in times]
    yield _row("rate over memory, GB/s", *rates)
    if peak:
        yield _row("share of memory's peak, %", *(100e9 * rate / peak for rate in rates))
    if case.work.operations:
        yield f"  {'operations a byte':<{WIDTH}} {case.work.operations / case.work.bytes:>16,.2f}"
        yield _row("rate of arithmetic, Gop/s", *(case.work.operations / seconds / 1e9 for seconds in times))
