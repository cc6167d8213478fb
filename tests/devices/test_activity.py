"""Tests of what CUPTI records of a call, by a stand-in for NVIDIA's package: what ran, and what of it was outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from warpwatch.devices import activity, outside
from warpwatch.devices.activity import Activity, recorded
from warpwatch.explain.explanation import other_launches

OWN, OTHER = 13, 14  # streams
KERNEL = {
    "grid_x": 32,
    "grid_y": 4,
    "grid_z": 1,
    "block_x": 128,
    "block_y": 1,
    "block_z": 1,
    "static_shared_memory": 1024,
    "dynamic_shared_memory": 512,
}


class Kind(IntEnum):
    MEMCPY = 1
    MEMSET = 2
    CONCURRENT_KERNEL = 10
    OVERHEAD = 17


class StandIn:
    """CUPTI that records what it is given. ``status``: of each kind that is enabled, ``log``: what it was asked."""

    ActivityKind = Kind
    ActivityFlag = SimpleNamespace(FLUSH_FORCED=1)

    class cuptiError(Exception):  # noqa: N801  # as NVIDIA's package names it
        pass

    def __init__(self, records: Sequence[Any], *, fails: bool = False, breaks: bool = False) -> None:
        self._records, self._fails, self._breaks = records, fails, breaks
        self.log = list[str]()

    def activity_register_callbacks(self, wanted: Callable[[], object], completed: Callable[[Any], None]) -> None:
        wanted()
        self._completed = completed

    def activity_enable(self, kind: Kind) -> None:
        if self._fails:
            raise self.cuptiError("CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED")
        self.log.append(f"enable {kind.name}")

    def activity_disable(self, kind: Kind) -> None:
        self.log.append(f"disable {kind.name}")

    def activity_flush_all(self, flag: int) -> None:
        assert flag == 1
        if self._breaks:
            raise self.cuptiError("CUPTI_ERROR_UNKNOWN")
        self._completed(self._records)

    def finalize(self) -> None:
        self.log.append("finalize")


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[StandIn], None]]:
    def make(stand_in: StandIn) -> None:
        module: Any = ModuleType("cupti")
        module.cupti = stand_in
        monkeypatch.setitem(__import__("sys").modules, "cupti", module)
        activity._cupti.cache_clear()

    yield make
    activity._cupti.cache_clear()


def record(kind: Kind, begin: int, end: int, stream: int = OWN, **more: Any) -> Any:
    return SimpleNamespace(kind=kind, start=begin, end=end, stream_id=stream, **more)


def test_what_ran_is_told_in_its_order_and_cupti_is_detached(install: Callable[[StandIn], None]) -> None:
    records = [
        record(Kind.MEMCPY, 300, 400, bytes=4096),
        record(Kind.OVERHEAD, 0, 900),
        record(Kind.CONCURRENT_KERNEL, 100, 200, OTHER, name="_Z5scalePfi", **KERNEL),
        record(Kind.MEMSET, 210, 220, bytes=16),
    ]
    stand_in, ran = StandIn(records), list[str]()
    install(stand_in)
    told = recorded(lambda: ran.append("it"))
    assert ran == ["it"]
    assert told
    assert [each.words for each in told] == [
        "scale(float*, int), grid 32x4x1, block 128x1x1, 1,536 bytes of shared memory",
        "a fill of 16 bytes",
        "a copy of 4,096 bytes",
    ]
    assert [(each.stream, each.begin, each.end) for each in told] == [(14, 100, 200), (13, 210, 220), (13, 300, 400)]
    kinds = "CONCURRENT_KERNEL", "MEMCPY", "MEMSET"
    assert stand_in.log == [*(f"enable {name}" for name in kinds), *(f"disable {name}" for name in kinds), "finalize"]


def test_cupti_is_detached_where_the_work_fails(install: Callable[[StandIn], None]) -> None:
    stand_in = StandIn([])
    install(stand_in)
    with pytest.raises(pytest.fail.Exception):
        recorded(lambda: pytest.fail("as a call may"))
    assert stand_in.log[-1] == "finalize"


def test_an_error_of_cupti_is_no_fault_of_the_work(install: Callable[[StandIn], None]) -> None:
    install(StandIn([record(Kind.MEMSET, 210, 220, bytes=16)], breaks=True))
    assert recorded(lambda: None) == []


def test_nothing_is_run_where_a_profiler_has_cupti(install: Callable[[StandIn], None]) -> None:
    install(StandIn([], fails=True))
    assert recorded(lambda: pytest.fail("it ran")) is None


def test_nothing_is_run_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cupti", None)
    activity._cupti.cache_clear()
    assert recorded(lambda: pytest.fail("it ran")) is None
    activity._cupti.cache_clear()


def at(begin: int, end: int, stream: int = OWN, words: str = "scale, grid 1x1x1, block 1x1x1") -> Activity:
    return Activity(name=words.partition(",")[0], words=words, stream=stream, begin=begin, end=end)


FIRST, LAST = at(10_000, 11_000, words=outside.MARK), at(50_000, 51_000, words=outside.MARK)


@pytest.mark.parametrize(
    "ran",
    [
        [],
        [at(11_000, 50_000)],
        [at(20_000, 30_000, OTHER), at(12_000, 40_000)],  # forked, and joined
        [at(10_100, 50_900)],  # within what times are out
    ],
)
def test_work_inside_its_time_is_honest(ran: list[Activity]) -> None:
    assert outside.stray(ran, FIRST, LAST) == ""


@pytest.mark.parametrize(
    ("ran", "said"),
    [
        (
            at(49_000, 62_500, OTHER),
            "works on for 12.5 µs after its stream has ended: it runs scale, grid 1x1x1, block 1x1x1 on another "
            "stream; queue it on `stream`, or let `stream` wait for it",
        ),
        (
            at(60_000, 62_500),
            "works on for 12.5 µs after its stream has ended: it runs scale, grid 1x1x1, block 1x1x1; queue it on "
            "`stream`, or let `stream` wait for it",
        ),
        (
            at(1_000, 5_000, OTHER),
            "runs a part of its work 10 µs before its time begins: scale, grid 1x1x1, block 1x1x1 on another stream; "
            "let that stream wait for an event of `stream` before it works",
        ),
    ],
)
def test_work_outside_its_time_is_said(ran: Activity, said: str) -> None:
    assert outside.stray([at(11_000, 40_000), ran], FIRST, LAST) == said


def test_other_launches_of_a_call_are_said() -> None:
    old, new = ["gemm_128x64", "fill", "fill"], ["gemm_64x32", "fill"]
    assert other_launches(old, new) == "its call launches gemm_64x32 where it launched gemm_128x64; fill"
    assert other_launches(old, old[:1]) == "its call launches nothing where it launched fill; fill"
    assert other_launches([], list("abcde")) == ""
    assert other_launches(["x"], ["x", *"abcde"]) == "its call launches a; b; c and 2 more where it launched nothing"
    assert other_launches(old, old) == ""
    assert other_launches(old, []) == ""
