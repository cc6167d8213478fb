"""Prepares a later case in the worker process while the GPU runs this one: draws its inputs, computes its results.

The host is idle then, but for a launch every 0.1 ms, and the times are the GPU's: a launch waits behind a held stream
until all of its sample is queued (timer.py). Times of the host would change, so nothing is made while those are taken.
A family's own function that computes in Python, and not in NumPy, takes turns with the launches: there are fewer
samples beside it (devices/worker.py says how long a turn is).
"""

from __future__ import annotations

import sys
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from warpwatch.catalogue.cases import Case
from warpwatch.devices import memory
from warpwatch.devices.machine import Machine
from warpwatch.timing.worker_checks import Make, Material, host_bytes, material, shape_key

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
MEMORY_FACTOR = 2  # something is made ahead where this many times the memory that it needs is available


@dataclass(kw_only=True)
class Ahead:
    """Makes the material of one case that comes later, in a thread.

    ``families``: names of the families whose functions have run in this process, which shows what packages they use.
    """

    make: Make = material
    families: set[str] = field(default_factory=set)
    _announced: tuple[Case, bool] | None = None
    _job: tuple[object, Future[Material]] | None = None
    _pool: ThreadPoolExecutor | None = None

    def announce(self, case: Case, reference: bool) -> None:
        """Name the case whose material ``begin`` makes. ``reference``: with its right results."""
        self._announced = (case, reference)

    def begin(self, machine: Machine) -> None:
        """Begin with the announced case, unless something is being made, or making it would be a risk."""
        announced, self._announced = self._announced, None
        if announced is None or self._job or announced[0].family.name not in self.families:
            return
        if USE_GPUS & sys.modules.keys() or MEMORY_FACTOR * host_bytes(machine, announced[0]) > memory.available():
            return
        self._pool = self._pool or ThreadPoolExecutor(1, "ahead")
        self._job = (_key(*announced), self._pool.submit(self.make, *announced))

    def wait(self) -> None:
        """Wait until nothing is being made. The wait counts as a part of the call to the worker process that waits."""
        if self._job:
            self._job[1].exception()

    def make_room(self, case: Case, reference: bool, needed: int) -> None:
        """Wait until nothing is being made, and drop what this case cannot use, or has no memory for beside its own.

        ``needed``: the bytes of the host's memory that the case takes.
        """
        self.wait()
        if self._job is None:
            return
        # The exception of one that failed holds the arrays that were made until then.
        if self._job[0] != _key(case, reference) or self._job[1].exception() or needed > memory.available():
            self._job = None

    def take(self, case: Case, reference: bool) -> Material:
        """Return the material of a case: that which was made ahead, or else it is made now. Raises as ``make``.

        A serial variant comes before the kernels of its shape, which need the same material, so that what was made
        ahead is kept for them.
        """
        self.wait()
        job, self._job = self._job, None
        self.families.add(case.family.name)
        if self._announced and _key(*self._announced) == _key(case, reference):
            self._announced = None  # it is not needed a second time
        if job is None or job[1].exception() or job[0] != _key(case, reference):
            del job  # with its arrays
            return self.make(case, reference)
        if case.variant.on_host:
            self._job = job
        return job[1].result()


def _key(case: Case, reference: bool) -> object:
    return (*shape_key(case), reference)
