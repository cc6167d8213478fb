"""Declares the interface of a machine that runs kernels, GPU or host, and arrays with guard bands in its memory."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from warpwatch.catalogue.arrays import Array, Shape
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.declaration import run_seed
from warpwatch.catalogue.elements import numpy_type
from warpwatch.catalogue.launches import Launch
from warpwatch.devices.activity import Activity

GUARD_BYTES = 1 << 16  # a multiple of every alignment that an allocation has
# Fill results and guard bands before a launch: a word is a NaN as float32, two are one as float64, and it is unlikely
# as int32. Operands have another poison, because a NaN keeps its bits through arithmetic: a kernel that reads beyond an
# operand and writes that value beyond the result would otherwise leave no trace.
# Elements of one and two bytes have their own, each of which is to be a NaN: in float16 and bfloat16, and in float8 but
# for one.
POISON = {1: (0x7F7F7F7F, 0x7E7E7E7E), 2: (0x7FFA7FFA, 0x7FFC7FFC), 4: (0x7FFADEAD, 0x7FFC0FFE)}
# A second launch starts on poison of the other sign. Every pattern is a right value of some type, such as 127 of int8,
# but an element that was not written cannot be right after both launches.
SIGNS = {1: 0x80808080, 2: 0x80008000}
SIGN = 0x80000000


def poison_of(itemsize: int, operand: bool = False, second: bool = False) -> int:
    """Return the word that fills arrays of such elements before a launch.

    ``operand``: of arrays that are only read. ``second``: the other of the two patterns.

    Where this run has a seed of its own, it chooses the words, so that a kernel cannot know them: what a NaN leaves
    open, which of float8 is the sign alone.
    """
    seed, size = run_seed(), min(itemsize, 4)
    words = POISON if seed is None else _poison_by(seed)
    return words[size][operand] ^ SIGNS.get(size, SIGN) if second else words[size][operand]


@functools.cache
def _poison_by(seed: int) -> Mapping[int, tuple[int, int]]:
    """Return words as ``POISON`` has them, chosen by a seed. One bit tells results and operands apart."""
    drawn = int.from_bytes(hashlib.sha256(b"poison %d" % seed).digest())
    four, two, sign = drawn & 0x3FFFF, drawn >> 18 & 0x1F, SIGNS[1] * (drawn >> 23 & 1)
    return {
        1: (POISON[1][0] ^ sign, POISON[1][1] ^ sign),
        2: (0x10001 * (0x7FE0 | two), 0x10001 * (0x7FC0 | two)),
        4: (0x7FF80000 | four, 0x7FFC0000 | four),
    }


def repeated(word: int, size: int) -> Array:
    """Return so many bytes of a word of 4 bytes that is repeated. numpy.resize would take a second for each 50 MB."""
    return np.tile(np.array([word], np.uint32).view(np.uint8), -(-size // 4))[:size]


LATE = "late"  # why a device is lost: it did not answer in time


class DeviceError(Exception):
    """A launch or a copy that failed. ``lost``: this process cannot use the device any more, True or LATE."""

    def __init__(self, message: str, lost: bool | str = False) -> None:
        super().__init__(message, lost)
        self.lost = lost

    def __str__(self) -> str:
        return str(self.args[0])


class NoFigure(DeviceError):
    """A case that is right and whose time cannot be told; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of a kernel: its place and size in bytes, and its type and name in C++, empty where not known."""

    offset: int
    size: int
    type: str = ""
    name: str = ""

    @property
    def end(self) -> int:
        return self.offset + self.size

    def __str__(self) -> str:
        counted = f"{self.size} byte{'s' if self.size != 1 else ''}"
        if not self.type:
            return f"{self.name} ({counted})" if self.name else counted
        written = " ".join(filter(None, [re.sub(r"^(.+?) const\b", r"const \1", self.type), self.name]))
        return written if "*" in written else f"{written} ({counted})"


def parameters_for(values: Sequence[np.generic]) -> tuple[Parameter, ...]:
    """Return the parameters that take values as C aligns the members of a struct."""
    return laid_out((value.dtype.itemsize, value.dtype.alignment, "") for value in values)


def laid_out(members: Iterable[tuple[int, int, str]]) -> tuple[Parameter, ...]:
    """Return parameters of these sizes, alignments and types, one after the other."""
    parameters, end = list[Parameter](), 0
    for size, alignment, name in members:
        parameters.append(Parameter(offset=-(-end // alignment) * alignment, size=size, type=name))
        end = parameters[-1].end
    return tuple(parameters)


@dataclass(frozen=True)
class Resources:
    """Resources of a compiled kernel. Bytes are per block (shared) or per thread (local, where registers spill).

    ``threads``: that a block may have at most, because of registers or __launch_bounds__; 0 where that is unknown.
    """

    registers: int = 0
    shared_bytes: int = 0
    local_bytes: int = 0
    threads: int = 0


@dataclass(frozen=True)
class Function:
    """A loaded kernel. ``handle``: known to the machine alone. ``parameters``: None where they are not known."""

    name: str
    handle: Any = field(repr=False)
    resources: Resources = Resources()
    parameters: tuple[Parameter, ...] | None = None


class Machine(Protocol):
    """A machine that runs kernels. Addresses are plain ints; errors are DeviceError.

    ``finds_faults``: it reports by itself what a kernel does outside its arrays, and its fresh memory is poison. Arrays
    have no guard bands there, because they would hide an array's end from it.
    """

    finds_faults: bool

    def require(self, size: int) -> None:
        """Raise DeviceError where so many bytes are not free."""

    def allocate(self, size: int) -> int: ...

    def free(self, address: int) -> None: ...

    def fill(self, address: int, size: int, word: int) -> None:
        """Fill ``size`` bytes with a word of 4 bytes; where 4 divides not both size and address, with its low bytes."""

    def copy(self, to: int, source: int, size: int) -> None:
        """Copy bytes from one address to another."""

    def write(self, address: int, array: Array) -> None: ...

    def read(self, address: int, array: Array) -> None: ...

    def load(self, image: Path, entry: str, beside: Function | None = None) -> Function:
        """Load a kernel. ``beside``: a kernel of the same file that is loaded, with which it shares its variables."""

    def launcher(self, function: Function, launch: Launch, arguments: Sequence[np.generic]) -> Callable[[], None]:
        """Prepare a launch and return a function that starts it; ``finish`` waits for it."""

    def in_sequence(self, launches: Sequence[Launch], starts: Sequence[Callable[[], None]]) -> Callable[[], None]:
        """Return a function that starts launches in order, each on its stream and after those that it waits for.

        What is queued later on the case's own stream waits for all of them.
        """

    def cuda_arrays(self, arguments: Sequence[np.generic]) -> Sequence[CopiedArray]:
        """Return the CUDA arrays that textures and surfaces among the arguments are of."""

    def set_constant(self, function: Function, name: str, address: int, size: int) -> int:
        """Copy ``size`` bytes, or as many as fit, into a variable of a kernel's module, and return the variable's."""

    def call(self, case: Case, addresses: Mapping[str, int]) -> Callable[[], None]:
        """Prepare a call that takes the kernel's place, and return a function that starts it."""

    def strays(self, start: Callable[[], None], written: Sequence[GuardedArray], restore: Callable[[], None]) -> str:
        """Say how a call works outside its stream and its launch; empty where it does not.

        ``written``: its results. ``restore``: is called before each launch, and poisons them.
        """

    def remarks_on_launches(self) -> tuple[str, ...]:
        """Say what the device has taken for harmless in launches since the last time."""

    def likely_causes(self) -> tuple[str, ...]:
        """Say what launches have done since the last time that is rarely meant, for messages on wrong results."""

    def remarks_on_call(self) -> tuple[str, ...]:
        """Say what calls have changed of the process and the context since the last ``leave_call``."""

    def launched_by_call(self) -> tuple[Activity, ...]:
        """Return what the last call launches, in order; empty where that is not recorded."""

    def leave_call(self) -> None:
        """Restore what calls have changed of the process and the context."""

    def in_another_order(self, number: int) -> AbstractContextManager[str]:
        """Run what is launched inside, and waited for, in another order of blocks; in the usual one where that is 0.

        The value says which order that is, or nothing.
        """

    def accept(self, findings: Iterable[str]) -> None:
        """Accept findings of kernels, where the machine has any; softcuda.accept says how they are written."""

    def finish(self) -> None:
        """Wait for the launches. Raises DeviceError where one failed, or did not end within the limit."""

    def occupancy(self, function: Function, launch: Launch) -> float | None:
        """Return the share of a multiprocessor's threads that blocks of this launch can fill; None on the host."""


