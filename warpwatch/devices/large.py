"""Checks, in the worker process, kernels on arrays that are too large to copy, or larger than memory.

Where memory holds them, some rows of the results are compared. The software device, which alone can run a single block
of a grid, runs the last block on arrays of more than 2^32 elements, of which only the last corner is in memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from math import prod
from pathlib import Path

import numpy as np

from warpwatch.catalogue.arrays import Array, Shape
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.corners import tile
from warpwatch.catalogue.elements import numpy_type
from warpwatch.catalogue.inputs import exact_inputs
from warpwatch.devices import host_memory
from warpwatch.devices.digest import digest
from warpwatch.devices.machine import DeviceError, GuardedArray
from warpwatch.devices.mismatch import compare, explain
from warpwatch.devices.references import expected
from warpwatch.devices.runner import load, upload
from warpwatch.devices.worker import gpu

# In the environment, with which the software device takes arrays that memory cannot hold, and runs only the last block.
LAST_BLOCK = {"SOFTCUDA_SPARSE": "1", "SOFTCUDA_LAST_BLOCKS": "1"}
PERIOD = 1_000_003  # prime: no index that wraps, or is off by a power of two, finds the same value


def repeated(rng: np.random.Generator, shape: Shape, dtype: str) -> Array:
    """Draw values in [-1, 1) that repeat after PERIOD elements, which is as fast as memory is written."""
    values = (2 * rng.random(PERIOD, np.float32) - 1).astype(numpy_type(dtype))
    array = np.empty(prod(shape), values.dtype)
    for start in range(0, array.size, PERIOD):
        array[start : start + PERIOD] = values[: array.size - start]
    return array.reshape(shape)


def sampled_rows(case: Case, limit: int) -> Array:
    """Choose rows of the result: the first and last ones, those around its element ``limit``, and a dozen others."""
    shape = case.results[0].shape
    crossing = limit // prod(shape[1:])
    rows = [0, 1, crossing - 1, crossing, crossing + 1, shape[0] - 2, shape[0] - 1, *range(0, shape[0], shape[0] // 12)]
    return np.unique([row for row in rows if 0 <= row < shape[0]])


def problems(cases: Sequence[Case], images: Sequence[Path], seed: int, limit: int) -> list[str]:
    """Run these cases of one shape and describe what is wrong with their results. Raises DeviceError."""
    machine = gpu()
    first, faults = cases[0], []
    rows = sampled_rows(first, limit)
    host_memory.require(first, host_memory.peak_bytes(first, copies=int(machine.finds_faults), rows=len(rows)))
    rng = np.random.default_rng(seed)
    inputs = {array.name: repeated(rng, array.shape, array.dtype) for array in first.inputs}
    right = expected(first, inputs, rows)
    with ExitStack() as cleanup:
        guarded = upload(machine, first, inputs)
        for array in guarded:
            cleanup.callback(array.free)
        digests = [digest(array) for array in guarded]
        for case, image in zip(cases, images, strict=True):
            loaded = load(machine, case, image, guarded)
            loaded.restore()
            loaded.start()
            machine.finish()
            damage = [array.overrun() for array in (*guarded, *loaded.results)]
            faults += [f"{case.id} {sentence}" for sentence in damage if sentence]
            for result in loaded.results:
                wanted = right[result.name]
                mismatch = compare(result.read_sample(rows), wanted.reference, wanted.bound, rows)
                again = f"python -m warpwatch run {case.id}"
                faults += [explain(case, result.name, mismatch, again)] if mismatch else []
            loaded.free_own()
            for array, before in zip(guarded, digests, strict=True):
                if digest(array) != before:
                    faults.append(f"{case.id} changed its operand {array.name}")
                    array.write(inputs[array.name])  # so that the next case is not blamed
    return faults


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
    with ExitStack() as cleanup:
        for name, value in LAST_BLOCK.items():
            os.environ[name] = value
            cleanup.callback(os.environ.pop, name)
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
        for result in loaded.results:
            right, last = expected(small, inputs, exact=small.family.exact)[result.name], _last_tile(case, result.shape)
            wanted, bound = right.reference[last], np.broadcast_to(right.bound, right.reference.shape)[last]
            got = np.empty(wanted.shape, result.dtype)
            for address, row in corner_rows(result, wanted.shape):
                machine.read(address, got if got.ndim == 1 else got[row])
            if mismatch := compare(got, wanted, bound):
                where = f"the worst {mismatch.got} and not {mismatch.expected}"
                wrong = f"wrong in {mismatch.wrong:,} of its last block's {mismatch.total:,} elements"
                return f"{case.id} is {wrong}, {where}\n  {again}"
    return ""


def _last_tile(case: Case, shape: Shape) -> tuple[slice, ...]:
    """Return the part of a result of that shape that the last block computes; the last tile may be cut off."""
    tile_of_axis = dict(zip((case.variant.x, case.variant.y), tile(case.build), strict=True))
    extents = [(size - 1) % tile_of_axis.get(axis, size) + 1 for axis, size in enumerate(shape)]
    return tuple(slice(-extent, None) for extent in extents)
