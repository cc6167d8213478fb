"""Names the likely cause of a slowdown or a gain from what differs in the machine code, by stated rules.

Each rule looks at both sides of a kernel and gives a sentence on what it found, or nothing. The sentence holds figures
of both sides, so that it is true whatever the cause is. The first cause that fits the verdict is the likely one. What
was declared comes first, then what few changes of a source can bring about, last what many can. docs/explain.md lists
the rules.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from math import prod

from warpwatch.catalogue.launches import Launch
from warpwatch.compare.code_difference import Kernel
from warpwatch.machine_code.cubin import Occupancy
from warpwatch.machine_code.disassembler import FLOAT_DIVISION, INTEGER_DIVISION, PLAIN_LOAD, READ_ONLY_LOAD
from warpwatch.machine_code.strides import UNIFORM, Access

# What a turn of a loop is there for, as far as kinds of instructions tell: arithmetic and accesses to memory.
WORK = ("FMA", "float", "half", "tensor", "special function", "global load", "global store")


@dataclass(frozen=True, kw_only=True)
class KernelSide(Kernel):
    """A kernel of a case on one side, with its occupancy at one launch.

    ``flags``: those of nvcc that the declaration adds.
    """

    launch: Launch
    flags: Sequence[str] = ()

    @property
    def occupancy(self) -> Occupancy | None:
        """Occupancy at this launch; None where it is unknown."""
        return self.occupancies[0].occupancy

    @property
    def threads(self) -> int:
        return prod(self.launch.block)

    @property
    def blocks(self) -> int:
        return prod(self.launch.grid)

    @property
    def shared_bytes(self) -> int:
        """Static and dynamic shared memory of a block."""
        return self.needs.shared_bytes + self.launch.shared_bytes

    def mark(self, name: str) -> int:
        """Return how often the code has an operation of warpwatch/machine_code/disassembler.py."""
        return self.code.marks.get(name, 0) if self.code else 0

    def accesses(self, kind: str) -> list[Access]:
        """List the loads or stores of a kind."""
        return [each for each in self.code.accesses if each.kind == kind] if self.code else []

    @property
    def main_body(self) -> Mapping[str, int]:
        """The instructions by kind of the loop that does the most in a turn; empty where there is no loop."""
        return max(self.code.bodies if self.code else (), key=lambda body: (arithmetic(body), work(body)), default={})


def work(body: Mapping[str, int]) -> int:
    """Count the instructions that a turn of a loop is there for."""
    return sum(count for kind, count in body.items() if kind.startswith(WORK))


def arithmetic(body: Mapping[str, int]) -> int:
    """Count the instructions of arithmetic in a turn of a loop, without indices and conversions."""
    return work({kind: count for kind, count in body.items() if not kind.startswith("global")})


class Effect(StrEnum):
    """Effect of a difference on a kernel's time. ``EITHER``: the code does not tell."""

    SLOWER = "slower"
    FASTER = "faster"
    EITHER = "either"


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Difference that may change a kernel's time. ``sentence``: with figures of both sides. ``rule``: its name."""

    sentence: str
    effect: Effect
    rule: str = ""


Rule = Callable[[KernelSide, KernelSide], Cause | None]


def by_growth(old: float, new: float, grown: str, shrunk: str, figures: str = "") -> Cause | None:
    """Find a figure that costs time where it grows: a sentence for each direction, nothing where it is the same.

    ``figures``: of both sides, which follow the sentence.
    """
    if new == old:
        return None
    sentence, effect = (grown, Effect.SLOWER) if new > old else (shrunk, Effect.FASTER)
    return Cause(sentence=f"{sentence}: {figures}" if figures else sentence, effect=effect)


def by_loss(old: float, new: float, lost: str, won: str, figures: str) -> Cause | None:
    """Find a figure that costs time where it falls."""
    return by_growth(new, old, lost, won, figures)


# How loads and stores meet memory: coalescing, bank conflicts, width, number

TWICE = 1.9  # an access that touches this many times more is no longer the same
MORE_ACCESSES = 1.2  # more accesses than this times as many are a cause
SAME_WORK = 1.1  # two loops do the same work in a turn within this
GLOBAL, SHARED = ("global load", "global store"), ("shared load", "shared store")
Cost = Callable[[Access, Sequence[int]], int | None]


