"""Warp functions whose mask names lanes that have ended, and a barrier behind: CUDA counts on those that have not."""

from __future__ import annotations

import re

import numpy as np

from tests.softcuda.device import Device

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


def answers(device: Device, width: int) -> list[bytes | str]:
    return device.left(device.image(KERNEL, {"WIDTH": width}), "kernel", 4 * PRESENT, 64, orders=(None, 1, 2, 3, 4))


def test_lanes_that_have_ended_are_waited_for_by_nobody(either: Device) -> None:
    threads = range(PRESENT)
    wanted = [sum(range(t & ~3, (t & ~3) + 4)) + 1000 * (8 if t < 32 else 3) for t in threads]
    for left in answers(either, 4):
        assert isinstance(left, bytes), left
        assert np.frombuffer(left, np.int32).tolist() == wanted


def test_a_shuffle_that_reads_from_a_lane_that_has_ended_is_found_in_every_order(checked: Device) -> None:
    found = (
        r"barrier error in kernel\n  .*kernel\.cu:8: thread \((3[2-9]|4[0-3]), 0\) of block \(0, 0\)"
        r" calls a warp function that reads from lane 1[2-5], which has returned \(.*kernel\.cu:5\)"
    )
    for said in answers(checked, 16):
        assert re.search(found, str(said)), said
