"""Tests of the GPU: limits, faults and times. Skipped where there is none."""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels import FAMILIES
from kernels.matmul import structs
from tests.project import PROJECT, ROOT
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.inputs import exact_inputs
from warpwatch.catalogue.launches import Launch
from warpwatch.devices import gpu as device
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.compile.compiler import compile_file
from warpwatch.devices.info import DeviceInfo, Limits
from warpwatch.devices.kernel import Kernel
from warpwatch.devices.machine import DeviceError, Resources, pack
from warpwatch.devices.mismatch import compare
from warpwatch.devices.opening import Settings
from warpwatch.devices.references import expected
from warpwatch.devices.runner import Outcome
from warpwatch.devices.worker import Worker, describe_device, gpu
from warpwatch.plugin.options import value_of
from warpwatch.timing import inputs, sampling
from warpwatch.timing.timer import ClockStamps, GpuTimer

CASE = "matmul-naive-16x16-40x33x50-float32"
H200 = Limits(threads=1024, block=(1024, 1024, 64), grid=(2**31 - 1, 65535, 65535), shared_bytes=232448)


@pytest.fixture(scope="module")
def child(device: DeviceInfo, pytestconfig: pytest.Config) -> Iterator[Worker]:
    """A worker of these tests, with a short launch limit; ``started`` counts its processes."""
    child = Worker(PROJECT, Settings(kind=value_of(pytestconfig, "device"), ordinal=device.ordinal, launch_timeout=1.0))
    yield child
    child.stop()


def run(child: Worker, case: Case, source: Path | None = None) -> Outcome:
    target = child.call(describe_device).target
    image = compile_file(source, case.build.all_macros, target) if source else compile_build(case.build, target)
    return Kernel(child, case.build, image).run(case.shape, exact_inputs(case, 1))


def is_right(child: Worker) -> bool:
    case = find_case(FAMILIES, CASE)
    return compare(run(child, case).first, expected(case, exact_inputs(case, 1))["C"].reference, 0.0) is None


@pytest.mark.parametrize(
    ("launch", "refusal"),
    [
        (Launch((1, 1, 1), (64, 64, 1)), "a block of 64x64x1 has 4,096 threads; this device allows 1,024"),
        (Launch((1, 65536, 1), (8, 8, 1)), "grid.y would be 65,536; this device allows 65,535"),
        (Launch((1, 1, 1), (8, 8, 1), 300_000), "a block needs 300,000 bytes of dynamic shared memory"),
        (Launch((1, 1, 1), (8, 8, 1), 232_000), "232,000 bytes of dynamic shared memory and 1,024 of the kernel's own"),
        (Launch((1, 1, 1), (32, 17, 1)), "has 544 threads; the kernel allows 512, by its __launch_bounds__ or its 90"),
        (Launch((4, 0, 1), (8, 8, 1)), "grid.y would be 0; CUDA takes 1 or more"),
        (Launch((32, 1, 1), (8, 8, 1), 0, (16, 1, 1)), "a cluster of 16x1x1 has 16 blocks; CUDA allows 8"),
        (Launch((9, 1, 1), (8, 8, 1), 0, (2, 1, 1)), "grid.x is 9, which clusters of 2 blocks along x do not divide"),
        (Launch((2**31 - 1, 65535, 65535), (32, 16, 1), 232448 - 1024), None),
    ],
)
def test_a_launch_beyond_the_limits_is_refused_with_the_limit(launch: Launch, refusal: str | None) -> None:
    said = H200.refusal(launch, Resources(registers=90, shared_bytes=1024, threads=512))
    assert said is None if refusal is None else refusal in str(said)


def test_arguments_lie_as_c_lays_out_the_members_of_a_struct() -> None:
    packed = pack((np.int32(1), np.uint64(2), np.int32(3)))
    assert packed == b"\1\0\0\0" + b"\0" * 4 + b"\2" + b"\0" * 7 + b"\3\0\0\0"
    assert len(pack(structs({"A": 1, "B": 2, "C": 3}, 4, 5, 6, 0))) == 72
    assert pack(()) == b""