def coalescing(old: KernelSide, new: KernelSide) -> Cause | None:
    """Find loads or stores of global memory whose warps touch more sectors for the same bytes."""
    for kind in reversed(GLOBAL):
        before, after = (_worst(*sides, kind, Access.sectors, by_bytes=True) for sides in ((old, new), (new, old)))
        if before and after and max(before / after, after / before) >= TWICE:
            figures = f"bytes moved for each byte that is asked for {before:.1f} -> {after:.1f}"
            return by_growth(
                before,
                after,
                f"{kind}s are less coalesced: neighbouring threads are further apart in memory, {figures}",
                f"{kind}s are coalesced better, {figures}",
            )
    return None


def bank_conflicts(old: KernelSide, new: KernelSide) -> Cause | None:
    """Find accesses to shared memory whose threads meet in one bank more often."""
    for kind in SHARED:
        before, after = (_worst(*sides, kind, Access.bank_ways) for sides in ((old, new), (new, old)))
        if before and after and max(before / after, after / before) >= TWICE:
            figures = f"{kind}s of a warp took {before:.0f} rounds and take {after:.0f}"
            if old.shared_bytes != new.shared_bytes:
                figures += f"; shared memory of a block {old.shared_bytes:,} -> {new.shared_bytes:,} bytes"
            lost = "bank conflicts, as where rows of shared memory lose their padding"
            won = "bank conflicts are gone, as where rows of shared memory are padded"
            return by_growth(before, after, lost, won, figures)
    return None


def _worst(side: KernelSide, other: KernelSide, kind: str, cost: Cost, *, by_bytes: bool = False) -> float:
    """Return the highest cost of a side's accesses of a kind; 0 where too little is known for a comparison.

    That is so where more than one address in four is unknown, unless as many are on the other side. ``by_bytes``: as a
    multiple of what the warp's bytes would cost at best.
    """
    unknown, total = _unknown(side, kind)
    if not total or unknown == total or (unknown * 4 > total and (unknown, total) != _unknown(other, kind)):
        return 0.0
    costs = [(each, cost(each, side.launch.block)) for each in side.accesses(kind)]
    return max(  # 32 threads' bytes over 32 of a sector
        value / (each.bytes if by_bytes and each.steps != UNIFORM else 1) for each, value in costs if value is not None
    )


def _unknown(side: KernelSide, kind: str) -> tuple[int, int]:
    """Count the accesses of a kind whose addresses are unknown, and all of them."""
    own = side.accesses(kind)
    return sum(each.count for each in own if each.steps is None), sum(each.count for each in own)


def width(old: KernelSide, new: KernelSide, kinds: Sequence[str] = GLOBAL) -> Cause | None:
    """Find accesses that move fewer bytes each; the compiler joins those to shared memory where it unrolls loops."""
    for kind in kinds:
        both = [_by_width(side, kind) for side in (old, new)]
        if not all(both):
            continue
        means = [sum(w * n for w, n in own.items()) / sum(own.values()) for own in both]
        widest = [max(own) for own in both]
        if widest[0] != widest[1] and (means[1] - means[0]) * (widest[1] - widest[0]) > 0:
            figures = " -> ".join(", ".join(f"{n} of {w} bytes" for w, n in sorted(own.items())) for own in both)
            return by_loss(widest[0], widest[1], f"{kind}s are narrower", f"{kind}s are wider", figures)
    return None


def _by_width(side: KernelSide, kind: str) -> Mapping[int, int]:
    widths = Counter[int]()
    for each in side.accesses(kind):
        widths[each.bytes] += each.count
    return widths


def more_accesses(old: KernelSide, new: KernelSide) -> Cause | None:
    """Find more loads or stores in a turn of a main loop that does the same arithmetic."""
    bodies = old.main_body, new.main_body
    turns = [work({kind: n for kind, n in body.items() if not kind.startswith(GLOBAL)}) for body in bodies]
    if not all(turns) or not 1 / SAME_WORK < turns[0] / turns[1] < SAME_WORK:
        return None
    for kind in (*GLOBAL, *SHARED):
        before, after = (sum(n for each, n in body.items() if each.startswith(kind)) for body in bodies)
        if max(before, after) > MORE_ACCESSES * min(before, after):
            figures = f"{before} -> {after} {kind}s in a turn of the main loop for the same arithmetic"
            return by_growth(before, after, "more accesses", "fewer accesses", figures)
    return None


