"""Checks, in the worker process, that what is timed is right: holds the operands and the reference, and compares.

A result is checked before the first sample and once more after the last, because a kernel may be right on its first
launch and wrong on its hundredth. The operands are checked each time: a kernel that changes them is wrong whatever its
result is, and the next kernel must not be blamed for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import prod

import numpy as np

from warpwatch.catalogue.declaration import ALL_ROWS, Array, Case
from warpwatch.devices import memory
from warpwatch.devices.check import Mismatch, WrongResult, compare, explain
from warpwatch.devices.digest import digest
from warpwatch.devices.machine import GuardedArray, Machine
from warpwatch.devices.runner import Loaded, launch_and_wait, launch_once, random_operands, require_memory, upload

WHOLE_ELEMENTS = 2**23  # a result of at most this many elements is compared whole, a larger one on some of its rows
SAMPLED_ROWS = 64
# The addresses of its arrays change the time of a small kernel by several per cent, differently in each process. So
# small arrays are uploaded several times, and samples take the copies in turn.
COPIES, SMALL_BYTES = 4, 2**25
SEED = 20  # of the operands, so that every run times the same numbers


@dataclass(frozen=True, kw_only=True)
class Shared:
    """Operands in the machine's memory and the reference, which the cases of one shape share.

    ``copies``: the operands, once for each copy. ``digests``: of each operand as it was uploaded. ``rows``: the rows of
    the result that are compared. ``reference``: None where nothing is to be checked.
    """

    key: tuple[object, ...]
    copies: tuple[tuple[GuardedArray, ...], ...]
    digests: tuple[int, ...]
    rows: Array | slice
    reference: Array | None = None
    bound: Array | float = 0.0

    def free(self) -> None:
        """Give the memory of all copies back."""
        for array in chain.from_iterable(self.copies):
            array.free()


def sharing_key(case: Case) -> tuple[object, ...]:
    """Return a key that is equal for cases that can share operands and reference."""
    return (case.family.name, case.dtype, case.shape, case.variant.on_host)


def share(machine: Machine, case: Case, reference: bool) -> Shared:
    """Upload the operands of a case, and compute its reference if ``reference`` is true. Raises DeviceError."""
    count, rows = COPIES if case.array_bytes <= SMALL_BYTES and not case.variant.on_host else 1, _compared_rows(case)
    in_host = count if case.variant.on_host or machine.finds_faults else 0
    memory.require(case, memory.peak_bytes(case, copies=in_host, rows=None if isinstance(rows, slice) else len(rows)))
    require_memory(machine, case)
    host = random_operands(case, SEED)
    copies = tuple(upload(machine, case, host) for _ in range(count))
    digests = tuple(digest(array) for array in copies[0])
    shared = Shared(key=sharing_key(case), copies=copies, digests=digests, rows=rows)
    return _with_reference(shared, case, host) if reference else shared


def _compared_rows(case: Case) -> Array | slice:
    if not case.family.result or prod(case.family.result(case.shape)[1]) <= WHOLE_ELEMENTS:
        return ALL_ROWS
    height = case.family.result(case.shape)[1][0]
    inside = np.random.default_rng(SEED).choice(height, SAMPLED_ROWS - 4, replace=False)
    return np.unique(np.concatenate([[0, 1, height - 2, height - 1], inside]))


def _with_reference(shared: Shared, case: Case, host: Sequence[Array]) -> Shared:
    bound, wanted = case.family.bound(host, shared.rows), case.family.reference(host, shared.rows)
    return replace(shared, reference=wanted, bound=bound)


def is_intact(shared: Shared) -> bool:
    """Say whether operands and their guard bands are as they were uploaded."""
    return not any(_damage_of(copy, shared) for copy in shared.copies)


def restore(shared: Shared, case: Case) -> None:
    """Upload the operands and their guard bands again."""
    host = random_operands(case, SEED)
    for copy in shared.copies:
        for array, values in zip(copy, host, strict=True):
            array.clear()
            array.write(values)


def _damage_of(copy: Sequence[GuardedArray], shared: Shared) -> list[str]:
    changed = [f"changed its operand {a.name}" for a, d in zip(copy, shared.digests, strict=True) if digest(a) != d]
    return [*filter(None, (array.overrun() for array in copy)), *changed]


def damage(loaded: Loaded, shared: Shared) -> list[str]:
    """Return what the launches of a case wrote where they must not, a sentence each."""
    beyond = loaded.result.overrun() if loaded.result else None
    return [f"{loaded.case.id} {s}" for s in (*_damage_of(loaded.operands, shared), beyond) if s]


def fingerprint_of(loaded: Loaded) -> int:
    """Return a number that is equal for results that are equal to the bit; 0 where the kernel prints."""
    return digest(loaded.result) if loaded.result else 0


def check_result(loaded: Loaded, shared: Shared) -> int:
    """Launch once, compare with NumPy, and return the result's fingerprint. Raises WrongResult or DeviceError."""
    if loaded.result is None:
        _raise(loaded.case, [*damage(loaded, shared), *_wrong_lines(loaded.case, launch_once(loaded), of_host=True)])
        return 0
    launch_and_wait(loaded)
    _raise(loaded.case, damage(loaded, shared), _mismatch(loaded, shared))
    return fingerprint_of(loaded)


