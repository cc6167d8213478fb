"""Says what all comparisons have in common: with a baseline, with another revision, with the same kernels."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from warpwatch.catalogue.cases import Case
from warpwatch.devices.compile.compiler import Image
from warpwatch.devices.worker import Kernel
from warpwatch.runs.record import Facts, typed
from warpwatch.timing.parent_samples import Again, Budget, Measured
from warpwatch.verdict.rule import Decision, Verdict

# Verdicts of cases that were compared with something.
COMPARED = frozenset({Verdict.SLOWER, Verdict.FASTER, Verdict.SAME, Verdict.UNSURE, Verdict.IDENTICAL})
MOST_LISTED = 5  # lines on what differs besides machine code


class Comparison(Protocol):
    """Sees every case of a run, and when all are measured gives each its verdict in ``decisions``."""

    @property
    def decisions(self) -> Mapping[str, Decision]:
        """The verdict of each case, by its id; empty until they are given."""

    @property
    def active(self) -> bool:
        """True where there is anything to compare with."""

    @property
    def compared(self) -> int:
        """Number of cases that were compared with something."""

    @property
    def alarm(self) -> str:
        """Sentence about a change of all cases together, or nothing."""

    def measures(self, case: Case, image: Image) -> bool:
        """Tell whether ``measure`` will take samples of a case. ``image``: its machine code."""

    def measure(self, kernel: Kernel, case: Case, cold: bool, budget: Budget) -> Measured | None:
        """Prove a case right and make it ready to be sampled; None where no samples are needed.

        Raises WrongResult or DeviceError.
        """

    def add(self, measured: Measured, samples: Sequence[float]) -> None:
        """Take note of a case's samples, in seconds."""

    def conclude(self, again: Again) -> None:
        """Give all cases their verdicts together. Fresh processes measure again what is undecided."""

    def describe(self) -> list[str]:
        """Lines that say what is compared with what, and what holds for the run as a whole."""

    def missing(self, ran: set[str]) -> list[str]:
        """Cases that the other side has and that a whole run did not have."""


class Sampled(Protocol):
    """Holds what processes showed of a case of this run: of one that is measured now, or of a saved one."""

    @property
    def facts(self) -> Mapping[str, Any] | Facts:
        """Facts recorded beside the samples."""

    @property
    def processes(self) -> Sequence[Sequence[float]]:
        """Samples in seconds, those of the run's own process first."""


def recorded_facts(measured: Sampled) -> Facts:
    """Facts recorded beside a case's samples, as they would be read from a saved run."""
    return measured.facts if isinstance(measured.facts, Facts) else typed(measured.facts, Facts)


def count_compared(decisions: Mapping[str, Decision]) -> int:
    """Count the cases that were compared with something; the others are new, missing or incomparable."""
    return sum(decision.verdict in COMPARED for decision in decisions.values())


def listed(what: str, words: Mapping[str, str]) -> list[str]:
    """Lines that name cases by what is said of them, those of most cases first. ``words``: by case; may be empty."""
    cases: dict[str, list[str]] = {}
    for name, said in words.items():
        cases.setdefault(said, []).append(name)
    told = sorted(((said, names) for said, names in cases.items() if said), key=lambda each: -len(each[1]))
    lines = [f"{what}: {said} ({_some(names)})" for said, names in told[:MOST_LISTED]]
    left = sum(len(names) for _, names in told[MOST_LISTED:])
    return [
        *lines,
        *([f"{what}: {left} more cases, in other ways: compare `identity` in the saved runs"] if left else []),
    ]


def _some(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} cases, such as {names[0]}"


def load_in_background() -> None:
    """Import the parts of SciPy that verdicts need, in a thread, while kernels run: it takes half a second."""
    threading.Thread(target=importlib.import_module, args=("scipy.optimize",), daemon=True).start()
