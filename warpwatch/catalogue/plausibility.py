"""Checks whether a family's numbers are plausible: its work, and the results of its reference and tolerance."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from warpwatch.catalogue.arrays import Array, CaseArray, Role, Shape
from warpwatch.catalogue.by_name import call
from warpwatch.catalogue.cases import Build, Case
from warpwatch.catalogue.declaration import Family, arrays_of
from warpwatch.catalogue.elements import is_float, numpy_type, unit_roundoff, wide
from warpwatch.catalogue.expected import Expected, compute, expected, rule_of
from warpwatch.catalogue.inputs import exact_inputs, random_inputs
from warpwatch.catalogue.launches import Work
from warpwatch.catalogue.names import BadCase, size_name
from warpwatch.catalogue.tolerance import DotError
from warpwatch.catalogue.variants import Configuration, Variant

INPUTS = (Role.IN, Role.IN_OUT)
UNAVOIDABLE = 64  # roundings of the largest input, by which right results may differ
TELLING = 16  # elements of all arrays, from which on their order shows
FEW, MOST_ELEMENTS = 3, 2**16  # tested shapes on which a tolerance is tried, and the elements of their arrays
FACTOR = 1000  # times the plausible work is a mistake, not a heavier kernel
# Operations per second that no core reaches: two units of sixteen fused float32 operations at 5 GHz make 3e11.
CORE = 1e12


def case_of(family: Family, shape: Shape, dtype: str) -> Case:
    """Make a case that stands for all of a shape and element type, where only the family's fields matter."""
    return Case(Build(family, Variant("any"), Configuration(()), dtype), shape)


