"""Checks whether a family's numbers are plausible: its work, and the results of its reference and tolerance.

A check is a test with the sentence that holds where the test fails. Checks are made one after the other, as far as the
first that fails, so each may rely on those before it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from warpwatch.catalogue.arrays import Array, CaseArray, Shape
from warpwatch.catalogue.by_name import call
from warpwatch.catalogue.cases import Build, Case, Checks, first_fault
from warpwatch.catalogue.declaration import Family, arrays_of
from warpwatch.catalogue.elements import is_float, numpy_type, unit_roundoff, wide
from warpwatch.catalogue.expected import Expected, compute, expected, rule_of
from warpwatch.catalogue.inputs import exact_inputs, random_inputs
from warpwatch.catalogue.launches import Work
from warpwatch.catalogue.names import BadCase, size_name
from warpwatch.catalogue.tolerance import DotError
from warpwatch.catalogue.variants import Configuration, Variant

UNAVOIDABLE = 64  # roundings of the largest input, by which right results may differ
TELLING = 16  # elements of all arrays, from which on their order shows
FEW, MOST_ELEMENTS = 3, 2**16  # tested shapes on which a tolerance is tried, and the elements of their arrays
FACTOR = 1000  # times the plausible work is a mistake, not a heavier kernel
# Operations per second that no core reaches: two units of sixteen fused float32 operations at 5 GHz make 3e11.
CORE = 1e12


def within(words: str, checks: Checks) -> Checks:
    """Put words before the sentences of checks."""
    return ((holds, f"{words} {sentence}") for holds, sentence in checks)


def is_count(value: object, least: int = 1) -> bool:
    """Tell whether a value is a whole number that is large enough."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= least


def case_of(family: Family, shape: Shape, dtype: str) -> Case:
    """Make a case that stands for all of a shape and element type, where only the family's fields matter."""
    return Case(Build(family, Variant("any"), Configuration(()), dtype), shape)


def work_checks(family: Family, shape: Shape, dtype: str) -> Checks:
    """Check the work that is declared for a shape.

    Every element of inputs and results is moved at least once, so fewer bytes are a mistake. The plausible number of
    operations is the product of the sizes (matrix products, anything with a number of steps), or that of the elements
    of the result and of the smallest input (convolutions, sums over all pairs), whichever is larger. FACTOR times
    that number is a mistake. Where the family says how long one core takes (``serial_seconds``), that core must be able
    to do the operations.
    """
    work, where = case_of(family, shape, dtype).work, _at(shape, dtype)
    yield isinstance(work, Work), f"{where} is {work!r}: give Work(operations, bytes)"
    for name in ("operations", "bytes"):
        value = getattr(work, name)
        yield is_count(value, 0), f"{where} says {name} = {value!r}: give a whole number from 0 on"
    arrays = arrays_of(family, shape, dtype)
    held = sum(array.nbytes for array in arrays if array.is_input or array.is_result)
    moved = f"{where} says bytes = {work.bytes:,}"
    yield work.bytes >= held, f"{moved}; its arrays hold {held:,}, and each is moved once at least"
    yield work.bytes <= FACTOR * held, f"{moved}, over {FACTOR:,} times the {held:,} that its arrays hold"
    plausible, done = _plausible_operations(shape, arrays), f"{where} says operations = {work.operations:,}"
    yield work.operations <= FACTOR * plausible, f"{done}, over {FACTOR:,} times the plausible {plausible:,}"
    if (seconds := call(family.serial_seconds, family.given(shape, "none"))) > 0:
        rate = work.operations / seconds
        yield rate <= CORE, f"{done}, {rate:.1e} a second for one core by serial_seconds; none does {CORE:.0e}"


def _plausible_operations(shape: Shape, arrays: Sequence[CaseArray]) -> int:
    result = max((array.size for array in arrays if array.is_result), default=1)
    least = min((array.size for array in arrays if array.is_input), default=1)
    return max(1, prod(shape), result * least, *(array.size for array in arrays))


def draw_checks(family: Family, dtype: str) -> Checks:
    """Check the inputs that a family draws itself."""
    for exact, shape in product((False, True) if family.draw else (), family.tests):
        yield from within(_at(shape, dtype), _drawn_checks(family, shape, dtype, exact))


def _drawn_checks(family: Family, shape: Shape, dtype: str, exact: bool) -> Checks:
    assert family.draw
    given = family.given(shape, dtype)
    drawn = call(family.draw, given | {"rng": np.random.default_rng(0), "exact": exact})
    inputs = {name: array for name, array in call(family.arrays, given).items() if array.is_input}
    yield isinstance(drawn, Mapping), f"returns {type(drawn).__name__}: give arrays by name"
    for name in drawn:
        yield name in inputs, f"returns {name!r}, which is not an input; there are {', '.join(inputs)}"
    for name, array in inputs.items():
        if name in drawn:
            shapes = f"of shape {np.shape(drawn[name])}; it is declared as {array.shape}"
            yield array.shape in (None, np.shape(drawn[name])), f"returns {name!r} {shapes}"
        yield name in drawn or array.shape, f"leaves out {name!r}, which is declared without a shape"


def reference_checks(family: Family, dtype: str) -> Checks:
    """Check the reference on small numbers."""
    case, inputs = _small(family, dtype)
    try:
        try:
            with np.errstate(all="ignore"):
                results = compute(case, family.reference, inputs)
        except (ArithmeticError, ValueError):  # as math.log at 0
            results = compute(case, family.reference, random_inputs(case, 0))
    except BadCase as error:
        return [(False, str(error).partition(": the reference ")[2])]
    return _result_checks(case, results)


