"""Makes valid cases from a build and a shape, or from an id."""

from __future__ import annotations

from collections.abc import Iterable

from warpwatch.catalogue.arrays import Shape
from warpwatch.catalogue.by_name import call
from warpwatch.catalogue.configurations import Configuration
from warpwatch.catalogue.declaration import HOST_BLOCK, LARGEST_SIZE, VENDOR_BLOCK, Build, Case, Family, given_of
from warpwatch.catalogue.names import BadCase, pick, read_sizes, size_name, split_id
from warpwatch.catalogue.variants import Variant


def exists(variant: Variant, configuration: Configuration, dtype: str) -> bool:
    """Tell whether a variant has a configuration in an element type."""
    return variant.takes is None or bool(call(variant.takes, given_of(configuration, dtype)))


def make_case(family: Family, variant: Variant, configuration: Configuration, shape: Shape, dtype: str) -> Case:
    """Make a valid case. Raises BadCase, which says what is invalid. Device limits are checked at the launch."""
    case = Case(Build(family, variant, configuration, dtype), shape)
    if problem := _type_problem(case) or _block_problem(case) or _shape_problem(case):
        raise BadCase(f"{case.id}: {problem}")
    return case


def _type_problem(case: Case) -> str | None:
    known = case.family.dtypes_of(case.variant)
    if case.dtype in known:
        return None
    return f"{case.variant.name} has no element type {case.dtype}; it has {', '.join(known)}"


def _block_problem(case: Case) -> str | None:
    variant, block, name = case.variant, case.build.block, case.build.block_name
    listed = [each.block for each in variant.listed]
    if len(case.shape) != len(case.family.sizes):
        return f"a shape of {case.family.name} is {'x'.join(case.family.sizes)}, not {case.shape_name}"
    if len(block) != len(listed[0]):
        return f"a block of {variant.name} looks like {size_name(listed[0])}, not {name}"
    if variant.fixed_blocks and block not in listed:
        known = ", ".join(map(size_name, listed))
        return f"{variant.name} has the blocks {known}; other tile sizes are refused: the kernel needs macros for each"
    if not exists(variant, case.build.configuration, case.dtype):
        return f"{variant.name} has no block {name} in {case.dtype}"
    return _size_problem(case)


def _size_problem(case: Case) -> str | None:
    variant, block, name = case.variant, case.build.block, case.build.block_name
    if min(block, default=1) < 1:
        return f"block {name} has a size below 1"
    if max(block, default=1) > LARGEST_SIZE:
        return f"block {name} has a size above {LARGEST_SIZE:,}"
    if variant.threads and min(call(variant.threads, case.given)) < 1:
        return f"block {name} is too small for {variant.name}: it would have no threads"
    return None


def _shape_problem(case: Case) -> str | None:
    if min(case.shape) < 1 or max(case.shape) > LARGEST_SIZE:
        bad = ", ".join(f"{name} = {size}" for name, size in case.sizes.items() if not 1 <= size <= LARGEST_SIZE)
        return f"{bad} is not in 1..{LARGEST_SIZE:,}"
    return case.family.problem_of(case.shape)


def _configuration(variant: Variant, name: str, case_id: str) -> Configuration:
    """Return the configuration that an id names: a listed one, or a block that is not listed. Raises BadCase."""
    if found := [each for each in variant.listed if each.label == name]:
        return found[0]
    if variant.has_no_block:
        return Configuration(())
    if not variant.listed[0].plain:
        raise BadCase(f"{case_id}: {variant.name} has the configurations {', '.join(c.label for c in variant.listed)}")
    return Configuration(read_sizes(name, "block", case_id))


def find_case(families: Iterable[Family], case_id: str) -> Case:
    """Return the case of that id, listed or not, with any valid shape and block. Raises BadCase."""
    family_name, variant_name, block, shape, dtype = split_id(case_id)
    family = pick(family_name, {f.name: f for f in families}, "family")
    variant = family.variant(variant_name)
    if variant.on_host and block != HOST_BLOCK:
        raise BadCase(f"{case_id}: {variant_name} runs on the host; its block is written {HOST_BLOCK!r}")
    if variant.call and block != VENDOR_BLOCK:
        raise BadCase(f"{case_id}: {variant_name} is a call; its block is written {VENDOR_BLOCK!r}")
    configuration = _configuration(variant, block, case_id)
    case = make_case(family, variant, configuration, read_sizes(shape, "shape", case_id), dtype)
    if case.id != case_id:  # a size with leading zeros: results are kept under one name alone
        raise BadCase(f"{case_id}: is written {case.id}")
    return case
