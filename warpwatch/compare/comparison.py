"""Common base of all comparisons: with a baseline, with another revision, with the same kernels."""

from __future__ import annotations

import importlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.project import Project
from warpwatch.devices.compile.compiler import Image, Target
from warpwatch.devices.kernel import Kernel
from warpwatch.devices.other_kernel import OtherKernel
from warpwatch.runs.explained import Explained
from warpwatch.runs.identity import Difference
from warpwatch.runs.launched import Launched
from warpwatch.runs.record import BuildCost
from warpwatch.timing.measurement import Again, Budget, Measured
from warpwatch.verdict.contracts import Clause
from warpwatch.verdict.rule import Decision, Verdict

# Verdicts of cases that were compared with something.
COMPARED = frozenset({Verdict.SLOWER, Verdict.FASTER, Verdict.SAME, Verdict.UNSURE, Verdict.IDENTICAL})
MOST_LISTED = 5  # lines on what differs besides machine code
CALL = "it is a call, whose machine code is not compared"
OldCode = tuple[OtherKernel, Image]  # the other side of a case, and its machine code


@dataclass(frozen=True, kw_only=True)
class Part:
    """Results of one process of a run in several: each measured other cases, on a GPU of its own.

    ``gpu``: as a run records it; empty where there was none. ``benchmarks``: what pytest-benchmark saves of each case
    and what it shows of it. ``lines`` say what was compared with what. ``concluded``: its cases have their verdicts.
    """

    gpu: Mapping[str, Any]
    selected: frozenset[str]
    benchmarks: Sequence[tuple[dict[str, Any], dict[str, Any]]] = ()
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    controls: Mapping[str, Decision] = field(default_factory=dict)
    energy: Mapping[str, Decision] = field(default_factory=dict)
    host: Mapping[str, Decision] = field(default_factory=dict)
    explained: Mapping[str, Explained] = field(default_factory=dict)
    contracts: Mapping[str, tuple[Clause, ...]] = field(default_factory=dict)
    costs: Mapping[str, BuildCost] = field(default_factory=dict)
    lines: Sequence[str] = ()
    notes: Sequence[str] = ()
    alarm: str = ""
    concluded: bool = False


