"""Tests how the two sides of a pair are measured: how long they wait for the clock, and how many turns they take."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest

from kernels import FAMILIES
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.compare.self_check import own_side
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.worker import Worker, describe_device, gpu
from warpwatch.timing import nvml, sampling, side_by_side
from warpwatch.timing.nvml import POWER_CAP, Clock, Clocks
from warpwatch.timing.pair_samples import PairSamples
from warpwatch.timing.side_by_side import VARIABLES, Delay, Plan, measure_pair
from warpwatch.timing.stopping import FEWEST_TURNS, MOST_TURNS, PRECISE_TURNS, QUIET, TURNS_TO_TELL

CASE = Case(find_case(FAMILIES, "matmul-naive-8x8-128x128x128-float32").build, (32, 32, 32))
# Its filter lies in a variable of its module, and each copy of the inputs has another one.
FILTERED = Case(find_case(FAMILIES, "conv2d-columns-512x8-8192x8192x3-float32").build, (256, 256, 3))
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
        # The times are the host's, which scatter more than a GPU's.
        mock.patch.multiple("warpwatch.timing.probes", CLEARLY=0.0, CLEARLY_LATER=0.0),
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


def measure_filtered(image: Path, swap: bool) -> PairSamples:
    plan = Plan(kind="cold", swap=swap, check=True, seconds=0.02, warm_up=0.0)
    return measure_pair(FILTERED, image, own_side(FILTERED), image, plan)


@pytest.mark.parametrize("swap", [False, True])
def test_both_sides_have_the_inputs_of_each_copy_in_their_variables(software: Worker, swap: bool) -> None:
    built = compile_build(FILTERED.build, software.call(describe_device).timing_target).path
    assert software.call(measure_filtered, built, swap).new


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


# Turns: until what they scatter says that their mean is known

PLAN = Plan(kind="cold", swap=False, check=False, seconds=60.0, warm_up=0.0)


def turns(scatter: float, monkeypatch: pytest.MonkeyPatch, plan: Plan = PLAN) -> int:
    """Take turns in which the new side is slower and faster by ``scatter``, alternately; return how many there were."""
    taken: list[str] = []

    def sample_of(side: str, copy: int, timer: object) -> tuple[float, int]:
        taken.append(side)
        turn = (len(taken) - 1) // 4
        return (math.exp(scatter * (-1) ** turn) if side == "new" else 1.0), 0

    monkeypatch.setattr(sampling, "sample_of", sample_of)
    monkeypatch.setattr(sampling, "timer_of", lambda kind: None)
    monkeypatch.setattr(sampling, "prove", lambda blaming: True)
    pairs = side_by_side._take(cast("Any", [("old", "new")]), plan)
    assert len(taken) == 4 * (len(pairs.old) // 2)
    return len(pairs.old) // 2


@pytest.mark.parametrize(
    ("scatter", "wanted"),
    [
        # The standard error of the mean of n turns is the scatter over the root of n - 1.
        (0.0005, FEWEST_TURNS),
        (0.00055, TURNS_TO_TELL),
        (0.99 * QUIET * math.sqrt(FEWEST_TURNS - 1), FEWEST_TURNS),
        (1.01 * QUIET * math.sqrt(FEWEST_TURNS - 1), TURNS_TO_TELL),
        (0.99 * PRECISE_TURNS * math.sqrt(TURNS_TO_TELL - 1), TURNS_TO_TELL),
        (1.01 * PRECISE_TURNS * math.sqrt(TURNS_TO_TELL - 1), TURNS_TO_TELL + 2),
        (PRECISE_TURNS * math.sqrt(70 - 0.5), 72),  # after 71 it would be small enough, but turns come in twos
        (0.01, MOST_TURNS),
    ],
)
def test_quieter_kernels_take_fewer_turns(scatter: float, wanted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert turns(scatter, monkeypatch) == wanted


def test_a_pair_whose_time_is_over_has_the_fewest_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        turns(0.01, monkeypatch, Plan(kind="cold", swap=False, check=False, seconds=0.0, warm_up=0.0)) == FEWEST_TURNS
    )


def test_what_took_the_last_sample_on_each_copy_is_known_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Printed lines are those of the very last sample, on whichever copy it was."""
    state, case = sampling.State(), SimpleNamespace(family=SimpleNamespace(prints=None))
    monkeypatch.setattr(sampling, "state", state)
    old, new = (SimpleNamespace(case=case, start=None, restore=None) for _ in range(2))
    timer = cast("Any", SimpleNamespace(timeouts=0, is_cold=False, sample=lambda start, restore, after: 1e-6))
    for side, copy in ((old, 0), (new, 1), (new, 0), (old, 2), (new, 1)):
        sampling.sample_of(cast("Any", side), copy, timer)
    assert [*cast("dict[int, Any]", state.launched).items()] == [(0, new), (2, old), (1, new)]


# The wait that slows a kernel by a wanted share, on an imitation of a GPU without noise

CLOCK, SECONDS = 1e9, 1e-3  # of the imitated GPU, and of the kernel that does not wait


@dataclass
class Gpu:
    """A GPU on which a kernel that waits takes ``share`` of the wait longer: the rest is hidden behind its own work."""

    share: float
    waits: dict[str, int] = field(default_factory=dict)  # in cycles, by side
    info: Any = field(default_factory=lambda: SimpleNamespace(multiprocessors=4, clock_hz=CLOCK, has_gpu_clock=True))

    def resident_blocks(self, function: str, launch: object) -> int:
        return 2

    def set_variable(self, function: str, name: str, value: Any) -> None:
        if name == VARIABLES[0]:
            self.waits[function] = int(value)
        else:
            assert int(value) == 8  # blocks that are resident at once

    def take(self, pairs: object, plan: Plan) -> Any:
        slowdown = self.share * self.waits["new"] / CLOCK / SECONDS
        return SimpleNamespace(old=(SECONDS,) * 5, log=math.log1p(slowdown))


@pytest.mark.parametrize("share", [0.15, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("wanted", [0.01, 0.1, 1.0])
def test_the_wait_that_is_found_slows_as_much_as_is_wanted(
    monkeypatch: pytest.MonkeyPatch, wanted: float, share: float
) -> None:
    gpu = Gpu(share)
    monkeypatch.setattr(side_by_side, "gpu", lambda: gpu)
    monkeypatch.setattr(side_by_side, "_take", gpu.take)
    old, new = (
        SimpleNamespace(function=name, case=SimpleNamespace(launch=None), variables=None) for name in ("old", "new")
    )
    plan = Plan(kind="warm", swap=False, check=False, seconds=0.1, warm_up=0.1)
    cycles = side_by_side._delay([(old, new)], plan, Delay(wanted))  # type: ignore[list-item]
    assert gpu.waits == {"old": 0, "new": cycles}
    assert math.expm1(gpu.take(None, plan).log) == pytest.approx(wanted, rel=0.01)
    known = Delay(wanted, 12_345)
    assert side_by_side._delay([(old, new)], plan, known) == gpu.waits["new"] == 12_345  # type: ignore[list-item]
