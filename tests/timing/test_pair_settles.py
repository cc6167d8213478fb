"""Tests for how long a pair waits for the clock, on the software device with an NVML that tells of a power cap."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

import pytest

from kernels import FAMILIES
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.compare.self_check import own_side
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.worker import Worker, describe_device, gpu
from warpwatch.timing import nvml, side_by_side
from warpwatch.timing.nvml import POWER_CAP, Clock, Clocks
from warpwatch.timing.pair_samples import PairSamples
from warpwatch.timing.side_by_side import Delay, Plan, measure_pair

CASE = Case(find_case(FAMILIES, "matmul-naive-8x8-128x128x128-float32").build, (32, 32, 32))
MHZ = 1000  # clock64() of the software device counts nanoseconds
CAPPED_READS = 20  # so often NVML is read until it tells of no cap any more
LASTING = 10**9


class PlayedClocks(Clocks):
    """An NVML that tells of a power cap when it is read the first ``capped`` times.

    ``at_the_end``: whether it does so in each read after the samples, from the first on; then as before.
    """

    def __init__(self, highest: int, capped: int, at_the_end: tuple[bool, ...]) -> None:
        super().__init__("")
        vars(self)["highest"] = highest
        self.reads, self.capped = 0, capped
        self.at_the_end, self.is_taken = list(at_the_end), False

    def read(self) -> Clock:
        self.reads += 1
        is_capped = self.reads <= self.capped
        if self.is_taken and self.at_the_end:
            is_capped = self.at_the_end.pop(0)
        return Clock(900 + self.reads, (POWER_CAP,) if is_capped else ())


@dataclass(frozen=True, kw_only=True)
class Played:
    """What is played to a pair: PlayedClocks, and how long a sample is whose clock is read beside it."""

    highest: int = MHZ
    capped: int = 0
    at_the_end: tuple[bool, ...] = ()
    stamped_seconds: float = 0.0
    settle: bool = True
    delay: Delay | None = None


def measure(image: Path, played: Played) -> tuple[PairSamples, int]:
    """Return a pair's samples, and how often NVML was read until the first of them: runs in the child."""
    clocks, reads = PlayedClocks(played.highest, played.capped, played.at_the_end), list[int]()
    take = side_by_side._take

    def noted(*given: object) -> PairSamples:
        reads.append(clocks.reads)
        clocks.is_taken = True
        return take(*given)  # type: ignore[arg-type]

    def waited(*given: object) -> int:
        clocks.reads += CAPPED_READS
        return 1

    plan = Plan(
        kind="warm",
        swap=False,
        check=True,
        seconds=0.02,
        warm_up=0.0,
        settle=played.settle,
        delay=played.delay,
    )
    replaced = {
        "_take": noted,
        "_delay": waited,
        "STAMPED_SECONDS": played.stamped_seconds,
    }
    with (
        mock.patch.dict(vars(side_by_side), replaced),
        mock.patch.object(gpu(), "info", replace(gpu().info, has_gpu_clock=True)),
        mock.patch.object(nvml, "clocks", return_value=clocks),
        mock.patch("warpwatch.timing.nvml.SETTLE_SECONDS", 0.5 if played.capped == LASTING else 30.0),
    ):
        return measure_pair(CASE, image, own_side(CASE), image, plan), reads[0]


@pytest.fixture(scope="module")
def image(software: Worker) -> Path:
    return compile_build(CASE.build, software.call(describe_device).timing_target).path


@pytest.mark.once
@pytest.mark.parametrize(
    ("played", "waits"),
    [
        (Played(capped=CAPPED_READS), False),
        (Played(capped=CAPPED_READS, highest=MHZ + 20), True),  # until NVML tells of no cap: the clock is 2 % too low
        (Played(capped=CAPPED_READS, stamped_seconds=1e9), True),  # its samples are too short to measure their clock
        (Played(capped=CAPPED_READS, highest=MHZ + 20, settle=False), False),
    ],
)
def test_a_pair_begins_when_its_clock_is_measured_to_be_high(
    software: Worker, image: Path, played: Played, waits: bool
) -> None:
    pairs, reads = software.call(measure, image, played)
    assert (reads > CAPPED_READS) == waits
    assert pairs.has_clocks == (played.stamped_seconds == 0)
    before, after = pairs.clocks
    if played.settle:
        assert before.throttle == after.throttle == ()
        assert (before.mhz == MHZ) != waits
    else:
        assert before.throttle == (POWER_CAP,)
    assert before.mhz < after.mhz or before.mhz == after.mhz == MHZ
    assert not pairs.keeps_clock_down or not played.settle


@pytest.mark.slow
def test_a_cap_that_does_not_end_counts_and_the_clock_beside_the_samples_is_read(software: Worker, image: Path) -> None:
    for played in (
        Played(capped=LASTING, highest=MHZ + 20),
        Played(capped=LASTING, highest=MHZ + 20, stamped_seconds=1e9),
    ):
        pairs, _ = software.call(measure, image, played)
        assert pairs.has_clocks
        assert [clock.throttle for clock in pairs.clocks] == [(POWER_CAP,)] * 2
        assert pairs.keeps_clock_down


@pytest.mark.parametrize(("at_the_end", "down"), [((False, False), False), ((False, True), True), ((True,), True)])
def test_a_cap_that_nvml_tells_of_late_is_the_pairs_own(
    software: Worker, image: Path, at_the_end: tuple[bool, ...], down: bool
) -> None:
    pairs, _ = software.call(measure, image, Played(at_the_end=at_the_end))
    assert pairs.keeps_clock_down == down


def test_the_clock_before_the_samples_is_read_after_the_trials_of_a_wait(software: Worker, image: Path) -> None:
    pairs, reads = software.call(measure, image, Played(delay=Delay(0.1)))
    assert reads > CAPPED_READS
    assert pairs.clocks[0].mhz == 900 + reads
