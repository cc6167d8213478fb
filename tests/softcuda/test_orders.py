"""The software device accuses no kernel whose threads are ordered, however they are, and finds it when they are not.

Each kernel of ``good_kernels/`` is right; compiled with the macro BROKEN it lacks what its header says.
"""

from __future__ import annotations

import re
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest

from tests.project import PROJECT, ROOT
from tests.softcuda import calls
from tests.softcuda.device import Device
from warpwatch.devices.compile.compiler import Image, compile_text
from warpwatch.devices.opening import Settings
from warpwatch.devices.worker import Worker

FOLDER = ROOT / "tests" / "softcuda" / "good_kernels"
ORDERS = (None, 1, 2, 3, 4)
BLOCKS = 8  # of 64 threads, where there are several
THREADS, LANES = range(64), range(32)


def ballot_queue() -> list[int]:
    queues = [[lane for lane in LANES if (lane + round_) % 3 == 0] for round_ in range(3)]
    return 2 * [sum(queue[-1 - lane] for queue in queues if lane < len(queue)) for lane in LANES]


def maximum() -> list[int]:
    values = np.arange(64 * BLOCKS).reshape(BLOCKS, 64) * 37 % 101
    return [int(np.max(values)), *np.max(values, axis=1).tolist()]


def sum_of_prefixes(number: int) -> int:
    """Return 1 and the sum of a number and of what is left when its lowest bits are taken away one by one."""
    return number + sum_of_prefixes(number & (number - 1)) if number else 1


def staying() -> list[int]:
    left = {t: 63 - t + (t + 33) % 64 for t in THREADS if t % 32 < 20 and t != 3}
    return [left.get(t, 0) + (left[32 + t % 16] if t < 32 and t in left else 0) for t in THREADS]


