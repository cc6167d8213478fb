"""Detects changes of arrays in a machine's memory by digests of their contents, without copying the arrays.

The arrays of a benchmark have up to 2 GB. On an H100 the digest of 1 GiB takes 0.9 ms. Copying 1 GiB to the host takes
89 ms, and ten times as long into fresh memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np

from warpwatch.catalogue.arrays import Array
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
    if isinstance(machine, Device):
        return _of_device(machine, ranges)
    sums = ((_of_host(machine, address, size // 4), _rest(machine, address, size)) for address, size in ranges)
    return [(total + rest) % 2**64 for total, rest in sums]


def _rest(machine: Machine, address: int, size: int) -> int:
    """Return what the last bytes add, where the elements are smaller than a word."""
    words, rest = divmod(size, 4)
    tail = np.zeros(4, np.uint8)
    if rest:
        machine.read(address + 4 * words, tail[:rest])
    return int(tail.view(np.uint32)[0]) * MIX


def _table(ranges: Sequence[Range]) -> Array:
    """Return ranges as digest.cu takes them, with room for their sums."""
    return np.array([(*each, 0) for each in ranges], np.uint64)


def _launcher(machine: Device, table: Array, address: int) -> Callable[[], None]:
    """Return a function that starts the kernel for a table, of one or more ranges, that lies at an address."""
    blocks = -(-int(table[:, 1].max()) // (4 * THREADS * WORDS_A_THREAD))
    launch = Launch((min(MOST_BLOCKS, max(1, blocks)), len(table), 1), (THREADS, 1, 1))
    return machine.launcher(_loaded(machine)[0], launch, (np.uint64(address),))


def _of_device(machine: Device, ranges: Sequence[Range]) -> list[int]:
    """Return the sum of the mixed words of each range."""
    _, address = _loaded(machine)
    sums: list[int] = []
    for first in range(0, len(ranges), MOST_RANGES):
        table = _table(ranges[first : first + MOST_RANGES])
        machine.write(address, table)
        _launcher(machine, table, address)()
        machine.finish()
        machine.read(address, table)
        sums += table[:, 2].tolist()
    return sums


class Queue:
    """Digests of the same ranges at several moments, computed on a device's stream without waiting for any of them."""

    def __init__(self, device: Device, ranges: Sequence[Range], most: int) -> None:
        """Make room for ``most`` moments between two calls of ``take``. Raises DeviceError."""
        self._device, self._most, self._row = device, most, _table(ranges)
        self._table = np.repeat(self._row[None], most, axis=0)
        self._address = device.allocate(self._table.nbytes)
        self._starts: list[Callable[[], None]] = []  # one for each moment that was ever used
        self._used = 0
        device.write(self._address, self._table)

    @property
    def room(self) -> int:
        """Number of moments that there still is room for."""
        return self._most - self._used

    def add(self) -> None:
        """Queue the digests of what the ranges hold when everything before has run."""
        if self._used == len(self._starts):
            place = self._address + self._used * self._row.nbytes
            self._starts.append(_launcher(self._device, self._row, place))
        self._starts[self._used]()
        self._used += 1

    def take(self) -> list[tuple[int, ...]]:
        """Wait, return the digests of each moment, and begin anew."""
        used, self._used = self._table[: self._used].copy(), 0
        if used.size:
            self._device.read(self._address, used)
            self._device.write(self._address, self._table[: len(used)])
        return [tuple(sums) for sums in used[:, :, 2].tolist()]

    def free(self) -> None:
        """Give its memory back."""
        self._device.free(self._address)


def _of_host(machine: Machine, address: int, words: int) -> int:
    """Return the sum of the mixed words of a range, in pieces that the cores share. Nothing is timed meanwhile."""
    function, _ = _loaded(machine)
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


def _loaded(machine: Machine) -> tuple[Function, int]:
    """Return the kernel that computes digests and the address of its ranges; the first call loads it."""
    if machine not in _digesters:
        if isinstance(machine, Device):
            image = compile_file(Path(__file__).with_name("digest.cu"), {}, machine.info.timing_target)
        else:
            image = compile_file(Path(__file__).with_name("digest.cpp"), {}, None)
        _digesters[machine] = machine.load(image.path, "digest"), machine.allocate(MOST_RANGES * RANGE_BYTES)
    return _digesters[machine]
