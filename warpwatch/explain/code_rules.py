"""Finds causes in what was declared and in the instructions of a kernel: flags, launch, spills, loops, occupancy."""

from __future__ import annotations

from collections.abc import Mapping

from warpwatch.explain.findings import Effect, Finding, by_growth, by_loss
from warpwatch.explain.sides import KernelSide, arithmetic, work
from warpwatch.machine_code.marks import FLOAT_DIVISION, INTEGER_DIVISION, PLAIN_LOAD, READ_ONLY_LOAD

FEWER = 1.5  # a turn of a loop that does this many times less work is unrolled less
ABOUT = 1.25  # two ratios are taken for the same within this
MORE = 1.03  # more arithmetic than this times as much is a cause
PADDING = 0.75  # rows that lose their padding keep at least this share of their bytes


def flags(old: KernelSide, new: KernelSide) -> Finding | None:
    """Find flags of nvcc that only one side is compiled with."""
    if list(old.flags) == list(new.flags):
        return None
    gone, came = ([flag for flag in a if flag not in b] for a, b in ((old.flags, new.flags), (new.flags, old.flags)))
    parts = [f"{' '.join(came)} came"] * bool(came) + [f"{' '.join(gone)} went"] * bool(gone)
    return Finding(sentence=f"nvcc's flags changed: {', '.join(parts) or 'their order'}", effect=Effect.EITHER)


def launch(old: KernelSide, new: KernelSide) -> Finding | None:
    """Find another number of threads in a block, or of blocks."""
    if (old.threads, old.blocks) == (new.threads, new.blocks):
        return None
    said = f"{old.blocks:,} blocks of {old.threads:,} threads -> {new.blocks:,} blocks of {new.threads:,} threads"
    if new.threads == old.threads:
        what = "a smaller" if new.blocks > old.blocks else "a larger"
        said = f"a block of as many threads does {what} part of the work: {said}"
    return Finding(sentence=f"it is launched differently: {said}", effect=Effect.EITHER)


def double_precision(old: KernelSide, new: KernelSide) -> Finding | None:
    """Find float64 arithmetic on one side alone."""
    before, after = (side.count("float64", "FMA float64") for side in (old, new))
    if before and after:
        return None
    conversions = f"conversions {old.count('conversion')} -> {new.count('conversion')}"
    figures = f"({before} -> {after} instructions, {conversions})"
    came = f"float64 arithmetic came into the code {figures}: a constant without f, such as 0.5, is a double"
    return by_growth(before, after, came, f"float64 arithmetic is gone {figures}")


def division(old: KernelSide, new: KernelSide) -> Finding | None:
    """Find divisions, of integers first, that were not there before."""
    for name in (INTEGER_DIVISION, FLOAT_DIVISION):
        before, after = old.mark(name), new.mark(name)
        if before != after:
            what = "integer divisions or remainders" if name == INTEGER_DIVISION else "divisions of float32 numbers"
            figures = f"{before} -> {after} in the code, each of some twenty instructions"
            return by_growth(before, after, f"more {what}: {figures}", f"fewer {what}: {figures}")
    return None


def spills(old: KernelSide, new: KernelSide) -> Finding | None:
    """Find more local memory: registers that are spilled there, or arrays."""
    before, after = old.needs.local_bytes, new.needs.local_bytes
    pairs = [(side.count("local load"), side.count("local store")) for side in (old, new)]
    registers = f"with {old.needs.registers} -> {new.needs.registers} registers"
    figures = f"local memory of a thread {before:,} -> {after:,} bytes"
    if old.code and new.code:
        (loads, stores), (more_loads, more_stores) = pairs
        figures += f" ({loads} -> {more_loads} loads, {stores} -> {more_stores} stores)"
    size = before or sum(pairs[0]), after or sum(pairs[1])
    fewer = new.needs.registers < old.needs.registers
    what = "registers are spilled" if fewer else "registers or arrays went to local memory"
    return by_growth(
        size[0], size[1], f"{what}: {figures}, {registers}", f"less is spilled to local memory: {figures}, {registers}"
    )


def smaller_tile(old: KernelSide, new: KernelSide) -> Finding | None:
    """Find blocks that keep less in shared memory, and do as much less between two barriers of their loop."""
    before, after = old.shared_bytes, new.shared_bytes
    if min(before, after) == 0 or PADDING <= before / after <= 1 / PADDING:
        return None
    phases = [_phase(side.main_body) for side in (old, new)]
    if not all(phases) or (phases[0] - phases[1]) * (before - after) <= 0:
        return None
    figures = f"shared memory of a block {before:,} -> {after:,} bytes, and {phases[0]:.0f} -> {phases[1]:.0f}"
    figures += " instructions of arithmetic and of global memory from barrier to barrier"
    return by_loss(before, after, f"tiles are smaller: {figures}", f"tiles are larger: {figures}")


