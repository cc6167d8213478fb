"""Describes builds and cases, and makes valid cases from a build and a shape, or from an id."""

from __future__ import annotations

import functools
import itertools
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from warpwatch.catalogue.argument_words import fill, whole, words_in
from warpwatch.catalogue.arrays import Array, CaseArray, Shape
from warpwatch.catalogue.contracts import Contract, declared
from warpwatch.catalogue.declaration import LARGEST_GRID_Y, LARGEST_SIZE, Family, arrays_of, of_case, registered
from warpwatch.catalogue.elements import C_TYPES, itemsize, numpy_type
from warpwatch.catalogue.launches import Launch, Owner, Sizes, Step, Work, three
from warpwatch.catalogue.named_arguments import call
from warpwatch.catalogue.names import BadCase, pick, print_short, read_sizes, size_name, split_id
from warpwatch.catalogue.texts import Text
from warpwatch.catalogue.variants import Block, Configuration, Variant

HOST_BLOCK = "host"  # replaces the block in the id of a variant that runs on the host
VENDOR_BLOCK = "vendor"  # the same for a call
STEPS_BLOCK = "steps"  # the same for several launches with blocks of their own


def given_of(configuration: Configuration, dtype: str) -> dict[str, Any]:
    """Return what functions may take by name that are asked before there is a shape: ``takes`` and ``macros``."""
    own = {"block": configuration.block, "c": configuration, "configuration": configuration}
    return own | {"dtype": dtype, "itemsize": itemsize(dtype)}


