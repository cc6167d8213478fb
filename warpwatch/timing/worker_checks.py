"""Is what is timed right? Runs where the kernels run: operands, the reference, and the comparisons with it.

A result is proved before the first sample and once more after the last, because a kernel may be right on its first
launch and wrong on its hundredth. Operands are looked at each time: a kernel that changes them is wrong whatever its
result, and the next kernel must not be blamed for it.
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

WHOLE_ELEMENTS = 2**23  # a result of up to so many elements is compared whole, a larger one on some rows
SAMPLED_ROWS = 64
# Where arrays lie in memory moves the time of a small kernel by per cents, and from process to process: so
# small arrays are there several times, and samples go round among the copies.
PLACES, SMALL_BYTES = 4, 2**25
SEED = 20  # every run times the same numbers


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What the cases of one shape share: operands in the machine's memory, and the reference."""

    key: tuple[object, ...]
    places: tuple[tuple[GuardedArray, ...], ...]  # copies of the operands
    digests: tuple[int, ...]  # of each operand as it was uploaded
    rows: Array | slice  # of the result, that are compared
    reference: Array | None = None  # None where there is nothing to prove
    bound: Array | float = 0.0

    def free(self) -> None:
        for array in chain.from_iterable(self.places):
            array.free()


def sharing_key(case: Case) -> tuple[object, ...]:
    """What two cases must have in common to share operands and reference."""
    return (case.family.name, case.dtype, case.shape, case.variant.on_host)


def share(machine: Machine, case: Case, reference: bool) -> Shared:
    """Operands in the machine's memory and, if ``reference``, what NumPy makes of them. Raises DeviceError."""
    copies, rows = PLACES if case.array_bytes <= SMALL_BYTES and not case.variant.on_host else 1, _compared_rows(case)
    in_host = copies if case.variant.on_host or machine.finds_faults else 0
    memory.require(case, memory.peak_bytes(case, copies=in_host, rows=None if isinstance(rows, slice) else len(rows)))
    require_memory(machine, case)
    host = random_operands(case, SEED)
    places = tuple(upload(machine, case, host) for _ in range(copies))
    digests = tuple(digest(array) for array in places[0])
    shared = Shared(key=sharing_key(case), places=places, digests=digests, rows=rows)
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
    """Whether operands and their guard bands are as they were uploaded."""
    return not any(_damage_of(place, shared) for place in shared.places)


def restore(shared: Shared, case: Case) -> None:
    """Make operands and their guard bands what they were."""
    host = random_operands(case, SEED)
    for place in shared.places:
        for array, values in zip(place, host, strict=True):
            array.clear()
            array.write(values)


def _damage_of(place: Sequence[GuardedArray], shared: Shared) -> list[str]:
    changed = [f"changed its operand {a.name}" for a, d in zip(place, shared.digests, strict=True) if digest(a) != d]
    return [*filter(None, (array.overrun() for array in place)), *changed]


def damage(loaded: Loaded, shared: Shared) -> list[str]:
    """What the launches of a case wrote where they must not, a sentence each."""
    beyond = loaded.result.overrun() if loaded.result else None
    return [f"{loaded.case.id} {s}" for s in (*_damage_of(loaded.operands, shared), beyond) if s]


def fingerprint(loaded: Loaded) -> int:
    """A number that is the same for a result that is the same to the bit; 0 where there is no array."""
    return digest(loaded.result) if loaded.result else 0


def prove(loaded: Loaded, shared: Shared) -> int:
    """Launch once and compare with NumPy. Returns the result's fingerprint. Raises WrongResult or DeviceError."""
    if loaded.result is None:
        _raise(loaded.case, [*damage(loaded, shared), *_wrong_lines(loaded.case, launch_once(loaded), of_host=True)])
        return 0
    launch_and_wait(loaded)
    _raise(loaded.case, damage(loaded, shared), _mismatch(loaded, shared))
    return fingerprint(loaded)


def prove_again(loaded: Loaded, shared: Shared, proved: int, printed: Sequence[str] = ()) -> None:
    """Compare what the last timed launch left with NumPy, and look at the operands. Raises WrongResult or DeviceError.

    ``proved``: the fingerprint of a result of this case that was right; one that is the same to the bit is not
    compared again. ``printed``: the lines of the last launch, where the kernel prints.
    """
    case, mismatch = loaded.case, None
    problems = damage(loaded, shared)
    if loaded.result is None:
        problems += _wrong_lines(case, np.sort(np.array(printed)), of_host=False)
    elif fingerprint(loaded) != proved:
        if shared.reference is None:
            shared = _with_reference(shared, case, random_operands(case, SEED))
        mismatch = _mismatch(loaded, shared)
    late = f"{case.id} was right when it was launched once, and is wrong after the launches that were timed"
    _raise(case, problems, mismatch, late)


def prove_fresh(loaded: Loaded, shared: Shared, proved: int) -> None:
    """Launch once more, on a result that is poison, and compare as ``prove_again``.

    Nothing may come between samples, so what an earlier one left may be what is compared after the last: a kernel that
    no longer writes shows only here.
    """
    poison([loaded])
    if loaded.result is None:
        prove(loaded, shared)
        return
    launch_and_wait(loaded)
    prove_again(loaded, shared, proved)


def poison(loaded: Sequence[Loaded]) -> None:
    """Make results what they were before anything was written, so that an old one is not taken for a new one."""
    for each in loaded:
        if each.result:
            each.result.poison()


def _wrong_lines(case: Case, got: Array, of_host: bool) -> list[str]:
    """What is wrong with the lines that were printed; ``of_host``: the host's own line is among them."""
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
    """The whole of a small result, the first, last and random rows of a large one."""
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
