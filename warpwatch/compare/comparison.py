"""Common base of all comparisons: with a baseline, with another revision, with the same kernels."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.project import Project
from warpwatch.devices.compile.compiler import Image, Target
from warpwatch.devices.other_kernel import OtherKernel
from warpwatch.devices.worker import Kernel
from warpwatch.runs.identity import Difference
from warpwatch.runs.record import Facts, typed
from warpwatch.timing.measurement import Again, Budget, Measured
from warpwatch.verdict.rule import Decision, Verdict

# Verdicts of cases that were compared with something.
COMPARED = frozenset({Verdict.SLOWER, Verdict.FASTER, Verdict.SAME, Verdict.UNSURE, Verdict.IDENTICAL})
MOST_LISTED = 5  # lines on what differs besides machine code
CALL = "it is a call, whose machine code is not compared"
OldCode = tuple[OtherKernel, Image]  # the other side of a case, and its machine code


@dataclass(kw_only=True)
class Comparison:
    """Base of all comparisons: sees every case of a run, and gives each its verdict when all are measured.

    Attributes
    ----------
    decisions
        Verdict of each case by its id; empty until ``conclude``.
    controls
        Verdicts of cases of the same machine code on both sides that were measured all the same.
    energy
        Decisions about the energies of cases, where they were measured.
    measured
        The cases that were measured and have a verdict.
    changed
        How each case's work differs from the other side's.
    alarm
        Sentence about a change of all cases together, or an empty text.
    lacks
        Which submodules the other side lacks, and how to get them, or an empty text.
    """

    decisions: dict[str, Decision] = field(default_factory=dict)
    controls: dict[str, Decision] = field(default_factory=dict)
    energy: dict[str, Decision] = field(default_factory=dict)
    measured: dict[str, Measured] = field(default_factory=dict)
    changed: dict[str, Difference] = field(default_factory=dict)
    alarm: str = ""
    lacks: str = ""

    @property
    def active(self) -> bool:
        """True where there is anything to compare with."""
        return True

    @property
    def compared(self) -> int:
        """Number of cases that were compared with something; the others are new, missing or incomparable."""
        return sum(decision.verdict in COMPARED for decision in self.decisions.values())

    @property
    def against(self) -> str:
        """The other side in a saved run, unless it is a baseline."""
        return ""

    @property
    def past(self) -> Sequence[str]:
        """Names of the saved runs that this one is compared with."""
        return ()

    def measures(self, case: Case, image: Image) -> bool:
        """Tell whether ``measure`` will take samples of a case. ``image``: its machine code."""
        return False

    def measure(self, kernel: Kernel, case: Case, cold: bool, budget: Budget) -> Measured | None:
        """Prove a case right and make it ready to be sampled; None where no samples are needed.

        Raises WrongResult or DeviceError.
        """
        raise TypeError(f"{type(self).__name__} measures nothing itself")

    def add(self, measured: Measured, samples: Sequence[float]) -> None:
        """Record a case's samples, in seconds; nothing where ``measure`` took those that count."""

    def conclude(self, again: Again) -> None:
        """Give all cases their verdicts together. Fresh processes measure again what is undecided."""

    def describe(self) -> list[str]:
        """Return lines on what is compared with what, and on what holds for the run as a whole."""
        return []

    def missing(self, ran: set[str]) -> list[str]:
        """List the cases that the other side has and a whole run did not have."""
        return []

    def old_codes(self, names: Sequence[str], project: Project, target: Target) -> dict[str, OldCode | str]:
        """Return the other side of cases to explain their verdicts by, or why it cannot be compared."""
        return {}

    def next_step(self, case: str, against: str) -> str:
        """Return what to do about a slower case, or an empty text. ``against``: how the option is written."""
        return ""

    def document(self) -> dict[str, Any]:
        """Return what is saved beside the baseline; empty where nothing is."""
        return {}


class Sampled(Protocol):
    """Samples and facts of a case of this run: of one that is measured now, or of a saved one."""

    @property
    def facts(self) -> Mapping[str, Any] | Facts:
        """Facts recorded beside the samples."""

    @property
    def processes(self) -> Sequence[Sequence[float]]:
        """Samples in seconds, those of the run's own process first."""


def recorded_facts(measured: Sampled) -> Facts:
    """Return the facts recorded beside a case's samples, as they would be read from a saved run."""
    return measured.facts if isinstance(measured.facts, Facts) else typed(measured.facts, Facts)


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
