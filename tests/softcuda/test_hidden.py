"""Faults that hide from values are found with their cause; right kernels that look like them are not accused."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.project import ROOT
from tests.softcuda import calls
from tests.softcuda.device import Device
from warpwatch.devices.worker import gpu

SOURCE = ROOT / "tests/softcuda/hidden.cu"
SCOPE = r"race between blocks .*an operation of a block's scope \(_block, thread_scope_block\) is not atomic to others"
FENCE = r"race between blocks .*has no fence behind: __threadfence\(\) must come before they are read"
FOUND = {
    "no_fence_behind": FENCE,
    "relaxed": FENCE,
    "fence_of_a_block": FENCE,
    "scope_of_a_block": SCOPE,
    "reference_of_a_block": SCOPE,
    "ptx_scope_of_a_block": SCOPE,
    "counter_of_all_blocks": SCOPE,
    "neighbour_by_ldg": r"stale read .* through the read-only cache\n.* wrote them .*: read them by an ordinary load",
    "neighbour_by_nc": r"stale read .* through the read-only cache\n",
    "maximum_of_nothing": r"unset variable .* takes the larger of a value that nothing has set, of largest \(",
    "comparison_of_nothing": r"unset variable .* compares a value that nothing has set, of largest \(.*\.cu:\d+\): ",
    "member_of_nothing": r"unset variable .* compares a value that nothing has set, of best \(",
    "exchange_behind_restrict": r"broken restrict .* of shared row at byte \d+ through row, which is __restrict__\n"
    r".* wrote them: .*: declare row without __restrict__",
    "restrict_of_a_kernel": r"broken restrict .* of data \(argument 1\), 256 bytes at byte \d+ through data, which is",
    "no_fence_before": r"race between blocks .*: atomic operations do that with a __threadfence\(\) before, by the",
    "count_of_nothing": r"uninitialised memory .* changes \(atomically\) 4 bytes of shared count at byte 0, "
    "which nothing sets in this block: set it first, with a barrier behind",
    "halo_that_is_used": r"uninitialised memory .* shared row at byte 0, which nothing writes in this block",
    "halo_that_decides": r"uninitialised memory .* shared row at byte 0, which nothing writes in this block",
    "far_past_the_end": r"out of bounds .* past the end of shared row, 128 bytes",
    "parents": r"race ",
    "in_place_with_a_test": r"race ",
    "cleared_and_read": r"race ",
    "limit_before_counting": r"race ",
    "least_read_by_others": r"race ",
    "eight_past_the_end": r"out of bounds .* writes 32 bytes at .* past the end of data",
    "four_alike": r"race between blocks .* writes 16 bytes .*\n.* wrote the same value in the same launch",
    "_Z12past_the_endIfLi1000EEvPT_": r"out of bounds in past_the_end<float, 1000>\n",
}
RIGHT = ("last_block", "last_block_reads_volatile", "last_block_acquires", "last_block_acquires_by_ptx",
         "counters_of_blocks", "neighbour", "ldg_before_writing", "maximum", "comparison", "compared_where_it_is_set",
         "exchange", "restrict_of_what_was_written_before", "restrict_of_what_is_its_own",
         "count", "halo_that_is_not_used", "stop_flag", "levels", "least")  # fmt: skip
UNDEFINED = -65_794  # what is no index
# The others run in four.
IN_ONE_BLOCK = re.compile(
    "exchange|restrict|member|neighbour|ldg|maximum|compar|count_of_n|count$|far|cleared|least_r|halo"
)


def answers(device: Device, entries: list[str]) -> dict[str, list[bytes | str]]:
    """What kernels leave of 256 bytes in blocks of 32 threads, in three orders, or what is said of them."""
    image = device.image(SOURCE)
    return {entry: device.left(image, entry, 256, 32, 1 if IN_ONE_BLOCK.match(entry) else 4) for entry in entries}


def test_a_hidden_fault_is_found_in_every_order(checked: Device) -> None:
    missed = {
        entry: said
        for entry, each in answers(checked, list(FOUND)).items()
        for said in each
        if not re.search(f"softcuda: {FOUND[entry]}", str(said), re.DOTALL)
    }
    assert missed == {}, "\n".join(f"{entry}: {said!r}" for entry, said in missed.items())


def test_what_looks_like_it_and_is_right_is_not_accused(checked: Device) -> None:
    accused = {
        entry: said for entry, each in answers(checked, list(RIGHT)).items() for said in each if isinstance(said, str)
    }
    assert accused == {}


def remarks_of(image: Path, entry: str) -> tuple[str, ...]:
    gpu().remarks_on_launches()
    calls.run_on_bytes(image, entry, (32, 1, 1), (1 if IN_ONE_BLOCK.match(entry) else 4, 1), 256, 0)
    return gpu().remarks_on_launches()


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("stop_flag", "a volatile flag that is only ever set to one value"),
        ("levels", "every thread that writes has tested the word and writes the same value"),
        ("least", "the atomic operation behind the plain read looks again; a volatile or atomic read would say so"),
        ("halo_that_is_not_used", "its value changes nothing"),
        ("neighbour", ""),
    ],
)
def test_a_race_that_harms_nothing_is_a_remark(checked: Device, entry: str, why: str) -> None:
    remarks = checked.once(remarks_of, checked.image(SOURCE), entry)
    assert all(
        re.fullmatch(rf"a (race|read) in {entry} (of|at) .*hidden\.cu:\d+ .*is taken for harmless: {why}", each)
        for each in remarks
    )
    assert bool(remarks) == bool(why)


def test_an_initial_value_of_shared_memory_is_refused_as_by_nvcc(checked: Device) -> None:
    said = checked.refusal(
        "__global__ void k(int* out)\n{\n    __shared__ int sums[4] = {0};\n    *out = sums[0];\n}\n"
    )
    assert "kernel.cu:3:5: error: initializer not allowed for __shared__ variable" in said


CAUSES = """extern __shared__ float a[];
extern __shared__ int b[];
extern "C" __global__ void two_arrays(int* data) { a[threadIdx.x] = 1; b[threadIdx.x] = 2; data[0] = a[0]; }
extern "C" __global__ void negative(int* data)
{
    float x = data[0] - 7.5f;
    data[1] = (unsigned)x, data[2] = (unsigned)(x + 8);
}
extern "C" __global__ void outside(int* data)
{
    int product = 3;
    if (threadIdx.x == 0)
        product *= __shfl_down_sync(1, product, 1);
    data[threadIdx.x] = product;
}
extern "C" __global__ void sum_of_nothing(float* data)
{
    float sum[2];
    for (int i = 0; i < 4; ++i)
        sum[i & 1] += data[i];
    data[5] = sum[0];
}
"""


def causes_of(image: Path, entry: str, threads: int = 1) -> tuple[str, ...]:
    gpu().likely_causes()
    calls.run_on_bytes(image, entry, (threads, 1, 1), (1, 1), 256, 256)
    return gpu().likely_causes()


def test_what_is_rarely_meant_is_told_where_a_result_is_wrong(checked: Device) -> None:
    image = checked.image(CAUSES)
    (shared,) = checked.once(causes_of, image, "two_arrays")
    assert shared == "shared    extern __shared__ arrays begin at one address: a (kernel.cu:1), b (kernel.cu:2)"
    converts, _ = checked.once(causes_of, image, "negative")
    assert re.fullmatch(
        r"converts  .*kernel\.cu:7: thread \(0, 0\) of block \(0, 0\) makes unsigned int 0 of float -7\.5, "
        "for which it has no room, as a GPU does",
        converts,
    )


@pytest.mark.parametrize(("threads", "whose"), [(1, "the block does not have"), (32, "the mask does not name")])
def test_a_lane_outside_of_the_mask_gives_what_is_seen_and_told(checked: Device, threads: int, whose: str) -> None:
    image = checked.image(CAUSES)
    shuffles, _ = checked.once(causes_of, image, "outside", threads)
    assert re.fullmatch(
        rf"shuffles  .*kernel\.cu:13: thread \(0, 0\) .* reads from lane 1, which {whose}: that value is undefined",
        shuffles,
    )
    left = np.frombuffer(checked.once(calls.run_on_bytes, image, "outside", (threads, 1, 1), (1, 1), 256), np.int32)
    assert left[0] == 3 * UNDEFINED


def test_a_result_made_of_a_variable_that_nothing_set_names_it(checked: Device) -> None:
    unset, _ = checked.once(causes_of, checked.image(CAUSES), "sum_of_nothing")
    assert re.fullmatch(
        r"unset     .*kernel\.cu:21: data \(argument 1\), 256 bytes at byte 20 gets a value that nothing has set, "
        r"of sum \(.*kernel\.cu:18\): give it one where it is declared",
        unset,
    )
