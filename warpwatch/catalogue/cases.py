"""Makes valid cases from a build and a shape, or from an id."""

from __future__ import annotations

from collections.abc import Iterable

from warpwatch.catalogue.declaration import (
    HOST_BLOCK,
    LARGEST_SIZE,
    VENDOR_BLOCK,
    Block,
    Build,
    Case,
    Family,
    Shape,
    Variant,
)
from warpwatch.catalogue.names import BadCase, pick, read_sizes, size_name, split_id


def make_case(family: Family, variant: Variant, block: Block, shape: Shape, dtype: str) -> Case:
    """Make a valid case. Raises BadCase, which says what is invalid. Device limits are checked at the launch."""
    case = Case(Build(family, variant, block, dtype), shape)
    problem = None
    if dtype not in variant.dtypes:
        problem = f"{variant.name} has no element type {dtype}; it has {', '.join(variant.dtypes)}"
    elif len(shape) != len(family.sizes):
        problem = f"a shape of {family.name} is {'x'.join(family.sizes)}, not {case.shape_name}"
    elif len(block) != len(variant.blocks[0]):
        problem = f"a block of {variant.name} looks like {size_name(variant.blocks[0])}, not {case.build.block_name}"
    elif variant.fixed_blocks and block not in variant.blocks:
        known = ", ".join(map(size_name, variant.blocks))
        problem = (
            f"{variant.name} has the blocks {known}; other tile sizes are refused: the kernel needs macros for each"
        )
    elif not variant.takes(block, dtype):
        problem = f"{variant.name} has no block {case.build.block_name} in {dtype}"
    elif min(block, default=1) < 1:
        problem = f"block {case.build.block_name} has a size below 1"
    elif max(block, default=1) > LARGEST_SIZE:
        problem = f"block {case.build.block_name} has a size above {LARGEST_SIZE:,}"
    elif variant.threads and min(variant.threads(block)) < 1:
        problem = f"block {case.build.block_name} is too small for {variant.name}: it would have no threads"
    elif min(shape) < 1 or max(shape) > LARGEST_SIZE:
        named = zip(family.sizes, shape, strict=True)
        bad = ", ".join(f"{name} = {size}" for name, size in named if not 1 <= size <= LARGEST_SIZE)
        problem = f"{bad} is not in 1..{LARGEST_SIZE:,}"
    else:
        problem = family.fits(shape)
    if problem:
        raise BadCase(f"{case.id}: {problem}")
    return case


def find_case(families: Iterable[Family], case_id: str) -> Case:
    """Return the case of that id, listed or not, with any valid shape and block. Raises BadCase."""
    family_name, variant_name, block, shape, dtype = split_id(case_id)
    family = pick(family_name, {f.name: f for f in families}, "family")
    variant = family.variant(variant_name)
    blocks = () if variant.has_no_block else read_sizes(block, "block", case_id)
    if variant.on_host and block != HOST_BLOCK:
        raise BadCase(f"{case_id}: {variant_name} runs on the host; its block is written {HOST_BLOCK!r}")
    if variant.library and block != VENDOR_BLOCK:
        raise BadCase(f"{case_id}: {variant_name} is a library's; its block is written {VENDOR_BLOCK!r}")
    case = make_case(family, variant, blocks, read_sizes(shape, "shape", case_id), dtype)
    if case.id != case_id:  # a size with leading zeros: results are kept under one name alone
        raise BadCase(f"{case_id}: is written {case.id}")
    return case
