"""Runs, in the worker, the last block of a kernel on arrays past 2^32 elements, of which memory holds a corner."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from warpwatch.catalogue.corners import tile
from warpwatch.catalogue.declaration import Array, Case, Shape
from warpwatch.devices.check import compare
from warpwatch.devices.machine import OPERAND_POISON, DeviceError, GuardedArray
from warpwatch.devices.runner import exact_operands, load
from warpwatch.devices.worker import gpu

SETTINGS = {"SOFTCUDA_SPARSE": "1", "SOFTCUDA_LAST_BLOCKS": "1"}


@contextmanager
def only_the_last_block() -> Iterator[None]:
    """Let the software device run the last block of a grid alone, on arrays of any size."""
    os.environ.update(SETTINGS)
    try:
        yield
    finally:
        for name in SETTINGS:
            del os.environ[name]


def corner(array: GuardedArray, shape: Shape) -> Iterator[tuple[int, int]]:
    """Yield where the rows of the array's last corner of that shape start, and the rows' numbers, in that order."""
    height = 1 if len(shape) == 1 else shape[0]
    width = shape[-1]
    rows = 1 if len(shape) == 1 else array.shape[0]
    for row in range(height):
        place = (rows - height + row + 1) * array.shape[-1] - width
        yield array.address + place * array.dtype.itemsize, row


def problem_of_the_last_block(case: Case, small: Case, image: Path, again: str) -> str:
    """What is wrong with the last block of a case, in words, or nothing. Raises DeviceError.

    ``small`` is the same case with one size made small: its operands are put at the end of the large ones, so that
    both have the same last block.
    """
    assert case.family.result
    operands, machine = exact_operands(small, 0), gpu()
    with only_the_last_block(), ExitStack() as cleanup:
        guarded = []
        for (name, shape), values in zip(case.family.operands(case.shape).items(), operands, strict=True):
            guarded.append(GuardedArray(machine, name, shape, case.dtype, poison=OPERAND_POISON))
            cleanup.callback(guarded[-1].free)
            for address, row in corner(guarded[-1], values.shape):
                machine.write(address, np.ascontiguousarray(values if values.ndim == 1 else values[row]))
        loaded = load(machine, case, image, tuple(guarded))
        assert loaded.result
        cleanup.callback(loaded.result.free)
        try:
            loaded.start()
            machine.finish()
        except DeviceError as error:
            raise DeviceError(f"{case.id}, its last block: {error}", error.lost) from None
        wanted = _last_tile(case, small.family.reference(operands, slice(None)))
        got = np.empty(wanted.shape, case.dtype)
        for address, row in corner(loaded.result, wanted.shape):
            machine.read(address, got if got.ndim == 1 else got[row])
    mismatch = compare(got, wanted, 0.0)
    if not mismatch:
        return ""
    where = f"the worst {mismatch.got} and not {mismatch.expected}"
    return (
        f"{case.id} is wrong in {mismatch.wrong:,} of its last block's {mismatch.total:,} elements, {where}\n  {again}"
    )


def _last_tile(case: Case, result: Array) -> Array:
    """The part of a result that the last block computes, of a case whose last tile may be short."""
    assert case.family.result
    _, shape = case.family.result(case.shape)
    tile_of_axis = dict(zip((case.variant.x, case.variant.y), tile(case.build), strict=True))
    extents = [(size - 1) % tile_of_axis.get(axis, size) + 1 for axis, size in enumerate(shape)]
    return result[tuple(slice(-extent, None) for extent in extents)]
