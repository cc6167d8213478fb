"""Draws further inputs for a case, which find what uniform random numbers do not, and says how to judge their results.

A kernel that is right on [-1, 1) may overflow on larger numbers, take 0 for the least of all, or order negative numbers
by their bits. What is drawn lies within what the declaration allows: ``low`` and ``high`` of an array hold, and
a family with a ``draw`` of its own gets no further inputs. Inputs on which the reference fails, warns or is not finite
in the results' types are not used.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from warpwatch.catalogue.arrays import Array, CaseArray
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.elements import (
    greatest,
    is_float,
    numpy_type,
    rounding_error,
    smallest_normal,
    unit_roundoff,
    wide,
)
from warpwatch.catalogue.expected import Compute, Expected, compute, expected, rule_of
from warpwatch.catalogue.inputs import draw_each, usual
from warpwatch.catalogue.plausibility import unlike_results
from warpwatch.catalogue.tolerance import Exact

# The largest magnitudes that are tried, the first for which the reference of the inputs and that of their magnitudes
# are finite in the results' types. Squares of sums of 2^16 squares of the first are finite in float32, the type of most
# kernels' sums.
LADDER = tuple(2.0**power for power in (23, 15, 12, 9, 7, 5, 3, 1))
DEAR = 2**20  # Case.launch_cost from which on a case gets one of the further draws
MANY = 16  # cases of a variant from which on each gets one of them
NEAR = 2.0**-10  # of a declared range: how far from its ends large values lie
ROUNDINGS = 8  # that a function of a few operations makes at most
ILL_CONDITIONED = 0.25  # of the results on average: where rounding errors change more, only finite values are asked for
SAMPLES = (1, 8)  # of random errors: most right results need one; the others are looked at with more
A_FEW = 4  # times the largest change: a formula may round more often, as a variance in one pass does
COARSEST = 0.0625  # of the largest result: what a tolerance for the usual inputs allows at most to others of any size
FEW = 0.25  # of a result's elements: where no more differ between inputs nearby, the result has steps
MOST_CHANGE = 0.125  # of an input: what no rounding errors of a useful kernel amount to


@dataclass(frozen=True, kw_only=True)
class Draw:
    """Inputs for a launch. ``words``: what is special about them, for messages; empty for the usual ones."""

    words: str = ""
    inputs: Mapping[str, Array]
    right: Mapping[str, Expected]
    special: bool = False


Change = Callable[[np.random.Generator, Array, CaseArray], str]
Inputs = Mapping[str, Array]


def further_draws(case: Case, seed: int, by: Compute = compute) -> list[Draw]:
    """Return the further draws of a case: all of them, or one where its launch is dear or its variant has many cases.

    The cases of a variant take them in turn.
    """
    if case.family.draw or case.family.prints:
        return []
    cases = [
        (dtype, configuration, shape)
        for dtype in case.family.dtypes_of(case.variant)
        for configuration in case.variant.listed
        for shape in case.family.tests
    ]
    own = (case.dtype, case.build.configuration, case.shape)
    takes_turns = case.launch_cost > DEAR or not has_few_cases(case)
    # Every dtype and configuration begins with another one, so that each shape gets them all too.
    turn = cases.index(own) + cases.index(own) // len(case.family.tests) if own in cases and takes_turns else 0
    first = turn % len(KINDS)
    made = (draw for kind in (*KINDS[first:], *KINDS[:first]) if (draw := kind(case, seed, by)))
    return list(itertools.islice(made, 1 if takes_turns else None))


def has_few_cases(case: Case) -> bool:
    """Tell whether a case is of a kernel with fewer than MANY tested ones."""
    family, variant = case.family, case.variant
    return len(family.dtypes_of(variant)) * len(variant.listed) * len(family.tests) < MANY


def _large(case: Case, seed: int, by: Compute) -> Draw | None:
    """Draw numbers as large as the reference allows, and integers at their limits."""
    tried: list[Inputs] = []
    for top in LADDER:
        inputs, words = _changed(case, seed, functools.partial(_to_large, top=top))
        if not words or (tried and _are_equal(tried[-1], inputs)):
            return None
        tried.append(inputs)
        with _strictly():
            if _are_finite(case, by(case, case.family.reference, inputs, magnitudes=True)) and (
                right := _right(case, inputs, by)
            ):
                return Draw(words=words, inputs=inputs, right=right)
    return None


def _plain(change: Change) -> Callable[[Case, int, Compute], Draw | None]:
    """Make a kind of draw from what it changes in the usual inputs."""

    def kind(case: Case, seed: int, by: Compute) -> Draw | None:
        inputs, words = _changed(case, seed, change)
        right = _right(case, inputs, by) if words else None
        return Draw(words=words, inputs=inputs, right=right) if right else None

    return kind


def _special(case: Case, seed: int, by: Compute) -> Draw | None:
    """Draw infinities and NaN for the inputs that are declared with them."""
    inputs, words = _changed(case, seed, _to_special)
    if not words:
        return None
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        right = {
            name: replace(each, bound=np.nan_to_num(each.bound, nan=np.inf, posinf=np.inf))
            for name, each in expected(case, inputs, ordinary=False, by=by).items()
        }
        return Draw(words=words, inputs=inputs, right=right, special=True)


def _changed(case: Case, seed: int, change: Change) -> tuple[Inputs, str]:
    """Draw the usual inputs, change them, and return them with what is special about them."""
    words: dict[str, None] = {}

    def fill(rng: np.random.Generator, out: Array, array: CaseArray) -> None:
        usual(rng, out, array)
        with np.errstate(all="ignore"):
            words[change(rng, out, array)] = None

    inputs = draw_each(case, seed, fill, exact=False)
    return inputs, " and ".join(filter(None, words))


def _to_large(rng: np.random.Generator, out: Array, array: CaseArray, top: float) -> str:
    if out.dtype.kind in "iu":
        return _to_limits(rng, out, array)
    if not is_float(out.dtype):
        return ""
    part, (low, high) = _parts(out), _range(array)
    top = min(top, greatest(part.dtype) / 4)
    if low is None:
        part[:] = (part.astype(np.float64) * top).astype(part.dtype)
        return f"large numbers of both signs, up to {top:,.0f}"
    share = rng.random(part.size)
    if high is None:
        part[:] = low + share * top
        return f"large numbers, up to {top:,.0f}"
    near = (high - low) * NEAR * share
    ends = np.where(rng.random(part.size) < 0.5, low + near, high - near).astype(part.dtype)
    part[:] = np.where(ends < high, ends, np.asarray(low, part.dtype))
    return "numbers near the ends of their range"


def _to_limits(rng: np.random.Generator, out: Array, array: CaseArray) -> str:
    """Fill with integers near the least, the greatest and 0, which are as different as there are numbers."""
    limits = np.iinfo(out.dtype)
    low = int(limits.min if array.low is None else array.low)
    high = int(limits.max if array.high is None else array.high - 1)
    wide_type = np.uint64 if out.dtype.kind == "u" else np.int64
    least, most, middle = (wide_type(value) for value in (low, high, min(max(low, 0), high)))
    number = rng.permutation(out.size)
    away = (number // 3 % ((high - low) // 3 + 1)).astype(wide_type)
    half = (away + 1) // 2
    around = middle + away if low >= 0 else np.where(away % 2 == 0, middle + half, middle - half)
    values = np.select([number % 3 == 0, number % 3 == 1], [most - away, least + away], around)
    out[:] = np.clip(values, least, most)
    return "integers at their limits"


def _to_negative(rng: np.random.Generator, out: Array, array: CaseArray) -> str:
    low, high = _range(array)
    if not is_float(out.dtype) or (low is not None and (low >= 0 or (high or 1) <= 0)):
        return ""
    part = _parts(out)
    part[:] = -np.abs(part) if low is None else (low * (1 - rng.random(part.size))).astype(part.dtype)
    return "negative numbers alone"


def _to_alike(rng: np.random.Generator, out: Array, array: CaseArray) -> str:
    """Fill with numbers a few units in the last place apart, all different as long as there are enough."""
    if not is_float(out.dtype):
        return ""
    part, (low, high) = _parts(out), _range(array)
    base = 1.0 if low is None else low + 1 if high is None else low + 0.75 * (high - low)
    base = base or (high or 1.0) / 2
    step = 2 * unit_roundoff(part.dtype) * abs(base)
    room = 0.25 * abs(base) if high is None else min(0.25 * abs(base), 0.9 * (high - base))
    part[:] = base + step * (rng.permutation(part.size) % max(1, int(room / step)))
    return "numbers that are nearly equal"


def _to_zeros(rng: np.random.Generator, out: Array, array: CaseArray) -> str:
    """Replace an eighth by zeros, one at least, and an eighth by subnormal numbers."""
    low, high = _range(array)
    if not is_float(out.dtype) or (low is not None and (low > 0 or (high is not None and high <= 0))):
        return ""
    part = _parts(out)
    where = rng.random(part.size)
    sign = rng.choice([-1.0, 1.0], part.size) if low is None or low < 0 else 1.0
    subnormal = (sign * rng.random(part.size) * smallest_normal(part.dtype)).astype(part.dtype)
    where[rng.integers(part.size)] = 0
    part[:] = np.where(where < 0.125, np.zeros(1, part.dtype), np.where(where < 0.25, subnormal, part))
    return "zeros and subnormal numbers among others"


def _to_special(rng: np.random.Generator, out: Array, array: CaseArray) -> str:
    if not array.special or not is_float(out.dtype):
        return ""
    part = _parts(out)
    for value in (np.nan, np.inf, -np.inf):
        part[rng.integers(part.size, size=1 + part.size // 32)] = value
    return "infinities and NaN among others"


KINDS: tuple[Callable[[Case, int, Compute], Draw | None], ...] = (
    _large,
    _plain(_to_negative),
    _plain(_to_alike),
    _plain(_to_zeros),
    _special,
)


def _parts(out: Array) -> Array:
    """Return the real and imaginary parts of complex numbers, and other arrays as they are."""
    return out.view(out.real.dtype) if out.dtype.kind == "c" else out


def _range(array: CaseArray) -> tuple[float | None, float | None]:
    """Return the declared range, with no end where none is declared; one without ``low`` begins at 0, as usually."""
    return (0.0 if array.low is None and array.high is not None else array.low), array.high


def _are_equal(one: Inputs, other: Inputs) -> bool:
    return all(np.array_equal(array, other[name]) for name, array in one.items())


@contextmanager
def _strictly() -> Iterator[None]:
    """Leave quietly where a reference fails, or where NumPy would warn of what it computes."""
    with (
        contextlib.suppress(Exception),  # it is anybody's code, and need not be made for these inputs
        np.errstate(divide="raise", over="raise", invalid="raise"),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error", RuntimeWarning)
        yield


def _right(case: Case, inputs: Inputs, by: Compute) -> Mapping[str, Expected] | None:
    """Return the right results of inputs, or None where the reference cannot be used for them."""
    with _strictly():
        right = expected(case, inputs, ordinary=False, by=by)
        bounds = [np.asarray(each.bound, np.float64) for each in right.values()]
        references = {name: each.reference for name, each in right.items()}
        if (
            not unlike_results(case, references)
            and _are_finite(case, references)
            and not any(np.isnan(bound).any() for bound in bounds)
            and all(_can_be_met(case, array, right[array.name].reference) for array in case.results)
        ):
            return right
    return None


def _can_be_met(case: Case, array: CaseArray, reference: Array) -> bool:
    """Tell whether a result's type has its right values, where it must be equal to them."""
    dtype = numpy_type(array.dtype)
    if not is_float(dtype) or not isinstance(rule_of(case, array.name), Exact):
        return True
    exact = reference.astype(wide(dtype))
    return np.array_equal(exact.astype(dtype).astype(exact.dtype), exact)


