"""Tells when samples are enough: when the standard error of their mean is small, as nvbench's stdrel does.

What a process shows of a kernel differs from process to process by 0.05 % above 100 µs and by more below (H200), so
samples that are known better than that need no more. In 16 recorded runs on unchanged code, of 872 cases each, the
median of the samples until then differs from that of all by 0.02 to 0.04 % (one standard deviation); of 13,952 verdicts
three become unsure, and the samples take 36 s of a run and not 52. Of injected slowdowns of 1 % in kernels above 100 µs
76 % are found and not 78, of larger ones as many (``python -m tools.score`` on the same runs).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

PRECISE = 0.0003  # relative standard error of the mean
FEWEST = 30  # samples from which their scatter is known


@dataclass
class Spread:
    """Mean and scatter of logarithms, which are added one by one (Welford 1962)."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, value: float) -> None:
        """Add the logarithm of a sample or of a ratio."""
        self.count += 1
        away = value - self.mean
        self.mean += away / self.count
        self.squares += away * (value - self.mean)

    @property
    def error(self) -> float:
        """Standard error of the mean; infinite for fewer than two."""
        return math.sqrt(self.squares / (self.count - 1) / self.count) if self.count > 1 else math.inf

    @property
    def is_precise(self) -> bool:
        """True where the samples of a plain run are enough."""
        return self.count >= FEWEST and self.error < PRECISE


def spread_of(samples: Iterable[float]) -> Spread:
    """Return the spread of samples in seconds."""
    spread = Spread()
    for seconds in samples:
        spread.add(math.log(seconds))
    return spread
