"""Evaluates a case: launches its kernel, compares the results with the reference, and describes what is wrong.

Tests and ``warpwatch run`` evaluate; a case that is timed is checked by timing/checks.py, which copies less.

A kernel may be right once and wrong later, because it leaves something behind in a variable, and right on usual inputs
alone. So a case is launched several times on the same inputs, and once on each of a few others.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from warpwatch.catalogue.arrays import Array, CaseArray, Role
from warpwatch.catalogue.cases import Case, case_of
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.draws import SAMPLES, Draw, further_draws, kept, widened
from warpwatch.catalogue.elements import numpy_type
from warpwatch.catalogue.expected import Expected
from warpwatch.catalogue.inputs import exact_inputs, random_inputs
from warpwatch.devices.accepting import accepted_of
from warpwatch.devices.machine import Machine
from warpwatch.devices.mismatch import Mismatch, RightElsewhere, compare, compare_all, explain
from warpwatch.devices.placement import PLAIN, Placement
from warpwatch.devices.preparing import note_on
from warpwatch.devices.references import SLOW, computed, drawn, elsewhere, expected, is_slow, naming
from warpwatch.devices.runner import Outcome, run_several
from warpwatch.devices.same_bits import Watch

SEEDS = range(3)  # of inputs that are tried before it is said that a family's tests show nothing
FEWEST_TOGETHER = 4  # a common divisor of tested sizes from which on a kernel may take its multiples alone
LOOKED_AT = 64  # elements that are compared first, because nearly always one of them shows enough


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Launches of a case.

    ``draws``: the inputs; the first are launched ``launches`` times, others once. ``left_out``: why there are no
    others, if there could be.
    """

    case: Case
    launches: int
    draws: tuple[Draw, ...]
    left_out: str = ""

    @property
    def inputs(self) -> list[Mapping[str, Array]]:
        return [draw.inputs for draw in self.draws]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Verdict on a case: what is wrong with its results.

    ``faults``: descriptions, none where the case is right. ``remark``: how bits differ between launches that all are
    right, where the declaration says nothing of it. ``left_out``: as in Trial.
    """

    faults: list[str]
    remark: str
    left_out: str


def evaluate(machine: Machine, trial: Trial, image: Path, again: str, placement: Placement = PLAIN) -> Evaluation:
    """Upload the inputs of a trial, launch, compare with the reference, and describe what is wrong.

    ``again``: the command that repeats this, for messages. ``placement``: layout of arrays and blocks. Raises
    DeviceError where the case cannot be launched, or a launch failed.
    """
    outcomes = run_several(machine, trial.case, image, trial.inputs, trial.launches, placement)
    tested = judge(trial, outcomes, again, placement)
    harmless = "; ".join(f"{trial.case.id}: {text}" for text in machine.remarks_on_launches())
    return replace(tested, remark="; ".join(filter(None, [tested.remark, harmless])))


def judge(trial: Trial, outcomes: Iterator[Outcome], again: str, placement: Placement = PLAIN) -> Evaluation:
    """Compare the outcomes of a trial, and their bits, until one is wrong."""
    case, watch, remark = trial.case, Watch(trial.launches), ""
    offsets = {array.name: placement.offset(i, array) for i, array in enumerate(case.arrays)}
    problems = faults(trial, watch.over(outcomes), again, offsets)
    if (differing := watch.sentence) and not problems:
        problems, remark = judged(case, differing, again)
    return Evaluation(faults=problems, remark=remark, left_out=trial.left_out)


def judged(case: Case, differing: str, again: str) -> tuple[list[str], str]:
    """Return faults and remark of a case whose bits differ, by what it declares. ``differing``: how they differ."""
    if case.deterministic:
        return [f"{case.id} must give the same bits again (deterministic=True): {differing}\n  again     {again}"], ""
    return [], "" if case.deterministic is False else f"{case.id}: {differing}"


def plan(case: Case, *, seed: int = 0, launches: int = 1, exact: bool = False, further: bool = True) -> Trial:
    """Draw the inputs of a case, and compute its right results. Raises BadCase.

    ``launches``: on the same inputs, until one is wrong. ``exact``: inputs are whole numbers, where the family says
    that results are exact then. ``further``: other inputs than uniform random ones are tried besides.
    """
    exact = exact and case.family.exact
    is_own = case.family.prints or elsewhere  # lines may depend on the block; what is elsewhere is kept there
    first = _usual(case, seed, exact) if is_own else kept.get(_usual, case, seed, exact)
    left_out = ""
    if exact or not further:
        return Trial(case=case, launches=launches, draws=(first,))
    if is_slow(case):  # further inputs take some ten references
        left_out = f"the reference of {case.family.name} takes over {SLOW:g} s"
    with naming(case, "the reference"):
        others = [] if left_out else further_draws(case, seed, computed)
    return Trial(case=case, launches=launches, draws=(first, *others), left_out=left_out)


def _usual(case: Case, seed: int, exact: bool) -> Draw:
    """Draw the usual inputs of a case, or whole numbers, and compute its right results. Raises BadCase."""
    inputs = drawn(case, seed, exact=exact)
    right = expected(case, inputs, exact=exact)
    if exact:  # whole numbers are exact until the result is rounded to its type
        for array in case.results if not case.family.prints else ():
            rounded = right[array.name].reference.astype(numpy_type(array.dtype))
            right[array.name] = Expected(reference=rounded, bound=0.0)
    return Draw(inputs=inputs, right=right)


def faults(
    trial: Trial, outcomes: Iterable[Outcome], again: str, offsets: Mapping[str, int] | None = None
) -> list[str]:
    """Describe what is wrong with the outcomes of a trial: those of the first launch that has a fault.

    ``again``: the command that repeats it. ``offsets``: elements that results start past an allocation's alignment.
    """
    case = trial.case
    for outcome in outcomes:
        mismatches = _mismatches(trial, outcome)
        notes = [*outcome.notes, *_notes(trial, outcome)]
        notes += filter(None, [note_on(case, outcome.results), *_likely(case)] if mismatches else [])
        problems: list[str] = [
            explain(case, name, mismatch, again, (offsets or {}).get(name, 0), notes)
            for name, mismatch in mismatches.items()
        ]
        problems += ["\n  ".join([f"{case.id} {harm}", *notes, f"again     {again}"]) for harm in outcome.damage]
        if problems:
            return problems
    nothing = nothing_shown(case, trial.draws)
    return [f"{case.id}: {nothing}\n  again     {again}"] if nothing else []


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


def _likely(case: Case) -> list[str]:
    """Say what may make a result wrong: what is accepted of the kernel, or else a shape unlike tested ones."""
    accepted = dict.fromkeys(str(each).partition(": ")[0] for each in accepted_of(case.build))
    return [f"accepted  {each}, which may be the cause" for each in accepted] or [unlike_tests(case)]


def unlike_tests(case: Case) -> str:
    """Say that all tested sizes are multiples of a number and a case's is not, where ``valid`` says nothing; or ""."""
    tests = case.family.tests_of(case.variant)
    for axis, (name, size) in enumerate(case.sizes.items()) if not case.family.valid_of(case.variant) else ():
        common = math.gcd(*(shape[axis] for shape in tests))
        if common >= FEWEST_TOGETHER and size % common:
            cure = f"if the kernel takes no others, declare valid=lambda {name}: {name} % {common} == 0"
            return f"shape     {name} = {size} is not a multiple of {common}, as each tested {name} is: {cure}"
    return ""


