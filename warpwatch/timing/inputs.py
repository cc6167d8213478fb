"""Inputs and right results of timed cases: the cases of a shape share them, and those of later shapes are made ahead.

A thread makes them in the worker process while the GPU runs the case at hand. The host is idle then, but for a launch
every 0.1 ms, and the times are the GPU's: a launch waits behind a held stream until all of its sample is queued
(timer.py). Times of the host would change, so nothing is made while those are taken. A family's own function that
computes in Python, and not in NumPy, takes turns with the launches: there are fewer samples beside it
(devices/worker.py says how long a turn is).
"""

from __future__ import annotations

import contextlib
import functools
import secrets
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeAlias

import numpy as np

from warpwatch.catalogue import named_arguments
from warpwatch.catalogue.arrays import ALL_ROWS, Array
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.declaration import TIMED_SEED
from warpwatch.catalogue.draws import Draw
from warpwatch.catalogue.expected import Expected
from warpwatch.catalogue.inputs import random_inputs
from warpwatch.devices import host_memory
from warpwatch.devices.digest import digests
from warpwatch.devices.evaluate import nothing_shown
from warpwatch.devices.machine import DeviceError, GuardedArray, Machine
from warpwatch.devices.mismatch import WrongResult
from warpwatch.devices.references import drawn, expected, is_slow
from warpwatch.devices.runner import require_memory, upload
from warpwatch.devices.worker import machine

WHOLE_ELEMENTS = 2**23  # a result of at most this many elements is compared whole, a larger one on some of its rows
SAMPLED_ROWS = 64
# The addresses of its arrays change the time of a small kernel by several per cent, differently in each process. So
# small arrays are uploaded several times, and samples take the copies in turn.
COPIES, SMALL_BYTES = 4, 2**25
# Packages by which a family's own functions may use the GPU: they would run there beside the kernel that is timed.
USE_GPUS = frozenset(
    {
        "cuda",
        "cudf",
        "cuml",
        "cupy",
        "cutlass",
        "jax",
        "mxnet",
        "numba",
        "paddle",
        "taichi",
        "tensorflow",
        "torch",
        "triton",
        "warp",
    }
)
SEEDS = (TIMED_SEED, TIMED_SEED + 1)  # of the inputs that samples take in turn: what keeps a result shows it then
# Right results of inputs that no sample has are made where those of the others take at most so long together: a small
# shape's, of which each variant then proves a launch (probes.py).
UNSEEN_SECONDS = 0.2
SHAPES_AHEAD = 2  # with one, large shapes were waited for, 0.1 to 0.2 s each (H100)
MEMORY_FACTOR = 2  # something is made ahead where this many times the memory that it needs is available


@dataclass(frozen=True, kw_only=True)
class Material:
    """Inputs of a case in the host's memory and its right results by name: what its kernels are checked with.

    ``seed``: of the inputs. ``right``: None where nothing is to be checked. ``is_unseen``: no sample has the inputs.
    """

    seed: int
    inputs: Mapping[str, Array]
    right: Mapping[str, Expected] | None = None
    is_unseen: bool = False


def material(case: Case, reference: bool, seed: int = TIMED_SEED) -> Material:
    """Draw the inputs of a case, and compute its right results if ``reference`` is true."""
    inputs, rows = drawn(case, seed), compared_rows(case)
    if not reference:
        return Material(seed=seed, inputs=inputs)
    right = {} if case.family.prints else expected(case, inputs, ALL_ROWS if rows is None else rows)
    return Material(seed=seed, inputs=inputs, right=right)


def materials(case: Case, reference: bool, sets: int) -> tuple[Material, ...]:
    """Return the material of so many of a case's seeds, and of small arrays that of a seed which nobody knows."""
    begin = time.perf_counter()
    made = tuple(material(case, reference, seed) for seed in seeds_of(case)[:sets])
    is_dear = time.perf_counter() - begin > UNSEEN_SECONDS or is_slow(case)  # which are kept on the disk
    if reference and _has_unseen(case, sets) and not is_dear:
        made += (replace(material(case, reference, secrets.randbits(32)), is_unseen=True),)
    return made


