"""Code that takes a warp to run in step, as before Volta, is a race, and the finding says since when."""

from __future__ import annotations

import re

import pytest

from tests.softcuda import calls
from tests.softcuda.device import Device

STEP = r"now __syncwarp\(\) must be between"
# The last 32 values of a sum in a tree, each step of which reads what other lanes wrote in the one before.
TREE = """extern "C" __global__ void kernel(float* out)
{
    __shared__ MAYBE_VOLATILE float sums[64];
    const int lane = threadIdx.x;
    sums[lane] = 1;
    sums[lane + 32] = 2;
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        const float other = sums[lane + half];
        BETWEEN
        if (lane < half)
            sums[lane] += other;
        BETWEEN
    }
    out[lane] = sums[0];
}
"""


def answers(checked: Device, qualifier: str, between: str) -> list[bytes | str]:
    image = checked.image(TREE.replace("MAYBE_VOLATILE", qualifier).replace("BETWEEN", between))
    return checked.in_orders(calls.run_with_zeros, image, "kernel", 128, orders=(None, 1, 2, 3))


def test_lanes_that_hand_on_by_volatile_alone_are_accused_and_told_of_volta(checked: Device) -> None:
    for text in map(str, answers(checked, "volatile", "")):
        found = rf"softcuda: race in kernel\n.*\n.*, with no barrier between: before Volta .*; {STEP}"
        assert re.search(found, text), text


def test_a_fence_is_no_barrier_of_the_lanes(checked: Device) -> None:
    for text in map(str, answers(checked, "volatile", "__threadfence_block();")):
        assert "softcuda: race in kernel" in text, text


def test_a_race_without_volatile_was_never_right_and_is_not_excused(checked: Device) -> None:
    text = str(answers(checked, "", "")[0])
    assert "softcuda: race in kernel" in text
    assert "Volta" not in text


@pytest.mark.once
@pytest.mark.parametrize("qualifier", ["volatile", ""])
def test_with_syncwarp_between_nothing_is_accused(checked: Device, qualifier: str) -> None:
    for left in answers(checked, qualifier, "__syncwarp();"):
        assert isinstance(left, bytes), left