@pytest.mark.once
@pytest.mark.parametrize(
    ("case_id", "said"),
    [
        ("matmul-naive-64x64-9x9x9-float32", "a block of 64x64x1 has 4,096 threads; this device allows"),
        ("conv2d-shared_filter-8x8-2000x2000x2000-float32", "bytes of dynamic shared memory; this device allows"),
    ],
)
def test_what_the_device_cannot_launch_names_case_and_limit_and_spoils_nothing(
    child: Worker, case_id: str, said: str
) -> None:
    child.call(describe_device)  # starts a process where the test before left none
    processes = child.started
    with pytest.raises(DeviceError) as caught:
        run(child, find_case(FAMILIES, case_id))
    assert str(caught.value).startswith(case_id)
    assert said in str(caught.value)
    assert is_right(child)
    assert child.started == processes


def allocate_all(case_id: str) -> None:
    gpu().require(find_case(FAMILIES, case_id).array_bytes)


def test_too_little_memory_is_said_before_anything_is_allocated(child: Worker) -> None:
    with pytest.raises(DeviceError, match=r"not enough memory: 6,000\.00 GB needed, .* GB free"):
        child.call(allocate_all, "transpose-naive-8x8-1000000x750000-float32")
    assert is_right(child)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("illegal_address", "illegal memory access"),
        ("endless", r"did not end within 1 s \(--launch-timeout\)|the launch limit of 0\.5 s was over"),
    ],
)
def test_a_kernel_that_breaks_the_device_fails_its_own_case_and_not_the_next(
    child: Worker, bad: str, said: str
) -> None:
    child.call(describe_device)
    processes, begin = child.started, time.monotonic()
    with pytest.raises(DeviceError, match=said) as caught:
        run(child, find_case(FAMILIES, CASE), ROOT / "tests/softcuda/bad_kernels" / f"{bad}.cu")
    assert time.monotonic() - begin < 10
    assert str(caught.value).startswith(CASE)
    assert is_right(child)
    assert child.started == processes + 1


def fail_at_once(image: Path) -> None:
    function = gpu().load(image, "matmul_naive")
    start = gpu().launcher(function, Launch((1, 1, 1), (1, 1, 1)), [np.uint64(0)] * 3 + [np.int32(1)] * 3)
    start()
    time.sleep(0.3)  # so that the event after it finds it failed
    gpu().finish()


@pytest.mark.slow
def test_a_kernel_that_fails_before_anyone_waits_for_it_is_a_device_error(child: Worker) -> None:
    case, target = find_case(FAMILIES, CASE), child.call(describe_device).target
    image = compile_file(ROOT / "tests/softcuda/bad_kernels/illegal_address.cu", case.build.all_macros, target)
    with pytest.raises(DeviceError, match=r"the kernel failed: .*illegal memory access") as caught:
        child.call(fail_at_once, image.path)
    assert caught.value.lost
    assert is_right(child)


def slip() -> None:
    gpu()
    raise importlib.import_module("pycuda.driver").LogicError("nobody turned this into one of ours")


def test_an_error_of_the_drivers_arrives_where_there_is_no_driver(child: Worker) -> None:
    with pytest.raises(RuntimeError, match=r"(?s)in slip.*nobody turned this into one of ours"):
        child.call(slip)


@pytest.mark.slow
def test_a_write_beyond_the_result_is_damage_or_found_by_the_device_itself(child: Worker) -> None:
    try:
        said = run(child, find_case(FAMILIES, CASE), ROOT / "tests/softcuda/bad_kernels/one_row_too_far.cu").damage
    except DeviceError as error:
        said = (str(error),)
    if child.call(describe_device).finds_faults:
        assert "just past the end of a (argument 1)" in said[0]
    else:
        assert said == ("wrote 50 element(s) after C, the nearest 1 after its end",)


