"""Computes what one access of a warp costs, from how far apart its threads' addresses are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warpwatch.machine_code.strides import Access, Steps

WARP, SECTOR = 32, 32  # threads; bytes that memory moves at once
BANKS, WORD = 32, 4  # of shared memory, and the bytes of a bank


def sectors(access: Access, block: Sequence[int]) -> int | None:
    """Count the sectors of 32 bytes that one access of a full warp touches; None where the addresses are unknown.

    ``block``: x, y and z. The first address is taken for a multiple of a sector.
    """
    if access.steps is None:
        return None
    touched = {
        place
        for at in _addresses(access.steps, block)
        for place in range(at // SECTOR, -(-(at + access.bytes) // SECTOR))
    }
    return len(touched)


def bank_ways(access: Access, block: Sequence[int]) -> int | None:
    """Return how many rounds an access of a warp to shared memory takes; 1 where no two threads want one bank.

    Threads that read the same word share it. Accesses of 8 and 16 bytes are made by half and quarter warps.
    """
    if access.steps is None:
        return None
    lanes = list(_addresses(access.steps, block))
    together = max(1, min(WARP, WARP * WORD // access.bytes))
    ways = []
    for first in range(0, len(lanes), together):
        words = {word for at in lanes[first : first + together] for word in _words(at, access.bytes)}
        wanted = [0] * BANKS
        for word in words:
            wanted[word % BANKS] += 1
        ways.append(max(wanted))
    return max(ways)


def _words(at: int, size: int) -> Iterable[int]:
    return range(at // WORD, (at + size - 1) // WORD + 1)


def _addresses(steps: Steps, block: Sequence[int]) -> Iterable[int]:
    """Yield the address of each thread of a block's first warp, from that of its first thread."""
    x, y, z = (*block, 1, 1)[:3]
    for thread in range(min(WARP, x * y * z)):
        at = (thread % x, thread // x % y, thread // (x * y))
        yield sum(step * index for step, index in zip(steps, at, strict=True))
