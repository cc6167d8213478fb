"""Holds what a rule finds between two sides of a kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from warpwatch.explain.sides import KernelSide


class Effect(StrEnum):
    """Says what a difference does to a kernel's time. ``EITHER``: the code does not tell."""

    SLOWER = "slower"
    FASTER = "faster"
    EITHER = "either"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Holds a difference that may change a kernel's time: a sentence with the figures of both sides."""

    sentence: str
    effect: Effect


Find = Callable[[KernelSide, KernelSide], Finding | None]


def by_growth(old: float, new: float, grown: str, shrunk: str) -> Finding | None:
    """Find a figure that costs time where it grows: one sentence for each direction, nothing where it is the same."""
    if new == old:
        return None
    return (
        Finding(sentence=grown, effect=Effect.SLOWER) if new > old else Finding(sentence=shrunk, effect=Effect.FASTER)
    )


def by_loss(old: float, new: float, lost: str, won: str) -> Finding | None:
    """Find a figure that costs time where it falls: one sentence for each direction, nothing where it is the same."""
    return by_growth(new, old, lost, won)
