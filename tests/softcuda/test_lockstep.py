"""Code that takes a warp to run in step, as before Volta, is a race, and the finding says since when."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.project import PROJECT
from tests.softcuda import calls
from tests.written import compile_written
from warpwatch.devices.gpu import Settings
from warpwatch.devices.worker import Worker, describe_device

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


def said(folder: Path, seed: int | None, qualifier: str, between: str) -> bytes | str:
    source = folder / "tree.cu"
    source.write_text(TREE.replace("MAYBE_VOLATILE", qualifier).replace("BETWEEN", between))
    worker = Worker(PROJECT, Settings(kind="software", schedule_seed=seed))
    image = compile_written(source, {}, worker.call(describe_device).target)
    left = worker.call(calls.run_with_zeros, image.path, "kernel", 128)
    worker.stop()
    return left


@pytest.mark.once
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_lanes_that_hand_on_by_volatile_alone_are_accused_and_told_of_volta(tmp_path: Path, seed: int | None) -> None:
    text = str(said(tmp_path, seed, "volatile", ""))
    assert re.search(rf"softcuda: race in kernel\n.*\n.*, with no barrier between: before Volta .*; {STEP}", text), text


@pytest.mark.once
@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_a_fence_is_no_barrier_of_the_lanes(tmp_path: Path, seed: int | None) -> None:
    text = str(said(tmp_path, seed, "volatile", "__threadfence_block();"))
    assert "softcuda: race in kernel" in text, text


def test_a_race_without_volatile_was_never_right_and_is_not_excused(tmp_path: Path) -> None:
    text = str(said(tmp_path, None, "", ""))
    assert "softcuda: race in kernel" in text
    assert "Volta" not in text


@pytest.mark.once
@pytest.mark.parametrize("qualifier", ["volatile", ""])
def test_with_syncwarp_between_nothing_is_accused(tmp_path: Path, qualifier: str) -> None:
    left = said(tmp_path, 1, qualifier, "__syncwarp();")
    assert isinstance(left, bytes), left
