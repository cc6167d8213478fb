"""Tests of the roof that a contract measures a case by: what memory and arithmetic of a GPU allow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernels import FAMILIES
from tests.fake_gpu import INFO
from warpwatch.catalogue.cases import find_case
from warpwatch.compare.contracts import roof_seconds

COPY = find_case(FAMILIES, "copy-memcpy-vendor-1000000-float32")
MATMUL, INT = (find_case(FAMILIES, f"matmul-naive-16x16-1024x1024x1024-{dtype}") for dtype in ("float32", "int32"))


def test_the_roof_of_a_copy_is_the_memorys() -> None:
    assert roof_seconds(COPY, INFO) == pytest.approx(8e6 / INFO.peak_bytes_per_second)


def test_the_roof_of_a_matrix_product_is_the_pipes() -> None:
    rate = 256 * INFO.multiprocessors * INFO.clock_hz
    assert roof_seconds(MATMUL, INFO) == pytest.approx(2 * 1024**3 / rate)
    fast = replace(INFO, clock_hz=1e15)
    assert roof_seconds(MATMUL, fast) == pytest.approx(12 * 1024**2 / INFO.peak_bytes_per_second)


def test_an_unknown_roof_is_a_sentence() -> None:
    assert "no rate of Fake GPU 1 is known for operations on int32: name one by Work(" in str(roof_seconds(INT, INFO))
    assert "the driver does not say" in str(roof_seconds(COPY, replace(INFO, peak_bytes_per_second=0.0)))
