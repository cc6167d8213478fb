"""Computes what a case's results should be, and how far off they may be."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpwatch.catalogue.arrays import ALL_ROWS, Array, CaseArray, Part
from warpwatch.catalogue.cases import Case, Checks, first_fault
from warpwatch.catalogue.elements import is_float, numpy_type, wide
from warpwatch.catalogue.named_arguments import call, takes
from warpwatch.catalogue.names import BadCase
from warpwatch.catalogue.tolerance import Exact, Result, Rule

COPIED = 2**28  # bytes of inputs up to which functions of a declaration get copies
Compute = Callable[..., dict[str, Array]]  # ``compute``, or what does the same and keeps the results


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The right value of a result, and the largest error that is allowed to each element."""

    reference: Array
    bound: Array | float


def compute(
    case: Case,
    function: Callable[..., Any],
    inputs: Mapping[str, Array],
    part: Part = ALL_ROWS,
    magnitudes: bool = False,
) -> dict[str, Array]:
    """Call a reference, or another implementation in NumPy, and return its results by name. Raises BadCase.

    ``magnitudes``: of the inputs, or of the products where the function says that it can.
    """
    given: dict[str, Any] = {**case.family.given(case.shape, case.dtype), **_kept_apart(inputs)}
    if takes(function, "part"):
        given["part"] = part
    if magnitudes and takes(function, "magnitudes"):
        given["magnitudes"] = True
    elif magnitudes:
        given |= {name: _magnitude(array) for name, array in inputs.items()}
        given |= {name: abs(given[name]) for name in case.family.scalars}
    named = _named(case, call(function, given))
    if not takes(function, "part") and part is not ALL_ROWS:
        named = {name: array[part] for name, array in named.items()}
    return named


def _kept_apart(inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return inputs that a function may change, as `x *= 2` does: copies, or of large ones views that refuse it."""
    if sum(array.nbytes for array in inputs.values()) <= COPIED:
        return {name: array.copy() for name, array in inputs.items()}
    views = {name: array.view() for name, array in inputs.items()}
    for view in views.values():
        view.flags.writeable = False
    return views


def _magnitude(array: Array) -> Array:
    """Return the magnitudes of an input. Those of integers need a wider type, as -128 does; most are not negative."""
    if is_float(array.dtype):
        return np.abs(array)
    return np.abs(array.astype(np.int64)) if array.dtype.kind == "i" and (array < 0).any() else array


def _named(case: Case, returned: Any) -> dict[str, Any]:
    """Return by name what a reference returned: a mapping, several values in order, or one. Raises BadCase."""
    names = [array.name for array in case.results]
    if isinstance(returned, Mapping):
        have, right = ", ".join(map(str, returned)), set(returned) == set(names)
    else:
        is_several = isinstance(returned, tuple) or (isinstance(returned, list) and len(names) > 1)
        returned = returned if is_several else (returned,)
        have, right = f"{len(returned)} value{'s' if len(returned) != 1 else ''}", len(returned) == len(names)
        returned = dict(zip(names, returned, strict=False))
    if not right:
        raise BadCase(f"{case.id}: the reference returns {have or 'nothing'}; the results are {', '.join(names)}")
    return {array.name: _plain(returned[array.name], numpy_type(array.dtype)) for array in case.results}


def _plain(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return an array as NumPy's own class, since another one decides what it equals; other values as they are.

    Integers of another type, such as the int64 of ``argmin``, become those of a result's type where it holds them all.
    """
    if not isinstance(value, np.ndarray):
        return value
    value = np.asarray(value)
    if dtype.kind in "iu" and value.dtype.kind in "iu" and value.dtype != dtype:
        converted = value.astype(dtype)
        return converted if np.array_equal(converted, value) else value
    return value


def rule_of(case: Case, name: str) -> Rule:
    chosen = case.family.tolerance
    if callable(chosen):
        chosen = call(chosen, case.family.given(case.shape, case.dtype))
    return chosen.get(name, Exact()) if isinstance(chosen, Mapping) else chosen


def expected(
    case: Case,
    inputs: Mapping[str, Array],
    part: Part = ALL_ROWS,
    *,
    exact: bool = False,
    ordinary: bool = True,
    by: Compute = compute,
) -> dict[str, Expected]:
    """Return the right results by name, with their bounds. Raises BadCase.

    ``part``: rows of each result. ``exact``: results must be equal, so that no bound is computed. ``ordinary``:
    inputs are uniform random numbers. ``by``: computes as ``compute`` does.
    """
    references = by(case, case.family.reference, inputs, part)
    magnitudes = functools.cache(lambda: by(case, case.family.reference, inputs, part, magnitudes=True))

    def bound(array: CaseArray) -> Array | float:
        result = Result(
            dtype=numpy_type(array.dtype),
            reference=references[array.name],
            given=case.family.given(case.shape, case.dtype),
            magnitudes=lambda: magnitudes()[array.name],
            plain=lambda function: by(case, function, inputs, part)[array.name],
            ordinary=ordinary,
        )
        return rule_of(case, array.name).bound(result)

    return {a.name: Expected(reference=references[a.name], bound=0.0 if exact else bound(a)) for a in case.results}


def unlike_results(case: Case, results: Mapping[str, Any]) -> str | None:
    """Return why the values of a reference cannot be compared with the results, or None."""
    return first_fault(result_checks(case, results))


def result_checks(case: Case, results: Mapping[str, Any]) -> Checks:
    """Check that the values of a reference can be compared with the results."""
    where = f"at {case.shape_name}, {case.dtype},"
    for array in case.results:
        value, exact = results[array.name], numpy_type(array.dtype)
        yield isinstance(value, np.ndarray), f"{where} returns {type(value).__name__}: give a NumPy array"
        yield value.shape == array.shape, f"{where} returns shape {value.shape}; the result's is {array.shape}"
        has_kind = is_float(exact) and value.dtype.kind == wide(exact).kind
        suits = value.dtype == exact or (has_kind and value.dtype.itemsize > exact.itemsize)
        kinds = dict.fromkeys([wide(exact).name, array.dtype] if is_float(exact) else [array.dtype])
        cure = f"give {' or '.join(kinds)}"
        if {value.dtype.kind, exact.kind} <= {"i", "u"}:
            cure = f"some of its numbers are no {array.dtype}"
        yield suits, f"{where} returns {value.dtype}: {cure}"
