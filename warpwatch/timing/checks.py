"""Checks, in the worker process, that what is timed is right: compares it with the right results of inputs.py.

Each sample of a kernel starts on poisoned results, and their digest is taken behind it (sampling.py). A digest that is
that of a result which was compared is proof; a result of other bits is compared by value. That of a serial variant is
checked after the last sample alone. The operands are checked each time: a kernel that changes them is wrong whatever
its result is, and the next kernel must not be blamed for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from warpwatch.catalogue import named_arguments
from warpwatch.catalogue.arrays import Array
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.declaration import is_drawn_by_run
from warpwatch.catalogue.expected import Expected
from warpwatch.catalogue.inputs import random_inputs
from warpwatch.devices.digest import digests
from warpwatch.devices.evaluate import judged
from warpwatch.devices.machine import GuardedArray
from warpwatch.devices.mismatch import WrongResult, compare, compare_all, explain
from warpwatch.devices.preparing import note_on
from warpwatch.devices.references import LINE
from warpwatch.devices.runner import Loaded, bytes_of, launch_and_wait, launch_once, stray_work
from warpwatch.devices.same_bits import difference
from warpwatch.timing.inputs import InputSet, Shared, digests_of, material

LAUNCHES = 10  # that look for an element whose bits differ
NARROW_BYTES = 2  # of elements whose poison may be a right value


def damage(loaded: Loaded, given: InputSet) -> list[str]:
    """Return what the launches of a case wrote where they must not, a sentence each."""
    digests_now = zip(loaded.inputs, digests_of(loaded.inputs), given.digests, strict=True)
    harmed = [array for array, now, before in digests_now if now != before]
    harm = [array.overrun() for array in harmed]
    harm += [f"changed its operand {array.name}" for array in harmed if _has_changed(array, loaded.case, given.seed)]
    harm += [array.overrun() for array in loaded.own.values()]
    return [f"{loaded.case.id} {sentence}" for sentence in harm if sentence]


def _has_changed(operand: GuardedArray, case: Case, seed: int) -> bool:
    """Return whether an operand holds other bits than were uploaded."""
    return not np.array_equal(bytes_of(random_inputs(case, seed)[operand.name]), bytes_of(operand.read()))


def fingerprint(digests_of_results: Sequence[int]) -> int:
    """Return a number that is equal for results that are equal to the bit, made of the digest of each."""
    return hash(tuple(digests_of_results))


def check_result(loaded: Loaded, shared: Shared) -> None:
    """Launch on the first copy of the arrays, and compare with NumPy; narrow elements on each pattern of poison.

    Raises WrongResult or DeviceError.

    Variants of a shape often have results that are equal to the bit: they are compared once.
    """
    case, given = loaded.case, shared.sets[0]
    if case.family.prints:
        raise_all(faults_of_lines(loaded, given))
        return
    launch_and_wait(loaded)
    if case.variant.call:
        # First, because nobody has waited for what a call queues elsewhere: its result would be called wrong. The
        # launch before has made whatever a call makes once, for which it may have to wait.
        if stray := stray_work(loaded):
            raise WrongResult(f"{case.id} {stray}")
        launch_and_wait(loaded)
    result = fingerprint(digests_of(loaded.results))
    raise_all([*damage(loaded, given), *(mismatches(loaded, shared, 0) if result not in given.accepted else ())])
    given.accepted.add(result)
    second = f"{case.id} was right at its first launch, and is wrong at its second"
    check_on_other_poison(loaded, shared, second)


def check_on_other_poison(loaded: Loaded, shared: Shared, late: str) -> None:
    """Launch on the first copy on the second pattern of poison, where what is not written cannot look right once more.

    Only elements of one and two bytes need it: poison of four is a NaN, or a number that nobody computes. Results were
    right after the launch before. ``late``: what is said first where they are not any more. Raises WrongResult or
    DeviceError.
    """
    if all(array.dtype.itemsize > NARROW_BYTES for array in loaded.results):
        return
    ranges = [(array.address, array.nbytes) for array in loaded.results]
    before = digests(loaded.machine, ranges)
    loaded.clear(second=True)
    launch_and_wait(loaded)
    problems = damage(loaded, shared.sets[0])
    if digests(loaded.machine, ranges) != before:
        problems += mismatches(loaded, shared, 0)
    loaded.clear(second=False)
    raise_all(problems, late)


def check_sample(loaded: Loaded, shared: Shared, copy: int) -> int:
    """Compare the result of the sample that was taken last on a copy with NumPy, unless it is known to be right.

    Returns its fingerprint. Raises WrongResult or DeviceError.
    """
    given, result = shared.set_of(copy), fingerprint(digests_of(loaded.results))
    if result not in given.accepted:
        first = "" if loaded.case.variant.on_host else late(loaded.case)
        raise_all([*damage(loaded, given), *mismatches(loaded, shared, copy)], first)
        given.accepted.add(result)
    return result


def other_bits(loaded: Loaded) -> WrongResult:
    """Launch a case whose samples have other bits until an element shows it, and return the error that says so."""
    first, found = {array.name: array.read() for array in loaded.results}, None
    for _ in range(LAUNCHES):
        loaded.poison()
        if found := difference(first, launch_once(loaded)):
            break
    said = f": {found}" if found else ", and not in the next launches"
    return WrongResult.of(judged(loaded.case, f"bits differ between two samples{said}", again_on(loaded.case))[0])


def check_fresh_launch(loaded: Loaded, shared: Shared) -> None:
    """Launch on the first copy once more, on poisoned results, narrow ones on each pattern, and check all.

    Raises WrongResult or DeviceError.
    """
    given, said = shared.sets[0], late(loaded.case)
    loaded.poison()
    if loaded.case.family.prints:
        raise_all(faults_of_lines(loaded, given), said)
        return
    launch_and_wait(loaded)
    check_sample(loaded, shared, 0)
    raise_all(damage(loaded, given), said)
    check_on_other_poison(loaded, shared, said)


def check_surroundings(copies: Sequence[Loaded], shared: Shared) -> None:
    """Check that nothing but results was written, on any copy. Raises WrongResult or DeviceError."""
    scratch = (array for loaded in copies for array in loaded.own.values() if array not in loaded.results)
    if not shared.is_intact() or any(array.overrun() for array in scratch):
        problems = [each for copy, loaded in enumerate(copies) for each in damage(loaded, shared.set_of(copy))]
        raise_all([*dict.fromkeys(problems)], late(copies[0].case))


def check_lines(loaded: Loaded, given: InputSet, printed: Sequence[str]) -> None:
    """Check the lines that the last sample printed, and those of one more launch. Raises WrongResult or DeviceError."""
    problems = [*damage(loaded, given), *_wrong_lines(loaded.case, np.sort(np.array(printed)), of_host=False)]
    raise_all(problems or faults_of_lines(loaded, given), late(loaded.case))


def late(case: Case) -> str:
    """Say that a case is wrong that was right at first."""
    return f"{case.id} was right when it was launched once, and is wrong after the launches that were timed"


def faults_of_lines(loaded: Loaded, given: InputSet) -> list[str]:
    """Launch a kernel that prints, and return the faults of its lines and of the arrays."""
    lines = launch_once(loaded)[LINE]
    return [*damage(loaded, given), *_wrong_lines(loaded.case, lines, of_host=True)]


def _wrong_lines(case: Case, got: Array, of_host: bool) -> list[str]:
    """Return the faults of the lines that were printed. ``of_host``: the host's own line is among them."""
    assert case.family.prints
    lines = named_arguments.call(case.family.prints, case.given)
    wanted = np.sort(np.array(lines if of_host else lines[1:]))
    if got.shape != wanted.shape:
        return [f"{case.id} printed {len(got):,} lines, not {len(wanted):,}"]
    mismatch = compare(got, wanted, 0.0)
    return [explain(case, LINE, mismatch, again_on(case))] if mismatch else []