def in_order(starts: Sequence[Callable[[], None]]) -> Callable[[], None]:
    if len(starts) == 1:
        return starts[0]

    def start() -> None:
        for each in starts:
            each()

    return start


class CopiedArray(Protocol):
    """A CUDA array, which holds what a declared array does."""

    def fill(self) -> None:
        """Queue the copy of the declared array to it."""

    def give_back(self) -> None:
        """Queue the copy back, where kernels may have written it."""


@dataclass(frozen=True)
class WithCopies:
    """A launch, and copies before and behind it that are no part of its time."""

    before: Callable[[], None]
    launch: Callable[[], None]
    behind: Callable[[], None]

    def __call__(self) -> None:
        self.before()
        self.launch()
        self.behind()


def with_copies(launch: Callable[[], None], arrays: Sequence[CopiedArray]) -> WithCopies:
    """Let a launch begin with what declared arrays hold, and end with these holding its results."""
    return WithCopies(in_order([each.fill for each in arrays]), launch, in_order([each.give_back for each in arrays]))


def nothing() -> None:
    """Do nothing: a kernel that changes none of its arrays needs nothing restored."""


def in_parts(start: Callable[[], None]) -> tuple[Callable[[], None], Callable[[], None], Callable[[], None]]:
    """Return what comes before a launch and is no part of its time, the launch, and what comes behind it."""
    return (start.before, start.launch, start.behind) if isinstance(start, WithCopies) else (nothing, start, nothing)