def _mismatches(trial: Trial, outcome: Outcome) -> dict[str, Mismatch]:
    """Compare the results of a launch with the right ones; of further inputs, with a bound that holds for them too."""
    case, draw = trial.case, trial.draws[outcome.draw]
    mismatches = compare_all(outcome.results, draw.right, special=draw.special)
    for samples in SAMPLES if draw.words and not draw.special else ():
        if mismatches:
            with naming(case, "the reference"):
                right = widened(case, draw, trial.draws[0], outcome.results, computed, samples=samples)
            mismatches = compare_all(outcome.results, right)
    return mismatches


def nothing_shown(case: Case, draws: Sequence[Draw]) -> str:
    """Say that a kernel which writes nothing would be right here and in every test of its family; empty otherwise.

    One case may show nothing, such as the sum of a single element that is 0: then the other shapes do.
    """
    if elsewhere := [draw.right for draw in draws if isinstance(draw.right, RightElsewhere)]:
        sentences = [right.nothing_shown() for right in elsewhere]
        return sentences[0] if all(sentences) else ""
    if not all(_shows_nothing(case, d) for d in draws) or _another_test_shows_something(case.family, case.dtype):
        return ""
    array = case.results[0]
    value = "first value" if array.role is Role.IN_OUT else f"initial value {array.initial:g}"
    same = "equals" if np.max(draws[0].right[array.name].bound) == 0 else "is within the tolerance of"
    return f"nothing was shown: {array.name} {same} its {value} everywhere in the reference; draw other inputs"


def _shows_nothing(case: Case, draw: Draw) -> bool:
    """Return whether a kernel that writes nothing would be right."""
    if any(array.role is not Role.IN_OUT and array.initial is None for array in case.results):
        return False  # poison is never right
    return bool(case.results) and not any(
        _shows_that_it_is_written(array, draw, elements) for elements in (LOOKED_AT, None) for array in case.results
    )


def _shows_that_it_is_written(array: CaseArray, draw: Draw, elements: int | None) -> bool:
    """Return whether the first elements of a result, all where it is None, would be wrong if nobody wrote them."""
    right = draw.right[array.name]
    reference = right.reference.reshape(-1)[:elements]
    if array.role is Role.IN_OUT:
        untouched = draw.inputs[array.name].reshape(-1)[:elements]
    else:
        untouched = np.full(reference.shape, array.initial, numpy_type(array.dtype))
    bound = np.broadcast_to(right.bound, right.reference.shape).reshape(-1)[:elements]
    return compare(untouched, reference, bound, special=draw.special) is not None


@functools.cache
def _another_test_shows_something(family: Family, dtype: str) -> bool:
    """Return whether a kernel that writes nothing would be wrong on some tested shape."""
    for shape, seed, exact in itertools.product(family.tests, SEEDS, {False, family.exact}):
        case = case_of(family, shape, dtype)
        with contextlib.suppress(Exception):  # of a reference for whole numbers alone
            inputs = (exact_inputs if exact else random_inputs)(case, seed)
            if not _shows_nothing(case, Draw(inputs=inputs, right=expected(case, inputs, exact=exact))):
                return True
    return False
