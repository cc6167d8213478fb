"""The block that a message names as the writer of an element is the one that writes it, for every variant.

A copy of the kernel's source leaves at once in every block but one, and is launched once for each block of the grid:
what is not poison afterwards was written by that block.
"""

from __future__ import annotations

import hashlib
from itertools import product
from math import prod
from pathlib import Path

import numpy as np
import pytest

from kernels import FAMILIES
from tests.project import ROOT
from warpwatch.catalogue.arrays import Array, Shape
from warpwatch.catalogue.cases import Build, Case, find_case
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.inputs import exact_inputs
from warpwatch.catalogue.launches import Owner
from warpwatch.catalogue.selection import builds
from warpwatch.catalogue.variants import Variant
from warpwatch.compare.self_check import HEADER, KERNEL
from warpwatch.devices.compile.compiler import cache_folder, compile_file
from warpwatch.devices.placement import Placement
from warpwatch.devices.runner import load, upload
from warpwatch.devices.worker import Worker, describe_device, gpu

TILES_X, TILES_Y = 3, 11  # the last of each is ragged; eleven rows are more than one group of a rasterised kernel
LEAVE = (
    " if (chosen_block != (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x) return;"  # all its threads
)


def chosen_builds() -> list[Build]:
    """Of each variant with an owner: every block if these are fixed, else the least, and not a square one if it can."""
    chosen = []
    for family in FAMILIES:
        for variant in family.variants:
            if not has_owner(family, variant):
                continue
            first = {b.block: b for b in reversed(builds([family])) if b.variant is variant}
            few = first if variant.fixed_blocks else [min(first, key=lambda b: (len(set(b)) == 1, prod(b)))]
            chosen += [first[block] for block in few]
    return chosen


def has_owner(family: Family, variant: Variant) -> bool:
    """Return whether a message can name the block that writes an element, which follows from the tile."""
    return not family.prints and bool(variant.follows_tiles or variant.tile_of or variant.owner)


def several_tiles(build: Build, more: int) -> Case:
    """A case of this build whose result has TILES_X times TILES_Y tiles; other sizes are those of its first test.

    The last tile of each row and column is half a tile and ``more``, a whole one at most.
    """
    variant, shape = build.variant, list(build.family.tests[0])
    tile = Case(build, tuple(shape)).tile
    for axis, count, size in ((variant.x, TILES_X, tile[0]), (variant.y, TILES_Y, tile[1])):
        if axis is None:
            continue
        now = result_size(build, shape, axis)
        (which, *_) = (i for i in range(len(shape)) if result_size(build, longer(shape, i), axis) == now + 1)
        shape[which] += (count - 1) * size + min(size, size // 2 + more) - now
    return Case(build, tuple(shape))


def longer(shape: list[int], which: int) -> list[int]:
    return [size + (i == which) for i, size in enumerate(shape)]


def result_size(build: Build, shape: list[int] | Shape, axis: int) -> int:
    result = build.family.result_shape(tuple(shape))
    return result[axis]


def write_single(source: Path) -> Path:
    """A copy of a kernel's source, in the cache, of which only the block ``chosen_block`` does anything."""
    beside = HEADER.sub(lambda match: f'{match[1]}"{(source.parent / match[2]).resolve()}"', source.read_text())
    text, found = KERNEL.subn(lambda match: match[0] + LEAVE, beside)
    assert found, f'{source}: no kernel starts as `extern "C" __global__`'
    text = f"__device__ unsigned chosen_block;\n{text}"
    target = cache_folder() / "single" / hashlib.sha256(text.encode()).hexdigest()[:16] / source.name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    return target


def writers(case_id: str, image: Path, offset: int) -> Array:
    """In the worker: the number of the block that writes each element of the result, counted along x, y and z."""
    machine, case = gpu(), find_case(FAMILIES, case_id)
    placement = Placement(offsets=(offset,) * len(case.arrays))
    inputs = upload(machine, case, exact_inputs(case, 0), placement)
    loaded = load(machine, case, image, inputs, placement)
    result = loaded.results[0]  # the one whose writers messages name
    found = np.full(result.shape, -1)
    try:
        for number in range(prod(case.launch.grid)):
            machine.set_variable(loaded.function, "chosen_block", np.uint32(number))
            result.poison()
            before = result.read().view(np.uint8)
            loaded.start()
            machine.finish()
            written = (result.read().view(np.uint8) != before).reshape(*found.shape, -1).any(axis=-1)
            assert (found[written] == -1).all(), f"{case_id}: block {number} writes what another block wrote"
            found[written] = number
    finally:
        loaded.free_own()
        for array in inputs:
            array.free()
    return found


def test_every_variant_whose_result_has_tiles_is_asked() -> None:
    """All but sums, scans and histograms, where several blocks write an element, or any may, and blocks that stay."""
    asked = {build.variant for build in chosen_builds()}
    families = [f for f in FAMILIES if not f.prints and f.name not in {"reduce", "scan", "histogram"}]
    assert asked == {v for f in families for v in f.variants if not v.has_no_block and not v.grid}


ASKED = [(build, 0, 4) for build in chosen_builds()] + [(build, 1, 1) for build in chosen_builds()]
ASKED += [(build, 0, 1) for build in chosen_builds() if build.variant.tile_of]


@pytest.mark.once
@pytest.mark.parametrize(("build", "offset", "more"), ASKED, ids=lambda value: getattr(value, "id", str(value)))
def test_the_owner_is_the_block_that_writes(software: Worker, build: Build, offset: int, more: int) -> None:
    """With rows and arrays at multiples of 16 bytes, and with both off; where a kernel minds, with rows alone off."""
    case = several_tiles(build, more)
    target = software.call(describe_device).timing_target
    image = compile_file(write_single(ROOT / "kernels" / build.source), build.all_macros, target)
    found = software.call(writers, case.id, image.path, offset)
    grid_x, grid_y, _ = case.launch.grid
    assert found.min() == 0
    assert len(np.unique(found)) == TILES_X * (1 if case.variant.y is None else TILES_Y)
    step = max(1, min(case.tile) // 4)  # not every element, but several of every tile, and its edges
    chosen = [sorted({*range(0, n, step), *range(step - 1, n, step), n - 1}) for n in found.shape]
    for index in product(*chosen):
        owner = case.owner(index, offset)
        assert owner
        x, y = owner.block
        assert found[index] == y * grid_x + x, f"{case.id}: element {index} is written by block {found[index]}"
        assert y < grid_y


def test_a_block_past_the_limit_of_grid_y_has_a_z() -> None:
    """Rows of blocks above 65,535 go on in z; the message must name blockIdx as the kernel sees it."""
    case = find_case(FAMILIES, "matmul-naive-8x8-1000000x1x3-float32")
    grid_x, grid_y, grid_z = case.launch.grid
    assert (grid_x, grid_z) == (1, 2)
    row = 8 * grid_y + 3
    assert case.owner((row - 8, 1)) == Owner((0, grid_y - 1, 0), (1, 3))
    assert case.owner((row, 1)) == Owner((0, 0, 1), (1, 3))
