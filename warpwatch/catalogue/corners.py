"""Makes corner cases of a kernel from its declaration: shapes that find faults which round sizes do not show.

Each kind of shape is there because a fault was missed without it: a second block along every axis, a second group of
rasterised rows, aligned rows with a tile that is cut off, ends of every length, blocks that are not square, sizes at
which a kernel takes another branch. A kernel that is added gets all of them.

One build of each variant is enough, the one with the smallest tile in the narrowest type, because these faults depend
on neither.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain, pairwise, product
from math import prod

from warpwatch.catalogue.arrays import Shape
from warpwatch.catalogue.cases import Build, Case
from warpwatch.catalogue.declaration import LARGEST_GRID_Y, LARGEST_SIZE, Family
from warpwatch.catalogue.elements import itemsize
from warpwatch.catalogue.selection import builds
from warpwatch.catalogue.variants import Block, Configuration, Variant

OBLONG: tuple[Block, ...] = ((4, 2), (2, 4))  # threads along x and y
PACK_BYTES, SECTOR_BYTES = 16, 32  # the widest load of a thread, and the unit in which memory is read and written
GROUP = 8  # rows of blocks that rasterised kernels take together, at most
MOST_BRANCH_SIZES = 4  # sizes that are tested, of those at which a kernel takes another branch
BEYOND = 2**32  # elements of an array that no 32-bit index reaches, signed or not
FEW = 8  # elements along the other axes of such an array
MOST_ELEMENTS = 2**18  # of an array with as many axes as a shape has sizes, where only a launch function knows more
SEARCHED = range(2, 129)  # the sizes among which those with another branch are looked for


def kernel_builds(families: Iterable[Family]) -> list[Build]:
    """List one build of each kernel that has a result: smallest tile, or block, then narrowest type."""
    of_variants: dict[Variant, list[Build]] = {}
    for build in builds(families):
        if not (build.variant.has_no_block or build.family.prints) and build.configuration.plain:
            of_variants.setdefault(build.variant, []).append(build)
    return [min(each, key=_least) for each in of_variants.values()]


def _least(build: Build) -> tuple[int, int]:
    return prod(tile(build) if build.variant.follows_tiles else build.block), itemsize(build.dtype)


def least_builds(families: Iterable[Family]) -> list[Build]:
    """List those of ``kernel_builds`` whose grid follows from tiles, of which corner cases are made."""
    return [build for build in kernel_builds(families) if build.variant.follows_tiles]


def tile(build: Build) -> tuple[int, int]:
    """Return how many elements of the result a thread block computes, along x and y."""
    return Case(build, _tests(build)[0]).tile


def _tests(build: Build) -> tuple[Shape, ...]:
    return build.family.tests_of(build.variant)


def oblong_builds(families: Iterable[Family]) -> list[Build]:
    """List builds whose block is longer along x, and longer along y, for variants that list a square block.

    Those variants take any block, unless they have ``fixed_blocks``, ``threads`` or ``tile``.
    """
    return [
        replace(build, configuration=Configuration(block))
        for build in least_builds(families)
        if _any_block(build) and any(len(c.block) == 2 and c.block[0] == c.block[1] for c in build.variant.listed)
        for block in OBLONG
    ]


def _any_block(build: Build) -> bool:
    variant = build.variant
    return not (variant.fixed_blocks or variant.threads or variant.tile) and len(build.block) == 2


def edge_cases(families: Iterable[Family]) -> list[Case]:
    """List every build on shapes of ones, on lines, and on sizes one less and one more than its tile."""
    cases = []
    for build in builds(families):
        tiles = _tile_of_each_size(build)
        over = tuple(tile + 1 for tile in tiles)
        mixed = tuple(max(1, tile - 1) if i % 2 == 0 else tile + 1 for i, tile in enumerate(tiles))
        lines = [tuple(2 * t + 5 if i == j else 1 for i, t in enumerate(tiles)) for j in range(len(tiles))]
        cases += [case for case in _near(build, ((1,) * len(tiles), over, mixed, *lines)) if not case.problem]
    return cases


def _near(build: Build, shapes: Iterable[Shape]) -> list[Case]:
    """List cases of a build on shapes or, where ``valid`` refuses one, on the nearest valid one of no great size."""
    family, variant = build.family, build.variant
    if family.valid_of(variant):
        most = max(MOST_ELEMENTS, *map(prod, family.tests))
        moved = ((shape, family.near(shape, variant)) for shape in shapes)
        shapes = [near for shape, near in moved if near and (near == shape or prod(near) <= max(most, 2 * prod(shape)))]
    return [Case(build, shape) for shape in dict.fromkeys(shapes)]


def _tile_of_each_size(build: Build) -> Shape:
    """Return, for each size of a shape, how far the tile of a block reaches along it.

    For a size that is summed over this is the block's larger side, which is as far as a block ever goes at a time.
    Along the axes of the result a block goes as far as its tile, and more would test nothing but more blocks: at 256x1
    a second row is a second row of blocks already. Other sizes, such as that of a filter, may be no larger than some of
    these, so there every size is taken for the block's larger side.
    """
    family, variant, side = build.family, build.variant, max(build.block, default=16)
    if not (variant.has_no_block or variant.follows_tiles):
        side = min(side, int(MOST_ELEMENTS ** (1 / len(family.sizes))))
    tiles = [side] * len(family.sizes)
    if variant.follows_tiles and not family.prints:
        growing, free = _axes(family)
        along = dict(zip((variant.x, variant.y), tile(build), strict=True))
        for axis, size in growing.items() if len(growing) + len(free) == len(tiles) else ():
            tiles[size] = along.get(axis, 1)
    return tuple(tiles)


def tall_cases(families: Iterable[Family]) -> list[Case]:
    """List a case of each family with more rows of blocks than gridDim.y can have: one column, blocks of one thread."""
    cases: dict[str, Case] = {}
    for build in least_builds(families):
        if _any_block(build) and build.variant.y is not None and build.family.name not in cases:
            shape = _shape(build, 1, LARGEST_GRID_Y + 1, (1,) * len(build.family.sizes))
            tall = _near(replace(build, configuration=Configuration((1, 1))), [shape])
            cases.update((build.family.name, case) for case in tall if case.launch.grid[2] > 1)
    return list(cases.values())


def unaligned_cases(families: Iterable[Family]) -> list[Case]:
    """List every build on the first shape of its family, for arrays that start off an allocation's alignment."""
    return [Case(build, _tests(build)[0]) for build in builds(families) if not build.family.prints]