def _has_unseen(case: Case, sets: int) -> bool:
    """Tell whether a copy of a case's arrays, which hold so many sets of inputs, can have others that no sample has."""
    return not case.family.prints and case.array_bytes <= SMALL_BYTES and sets == len(SEEDS)


def seeds_of(case: Case) -> tuple[int, ...]:
    """Return the seeds of the inputs that samples of a case take in turn.

    One where there is nothing to draw, and where a draw chooses the shapes: those of another seed may be others.
    """
    inputs = case.inputs
    return SEEDS if inputs and not any(array.is_drawn for array in inputs) else SEEDS[:1]


def shape_key(case: Case) -> tuple[object, ...]:
    """Return a key that is equal for cases of the same inputs and right results."""
    return (case.family.name, case.dtype, case.shape)


def sharing_key(case: Case) -> tuple[object, ...]:
    """Return a key that is equal for cases that can share them where they lie, in the GPU's memory or the host's."""
    return (*shape_key(case), case.variant.on_host)


def host_bytes(machine: Machine, case: Case, sets: int) -> int:
    """Estimate the bytes of the host's memory that so many inputs and right results of a case take at most."""
    rows, sets = compared_rows(case), sets + _has_unseen(case, sets)
    in_host = _copies(machine, case) if case.variant.on_host or machine.finds_faults else 0
    return host_memory.peak_bytes(case, copies=in_host, rows=None if rows is None else len(rows), sets=sets)


def sets_in(machine: Machine, case: Case) -> int:
    """Return how many sets of inputs samples of a case take in turn on a machine, as far as there is memory now."""
    return min(_copies(machine, case), len(seeds_of(case)))


def _copies(machine: Machine, case: Case) -> int:
    """Return how often the arrays of a case are uploaded: once for each set of inputs where both fit into memory."""
    if case.variant.on_host:
        return 1
    if case.array_bytes <= SMALL_BYTES:
        return COPIES
    sets = len(seeds_of(case))
    with contextlib.suppress(DeviceError):
        machine.require(sets * case.array_bytes)
        return sets
    return 1


@functools.cache
def _rows_seed() -> int:
    """Return the seed of the rows that this process compares: nobody knows them before."""
    return secrets.randbits(64)


def compared_rows(case: Case, most_bytes: int | None = None) -> Array | None:
    """Choose the rows that are compared: some of large results of equal height, whose reference can compute them alone.

    ``most_bytes``: of inputs from which on small results have rows too. None means all of them.
    """
    in_parts = named_arguments.takes(case.family.reference, "part")
    is_large = most_bytes is not None and sum(array.nbytes for array in case.inputs) > most_bytes
    heights = {array.shape[0] for array in case.results}
    large = is_large or any(array.size > WHOLE_ELEMENTS for array in case.results)
    if not in_parts or len(heights) != 1 or not large:
        return None
    (height,) = heights
    if height <= SAMPLED_ROWS:
        return None
    inside = 2 + np.random.default_rng(_rows_seed()).choice(height - 4, SAMPLED_ROWS - 4, replace=False)
    return np.sort(np.concatenate([[0, 1, height - 2, height - 1], inside]))


def digests_of(arrays: Sequence[GuardedArray]) -> list[int]:
    """Return the digest of each of these arrays of one machine with its guard bands."""
    return digests(arrays[0].machine, [array.with_bands for array in arrays]) if arrays else []


@dataclass(kw_only=True)
class InputSet:
    """Inputs of one seed, as they were uploaded, and their right results.

    ``digests``: of each input with its guard bands. ``rows``: of the result that are compared, None for all. ``right``:
    the results by name; None until they are needed. ``accepted``: fingerprints of results that lay within
    their bounds and whose guard bands were unharmed: those that are equal to the bit are not compared again.
    """

    seed: int
    digests: tuple[int, ...]
    rows: Array | None
    right: Mapping[str, Expected] | None = None
    accepted: set[int] = field(default_factory=set)


Make: TypeAlias = Callable[[Case, bool, int], tuple[Material, ...]]  # as ``materials``


