"""Explanations of verdicts as a run records them: likely causes, and the figures of both sides that differ."""

from __future__ import annotations

from msgspec import Struct

from warpwatch.runs.faults import Text


class Figure(Struct, frozen=True, kw_only=True):
    """Figure of a kernel's machine code or profile on both sides, as it is shown; empty where a side has none."""

    kernel: Text
    name: Text
    old: Text
    new: Text


class RecordedCause(Struct, frozen=True, kw_only=True):
    """Difference between the sides of a kernel. ``effect``: slower, faster or either. ``rule``: which one found it.

    ``likely``: it is the one that fits the verdict.
    """

    kernel: Text
    sentence: Text
    effect: Text
    rule: Text = ""
    likely: bool = False


class Explained(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Explanation of a case's verdict. ``besides``: what changed besides machine code. ``note``: what is not known."""

    causes: tuple[RecordedCause, ...] = ()
    figures: tuple[Figure, ...] = ()
    besides: Text = ""
    note: Text = ""
