"""Joins the comparisons of a run in several processes: each measured other cases, on a GPU of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from warpwatch.catalogue.cases import Case
from warpwatch.compare.comparison import Comparison, count_compared
from warpwatch.devices.compile.compiler import Image
from warpwatch.devices.worker import Kernel
from warpwatch.timing.measurement import Again, Budget, Measured
from warpwatch.verdict.rule import Decision


@dataclass(frozen=True, kw_only=True)
class Part:
    """Holds the results of one process of a run.

    ``gpu``: as a run records it; empty where there was none. ``benchmarks``: what pytest-benchmark saves of each case
    and what it shows of it. ``lines`` say what was compared with what. ``concluded``: its cases have their verdicts.
    """

    gpu: Mapping[str, Any]
    selected: frozenset[str]
    benchmarks: Sequence[tuple[dict[str, Any], dict[str, Any]]] = ()
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    controls: Mapping[str, Decision] = field(default_factory=dict)
    energy: Mapping[str, Decision] = field(default_factory=dict)
    lines: Sequence[str] = ()
    notes: Sequence[str] = ()
    alarm: str = ""
    concluded: bool = False


@dataclass(kw_only=True)
class JoinedComparison:
    """The comparisons of all parts of a run, as one. ``whole``: what the parts were told to compare with."""

    whole: Comparison
    parts: Sequence[Part]

    @property
    def active(self) -> bool:
        return self.whole.active

    @property
    def decisions(self) -> dict[str, Decision]:
        return {name: decision for part in self.parts for name, decision in part.decisions.items()}

    @property
    def controls(self) -> dict[str, Decision]:
        """Verdicts of the cases of the same machine code that were measured all the same."""
        return {name: decision for part in self.parts for name, decision in part.controls.items()}

    @property
    def energy(self) -> dict[str, Decision]:
        """Decisions about energies, where they were measured."""
        return {name: decision for part in self.parts for name, decision in part.energy.items()}

    @property
    def compared(self) -> int:
        return count_compared(self.decisions)

    @property
    def alarm(self) -> str:
        return "; ".join(part.alarm for part in self.parts if part.alarm)

    def describe(self) -> list[str]:
        """Lines that say what is compared with what: those of all parts once, the others with the GPU's number."""
        common = [line for line in self.parts[0].lines if all(line in part.lines for part in self.parts)]
        own = [
            f"GPU {number} of {len(self.parts)} ({part.gpu.get('uuid', 'unknown')}): {line}"
            for number, part in enumerate(self.parts, 1)
            for line in part.lines
            if line not in common
        ]
        return [*common, *own]

    def missing(self, ran: set[str]) -> list[str]:
        return self.whole.missing(ran)

    def measures(self, case: Case, image: Image) -> bool:
        return False

    def measure(self, kernel: Kernel, case: Case, cold: bool, budget: Budget) -> Measured | None:
        """Raise TypeError: the parts have measured."""
        raise TypeError("the parts of this run have measured")

    def add(self, measured: Measured, samples: Sequence[float]) -> None:
        """Raise TypeError: the parts have measured."""
        raise TypeError("the parts of this run have measured")

    def conclude(self, again: Again) -> None:
        """Do nothing: the parts have concluded."""