def again_on(case: Case, seed: int | None = None) -> str:
    """Return the command that repeats a case, on inputs of a seed where one is given."""
    if is_drawn_by_run():  # the command would import the declarations
        return f'pytest "bench::bench_kernel[{case.id}]" --untrusted'
    return f"python -m warpwatch run {case.id}" + ("" if seed is None else f" --seed {seed}")


def mismatches(loaded: Loaded, shared: Shared, copy: int) -> list[str]:
    """Compare the whole of small results, or the first, last and some random rows of a large one."""
    case, given = loaded.case, shared.set_of(copy)
    results = {array.name: array.read_sample(given.rows) for array in loaded.results}
    wrong = compare_all(results, _right(case, given), given.rows).items()
    notes = [*loaded.notes, *filter(None, [note_on(case, results, given.rows)] if wrong else [])]
    again = again_on(case, given.seed)
    problems: list[str] = [explain(case, name, each, again, notes=notes) for name, each in wrong]
    others = (other for other in shared.sets if other is not given)
    if problems and any(not compare_all(results, _right(case, other), other.rows) for other in others):
        problems.insert(0, f"{case.id}: the result is that of the other inputs, which its last launches had")
    return problems


def _right(case: Case, given: InputSet) -> Mapping[str, Expected]:
    """Return the right results, which another process may have computed before."""
    if given.right is None:
        given.right = material(case, reference=True, seed=given.seed).right
    assert given.right is not None
    return given.right


def raise_all(problems: Sequence[str], first: str = "") -> None:
    """Raise WrongResult where there are problems. ``first``: what is said before them."""
    if problems:
        raise WrongResult.of([*filter(None, [first]), *problems])
