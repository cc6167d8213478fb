"""Draws further inputs for a case, which find what uniform random numbers do not, and says how to judge their results.

A kernel that is right on [-1, 1) may overflow on larger numbers, take 0 for the least of all, or order negative numbers
by their bits. What is drawn lies within what the declaration allows: ``low`` and ``high`` of an array hold, and
a family with a ``draw`` of its own gets no further inputs. Inputs on which the reference fails, warns or is not finite
in the results' types are not used.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import warnings
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from warpwatch.catalogue.arrays import Array, CaseArray
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.declaration import run_seed
from warpwatch.catalogue.elements import (
    greatest,
    is_float,
    numpy_type,
    rounding_error,
    smallest_normal,
    unit_roundoff,
    wide,
)
from warpwatch.catalogue.expected import Compute, Expected, compute, expected, rule_of, unlike_results
from warpwatch.catalogue.inputs import draw_each, usual
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
KEPT_BYTES = 2**27  # of the draws that are kept for the next cases


_Draw = TypeVar("_Draw", bound="Draw | None")


@dataclass(frozen=True, kw_only=True)
class Draw:
    """Inputs for a launch. ``words``: what is special about them, for messages; empty for the usual ones."""

    words: str = ""
    inputs: Mapping[str, Array]
    right: Mapping[str, Expected]
    special: bool = False

    @property
    def nbytes(self) -> int:
        arrays = (np.asarray(array) for each in self.right.values() for array in (each.reference, each.bound))
        return sum(array.nbytes for array in (*self.inputs.values(), *arrays))


class Kept:
    """The draws that were made last, which all cases of a family, shape and element type share.

    Each is a copy: a declaration's function may write the array that it returned once more.
    """

    def __init__(self) -> None:
        self._draws: dict[tuple[object, ...], Draw | None] = {}
        self._nbytes = 0

    def get(self, make: Callable[..., _Draw], case: Case, *args: object) -> _Draw:
        """Return ``make(case, *args)``, from an earlier call if it is still kept."""
        key = (make, case.family, case.dtype, case.shape, run_seed(), *args)
        if key in self._draws:
            draw = self._draws[key] = self._draws.pop(key)  # now the last one
            return draw  # type: ignore[return-value]  # of the same function
        made = make(case, *args)
        self._draws[key] = copy.deepcopy(made)
        self._nbytes += _nbytes(made)
        while self._nbytes > KEPT_BYTES:
            self._nbytes -= _nbytes(self._draws.pop(next(iter(self._draws))))
        return made


def _nbytes(draw: Draw | None) -> int:
    return 0 if draw is None else draw.nbytes


kept = Kept()
Inputs = Mapping[str, Array]
# Changes the real numbers of a piece of an array, within the range that is declared, and says in words what they are.
Change = Callable[[np.random.Generator, Array, float | None, float | None], str]


def further_draws(case: Case, seed: int, by: Compute = compute) -> list[Draw]:
    """Return the further draws of a case: all of them, or one where its launch is dear or its variant has many cases.

    The cases of a variant take them in turn.
    """
    if case.family.draw or case.family.prints:
        return []
    tests = case.family.tests_of(case.variant)
    cases = list(itertools.product(case.family.dtypes_of(case.variant), case.variant.listed, tests))
    own = (case.dtype, case.build.configuration, case.shape)
    takes_turns = case.launch_cost > DEAR or not has_few_cases(case)
    # Every dtype and configuration begins with another one, so that each shape gets them all too.
    turn = sum(divmod(cases.index(own), len(tests))) if own in cases and takes_turns else 0
    first = turn % len(KINDS)
    draws = (draw for kind in (*KINDS[first:], *KINDS[:first]) if (draw := kept.get(kind, case, seed, by)))
    return list(itertools.islice(draws, 1 if takes_turns else None))


def has_few_cases(case: Case) -> bool:
    """Tell whether a case is of a kernel with fewer than MANY tested ones."""
    family, variant = case.family, case.variant
    return len(family.dtypes_of(variant)) * len(variant.listed) * len(family.tests_of(variant)) < MANY


def _large(case: Case, seed: int, by: Compute) -> Draw | None:
    """Draw numbers as large as the reference allows, and integers at their limits."""
    before: Inputs = {}
    for top in LADDER:
        inputs, words = _changed(case, seed, functools.partial(_to_large, top=top), _to_limits)
        if not words or (before and all(np.array_equal(array, before[name]) for name, array in inputs.items())):
            return None
        before = inputs
        with _strictly():
            magnitudes = by(case, case.family.reference, inputs, magnitudes=True)
            if _are_finite(case, magnitudes) and (right := _right(case, inputs, by)):
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
    special = {array.name for array in case.inputs if array.special}
    inputs, words = _changed(case, seed, _to_special, names=special)
    if not words:
        return None
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        right = {
            name: replace(each, bound=np.nan_to_num(each.bound, nan=np.inf, posinf=np.inf))
            for name, each in expected(case, inputs, ordinary=False, by=by).items()
        }
        return Draw(words=words, inputs=inputs, right=right, special=True)


def _changed(
    case: Case, seed: int, change: Change, integers: Change | None = None, names: Container[str] | None = None
) -> tuple[Inputs, str]:
    """Draw the usual inputs, change them, and return them with what is special about them.

    ``integers``: changes arrays of integers. ``names``: of the arrays that are changed; None for all.
    """
    words: dict[str, None] = {}

    def fill(rng: np.random.Generator, out: Array, array: CaseArray) -> None:
        usual(rng, out, array)
        change_it = change if is_float(out.dtype) else integers if out.dtype.kind in "iu" else None
        if change_it and (names is None or array.name in names):
            with np.errstate(all="ignore"):
                words[change_it(rng, _parts(out), *_range(array))] = None

    inputs = draw_each(case, seed, fill, exact=False)
    return inputs, " and ".join(filter(None, words))


def _to_large(rng: np.random.Generator, part: Array, low: float | None, high: float | None, top: float) -> str:
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


def _to_limits(rng: np.random.Generator, out: Array, least: float | None, most: float | None) -> str:
    """Fill with integers near the least, the greatest and 0, which are as different as there are numbers."""
    limits = np.iinfo(out.dtype)
    low, high = int(limits.min if least is None else least), int(limits.max if most is None else most - 1)
    wide_type = np.uint64 if out.dtype.kind == "u" else np.int64
    first, last, middle = (wide_type(value) for value in (low, high, min(max(low, 0), high)))
    number = rng.permutation(out.size)
    away = (number // 3 % ((high - low) // 3 + 1)).astype(wide_type)
    half = (away + 1) // 2
    around = middle + away if low >= 0 else np.where(away % 2 == 0, middle + half, middle - half)
    values = np.select([number % 3 == 0, number % 3 == 1], [last - away, first + away], around)
    out[:] = np.clip(values, first, last)
    return "integers at their limits"


def _to_negative(rng: np.random.Generator, part: Array, low: float | None, high: float | None) -> str:
    if low is not None and (low >= 0 or (high or 1) <= 0):
        return ""
    part[:] = -np.abs(part) if low is None else (low * (1 - rng.random(part.size))).astype(part.dtype)
    return "negative numbers alone"


def _to_alike(rng: np.random.Generator, part: Array, low: float | None, high: float | None) -> str:
    """Fill with numbers a few units in the last place apart, all different as long as there are enough."""
    base = 1.0 if low is None else low + 1 if high is None else low + 0.75 * (high - low)
    base = base or (high or 1.0) / 2
    step = 2 * unit_roundoff(part.dtype) * abs(base)
    room = 0.25 * abs(base) if high is None else min(0.25 * abs(base), 0.9 * (high - base))
    part[:] = base + step * (rng.permutation(part.size) % max(1, int(room / step)))
    return "numbers that are nearly equal"


def _to_zeros(rng: np.random.Generator, part: Array, low: float | None, high: float | None) -> str:
    """Replace an eighth by zeros, one at least, and an eighth by subnormal numbers."""
    if low is not None and (low > 0 or (high is not None and high <= 0)):
        return ""
    where = rng.random(part.size)
    sign = rng.choice([-1.0, 1.0], part.size) if low is None or low < 0 else 1.0
    subnormal = (sign * rng.random(part.size) * smallest_normal(part.dtype)).astype(part.dtype)
    where[rng.integers(part.size)] = 0
    part[:] = np.where(where < 0.125, np.zeros(1, part.dtype), np.where(where < 0.25, subnormal, part))
    return "zeros and subnormal numbers among others"


def _to_special(rng: np.random.Generator, part: Array, low: float | None, high: float | None) -> str:
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
    """Return the declared range, with no end where none is declared."""
    begins_at_0 = array.low is None and array.high is not None and is_float(numpy_type(array.dtype))  # as usually
    return (0.0 if begins_at_0 else array.low), array.high


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
        references = {name: each.reference for name, each in right.items()}
        if unlike_results(case, references) or not _are_finite(case, references):
            return None
        if any(np.isnan(np.asarray(each.bound, np.float64)).any() for each in right.values()):
            return None
        if all(_can_be_met(case, array, references[array.name]) for array in case.results):
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
    types = {array.name: numpy_type(array.dtype) for array in case.results}
    return all(
        bool((np.abs(results[name].astype(wide(dtype))) <= greatest(dtype)).all())
        for name, dtype in types.items()
        if is_float(dtype)
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
    inputs, results = ([array.size for array in arrays] for arrays in (case.inputs, case.results))
    # How many numbers a result may be made of.
    most = max([sum(inputs) // max(1, min(results)), *(max(array.shape) for array in case.inputs)])
    moves = [(_add, 0), (_subtract, 0), *((_scatter, sample) for sample in range(samples))]
    few, many = (
        functools.cache(
            lambda terms=terms: [_reference_near(case, draw, move, by, terms, seed) for move, seed in moves]
        )
        for terms in (1, most)
    )
    flushed = _reference_near(case, draw, _flush, by, 1)
    judged = {}
    for array in case.results:
        name = array.name
        is_exact = isinstance(rule_of(case, name), Exact) and is_float(numpy_type(array.dtype))
        right = _scaled(draw.right[name], first.right[name])
        nearby = few() if is_exact else many()
        if is_exact and not _is_stepwise(right.reference, [other[name] for other in nearby if other is not None]):
            nearby = []
        values = [other[name] for other in (*nearby, flushed) if other is not None]
        if len(values) > len(nearby):  # the right values of all inputs nearby are finite
            judged[name] = _judged(right, values, got[name], is_exact=is_exact)
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


def _judged(right: Expected, values: Sequence[Array], got: Array, *, is_exact: bool) -> Expected:
    """Return the right value of a result and its bound. ``values``: right values of inputs nearby."""
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
    types = [numpy_type(array.dtype) for array in (*case.inputs, *case.results)]
    roundoff = max((unit_roundoff(dtype) for dtype in types if is_float(dtype)), default=0.0)
    share = min(
        max(ROUNDINGS, terms) * roundoff, MOST_CHANGE
    )  # of each input, for the rounding errors of right kernels
    rng, near = np.random.default_rng(seed), dict(draw.inputs)
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


def _add(values: Array, share: float, rng: np.random.Generator, tiny: float) -> Array:
    return values + share * np.abs(values) + tiny


def _subtract(values: Array, share: float, rng: np.random.Generator, tiny: float) -> Array:
    return values - share * np.abs(values) - tiny


def _scatter(values: Array, share: float, rng: np.random.Generator, tiny: float) -> Array:
    return values + rng.choice([-1.0, 1.0], values.shape) * (share * np.abs(values) + tiny)


def _flush(values: Array, share: float, rng: np.random.Generator, tiny: float) -> Array:
    return np.where(np.abs(values) < tiny, 0.0, values)
