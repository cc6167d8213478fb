"""Tests of what CUPTI records of a call, by a stand-in for NVIDIA's package: what ran, and what of it was outside."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.machine_code.test_cubin import compiled
from warpwatch.devices import activity, outside
from warpwatch.devices.activity import Activity, recorded

OWN, OTHER = 13, 14  # streams
KERNEL = {
    "grid_x": 32,
    "grid_y": 4,
    "grid_z": 1,
    "block_x": 128,
    "block_y": 1,
    "block_z": 1,
    "cluster_x": 0,
    "cluster_y": 0,
    "cluster_z": 0,
    "static_shared_memory": 1024,
    "dynamic_shared_memory": 512,
    "registers_per_thread": 18,
    "local_memory_per_thread": 40,
}
TWO = """
extern "C" __global__ void twice(float* y) { y[threadIdx.x] *= 2; }
extern "C" __global__ void half(float* y) { y[threadIdx.x] /= 2; }
"""


class Kind(IntEnum):
    MEMCPY = 1
    MEMSET = 2
    CONCURRENT_KERNEL = 10
    OVERHEAD = 17


class StandIn:
    """CUPTI that records what it is given. ``status``: of each kind that is enabled, ``log``: what it was asked."""

    ActivityKind = Kind
    ActivityFlag = SimpleNamespace(FLUSH_FORCED=1)
    CallbackDomain = SimpleNamespace(RESOURCE=3)
    CallbackIdResource = SimpleNamespace(MODULE_PROFILED=13)
    SubscriberParams = partial(SimpleNamespace, ptr=0)
    SUBSCRIBER_PARAMS_SIZE = 32

    class cuptiError(Exception):  # noqa: N801  # as NVIDIA's package names it
        pass

    def __init__(
        self, records: Sequence[Any], *, fails: bool = False, breaks: bool = False, alone: bool = False
    ) -> None:
        """``alone``: somebody else listens to what is launched."""
        self._records, self._fails, self._breaks, self._alone = records, fails, breaks, alone
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

    def subscribe_v2(self, told: Callable[..., None], user: object, parameters: int) -> int:
        if self._alone:
            raise self.cuptiError("CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED")
        self._told = told
        return 7

    def enable_callback(self, enable: int, subscriber: int, domain: int, event: int) -> None:
        assert (enable, subscriber, domain, event) == (1, 7, 3, 13)

    def launch(self, number: int, cubin: bytes) -> None:
        """Tell the module of a kernel that is launched, as CUPTI does, if anybody listens."""
        if not self._alone:
            buffer = ctypes.create_string_buffer(cubin, len(cubin))
            described = activity.MODULE.pack(number, len(cubin), ctypes.addressof(buffer))
            place = ctypes.create_string_buffer(described, len(described))
            self._told(None, 3, 13, SimpleNamespace(resource_descriptor=ctypes.addressof(place)))

    def unsubscribe(self, subscriber: int) -> None:
        assert subscriber == 7

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


def kernel(name: str) -> Any:
    return record(Kind.CONCURRENT_KERNEL, 100, 200, name=name, **KERNEL)


def launched(install: Callable[[StandIn], None], cubins: Sequence[bytes], *, alone: bool = False) -> dict[str, Any]:
    """Return what is recorded of two kernels by name, where a kernel of each cubin is launched."""
    stand_in = StandIn([kernel("twice"), kernel("half"), record(Kind.MEMSET, 210, 220, bytes=16)], alone=alone)
    install(stand_in)

    def work() -> None:
        for number, cubin in enumerate(cubins):
            stand_in.launch(number, cubin)

    return {each.name: each.kernel for each in recorded(work) or ()}


def test_a_kernels_figures_are_told_and_its_machine_code(install: Callable[[StandIn], None], tmp_path: Path) -> None:
    cubin, _ = compiled(tmp_path, "sm_90", TWO)
    told = launched(install, [cubin])
    assert told.pop("") == {}
    codes = {name: each["code"] for name, each in told.items()}
    assert len({*codes.values()}) == 2
    assert all(codes.values())
    figures = {"grid": (32, 4, 1), "block": (128, 1, 1), "cluster": (1, 1, 1), "registers": 18, "local_bytes": 40}
    assert told["half"] == {"name": "half", **figures, "shared_bytes": 1536, "code": codes["half"]}
    moved, _ = compiled(tmp_path, "sm_90", "// lines move\n" + TWO)
    assert {name: each["code"] for name, each in launched(install, [moved]).items() if name} == codes
    edited, _ = compiled(tmp_path, "sm_90", TWO.replace("/= 2", "/= 3"))
    now = {name: each["code"] for name, each in launched(install, [edited]).items() if name}
    assert now["twice"] == codes["twice"]
    assert now["half"] not in ("", codes["half"])
    both = launched(install, [cubin, edited])
    assert (both["twice"]["code"], both["half"]["code"]) == (codes["twice"], "")  # which of the two ran is not known


def test_variables_and_functions_count_as_machine_code(tmp_path: Path) -> None:
    text = "__device__ float factor = 2;\n__device__ __noinline__ float f(float x) { return sqrtf(x); }\n"
    text += 'extern "C" __global__ void scale(float* y) { y[threadIdx.x] = factor * f(y[threadIdx.x]); }'
    edits = [("", ""), ("factor = 2", "factor = 3"), ("sqrtf", "rsqrtf")]
    cubins = (compiled(tmp_path, "sm_90", text.replace(*each))[0] for each in edits)
    assert len({activity.kernel_digests(cubin)["scale"] for cubin in cubins}) == len(edits)


@pytest.mark.parametrize("cubin", [b"", b"\x7fELF\x02\x01", b"no cubin" * 20])
def test_what_is_not_a_cubin_has_no_machine_code(install: Callable[[StandIn], None], cubin: bytes) -> None:
    assert launched(install, [cubin])["half"]["code"] == ""


def test_no_machine_code_is_told_where_somebody_else_listens(install: Callable[[StandIn], None]) -> None:
    told = launched(install, [b""], alone=True)
    assert (told["half"]["registers"], told["half"]["code"]) == (18, "")


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
