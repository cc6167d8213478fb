"""Prepares later cases in the worker process while the GPU runs this one: draws their inputs, computes their results.

The host is idle then, but for a launch every 0.1 ms, and the times are the GPU's: a launch waits behind a held stream
until all of its sample is queued (timer.py). Times of the host would change, so nothing is made while those are taken.
A family's own function that computes in Python, and not in NumPy, takes turns with the launches: there are fewer
samples beside it (devices/worker.py says how long a turn is).
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from warpwatch.catalogue.cases import Case
from warpwatch.devices import host_memory
from warpwatch.devices.machine import Machine
from warpwatch.timing.checks import Make, Material, host_bytes, material, shape_key

# Packages by which a family's own functions may use the GPU: they would run there beside the kernel that is timed.
USE_GPUS = frozenset(
    {
        "cuda",
        "cudf",
        "cuml",
        "cupy",
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
SHAPES_AHEAD = 2  # with one, large shapes were waited for, 0.1 to 0.2 s each (H100)
MEMORY_FACTOR = 2  # something is made ahead where this many times the memory that it needs is available


@dataclass(frozen=True, kw_only=True)
class Job:
    """Material that is being made, or was. ``size``: bytes of the host's memory that this takes at most."""

    future: Future[Material]
    size: int


@dataclass(kw_only=True)
class Ahead:
    """Makes the material of cases that come later, one after the other, in a thread.

    ``families``: names of the families whose functions have run in this process, which shows what packages they use.
    """

    make: Make = material
    families: set[str] = field(default_factory=set)
    _announced: dict[object, tuple[Case, bool]] = field(default_factory=dict)
    _jobs: dict[object, Job] = field(default_factory=dict)
    _pool: ThreadPoolExecutor | None = None

    def announce(self, cases: Sequence[Case], reference: bool) -> None:
        """Name the cases whose material ``begin`` makes, in their order. ``reference``: with their right results."""
        self._announced = {_key(case, reference): (case, reference) for case in cases}

    def begin(self, machine: Machine) -> None:
        """Begin with the announced cases, up to the first that does not fit or whose making would be a risk."""
        # An exception holds arrays, and the case itself will fail in the same way.
        for key in [key for key, job in self._jobs.items() if job.future.done() and job.future.exception()]:
            self._forget(key)
        if USE_GPUS & sys.modules.keys():
            return
        for key, (case, reference) in self._announced.items():
            if key in self._jobs:
                continue
            size = host_bytes(machine, case)
            short = MEMORY_FACTOR * (size + self._unfinished()) > host_memory.available()
            if len(self._jobs) >= SHAPES_AHEAD or case.family.name not in self.families or short:
                return
            self._pool = self._pool or ThreadPoolExecutor(1, "ahead")
            self._jobs[key] = Job(future=self._pool.submit(self.make, case, reference), size=size)

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

    def forget(self, case: Case, reference: bool) -> None:
        """Drop the material of a case that will not take it, and its announcement."""
        self._forget(_key(case, reference))

    def _forget(self, key: object) -> None:
        self._announced.pop(key, None)
        self._drop([key])

    def _drop(self, keys: Collection[object]) -> None:
        """Give back the memory of what was made. What is being made is waited for: it takes memory until then."""
        jobs = [self._jobs.pop(key) for key in keys if key in self._jobs]
        for job in [job for job in jobs if not job.future.cancel()]:  # all are cancelled before one is waited for
            job.future.exception()

    def take(self, case: Case, reference: bool) -> Material:
        """Return the material of a case: that which was made ahead, or else it is made now. Raises as ``make``.

        A serial variant comes before the kernels of its shape, which need the same material, so that what was made
        ahead is kept for them.
        """
        key = _key(case, reference)
        self.families.add(case.family.name)
        self._announced.pop(key, None)  # what is needed now is not needed a second time
        job = self._jobs.pop(key, None)
        if job is None or job.future.exception():
            del job  # with its arrays
            self.wait()
            return self.make(case, reference)
        if case.variant.on_host:
            self._jobs = {key: job, **self._jobs}
        return job.future.result()


def _key(case: Case, reference: bool) -> object:
    return (*shape_key(case), reference)