def check_last_result(loaded: Loaded, shared: Shared, fingerprint: int, printed: Sequence[str] = ()) -> None:
    """Compare the result of the last timed launch with NumPy, and check the operands.

    ``fingerprint``: of a result of this case that was right; a result that is equal to the bit is not compared again.
    ``printed``: the lines of the last launch, where the kernel prints. Raises WrongResult or DeviceError.
    """
    case, mismatch = loaded.case, None
    problems = damage(loaded, shared)
    if loaded.result is None:
        problems += _wrong_lines(case, np.sort(np.array(printed)), of_host=False)
    elif fingerprint_of(loaded) != fingerprint:
        if shared.reference is None:
            shared = _with_reference(shared, case, random_operands(case, SEED))
        mismatch = _mismatch(loaded, shared)
    late = f"{case.id} was right when it was launched once, and is wrong after the launches that were timed"
    _raise(case, problems, mismatch, late)


def check_fresh_launch(loaded: Loaded, shared: Shared, fingerprint: int) -> None:
    """Launch once more on a poisoned result, and compare as ``check_last_result`` does.

    Nothing can be poisoned between samples, so the result after the last sample may be that of an earlier one. Only
    this launch shows a kernel that no longer writes.
    """
    poison([loaded])
    if loaded.result is None:
        check_result(loaded, shared)
        return
    launch_and_wait(loaded)
    check_last_result(loaded, shared, fingerprint)


def poison(loaded: Sequence[Loaded]) -> None:
    """Fill the results with poison, so that an old result is not taken for a new one."""
    for each in loaded:
        if each.result:
            each.result.poison()


def _wrong_lines(case: Case, got: Array, of_host: bool) -> list[str]:
    """Return the faults of the lines that were printed. ``of_host``: the host's own line is among them."""
    assert case.family.prints
    lines = case.family.prints(case.build.block, case.shape)
    wanted = np.sort(np.array(lines if of_host else lines[1:]))
    if got.shape != wanted.shape:
        return [f"{case.id} printed {len(got):,} lines, not {len(wanted):,}"]
    mismatch = compare(got, wanted, 0.0)
    return [explain(case, mismatch, _again(case))] if mismatch else []


def _again(case: Case) -> str:
    return f"python -m warpwatch run {case.id} --seed {SEED}"


def _mismatch(loaded: Loaded, shared: Shared) -> Mismatch | None:
    """Compare the whole of a small result, or the first, last and some random rows of a large one."""
    result, rows = loaded.result, shared.rows
    assert result is not None
    assert shared.reference is not None
    if isinstance(rows, slice):
        return compare(result.read(), shared.reference, shared.bound)
    got = np.concatenate([result.read_rows(int(row), int(row) + 1) for row in rows])
    return compare(got, shared.reference, shared.bound, rows)


def _raise(case: Case, problems: list[str], mismatch: Mismatch | None = None, late: str = "") -> None:
    if mismatch:
        problems = [*problems, explain(case, mismatch, _again(case))]
    if problems:
        raise WrongResult("\n".join(filter(None, [late, *problems])))