def _are_finite(case: Case, results: Mapping[str, Array]) -> bool:
    """Tell whether results are finite in the types that kernels return."""
    rounded = [array for array in case.results if is_float(numpy_type(array.dtype))]
    return all(
        bool(
            (
                np.abs(results[array.name].astype(wide(numpy_type(array.dtype)))) <= greatest(numpy_type(array.dtype))
            ).all()
        )
        for array in rounded
    )


def widened(
    case: Case, draw: Draw, first: Draw, got: Mapping[str, Array], by: Compute = compute, *, samples: int = 1
) -> Mapping[str, Expected]:
    """Return what to hold results against that are outside the family's tolerance: with a bound from theory.

    A tolerance was chosen for the usual inputs, ``first``; further ones may amplify rounding errors. An absolute error
    is a share of results of some size: of larger results the same share is accepted. A result is also accepted that is
    right for inputs as close as rounding errors are (a backward error, Higham, Accuracy and Stability of Numerical
    Algorithms, 1.5): a sum of n terms makes n roundings of them. Numbers that are too small for their type may be
    rounded to 0. Results of which nothing is known are left out. Integers whose right value differs between such inputs
    are not judged. Results that are equal to the bit for the usual inputs must be so for all others but subnormal ones
    and those beside a step, as floor has them. ``samples``: of random errors of the inputs; an element may happen to
    move little in one of them.
    """
    moves = [(_add, 0), (_subtract, 0), *((_scatter, sample) for sample in range(samples))]
    few, many = (
        functools.cache(
            lambda terms=terms: [_reference_near(case, draw, move, by, terms, seed) for move, seed in moves]
        )
        for terms in (1, _terms(case))
    )
    flushed = _reference_near(case, draw, _flush, by, 1)
    judged = {}
    for array in case.results:
        is_exact = isinstance(rule_of(case, array.name), Exact) and is_float(numpy_type(array.dtype))
        right = _scaled(draw.right[array.name], first.right[array.name])
        nearby = few() if is_exact else many()
        if is_exact and not _is_stepwise(right.reference, [other[array.name] for other in nearby if other is not None]):
            nearby = []
        others = [None if other is None else other[array.name] for other in (*nearby, flushed)]
        if (made := _judged(right, others, got[array.name], is_exact=is_exact)) is not None:
            judged[array.name] = made
    return judged