# What was declared, and the instructions of a kernel: flags, launch, spills, loops, occupancy

FEWER = 1.5  # a turn of a loop that does this many times less work is unrolled less
ABOUT = 1.25  # two ratios are taken for the same within this
MORE_ARITHMETIC = 1.03  # more arithmetic than this times as much is a cause
PADDING = 0.75  # rows that lose their padding keep at least this share of their bytes


def flags(old: KernelSide, new: KernelSide) -> Cause | None:
    """Find flags of nvcc that only one side is compiled with."""
    if list(old.flags) == list(new.flags):
        return None
    gone, came = ([flag for flag in a if flag not in b] for a, b in ((old.flags, new.flags), (new.flags, old.flags)))
    parts = [f"{' '.join(came)} came"] * bool(came) + [f"{' '.join(gone)} went"] * bool(gone)
    return Cause(sentence=f"nvcc's flags changed: {', '.join(parts) or 'their order'}", effect=Effect.EITHER)


def launch(old: KernelSide, new: KernelSide) -> Cause | None:
    """Find another number of threads in a block, or of blocks."""
    if (old.threads, old.blocks) == (new.threads, new.blocks):
        return None
    figures = f"{old.blocks:,} blocks of {old.threads:,} threads -> {new.blocks:,} blocks of {new.threads:,} threads"
    if new.threads == old.threads:
        size = "a smaller" if new.blocks > old.blocks else "a larger"
        figures = f"a block of as many threads does {size} part of the work: {figures}"
    return Cause(sentence=f"it is launched differently: {figures}", effect=Effect.EITHER)


def double_precision(old: KernelSide, new: KernelSide) -> Cause | None:
    """Find float64 arithmetic on one side alone."""
    before, after = (side.count("float64", "FMA float64") for side in (old, new))
    if before and after:
        return None
    conversions = f"conversions {old.count('conversion')} -> {new.count('conversion')}"
    figures = f"({before} -> {after} instructions, {conversions})"
    came = f"float64 arithmetic came into the code {figures}: a constant without f, such as 0.5, is a double"
    return by_growth(before, after, came, f"float64 arithmetic is gone {figures}")


def division(old: KernelSide, new: KernelSide) -> Cause | None:
    """Find divisions, of integers first, that were not there before."""
    for name in (INTEGER_DIVISION, FLOAT_DIVISION):
        before, after = old.mark(name), new.mark(name)
        if before != after:
            kind = "integer divisions or remainders" if name == INTEGER_DIVISION else "divisions of float32 numbers"
            figures = f"{before} -> {after} in the code, each of some twenty instructions"
            return by_growth(before, after, f"more {kind}", f"fewer {kind}", figures)
    return None


def spills(old: KernelSide, new: KernelSide) -> Cause | None:
    """Find more local memory: registers that are spilled there, or arrays."""
    before, after = old.needs.local_bytes, new.needs.local_bytes
    (loads, stores), (new_loads, new_stores) = ((s.count("local load"), s.count("local store")) for s in (old, new))
    figures = f"local memory of a thread {before:,} -> {after:,} bytes"
    if old.code and new.code:
        figures += f" ({loads} -> {new_loads} loads, {stores} -> {new_stores} stores)"
    figures += f", with {old.needs.registers} -> {new.needs.registers} registers"
    fewer = new.needs.registers < old.needs.registers
    cause = "registers are spilled" if fewer else "registers or arrays went to local memory"
    sizes = before or loads + stores, after or new_loads + new_stores
    return by_growth(*sizes, cause, "less is spilled to local memory", figures)


