"""Starts spare processes for pairs, and has them open the GPU, before they are needed to measure."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from warpwatch.catalogue.declaration import Family
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.worker import Worker
from warpwatch.timing.parent_samples import Measured
from warpwatch.timing.worker_samples import get_ready
from warpwatch.verdict.rule import MIN_PROCESSES

SCREENING_PROCESSES = 3  # the processes that measure every case
MAX_PROCESSES = 8  # the processes that measure a case that is hard to decide
# What a process holds of the GPU's memory that has opened it and measured nothing (647 MiB on an H200), and the part of
# that memory that all spare ones may hold.
SPARE_BYTES, SMALL_PART = 700 * 2**20, 1 / 8


def start_spares(worker: Worker) -> None:
    """Start processes for what is measured after the first one: they load their modules while pytest starts.

    Those that most pairs need, and all others too where each has two cores.
    """
    cores = len(os.sched_getaffinity(0))
    worker.start_spares((MAX_PROCESSES if cores >= 2 * MAX_PROCESSES else MIN_PROCESSES) - 1)


def open_spares(worker: Worker, families: Sequence[Family], info: DeviceInfo, *, cold: bool) -> None:
    """Have the processes that measure after the first one open the GPU: those that most pairs need.

    Each holds memory of the GPU, which a large case may need. Where all hold but a small part of it, the others open it
    too, if they are there: to open it when a pair asks for them takes 0.4 s of waiting. Else they wait for that.
    """
    ready = worker.spares if SMALL_PART * info.memory_bytes >= SPARE_BYTES * (MAX_PROCESSES - 1) else 0
    count = max(MIN_PROCESSES - 1, ready)
    worker.open_spares(count, get_ready, "cold" if cold else "warm", one_queue=_use_one_queue(families))


def _use_one_queue(families: Iterable[Family]) -> bool:
    """Tell whether all that is measured of these families is launched on one stream: kernels, and calls of libraries.

    Only the first process checks that calls keep to their stream, for which it needs more queues than one.
    """
    calls = (variant.call for family in families for variant in family.variants)
    return all(call is None or call.is_library for call in calls)


def open_more_spares(measured: Sequence[Measured], done: int) -> None:
    """Have processes open the GPU for pairs that are undecided after ``done`` processes, unless some have.

    First those that most pairs need, and then all others at the same time: three take 0.38 s, one takes 0.3 (H100).
    Their modules are loaded by then.
    """
    worker, kind = measured[0].kernel.worker, measured[0].kind
    if not SCREENING_PROCESSES <= done < MAX_PROCESSES:
        return
    if not worker.has_spares:
        one_queue = _use_one_queue(each.case.family for each in measured)
        most = MIN_PROCESSES if done < MIN_PROCESSES else MAX_PROCESSES
        worker.open_spares(most - done, get_ready, kind, one_queue=one_queue)
    if done == SCREENING_PROCESSES and (missing := MAX_PROCESSES - done - worker.spares) > 0:
        worker.start_spares(missing)
