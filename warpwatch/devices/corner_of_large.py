"""Runs the last block of a kernel on arrays of more than 2^32 elements, of which only the last corner is in memory.

It runs in the worker process on the software device, which alone can run a single block of a grid.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from warpwatch.catalogue.arrays import Array, Shape
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.corners import tile
from warpwatch.catalogue.expected import compute
from warpwatch.catalogue.inputs import exact_inputs
from warpwatch.devices.check import compare
from warpwatch.devices.machine import DeviceError, GuardedArray
from warpwatch.devices.runner import load
from warpwatch.devices.worker import gpu

SETTINGS = {"SOFTCUDA_SPARSE": "1", "SOFTCUDA_LAST_BLOCKS": "1"}


@contextmanager
def only_the_last_block() -> Iterator[None]:
    """Make the software device run only the last block of a grid, and accept arrays that memory cannot hold."""
    os.environ.update(SETTINGS)
    try:
        yield
    finally:
        for name in SETTINGS:
            del os.environ[name]


def corner_rows(array: GuardedArray, shape: Shape) -> Iterator[tuple[int, int]]:
    """Yield the address and the number of each row of the last corner, of that shape, of an array."""
    height = 1 if len(shape) == 1 else shape[0]
    width = shape[-1]
    rows = 1 if len(shape) == 1 else array.shape[0]
    for row in range(height):
        element = (rows - height + row + 1) * array.shape[-1] - width
        yield array.address + element * array.dtype.itemsize, row


def problem_of_the_last_block(case: Case, small: Case, image: Path, again: str) -> str:
    """Run the last block of a case and describe what is wrong with its result, if anything. Raises DeviceError.

    ``small``: the same case with one small size; its inputs are written to the end of the large ones, so that both
    cases have the same last block. ``again``: the command that repeats this, for the message.
    """
    inputs, machine = exact_inputs(small, 0), gpu()
    with only_the_last_block(), ExitStack() as cleanup:
        guarded = []
        for array in case.inputs:
            values = inputs[array.name]
            guarded.append(GuardedArray(machine, array.name, array.shape, array.dtype, operand=True))
            cleanup.callback(guarded[-1].free)
            for address, row in corner_rows(guarded[-1], values.shape):
                machine.write(address, np.ascontiguousarray(values if values.ndim == 1 else values[row]))
        loaded = load(machine, case, image, tuple(guarded))
        cleanup.callback(loaded.free_own)
        try:
            loaded.start()
            machine.finish()
        except DeviceError as error:
            raise DeviceError(f"{case.id}, its last block: {error}", error.lost) from None
        (wanted,) = (_last_tile(case, right) for right in compute(small, small.family.reference, inputs).values())
        got = np.empty(wanted.shape, case.dtype)
        for address, row in corner_rows(loaded.results[0], wanted.shape):
            machine.read(address, got if got.ndim == 1 else got[row])
    mismatch = compare(got, wanted, 0.0)
    if not mismatch:
        return ""
    where = f"the worst {mismatch.got} and not {mismatch.expected}"
    return (
        f"{case.id} is wrong in {mismatch.wrong:,} of its last block's {mismatch.total:,} elements, {where}\n  {again}"
    )


def _last_tile(case: Case, result: Array) -> Array:
    """Return the part of a result that the last block computes; the last tile may be cut off."""
    shape = case.results[0].shape
    tile_of_axis = dict(zip((case.variant.x, case.variant.y), tile(case.build), strict=True))
    extents = [(size - 1) % tile_of_axis.get(axis, size) + 1 for axis, size in enumerate(shape)]
    return result[tuple(slice(-extent, None) for extent in extents)]