# Lists of corner cases, and of builds that they are made for, by the names that tests ask for.
CORNER_CASES: Mapping[str, Callable[[Iterable[Family]], list[Case]]] = {
    "edges": edge_cases,
    "unaligned": unaligned_cases,
    "tall": tall_cases,
}
CORNER_BUILDS: Mapping[str, Callable[[Iterable[Family]], list[Build]]] = {
    "kernels": kernel_builds,
    "least": least_builds,
    "oblong": oblong_builds,
}


def several_blocks(build: Build) -> list[Case]:
    """List cases of three blocks along x, and two more along y than a group of rasterised rows: one for each branch.

    A branch is an entry or a fallback that a kernel takes for a size that is not an axis of the result.
    """
    x, y = tile(build)
    cases = _near(build, (_shape(build, 2 * x + 1, (GROUP + 1) * y + 1, inner) for inner in _tests(build)))
    return list({_branch(case): case for case in reversed(cases)}.values())


def aligned(build: Build) -> Case:
    """Make a case of two whole tiles along each axis, whose rows all start at multiples of 16 bytes if they can.

    Where the grid does not follow from tiles, it is on one of the shapes of the family.
    """
    shapes: Iterable[Shape] = _tests(build)
    if build.variant.follows_tiles:
        x, y = tile(build)
        shapes = (_shape(build, 2 * x, 2 * y, inner) for inner in _tests(build))
    near = _near(build, shapes)
    cases = [case for case in near if not case.problem] or [Case(build, _tests(build)[0])]
    pack = _pack(build)
    return min(cases, key=lambda case: (sum(size % pack > 0 for size in case.shape), bool(case.fallback)))


