"""Tests of the peaks of arithmetic pipes: multiplied out, they are what NVIDIA says of GPUs."""

from __future__ import annotations

import pytest

from warpwatch.catalogue.pipes import A100, ADA, AMPERE, B200, BLACKWELL, HOPPER, PIPES, TURING, USUAL, VOLTA

# Name, architecture, multiprocessors, boost clock in GHz, and 10^12 operations a second by pipe, of the data sheets.
GPUS = (
    ("V100", VOLTA, 80, 1.53, {"fp32": 15.7, "fp64": 7.8, "fp16": 31.4, "tensor fp16": 125}),
    ("T4", TURING, 40, 1.59, {"fp32": 8.1, "tensor fp16": 65, "tensor int8": 130}),
    ("A100", A100, 108, 1.41, {"fp32": 19.5, "fp64": 9.7, "fp16": 78, "tensor fp64": 19.5, "tensor tf32": 156}),
    ("A100", A100, 108, 1.41, {"tensor fp16": 312, "tensor bf16": 312, "tensor int8": 624}),
    ("A40", AMPERE, 84, 1.74, {"fp32": 37.4, "tensor tf32": 74.8, "tensor bf16": 149.7, "tensor int8": 299.3}),
    ("L40S", ADA, 142, 2.52, {"fp32": 91.6, "tensor tf32": 183, "tensor fp16": 366, "tensor fp8": 733}),
    ("H100", HOPPER, 132, 1.98, {"fp32": 66.9, "fp64": 33.5, "fp16": 133.8, "tensor fp64": 66.9}),
    ("H100", HOPPER, 132, 1.83, {"tensor tf32": 494.7, "tensor bf16": 989.4, "tensor fp8": 1978.9}),
    ("B200", B200, 148, 1.965, {"fp32": 74.45, "fp64": 37.2}),
    ("RTX 5090", BLACKWELL, 170, 2.407, {"fp32": 104.8, "fp64": 1.64}),
)


@pytest.mark.parametrize(("name", "capability", "multiprocessors", "clock", "peaks"), GPUS)
def test_peaks_are_those_of_the_data_sheets(
    name: str, capability: object, multiprocessors: int, clock: float, peaks: dict[str, float]
) -> None:
    for pipe, peak in peaks.items():
        own = PIPES[pipe][capability] * multiprocessors * clock / 1e3  # type: ignore[index]
        assert own == pytest.approx(peak, rel=0.015), (name, pipe)


def test_the_usual_pipes_are_known() -> None:
    assert {pipe for pipes in USUAL.values() for pipe in pipes} <= {*PIPES}