def _phase(body: Mapping[str, int]) -> float:
    """Return the work that a turn of a loop does between two of its barriers; 0 where it has none."""
    return work(body) / body["barrier"] if body.get("barrier") else 0.0


def barriers(old: KernelSide, new: KernelSide) -> Finding | None:
    """Find more barriers for the same work."""
    bodies = old.main_body, new.main_body
    if bool(bodies[0]) != bool(bodies[1]) or not old.code or not new.code:
        return None
    turns = [work(body) for body in bodies]
    if all(turns) and not 1 / ABOUT < turns[0] / turns[1] < ABOUT:  # another unrolling has other barriers in a turn
        return None
    before, after = old.count("barrier"), new.count("barrier")
    inside = [side.code.inside.get("barrier", 0) if side.code else 0 for side in (old, new)]
    figures = f"{before} -> {after} in the code, {inside[0]} -> {inside[1]} of them in loops"
    return by_growth(before, after, f"more barriers: {figures}", f"fewer barriers: {figures}")


def restrict(old: KernelSide, new: KernelSide) -> Finding | None:
    """Find loads that the compiler no longer knows to be of data that nothing writes."""
    read_only = [side.mark(READ_ONLY_LOAD) for side in (old, new)]
    plain = [side.mark(PLAIN_LOAD) for side in (old, new)]
    if (read_only[1] - read_only[0]) * (plain[0] - plain[1]) <= 0 or min(read_only) > 0:
        return None
    figures = f"{read_only[0]} -> {read_only[1]} read-only loads, {plain[0]} -> {plain[1]} plain ones"
    lost = (
        f"the compiler cannot tell any more that inputs stay as they are, as `const ... __restrict__` says: {figures}"
    )
    return by_loss(read_only[0], read_only[1], lost, f"the compiler knows now that inputs stay as they are: {figures}")


def unrolling(old: KernelSide, new: KernelSide) -> Finding | None:
    """Find a main loop that does less in a turn."""
    before, after = (arithmetic(side.main_body) or work(side.main_body) for side in (old, new))
    if not min(before, after) or 1 / FEWER < before / after < FEWER:
        return None
    said = f"a turn of it has {before} -> {after} instructions of arithmetic or, without any, of memory"
    return by_loss(before, after, f"the main loop is unrolled less: {said}", f"the main loop is unrolled more: {said}")


def more_arithmetic(old: KernelSide, new: KernelSide) -> Finding | None:
    """Find more arithmetic for the same accesses, in the main loop or, where there is no loop, in the whole code."""
    if not old.code or not new.code or len(old.code.loops) != len(new.code.loops):
        return None
    first, second = (side.main_body or (side.code.outside if side.code else {}) for side in (old, new))
    before, after = arithmetic(first), arithmetic(second)
    accesses = [sum(n for kind, n in body.items() if "load" in kind or "store" in kind) for body in (first, second)]
    if accesses[0] != accesses[1] or max(before, after) < MORE * max(1, min(before, after)):
        return None
    where = "in a turn of the main loop" if old.main_body else "in the code"
    figures = f"{before} -> {after} instructions {where} for the same accesses"
    return by_growth(before, after, f"more arithmetic: {figures}", f"less arithmetic: {figures}")


def occupancy(old: KernelSide, new: KernelSide) -> Finding | None:
    """Find another theoretical occupancy, and what limits it."""
    first, second = old.occupancy, new.occupancy
    if not first or not second:
        return None
    limit = second.limited_by if second.share < first.share else first.limited_by
    figures = {
        "registers": f"registers of a thread {old.needs.registers} -> {new.needs.registers}",
        "shared memory": f"shared memory of a block {old.shared_bytes:,} -> {new.shared_bytes:,} bytes",
        "threads": f"threads of a block {old.threads:,} -> {new.threads:,}",
    }
    why = f", by {figures[limit]}" if limit in figures else f", limited by {limit}"
    said = f"{first.share:.2f} -> {second.share:.2f}{why}"
    return by_loss(first.share, second.share, f"occupancy fell: {said}", f"occupancy rose: {said}")
