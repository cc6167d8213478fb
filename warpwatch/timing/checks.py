"""Checks, in the worker process, that what is timed is right: holds the operands and the reference, and compares.

A result is checked before the first sample and once more after the last, because a kernel may be right on its first
launch and wrong on its hundredth. That of a serial variant is checked after the last sample alone: each of its samples
starts on poisoned results. The operands are checked each time: a kernel that changes them is wrong whatever its result
is, and the next kernel must not be blamed for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from warpwatch.catalogue import by_name
from warpwatch.catalogue.arrays import ALL_ROWS, Array
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.declaration import TIMED_SEED
from warpwatch.catalogue.draws import Draw
from warpwatch.catalogue.expected import Expected
from warpwatch.catalogue.inputs import random_inputs
from warpwatch.devices import host_memory
from warpwatch.devices.digest import digests
from warpwatch.devices.evaluate import nothing_shown
from warpwatch.devices.machine import GuardedArray, Machine
from warpwatch.devices.mismatch import WrongResult, compare, compare_all, explain
from warpwatch.devices.references import LINE, drawn, expected
from warpwatch.devices.runner import Loaded, launch_and_wait, launch_once, require_memory, stray_work, upload

WHOLE_ELEMENTS = 2**23  # a result of at most this many elements is compared whole, a larger one on some of its rows
SAMPLED_ROWS = 64
NARROW_BYTES = 2  # of elements whose poison may be a right value
# The addresses of its arrays change the time of a small kernel by several per cent, differently in each process. So
# small arrays are uploaded several times, and samples take the copies in turn.
COPIES, SMALL_BYTES = 4, 2**25


@dataclass(frozen=True, kw_only=True)
class Shared:
    """Inputs in the machine's memory and the right results, which the cases of one shape share.

    ``copies``: the inputs, once for each copy. ``digests``: of each input with its guard bands, as it was uploaded.
    ``rows``: of the result that are compared, None for all. ``right``: the results by name; None where nothing is to be
    checked. ``accepted``: fingerprints of results that lay within their bounds and whose guard bands were unharmed:
    those that are equal to the bit are not compared again.
    """

    key: tuple[object, ...]
    copies: tuple[tuple[GuardedArray, ...], ...]
    digests: tuple[int, ...]
    rows: Array | None
    right: Mapping[str, Expected] | None = None
    accepted: set[int] = field(default_factory=set)

    def free(self) -> None:
        """Give the memory of all copies back."""
        for array in chain.from_iterable(self.copies):
            array.free()


@dataclass(frozen=True, kw_only=True)
class Material:
    """Inputs of a case in the host's memory and its right results by name: what its kernels are checked with.

    ``right``: None where nothing is to be checked.
    """

    inputs: Mapping[str, Array]
    right: Mapping[str, Expected] | None = None


Make = Callable[[Case, bool], Material]


def shape_key(case: Case) -> tuple[object, ...]:
    """Return a key that is equal for cases of the same inputs and right results."""
    return (case.family.name, case.dtype, case.shape)


def sharing_key(case: Case) -> tuple[object, ...]:
    """Return a key that is equal for cases that can share them where they lie, in the GPU's memory or the host's."""
    return (*shape_key(case), case.variant.on_host)


def material(case: Case, reference: bool) -> Material:
    """Draw the inputs of a case, and compute its right results if ``reference`` is true."""
    inputs = drawn(case, TIMED_SEED)
    return Material(inputs=inputs, right=_right_results(case, inputs) if reference else None)


def _right_results(case: Case, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    rows = _compared_rows(case)
    return {} if case.family.prints else expected(case, inputs, ALL_ROWS if rows is None else rows)


def host_bytes(machine: Machine, case: Case) -> int:
    """Estimate the bytes of the host's memory that ``share`` takes at most."""
    rows = _compared_rows(case)
    in_host = _copies(case) if case.variant.on_host or machine.finds_faults else 0
    return host_memory.peak_bytes(case, copies=in_host, rows=None if rows is None else len(rows))


def share(machine: Machine, case: Case, reference: bool, make: Make = material) -> Shared:
    """Upload the inputs of a case, with its right results if ``reference`` is true. Raises DeviceError.

    ``make``: called for both once it is known that there is memory for them.
    """
    host_memory.require(case, host_bytes(machine, case))
    require_memory(machine, case)
    rows, material_of_case = _compared_rows(case), make(case, reference)
    inputs, right = material_of_case.inputs, material_of_case.right
    if right and rows is None and (nothing := nothing_shown(case, [Draw(inputs=inputs, right=right)])):
        raise WrongResult(f"{case.id}: {nothing}")
    copies = tuple(upload(machine, case, inputs) for _ in range(_copies(case)))
    return Shared(key=sharing_key(case), copies=copies, digests=tuple(_digests(copies[0])), rows=rows, right=right)


def _copies(case: Case) -> int:
    return COPIES if case.array_bytes <= SMALL_BYTES and not case.variant.on_host else 1


