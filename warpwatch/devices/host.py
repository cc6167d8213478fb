"""Runs the serial variants on the host: compiled by g++ and called through ctypes."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np

from warpwatch.catalogue.arrays import Array
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.launches import Launch
from warpwatch.catalogue.threads import copy_bytes, for_each
from warpwatch.devices import host_memory
from warpwatch.devices.activity import Activity
from warpwatch.devices.compile.compiler import read_image
from warpwatch.devices.compile.symbols import missing_entry
from warpwatch.devices.machine import CopiedArray, DeviceError, Function, GuardedArray, in_order, repeated

FILLED_AT_ONCE = 2**24  # bytes that one thread fills


class Host:
    """The host as a machine: one thread of this process. A launch returns when the kernel has run."""

    finds_faults = False

    def __init__(self) -> None:
        self._memory: dict[int, Array] = {}

    def require(self, size: int) -> None:
        free = host_memory.available()
        if size > free:
            raise DeviceError(f"not enough memory: {size / 1e9:,.2f} GB are needed, {free / 1e9:,.2f} GB are free")

    def allocate(self, size: int) -> int:
        block = np.empty(size, np.uint8)
        self._memory[block.ctypes.data] = block
        return block.ctypes.data

    def free(self, address: int) -> None:
        del self._memory[address]

    def fill(self, address: int, size: int, word: int) -> None:
        whole = size // 4 * 4

        def fill_piece(start: int) -> None:
            _view(address + start, min(FILLED_AT_ONCE, whole - start)).view(np.uint32)[:] = word

        for_each(fill_piece, range(0, whole, FILLED_AT_ONCE))
        _view(address + whole, size - whole)[:] = repeated(word, size - whole)

    def copy(self, to: int, source: int, size: int) -> None:
        ctypes.memmove(to, source, size)

    def write(self, address: int, array: Array) -> None:
        copy_bytes(_view(address, array.nbytes), array.reshape(-1).view(np.uint8))

    def read(self, address: int, array: Array) -> None:
        ctypes.memmove(array.ctypes.data, address, array.nbytes)

    def load(self, image: Path, entry: str, beside: Function | None = None) -> Function:
        code = read_image(image)  # read for its checks: the file must be whole and belong to this user
        try:
            function = ctypes.CDLL(str(image))[entry]
        except AttributeError:
            raise DeviceError(missing_entry(entry, code)) from None
        function.restype = None
        return Function(entry, function)

    def launcher(self, function: Function, launch: Launch, arguments: Sequence[np.generic]) -> Callable[[], None]:
        values = [np.ctypeslib.as_ctypes(np.asarray(value)) for value in arguments]
        return functools.partial(function.handle, *values)

    def set_constant(self, function: Function, name: str, address: int, size: int) -> int:
        raise DeviceError("the host has no constant memory")

    def call(self, case: Case, addresses: Mapping[str, int]) -> Callable[[], None]:
        raise DeviceError(f"{case.variant.name} runs on a device, not on the host")

    def strays(self, start: Callable[[], None], written: Sequence[GuardedArray], restore: Callable[[], None]) -> str:
        return ""

    def remarks_on_launches(self) -> tuple[str, ...]:
        return ()

    def likely_causes(self) -> tuple[str, ...]:
        return ()

    def remarks_on_call(self) -> tuple[str, ...]:
        return ()

    def launched_by_call(self) -> tuple[Activity, ...]:
        return ()

    def leave_call(self) -> None:
        pass

    def in_another_order(self, number: int) -> AbstractContextManager[str]:
        return nullcontext("")

    def cuda_arrays(self, arguments: Sequence[np.generic]) -> Sequence[CopiedArray]:
        return ()

    def in_sequence(self, launches: Sequence[Launch], starts: Sequence[Callable[[], None]]) -> Callable[[], None]:
        return in_order(starts)

    def accept(self, findings: Iterable[str]) -> None:
        pass

    def finish(self) -> None:
        pass

    def occupancy(self, function: Function, launch: Launch) -> float | None:
        return None


def _view(address: int, size: int) -> Array:
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
