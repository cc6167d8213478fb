"""Launches of a call as CUPTI shows them (devices/activity.py): all in words, kernels by figures and machine code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from warpwatch.catalogue.launches import MOST_LAUNCHED
from warpwatch.runs.faults import Text
from warpwatch.runs.identity import Bytes, Three, Word

LAUNCHES = "launches"  # what a call launches, as a part of a Difference
NAMED = 3  # launches that a sentence names
FIGURES = {
    "cluster": "blocks of a cluster",
    "registers": "registers",
    "local_bytes": "bytes of local memory of a thread",
    "shared_bytes": "bytes of shared memory",
}


class LaunchedKernel(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A kernel that a call launched.

    ``local_bytes``: of a thread. ``shared_bytes``: static and dynamic, of a block. ``code``: a digest of its machine
    code; empty where that was not seen.
    """

    name: Text
    grid: Three
    block: Three
    cluster: Three = (1, 1, 1)
    registers: Bytes = 0
    local_bytes: Bytes = 0
    shared_bytes: Bytes = 0
    code: Word = ""

    def changes(self, new: LaunchedKernel) -> str:
        """Say how the same launch of a kernel differs later; empty where it does not, as far as is known."""
        sides = {words: (getattr(self, figure), getattr(new, figure)) for figure, words in FIGURES.items()}
        differing = [f"{words} {old} -> {later}" for words, (old, later) in sides.items() if old != later]
        code = ["other machine code"] if self.code and new.code and self.code != new.code else []
        return f"{new.name}: {', '.join([*code, *differing])}" if code or differing else ""


@dataclass(frozen=True, kw_only=True)
class Launched:
    """Launches of a call: ``words`` of each kernel, copy and fill, in order, and its ``kernels``. Empty: unknown."""

    words: Sequence[str] = ()
    kernels: Sequence[LaunchedKernel] = ()

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Launched:
        """Return what is recorded of a case that was measured."""
        kernels = tuple(LaunchedKernel(**each) for each in facts.get("kernels", ()))
        return cls(words=tuple(facts.get("launches", ())), kernels=kernels)

    def figures(self, new: Launched) -> Iterator[tuple[str, str, str, str]]:
        """Yield what differs of each kernel, by name: kernel, figure and its values on both sides, or no value."""
        sides = [{kernel.name: kernel for kernel in reversed(side.kernels)} for side in (self, new)]  # the first counts
        counts = [Counter(kernel.name for kernel in side.kernels) for side in (self, new)]
        for name in dict.fromkeys((*sides[0], *sides[1])):
            rows = [["launches", *(str(count[name]) for count in counts)]]
            for figure, words in {"grid": "grid", "block": "block", **FIGURES, "code": "machine code"}.items():
                rows.append([words, *(_text(getattr(side[name], figure)) if name in side else "" for side in sides)])
            yield from ((name, words, old, later) for words, old, later in rows if old != later)

    @property
    def is_seen(self) -> bool:
        """True where everything is known, the machine code of all kernels too."""
        return 0 < len(self.words) < MOST_LAUNCHED and all(kernel.code for kernel in self.kernels)

    def changes(self, new: Launched) -> str:
        """Say what a call launches otherwise later; empty where that is nothing, or where a side is unknown."""
        sides = self.words, new.words
        gone, came = ([*(Counter(a) - Counter(b)).elements()] for a, b in (sides, sides[::-1]))
        if not all(sides):
            return ""
        if gone and came:
            return f"its call launches {_listed(came)} where it launched {_listed(gone)}"
        if gone or came:
            return f"its call {'also' if came else 'no longer'} launches {_listed(came or gone)}"
        pairs = zip(self.kernels, new.kernels, strict=False)
        return "; ".join(dict.fromkeys(filter(None, (old.changes(later) for old, later in pairs))))


def _text(value: Three | int | str) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _listed(launches: Sequence[str]) -> str:
    more = f" and {len(launches) - NAMED} more" * (len(launches) > NAMED)
    return "; ".join(launches[:NAMED]) + more