def _scaled(right: Expected, first: Expected) -> Expected:
    """Return a right result with the share of its largest value that the bound of the usual one is of that's."""
    sizes = [float(np.max(np.abs(each.reference), initial=0)) for each in (right, first)]
    largest = float(np.max(first.bound, initial=0))
    if not largest or sizes[0] <= sizes[1]:
        return right
    share = min(largest / sizes[1], COARSEST) if sizes[1] else COARSEST
    return replace(right, bound=np.maximum(right.bound, share * sizes[0]))


def _is_stepwise(right: Array, nearby: Sequence[Array]) -> bool:
    """Tell whether few elements differ between inputs nearby, as those of floor do, where of a copy nearly all do."""
    return bool(nearby) and float(np.mean(np.any([value != right for value in nearby], axis=0))) < FEW


def _judged(right: Expected, others: Sequence[Array | None], got: Array, *, is_exact: bool) -> Expected | None:
    """Return the right value of a result and its bound, or None where they are not known.

    ``others``: right values of inputs nearby; None where these are not finite.
    """
    values = [other for other in others if other is not None]
    if len(values) < len(others):
        return None
    moved = np.any([value != right.reference for value in values], axis=0)
    if not is_float(got.dtype):
        return Expected(reference=np.where(moved, got, right.reference).astype(got.dtype), bound=0.0)
    exact = right.reference.astype(wide(got.dtype))
    spread = np.max([np.abs(value.astype(exact.dtype) - exact) for value in values], axis=0)
    if is_exact:  # an input that is rounded to 0 alone may make a difference
        return replace(right, bound=np.where(moved, spread + smallest_normal(got.dtype), right.bound))
    most = ILL_CONDITIONED * float(np.abs(exact).mean())
    if float(spread.mean()) > most:
        return replace(right, bound=np.finfo(np.float64).max)  # such as sines of large numbers; but it must be finite
    rounded = rounding_error(right.reference, got.dtype) + smallest_normal(got.dtype)
    return replace(right, bound=np.maximum(np.maximum(right.bound, spread), np.minimum(A_FEW * spread, most)) + rounded)