def _pack(build: Build) -> int:
    return max(1, PACK_BYTES // itemsize(build.dtype))


def ragged(build: Build) -> list[Case]:
    """List cases of whole tiles and aligned rows but for one axis: a part of a tile more, aligned, or one element."""
    whole, pack, outer = aligned(build).shape, _pack(build), _outer(build.family)
    more = [tuple(size + n * (i == j) for i, size in enumerate(whole)) for j in outer for n in (pack, 1)]
    both = tuple(size + pack * (i in outer) for i, size in enumerate(whole))
    return _near(build, (whole, *more, both))


def ends(build: Build) -> list[Case]:
    """List cases whose sizes end everywhere between one tile's end and the next.

    Every length modulo two sectors occurs on both sides of a tile's end. The other axis takes these lengths in the
    opposite order, and so do the sizes that are summed over.
    """
    (x, y), usual = tile(build), _tests(build)[0]
    shapes = []
    for i in range(1, 2 * SECTOR_BYTES // itemsize(build.dtype) + 1):
        inner = tuple(i if j in _inner(build) else size for j, size in enumerate(usual))
        shapes += [_shape(build, x + i, 2 * y - i + 1, inner), _shape(build, 2 * x - i + 1, y + i, inner)]
    for part in range(1, 8):
        shapes.append(_shape(build, max(1, x * part // 8 + 1), max(1, y * (8 - part) // 8), usual))
    return [case for case in _near(build, (shape for shape in shapes if min(shape) > 0)) if not case.problem]


def branch_changes(build: Build) -> list[Case]:
    """List cases on both sides of sizes at which a kernel takes another branch: another entry, or a fallback.

    These are the first and the last such sizes in SEARCHED, for each size that is not an axis of the result.
    """
    cases, usual = [], _tests(build)[0]
    for axis in set(range(len(usual))) - set(_outer(build.family)):

        def at(size: int, axis: int = axis) -> Case:
            return Case(build, _shape(build, 5, 3, (*usual[:axis], size, *usual[axis + 1 :])))

        sides = [
            case for case in map(at, (SEARCHED[0] - 1, *SEARCHED)) if build.family.is_valid(case.shape, build.variant)
        ]
        changing = [pair for pair in pairwise(sides) if _branch(pair[0]) != _branch(pair[1])]
        cases += [*chain(*changing[: MOST_BRANCH_SIZES // 2], *changing[-MOST_BRANCH_SIZES // 2 :])]
    return list(dict.fromkeys(cases))


def _branch(case: Case) -> tuple[str, str]:
    return case.entry, case.fallback


def beyond_32_bits(build: Build) -> list[tuple[Case, Case]]:
    """List cases with arrays of more than 2^32 elements, each with the small case that has the same last block.

    Along each axis of the result in turn there are as many blocks as fill the grid exactly, so that its last block is
    that of the last element; the last tile is whole, or one element short.
    """
    inners = [tuple(FEW if i in _inner(build) else n for i, n in enumerate(c.shape)) for c in several_blocks(build)]
    cases = []
    for inner, (axis, step) in product(inners, enumerate(tile(build))):
        if axis == 1 and build.variant.y is None:
            continue
        row = step * LARGEST_GRID_Y
        many = row * -(-(BEYOND + FEW * step) // (FEW * row))
        for short in (0, 1) if step > 1 else (0,):
            sizes = [(size - short, FEW) if axis == 0 else (FEW, size - short) for size in (many, 2 * step)]
            large, small = (Case(build, _shape(build, *xy, inner)) for xy in sizes)
            are_valid = all(build.family.is_valid(case.shape, build.variant) for case in (large, small))
            if are_valid and max(large.shape) <= LARGEST_SIZE and large.array_bytes > BEYOND * large.itemsize:
                cases.append((large, small))
    return cases


@functools.cache
def _axes(family: Family) -> tuple[Mapping[int, int], tuple[int, ...]]:
    """Return how the result's shape depends on the sizes of a shape.

    First the size that each axis of the result grows with, one for one; then the sizes that the result does not depend
    on, which are summed over.
    """
    base = tuple(64 + size for size in family.tests[0])  # valid or not, the arrays' shapes are asked for alone
    before = family.result_shape(base)
    growing, free = {}, []
    for i in range(len(base)):
        after = family.result_shape(tuple(size + (i == j) for j, size in enumerate(base)))
        changes = [axis for axis, (old, new) in enumerate(zip(before, after, strict=True)) if new != old]
        if not changes:
            free.append(i)
        elif len(changes) == 1 and after[changes[0]] == before[changes[0]] + 1:
            growing[changes[0]] = i
    return growing, tuple(free)


def _outer(family: Family) -> tuple[int, ...]:
    """Return the sizes that are axes of the result."""
    return tuple(sorted(_axes(family)[0].values()))


def _inner(build: Build) -> set[int]:
    """Return the sizes along which no index of a block runs: those that are summed over, and rows in one block."""
    growing, free = _axes(build.family)
    return {*free, *(i for axis, i in growing.items() if axis not in (build.variant.x, build.variant.y))}


def _shape(build: Build, x: int, y: int, inner: Shape) -> Shape:
    """Return the shape whose result has ``x`` and ``y`` elements along x and y; other sizes are those of ``inner``."""
    growing, wanted = _axes(build.family)[0], {build.variant.x: x, build.variant.y: y}
    base = tuple(1024 if i in growing.values() else size for i, size in enumerate(inner))
    result = build.family.result_shape(base)
    shape = list(base)
    for axis, i in growing.items():
        shape[i] = shape[i] + wanted[axis] - result[axis] if axis in wanted else inner[i]
    return tuple(shape)
