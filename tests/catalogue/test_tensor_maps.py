"""Tests of tensor maps, and of kernels that use instructions of one architecture alone."""

from __future__ import annotations

import numpy as np
import pytest

import warpwatch as ww
from kernels import FAMILIES
from warpwatch.catalogue.cases import find_case
from warpwatch.catalogue.launches import Capability
from warpwatch.catalogue.tensor_maps import is_tensor_map
from warpwatch.revision.declared import own_identity

ID = "matmul_half-wgmma-256x128-{}-bfloat16"


@pytest.mark.parametrize(("shape", "unaligned"), [("4096x4096x4096", ""), ("4095x4097x4093", "AB"), ("64x64x65", "B")])
def test_a_map_is_of_the_matrix_or_of_its_aligned_copy(shape: str, unaligned: str) -> None:
    case = find_case(FAMILIES, ID.format(shape))
    at = {array.name: (i + 1) << 40 for i, array in enumerate(case.arrays)}
    maps = [np.asarray(each) for each in case.arguments(case.steps[0], at)[:2]]
    assert [each["tensor_map"] for each in maps] == [at[n + "_copy" * (n in unaligned)] for n in "AB"]
    assert all(each["row_bytes"] % 16 == 0 for each in maps)


def test_another_revision_has_maps_made_of_its_own_arrays() -> None:
    case = find_case(FAMILIES, ID.format("4096x4096x4096"))
    at = {array.name: (i + 7) << 40 for i, array in enumerate(case.arrays)}
    steps = own_identity(case).steps
    assert steps
    for described, own in zip(steps[0].arguments, case.arguments(case.steps[0], at), strict=True):
        filled = described.fill(at)
        assert (filled.item(), is_tensor_map(filled)) == (own.item(), is_tensor_map(own))


@pytest.mark.parametrize(
    ("dtype", "columns", "swizzle", "said"),
    [
        ("complex64", 64, 0, "a tensor map has no complex64: its types are uint8, uint16, "),
        ("float16", 64, 16, "the swizzle is 16 bytes: it may be 0, 32, 64, 128"),
        ("float16", 65, 0, "rows of 130 bytes: TMA needs multiples of 16, so copy the matrix, or pad its rows"),
    ],
)
def test_what_no_map_can_be_made_of_is_a_sentence(dtype: str, columns: int, swizzle: int, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}"):
        ww.tensor_map(0, dtype, (64, columns), box=(8, 8), swizzle=swizzle)


def test_instructions_of_one_architecture_run_on_no_newer_gpu() -> None:
    usual, special = ww.kernel("usual", needs="sm_90"), ww.kernel("special", needs=("sm_80", "sm_90a"), flags=("-O2",))
    capabilities = [Capability(8, 0), Capability(9, 0), Capability(10, 0)]
    assert [usual.runs_on(each) for each in capabilities] == [False, True, True]
    assert [special.runs_on(each) for each in capabilities] == [False, True, False]
    assert (usual.flags, special.flags) == ((), ("-O2", "-arch=sm_90a"))
