"""Finds causes in how a kernel's loads and stores meet memory: coalescing, bank conflicts, width, number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from warpwatch.explain.findings import Finding, by_growth, by_loss
from warpwatch.explain.sides import KernelSide, work
from warpwatch.machine_code.strides import UNIFORM, Access
from warpwatch.machine_code.warps import bank_ways, sectors

TWICE = 1.9  # an access that touches this many times more is no longer the same
MORE = 1.2  # more accesses than this times as many are a cause
SAME_WORK = 1.1  # two loops do the same work in a turn within this
GLOBAL, SHARED = ("global load", "global store"), ("shared load", "shared store")
Cost = Callable[[Access, Sequence[int]], int | None]


def coalescing(old: KernelSide, new: KernelSide) -> Finding | None:
    """Find loads or stores of global memory whose warps touch more sectors for the same bytes."""
    for kind in reversed(GLOBAL):
        before, after = (_worst(*sides, kind, sectors, by_bytes=True) for sides in ((old, new), (new, old)))
        if before and after and max(before / after, after / before) >= TWICE:
            figures = f"bytes moved for each byte that is asked for {before:.1f} -> {after:.1f}"
            return by_growth(
                before,
                after,
                f"{kind}s are less coalesced: neighbouring threads are further apart in memory, {figures}",
                f"{kind}s are coalesced better, {figures}",
            )
    return None


def bank_conflicts(old: KernelSide, new: KernelSide) -> Finding | None:
    """Find accesses to shared memory whose threads meet in one bank more often."""
    for kind in SHARED:
        before, after = (_worst(*sides, kind, bank_ways) for sides in ((old, new), (new, old)))
        if before and after and max(before / after, after / before) >= TWICE:
            sizes = ""
            if old.shared_bytes != new.shared_bytes:
                sizes = f"; shared memory of a block {old.shared_bytes:,} -> {new.shared_bytes:,} bytes"
            figures = f"{kind}s of a warp took {before:.0f} rounds and take {after:.0f}{sizes}"
            return by_growth(
                before,
                after,
                f"bank conflicts, as where rows of shared memory lose their padding: {figures}",
                f"bank conflicts are gone, as where rows of shared memory are padded: {figures}",
            )
    return None


def _worst(side: KernelSide, other: KernelSide, kind: str, cost: Cost, *, by_bytes: bool = False) -> float:
    """Return the highest cost of a side's accesses of a kind; 0 where too little is known for a comparison.

    That is so where more than one address in four is unknown, unless as many are on the other side. ``by_bytes``: as a
    multiple of what the warp's bytes would cost at best.
    """
    own = [each for each in side.code.accesses if each.kind == kind] if side.code else []
    costs = {each: cost(each, side.launch.block) for each in own}
    unknown, total = _unknown(side, kind)
    if not total or unknown == total or (unknown * 4 > total and (unknown, total) != _unknown(other, kind)):
        return 0.0
    values = []
    for each, value in costs.items():
        if value is not None:
            best = each.bytes if by_bytes and each.steps != UNIFORM else 1  # 32 threads' bytes over 32 of a sector
            values.append(value / best)
    return max(values)


def _unknown(side: KernelSide, kind: str) -> tuple[int, int]:
    """Count the accesses of a kind whose addresses are unknown, and all of them."""
    own = [each for each in side.code.accesses if each.kind == kind] if side.code else []
    return sum(each.count for each in own if each.steps is None), sum(each.count for each in own)


def width(old: KernelSide, new: KernelSide) -> Finding | None:
    """Find accesses to global memory that move fewer bytes each."""
    return _width(old, new, GLOBAL)


def shared_width(old: KernelSide, new: KernelSide) -> Finding | None:
    """Find accesses to shared memory that move fewer bytes each; the compiler joins them where it unrolls loops."""
    return _width(old, new, SHARED)


def _width(old: KernelSide, new: KernelSide, kinds: Sequence[str]) -> Finding | None:
    for kind in kinds:
        both = [_by_width(side, kind) for side in (old, new)]
        if not all(both):
            continue
        means = [sum(w * n for w, n in own.items()) / sum(own.values()) for own in both]
        widest = [max(own) for own in both]
        if widest[0] != widest[1] and (means[1] - means[0]) * (widest[1] - widest[0]) > 0:
            figures = " -> ".join(", ".join(f"{n} of {w} bytes" for w, n in sorted(own.items())) for own in both)
            return by_loss(widest[0], widest[1], f"{kind}s are narrower: {figures}", f"{kind}s are wider: {figures}")
    return None


def _by_width(side: KernelSide, kind: str) -> Mapping[int, int]:
    found: dict[int, int] = {}
    for each in side.code.accesses if side.code else ():
        if each.kind == kind:
            found[each.bytes] = found.get(each.bytes, 0) + each.count
    return found


def more_accesses(old: KernelSide, new: KernelSide) -> Finding | None:
    """Find more loads or stores in a turn of a main loop that does the same arithmetic."""
    bodies = old.main_body, new.main_body
    turns = [work({kind: n for kind, n in body.items() if not kind.startswith(GLOBAL)}) for body in bodies]
    if not all(turns) or not 1 / SAME_WORK < turns[0] / turns[1] < SAME_WORK:
        return None
    for kind in (*GLOBAL, *SHARED):
        before, after = (sum(n for each, n in body.items() if each.startswith(kind)) for body in bodies)
        if max(before, after) > MORE * min(before, after):
            figures = f"{before} -> {after} {kind}s in a turn of the main loop for the same arithmetic"
            return by_growth(before, after, f"more accesses: {figures}", f"fewer accesses: {figures}")
    return None
