"""Decides when a process has taken enough samples: one rule with one interface, as nvbench's stopping criteria.

Every loop that samples adds its logarithms to a ``Stopping`` and asks it: single samples (``of_samples``), turns of two
sides in one process (``of_turns``), and turns of a side in a process each (compare/apart.py).

What a process shows of a kernel differs from process to process by 0.05 % above 100 µs and by more below (H200), so
samples that are known better than that need no more (docs/timing.md says what that costs).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

PRECISE = 0.0003  # relative standard error of the mean of samples, as nvbench's stdrel
FEWEST = 30  # samples from which their scatter is known

# A turn takes four samples. The process effect of pairs comes from the scatter of their samples, so more turns help
# as much as more processes do: 48 unchanged kernels of 10 to 20 µs differed by 0.60 % from process to process after 25
# turns, 0.27 after 80, 0.20 after 200, 0.15 after 400 (H200). 200 turns take 0.06 s.
MOST_TURNS, FEWEST_TURNS = 200, 4
# A quiet kernel needs no more turns than bring the standard error of its mean to this: that is well within the smallest
# noise floor, 0.5 %. The time goes to the noisy kernels.
PRECISE_TURNS, TURNS_TO_TELL = 0.0006, 6
# Four turns are enough where the standard error of their mean is this small: in replays of recorded pairs as many
# slowdowns by 1 % above 100 µs are found as with six, 97.6 % (three H200s).
QUIET = 0.0003
# A kernel whose standard error is above this when its time is over may take as long again: of slowdowns by 1 % above
# 100 µs, 98 % are found with that and 93 % without (H200s, replayed from recorded pairs).
NOISY = 0.0012


@dataclass(kw_only=True)
class Stopping:
    """Rule that ends the samples of a process.

    Attributes
    ----------
    fewest, most
        Limits of the number of values.
    step
        The number is a multiple of this.
    precise
        Standard errors of the mean that are small enough, each with the number of values from which on it counts.
    seconds
        Wall time, which the next ``ahead`` values must fit into too; twice that while the error is above ``noisy``.
    count, mean, squares
        Number and mean of the logarithms, and the sum of their squared deviations (Welford 1962).
    """

    fewest: int
    most: int
    step: int = 1
    precise: tuple[tuple[int, float], ...] = ()
    seconds: float = math.inf
    ahead: int = 0
    noisy: float = math.inf
    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    _begin: float = field(default_factory=time.perf_counter)

    def add(self, value: float) -> None:
        """Add the logarithm of a sample or of a ratio."""
        self.count += 1
        away = value - self.mean
        self.mean += away / self.count
        self.squares += away * (value - self.mean)

    @property
    def error(self) -> float:
        """Standard error of the mean; infinite for fewer than two values."""
        return math.sqrt(self.squares / (self.count - 1) / self.count) if self.count > 1 else math.inf

    @property
    def is_finished(self) -> bool:
        """True where no more values are needed."""
        if self.count < self.fewest or self.count % self.step:
            return False
        is_precise = any(self.count >= known and self.error < error for known, error in self.precise)
        needed = (time.perf_counter() - self._begin) * (self.count + self.ahead) / self.count
        is_late = needed > self.seconds * (2 if self.error > self.noisy else 1)
        return self.count >= self.most or is_precise or is_late


def of_samples(fewest: int, most: int, before: Iterable[float] = ()) -> Stopping:
    """Return the rule for single samples. ``before``: those that were taken already, in seconds."""
    rule = Stopping(fewest=fewest, most=most, precise=((FEWEST, PRECISE),))
    for seconds in before:
        rule.add(math.log(seconds))
    return rule


def of_turns(seconds: float) -> Stopping:
    """Return the rule for turns of two sides in one process, which takes ``seconds`` of wall time at most."""
    return Stopping(
        fewest=FEWEST_TURNS,
        most=MOST_TURNS,
        step=2,
        precise=((FEWEST_TURNS, QUIET), (TURNS_TO_TELL, PRECISE_TURNS)),
        seconds=seconds,
        ahead=2,
        noisy=NOISY,
    )
