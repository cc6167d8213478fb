"""Joins the comparisons of a run in several processes: each measured other cases, on a GPU of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from warpwatch.compare.comparison import Comparison
from warpwatch.verdict.rule import Decision


@dataclass(frozen=True, kw_only=True)
class Part:
    """Results of one process of a run.

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
class JoinedComparison(Comparison):
    """The comparisons of all parts of a run, as one. ``whole``: what the parts were told to compare with."""

    whole: Comparison
    parts: Sequence[Part]

    def __post_init__(self) -> None:
        for part in self.parts:
            self.decisions |= part.decisions
            self.controls |= part.controls
            self.energy |= part.energy
        self.alarm = "; ".join(part.alarm for part in self.parts if part.alarm)
        self.lacks = self.whole.lacks

    @property
    def active(self) -> bool:
        return self.whole.active

    @property
    def against(self) -> str:
        return self.whole.against

    @property
    def past(self) -> Sequence[str]:
        return self.whole.past

    def describe(self) -> list[str]:
        """Return lines on what is compared with what: those of all parts once, the others with the GPU's number."""
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

    def next_step(self, case: str, against: str) -> str:
        return self.whole.next_step(case, against)