def work_fault(family: Family, shape: Shape, dtype: str) -> str | None:
    """Return what is wrong with the work that is declared for a shape, or None.

    Every element of inputs and results is moved at least once, so fewer bytes are a mistake. The plausible number of
    operations is the product of the sizes (matrix products, anything with a number of steps), or that of the elements
    of the result and of the smallest input (convolutions, sums over all pairs), whichever is larger. FACTOR times
    that number is a mistake. Where the family says how long one core takes (``serial_seconds``), that core must be able
    to do the operations.
    """
    work, where = case_of(family, shape, dtype).work, _at(shape, dtype)
    if not isinstance(work, Work):
        return f"{where} is {work!r}: give Work(operations, bytes)"
    for name, value in (("operations", work.operations), ("bytes", work.bytes)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
            return f"{where} says {name} = {value!r}: give a whole number from 0 on"
    arrays = arrays_of(family, shape, dtype)
    held = sum(array.nbytes for array in arrays if array.is_input or array.is_result)
    if fault := _bytes_fault(work.bytes, held) or _operations_fault(family, shape, work, arrays):
        return f"{where} says {fault}"
    return None


def _bytes_fault(moved: int, held: int) -> str | None:
    if moved < held:
        return f"bytes = {moved:,}; its arrays hold {held:,}, and each is moved once at least"
    return (
        f"bytes = {moved:,}, over {FACTOR:,} times the {held:,} that its arrays hold" if moved > FACTOR * held else None
    )


def _operations_fault(family: Family, shape: Shape, work: Work, arrays: Sequence[CaseArray]) -> str | None:
    result = max((array.size for array in arrays if array.is_result), default=1)
    plausible = max(prod(shape), result * min((array.size for array in arrays if array.is_input), default=1))
    plausible = max(plausible, *(array.size for array in arrays), 1) if arrays else plausible
    if work.operations > FACTOR * plausible:
        return f"operations = {work.operations:,}, over {FACTOR:,} times the plausible {plausible:,}"
    seconds = call(family.serial_seconds, family.given(shape, "none"))
    if seconds > 0 and work.operations / seconds > CORE:
        rate = f"{work.operations / seconds:.1e} a second for one core by serial_seconds"
        return f"operations = {work.operations:,}, {rate}; none does {CORE:.0e}"
    return None


def draw_fault(family: Family, dtype: str) -> str | None:
    """Return what is wrong with the inputs that a family draws itself, or None."""
    for exact in (False, True) if family.draw else ():
        for shape in family.tests:
            if fault := _drawn_fault(family, shape, dtype, exact):
                return f"{_at(shape, dtype)} {fault}"
    return None


def _drawn_fault(family: Family, shape: Shape, dtype: str, exact: bool) -> str | None:
    assert family.draw
    given = family.given(shape, dtype)
    drawn = call(family.draw, given | {"rng": np.random.default_rng(0), "exact": exact})
    declared = {name: array for name, array in call(family.arrays, given).items() if array.role in INPUTS}
    if not isinstance(drawn, Mapping):
        return f"returns {type(drawn).__name__}: give arrays by name"
    if strange := [name for name in drawn if name not in declared]:
        return f"returns {strange[0]!r}, which is no input; there are {', '.join(declared)}"
    for name, array in declared.items():
        if array.shape is None and name not in drawn:
            return f"leaves out {name!r}, which is declared without a shape"
        if name in drawn and array.shape not in (None, np.shape(drawn[name])):
            return f"returns {name!r} of shape {np.shape(drawn[name])}; it is declared as {array.shape}"
    return None


def reference_fault(family: Family, dtype: str) -> str | None:
    """Return what is wrong with the reference on small numbers, or None."""
    case, inputs = _small(family, dtype)
    try:
        try:
            with np.errstate(all="ignore"):
                made = compute(case, family.reference, inputs)
        except (ArithmeticError, ValueError):  # as math.log at 0
            made = compute(case, family.reference, random_inputs(case, 0))
    except BadCase as error:
        return str(error).partition(": the reference ")[2]
    return unlike_results(case, made)


def unlike_results(case: Case, made: Mapping[str, Any]) -> str | None:
    """Return why the values of a reference cannot be compared with the results, or None."""
    faults = (_unlike(array, made[array.name], _at(case.shape, case.dtype)) for array in case.results)
    return next(filter(None, faults), None)


def _unlike(array: CaseArray, reference: object, where: str) -> str | None:
    if not isinstance(reference, np.ndarray):
        return f"{where} returns {type(reference).__name__}: give a NumPy array"
    if reference.shape != array.shape:
        return f"{where} returns shape {reference.shape}; the result's is {array.shape}"
    exact = numpy_type(array.dtype)
    if reference.dtype != exact and not (is_float(exact) and _is_wider(reference.dtype, exact)):
        right = " or ".join(dict.fromkeys([wide(exact).name, array.dtype])) if is_float(exact) else array.dtype
        return f"{where} returns {reference.dtype}: give {right}"
    return None


def _is_wider(dtype: np.dtype[Any], exact: np.dtype[Any]) -> bool:
    return dtype.kind in ("c" if exact.kind == "c" else "f") and dtype.itemsize > exact.itemsize


def tolerance_fault(family: Family, dtype: str) -> str | None:
    """Return what is wrong with the errors that are allowed on small numbers, or None."""
    case, inputs = _small(family, dtype)
    made = dict[str, Expected]()
    with np.errstate(all="ignore"), contextlib.suppress(ArithmeticError, ValueError):
        made = expected(case, inputs)
    if not made or not all(np.isfinite(each.reference).all() for each in made.values()):  # as 1 / x at 0
        made = expected(case, random_inputs(case, 0))
    faults = (_bound_fault(case, array, made[array.name]) for array in case.results)
    return next(filter(None, faults), None) or _width_fault(family, dtype)


def _width_fault(family: Family, dtype: str) -> str | None:
    """Return which wrong results the errors that are allowed accept on each shape that is looked at, or None.

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
        for name, made in right.items():
            rule = rule_of(case, name)
            for words, is_accepted in () if isinstance(rule, DotError) else _wrong_results(case, name, made, inputs):
                if is_accepted:
                    accepted[name, words] = str(rule)
                else:
                    refused.add((name, words))
        if accepted.keys() <= refused:  # a reference of a larger shape may take long
            return None
    name, words = next(key for key in accepted if key not in refused)
    return (
        f"{accepted[name, words]} accepts {words} for {name} in {dtype}, so that a wrong kernel would pass: allow less"
    )


def _wrong_results(case: Case, name: str, made: Expected, inputs: Mapping[str, Array]) -> Iterator[tuple[str, bool]]:
    """Yield wrong results, in words, and whether they are within the errors that are allowed.

    Those are left out that differ from the right ones by no more than some rounding errors of the inputs, because right
    values may be as small as that, or all alike.
    """
    right, dtype = made.reference, numpy_type(next(array.dtype for array in case.results if array.name == name))
    if not is_float(dtype) or not np.any(made.bound):
        return
    others = {"zeros": np.zeros_like(right), "its elements in another order": np.roll(right.reshape(-1), 1)}
    others |= {f"its input {other}": array for other, array in inputs.items() if array.shape == right.shape}
    scale = max(
        (float(np.max(np.abs(array.astype(wide(array.dtype))), initial=0)) for array in inputs.values()), default=0
    )
    for words, other in others.items():
        error = np.abs(other.reshape(right.shape).astype(wide(dtype)) - right)
        if float(np.max(error, initial=0)) > UNAVOIDABLE * unit_roundoff(dtype) * scale:
            yield words, bool((error <= made.bound).all())


def _bound_fault(case: Case, array: CaseArray, made: Expected) -> str | None:
    values, where = np.asarray(made.bound, np.float64), _at(case.shape, case.dtype)
    if values.shape not in ((), array.shape):
        return f"{where} gives shape {values.shape}: give a number, or one for each element of {array.shape}"
    if not (np.isfinite(values).all() and (values >= 0).all()):
        return f"{where} gives values that are no errors: NaN, infinite or negative ones"
    if case.family.work and values.any() and case.work.operations == 0:
        return f"{where} is above 0, though by `work` there are no operations that could round"
    return None


def _at(shape: Shape, dtype: str) -> str:
    return f"at {size_name(shape)}, {dtype},"


def _small(family: Family, dtype: str) -> tuple[Case, Mapping[str, Array]]:
    """Return the smallest tested shape as a case, and inputs of small whole numbers, which are always the same."""
    shape = min(family.tests, key=lambda shape: sum(array.size for array in arrays_of(family, shape, dtype)))
    case = case_of(family, shape, dtype)
    return case, exact_inputs(case, 0)