LAST_BLOCKS = {
    "last_block_sum": [36, 0, -1, *range(2, 9)],
    "last_block_of_many_parts": [BLOCKS * sum(THREADS), 0, *(BLOCKS * list(THREADS))],
    "last_block_with_own_fences": [sum(range(512)), 512, *range(512)],
    "look_back": [BLOCKS, 0, *(BLOCKS * [1]), *accumulate(range(BLOCKS))],
    "look_back_by_atomics": [BLOCKS, 0, *(BLOCKS * [1]), *accumulate(range(BLOCKS))],
    "grid_stride_in_place": 2 * 64 * BLOCKS * [1],
    "lock": [sum(range(BLOCKS)), 0],
    "maximum_by_compare_and_swap": maximum(),
}
# What each kernel leaves, in one block of 64 threads or in as many as there are of LAST_BLOCKS.
EXPECTED: dict[str, list[int]] = {
    "broadcast_then_overwrite": 64 * [79],
    "ballot_queue": ballot_queue(),
    "staged_shuffle_sum": [sum((t // 32 * 32 + 31 - i) * (i + 1) for i in LANES) for t in THREADS],
    "tile_of_a_warp": 2 * [400 * (i % 8) + sum(range(i // 8 * 8, i // 8 * 8 + 4)) for i in LANES],
    "double_buffer": 2 * [(i + 6) % 32 for i in LANES],
    "tree_of_a_warp": [sum(range(t // 32 * 32, t // 32 * 32 + 32)) for t in THREADS],
    "leader_of_active_lanes": [22] + 22 * [1],
    "groups_of_eight": 2 * [i & 24 | (i + 3) % 8 for i in LANES],
    "groups_of_sixteen": [sum(range(t // 16 * 16, t // 16 * 16 + 16)) for t in THREADS],
    "histogram_of_matches": np.bincount([t * 7 % 5 for t in THREADS]).tolist(),
    "barrier_of_those_that_stay": staying(),
    "prefix_sum": [i * (i + 1) // 2 + start for start in (0, 528) for i in LANES],
    "producers_and_consumers": [3 * (t - 16) if t % 32 >= 16 else 0 for t in THREADS],
    "chain_of_masks": [5],
    "neighbours_in_global_memory": [2 * (t ^ 1) for t in THREADS],
    "last_warp_of_a_block": [7],
    "chain_of_threads": [*(64 * [1]), *accumulate(THREADS)],
    "flags_of_a_warp": [*(65 * [1]), *map(sum_of_prefixes, THREADS)],
    "flag_that_many_set": 64 * [5],
    "bytes_of_a_word": [*np.arange(64, dtype=np.uint8).view(np.int32).tolist(), *[(t ^ 1) + (t ^ 2) for t in THREADS]],
    **LAST_BLOCKS,
}
# In some orders the twins of these read what nothing has written yet: that is then what is found first.
READ_BEFORE_WRITTEN = {
    "ballot_queue",
    "barrier_of_those_that_stay",
    "bytes_of_a_word",
    "chain_of_masks",
    "groups_of_eight",
    "prefix_sum",
    "staged_shuffle_sum",
    "tile_of_a_warp",
}


def all_kernels(device: Device, broken: bool) -> Image:
    """The kernels of all files, or their twins, compiled together: that takes a tenth of the time."""
    macros = {"BROKEN": "1"} if broken else {}
    text = "".join(f'#include "{FOLDER / name}.cu"\n#undef FENCE\n' for name in EXPECTED)
    return compile_text(text, "good_kernels.cu", device.target, macros=macros)


def answers(device: Device, name: str, broken: bool) -> list[bytes | str]:
    blocks, size = BLOCKS if name in LAST_BLOCKS else 1, 4 * len(EXPECTED[name])
    return device.left(all_kernels(device, broken), name, size, 64, blocks, orders=ORDERS)


def test_every_good_kernel_is_expected_to_leave_something() -> None:
    assert {path.stem for path in FOLDER.glob("*.cu")} == set(EXPECTED)
    assert len(EXPECTED) >= 20


@pytest.mark.parametrize("name", EXPECTED)
def test_what_is_ordered_is_accused_in_no_order(checked: Device, name: str) -> None:
    for left in answers(checked, name, broken=False):
        assert isinstance(left, bytes), left
        assert np.frombuffer(left, np.int32).tolist() == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_its_broken_twin_is_found_in_every_order_with_both_places(checked: Device, name: str) -> None:
    place = rf"tests/softcuda/good_kernels/{name}\.cu:\d+: thread \(\d+, 0\) of block \(\d+, 0\)"
    for said in map(str, answers(checked, name, broken=True)):
        early = name in READ_BEFORE_WRITTEN and re.search(rf"softcuda: uninitialised memory .*\n.*{place} reads", said)
        assert early or re.search(rf"softcuda: race.*\n.*{place} .*\n.*{place} ", said), said


FAR = """
extern "C" __global__ void far(int* out)
{
    const int page = 16384, mine = 256 + int(blockIdx.x * blockDim.x + threadIdx.x);
    int sum = 0;
    for (int i = int(threadIdx.x); i < 256; i += int(blockDim.x))
        sum += out[i * page];
    __syncthreads();
    out[mine * page] = sum + mine;
#ifdef BROKEN
    out[mine * page + 1] = out[(mine ^ 32) * page];
#endif
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("broken", [False, True])
def test_beyond_what_has_large_cells_races_are_found_and_memory_is_not_more(tmp_path: Path, broken: bool) -> None:
    """A page of 64 KiB for each of 512 threads; the first 256 pages have cells that remember everything."""
    worker, size = Worker(PROJECT, Settings(kind="software")), 512 * 65536  # a process of its own, to see its memory
    image = Device(worker, tmp_path).image(FAR, {"BROKEN": 1} if broken else {})
    before, after, left = worker.call(calls.peak_of_run, image.path, "far", (32, 1, 1), (8, 1), size, 0)
    worker.stop()
    if broken:
        assert re.search(r"race between blocks in far\n  kernel\.cu:11: thread .* reads 4 bytes of out", str(left)), (
            left
        )
        assert "another block wrote them in the same launch" in str(left), left
    else:
        assert isinstance(left, bytes), left
        assert after - before <= 3 * size + 200e6  # the result's copy on the host is the third
