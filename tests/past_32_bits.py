"""In the worker: the last blocks of a launch on sparse arrays of more than 2^31 elements, held against NumPy."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path

import numpy as np

from kernels import FAMILIES
from kernels.catalogue import Array, Case, find_case
from kernels.worker import gpu

WINDOW = 1 << 20  # elements at an array's end that are filled, and of a long row


@contextmanager
def settings(blocks: int) -> Iterator[None]:
    """Arrays are sparse, and only so many blocks run."""
    chosen = {"SOFTCUDA_SPARSE": "1", "SOFTCUDA_LAST_BLOCKS": str(blocks)}
    os.environ.update(chosen)
    try:
        yield
    finally:
        for name in chosen:
            del os.environ[name]


def last_blocks(case: Case) -> int:
    """Enough for the end of the result: where rows continue in z, the last rows of blocks have nothing to do."""
    x, _, z = case.launch.grid
    return min(x, 16) * (z + 2)


def ends(shape: Sequence[int]) -> tuple[slice, ...]:
    """The end of an array along each axis, of at most WINDOW elements in all."""
    across = min(shape[-1], 4096)
    if len(shape) == 1:
        return (slice(shape[0] - min(shape[0], WINDOW), shape[0]),)
    down = min(shape[0], WINDOW // across)
    return slice(shape[0] - down, shape[0]), slice(shape[1] - across, shape[1])


def sparse_array(shape: Sequence[int], dtype: str) -> tuple[int, Array]:
    """A sparse array on the device, and a view of its memory: the device's addresses are the host's own."""
    size = prod(shape) * np.dtype(dtype).itemsize
    address = gpu().allocate(size)
    return address, np.frombuffer(memoryview((ctypes.c_byte * size).from_address(address)), dtype).reshape(shape)


def run_the_end(case_id: str, image: Path) -> tuple[bool, int, int]:
    """Whether the result's last element is right; how many of its end are, and how many are wrong. Raises DeviceError.

    All operands are zeros but for their ends, which hold whole numbers from 1 to 7; what no block wrote is 0.
    """
    case, device = find_case(FAMILIES, case_id), gpu()
    assert case.family.result
    _, result_shape = case.family.result(case.shape)
    rng = np.random.default_rng(7)
    with settings(last_blocks(case)):
        arrays = {name: sparse_array(shape, case.dtype) for name, shape in case.family.operands(case.shape).items()}
        for _, array in arrays.values():
            array[ends(array.shape)] = rng.integers(1, 8, array[ends(array.shape)].shape)
        address, result = sparse_array(result_shape, case.dtype)
        function = device.load(image, case.entry)
        if case.variant.constant:
            where, array = arrays[case.variant.constant]
            device.set_constant(function, f"constant_{case.variant.constant}", where, array.nbytes)
        pointers = [*(where for where, _ in arrays.values()), address]
        device.launcher(function, case.launch, case.variant.arguments(pointers, case.shape))()
        device.finish()
        expected = expected_end(case, [array for _, array in arrays.values()])
        got = result[ends(result_shape)][tuple(slice(-size, None) for size in expected.shape)]
        right, wrong = int(np.count_nonzero(got == expected)), int(np.count_nonzero((got != expected) & (got != 0)))
        last = bool(got.flat[-1] == expected.flat[-1])
        for where in pointers:
            device.free(where)
    return last, right, wrong


def expected_end(case: Case, operands: Sequence[Array]) -> Array:
    """The last elements of the result, by NumPy, of at most 64 rows and 64 columns."""
    match case.family.name:
        case "matmul":
            a, b = operands
            return a[-64:].astype(np.float64) @ b[:, -64:]
        case "matvec":
            a, x = operands
            return a[-64:].astype(np.float64) @ x
        case "transpose":
            return operands[0][-64:, -64:].T.astype(np.float64)
    image, *filters = operands
    size = case.shape[2]
    part = image[-64 - size :, -64 - size :]
    whole = case.family.reference((part, *filters), slice(0, part.shape[0]))
    return whole[-min(64, image.shape[0]) :, -min(64, image.shape[1]) :]