class GuardedArray:
    """An array in a machine's memory between two bands of poison, itself poison until it is written."""

    def __init__(
        self,
        machine: Machine,
        name: str,
        shape: Shape,
        dtype: str,
        offset: int = 0,
        operand: bool = False,
        filled: bool = True,
    ) -> None:
        """Allocate the array.

        ``offset``: elements from the alignment of the allocation to the first element. ``operand``: it is only read.
        ``filled``: with poison; where ``set`` follows, nothing need be filled before it.
        """
        self.name, self.shape, self.dtype = name, shape, numpy_type(dtype)
        self._operand = operand
        self.word = poison_of(self.dtype.itemsize, operand)  # which guard bands hold
        self.machine = machine
        guard = 0 if machine.finds_faults else GUARD_BYTES
        self._before = guard + offset * self.dtype.itemsize
        self.nbytes = int(np.prod(shape, dtype=np.int64)) * self.dtype.itemsize
        rest = -(self._before + self.nbytes) % 4 if guard else 0  # a digest needs no second read of the last bytes
        self._size = self._before + self.nbytes + guard + rest
        self._base = machine.allocate(self._size)
        self.address = self._base + self._before
        if machine.finds_faults:
            self.word = poison_of(4)  # which its fresh memory holds
        elif filled:
            self.clear()

    @property
    def with_bands(self) -> tuple[int, int]:
        """Address and bytes of the array and its guard bands."""
        return self._base, self._size

    def clear(self, second: bool = False) -> None:
        """Fill the array and its guard bands with poison. ``second``: with the other pattern."""
        self.word = poison_of(self.dtype.itemsize, self._operand, second)
        self.machine.fill(self._base, self._size, self.word)

    def set(self, array: Array) -> None:
        """Fill the guard bands with poison and write the array."""
        first, end = -(-self._before // 4) * 4, (self._before + self.nbytes) // 4 * 4
        if self._size > self.nbytes:  # by whole words, which the array's own values then replace at the edges
            self.machine.fill(self._base, first, self.word)
            self.machine.fill(self._base + end, self._size - end, self.word)
        self.write(array)

    def write(self, array: Array) -> None:
        self.machine.write(self.address, np.ascontiguousarray(array))

    def poison(self) -> None:
        """Fill the array with the poison that its guard bands hold."""
        self.machine.fill(self.address, self.nbytes, self.word)

    def read(self) -> Array:
        return self.read_rows(0, self.shape[0])

    def read_rows(self, first: int, end: int) -> Array:
        """Read rows [first, end) of the array."""
        rows = np.empty((end - first, *self.shape[1:]), self.dtype)
        self.machine.read(self.address + first * (self.nbytes // self.shape[0]), rows)
        return rows

    def read_sample(self, rows: Array | None) -> Array:
        """Read these rows of the array, or all of them for None."""
        if rows is None:
            return self.read()
        return np.concatenate([self.read_rows(int(row), int(row) + 1) for row in rows])

    def overrun(self) -> str | None:
        """Describe the writes outside the array that its guard bands show; None where there are none."""
        itemsize, end = self.dtype.itemsize, self._before + self.nbytes
        for side, start, stop in (("before", 0, self._before), ("after", end, self._size)):
            band = np.empty(stop - start, np.uint8)
            if band.size:
                self.machine.read(self._base + start, band)
            unharmed = repeated(self.word, start % 4 + band.size)[start % 4 :]
            wrong = np.flatnonzero(band != unharmed)
            if wrong.size:
                steps = wrong if side == "after" else band.size - 1 - wrong  # bytes away from the array
                away = np.unique(steps // itemsize) + 1
                edge = "end" if side == "after" else "start"
                return (
                    f"wrote {away.size:,} element(s) {side} {self.name}, the nearest {int(away[0]):,} {side} its {edge}"
                )
        return None

    def free(self) -> None:
        self.machine.free(self._base)


def pack(arguments: Sequence[np.generic], parameters: Sequence[Parameter] = ()) -> bytes:
    """Pack kernel arguments into the bytes that cuLaunchKernel takes.

    Each lies where its parameter does. Where these are not known, arguments are aligned as C aligns the members of a
    struct.
    """
    if not arguments:
        return b""
    if [each.dtype.itemsize for each in arguments] != [each.size for each in parameters]:
        parameters = parameters_for(arguments)
    fields = np.dtype(
        {
            "names": [f"a{i}" for i in range(len(arguments))],
            "formats": [value.dtype for value in arguments],
            "offsets": [each.offset for each in parameters],
            "itemsize": parameters[-1].end,
        }
    )
    packed = np.zeros(1, fields)  # what lies between arguments is zero
    packed[0] = tuple(arguments)
    return packed.tobytes()
