"""Where the software device is blind: each line of its README has a test that shows it, here or elsewhere."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.project import ROOT
from tests.softcuda.device import Device

SOURCE = ROOT / "tests" / "softcuda" / "blind.cu"
FAR = 4 * (257 << 14)
# Kernels with a fault that is not seen: bytes of their array, threads and blocks.
NOT_SEEN = {
    "branch_not_taken": (256, 32, 1),
    "far_halves": (FAR, 32, 1),
    "far_word_that_an_earlier_block_read": (FAR, 32, 2),
    "ordered_by_a_vote": (256, 32, 1),
    "around_a_barrier": (256, 32, 1),
    "plain_write_behind_an_atomic": (256, 64, 1),
    "device_variable": (256, 32, 1),
    "restrict_of_one_thread": (256, 32, 1),
    "restrict_of_lanes": (256, 32, 1),
    "equal_values": (256, 32, 1),
    "flag_of_nothing": (256, 1, 1),
    "many_threads_of_nothing": (256, 1024, 2000),
    "wraps_unsigned": (256, 32, 1),
    "blocks_that_took_turns": (256, 32, 2),
    "behind_a_pointer": (256, 1, 1),
    "end_of_a_row": (256, 32, 1),
    "copy_not_waited_for": (256, 32, 1),
    "word_of_too_many": (4 * (64 + 32768 + 64), 64, 1),
}
# The first words of each line, and the tests that show it: kernels of blind.cu, or functions of this folder's tests.
LINES = {
    "One run is judged": "branch_not_taken",
    "Beyond the first 16 MiB of global memory": "far_halves far_word_that_an_earlier_block_read",
    "Between streams a launch counts": "test_streams:test_an_order_that_is_there_is_seen",
    "Of a launch that may begin early": "test_streams:test_what_is_not_seen_between_streams",
    "A result that the host reads": "test_streams:test_what_is_not_seen_between_streams",
    "`cudaMemcpy` of ordinary memory": "test_streams:test_what_is_not_seen_between_streams",
    "Votes, shuffles, matches": "ordered_by_a_vote",
    "A lane that ends": "test_ended_lanes:test_lanes_that_have_ended_are_waited_for_by_nobody",
    "A thread that goes around": "around_a_barrier",
    "A cell remembers one write": "plain_write_behind_an_atomic",
    "Copies that arrive at an mbarrier": "copy_not_waited_for",
    "What is ordered by an mbarrier": "word_of_too_many",
    "What a block takes from another": "test_hidden:test_what_looks_like_it_and_is_right_is_not_accused",
    "Of words of `__device__` variables": "device_variable",
    "Of `__restrict__`": "restrict_of_one_thread restrict_of_lanes",
    "In a file of more than 30,000 lines": "test_comparisons_of_a_large_file_are_not_looked_for",
    "Unsigned numbers": "wraps_unsigned",
    "A remark in place of a finding": "equal_values",
    "A variable that nothing set": "flag_of_nothing many_threads_of_nothing "
    "test_hidden:test_a_result_made_of_a_variable_that_nothing_set_names_it",
    "Threads take turns only": "blocks_that_took_turns",
    "A volatile word that a thread writes": "test_orders:test_what_is_ordered_is_accused_in_no_order",
    "Memory is sequentially consistent": "test_a_missing_fence_changes_no_result",
    "Threads of a block that write the same": "equal_values",
    "Code that takes a warp": "test_lockstep:test_lanes_that_hand_on_by_volatile_alone_are_accused_and_told_of_volta",
    "Of a thread's own arrays": "behind_a_pointer end_of_a_row",
    "A texture's cache": "test_textures:test_linear_memory_is_fetched_by_index_and_zero_outside",
    "It takes g++ 12, 13 and 14": "test_other_compilers:test_a_kernel_compiles_where_gxx_fortifies_by_itself",
    "Sums of a product": "test_products:test_a_product_of_the_tensor_cores",
    "Sums of products": "test_arithmetic:test_contraction_and_denormals_are_as_nvcc_is_told",
    "`__expf` and its like": "test_arithmetic:test_all_results_are_those_of_the_table",
    "A conversion of a constant": "test_a_conversion_of_a_constant_is_folded",
}


@pytest.mark.parametrize("entry", NOT_SEEN)
def test_a_fault_is_not_seen(checked: Device, entry: str) -> None:
    assert checked.said(checked.image(SOURCE), entry, *NOT_SEEN[entry]) == ""


def test_it_is_seen_where_the_line_says_so(checked: Device) -> None:
    image = checked.image(SOURCE)
    assert "race in near_halves" in checked.said(image, "near_halves", FAR)


def test_a_missing_fence_changes_no_result(checked: Device) -> None:
    (left,) = checked.unchecked.left(
        checked.unchecked.image(ROOT / "tests/softcuda/hidden.cu"), "no_fence_before", 256, 32, 4, orders=(None,)
    )
    assert isinstance(left, bytes)
    assert np.frombuffer(left, np.int32)[0] == 1 + 2 + 3 + 4


def test_a_conversion_of_a_constant_is_folded(checked: Device) -> None:
    image = checked.image(
        'extern "C" __global__ void k(int* data)\n{\n    data[0] = (unsigned char)300.5f;\n'
        "    data[1] = (unsigned char)(data[2] + 300.5f);\n}\n"
    )
    (left,) = checked.left(image, "k", 256, 1, orders=(None,))
    assert isinstance(left, bytes)
    assert np.frombuffer(left, np.int32)[:2].tolist() == [255, 300 % 256]


COMPARISON = """#define SIX(s) s s s s s s
extern "C" __global__ void comparison(float* data)
{
    float largest;
    for (int i = 0; i < 8; ++i)
        if (data[i] > largest) largest = data[i];
    data[8 + threadIdx.x] = largest;
}
"""
LARGE = "__global__ void large(unsigned* x) { SIX(SIX(SIX(SIX(x[x[0]] ^= x[1] + 7;)))) }\n"


@pytest.mark.slow
def test_comparisons_of_a_large_file_are_not_looked_for(checked: Device) -> None:
    said = [checked.said(checked.image(text), "comparison", 256) for text in (COMPARISON, COMPARISON + LARGE)]
    assert "unset variable in comparison" in said[0]
    assert said[1] == ""


def test_every_line_of_the_readme_has_a_test_that_shows_it() -> None:
    text = (ROOT / "softcuda/README.md").read_text()
    lines = re.findall(r"^- (.*)", text.partition("**Where it is blind.**")[2].partition("## Read on")[0], re.MULTILINE)
    assert {line: [first for first in LINES if line.startswith(first)] for line in lines} == {
        line: [first] for line, first in zip(lines, LINES, strict=True)
    }
    shown = [name for names in LINES.values() for name in names.split()]
    files = {name.partition(":")[0] for name in shown if ":" in name}
    tests = {f"{file}:{name}" for file in files for name in defined_in(file)} | set(defined_in("test_blind"))
    assert {name for name in shown if name not in tests and name not in NOT_SEEN} == set()


def defined_in(file: str) -> list[str]:
    return re.findall(r"^def (test_\w+)", (ROOT / f"tests/softcuda/{file}.py").read_text(), re.MULTILINE)
