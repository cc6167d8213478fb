"""Detects changes of arrays in a machine's memory by digests of their contents, without copying the arrays.

The arrays of a benchmark have up to 2 GB. On an H100 the digest of 1 GiB takes 0.9 ms. Copying 1 GiB to the host takes
89 ms, and ten times as long into fresh memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np

from warpwatch.catalogue.launches import Launch
from warpwatch.catalogue.threads import for_each
from warpwatch.devices.compile.compiler import compile_file
from warpwatch.devices.gpu import ONE, Device
from warpwatch.devices.machine import Function, GuardedArray, Machine

THREADS = 256
WORDS_A_THREAD = 16
MIX = 0x9E3779B97F4A7C15  # an odd number of 64 bits, which spreads 32 bits over all of them
PIECE_WORDS = 2**22  # of an array of the host, for one thread; even
MOST_RANGES = 64  # of one launch; it has memory for as many
RANGE_BYTES = 24  # a range and its sum, as digest.cu declares them
MOST_BLOCKS = 2048  # for one range: enough to fill any GPU; more would only add atomic additions to one address

Range = tuple[int, int]  # an address and a number of bytes


def digest(array: GuardedArray) -> int:
    """Return a number of 64 bits that depends on every word of the array and its position. Raises DeviceError."""
    return digests(array.machine, [(array.address, array.nbytes)])[0]


def digests(machine: Machine, ranges: Sequence[Range]) -> list[int]:
    """Return a digest of 64 bits of each range of memory; a device computes MOST_RANGES at once. Raises DeviceError."""
    words = [(address, size // 4) for address, size in ranges]
    sums = _of_device(machine, words) if isinstance(machine, Device) else [_of_host(machine, *each) for each in words]
    return [(total + _rest(machine, *each)) % 2**64 for total, each in zip(sums, ranges, strict=True)]


def _rest(machine: Machine, address: int, size: int) -> int:
    """Return what the last bytes add, where the elements are smaller than a word."""
    words, rest = divmod(size, 4)
    tail = np.zeros(4, np.uint8)
    if rest:
        machine.read(address + 4 * words, tail[:rest])
    return int(tail.view(np.uint32)[0]) * MIX


def _of_device(machine: Device, ranges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the sum of the mixed words of each range. ``ranges``: addresses and numbers of words."""
    function, address = _digesters.get(machine) or _load(machine)
    sums: list[int] = []
    for first in range(0, len(ranges), MOST_RANGES):
        table = np.array([(*each, 0) for each in ranges[first : first + MOST_RANGES]], np.uint64)
        blocks = min(MOST_BLOCKS, -(-int(table[:, 1].max()) // (THREADS * WORDS_A_THREAD)))
        if blocks:
            machine.write(address, table)
            launch = Launch((blocks, len(table), 1), (THREADS, 1, 1))
            machine.launcher(function, launch, (np.uint64(address),))()
            machine.finish()
            machine.read(address, table)
        sums += table[:, 2].tolist()
    return sums


def _of_host(machine: Machine, address: int, words: int) -> int:
    """Return the sum of the mixed words of a range, in pieces that the cores share. Nothing is timed meanwhile."""
    function, _ = _digesters.get(machine) or _load(machine)
    firsts = range(0, words, PIECE_WORDS)
    sums = np.zeros(len(firsts), np.uint64)

    def add(index: int) -> None:
        first = firsts[index]
        start, count = address + 4 * first, min(PIECE_WORDS, words - first)
        given = (np.uint64(start), np.uint64(count), np.uint64(first), np.uint64(sums.ctypes.data + 8 * index))
        machine.launcher(function, ONE, given)()

    for_each(add, range(len(firsts)))
    return int(sums.sum())


_digesters: WeakKeyDictionary[Machine, tuple[Function, int]] = WeakKeyDictionary()


def _load(machine: Machine) -> tuple[Function, int]:
    """Load the kernel that computes digests, and return it with the address of its ranges."""
    if isinstance(machine, Device):
        image = compile_file(Path(__file__).with_name("digest.cu"), {}, machine.info.timing_target)
    else:
        image = compile_file(Path(__file__).with_name("digest.cpp"), {}, None)
    _digesters[machine] = machine.load(image.path, "digest"), machine.allocate(MOST_RANGES * RANGE_BYTES)
    return _digesters[machine]