def test_a_filter_beyond_48_kib_of_shared_memory_is_right_where_it_is_allowed(child: Worker) -> None:
    case = find_case(FAMILIES, "conv2d-shared_filter-8x8-130x140x115-int32")
    if child.call(describe_device).limits.shared_bytes < case.launch.shared_bytes:
        pytest.skip("this GPU allows a block no more than 48 KiB of shared memory")
    right = expected(case, exact_inputs(case, 1))["out"].reference
    assert compare(run(child, case).first, right, 0.0) is None


@pytest.fixture
def clock(child: Worker) -> Worker:
    """A worker whose device has a clock of its own."""
    info = child.call(describe_device)
    if not info.has_gpu_clock:
        pytest.skip(f"needs a GPU, whose clock it tests; what {info.name} reads is the host's")
    return child


def hold_too_long() -> tuple[float, int]:
    timer = GpuTimer(gpu(), cold=False)
    one, slow = (1, 1, 1), iter([True])
    start = timer.kernel("empty", Launch(one, one))

    def late() -> None:
        if next(slow, False):
            time.sleep(4 * device.HOLD_SECONDS)
        start()

    return timer.sample(late), timer.timeouts


@pytest.mark.slow
def test_a_hold_that_runs_into_its_limit_is_counted_and_the_sample_taken_again(child: Worker) -> None:
    seconds, timeouts = child.call(hold_too_long)
    assert timeouts == 1
    assert seconds < 2 * device.HOLD_SECONDS, "the thrown-away sample held the host's sleep of a second"


def clocks_of_waits() -> tuple[float, ...]:
    """Return the mean clocks of three launches between stamps, the last of them after a clearing."""
    stamps, start = ClockStamps(gpu(), 4), GpuTimer(gpu(), cold=False).kernel("empty", Launch((1, 1, 1), (1, 1, 1)))
    read: list[float] = []
    for launches in (2, 1):
        stamps.clear()
        for _ in range(launches):
            stamps.stamp()
            for _ in range(100):
                start()
            stamps.stamp()
        read += stamps.megahertz()
    return tuple(read)


def test_stamps_show_the_clock(child: Worker) -> None:
    read = child.call(clocks_of_waits)
    assert len(read) == 3
    assert all(300 < mhz < 6000 for mhz in read)
    assert max(read) < 1.2 * min(read)


def test_cold_is_cold(clock: Worker) -> None:
    assert clock.call(sampling.describe_gpu, True)["coldness"] > 1.3


def sample_shortest_times(cold: bool) -> dict[str, Any]:
    """Take samples of an empty kernel and of a small copy: runs in the child."""
    timer = GpuTimer(gpu(), cold)
    return {**timer.shortest_times(), "timeouts": timer.timeouts}


@pytest.mark.parametrize("cold", [False, True])
def test_the_floor_of_the_timer_is_low_and_steady(clock: Worker, cold: bool) -> None:
    read = clock.call(sample_shortest_times, cold)
    for name in ("empty kernel", "copy 256x256"):
        assert statistics.median(read[name]) < 10e-6
        spread = np.percentile(read[name], 75) - np.percentile(read[name], 25)
        assert spread < 0.1 * statistics.median(read[name])
    assert read["timeouts"] == 0


def addresses(case: Case, image: Path) -> list[int]:
    """Return the addresses of inputs and results of each copy of a case."""
    sampling.prepare(case, image, False)
    return [address for loaded in sampling.state.loaded for address in loaded.addresses.values()]


def test_the_copies_of_a_small_case_have_memory_of_their_own(child: Worker) -> None:
    case = find_case(FAMILIES, CASE)
    image = compile_build(case.build, child.call(describe_device).target)
    assert len(set(child.call(addresses, find_case(FAMILIES, CASE), image.path))) == 3 * inputs.COPIES
