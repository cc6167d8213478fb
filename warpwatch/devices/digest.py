"""Detects changes of arrays in a machine's memory by digests of their contents, without copying the arrays.

The arrays of a benchmark have up to 2 GB. On an H100 the digest of 1 GiB takes 0.9 ms. Copying 1 GiB to the host takes
89 ms, and ten times as long into fresh memory.
"""

from __future__ import annotations

import functools
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
SUMS = 32  # of a range, which together are its digest
RANGE_BYTES = 8 * (2 + SUMS)  # a range and its sums, as digest.cu declares them
QUEUE_BYTES = 2**18  # of a queue's memory
QUEUE_BLOCKS = 8  # of its launches, for each multiprocessor: as many as it holds
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
    return np.array([(*each, *[0] * SUMS) for each in ranges], np.uint64)


def _sums(tables: Array) -> Array:
    """Return the digest of each range of tables that digest.cu has filled."""
    sums: Array = tables[..., 2:].sum(axis=-1, dtype=np.uint64)
    return sums


def _of_device(machine: Device, ranges: Sequence[Range]) -> list[int]:
    """Return the sum of the mixed words of each range."""
    function, address = _loaded(machine)
    sums: list[int] = []
    for first in range(0, len(ranges), MOST_RANGES):
        table = _table(ranges[first : first + MOST_RANGES])
        blocks = min(MOST_BLOCKS, max(1, -(-int(table[:, 1].max()) // (4 * THREADS * WORDS_A_THREAD))))
        machine.write(address, table)
        machine.launcher(function, Launch((blocks, len(table), 1), (THREADS, 1, 1)), (np.uint64(address),))()
        machine.finish()
        machine.read(address, table)
        sums += _sums(table).tolist()
    return sums


class Queue:
    """Digests of ranges at several moments, computed on a device's stream without waiting for any of them.

    There is one for a device: to prepare a launch takes as long as several launches.
    """

    def __init__(self, device: Device) -> None:
        self._device, self._address = device, device.allocate(QUEUE_BYTES)
        self._blocks = QUEUE_BLOCKS * device.info.multiprocessors
        self._launchers: dict[tuple[int, int], Callable[[], None]] = {}  # by address and number of ranges
        self._sets: list[int] = []  # of the ranges whose digests were queued
        self._size = self._count = 0

    def begin(self, sets: Sequence[Sequence[Range]], moments: int) -> bool:
        """Forget everything, and take these sets of ranges, which are of one number. Raises DeviceError.

        Returns whether there is room for so many moments: if not, nothing can be queued.
        """
        table = np.array([_table(ranges) for ranges in sets])
        self._count, self._size = len(sets[0]), table[0].nbytes
        self._first = self._address + table.nbytes
        self._most = (QUEUE_BYTES - table.nbytes) // self._size
        self._sets.clear()
        if self._most < moments:
            return False
        self._device.write(self._address, table)
        return True

    @property
    def room(self) -> int:
        """Number of moments that there still is room for."""
        return self._most - len(self._sets)

    def add(self, number: int) -> None:
        """Queue the digests of what the ranges of a set, by its number, hold when everything before has run."""
        place = self._first + len(self._sets) * self._size
        key = (place, self._count)
        if key not in self._launchers:
            launch = Launch((self._blocks, self._count, 1), (THREADS, 1, 1))
            self._launchers[key] = self._device.launcher(_loaded(self._device)[0], launch, (np.uint64(place),))
        self._device.copy(place, self._address + number * self._size, self._size)
        self._launchers[key]()
        self._sets.append(number)

    def take(self) -> list[tuple[int, tuple[int, ...]]]:
        """Wait, return the number of the set and the digests of each moment, and begin anew."""
        tables = np.empty((len(self._sets), self._count, RANGE_BYTES // 8), np.uint64)
        if self._sets:
            self._device.read(self._first, tables)
        taken = [(number, tuple(sums)) for number, sums in zip(self._sets, _sums(tables).tolist(), strict=True)]
        self._sets.clear()
        return taken


@functools.lru_cache(maxsize=1)
def queue_of(device: Device) -> Queue:
    """Return a device's queue of digests."""
    return Queue(device)


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
