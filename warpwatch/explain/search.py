"""Finds the steps between two machine codes of a case by halving: which of the codes between cost how much.

Numbers stand for the different machine codes of a history, oldest first. This is arithmetic: what measures is an
argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from warpwatch.verdict.rule import Decision, Verdict

Range = tuple[int, int]  # from one code to a later one


@dataclass(frozen=True)
class Unusable:
    """Says that a code cannot be measured, such as one whose results are wrong. ``code``: which."""

    code: int
    reason: str


Measure = Callable[[Sequence[Range]], Mapping[Range, Decision | Unusable]]


@dataclass(frozen=True, kw_only=True)
class Found:
    """Holds what a search has found.

    ``ends``: how the last code that can be measured differs from the first; None where fewer than two can be.
    ``steps``: neighbouring codes, without those that cannot be measured, of which the later is slower. ``ranges``:
    those that are slower as a whole while no half of them is by itself. ``unusable``: why, by code.
    """

    ends: Decision | None
    first: int = 0
    last: int = 0
    steps: Mapping[Range, Decision] = field(default_factory=dict)
    ranges: Mapping[Range, Decision] = field(default_factory=dict)
    unusable: Mapping[int, str] = field(default_factory=dict)


def search(count: int, measure: Measure) -> Found:
    """Find the steps among codes 0 to ``count`` - 1. ``measure``: decides about several pairs of codes at once.

    Both ends come first. Where the later is slower, both halves are measured, and so on, all halves of one depth at
    once. A code that cannot be measured is left out, as `git bisect skip` does.
    """
    so_far = _SoFar(measure, list(range(count)))
    while len(so_far.usable) > 1 and not so_far.ask([(so_far.usable[0], so_far.usable[-1])]):
        pass
    if len(so_far.usable) < 2:
        return Found(ends=None, unusable=so_far.unusable)
    ends = (so_far.usable[0], so_far.usable[-1])
    steps, ranges = dict[Range, Decision](), dict[Range, Decision]()
    waiting = [ends] if so_far.is_slower(ends) else []
    while waiting:
        halves = {key: _halves(key, so_far.usable) for key in waiting}
        if not so_far.ask([half for both in halves.values() for half in both]):
            continue  # some middle cannot be used: choose others
        waiting = []
        for key, both in halves.items():
            slower = [half for half in both if so_far.is_slower(half)]
            if not slower:
                (ranges if both else steps)[key] = so_far.decided[key]
            waiting += slower
    return Found(
        ends=so_far.decided[ends], first=ends[0], last=ends[1], steps=steps, ranges=ranges, unusable=so_far.unusable
    )


@dataclass
class _SoFar:
    """Holds what is known during a search: the codes that can be measured, and the pairs that were."""

    measure: Measure
    usable: list[int]
    unusable: dict[int, str] = field(default_factory=dict)
    decided: dict[Range, Decision] = field(default_factory=dict)

    def ask(self, ranges: Sequence[Range]) -> bool:
        """Measure the ranges that are not decided yet; returns whether all their codes could be measured."""
        good = True
        for key, each in self.measure([key for key in ranges if key not in self.decided]).items():
            if isinstance(each, Unusable):
                good = False
                self.unusable[each.code] = each.reason
                self.usable = [code for code in self.usable if code != each.code]
            else:
                self.decided[key] = each
        return good

    def is_slower(self, key: Range) -> bool:
        return self.decided[key].verdict == Verdict.SLOWER


def _halves(key: Range, usable: Sequence[int]) -> list[Range]:
    """Split a range at the code in its middle; nothing where no usable code lies between its ends."""
    between = [code for code in usable if key[0] < code < key[1]]
    if not between:
        return []
    middle = between[len(between) // 2]
    return [(key[0], middle), (middle, key[1])]