@dataclass(kw_only=True)
class Comparison(ABC):
    """Base of all comparisons: sees every case of a run, and gives each its verdict when all are measured.

    Attributes
    ----------
    decisions
        Verdict of each case by its id; empty until ``conclude``.
    controls
        Verdicts of cases of the same machine code on both sides that were measured all the same.
    energy
        Decisions about the energies of cases, where they were measured.
    host
        Decisions about the host's times of their launches, where they were measured.
    explained
        Why cases are slower or faster, with the figures of both sides.
    contracts
        How cases stand to the limits of their contracts.
    costs
        What builds cost to compile on both sides, by their ids.
    measured
        The cases that were measured and have a verdict.
    changed
        How each case's work differs from the other side's.
    alarm
        Sentence about a change of all cases together, or an empty text.
    lacks
        Which submodules the other side lacks, and how to get them, or an empty text.
    lines
        What ``describe`` returns where the parts of a run were joined; None elsewhere.
    """

    decisions: dict[str, Decision] = field(default_factory=dict)
    controls: dict[str, Decision] = field(default_factory=dict)
    energy: dict[str, Decision] = field(default_factory=dict)
    host: dict[str, Decision] = field(default_factory=dict)
    explained: dict[str, Explained] = field(default_factory=dict)
    contracts: dict[str, tuple[Clause, ...]] = field(default_factory=dict)
    costs: dict[str, BuildCost] = field(default_factory=dict)
    measured: dict[str, Measured] = field(default_factory=dict)
    changed: dict[str, Difference] = field(default_factory=dict)
    alarm: str = ""
    lacks: str = ""
    lines: Sequence[str] | None = None

    @property
    def active(self) -> bool:
        """True where there is anything to compare with."""
        return True

    @property
    def compared(self) -> int:
        """Number of cases that were compared with something; the others are new, missing or incomparable."""
        return sum(decision.verdict in COMPARED for decision in self.decisions.values())

    @property
    def grown(self) -> set[str]:
        """Conditions of --fail-on that hold because a kernel takes more of something than before."""
        beside = {"energy": self.energy, "host": self.host}
        return {name for name, each in beside.items() if any(one.verdict == Verdict.SLOWER for one in each.values())}

    @property
    def against(self) -> str:
        """The other side in a saved run, unless it is a baseline."""
        return ""

    @property
    def past(self) -> Sequence[str]:
        """Names of the saved runs that this one is compared with."""
        return ()

    @abstractmethod
    def measures(self, case: Case, image: Image) -> bool:
        """Tell whether ``measure`` will take samples of a case. ``image``: its machine code."""

    @abstractmethod
    def measure(self, kernel: Kernel, case: Case, cold: bool, budget: Budget) -> Measured | None:
        """Prove a case right and make it ready to be sampled; None where no samples are needed.

        Raises WrongResult or DeviceError.
        """

    def add(self, measured: Measured, samples: Sequence[float]) -> None:  # noqa: B027
        """Record a case's samples, in seconds; nothing where ``measure`` took those that count."""

    @abstractmethod
    def conclude(self, again: Again) -> None:
        """Give all cases their verdicts together. Fresh processes measure again what is undecided."""

    def describe(self) -> list[str]:
        """Return lines on what is compared with what, and on what holds for the run as a whole."""
        return self._describe() if self.lines is None else list(self.lines)

    @abstractmethod
    def _describe(self) -> list[str]: ...

    def join(self, parts: Sequence[Part]) -> None:
        """Take over the results of the parts of a run, with their lines: those of all once, others with the GPU."""
        for part in parts:
            self.decisions |= part.decisions
            self.controls |= part.controls
            self.energy |= part.energy
            self.host |= part.host
            self.explained |= part.explained
            self.contracts |= part.contracts
            self.costs |= part.costs
        self.alarm = "; ".join(part.alarm for part in parts if part.alarm)
        common = [line for line in parts[0].lines if all(line in part.lines for part in parts)]
        own = [
            f"GPU {number} of {len(parts)} ({part.gpu.get('uuid', 'unknown')}): {line}"
            for number, part in enumerate(parts, 1)
            for line in part.lines
            if line not in common
        ]
        self.lines = [*common, *own]

    def missing(self, ran: set[str]) -> list[str]:
        """List the cases that the other side has and a whole run did not have."""
        return []

    def old_codes(self, names: Sequence[str], project: Project, target: Target) -> dict[str, OldCode | str]:
        """Return the other side of cases to explain their verdicts by, or why it cannot be compared."""
        return {}

    def old_launches(self, case: str) -> Launched:
        """Return what a call launched on the other side, as far as that is known."""
        return Launched()

    def _other_launches(self) -> list[str]:
        """Return lines on what calls launch otherwise than on the other side, whether or not their time differs."""
        new = {name: Launched.of(measured.facts) for name, measured in self.measured.items()}
        return listed("changed in what is launched", {n: self.old_launches(n).changes(each) for n, each in new.items()})

    def next_step(self, case: str, against: str) -> str:
        """Return what to do about a slower case, or an empty text. ``against``: how the option is written."""
        return ""

    def document(self) -> dict[str, Any]:
        """Return what is saved beside the baseline; empty where nothing is."""
        return {}


def listed(subject: str, words: Mapping[str, str]) -> list[str]:
    """Return lines that group cases by their description, the most frequent first.

    ``words``: description of each case; those that are empty do not count.
    """
    cases: dict[str, list[str]] = {}
    for name, text in words.items():
        if text:
            cases.setdefault(text, []).append(name)
    groups = sorted(cases.items(), key=lambda group: -len(group[1]))
    lines = [f"{subject}: {text} ({_some(names)})" for text, names in groups[:MOST_LISTED]]
    if left := sum(len(names) for _, names in groups[MOST_LISTED:]):
        lines.append(f"{subject}: {left} more cases, in other ways: compare `identity` in the saved runs")
    return lines


def _some(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} cases, such as {names[0]}"


def load_in_background() -> None:
    """Import the parts of SciPy that verdicts need, in a thread, while kernels run: it takes half a second."""
    threading.Thread(target=importlib.import_module, args=("scipy.optimize",), daemon=True).start()
