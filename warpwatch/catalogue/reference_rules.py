"""Rules for what a reference and a tolerance compute on small numbers (rules.py: for what is declared)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from itertools import chain

import numpy as np

from warpwatch.catalogue.arrays import Array, Shape
from warpwatch.catalogue.cases import Case, Checks, case_of, first_fault
from warpwatch.catalogue.declaration import Family, arrays_of
from warpwatch.catalogue.elements import is_float, numpy_type, unit_roundoff, wide
from warpwatch.catalogue.expected import Expected, compute, expected, result_checks, rule_of
from warpwatch.catalogue.inputs import exact_inputs, random_inputs
from warpwatch.catalogue.named_arguments import call
from warpwatch.catalogue.names import BadCase
from warpwatch.catalogue.rules import at, growth, of_two_sizes, types, types_of_results
from warpwatch.catalogue.same_for import first_part
from warpwatch.catalogue.tolerance import DotError, Exact, Rule

UNAVOIDABLE = 64  # roundings of the largest input, by which right results may differ
TELLING = 16  # elements of all arrays, from which on their order shows
ULP, ULP_OF = "tolerance=ww.ulp(2)", "tolerance=lambda dtype: ww.ulp(2) if dtype == '%s' else ..."  # a type's own
FEW, MOST_ELEMENTS = 3, 2**16  # tested shapes on which a tolerance is tried, and the elements of their arrays


def _same_results(family: Family) -> Checks:
    """Check on small numbers that the reference itself does not depend on the sizes of ``same_for``."""
    own = chain.from_iterable(variant.same_for or () for variant in family.variants)
    for size in dict.fromkeys((*family.same_for, *own)):
        pair = of_two_sizes(family, size) if size in family.sizes else None
        if pair and not first_fault(growth(family, *pair)):
            case, less = (case_of(family, shape, types(family)[0]) for shape in pair)
            inputs = random_inputs(case, 0)
            parts = {array.name: first_part(inputs[array.name], array.shape) for array in less.inputs}
            whole, part = expected(case, inputs), expected(less, parts)
            for array in less.results:
                right, bound = part[array.name].reference, np.broadcast_to(part[array.name].bound, array.shape)
                other = first_part(whole[array.name].reference, array.shape)
                same = np.array_equal(other, right)
                if right.dtype.kind in "fc":
                    same = bool((np.abs(other - right) <= bound).all())
                yield (
                    same,
                    f"has {size!r}, but the reference gives another {array.name} for {less.shape_name} than the first "
                    f"rows of that for {case.shape_name}: leave {size!r} out",
                )


def _small(family: Family, dtype: str) -> tuple[Case, Mapping[str, Array]]:
    """Return the smallest tested shape as a case, and inputs of small whole numbers, which are always the same."""
    shape = min(family.tests, key=lambda shape: sum(array.size for array in arrays_of(family, shape, dtype)))
    case = case_of(family, shape, dtype)
    return case, exact_inputs(case, 0)


def _reference(family: Family) -> Checks:
    for dtype in types_of_results(family):
        case, inputs = _small(family, dtype)
        try:
            try:
                with np.errstate(all="ignore"):
                    results = compute(case, family.reference, inputs)
            except (ArithmeticError, ValueError):  # as math.log at 0
                results = compute(case, family.reference, random_inputs(case, 0))
        except BadCase as error:
            yield False, str(error).partition(": the reference ")[2]
        else:
            yield from result_checks(case, results)


def _tolerance(family: Family) -> Checks:
    """Check that ``tolerance`` is made of rules for existing results, and what they allow."""
    dtype, shape, chosen = types(family)[0], family.tests[0], family.tolerance
    if callable(chosen):
        chosen = call(chosen, family.given(shape, dtype))
    cure = "give a rule, such as relative(1e-6)"
    yield isinstance(chosen, Mapping | Rule), f"is {chosen!r}: {cure}"
    known = [array.name for array in arrays_of(family, shape, dtype) if array.is_result]
    for name, rule in chosen.items() if isinstance(chosen, Mapping) else ():
        yield name in known, f"names {name!r}, which is not a result; there are {', '.join(known)}"
        yield isinstance(rule, Rule), f"of {name} is {rule!r}: {cure}"
    for dtype in types_of_results(family):
        yield from _bounds(family, dtype)
        yield from _roundings(family, dtype)
        yield from _widths(family, dtype)


def _bounds(family: Family, dtype: str) -> Checks:
    """Check the errors that are allowed on small numbers."""
    case, inputs = _small(family, dtype)
    right = dict[str, Expected]()
    with np.errstate(all="ignore"), contextlib.suppress(ArithmeticError, ValueError):
        right = expected(case, inputs)
    if not right or not all(np.isfinite(each.reference).all() for each in right.values()):  # as 1 / x at 0
        right = expected(case, random_inputs(case, 0))
    where = at(case.shape, dtype)
    for array in case.results:
        bound = np.asarray(right[array.name].bound, np.float64)
        yield (
            bound.shape in ((), array.shape),
            f"{where} gives shape {bound.shape}: give a number, or one for each element of {array.shape}",
        )
        yield (
            np.isfinite(bound).all() and (bound >= 0).all(),
            f"{where} gives values that are not errors: NaN, infinite or negative ones",
        )
        yield (
            not (family.work and bound.any() and case.work.operations == 0),
            f"{where} is above 0, though by `work` there are no operations that could round",
        )


def _roundings(family: Family, dtype: str) -> Checks:
    """Check that the right values, rounded to the type of the result, are within the errors that are allowed."""
    case, right = case_of(family, _telling(family, dtype)[0], dtype), dict[str, Expected]()
    with np.errstate(all="ignore"), contextlib.suppress(Exception):  # as in _wrong_results
        right = expected(case, random_inputs(case, 0))
    for array in case.results if right else ():
        rule, own, values = rule_of(case, array.name), numpy_type(array.dtype), right[array.name].reference
        if isinstance(rule, Exact) or not is_float(own):
            continue
        with np.errstate(all="ignore"):
            rounded = values.astype(own).astype(wide(own))
            error, bound = np.abs(rounded - values), np.broadcast_to(right[array.name].bound, values.shape)
            excess = np.where(np.isfinite(error), error - bound, 0.0)
        worst = np.unravel_index(int(np.argmax(excess)), values.shape)
        yield (
            excess[worst] <= 0,
            f"{rule} {at(case.shape, dtype)} allows less than {array.dtype} rounds by: {array.name} = "
            f"{values[worst]:.6g} becomes {rounded[worst]:.6g}, off by {error[worst]:.2g}, allowed {bound[worst]:.2g}: "
            f"a correct kernel would fail; allow more, such as {ULP if len(family.dtypes) < 2 else ULP_OF % dtype}",
        )


def _widths(family: Family, dtype: str) -> Checks:
    """Check that the errors that are allowed do not accept wrong results on each shape that is looked at.

    Wrong results are zeros, an input, and the right values in another order. The smallest tested shape that tells them
    apart is looked at, and others where it accepts one. A bound from theory is not blamed for what it allows.
    """
    accepted, refused = dict[tuple[str, str], str](), set[tuple[str, str]]()
    for shape in _telling(family, dtype):
        for name, words, rule in _wrong_results(case_of(family, shape, dtype)):
            if rule:
                accepted[name, words] = rule
            else:
                refused.add((name, words))
        if accepted.keys() <= refused:  # a reference of a larger shape may take long
            return
    name, words = next(key for key in accepted if key not in refused)
    passes = f"accepts {words} for {name} in {dtype}, so that a wrong kernel would pass: allow less"
    yield False, f"{accepted[name, words]} {passes}"


def _telling(family: Family, dtype: str) -> list[Shape]:
    """Return few tested shapes: the smallest ones that have enough elements to tell right from wrong results first."""
    sizes = {shape: sum(array.size for array in arrays_of(family, shape, dtype)) for shape in family.tests}
    shapes = sorted(family.tests, key=lambda shape: (sizes[shape] < TELLING, sizes[shape]))
    return [shape for shape in shapes if sizes[shape] <= MOST_ELEMENTS][:FEW] or shapes[:1]


def _wrong_results(case: Case) -> Iterator[tuple[str, str, str]]:
    """Yield results and wrong values of them, in words, with the rule that accepts these, or an empty text.

    Those are left out that differ from the right ones by no more than some rounding errors of the inputs, because right
    values may be as small as that, or all alike.
    """
    right, inputs = dict[str, Expected](), dict[str, Array]()
    with contextlib.suppress(Exception):  # a reference for whole numbers alone is none of these rules' business
        inputs = random_inputs(case, 0)
        right = expected(case, inputs)
    largest = (float(np.max(np.abs(array.astype(wide(array.dtype))), initial=0)) for array in inputs.values())
    scale = max(largest, default=0)
    for array in case.results if right else ():
        rule, dtype, result = rule_of(case, array.name), numpy_type(array.dtype), right[array.name]
        if isinstance(rule, DotError) or not is_float(dtype) or not np.any(result.bound):
            continue
        values = result.reference
        others = {"zeros": np.zeros_like(values), "its elements in another order": np.roll(values.reshape(-1), 1)}
        others |= {f"its input {name}": other for name, other in inputs.items() if other.shape == values.shape}
        for words, other in others.items():
            error = np.abs(other.reshape(values.shape).astype(wide(dtype)) - values)
            if float(np.max(error, initial=0)) > UNAVOIDABLE * unit_roundoff(dtype) * scale:
                yield array.name, words, str(rule) if (error <= result.bound).all() else ""


# Those that let the reference compute, which may take long, or end the process.
COMPUTED_RULES: Mapping[str, Callable[[Family], Checks]] = {
    "reference": _reference,
    "tolerance": _tolerance,
    "same_for": _same_results,
}
