"""Checks, in the worker process, that what is timed is right: compares it with the right results of inputs.py.

A result is checked before the first sample and once more after the last, because a kernel may be right on its first
launch and wrong on its hundredth. That of a serial variant is checked after the last sample alone: each of its samples
starts on poisoned results. The operands are checked each time: a kernel that changes them is wrong whatever its result
is, and the next kernel must not be blamed for it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpwatch.catalogue import named_arguments
from warpwatch.catalogue.arrays import Array
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.declaration import TIMED_SEED, is_drawn_by_run
from warpwatch.catalogue.inputs import random_inputs
from warpwatch.devices.digest import digests
from warpwatch.devices.machine import GuardedArray
from warpwatch.devices.mismatch import WrongResult, compare, compare_all, explain
from warpwatch.devices.references import LINE
from warpwatch.devices.runner import Loaded, launch_and_wait, launch_once, stray_work
from warpwatch.timing.inputs import Shared, digests_of, material

NARROW_BYTES = 2  # of elements whose poison may be a right value


def damage(loaded: Loaded, shared: Shared) -> list[str]:
    """Return what the launches of a case wrote where they must not, a sentence each."""
    digests_now = zip(loaded.inputs, digests_of(loaded.inputs), shared.digests, strict=True)
    harmed = [array for array, now, before in digests_now if now != before]
    harm = [array.overrun() for array in harmed]
    harm += [f"changed its operand {array.name}" for array in harmed if _has_changed(array, loaded.case)]
    harm += [array.overrun() for array in loaded.own.values()]
    return [f"{loaded.case.id} {sentence}" for sentence in harm if sentence]


def _has_changed(operand: GuardedArray, case: Case) -> bool:
    """Return whether an operand holds other bits than were uploaded."""
    was, now = np.ascontiguousarray(random_inputs(case, TIMED_SEED)[operand.name]), operand.read()
    return not np.array_equal(was.reshape(-1).view(np.uint8), now.reshape(-1).view(np.uint8))


def state_of(launched: Sequence[Loaded]) -> list[tuple[int, list[int]]]:
    """Return the fingerprint of each case's results, and the digests of its inputs, all with their guard bands.

    A fingerprint is a number that is equal for results that are equal to the bit.
    """
    known = iter(digests_of([array for loaded in launched for array in (*loaded.results, *loaded.inputs)]))
    return [
        (hash(tuple(next(known) for _ in loaded.results)), [next(known) for _ in loaded.inputs]) for loaded in launched
    ]


def are_right(launched: Sequence[Loaded], shared: Shared, fingerprints: Sequence[int | None]) -> bool:
    """Return whether results are known to be right to the bit, and whether nothing else was written.

    Where it is false, ``check_last_result`` compares each, which may be right all the same. ``fingerprints``: those of
    right results, in the order of the launched cases; None where there is none.
    """
    if any(loaded.case.family.prints for loaded in launched):
        return False
    return all(
        now == fingerprint and _wrote_nothing_else(loaded, inputs, shared)
        for loaded, fingerprint, (now, inputs) in zip(launched, fingerprints, state_of(launched), strict=True)
    )


def _wrote_nothing_else(loaded: Loaded, inputs: Sequence[int], shared: Shared) -> bool:
    """Return whether inputs and scratch memory are unharmed. ``inputs``: digests of the inputs now."""
    scratch = (array for array in loaded.own.values() if array not in loaded.results)
    return [*inputs] == [*shared.digests] and not any(array.overrun() for array in scratch)


def check_result(loaded: Loaded, shared: Shared) -> int:
    """Launch, compare with NumPy, and return the results' fingerprint; narrow elements on each pattern of poison.

    Raises WrongResult or DeviceError.

    Variants of a shape often have results that are equal to the bit: they are compared once.
    """
    if loaded.case.family.prints:
        _raise(_faults_of_lines(loaded, shared))
        return 0
    launch_and_wait(loaded)
    if loaded.case.variant.call:
        # First, because nobody has waited for what a call queues elsewhere: its result would be called wrong. The
        # launch before has made whatever a call makes once, for which it may have to wait.
        if stray := stray_work(loaded):
            raise WrongResult(f"{loaded.case.id} {stray}")
        launch_and_wait(loaded)
    ((fingerprint, inputs),) = state_of([loaded])
    if fingerprint not in shared.accepted or not _wrote_nothing_else(loaded, inputs, shared):
        _raise([*damage(loaded, shared), *_mismatches(loaded, shared)])
    shared.accepted.add(fingerprint)
    _check_on_other_poison(
        loaded, shared, f"{loaded.case.id} was right at its first launch, and is wrong at its second"
    )
    return fingerprint


def _check_on_other_poison(loaded: Loaded, shared: Shared, late: str) -> None:
    """Launch on the second pattern of poison, where what is not written cannot look right once more.

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
    problems = damage(loaded, shared)
    if digests(loaded.machine, ranges) != before:
        problems += _mismatches(loaded, shared)
    loaded.clear(second=False)
    _raise(problems, late)


