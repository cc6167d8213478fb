"""Counts sequences of instructions that stand for one operation of the source, such as a division."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from warpwatch.machine_code.listing import Instruction

INTEGER_DIVISION = "integer division"
FLOAT_DIVISION = "float32 division"
READ_ONLY_LOAD = "read-only global load"
PLAIN_LOAD = "plain global load"
CALL = "call"


def marks(instructions: Iterable[Instruction]) -> Mapping[str, int]:
    """Count operations by name.

    A division of integers by a number that is not known when the kernel is compiled begins with a conversion that
    rounds up (I2F.RP); one of float32 numbers checks its range (FCHK). Loads with CONSTANT go through the cache for
    data that no thread writes meanwhile, which the compiler chooses where it can prove that.
    """
    found = dict.fromkeys((INTEGER_DIVISION, FLOAT_DIVISION, READ_ONLY_LOAD, PLAIN_LOAD, CALL), 0)
    for each in instructions:
        if each.name == "I2F" and "RP" in each.modifiers:
            found[INTEGER_DIVISION] += 1
        elif each.name == "FCHK":
            found[FLOAT_DIVISION] += 1
        elif each.name == "LDG":
            found[READ_ONLY_LOAD if "CONSTANT" in each.modifiers else PLAIN_LOAD] += 1
        elif each.name == "CALL":
            found[CALL] += 1
    return found
