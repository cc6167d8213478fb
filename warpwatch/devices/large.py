"""Checks, in the worker process, kernels on arrays that are too large to copy, by some rows of their results."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from math import prod
from pathlib import Path

import numpy as np

from warpwatch.catalogue.arrays import Array, Shape
from warpwatch.catalogue.cases import Case
from warpwatch.devices import memory
from warpwatch.devices.check import compare, explain
from warpwatch.devices.digest import digest
from warpwatch.devices.references import expected
from warpwatch.devices.runner import load, upload
from warpwatch.devices.worker import gpu

PERIOD = 1_000_003  # prime: no index that wraps, or is off by a power of two, finds the same value


def repeated(rng: np.random.Generator, shape: Shape) -> Array:
    """Draw float32 values in [-1, 1) that repeat after PERIOD elements, which is as fast as memory is written."""
    values = 2 * rng.random(PERIOD, np.float32) - 1
    array = np.empty(prod(shape), np.float32)
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
    first, said = cases[0], []
    rows = sampled_rows(first, limit)
    memory.require(first, memory.peak_bytes(first, copies=int(machine.finds_faults), rows=len(rows)))
    rng = np.random.default_rng(seed)
    inputs = {array.name: repeated(rng, array.shape) for array in first.inputs}
    ((name, right),) = expected(first, inputs, rows).items()
    with ExitStack() as cleanup:
        guarded = upload(machine, first, inputs)
        for array in guarded:
            cleanup.callback(array.free)
        digests = [digest(array) for array in guarded]
        for case, image in zip(cases, images, strict=True):
            loaded = load(machine, case, image, guarded)
            (result,) = loaded.results
            loaded.start()
            machine.finish()
            got = np.concatenate([result.read_rows(int(row), int(row) + 1) for row in rows])
            mismatch = compare(got, right.reference, right.bound, rows)
            damage = [array.overrun() for array in (*guarded, result)]
            said += [f"{case.id} {sentence}" for sentence in damage if sentence]
            said += [explain(case, name, mismatch, f"python -m warpwatch run {case.id}")] if mismatch else []
            loaded.free_own()
            for array, before in zip(guarded, digests, strict=True):
                if digest(array) != before:
                    said.append(f"{case.id} changed its operand {array.name}")
                    array.write(inputs[array.name])  # so that the next case is not blamed
    return said
