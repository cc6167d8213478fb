"""Tests theoretical occupancy by figures that were worked out by hand from the limits in NVIDIA's guide."""

from __future__ import annotations

import pytest

from warpwatch.machine_code.cubin import LIMITS, occupancy


@pytest.mark.parametrize(
    ("capability", "threads", "registers", "shared_bytes", "share", "limited_by"),
    [
        ((9, 0), 256, 32, 0, 1.0, "threads"),
        ((9, 0), 256, 33, 0, 0.75, "registers"),  # 40 registers are given, of which 48 warps fit
        ((9, 0), 256, 128, 0, 0.25, "registers"),
        ((9, 0), 64, 129, 0, 0.1875, "registers"),  # 3 warps in each quarter of the multiprocessor
        ((9, 0), 32, 16, 0, 0.5, "blocks"),
        ((9, 0), 256, 32, 49_152, 0.5, "shared memory"),
        ((9, 0), 256, 32, 28_160, 1.0, "threads"),  # with 1 KiB for the system, eight blocks take all of 228 KiB
        ((9, 0), 256, 32, 28_161, 0.875, "shared memory"),
        ((9, 0), 1024, 65, 0, 0.0, "registers"),  # such a block cannot run
        ((8, 6), 256, 32, 0, 1.0, "threads"),
        ((8, 6), 1024, 32, 0, 32 / 48, "threads"),
        ((7, 5), 256, 64, 32_768, 0.5, "shared memory"),
        ((12, 0), 128, 40, 50_000, 8 / 48, "shared memory"),
    ],
)
def test_occupancy(
    capability: tuple[int, int], threads: int, registers: int, shared_bytes: int, share: float, limited_by: str
) -> None:
    found = occupancy(capability, threads=threads, registers=registers, shared_bytes=shared_bytes)
    assert found
    assert found.share == pytest.approx(share)
    assert found.limited_by == limited_by


def test_a_gpu_that_is_not_known_has_no_figure() -> None:
    assert (8, 8) not in LIMITS
    assert occupancy((8, 8), threads=128, registers=32, shared_bytes=0) is None
