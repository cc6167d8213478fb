"""What a judge is: what --benchmark-compare (with_baseline.py) and --against (with_revision.py) have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from warpwatch.catalogue.declaration import Case
from warpwatch.devices.worker import Kernel
from warpwatch.runs.saved import Facts, typed
from warpwatch.timing.parent_samples import Again, Budget, Measured
from warpwatch.verdict.rule import Decision, Verdict

# Verdicts of cases that were compared with something.
COMPARED = frozenset({Verdict.SLOWER, Verdict.FASTER, Verdict.SAME, Verdict.UNSURE, Verdict.IDENTICAL})


class Comparison(Protocol):
    """Sees every case of a run, and when all are measured gives each its verdict in ``decisions``."""

    decisions: dict[str, Decision]

    @property
    def active(self) -> bool:
        """Whether there is anything to compare with."""

    @property
    def compared(self) -> int:
        """How many cases were compared with something."""

    @property
    def alarm(self) -> str:
        """What became slower or faster for every case alike, in a sentence, or nothing."""

    def measure(self, kernel: Kernel, case: Case, cold: bool, budget: Budget) -> Measured | None:
        """A case ready to be sampled, proved right; None where it need not be. Raises WrongResult or DeviceError."""

    def add(self, measured: Measured, samples: Sequence[float]) -> None:
        """Take note of a case's samples, in seconds."""

    def conclude(self, again: Again) -> None:
        """Judge all cases together. Fresh processes measure again what is undecided."""

    def describe(self) -> list[str]:
        """What is compared with what, and what holds for the run as a whole, a line each."""

    def missing(self, ran: set[str]) -> list[str]:
        """Cases that the other side has and a whole run had not."""


def recorded_facts(measured: Measured) -> Facts:
    """What is recorded beside a case's samples, as it would be read from a saved run."""
    return typed(measured.facts, Facts)


def count_compared(decisions: Mapping[str, Decision]) -> int:
    """How many of these cases were compared with something; the others are new, missing or incomparable."""
    return sum(decision.verdict in COMPARED for decision in decisions.values())
