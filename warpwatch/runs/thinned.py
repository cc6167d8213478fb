"""Thins the document of a saved run: medians, quartiles and extremes of each process stay."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

KEPT = 9  # of a process's samples: the octiles, among them the extremes, the quartiles and the median
DIGITS = 9  # of pytest-benchmark's figures: a sample has at most that many
MARK = "thinned"  # in the run's own part: it is thinned already


def thinned(document: Mapping[str, Any], cases: Collection[str] | None = None) -> dict[str, Any]:
    """Return the document of a run with few samples of each process. ``cases``: those that stay; None: all."""
    entries = [_thinned_entry(entry) for entry in document["benchmarks"] if cases is None or case_of(entry) in cases]
    return {**document, "benchmarks": entries, "warpwatch": {**document.get("warpwatch", {}), MARK: True}}


def case_of(entry: Mapping[str, Any]) -> str:
    """Return the id of the case that an entry of a run's document is of."""
    return str(entry.get("param") or entry.get("name"))


def _thinned_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    short = {name: float(f"{value:.{DIGITS}g}") for name, value in entry["stats"].items() if isinstance(value, float)}
    stats = {**entry["stats"], **short, "data": octiles(entry["stats"]["data"])}
    facts = dict(entry["extra_info"])
    if facts.get("again"):
        facts["again"] = [octiles(samples) for samples in facts["again"]]
    rest = {name: value for name, value in entry.items() if name != "options"}
    return {**rest, "extra_info": facts, "stats": stats}


def octiles(samples: Sequence[float]) -> list[float]:
    """Return the octiles of samples, the median as it was to the last bit; few samples stay as they are."""
    if len(samples) <= KEPT:
        return list(samples)
    middle = median(samples)
    kept = [round(float(value), 12) for value in np.percentile(samples, np.linspace(0, 100, KEPT))]
    half = KEPT // 2
    return [*(min(low, middle) for low in kept[:half]), middle, *(max(high, middle) for high in kept[half + 1 :])]
