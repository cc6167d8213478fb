"""Tests of the declared families: ids, launches and owners, and that files and declarations name the same kernels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import product

import pytest

from kernels import FAMILIES
from warpwatch.catalogue.cases import Case, find_case, make_case
from warpwatch.catalogue.corners import edge_cases
from warpwatch.catalogue.launches import Owner
from warpwatch.catalogue.named_arguments import call
from warpwatch.catalogue.names import BadCase
from warpwatch.catalogue.selection import builds, omitted_cases, tested_cases, timed_cases
from warpwatch.catalogue.variants import Configuration

EVERY_CASE = [*tested_cases(FAMILIES), *edge_cases(FAMILIES), *timed_cases(FAMILIES)]


def find(case_id: str) -> Case:
    return find_case(FAMILIES, case_id)


def test_ids_are_unique_lower_case_and_found_again() -> None:
    timed = timed_cases(FAMILIES)
    assert len({case.id for case in timed}) == len(timed) > 500
    for case in EVERY_CASE:
        assert re.fullmatch(
            r"[a-z0-9_]+-[a-z_]+-(\d+(x\d+)?|host|vendor)-\d+(x\d+)*-(b?float(16|32|64)|u?int(8|32)|none)", case.id
        )
        assert find(case.id) == case


def test_an_id_of_the_readme_stays_what_it_is() -> None:
    case = find("matmul-tiled-16x16-1920x1024x1280-float32")
    assert (case.build.block, case.shape, case.dtype) == ((16, 16), (1920, 1024, 1280), "float32")
    assert case.build.own_macros == {"scalar_t": "float", "BLOCK_X": "16", "BLOCK_Y": "16"}
    assert case.build.macros == {}
    assert case.work.operations == 2 * 1920 * 1024 * 1280
    assert case.work.bytes == case.array_bytes == 4 * (1920 * 1024 + 1024 * 1280 + 1920 * 1280)


def test_threads_of_several_elements_cost_what_they_compute_beyond_the_result() -> None:
    long, small = (find(f"matmul-tensor-128x128-{shape}-float64") for shape in ("2x1009x3", "17x33x65"))
    assert long.launch_cost == pytest.approx(2 * 1009 * 128 * 128)
    assert small.launch_cost == pytest.approx(2 * 33 * 128 * 128)
    assert find("matmul-naive-16x16-2x1009x3-float64").launch_cost == 2 * 1009 * 2 * 3  # no thread has two


def test_every_kernel_file_is_declared_and_every_declaration_has_its_file() -> None:
    declared = {build.source for build in builds(FAMILIES) if not build.variant.call}
    folders = {family.folder for family in FAMILIES}
    files = {file for folder in folders for file in folder.iterdir() if file.suffix in (".cu", ".cpp")}
    assert files == declared
    for build in builds(FAMILIES):
        if build.variant.call:
            continue
        text = build.source.read_text()
        assert text.startswith("// "), f"{build.source} has no header"
        entries = {build.entry, Case(build, build.family.tests[0]).entry}
        assert re.search(rf"\b({'|'.join(entries)})\(", text), f"{build.source} has no kernel {build.entry}"
        assert "Costs:" in text, f"the header of {build.source} does not say what the kernel costs"


@pytest.mark.parametrize(
    ("case_id", "message"),
    [
        ("matmul-tild-8x8-1x1x1-float64", "no variant of matmul is named 'tild'; did you mean tiled?"),
        ("matmull-tiled-8x8-1x1x1-float64", "no family is named 'matmull'; did you mean matmul?"),
        ("matmul-tiled-8x8-0x5x5-float64", "m = 0 is not in 1..1,073,741,824"),
        ("matmul-tiled-8x8-5x-1x5-float64", "n = -1 is not in 1..1,073,741,824"),
        ("matvec-naive-64-2000000000x1-float32", "m = 2000000000 is not in"),
        ("matmul-tiled-8x8-5x5-float64", "a shape of matmul is mxnxk, not 5x5"),
        ("matmul-tiled-8-5x5x5-float64", "a block of tiled looks like 8x8, not 8"),
        ("matmul-tiled-0x8-5x5x5-float64", "block 0x8 has a size below 1"),
        ("matmul-tiled-8xa-5x5x5-float64", "block '8xa' is not of the form 16x16"),
        ("matmul-rowstrip-64x1-5x5x5-int32", "rowstrip has no element type int32; it has float64, float32"),
        ("conv2d-naive-8x8-3x9x5-int32", "a 5x5 filter does not fit into a 3x9 image"),
        ("matmul-serial-8x8-5x5x5-float64", "runs on the host; its block is written 'host'"),
        (
            "matmul-tensor-32x32-5x5x5-float64",
            "tensor has the blocks 128x128, 64x64; other tile sizes are refused: the kernel needs macros for each",
        ),
        ("matmul-warptiled-256x128-5x5x5-float64", "warptiled has no block 256x128 in float64"),
        ("matmul", "is not a case id"),
    ],
)
def test_a_case_that_cannot_be_says_why(case_id: str, message: str) -> None:
    with pytest.raises(BadCase) as caught:
        find(case_id)
    assert message in str(caught.value)
    assert case_id in str(caught.value) or "named" in message


def test_serial_leaves_out_what_takes_longer_than_a_second_and_says_so() -> None:
    omitted = omitted_cases(FAMILIES)
    assert "matmul-serial-host-2048x2048x2048-float64" in {case.id for case in omitted}
    assert not {case.id for case in omitted} & {case.id for case in timed_cases(FAMILIES)}
    assert all(case.variant.on_host and "s on one core" in str(case.omitted) for case in omitted)


def test_grids_cover_their_results_and_have_no_block_more() -> None:
    for case in EVERY_CASE:
        if not case.results or not case.variant.follows_tiles:
            continue
        result, launch = case.results[0].shape, case.launch
        covered = {case.variant.x: (launch.grid[0], case.tile[0])}
        if case.variant.y is not None:
            covered[case.variant.y] = (launch.grid[1] * launch.grid[2], case.tile[1])
        for axis, (blocks, elements) in covered.items():
            assert (blocks - 1) * elements < result[axis] <= blocks * elements, case.id


def test_every_reference_case_is_timed() -> None:
    timed = {case.id for case in timed_cases(FAMILIES)}
    named = {call(case.family.reference_case, case.given) for case in timed_cases(FAMILIES)}
    assert {""} < named <= {*timed, ""}


def test_rows_past_the_limit_of_grid_y_continue_in_z() -> None:
    launch = find("matmul-naive-8x8-1000000x1x3-float32").launch
    x, y, z = launch.grid
    assert (x, y <= 65_535, z) == (1, True, 2)
    assert y * z >= 125_000


Owned = tuple[tuple[int, int], tuple[int, int]]  # block and thread


def transposed_by(build_block: tuple[int, int], m: int, n: int) -> Mapping[tuple[int, int], Owned]:
    """Imitate tiled.cu thread by thread: return the block and thread that write each element."""
    bx, by = build_block
    wrote = {}
    blocks = product(range(-(-n // bx)), range(-(-m // by)), range(bx), range(by))
    for block_x, block_y, thread_x, thread_y in blocks:
        thread = thread_y * bx + thread_x
        row, col = block_x * bx + thread // by, block_y * by + thread % by
        if row < n and col < m:
            wrote[row, col] = ((block_x, block_y), (thread_x, thread_y))
    return wrote


@pytest.mark.parametrize("block", [(8, 8), (4, 2), (2, 6)])
def test_the_owner_of_a_transposed_element_is_the_thread_that_writes_it(block: tuple[int, int]) -> None:
    family = next(f for f in FAMILIES if f.name == "transpose")
    case = make_case(family, family.variant("tiled"), Configuration(block), (13, 11), "float32")
    for index, written_by in transposed_by(block, 13, 11).items():
        assert case.owner(index) == Owner(*written_by)


def test_owners_follow_the_axis_that_a_variant_gives_to_x() -> None:
    naive, strided = (find(f"matmul-{name}-8x4-100x5x100-float32").owner((9, 30)) for name in ("naive", "strided"))
    assert naive == Owner((3, 2), (6, 1))
    assert strided == Owner((1, 7), (1, 2))


@pytest.mark.parametrize(
    ("build", "shapes"),
    [
        ("matmul-tiled-16x16-float32", "1x1x1 17x17x17 15x17x15 37x1x1 1x37x1 1x1x37"),
        ("matmul-rowstrip-64x1-float32", "1x1x1 2x65x65 1x65x63 7x1x1 1x133x1 1x1x133"),
        ("transpose-naive-32x16-float32", "1x1 17x33 15x33 37x1 1x69"),
        ("conv2d-halo-32x8-float32", "1x1x1 33x33x33 31x33x31 69x1x1 1x69x1"),
        ("matmul-serial-host-float32", "1x1x1 17x17x17 15x17x15 37x1x1 1x37x1 1x1x37"),
        ("hello-hello-5x5-none", "1 6 4 15"),
    ],
)
def test_edges_lie_on_both_sides_of_a_tile(build: str, shapes: str) -> None:
    assert [case.shape_name for case in edge_cases(FAMILIES) if case.build.id == build] == shapes.split()
