"""Plans the launches that show whether a case is right, and judges their outcomes.

A kernel may be right once and wrong later, because it leaves something behind in a variable, and right on usual inputs
alone. So a case is launched several times on the same inputs, and once on each of a few others.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from warpwatch.catalogue.arrays import Array, CaseArray, Role
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.draws import SAMPLES, Draw, further_draws, widened
from warpwatch.catalogue.elements import numpy_type
from warpwatch.catalogue.expected import Expected
from warpwatch.catalogue.inputs import exact_inputs, random_inputs
from warpwatch.catalogue.work_rules import case_of
from warpwatch.devices.check import Mismatch, compare, explain
from warpwatch.devices.references import SLOW, computed, drawn, is_slow, naming
from warpwatch.devices.runner import Outcome, expected

SEEDS = range(3)  # of inputs that are tried before it is said that a family's tests show nothing
LOOKED_AT = 64  # elements that are compared first, because nearly always one of them shows enough


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Launches of a case. ``draws``: the inputs; the first are launched ``launches`` times, others once.

    ``left_out``: why there are no others, if there could be.
    """

    case: Case
    launches: int
    draws: tuple[Draw, ...]
    left_out: str = ""

    @property
    def inputs(self) -> list[Mapping[str, Array]]:
        return [draw.inputs for draw in self.draws]


def plan(case: Case, seed: int, *, launches: int, exact: bool = False, further: bool = True) -> Trial:
    """Draw the inputs of a case, and compute its right results. Raises BadCase.

    ``exact``: inputs are whole numbers, where the family says that results are exact then. ``further``: other inputs
    than uniform random ones are tried besides.
    """
    exact = exact and case.family.exact
    inputs = drawn(case, seed, exact=exact)
    right = expected(case, inputs, exact=exact)
    if exact:  # whole numbers are exact until the result is rounded to its type
        types = {array.name: numpy_type(array.dtype) for array in case.results}
        right = {
            name: Expected(reference=each.reference.astype(types[name]) if name in types else each.reference, bound=0.0)
            for name, each in right.items()
        }
    further, slow = further and not exact, is_slow(case)  # further inputs take some ten references
    with naming(case, "the reference"):
        others = further_draws(case, seed, computed) if further and not slow else []
    left_out = f"the reference of {case.family.name} takes over {SLOW:g} s" if further and slow else ""
    return Trial(case=case, launches=launches, draws=(Draw(inputs=inputs, right=right), *others), left_out=left_out)


def faults(
    trial: Trial, outcomes: Iterable[Outcome], again: str, offsets: Mapping[str, int] | None = None
) -> list[str]:
    """Describe what is wrong with the outcomes of a trial: those of the first launch that has a fault.

    ``again``: the command that repeats it. ``offsets``: elements that results start past an allocation's alignment.
    """
    case = trial.case
    for outcome in outcomes:
        notes = [*outcome.notes, *_notes(trial, outcome)]
        found = [
            explain(case, name, mismatch, again, (offsets or {}).get(name, 0), notes)
            for name, mismatch in _mismatches(trial, outcome).items()
        ]
        found += ["\n  ".join([f"{case.id} {said}", *notes, f"again     {again}"]) for said in outcome.damage]
        if found:
            return found
    said = nothing_shown(case, trial.draws)
    return [f"{case.id}: {said}\n  again     {again}"] if said else []


def _notes(trial: Trial, outcome: Outcome) -> list[str]:
    """Say in which launch something is wrong, and on which inputs, where that is not the only launch or the usual."""
    last, words = trial.launches + len(trial.draws) - 1, trial.draws[outcome.draw].words
    before = {1: "", 2: "right in launch 1, "}.get(outcome.launch, f"right in launches 1 to {outcome.launch - 1}, ")
    notes = [f"launch    {before}wrong in launch {outcome.launch} of {last}"] if last > 1 else []
    cure = (
        ""
        if trial.draws[outcome.draw].special
        else "; `low=` and `high=` of an array, or `draw` of the family, keep others out"
    )
    return [*notes, f"inputs    {words}{cure}"] if words else notes


def _mismatches(trial: Trial, outcome: Outcome) -> dict[str, Mismatch]:
    """Compare the results of a launch with the right ones; of further inputs, with a bound that holds for them too."""
    case, draw = trial.case, trial.draws[outcome.draw]
    found = _compared(draw, draw.right, outcome.results)
    if draw.words and not draw.special:
        for samples in SAMPLES:
            if not found:
                break
            with naming(case, "the reference"):
                right = widened(case, draw, trial.draws[0], outcome.results, computed, samples=samples)
            found = _compared(draw, right, outcome.results)
    return found


def _compared(draw: Draw, right: Mapping[str, Expected], got: Mapping[str, Array]) -> dict[str, Mismatch]:
    found = {name: compare(got[name], each.reference, each.bound, special=draw.special) for name, each in right.items()}
    return {name: mismatch for name, mismatch in found.items() if mismatch}


def nothing_shown(case: Case, draws: Sequence[Draw]) -> str:
    """Say that a kernel which writes nothing would be right here and in every test of its family; empty otherwise.

    One case may show nothing, such as the sum of a single element that is 0: then the other shapes do.
    """
    if not all(_is_untold(case, draw) for draw in draws) or _tells(case.family, case.dtype):
        return ""
    array = case.results[0]
    value = "first value" if array.role is Role.IN_OUT else f"initial value {array.initial:g}"
    same = "equals" if np.max(draws[0].right[array.name].bound) == 0 else "is within the tolerance of"
    return f"nothing was shown: {array.name} {same} its {value} everywhere in the reference; draw other inputs"


def _is_untold(case: Case, draw: Draw) -> bool:
    """Tell whether a kernel that writes nothing would be right."""
    if any(array.role is not Role.IN_OUT and array.initial is None for array in case.results):
        return False  # poison is never right
    return bool(case.results) and not any(
        _is_told(array, draw, elements) for elements in (LOOKED_AT, None) for array in case.results
    )


def _is_told(array: CaseArray, draw: Draw, elements: int | None) -> bool:
    """Tell whether the first elements of a result, all where it is None, would be wrong if nobody wrote them."""
    right = draw.right[array.name]
    reference = right.reference.reshape(-1)[:elements]
    if array.role is Role.IN_OUT:
        untouched = draw.inputs[array.name].reshape(-1)[:elements]
    else:
        untouched = np.full(reference.shape, array.initial, numpy_type(array.dtype))
    bound = np.broadcast_to(right.bound, right.reference.shape).reshape(-1)[:elements]
    return compare(untouched, reference, bound, special=draw.special) is not None


@functools.cache
def _tells(family: Family, dtype: str) -> bool:
    """Tell whether a kernel that writes nothing would be wrong on some tested shape."""
    for shape in family.tests:
        for seed in SEEDS:
            for exact in {False, family.exact}:
                case = case_of(family, shape, dtype)
                with contextlib.suppress(Exception):  # of a reference for whole numbers alone
                    inputs = (exact_inputs if exact else random_inputs)(case, seed)
                    if not _is_untold(case, Draw(inputs=inputs, right=expected(case, inputs, exact=exact))):
                        return True
    return False
