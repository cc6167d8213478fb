"""Costs of compiling the builds of two sides: bytes of machine code, and processor time of the compilers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from warpwatch.devices.compile.compiler import Image, code_size
from warpwatch.runs.record import BuildCost

GATES = ("size", "compile-time")
# Of six compilations of one build, the longest took up to 82 % more processor time than the shortest, and the sum of 32
# builds up to 26 %, on two cores where other processes came and went (docs/toolchains.md).
OF_A_BUILD, OF_ALL = 1.0, 0.3  # growth of compile time that may be noise
LEAST_BUILDS = 8  # whose sum is judged by OF_ALL


def cost_of(old: Image, new: Image) -> BuildCost:
    """Return what both sides of a build cost."""
    return BuildCost(
        old_bytes=code_size(old.path),
        new_bytes=code_size(new.path),
        old_seconds=old.seconds,
        new_seconds=new.seconds,
    )


def total(costs: Iterable[BuildCost]) -> BuildCost:
    """Add up what is known of both sides: the bytes and the seconds of other builds are left out."""
    every = list(costs)
    sized = [cost for cost in every if cost.old_bytes and cost.new_bytes]
    timed = [(cost.old_seconds, cost.new_seconds) for cost in every]
    known = [(old, new) for old, new in timed if old is not None and new is not None]
    return BuildCost(
        old_bytes=sum(cost.old_bytes for cost in sized),
        new_bytes=sum(cost.new_bytes for cost in sized),
        old_seconds=sum(old for old, _ in known) if known else None,
        new_seconds=sum(new for _, new in known) if known else None,
    )


def lines(costs: Mapping[str, BuildCost]) -> list[str]:
    """Return a line on the machine code of all builds, and one on their compile time where any is known."""
    whole, known = total(costs.values()), _timed(costs)
    found = []
    if whole.old_bytes and whole.old_bytes != whole.new_bytes:
        larger = sum(0 < cost.old_bytes < cost.new_bytes for cost in costs.values())
        change = _change(whole.old_bytes, whole.new_bytes)
        found.append(
            f"machine code of {_builds(len(costs))}: {whole.old_bytes:,} -> {whole.new_bytes:,} bytes ({change}), "
            f"{larger} larger"
        )
    if known:
        left = len(costs) - len(known)
        unknown = f"; unknown of {_builds(left)}, of which a side was in the cache" if left else ""
        found.append(f"compile time of {_builds(len(known))}: {_seconds(whole)}{unknown}")
    return found


def failures(costs: Mapping[str, BuildCost], gates: Sequence[str]) -> list[str]:
    """List what ``--fail-on`` asks for and has happened, a sentence each: machine code grew, or its compile time did.

    A size is exact. Compile time is noisy, so a build fails beyond OF_A_BUILD alone, and all together beyond OF_ALL.
    """
    found = []
    if "size" in gates:
        found += [
            f"{name}: machine code grew from {cost.old_bytes:,} to {cost.new_bytes:,} bytes"
            for name, cost in costs.items()
            if 0 < cost.old_bytes < cost.new_bytes
        ]
    if "compile-time" in gates and costs:
        known = _timed(costs)
        if not known:
            cure = "both sides are compiled anew where $WARPWATCH_CACHE names an empty folder"
            found.append(f"the compile time of none of {_builds(len(costs))} is known on both sides: {cure}")
        over = {name: cost for name, cost in known.items() if _grew(cost, OF_A_BUILD)}
        found += [
            f"{name}: compile time grew by over {OF_A_BUILD:.0%}: {_seconds(each)}" for name, each in over.items()
        ]
        if len(known) >= LEAST_BUILDS and _grew(whole := total(known.values()), OF_ALL):
            found.append(f"compile time of {_builds(len(known))} grew by over {OF_ALL:.0%}: {_seconds(whole)}")
    return found


def _timed(costs: Mapping[str, BuildCost]) -> dict[str, BuildCost]:
    """Return the costs whose seconds are known on both sides."""
    return {name: cost for name, cost in costs.items() if None not in (cost.old_seconds, cost.new_seconds)}


def _grew(cost: BuildCost, allowance: float) -> bool:
    return (cost.new_seconds or 0.0) > (1 + allowance) * (cost.old_seconds or 0.0)


def _seconds(cost: BuildCost) -> str:
    old, new = cost.old_seconds or 0.0, cost.new_seconds or 0.0
    return f"{old:.2f} -> {new:.2f} s of processor time{f' ({_change(old, new)})' if old else ''}"


def _change(old: float, new: float) -> str:
    return f"{100 * (new / old - 1):+.1f} %"


def _builds(count: int) -> str:
    return f"{count} build{'s' * (count != 1)}"