def _compared_rows(case: Case) -> Array | None:
    """Choose the rows that are compared: some of a single large result, whose reference can compute them alone.

    None means all of them.
    """
    in_parts = by_name.takes(case.family.reference, "part")
    if len(case.results) != 1 or case.results[0].size <= WHOLE_ELEMENTS or not in_parts:
        return None
    height = case.results[0].shape[0]
    if height <= SAMPLED_ROWS:
        return None
    inside = np.random.default_rng(TIMED_SEED).choice(height, SAMPLED_ROWS - 4, replace=False)
    return np.unique(np.concatenate([[0, 1, height - 2, height - 1], inside]))


def is_intact(shared: Shared) -> bool:
    """Return whether inputs and their guard bands are as they were uploaded."""
    return _digests([*chain.from_iterable(shared.copies)]) == [*shared.digests] * len(shared.copies)


def restore(shared: Shared, case: Case) -> None:
    """Upload the inputs and their guard bands again."""
    host = random_inputs(case, TIMED_SEED)
    for copy in shared.copies:
        for array in copy:
            array.set(host[array.name])


def _digests(arrays: Sequence[GuardedArray]) -> list[int]:
    """Return the digest of each of these arrays of one machine with its guard bands."""
    return digests(arrays[0].machine, [array.with_bands for array in arrays]) if arrays else []


def damage(loaded: Loaded, shared: Shared) -> list[str]:
    """Return what the launches of a case wrote where they must not, a sentence each."""
    digests_now = zip(loaded.inputs, _digests(loaded.inputs), shared.digests, strict=True)
    harmed = [array for array, now, before in digests_now if now != before]
    harm = [array.overrun() for array in harmed]
    harm += [f"changed its operand {array.name}" for array in harmed if _has_changed(array, loaded.case)]
    harm += [array.overrun() for array in loaded.own.values()]
    return [f"{loaded.case.id} {sentence}" for sentence in harm if sentence]


def _has_changed(operand: GuardedArray, case: Case) -> bool:
    """Return whether an operand holds other bits than were uploaded."""
    was, now = np.ascontiguousarray(random_inputs(case, TIMED_SEED)[operand.name]), operand.read()
    return not np.array_equal(was.reshape(-1).view(np.uint8), now.reshape(-1).view(np.uint8))


def _state_of(launched: Sequence[Loaded]) -> list[tuple[int, list[int]]]:
    """Return the results' fingerprint of each of these cases, and the digests of its inputs."""
    known = iter(_digests([array for loaded in launched for array in (*loaded.results, *loaded.inputs)]))
    return [
        (_fingerprint([next(known) for _ in loaded.results]), [next(known) for _ in loaded.inputs])
        for loaded in launched
    ]


def fingerprint_of(loaded: Loaded) -> int:
    """Return a number that is equal for results and guard bands that are equal to the bit; 0 without any result."""
    return _fingerprint(_digests(loaded.results))


def _fingerprint(digests_of_results: Sequence[int]) -> int:
    first = digests_of_results[0] if digests_of_results else 0
    return hash(tuple(digests_of_results)) % 2**64 if len(digests_of_results) > 1 else first


def are_right(launched: Sequence[Loaded], shared: Shared, fingerprints: Sequence[int | None]) -> bool:
    """Return whether results are known to be right to the bit, and whether nothing else was written.

    Where it is false, ``check_last_result`` compares each, which may be right all the same. ``fingerprints``: those of
    right results, in the order of the launched cases; None where there is none.
    """
    if any(loaded.case.family.prints for loaded in launched):
        return False
    return all(
        now == fingerprint and _wrote_nothing_else(loaded, inputs, shared)
        for loaded, fingerprint, (now, inputs) in zip(launched, fingerprints, _state_of(launched), strict=True)
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
    ((fingerprint, inputs),) = _state_of([loaded])
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
    elif fingerprint is None or fingerprint_of(loaded) != fingerprint:
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
    lines = by_name.call(case.family.prints, case.given)
    wanted = np.sort(np.array(lines if of_host else lines[1:]))
    if got.shape != wanted.shape:
        return [f"{case.id} printed {len(got):,} lines, not {len(wanted):,}"]
    mismatch = compare(got, wanted, 0.0)
    return [explain(case, LINE, mismatch, _again(case))] if mismatch else []


def _again(case: Case) -> str:
    return f"python -m warpwatch run {case.id} --seed {TIMED_SEED}"


def _mismatches(loaded: Loaded, shared: Shared) -> list[str]:
    """Compare the whole of small results, or the first, last and some random rows of a large one."""
    case, rows, right = loaded.case, shared.rows, shared.right
    if right is None:  # another process had computed them
        right = _right_results(case, random_inputs(case, TIMED_SEED))
    results = {array.name: array.read_sample(rows) for array in loaded.results}
    mismatches = compare_all(results, right, rows).items()
    return [explain(case, name, mismatch, _again(case), notes=loaded.notes) for name, mismatch in mismatches]


def _raise(problems: Sequence[str], late: str = "") -> None:
    if problems:
        raise WrongResult("\n".join(filter(None, [late, *problems])))
