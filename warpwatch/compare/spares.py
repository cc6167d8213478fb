"""Starts spare processes for pairs, and has them open the GPU, before they are needed to measure."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from warpwatch.catalogue.declaration import Family
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.worker import Worker
from warpwatch.timing.measurement import Measured
from warpwatch.timing.sampling import get_ready
from warpwatch.verdict.rule import MAX_PAIR_PROCESSES, MIN_PROCESSES, SCREENING_PROCESSES

# What a process holds of the GPU's memory that has opened it and measured nothing (647 MiB on an H200), and the part of
# that memory that all spare ones may hold.
SPARE_BYTES, SMALL_PART = 700 * 2**20, 1 / 8


def start_spares(worker: Worker, parts: int = 1) -> None:
    """Start the processes that most pairs need after the first one, and all others too where each has two cores.

    They load their modules while pytest starts. ``parts``: how many runs do so at the same time.
    """
    cores = len(os.sched_getaffinity(0)) // parts
    worker.start_spares((MAX_PAIR_PROCESSES if cores >= 2 * MAX_PAIR_PROCESSES else MIN_PROCESSES) - 1)


def open_spares(worker: Worker, families: Sequence[Family], info: DeviceInfo, *, cold: bool) -> None:
    """Have the processes that most pairs need after the first one open the GPU.

    Each holds memory of the GPU, which a large case may need, or another run while this one waits for its turn. Where
    all together hold a small part of it, all that are there open it: later that takes 0.4 s in which nothing is
    measured. Elsewhere the others open it when a pair is undecided (``open_more_spares``).
    """
    have_room = SMALL_PART * info.memory_bytes >= SPARE_BYTES * (MAX_PAIR_PROCESSES - 1)
    count = max(MIN_PROCESSES - 1, worker.spares if have_room else 0)
    worker.open_spares(count, get_ready, "cold" if cold else "warm", one_queue=_use_one_queue(families))


def _use_one_queue(families: Iterable[Family]) -> bool:
    """Tell whether all that is measured of these families is launched on one stream: kernels, and calls of libraries.

    Only the first process checks that calls keep to their stream, for which it needs more queues than one.
    """
    calls = (variant.call for family in families for variant in family.variants)
    return all(call is None or call.is_library for call in calls)


def open_more_spares(measured: Sequence[Measured], done: int) -> None:
    """Have processes open the GPU for pairs that are undecided after ``done`` processes, unless some have opened it.

    First those that most pairs need, and then all others at the same time: three take 0.38 s, one takes 0.3 (H100).
    Their modules are loaded by then.
    """
    worker, kind = measured[0].kernel.worker, measured[0].kind
    if not SCREENING_PROCESSES <= done < MAX_PAIR_PROCESSES:
        return
    if not worker.has_opened_spares:
        one_queue = _use_one_queue(each.case.family for each in measured)
        most = MIN_PROCESSES if done < MIN_PROCESSES else MAX_PAIR_PROCESSES
        worker.open_spares(most - done, get_ready, kind, one_queue=one_queue)
    if done == SCREENING_PROCESSES and (missing := MAX_PAIR_PROCESSES - done - worker.spares) > 0:
        worker.start_spares(missing)