@dataclass(frozen=True)
class Build:
    """The subject of one compilation: a variant in one configuration and one element type."""

    family: Family
    variant: Variant
    configuration: Configuration
    dtype: str

    def __repr__(self) -> str:
        return f"Build({self.id})"

    _repr_pretty_ = print_short

    @property
    def block(self) -> Block:
        return self.configuration.block

    @property
    def block_name(self) -> str:
        without = VENDOR_BLOCK if self.variant.call else HOST_BLOCK if self.variant.on_host else STEPS_BLOCK
        return self.configuration.label or without

    @property
    def id(self) -> str:
        return f"{self.family.name}-{self.variant.name}-{self.block_name}-{self.dtype}"

    @property
    def block_xy(self) -> tuple[int, int]:
        """The block along x and y; 1 where it has no second size."""
        x, y = (*self.block, 1, 1)[:2]
        return x, y

    @property
    def source(self) -> Path:
        """The kernel's file."""
        source = self.variant.source
        if isinstance(source, Text) and source.file:
            return source.file
        if isinstance(source, Text) or callable(source) or not str(source):
            return self.family.folder / f"{self.variant.name}{'.cpp' if self.variant.on_host else '.cu'}"
        return Path(os.path.normpath(self.family.folder / source))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by name: both processes have loaded the same project, whose functions cannot be pickled."""
        return _registered_build, (self.family.name, self.variant.name, self.configuration, self.dtype)

    @property
    def entry(self) -> str:
        """Name of the kernel function in that file, where no shape has another."""
        return f"{self.family.name}_{self.variant.name}"

    @property
    def all_macros(self) -> dict[str, str]:
        """Every macro of the compilation, where kernels see them all."""
        return self.own_macros | self.macros

    @property
    def own_macros(self) -> dict[str, str]:
        """Macros that every kernel is given: the element type and the block.

        ``scalar_t`` is the element type (a macro named T breaks the headers that nvcc includes by itself).
        """
        macros = {"scalar_t": C_TYPES[self.dtype]} if self.variant.dtypes or self.family.dtypes else {}
        if self.variant.has_no_block:
            return macros
        names = ("BLOCK_X", "BLOCK_Y", "BLOCK_Z")[: max(2, len(self.block))]
        return macros | {name: str(size) for name, size in zip(names, (*self.block, 1), strict=False)}

    @property
    def numeric_macros(self) -> dict[str, int]:
        """The macros that are whole numbers, by which texts of the declaration name them."""
        return {name: int(value) for name, value in self.all_macros.items() if re.fullmatch(r"-?\d+", value, re.ASCII)}

    @property
    def macros(self) -> dict[str, str]:
        """Macros that the declaration names: the configuration's and the variant's."""
        own = call(self.variant.macros, given_of(self.configuration, self.dtype)) if self.variant.macros else {}
        return {name: str(value) for name, value in (*self.configuration.macros, *own.items())}


def _registered_build(family: str, variant: str, configuration: Configuration, dtype: str) -> Build:
    whole = registered(family)
    return Build(whole, whole.variant(variant), configuration, dtype)


@dataclass(frozen=True)
class Case:
    """One build on one shape, which a test checks and a benchmark times."""

    build: Build
    shape: Shape

    def __repr__(self) -> str:
        return f"Case({self.id})"

    _repr_pretty_ = print_short

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle without what was computed."""
        return Case, (self.build, self.shape)

    @cached_property
    def id(self) -> str:
        """Name of the case, ``<family>-<variant>-<block>-<shape>-<dtype>``, by which baselines are found."""
        return "-".join(self.parameters.values())

    @property
    def family(self) -> Family:
        return self.build.family

    @property
    def variant(self) -> Variant:
        return self.build.variant

    @property
    def dtype(self) -> str:
        return self.build.dtype

    @property
    def problem(self) -> str | None:
        """Say why the shape is invalid; None where it is not."""
        return self.family.problem_of(self.shape, self.variant)

    @property
    def shape_name(self) -> str:
        return size_name(self.shape)

    @property
    def itemsize(self) -> int:
        return itemsize(self.dtype)

    @property
    def reference_case(self) -> str:
        """The id of the case whose rate this one is held against, or an empty text."""
        return call(self.family.reference_case, self.family.given(self.shape, self.dtype))  # type: ignore[no-any-return]

    @property
    def sizes(self) -> dict[str, int]:
        return dict(zip(self.family.sizes, self.shape, strict=True))

    @property
    def given(self) -> dict[str, Any]:
        """Values that functions of the declaration may take by name."""
        own = self.build.configuration
        return self.family.given(self.shape, self.dtype, block=own.block, c=own, configuration=own)

    @cached_property
    def arrays(self) -> tuple[CaseArray, ...]:
        """The family's arrays, then the scratch memory of the variant."""
        scratch = self.value(self.variant.scratch or {})
        own = (of_case(name, array, self.dtype) for name, array in scratch.items())
        return (*arrays_of(self.family, self.shape, self.dtype), *own)

    @cached_property
    def inputs(self) -> tuple[CaseArray, ...]:
        """The arrays that are drawn and uploaded."""
        return tuple(array for array in self.arrays if array.is_input)

    @cached_property
    def results(self) -> tuple[CaseArray, ...]:
        """The arrays that are compared; none where the kernel prints."""
        return tuple(array for array in self.arrays if array.is_result)

    @property
    def work(self) -> Work:
        if self.family.work is None:
            return Work(0, sum(array.moved_bytes for array in self.arrays))
        return call(self.family.work, self.family.given(self.shape, self.dtype))  # type: ignore[no-any-return]

    @property
    def array_bytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)

    @property
    def parameters(self) -> dict[str, str]:
        """The parts of the id, as saved runs and pytest-benchmark's tables name them."""
        kernel = {"family": self.family.name, "variant": self.variant.name, "block": self.build.block_name}
        return kernel | {"shape": self.shape_name, "dtype": self.dtype}

    @cached_property
    def launch_cost(self) -> float:
        """Rough cost of a launch on the software device: operations, accesses of 4 bytes, or 16 for each thread.

        Threads that compute several elements each do so beyond the result too, which counts as well.
        """
        threads = sum(int(np.prod((*step.launch.grid, *step.launch.block), dtype=float)) for step in self.steps)
        operations: float = self.work.operations
        if self.variant.threads and self.results:
            computed = float(np.prod((*self.steps[-1].launch.grid, *self.tile), dtype=float))
            operations *= max(1.0, computed / max(1, *(int(np.prod(array.shape)) for array in self.results)))
        return max(operations, self.work.bytes / 4, 16 * threads)

    @property
    def deterministic(self) -> bool | None:
        """True where the same bits are required, False where they may differ, None where nothing is said."""
        own = self.variant.deterministic
        return self.family.deterministic if own is None else own

    @property
    def same_for(self) -> tuple[str, ...]:
        """The sizes whose value changes no bit of the rows that a smaller and a larger result both have."""
        own = self.variant.same_for
        return self.family.same_for if own is None else own

    @property
    def contract(self) -> Contract:
        """The limits that the declaration sets."""
        variant = self.variant
        return declared(*(self.value(given) for given in (variant.at_least, variant.at_most, variant.threshold)))

    @property
    def fallback(self) -> str:
        """The slower branch that the kernel takes, in words; empty where it takes none."""
        return self.value(self.variant.fallback or "")  # type: ignore[no-any-return]

    @cached_property
    def tile(self) -> tuple[int, int]:
        """Elements of the result that a thread block computes, along x and y."""
        return self.value(self.variant.tile or self.build.block_xy)  # type: ignore[no-any-return]

    @property
    def omitted(self) -> str | None:
        """Reason why a benchmark leaves this case out, or None."""
        seconds = call(self.family.serial_seconds, self.given) if self.variant.on_host else 0.0
        return f"would take about {seconds:.0f} s on one core" if seconds > 1.0 else None

    @cached_property
    def steps(self) -> tuple[CaseStep, ...]:
        """The launches of the case, in order; those of a call and of the host are one, of one thread."""
        if steps := self.variant.launches:
            launches = [
                replace(self._declared(s), stream=s.stream, after=_after(steps, s), programmatic=s.programmatic)
                for s in steps
            ]
            return tuple(CaseStep(s.entry, each, s.arguments) for s, each in zip(steps, launches, strict=True))
        name = self.value(self.variant.entry or self.build.entry)
        launch = replace(self._launch(), cooperative=self.variant.cooperative)
        return (CaseStep(name, launch, self.variant.arguments),)

    @property
    def entry(self) -> str:
        """Name of the kernel function for this shape, the first where there are several launches."""
        return self.steps[0].entry

    @cached_property
    def launch(self) -> Launch:
        """Grid and block of the first launch."""
        return self.steps[0].launch

    def value(self, given: Any) -> Any:
        """Return what a field of the declaration gives: itself, or what its function returns."""
        return call(given, self.given) if callable(given) else given

    def counts(self, given: Any) -> Sizes:
        """Return whole numbers as a field gives them: numbers, texts such as "b ceil(n/32)", or what it returns."""
        value = self.value(given)
        parts = words_in(value) if isinstance(value, str) else value
        if not isinstance(parts, tuple | list):
            return parts  # type: ignore[no-any-return]
        return tuple(whole(part, self._numbers) if isinstance(part, str) else part for part in parts)

    def count(self, given: Any) -> int:
        """Return a whole number as a field gives it: as such, as a text such as "4*BLOCK_X", or as what it returns."""
        value = self.value(given)
        return whole(value, self._numbers) if isinstance(value, str) else value

    @property
    def _numbers(self) -> dict[str, float]:
        """The numbers that texts may name: sizes, scalars, elements of arrays, and macros that are whole numbers."""
        scalars = {name: self.given[name] for name in self.family.scalars}
        elements = {f"{array.name}.size": array.size for array in self.arrays}
        return {**self.build.numeric_macros, **scalars, **elements, **self.sizes}

    def _declared(self, step: Step | Variant, block: Block = ()) -> Launch:
        """Return the launch that a step or a variant declares."""
        threads = block or self.counts(getattr(step, "block", ())) or self.build.block
        grid, cluster = three(self.counts(step.grid)), three(self.counts(step.cluster))
        return Launch(grid, three(threads), self.count(step.shared_bytes), cluster, step.cooperative)

    def _launch(self) -> Launch:
        """Return the launch that is declared, or one with enough blocks for every element of the result."""
        if self.variant.call:
            return Launch((1, 1, 1), (1, 1, 1))  # a call chooses its own
        threads = self.value(self.variant.threads or ())
        if self.variant.grid:
            return self._declared(self.variant, threads)
        (bx, by), (tx, ty) = self.tile, threads or self.build.block_xy
        shared = self.count(self.variant.shared_bytes)
        if not self.results:
            return Launch((self.shape[0], 1, 1), (bx, by, 1), shared)
        blocks_x, blocks_y = self._tiles
        # Kernels take blockIdx.z * gridDim.y + blockIdx.y, so that y may pass CUDA's 65,535.
        grid_z = -(-blocks_y // LARGEST_GRID_Y)
        return Launch((blocks_x, -(-blocks_y // grid_z), grid_z), (tx, ty, 1), shared)

    @cached_property
    def _tiles(self) -> tuple[int, int]:
        (bx, by), result, variant = self.tile, self.results[0].shape, self.variant
        return -(-result[variant.x] // bx), 1 if variant.y is None else -(-result[variant.y] // by)

    def arguments(
        self, step: CaseStep, addresses: Mapping[str, int], padding: int = 0, drawn: Mapping[str, Shape] | None = None
    ) -> tuple[np.generic, ...]:
        """Return the arguments of a launch for arrays at these addresses.

        ``padding``: elements after each row. ``drawn``: shapes of inputs, where the family's ``draw`` chose them.
        """
        given = step.arguments
        if callable(given):
            values = call(given, self.given | {"at": addresses, "padding": padding})
            return tuple(_pointer(value, min(addresses.values(), default=math.inf)) for value in values)
        shapes = {array.name: array.shape for array in self.arrays} | dict(drawn or {})
        scalars = {name: (each.dtype or self.dtype, each.value) for name, each in self.family.scalars.items()}
        numbers = {"sizes": self.sizes, "macros": self.build.numeric_macros}
        return fill(self.words(step), addresses=addresses, shapes=shapes, scalars=scalars, **numbers)

    def words(self, step: CaseStep) -> tuple[str, ...]:
        """Return the arguments of a launch as they are written, the usual ones if left out; none of a function."""
        if callable(step.arguments):
            return ()
        usual = (*(array.name for array in self.arrays), *self.family.scalars, *self.family.sizes)
        return tuple(words_in(step.arguments)) or usual

    def check_inputs(self, inputs: Mapping[str, Array]) -> None:
        """Raise BadCase where inputs have not the names, shapes and types of the case's."""
        for array in self.inputs:
            if array.name not in inputs:
                names = ", ".join(each.name for each in self.inputs)
                raise BadCase(f"{self.id}: takes {len(self.inputs)} inputs ({names}), not {len(inputs)}")
            given = inputs[array.name]
            if (given.shape != array.shape and not array.is_drawn) or given.dtype != numpy_type(array.dtype):
                due, have = f"{array.shape} of {array.dtype}", f"{given.shape} of {given.dtype}"
                raise BadCase(f"{self.id}: {array.name} must be {due}, not {have}")

    def owner(self, index: tuple[int, ...], offset: int = 0) -> Owner | None:
        """Return the block and thread that write the element of the result at ``index``; None where nothing says it.

        ``offset``: elements that each array starts past the alignment of an allocation.
        """
        variant, given = self.variant, self.given | {"index": index, "offset": offset, "case": self}
        if variant.owner:
            owner = call(variant.owner, given)
        elif variant.tile_of:
            owner = Owner(call(variant.tile_of, given), None)
        elif variant.follows_tiles:
            bx, by = self.tile
            x, y = index[variant.x], 0 if variant.y is None else index[variant.y]
            owner = Owner((x // bx, y // by), None if variant.threads else (x % bx, y % by))
        else:
            return None
        return self._numbered(owner)

    def _numbered(self, owner: Owner) -> Owner:
        """Return the owner with the block's own index, where a kernel numbers its tiles in another order."""
        tile_x, tile_y = owner.block
        grid_x, grid_y, grid_z = self.launch.grid
        order = self.variant.order
        number = call(order, {"tile": (tile_x, tile_y), "tiles": self._tiles}) if order else tile_y * grid_x + tile_x
        block = (number % grid_x, number // grid_x % grid_y, number // (grid_x * grid_y))
        return Owner(block if block[2] or grid_z > 1 else block[:2], owner.thread)


def _pointer(value: Any, least: float) -> Any:
    """Return an address that a function was given, and None, as the pointer that kernels take."""
    if value is None:
        return np.uint64(0)
    is_address = isinstance(value, int | np.int64 | np.uint64) and not isinstance(value, bool) and int(value) >= least
    return np.uint64(value) if is_address else value


@functools.lru_cache(maxsize=8)
def initial_values(case: Case, array: CaseArray) -> Array:
    """Return what a function of the declaration gives as the first values of an array. Raises BadCase."""
    assert callable(array.initial)
    values = np.asarray(call(array.initial, case.given))
    if values.shape != array.shape:
        raise BadCase(f"{case.id}: initial of {array.name} returns {values.shape}, and its shape is {array.shape}")
    return np.ascontiguousarray(values.astype(numpy_type(array.dtype)))


def _after(steps: Sequence[Step], step: Step) -> tuple[int, ...]:
    """Return the numbers of the earlier steps that one waits for."""
    earlier = itertools.takewhile(lambda other: other is not step, steps)
    return tuple(i for i, other in enumerate(earlier) if other.entry in step.awaited)


@dataclass(frozen=True)
class CaseStep:
    """One launch of a case: the kernel's name, grid and block, and its arguments as they are declared."""

    entry: str
    launch: Launch
    arguments: str | Callable[..., tuple[Any, ...]]


Checks = Iterable[tuple[object, str]]  # tests, each with the sentence that holds where it fails


def first_fault(checks: Checks) -> str | None:
    """Return the sentence of the first check that fails, or None; those behind it are not made."""
    return next((sentence for holds, sentence in checks if not holds), None)


def exists(variant: Variant, configuration: Configuration, dtype: str) -> bool:
    """Tell whether a variant has a configuration in an element type."""
    return variant.takes is None or bool(call(variant.takes, given_of(configuration, dtype)))


def case_of(family: Family, shape: Shape, dtype: str) -> Case:
    """Make a case that stands for all of a shape and element type, where only the family's fields matter."""
    return Case(Build(family, Variant("any"), Configuration(()), dtype), shape)


def make_case(family: Family, variant: Variant, configuration: Configuration, shape: Shape, dtype: str) -> Case:
    """Make a valid case. Raises BadCase, which says what is invalid. Device limits are checked at the launch."""
    case = Case(Build(family, variant, configuration, dtype), shape)
    if problem := first_fault(_case_checks(case)):
        raise BadCase(f"{case.id}: {problem}")
    return case


def _case_checks(case: Case) -> Checks:
    family, variant, block, name = case.family, case.variant, case.build.block, case.build.block_name
    types, listed = family.dtypes_of(variant), [each.block for each in variant.listed]
    yield case.dtype in types, f"{variant.name} has no element type {case.dtype}; it has {', '.join(types)}"
    has_sizes = len(case.shape) == len(family.sizes)
    yield has_sizes, f"a shape of {family.name} is {'x'.join(family.sizes)}, not {case.shape_name}"
    yield len(block) == len(listed[0]), f"a block of {variant.name} looks like {size_name(listed[0])}, not {name}"
    known = f"{variant.name} has the blocks {', '.join(map(size_name, listed))}"
    is_known = not variant.fixed_blocks or block in listed
    yield is_known, f"{known}; other tile sizes are refused: the kernel needs macros for each"
    yield (
        exists(variant, case.build.configuration, case.dtype),
        f"{variant.name} has no block {name} in {case.dtype}",
    )
    yield min(block, default=1) >= 1, f"block {name} has a size below 1"
    yield max(block, default=1) <= LARGEST_SIZE, f"block {name} has a size above {LARGEST_SIZE:,}"
    yield (
        not variant.threads or min(call(variant.threads, case.given)) >= 1,
        f"block {name} is too small for {variant.name}: it would have no threads",
    )
    yield not (problem := family.refusal(case.shape, variant)), problem


def _configuration(variant: Variant, name: str, case_id: str) -> Configuration:
    """Return the configuration that an id names: a listed one, or a block that is not listed. Raises BadCase."""
    if same := [each for each in variant.listed if each.label == name]:
        return same[0]
    if variant.has_no_block or (name == STEPS_BLOCK and not variant.listed[0].block):
        return Configuration(())
    if not variant.listed[0].plain:
        raise BadCase(f"{case_id}: {variant.name} has the configurations {', '.join(c.label for c in variant.listed)}")
    return Configuration(read_sizes(name, "block", case_id))


def find_case(families: Iterable[Family], case_id: str) -> Case:
    """Return the case of that id, listed or not, with any valid shape and block. Raises BadCase."""
    family_name, variant_name, block, shape, dtype = split_id(case_id)
    family = pick(family_name, {f.name: f for f in families}, "family")
    variant = family.variant(variant_name)
    kind, without = ("is a call", VENDOR_BLOCK) if variant.call else ("runs on the host", HOST_BLOCK)
    if variant.has_no_block and block != without:
        raise BadCase(f"{case_id}: {variant_name} {kind}; its block is written {without!r}")
    configuration = _configuration(variant, block, case_id)
    case = make_case(family, variant, configuration, read_sizes(shape, "shape", case_id), dtype)
    if case.id != case_id:  # a size with leading zeros: results are kept under one name alone
        raise BadCase(f"{case_id}: is written {case.id}")
    return case