def smaller_tile(old: KernelSide, new: KernelSide) -> Cause | None:
    """Find blocks that keep less in shared memory, and do as much less between two barriers of their loop."""
    before, after = old.shared_bytes, new.shared_bytes
    if min(before, after) == 0 or PADDING <= before / after <= 1 / PADDING:
        return None
    phases = [work(body) / (body.get("barrier") or math.inf) for body in (old.main_body, new.main_body)]
    if not all(phases) or (phases[0] - phases[1]) * (before - after) <= 0:
        return None
    figures = f"shared memory of a block {before:,} -> {after:,} bytes, and {phases[0]:.0f} -> {phases[1]:.0f}"
    figures += " instructions of arithmetic and of global memory from barrier to barrier"
    return by_loss(before, after, "tiles are smaller", "tiles are larger", figures)


def barriers(old: KernelSide, new: KernelSide) -> Cause | None:
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
    return by_growth(before, after, "more barriers", "fewer barriers", figures)


def restrict(old: KernelSide, new: KernelSide) -> Cause | None:
    """Find loads that the compiler no longer knows to be of data that nothing writes."""
    read_only = [side.mark(READ_ONLY_LOAD) for side in (old, new)]
    plain = [side.mark(PLAIN_LOAD) for side in (old, new)]
    if (read_only[1] - read_only[0]) * (plain[0] - plain[1]) <= 0 or min(read_only) > 0:
        return None
    figures = f"{read_only[0]} -> {read_only[1]} read-only loads, {plain[0]} -> {plain[1]} plain ones"
    lost = "the compiler cannot tell any more that inputs stay as they are, as `const ... __restrict__` says"
    return by_loss(read_only[0], read_only[1], lost, "the compiler knows now that inputs stay as they are", figures)


def unrolling(old: KernelSide, new: KernelSide) -> Cause | None:
    """Find a main loop that does less in a turn."""
    before, after = (arithmetic(side.main_body) or work(side.main_body) for side in (old, new))
    if not min(before, after) or 1 / FEWER < before / after < FEWER:
        return None
    figures = f"a turn of it has {before} -> {after} instructions of arithmetic or, without any, of memory"
    return by_loss(before, after, "the main loop is unrolled less", "the main loop is unrolled more", figures)


def more_arithmetic(old: KernelSide, new: KernelSide) -> Cause | None:
    """Find more arithmetic for the same accesses, in the main loop or, where there is no loop, in the whole code."""
    if not old.code or not new.code or len(old.code.loops) != len(new.code.loops):
        return None
    first, second = (side.main_body or (side.code.outside if side.code else {}) for side in (old, new))
    before, after = arithmetic(first), arithmetic(second)
    accesses = [sum(n for kind, n in body.items() if "load" in kind or "store" in kind) for body in (first, second)]
    if accesses[0] != accesses[1] or max(before, after) < MORE_ARITHMETIC * max(1, min(before, after)):
        return None
    where = "in a turn of the main loop" if old.main_body else "in the code"
    figures = f"{before} -> {after} instructions {where} for the same accesses"
    return by_growth(before, after, "more arithmetic", "less arithmetic", figures)


def occupancy(old: KernelSide, new: KernelSide) -> Cause | None:
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
    shares = f"{first.share:.2f} -> {second.share:.2f}{why}"
    return by_loss(first.share, second.share, "occupancy fell", "occupancy rose", shares)


RULES: Mapping[str, Rule] = {
    "flags": flags,
    "launch": launch,
    "double precision": double_precision,
    "division": division,
    "spills": spills,
    "tile": smaller_tile,
    "width": width,
    "coalescing": coalescing,
    "bank conflicts": bank_conflicts,
    "barriers": barriers,
    "restrict": restrict,
    "unrolling": unrolling,
    "shared width": partial(width, kinds=SHARED),
    "occupancy": occupancy,
    "more accesses": more_accesses,
    "more arithmetic": more_arithmetic,
}


def causes(old: KernelSide, new: KernelSide) -> list[Cause]:
    """List what the rules find between two sides of a kernel, in the rules' order."""
    known = ((name, rule(old, new)) for name, rule in RULES.items())
    return [replace(cause, rule=name) for name, cause in known if cause]


def likely(causes: Sequence[Cause], *, slower: bool) -> Cause | None:
    """Return the first cause that fits a case that became slower, or faster; None where there is none."""
    fitting = (Effect.SLOWER if slower else Effect.FASTER, Effect.EITHER)
    return next((cause for cause in causes if cause.effect in fitting), None)
