"""Measures a call and its counterpart of another revision in two processes that take turns on the GPU.

Two versions of Python code cannot be in one process, so each side has a process of its own. That is less precise than
two kernels side by side in one process: each process places its arrays elsewhere, and a turn begins with a change of
context. The first sample after each change is left out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from warpwatch.devices.check import WrongResult
from warpwatch.devices.compiler import CompileError
from warpwatch.devices.gpu import NoDevice
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.worker import Worker
from warpwatch.timing import worker_samples as sampling
from warpwatch.timing.clocks import Clock
from warpwatch.timing.pair_samples import PairSamples
from warpwatch.timing.parent_samples import Measured
from warpwatch.timing.worker_pairs import FEWEST_TURNS, MOST_TURNS, OtherSideFailed, Plan


@dataclass(kw_only=True)
class OtherProcess:
    """The worker process of another revision, which has loaded that revision's declarations.

    ``process``: number of the processes so far that both sides have had; each pair is measured in several.
    """

    worker: Worker
    process: int = 0

    def renew(self, process: int) -> None:
        """Start afresh where this side's process is older than the other's."""
        if process != self.process:
            self.worker.stop()
            self.process = process


@contextmanager
def _blamed() -> Iterator[None]:
    """Turn whatever goes wrong in the other process into OtherSideFailed, whose message is one line."""
    try:
        yield
    except (DeviceError, WrongResult, CompileError, NoDevice) as error:
        raise OtherSideFailed(str(error).partition("\n")[0]) from None
    except Exception as error:  # that revision's code may raise anything; its traceback ends with the reason
        raise OtherSideFailed((str(error).strip() or type(error).__name__).rpartition("\n")[2]) from None


def measure_apart(measured: Measured, other: OtherProcess, process: int, plan: Plan) -> PairSamples:
    """Prepare and check both sides, and sample them in turns: old new new old, new old old new.

    Raises WrongResult or DeviceError for the new side, OtherSideFailed for the old one.
    """
    case, ours, theirs = measured.case, measured.kernel.worker, other.worker
    other.renew(process)
    cold, checked = plan.kind == "cold", not plan.check
    image = measured.kernel.image.path
    facts = ours.call(sampling.prepare, case, image, cold, already_checked=checked)
    with _blamed():
        theirs.call(sampling.prepare, case, Path(), cold, already_checked=checked)
    ours.call(sampling.settle)
    ours.call(sampling.warm_up, plan.kind, plan.warm_up)
    before = ours.call(sampling.read_clock)
    pairs = _take(measured, other, plan)
    clocks = (before, ours.call(sampling.read_clock))
    if plan.check:
        ours.call(sampling.finish, None)
        with _blamed():
            theirs.call(sampling.finish, None)
    return PairSamples(
        old=pairs.old,
        new=pairs.new,
        clocks=clocks,
        thrown_away=pairs.thrown_away,
        facts=facts if plan.check else {},
    )


def _take(measured: Measured, other: OtherProcess, plan: Plan) -> PairSamples:
    """Take samples of both sides until the time of the plan is over."""
    times: dict[bool, list[float]] = {True: [], False: []}  # of the new side, of the old
    sides = {True: measured.kernel.worker, False: other.worker}
    begin, thrown_away, turn, last = time.perf_counter(), 0, 0, None
    while turn < FEWEST_TURNS or (turn < MOST_TURNS and time.perf_counter() - begin < plan.seconds) or turn % 2:
        first = turn % 2 == 1
        for is_new in (first, not first, not first, first):
            call = sides[is_new].call
            if is_new != last:
                call(sampling.sample, plan.kind)
            seconds, lost = call(sampling.sample, plan.kind)
            times[is_new].append(seconds)
            thrown_away, last = thrown_away + lost, is_new
        turn += 1
    unknown = Clock(0, ())
    return PairSamples(
        old=tuple(times[False]), new=tuple(times[True]), clocks=(unknown, unknown), thrown_away=thrown_away
    )