@dataclass(frozen=True, kw_only=True)
class Shared:
    """Inputs in the machine's memory and the right results, which the cases of one shape share.

    ``copies``: the inputs, once for each copy. ``sets``: what the copies hold in turn. ``unseen``: of inputs that no
    sample has, where it was made.
    """

    key: tuple[object, ...]
    copies: tuple[tuple[GuardedArray, ...], ...]
    sets: tuple[InputSet, ...]
    unseen: Material | None = None

    @classmethod
    def upload(
        cls,
        machine: Machine,
        case: Case,
        reference: bool,
        make: Make = materials,
    ) -> Shared:
        """Upload the inputs of a case, with its right results if ``reference`` is true. Raises DeviceError.

        ``make``: called for both once it is known that there is memory for them.
        """
        count, wanted = _copies(machine, case), sets_in(machine, case)
        host_memory.require(case, host_bytes(machine, case, wanted))
        require_memory(machine, case)
        rows, made = compared_rows(case), make(case, reference, wanted)
        prepared = [each for each in made if not each.is_unseen][:wanted]
        draws = [Draw(inputs=each.inputs, right=each.right) for each in prepared if each.right and rows is None]
        if draws and (nothing := nothing_shown(case, draws)):
            raise WrongResult(f"{case.id}: {nothing}")
        copies = tuple(upload(machine, case, prepared[i % len(prepared)].inputs) for i in range(count))
        sets = tuple(
            InputSet(seed=each.seed, digests=tuple(digests_of(copies[i])), rows=rows, right=each.right)
            for i, each in enumerate(prepared)
        )
        unseen = next((each for each in made if each.is_unseen), None)
        return cls(key=sharing_key(case), copies=copies, sets=sets, unseen=unseen)

    def set_of(self, copy: int) -> InputSet:
        """Return what a copy holds, by its number."""
        return self.sets[copy % len(self.sets)]

    @property
    def has_right(self) -> bool:
        """True where the right results are known."""
        return all(each.right is not None for each in self.sets)

    def is_intact(self) -> bool:
        """Return whether inputs and their guard bands are as they were uploaded."""
        right = chain.from_iterable(self.set_of(i).digests for i in range(len(self.copies)))
        return digests_of([*chain.from_iterable(self.copies)]) == [*right]

    def restore(self, case: Case) -> None:
        """Upload the inputs and their guard bands again."""
        for i, copy in enumerate(self.copies):
            host = random_inputs(case, self.set_of(i).seed)
            for array in copy:
                array.set(host[array.name])

    def free(self) -> None:
        """Give the memory of all copies back."""
        for array in chain.from_iterable(self.copies):
            array.free()


@dataclass(frozen=True, kw_only=True)
class Job:
    """Material of ``sets`` that is being made, or was. ``size``: bytes of the host's memory that it takes at most."""

    future: Future[tuple[Material, ...]]
    sets: int
    size: int