def check_last_result(loaded: Loaded, shared: Shared, fingerprint: int | None, printed: Sequence[str] = ()) -> None:
    """Compare the results of the last timed launch with NumPy, and check the inputs.

    ``fingerprint``: of results of this case that were right; those that are equal to the bit are not compared again.
    None where no launch was checked before. ``printed``: the lines of the last launch, where the kernel prints. Raises
    WrongResult or DeviceError.
    """
    case = loaded.case
    problems = damage(loaded, shared)
    if case.family.prints:
        problems += _wrong_lines(case, np.sort(np.array(printed)), of_host=False)
    elif fingerprint is None or state_of([loaded])[0][0] != fingerprint:
        problems += _mismatches(loaded, shared)
    _raise(problems, "" if fingerprint is None else _late(case))


def check_fresh_launch(loaded: Loaded, shared: Shared, fingerprint: int) -> None:
    """Launch once more on poisoned results, narrow ones on each pattern, and compare as ``check_last_result`` does.

    Nothing can be poisoned between samples, so the result after the last sample may be that of an earlier one. Only
    this launch shows a kernel that no longer writes.
    """
    loaded.poison()
    if loaded.case.family.prints:
        _raise(_faults_of_lines(loaded, shared), _late(loaded.case))
        return
    launch_and_wait(loaded)
    if not are_right([loaded], shared, [fingerprint]):
        check_last_result(loaded, shared, fingerprint)
    _check_on_other_poison(loaded, shared, _late(loaded.case))


def _late(case: Case) -> str:
    return f"{case.id} was right when it was launched once, and is wrong after the launches that were timed"


def _faults_of_lines(loaded: Loaded, shared: Shared) -> list[str]:
    """Launch a kernel that prints, and return the faults of its lines and of the arrays."""
    lines = launch_once(loaded)[LINE]
    return [*damage(loaded, shared), *_wrong_lines(loaded.case, lines, of_host=True)]


def _wrong_lines(case: Case, got: Array, of_host: bool) -> list[str]:
    """Return the faults of the lines that were printed. ``of_host``: the host's own line is among them."""
    assert case.family.prints
    lines = named_arguments.call(case.family.prints, case.given)
    wanted = np.sort(np.array(lines if of_host else lines[1:]))
    if got.shape != wanted.shape:
        return [f"{case.id} printed {len(got):,} lines, not {len(wanted):,}"]
    mismatch = compare(got, wanted, 0.0)
    return [explain(case, LINE, mismatch, _again(case))] if mismatch else []


def _again(case: Case) -> str:
    if is_drawn_by_run():  # the command would import the declarations
        return f'pytest "bench::bench_kernel[{case.id}]" --untrusted'
    return f"python -m warpwatch run {case.id} --seed {TIMED_SEED}"


def _mismatches(loaded: Loaded, shared: Shared) -> list[str]:
    """Compare the whole of small results, or the first, last and some random rows of a large one."""
    case, rows, right = loaded.case, shared.rows, shared.right
    if right is None:  # another process had computed them
        right = material(case, reference=True).right
    assert right is not None
    results = {array.name: array.read_sample(rows) for array in loaded.results}
    mismatches = compare_all(results, right, rows).items()
    return [explain(case, name, mismatch, _again(case), notes=loaded.notes) for name, mismatch in mismatches]


def _raise(problems: Sequence[str], late: str = "") -> None:
    if problems:
        raise WrongResult("\n".join(filter(None, [late, *problems])))