def unlike_results(case: Case, results: Mapping[str, Any]) -> str | None:
    """Return why the values of a reference cannot be compared with the results, or None."""
    return first_fault(_result_checks(case, results))


def _result_checks(case: Case, results: Mapping[str, Any]) -> Checks:
    for array in case.results:
        value, where = results[array.name], _at(case.shape, case.dtype)
        yield isinstance(value, np.ndarray), f"{where} returns {type(value).__name__}: give a NumPy array"
        yield value.shape == array.shape, f"{where} returns shape {value.shape}; the result's is {array.shape}"
        exact = numpy_type(array.dtype)
        kinds = dict.fromkeys([wide(exact).name, array.dtype] if is_float(exact) else [array.dtype])
        suits = value.dtype == exact or (is_float(exact) and _is_wider(value.dtype, exact))
        yield suits, f"{where} returns {value.dtype}: give {' or '.join(kinds)}"


def _is_wider(dtype: np.dtype[Any], exact: np.dtype[Any]) -> bool:
    return dtype.kind in ("c" if exact.kind == "c" else "f") and dtype.itemsize > exact.itemsize


def tolerance_checks(family: Family, dtype: str) -> Checks:
    """Check the errors that are allowed on small numbers."""
    case, inputs = _small(family, dtype)
    right = dict[str, Expected]()
    with np.errstate(all="ignore"), contextlib.suppress(ArithmeticError, ValueError):
        right = expected(case, inputs)
    if not right or not all(np.isfinite(each.reference).all() for each in right.values()):  # as 1 / x at 0
        right = expected(case, random_inputs(case, 0))
    for array in case.results:
        yield from within(_at(case.shape, case.dtype), _bound_checks(case, array, right[array.name]))
    yield from _width_checks(family, dtype)


def _width_checks(family: Family, dtype: str) -> Checks:
    """Check that the errors that are allowed do not accept wrong results on each shape that is looked at.

    Wrong results are zeros, an input, and the right values in another order. The smallest tested shape that tells them
    apart is looked at, and others where it accepts one. A bound from theory is not blamed for what it allows.
    """
    sizes = {shape: sum(array.size for array in arrays_of(family, shape, dtype)) for shape in family.tests}
    shapes = sorted(family.tests, key=lambda shape: (sizes[shape] < TELLING, sizes[shape]))
    accepted, refused = dict[tuple[str, str], str](), set[tuple[str, str]]()
    for shape in [shape for shape in shapes if sizes[shape] <= MOST_ELEMENTS][:FEW] or shapes[:1]:
        case, right, inputs = case_of(family, shape, dtype), dict[str, Expected](), dict[str, Array]()
        with contextlib.suppress(Exception):  # a reference for whole numbers alone is none of these rules' business
            inputs = random_inputs(case, 0)
            right = expected(case, inputs)
        for name, result in right.items():
            rule = rule_of(case, name)
            for words, is_accepted in () if isinstance(rule, DotError) else _wrong_results(case, name, result, inputs):
                if is_accepted:
                    accepted[name, words] = str(rule)
                else:
                    refused.add((name, words))
        if accepted.keys() <= refused:  # a reference of a larger shape may take long
            return
    name, words = next(key for key in accepted if key not in refused)
    passes = f"accepts {words} for {name} in {dtype}, so that a wrong kernel would pass: allow less"
    yield False, f"{accepted[name, words]} {passes}"


def _wrong_results(case: Case, name: str, result: Expected, inputs: Mapping[str, Array]) -> Iterator[tuple[str, bool]]:
    """Yield wrong results, in words, and whether they are within the errors that are allowed.

    Those are left out that differ from the right ones by no more than some rounding errors of the inputs, because right
    values may be as small as that, or all alike.
    """
    right, dtype = result.reference, numpy_type(next(array.dtype for array in case.results if array.name == name))
    if not is_float(dtype) or not np.any(result.bound):
        return
    others = {"zeros": np.zeros_like(right), "its elements in another order": np.roll(right.reshape(-1), 1)}
    others |= {f"its input {other}": array for other, array in inputs.items() if array.shape == right.shape}
    scale = max(
        (float(np.max(np.abs(array.astype(wide(array.dtype))), initial=0)) for array in inputs.values()), default=0
    )
    for words, other in others.items():
        error = np.abs(other.reshape(right.shape).astype(wide(dtype)) - right)
        if float(np.max(error, initial=0)) > UNAVOIDABLE * unit_roundoff(dtype) * scale:
            yield words, bool((error <= result.bound).all())


def _bound_checks(case: Case, array: CaseArray, right: Expected) -> Checks:
    bound = np.asarray(right.bound, np.float64)
    is_one_each = bound.shape in ((), array.shape)
    yield is_one_each, f"gives shape {bound.shape}: give a number, or one for each element of {array.shape}"
    are_errors = np.isfinite(bound).all() and (bound >= 0).all()
    yield are_errors, "gives values that are not errors: NaN, infinite or negative ones"
    rounds = not (case.family.work and bound.any() and case.work.operations == 0)
    yield rounds, "is above 0, though by `work` there are no operations that could round"


def _at(shape: Shape, dtype: str) -> str:
    return f"at {size_name(shape)}, {dtype},"


def _small(family: Family, dtype: str) -> tuple[Case, Mapping[str, Array]]:
    """Return the smallest tested shape as a case, and inputs of small whole numbers, which are always the same."""
    shape = min(family.tests, key=lambda shape: sum(array.size for array in arrays_of(family, shape, dtype)))
    case = case_of(family, shape, dtype)
    return case, exact_inputs(case, 0)
