"""Draws the inputs of a case: random ones, small whole numbers, or those of a family's own function."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from warpwatch.catalogue.arrays import Array
from warpwatch.catalogue.by_name import call
from warpwatch.catalogue.declaration import Case
from warpwatch.catalogue.elements import numpy_type
from warpwatch.catalogue.names import BadCase

DRAWN_AT_ONCE = 2**20  # elements of a piece, which one thread draws
DIRECT = (np.float32, np.float64)  # the types that NumPy draws by itself


def random_inputs(case: Case, seed: int) -> dict[str, Array]:
    """Draw inputs: floats uniform in [-1, 1), integers over their whole range, unless the family draws its own."""

    def draw(rng: np.random.Generator, out: Array) -> None:
        if out.dtype.kind == "b":
            out[:] = rng.integers(0, 2, out.shape, dtype=np.uint8)
        elif out.dtype.kind in "iu":
            limits = np.iinfo(out.dtype)
            out[:] = rng.integers(limits.min, limits.max, out.shape, dtype=out.dtype, endpoint=True)
        elif out.dtype in DIRECT:
            rng.random(out=out, dtype=out.dtype.type)
            out *= 2
            out -= 1
        elif out.dtype.kind == "c":
            out[:] = (2 * rng.random(out.shape) - 1) + 1j * (2 * rng.random(out.shape) - 1)
        else:
            out[:] = (2 * rng.random(out.shape, np.float32) - 1).astype(out.dtype)

    return _draw(case, seed, draw, exact=False)


def exact_inputs(case: Case, seed: int) -> dict[str, Array]:
    """Draw whole numbers in [-8, 8], so that float32 sums of up to 2^18 products are exact in any order."""

    def draw(rng: np.random.Generator, out: Array) -> None:
        least = 0 if out.dtype.kind in "ub" else -8
        out[:] = rng.integers(least, 9, out.shape).astype(out.dtype)

    return _draw(case, seed, draw, exact=True)


def small_inputs(case: Case) -> dict[str, Array]:
    """Draw small whole numbers, which are always the same, or the family's own inputs."""
    own = _own_inputs(case, 0, exact=True)
    rng = np.random.default_rng(0)
    return {
        array.name: own[array.name]
        if array.name in own
        else rng.integers(0 if numpy_type(array.dtype).kind in "ub" else -8, 9, array.shape).astype(
            numpy_type(array.dtype)
        )
        for array in case.inputs
    }


def _own_inputs(case: Case, seed: int, exact: bool) -> dict[str, Array]:
    """Draw inputs by the family's own function, if it has one. Raises BadCase where they are not the declared ones."""
    if not case.family.draw:
        return {}
    rng = np.random.default_rng(np.random.SeedSequence([seed, *case.shape]))
    given = case.family.given(case.shape, case.dtype, rng=rng, exact=exact)
    drawn: Mapping[str, Any] = call(case.family.draw, given)
    known = {array.name: numpy_type(array.dtype) for array in case.inputs}
    if not isinstance(drawn, Mapping) or not set(drawn) <= set(known):
        raise BadCase(f"{case.id}: draw returns {sorted(drawn) if isinstance(drawn, Mapping) else drawn!r}; the inputs "
                      f"are {', '.join(known)}")  # fmt: skip
    return {name: np.ascontiguousarray(array, known[name]) for name, array in drawn.items()}


def _draw(
    case: Case, seed: int, draw: Callable[[np.random.Generator, Array], None], exact: bool
) -> dict[str, Array]:
    """Draw each piece of an array from its own random stream, so that the number of cores changes nothing."""
    own = _own_inputs(case, seed, exact)
    seeds = np.random.SeedSequence([seed, *case.shape])
    made = {
        array.name: np.empty(array.shape, numpy_type(array.dtype)) for array in case.inputs if array.name not in own
    }
    pieces = [a.reshape(-1)[i : i + DRAWN_AT_ONCE] for a in made.values() for i in range(0, a.size, DRAWN_AT_ONCE)]
    streams = map(np.random.default_rng, seeds.spawn(len(pieces)))
    # NumPy releases the interpreter's lock while it draws.
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(draw, streams, pieces))
    return {array.name: own[array.name] if array.name in own else made[array.name] for array in case.inputs}


def check_inputs(case: Case, inputs: Mapping[str, Array]) -> None:
    """Raise BadCase where inputs have not the names, shapes and types of the case's."""
    for array in case.inputs:
        if array.name not in inputs:
            raise BadCase(f"{case.id}: takes {len(case.inputs)} inputs ({', '.join(a.name for a in case.inputs)}), "
                          f"not {len(inputs)}")  # fmt: skip
        given = inputs[array.name]
        if (given.shape != array.shape and not case.family.draw) or given.dtype != numpy_type(array.dtype):
            raise BadCase(f"{case.id}: {array.name} must be {array.shape} of {array.dtype}, "
                          f"not {given.shape} of {given.dtype}")  # fmt: skip


