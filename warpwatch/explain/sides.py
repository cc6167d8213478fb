"""Describes one side of a case for an explanation: its machine code, its launch and its flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from warpwatch.catalogue.launches import Launch
from warpwatch.machine_code.cubin import Needs
from warpwatch.machine_code.disassembler import Code
from warpwatch.machine_code.occupancy import Occupancy

# What a turn of a loop is there for, as far as kinds of instructions tell: arithmetic and accesses to memory.
WORK = ("FMA", "float", "half", "tensor", "special function", "global load", "global store")


@dataclass(frozen=True, kw_only=True)
class KernelSide:
    """Holds a kernel of a case on one side.

    ``code``: None where nothing could disassemble it. ``flags``: those of nvcc that the declaration adds.
    ``occupancy``: at this launch; None where it is unknown.
    """

    needs: Needs
    launch: Launch
    code: Code | None = None
    occupancy: Occupancy | None = None
    flags: Sequence[str] = ()

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return prod(self.launch.block)

    @property
    def blocks(self) -> int:
        return prod(self.launch.grid)

    @property
    def shared_bytes(self) -> int:
        """Static and dynamic shared memory of a block."""
        return self.needs.shared_bytes + self.launch.shared_bytes

    def count(self, *beginnings: str) -> int:
        """Count the instructions whose kind begins with one of these, in loops and outside."""
        if not self.code:
            return 0
        every = (*self.code.inside.items(), *self.code.outside.items())
        return sum(count for kind, count in every if kind.startswith(beginnings))

    def mark(self, name: str) -> int:
        """Return how often the code has an operation of warpwatch/machine_code/marks.py."""
        return self.code.marks.get(name, 0) if self.code else 0

    @property
    def main_body(self) -> Mapping[str, int]:
        """The instructions by kind of the loop that does the most in a turn; empty where there is no loop."""
        return max(self.code.bodies if self.code else (), key=lambda body: (arithmetic(body), work(body)), default={})


def work(body: Mapping[str, int]) -> int:
    """Count the instructions that a turn of a loop is there for."""
    return sum(count for kind, count in body.items() if kind.startswith(WORK))


def arithmetic(body: Mapping[str, int]) -> int:
    """Count the instructions of arithmetic in a turn of a loop, without indices and conversions."""
    return work({kind: count for kind, count in body.items() if not kind.startswith("global")})
