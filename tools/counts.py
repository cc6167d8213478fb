"""Counts and shares with their 95 % intervals, as tables print them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np


def interval(count: int, total: int) -> tuple[float, float]:
    """95 % interval of a share (Clopper and Pearson 1934); one-sided where none or all of the total was counted."""
    from scipy import special  # noqa: PLC0415  # half a second that listing tests need not wait

    tail = 0.05 if count in (0, total) else 0.025
    low = float(special.betaincinv(count, total - count + 1, tail)) if count else 0.0
    return low, float(special.betaincinv(count + 1, total - count, 1 - tail)) if count < total else 1.0


def share(count: int, total: int) -> str:
    """Say how many of how many, and the interval in per cent: ``0 of 30 (< 9.5 %)``; a dash for none of none."""
    if not total:
        return "–"
    low, high = (f"{100 * bound:.{2 if bound < 0.99 else 4}g}" for bound in interval(count, total))
    if not count:
        return f"0 of {total} (< {high} %)"
    return f"{count} of {total} (> {low} %)" if count == total else f"{count} of {total} ({low} to {high} %)"


def percent(hits: Mapping[str, Sequence[bool]]) -> str:
    """Return the share of hits in per cent, rounded to a whole number; a dash without any."""
    total = sum(map(len, hits.values()))
    return f"{100 * sum(map(sum, hits.values())) / total:.0f}" if total else "–"


def margin(hits: Mapping[str, Sequence[bool]]) -> float:
    """Half of the 95 % interval of a share of hits, of which those of one case may all depend on it (by clusters)."""
    sizes, sums = np.array([(len(each), sum(each)) for each in hits.values()], float).T
    off = sums - sizes * sums.sum() / sizes.sum()
    clusters = len(sizes)
    return float(1.96 * math.sqrt((off**2).sum() * clusters / max(1, clusters - 1)) / sizes.sum())