def _reference_near(
    case: Case, draw: Draw, change: Callable[..., Array], by: Compute, terms: int, seed: int = 0
) -> Mapping[str, Array] | None:
    """Return the right results of inputs close to those of a draw; None where they are not finite."""
    rng, share = np.random.default_rng(seed), _share_of_roundings(case, terms)
    near = dict(draw.inputs)
    for array in case.inputs:
        exact = draw.inputs[array.name]
        if is_float(exact.dtype):
            part = np.ascontiguousarray(exact).view(_parts(exact.reshape(-1)).dtype)
            moved = change(part.astype(np.float64), share, rng, smallest_normal(part.dtype))
            low, high = _range(array)
            moved = moved if low is None else np.clip(moved, low, high)
            near[array.name] = moved.astype(part.dtype).view(exact.dtype).reshape(exact.shape)
    with _strictly():
        results = by(case, case.family.reference, near)
        if not unlike_results(case, results) and _are_finite(case, results):
            return results
    return None


def _terms(case: Case) -> int:
    """Return how many numbers a result may be made of."""
    inputs = sum(array.size for array in case.inputs)
    return max([inputs // max(1, min(array.size for array in case.results))] + [max(a.shape) for a in case.inputs])


def _share_of_roundings(case: Case, terms: int) -> float:
    """Return how far inputs may be moved, as a share of each, for the rounding errors of a right kernel."""
    types = [numpy_type(array.dtype) for array in (*case.inputs, *case.results)]
    roundoff = max((unit_roundoff(dtype) for dtype in types if is_float(dtype)), default=0.0)
    return min(max(ROUNDINGS, terms) * roundoff, MOST_CHANGE)


def _add(values: Array, share: float, rng: np.random.Generator, tiny: float) -> Array:
    return values + share * np.abs(values) + tiny


def _subtract(values: Array, share: float, rng: np.random.Generator, tiny: float) -> Array:
    return values - share * np.abs(values) - tiny


def _scatter(values: Array, share: float, rng: np.random.Generator, tiny: float) -> Array:
    return values + rng.choice([-1.0, 1.0], values.shape) * (share * np.abs(values) + tiny)


def _flush(values: Array, share: float, rng: np.random.Generator, tiny: float) -> Array:
    return np.where(np.abs(values) < tiny, 0.0, values)
