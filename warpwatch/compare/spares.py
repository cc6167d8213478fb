"""Starts spare processes for pairs, and has them open the GPU, before they are needed to measure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warpwatch.catalogue.declaration import Family
from warpwatch.devices.worker import Worker
from warpwatch.timing.parent_samples import Measured
from warpwatch.timing.worker_samples import get_ready
from warpwatch.verdict.rule import MIN_PROCESSES

SCREENING_PROCESSES = 3  # the processes that measure every case
MAX_PROCESSES = 8  # the processes that measure a case that is hard to decide


def start_spares(worker: Worker) -> None:
    """Start the processes that most pairs need: they load their modules while pytest starts."""
    worker.start_spares(MIN_PROCESSES - 1)


def open_spares(worker: Worker, families: Sequence[Family], *, cold: bool) -> None:
    """Have the processes that measure after the first one open the GPU: those that most pairs need.

    Each holds memory of the GPU, which a large case may need, so that the others wait until a pair asks for them.
    """
    worker.open_spares(MIN_PROCESSES - 1, get_ready, "cold" if cold else "warm", one_queue=_use_one_queue(families))


def _use_one_queue(families: Iterable[Family]) -> bool:
    """Tell whether all that is measured of these families is launched on one stream: kernels, and calls of libraries.

    Only the first process checks that calls keep to their stream, for which it needs more queues than one.
    """
    calls = (variant.call for family in families for variant in family.variants)
    return all(call is None or call.is_library for call in calls)


def open_more_spares(measured: Sequence[Measured], done: int) -> None:
    """Have processes open the GPU for pairs that are undecided after ``done`` processes, unless some are ready.

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
    if done == SCREENING_PROCESSES:
        worker.start_spares(MAX_PROCESSES - MIN_PROCESSES)
