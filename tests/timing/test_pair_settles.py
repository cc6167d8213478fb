"""Tests for how long a pair waits for the clock, on the software device with an NVML that tells of a power cap."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kernels import FAMILIES
from tests.project import PROJECT
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.compare.self_check import own_side
from warpwatch.devices.builds import compile_build
from warpwatch.devices.gpu import Settings
from warpwatch.devices.worker import Worker, describe_device, gpu
from warpwatch.timing import worker_pairs
from warpwatch.timing import worker_samples as sampling
from warpwatch.timing.clocks import POWER_CAP, Clock, Clocks
from warpwatch.timing.pair_samples import PairSamples
from warpwatch.timing.worker_pairs import Plan, measure_pair

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")
CASE = Case(find_case(FAMILIES, "matmul-naive-8x8-128x128x128-float32").build, (32, 32, 32))
MHZ = 1000  # clock64() of the software device counts nanoseconds
CAPPED_READS = 20  # so often NVML is read until it tells of no cap any more


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    made = Worker(PROJECT, Settings(kind="software"))
    yield made
    made.stop()


class CappedClocks(Clocks):
    """An NVML that tells of a power cap when it is read, CAPPED_READS times."""

    def __init__(self, highest: int) -> None:
        super().__init__("")
        vars(self)["highest"] = highest
        self.reads = 0

    def read(self) -> Clock:
        self.reads += 1
        return Clock(900, (POWER_CAP,) if self.reads <= CAPPED_READS else ())


def measure_after_a_hot_pair(image: Path, highest: int, stamped_seconds: float) -> tuple[PairSamples, bool]:
    """Return a pair's samples, and whether NVML told of a cap until the first of them: runs in the child."""
    clocks, capped = CappedClocks(highest), list[bool]()
    vars(gpu())["info"] = replace(gpu().info, has_gpu_clock=True)
    sampling.state.clocks = clocks
    vars(worker_pairs)["STAMPED_SECONDS"] = stamped_seconds
    take = worker_pairs._take

    def noted(*given: object) -> PairSamples:
        capped.append(clocks.reads < CAPPED_READS)
        return take(*given)  # type: ignore[arg-type]

    vars(worker_pairs)["_take"] = noted
    plan = Plan(kind="warm", swap=False, check=True, seconds=0.02, warm_up=0.0)
    try:
        return measure_pair(CASE, image, own_side(CASE), image, plan), capped[0]
    finally:
        vars(worker_pairs)["_take"] = take
        vars(gpu())["info"] = replace(gpu().info, has_gpu_clock=False)
        sampling.state.clocks = None


@pytest.mark.parametrize(
    ("highest", "stamped_seconds", "waits"),
    [
        (MHZ, 0.0, False),
        (MHZ + 20, 0.0, True),  # the clock is 2 % below the highest until NVML says that it is free
        (MHZ, 1e9, True),  # its clock is not measured beside so short samples
    ],
)
def test_a_pair_begins_when_its_clock_is_measured_to_be_high(
    worker: Worker, highest: int, stamped_seconds: float, waits: bool
) -> None:
    image = compile_build(CASE.build, worker.call(describe_device).timing_target).path
    pairs, capped = worker.call(measure_after_a_hot_pair, image, highest, stamped_seconds)
    assert capped != waits
    assert pairs.has_clocks == (stamped_seconds == 0)
    assert [clock.throttle for clock in pairs.clocks] == [(), ()]
    assert pairs.clocks[0].mhz == (900 if waits else MHZ)
    assert not pairs.keeps_clock_down
