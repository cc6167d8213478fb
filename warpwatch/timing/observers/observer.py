"""Base class of observers, which are plug-ins of sampling, as in Kernel Tuner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

from warpwatch.catalogue.cases import Case
from warpwatch.devices.runner import Loaded
from warpwatch.timing.pair_samples import Sides

Facts: TypeAlias = Mapping[str, Any]


class Observer:
    """Records facts beside the samples of a case, at the moments that it overrides. It runs in the worker process.

    Attributes
    ----------
    option
        Name of the option that asks for it; empty where it always observes.
    units
        Unit of each fact that it records, by the fact's name; empty for one that is not a number.
    """

    option: ClassVar[str] = ""
    units: ClassVar[Mapping[str, str]] = {}

    def objection(self) -> str:
        """Say why this device cannot be observed; empty where it can."""
        return ""

    def leaves_out(self, case: Case) -> str:
        """Say why a case is not observed; empty where it is."""
        return ""

    def constants(self, *, on_host: bool) -> Facts:
        """Return the facts that hold for all cases of this process, of those on the host or of the others."""
        return {}

    def begin(self) -> None:
        """Observe what is there before the first sample of a case, after the warm-up."""

    def end(self) -> Facts:
        """Return the facts after its last sample."""
        return {}

    def launch(self, copies: Sequence[Loaded]) -> Facts:
        """Return the facts of launches of its own, after the samples were checked. ``copies``: the prepared case."""
        return {}

    def launch_sides(self, both: Sequence[tuple[Loaded, Loaded]]) -> Mapping[str, Sides]:
        """Return the same of the old and the new side of a pair."""
        return {}
