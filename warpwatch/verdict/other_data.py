"""Compares times on other data with times on the declared data. The result is shown, and is part of no verdict."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

TURNS = 8  # of the declared data and others, by which each effect is known
QUANTILE = 3.499  # of Student's distribution with TURNS - 1 degrees of freedom, both sides of 99 %
LEAST = 0.02  # of a time: smaller changes are not told


@dataclass(frozen=True, kw_only=True)
class DataEffect:
    """Time on other data over that on the declared ones, with its 99 % interval from ``low`` to ``high``."""

    ratio: float
    low: float
    high: float

    @classmethod
    def of(cls, logs: Sequence[float]) -> DataEffect:
        """Make it from the logarithms of the ratio in TURNS turns."""
        mean, half = statistics.fmean(logs), QUANTILE * statistics.stdev(logs) / math.sqrt(TURNS)
        return cls(ratio=math.exp(mean), low=math.exp(mean - half), high=math.exp(mean + half))

    @property
    def differs(self) -> bool:
        """True where the whole interval lies further than LEAST from equal times."""
        return self.low > 1 + LEAST or self.high < 1 - LEAST

    @property
    def is_same(self) -> bool:
        """True where the whole interval lies within LEAST of equal times."""
        return self.low >= 1 - LEAST and self.high <= 1 + LEAST


def remark(effects: Mapping[str, DataEffect]) -> str:
    """Say which data change the time of a case; empty where none do."""
    said = [
        f"{each.ratio:.2f} ({each.low:.2f} to {each.high:.2f}) times as long on {name}"
        for name, each in effects.items()
        if each.differs
    ]
    return f"takes {', '.join(said)} as on the declared data" if said else ""