@dataclass(kw_only=True)
class Inputs:
    """Inputs of one process: those of the last case, and the material of later ones, made one after the other.

    ``families``: names of the families whose functions have run in this process, which shows what packages they use.
    """

    make: Make = materials
    families: set[str] = field(default_factory=set)
    shared: Shared | None = None
    _announced: dict[object, tuple[Case, bool]] = field(default_factory=dict)
    _jobs: dict[object, Job] = field(default_factory=dict)
    _pool: ThreadPoolExecutor | None = None

    def share(self, case: Case, reference: bool = True) -> Shared:
        """Return the uploaded inputs of a case, with its right results if ``reference`` is true. Raises DeviceError.

        They are those of the last case where both can share them and that case has not changed them.
        """
        kept, key = self.shared, _key(case, reference)
        same = kept is not None and kept.key == sharing_key(case) and (kept.has_right or not reference)
        # It is checked that a call does not wait for the GPU, so that nothing may delay it. On the host times would
        # change, and what a reference prints would be among a kernel's lines.
        if case.variant.call or case.variant.on_host or case.family.prints:
            self.wait()
        if kept is not None and same and kept.is_intact():
            return kept
        self.release()
        where = machine(case.variant.on_host)
        self.make_room(case, reference, host_bytes(where, case, sets_in(where, case)))
        try:
            self.shared = Shared.upload(where, case, reference, self.take)
        except BaseException:
            self._forget([key])  # it may have failed before it took anything
            raise
        return self.shared

    def release(self, keep: tuple[object, ...] | None = None) -> None:
        """Give the last case's memory back, unless its sharing key is ``keep``."""
        if self.shared and self.shared.key != keep:
            self.shared.free()
            self.shared = None

    def announce(self, cases: Sequence[Case], reference: bool) -> None:
        """Name the cases whose material ``begin`` makes, in their order. ``reference``: with their right results."""
        self._announced = {_key(case, reference): (case, reference) for case in cases}

    def begin(self, machine: Machine) -> None:
        """Begin with the announced cases, up to the first that does not fit or whose making would be a risk."""
        # An exception holds arrays, and the case itself will fail in the same way.
        self._forget([key for key, job in self._jobs.items() if job.future.done() and job.future.exception()])
        if USE_GPUS & sys.modules.keys():
            return
        for key, (case, reference) in self._announced.items():
            if key in self._jobs:
                continue
            # A serial variant, which takes one, leaves them to the kernels of its shape.
            sets = len(seeds_of(case)) if case.variant.on_host else sets_in(machine, case)
            size = host_bytes(machine, case, sets)
            short = MEMORY_FACTOR * (size + self._unfinished()) > host_memory.available()
            if len(self._jobs) >= SHAPES_AHEAD or case.family.name not in self.families or short:
                return
            self._pool = self._pool or ThreadPoolExecutor(1, "ahead")
            self._jobs[key] = Job(future=self._pool.submit(self.make, case, reference, sets), sets=sets, size=size)

    def _unfinished(self) -> int:
        """Return the bytes that may still be taken for what is being made."""
        return sum(job.size for job in self._jobs.values() if not job.future.done())

    def wait(self) -> None:
        """Wait until nothing is being made; what has not begun is left to the next ``begin``.

        The wait counts as a part of the call to the worker process that waits.
        """
        self._drop([key for key, job in self._jobs.items() if job.future.cancel()])
        for job in self._jobs.values():
            job.future.exception()

    def make_room(self, case: Case, reference: bool, needed: int) -> None:
        """Wait for the material of a case, and drop that of others: what is not announced, or all if memory is short.

        ``needed``: the bytes of the host's memory that the case takes.
        """
        own = _key(case, reference)
        if own in self._jobs and self._jobs[own].future.exception():
            self._drop([own])
        self._drop(self._jobs.keys() - self._announced.keys() - {own})
        if needed + self._unfinished() > host_memory.available():
            self._drop(self._jobs.keys() - {own})
        if needed > host_memory.available():
            self._drop([own])

    def _forget(self, keys: Collection[object]) -> None:
        """Drop material that nobody will take, and its announcement."""
        self._announced = {key: case for key, case in self._announced.items() if key not in keys}
        self._drop(keys)

    def _drop(self, keys: Collection[object]) -> None:
        """Give back the memory of what was made. What is being made is waited for: it takes memory until then."""
        jobs = [self._jobs.pop(key) for key in keys if key in self._jobs]
        for job in [job for job in jobs if not job.future.cancel()]:  # all are cancelled before one is waited for
            job.future.exception()

    def take(self, case: Case, reference: bool, sets: int) -> tuple[Material, ...]:
        """Return material of so many sets: that which was made ahead, or else it is made now. Raises as ``make``.

        A serial variant comes before the kernels of its shape, which need the same material, so that what was made
        ahead is kept for them.
        """
        key = _key(case, reference)
        self.families.add(case.family.name)
        self._announced.pop(key, None)  # what is needed now is not needed a second time
        job = self._jobs.pop(key, None)
        if job is None or job.future.exception() or job.sets < sets:
            del job  # with its arrays
            self.wait()
            return self.make(case, reference, sets)
        if case.variant.on_host:
            self._jobs = {key: job, **self._jobs}
        return job.future.result()


def _key(case: Case, reference: bool) -> object:
    return (*shape_key(case), reference)
