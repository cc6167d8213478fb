"""Names the likely cause of a slowdown or a gain from what differs in the machine code, by stated rules.

Each rule looks at both sides of a kernel and gives a sentence on what it found, or nothing. The sentence holds figures
of both sides, so that it is true whatever the cause is. The first rule whose finding fits the verdict names the cause.
What was declared comes first, then what few changes of a source can bring about, last what many can. docs/explain.md
lists the rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from warpwatch.explain import access_rules, code_rules
from warpwatch.explain.findings import Effect, Find, Finding
from warpwatch.explain.sides import KernelSide

RULES: Mapping[str, Find] = {
    "flags": code_rules.flags,
    "launch": code_rules.launch,
    "double precision": code_rules.double_precision,
    "division": code_rules.division,
    "spills": code_rules.spills,
    "tile": code_rules.smaller_tile,
    "width": access_rules.width,
    "coalescing": access_rules.coalescing,
    "bank conflicts": access_rules.bank_conflicts,
    "barriers": code_rules.barriers,
    "restrict": code_rules.restrict,
    "unrolling": code_rules.unrolling,
    "shared width": access_rules.shared_width,
    "occupancy": code_rules.occupancy,
    "more accesses": access_rules.more_accesses,
    "more arithmetic": code_rules.more_arithmetic,
}


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Holds what a rule has found. ``rule``: its name."""

    rule: str
    finding: Finding


def causes(old: KernelSide, new: KernelSide) -> list[Cause]:
    """List what the rules find between two sides of a kernel, in the rules' order."""
    found = ((rule, find(old, new)) for rule, find in RULES.items())
    return [Cause(rule=rule, finding=finding) for rule, finding in found if finding]


def likely(found: Sequence[Cause], *, slower: bool) -> Cause | None:
    """Return the first cause that fits a case that became slower, or faster; None where there is none."""
    fitting = (Effect.SLOWER if slower else Effect.FASTER, Effect.EITHER)
    return next((cause for cause in found if cause.finding.effect in fitting), None)
