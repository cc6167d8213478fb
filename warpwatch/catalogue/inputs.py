"""Draws the inputs of a case: random ones, small whole numbers, or those of a family's own function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from warpwatch.catalogue.arrays import Array, CaseArray
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.declaration import seeds
from warpwatch.catalogue.elements import numpy_type
from warpwatch.catalogue.named_arguments import call
from warpwatch.catalogue.names import BadCase
from warpwatch.catalogue.threads import for_each

DRAWN = 1  # version of how benchmarks' inputs are drawn; saved runs of another one have other inputs
DRAWN_AT_ONCE = 2**20  # elements of a piece, which one thread draws
DIRECT = (np.float32, np.float64)  # the types that NumPy draws by itself


def random_inputs(case: Case, seed: int) -> dict[str, Array]:
    """Draw inputs: floats uniform in [-1, 1), integers over their range, unless the declaration says otherwise."""
    return draw_each(case, seed, usual, exact=False)


def usual(rng: np.random.Generator, out: Array, array: CaseArray) -> None:
    """Fill a piece of an array with uniform random numbers."""
    if array.low is not None or array.high is not None:
        out[:] = _between(rng, out, array)
    elif out.dtype.kind == "b":
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


def _between(rng: np.random.Generator, out: Array, array: CaseArray) -> Array:
    """Draw from the range that an array declares; whole numbers for integers."""
    if out.dtype.kind in "iu":
        limits = np.iinfo(out.dtype)
        low, high = int(limits.min if array.low is None else array.low), array.high
        return rng.integers(low, int(limits.max) + 1 if high is None else int(high), out.shape, dtype=out.dtype)
    least, most = (0.0 if array.low is None else array.low), (1.0 if array.high is None else array.high)
    return (least + (most - least) * rng.random(out.shape)).astype(out.dtype)


def exact_inputs(case: Case, seed: int) -> dict[str, Array]:
    """Draw whole numbers in [-8, 8], so that float32 sums of up to 2^18 products are exact in any order."""
    return draw_each(case, seed, _small, exact=True)


def _small(rng: np.random.Generator, out: Array, array: CaseArray) -> None:
    """Draw whole numbers from -8 to 8, or from those of them that an array declares."""
    least, most = (0 if out.dtype.kind in "ub" else -8), 9
    if array.low is not None or array.high is not None:
        least, most = max(least, int(np.ceil(array.low or 0))), min(most, int(np.ceil(array.high or most)))
    out[:] = rng.integers(least, max(most, least + 1), out.shape).astype(out.dtype)


def own_inputs(case: Case, seed: int, exact: bool) -> dict[str, Array]:
    """Draw inputs by the family's own function, if it has one. Raises BadCase where they are not the declared ones."""
    if not case.family.draw:
        return {}
    rng = np.random.default_rng(seeds(seed, case.shape))
    given = case.family.given(case.shape, case.dtype, rng=rng, exact=exact)
    drawn: Mapping[str, Any] = call(case.family.draw, given)
    known = {array.name: numpy_type(array.dtype) for array in case.inputs}
    if not isinstance(drawn, Mapping) or not set(drawn) <= set(known):
        raise BadCase(f"{case.id}: draw returns {sorted(drawn) if isinstance(drawn, Mapping) else drawn!r}; the inputs "
                      f"are {', '.join(known)}")  # fmt: skip
    return {name: np.ascontiguousarray(array, known[name]) for name, array in drawn.items()}


def draw_each(
    case: Case, seed: int, draw: Callable[[np.random.Generator, Array, CaseArray], None], exact: bool
) -> dict[str, Array]:
    """Draw each piece of an array from its own random stream, so that the number of cores changes nothing."""
    own = own_inputs(case, seed, exact)
    inputs = {
        array.name: own[array.name] if array.name in own else np.empty(array.shape, numpy_type(array.dtype))
        for array in case.inputs
    }
    pieces = [
        (inputs[array.name].reshape(-1)[i : i + DRAWN_AT_ONCE], array)
        for array in case.inputs
        if array.name not in own
        for i in range(0, array.size, DRAWN_AT_ONCE)
    ]
    streams = seeds(seed, case.shape).spawn(len(pieces))
    draws = [(np.random.default_rng(stream), *piece) for stream, piece in zip(streams, pieces, strict=True)]
    if sum(piece.size for piece, _ in pieces) > DRAWN_AT_ONCE:
        for_each(lambda given: draw(*given), draws)
    else:  # to start threads takes longer than to draw small pieces
        for given in draws:
            draw(*given)
    return inputs
