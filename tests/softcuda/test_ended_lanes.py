"""Warp functions whose mask names lanes that have ended, and a barrier behind: CUDA counts on those that have not."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.project import PROJECT
from tests.softcuda import calls
from tests.written import compile_written
from warpwatch.devices.gpu import Settings
from warpwatch.devices.worker import Worker, describe_device

ORDERS = (None, 1, 2, 3, 4)
PRESENT = 44  # of 64 threads, so 12 lanes of the second warp
KERNEL = """extern "C" __global__ void kernel(int* out)
{
    const int thread = threadIdx.x;
    if (thread >= 44)
        return;
    int sum = thread;
    for (int other = 1; other < WIDTH; other *= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, other);
    const unsigned votes = __ballot_sync(0xffffffffu, thread % 4 == 0);
    __syncwarp();
    __syncthreads();
    out[thread] = sum + 1000 * __popc(votes);
}
"""


def answers(folder: Path, width: int, checked: bool) -> list[bytes | str]:
    source = folder / "kernel.cu"
    source.write_text(KERNEL)
    worker = Worker(PROJECT, Settings(kind="software", launch_timeout=20.0))
    device = worker.call(describe_device)
    image = compile_written(source, {"WIDTH": str(width)}, device.target if checked else device.timing_target)
    left = worker.call(calls.run_in_orders, ORDERS, image.path, "kernel", (64, 1, 1), (1, 1), 4 * PRESENT, 0)
    worker.stop()
    return left


@pytest.mark.once
@pytest.mark.parametrize("checked", [True, False])
def test_lanes_that_have_ended_are_waited_for_by_nobody(tmp_path: Path, checked: bool) -> None:
    threads = range(PRESENT)
    wanted = [sum(range(t & ~3, (t & ~3) + 4)) + 1000 * (8 if t < 32 else 3) for t in threads]
    for order, left in zip(ORDERS, answers(tmp_path, 4, checked), strict=True):
        assert isinstance(left, bytes), f"order {order}: {left}"
        assert np.frombuffer(left, np.int32).tolist() == wanted, f"order {order}"


def test_a_shuffle_that_reads_from_a_lane_that_has_ended_is_found_in_every_order(tmp_path: Path) -> None:
    found = (
        r"barrier error in kernel\n  .*kernel\.cu:8: thread \((3[2-9]|4[0-3]), 0\) of block \(0, 0\)"
        r" calls a warp function that reads from lane 1[2-5], which has returned \(.*kernel\.cu:5\)"
    )
    for order, said in zip(ORDERS, answers(tmp_path, 16, True), strict=True):
        assert re.search(found, str(said)), f"order {order}: {said!r}"
