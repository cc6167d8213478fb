"""Computes theoretical occupancy: how many warps of a kernel a multiprocessor can hold, from what the kernel needs.

The limits are those of the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
"""

from __future__ import annotations

from dataclasses import dataclass

WARP = 32
REGISTERS = 65_536  # of a multiprocessor, since compute capability 5.0 (but for 5.3 and 6.2)
REGISTER_UNIT = 256  # registers are given to a warp in multiples of it
PARTITIONS = 4  # of a multiprocessor, each with its share of the registers
KIB = 1024


@dataclass(frozen=True)
class Limits:
    """Holds the limits of a multiprocessor.

    ``reserved``: bytes of shared memory that the system takes of each block. ``shared_unit``: shared memory is given in
    multiples of it.
    """

    warps: int
    blocks: int
    shared_bytes: int
    reserved: int = KIB
    shared_unit: int = 128


LIMITS = {
    (7, 5): Limits(32, 16, 64 * KIB, reserved=0, shared_unit=256),
    (8, 0): Limits(64, 32, 164 * KIB),
    (8, 6): Limits(48, 16, 100 * KIB),
    (8, 7): Limits(48, 16, 164 * KIB),
    (8, 9): Limits(48, 24, 100 * KIB),
    (9, 0): Limits(64, 32, 228 * KIB),
    (10, 0): Limits(64, 32, 228 * KIB),
    (10, 3): Limits(64, 32, 228 * KIB),
    (11, 0): Limits(48, 24, 228 * KIB),
    (12, 0): Limits(48, 24, 100 * KIB),
    (12, 1): Limits(48, 24, 100 * KIB),
}


@dataclass(frozen=True, kw_only=True)
class Occupancy:
    """Holds a kernel's theoretical occupancy: ``blocks`` of a multiprocessor, and ``limited_by`` what."""

    share: float
    blocks: int
    limited_by: str


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def occupancy(capability: tuple[int, int], *, threads: int, registers: int, shared_bytes: int) -> Occupancy | None:
    """Return the occupancy of a kernel in blocks of ``threads``; None for a GPU whose limits are not known here.

    ``registers``: of a thread. ``shared_bytes``: of a block, static and dynamic, without what the system reserves.
    """
    limits = LIMITS.get(capability)
    if limits is None:
        return None
    warps = -(-threads // WARP)
    most = {"threads": limits.warps // warps}
    if registers:
        # A partition holds whole warps alone.
        resident = REGISTERS // PARTITIONS // _up(registers * WARP, REGISTER_UNIT) * PARTITIONS
        most["registers"] = resident // warps
    if needed := shared_bytes + limits.reserved:
        most["shared memory"] = limits.shared_bytes // _up(needed, limits.shared_unit)
    most["blocks"] = limits.blocks
    blocks = min(most.values())
    return Occupancy(
        share=blocks * warps / limits.warps, blocks=blocks, limited_by=next(k for k, v in most.items() if v == blocks)
    )
