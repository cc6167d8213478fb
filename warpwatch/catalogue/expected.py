"""Computes what a case's results should be, and how far off they may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpwatch.catalogue.arrays import ALL_ROWS, Array, Part
from warpwatch.catalogue.by_name import call, takes
from warpwatch.catalogue.declaration import Case
from warpwatch.catalogue.elements import numpy_type
from warpwatch.catalogue.names import BadCase
from warpwatch.catalogue.tolerance import Exact, Result, Rule


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
    given: dict[str, Any] = {**case.given, **inputs}
    if takes(function, "part"):
        given["part"] = part
    if magnitudes and takes(function, "magnitudes"):
        given["magnitudes"] = True
    elif magnitudes:
        given |= {name: np.abs(array) if array.dtype.kind in "fc" else array for name, array in inputs.items()}
    made, names = call(function, given), [array.name for array in case.results]
    named = (
        made if isinstance(made, Mapping) else dict(zip(names, made if _several(made, names) else [made], strict=False))
    )
    if set(named) != set(names) or (_several(made, names) and len(made) != len(names)):
        have = ", ".join(map(str, named))
        raise BadCase(f"{case.id}: the reference returns {have or 'nothing'}; the results are {', '.join(names)}")
    if not takes(function, "part") and part is not ALL_ROWS:
        named = {name: array[part] for name, array in named.items()}
    return {name: named[name] for name in names}


def _several(made: object, names: list[str]) -> bool:
    return isinstance(made, tuple) or (isinstance(made, list) and len(names) > 1)


def rule_of(case: Case, name: str) -> Rule:
    """Return the rule for the errors of a result."""
    chosen = case.family.tolerance
    if callable(chosen):
        chosen = call(chosen, case.family.given(case.shape, case.dtype))
    return chosen.get(name, Exact()) if isinstance(chosen, Mapping) else chosen


def expected(case: Case, inputs: Mapping[str, Array], part: Part = ALL_ROWS) -> dict[str, Expected]:
    """Return the right results by name, with their bounds. ``part``: rows of a single result. Raises BadCase."""
    references = compute(case, case.family.reference, inputs, part)
    return {
        name: Expected(reference=reference, bound=_bound(case, name, reference, inputs, part))
        for name, reference in references.items()
    }


def _bound(case: Case, name: str, reference: Array, inputs: Mapping[str, Array], part: Part) -> Array | float:
    (array,) = (array for array in case.results if array.name == name)
    result = Result(
        dtype=numpy_type(array.dtype),
        reference=reference,
        given=case.given,
        magnitudes=lambda: compute(case, case.family.reference, inputs, part, magnitudes=True)[name],
        plain=lambda function: compute(case, function, inputs, part)[name],
    )
    return rule_of(case, name).bound(result)
