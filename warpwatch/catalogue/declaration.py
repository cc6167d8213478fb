"""Declares kernels as data: families, builds and cases.

This module and the families import the standard library and NumPy alone, so that every case can be listed without a
GPU, a driver, a compiler or PyCUDA.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from warpwatch.catalogue.arguments import Known, fill, read
from warpwatch.catalogue.arrays import CaseArray, DeclaredArray, Role, Scalar, Shape
from warpwatch.catalogue.by_name import call, takes
from warpwatch.catalogue.configurations import Block, Configuration
from warpwatch.catalogue.elements import C_TYPES, NONE, itemsize
from warpwatch.catalogue.launches import Launch, Owner, Step, Work, three
from warpwatch.catalogue.names import pick, size_name
from warpwatch.catalogue.registry import registered, root_of
from warpwatch.catalogue.tolerance import Exact, Rule
from warpwatch.catalogue.variants import Benchmarks, Variant

HOST_BLOCK = "host"  # replaces the block in the id of a variant that runs on the host
VENDOR_BLOCK = "vendor"  # the same for a call
STEPS_BLOCK = "steps"  # the same for several launches with blocks of their own
LARGEST_SIZE = 2**30  # kernels count rows and columns in int, rounded up to whole blocks
TIMED_SEED = 20  # of the inputs of benchmarks, so that every run times the same numbers
LARGEST_GRID_Y = 65_535  # CUDA's limit for gridDim.y and gridDim.z, of every architecture


def folder_of_caller() -> Path:
    """Return the folder of the file that declares a family: the first one outside of this module."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__") in (__name__, "dataclasses"):
        frame = frame.f_back
    return Path(frame.f_code.co_filename).parent


@dataclass(frozen=True, eq=False)
class Family:
    """Kernels that compute the same results. docs/your-kernels.md shows how to declare one.

    Functions take by name what they need: the sizes of a shape, or ``sizes``, all of them by name; ``shape``, ``dtype``
    and ``itemsize``.

    - ``sizes``: names of the numbers in a shape;
    - ``dtypes``: the element types that its cases come in (the macro ``scalar_t``); empty where every array has a type
      of its own;
    - ``arrays``: -> name of each array, and In, Out, InOut or Scratch;
    - ``reference``: inputs by name -> the results: an array, or several as a tuple in the order of ``arrays`` or as a
      mapping; in float64 or exact. One that takes ``part`` returns those rows of a single result. One that takes
      ``magnitudes`` adds, where that is true, the magnitudes of products;
    - ``scalars``: name -> Scalar, a number that kernels take and the reference may ask for;
    - ``tolerance``: a rule for the errors of results, or one for each by name, or a function that returns either
      (warpwatch/catalogue/tolerance.py);
    - ``exact``: whole numbers stay exact in every order of operations, so that results of small ones can be compared to
      the bit;
    - ``draw``: ``rng``, ``exact`` -> inputs by name, where uniform random numbers will not do;
    - ``work``: -> Work; left out: each array is moved once;
    - ``tests``, ``benchmarks``: shapes that are tested and timed, the latter also for each element type;
    - ``folder``: of the kernels' files; left out: that of the file which declares the family;
    - ``fits``: -> a sentence that says why a shape is invalid, or None;
    - ``serial_seconds``: -> about how long the serial variant takes, from measured rates;
    - ``reference_case``: -> id of the case whose rate the others are held against, or nothing;
    - ``prints``: -> the host's own line, then those that a printing kernel must print;
    - ``ladder_shapes``: element type -> shapes of which a table shows every variant;
    - ``reached_shapes``: element type -> shapes of which a table shows the best variant.
    """

    name: str
    _: KW_ONLY
    sizes: tuple[str, ...]
    variants: tuple[Variant, ...]
    tests: tuple[Shape, ...]
    arrays: Callable[..., Mapping[str, DeclaredArray]] = lambda: {}
    reference: Callable[..., Any] = lambda: ()
    dtypes: tuple[str, ...] = ()
    scalars: Mapping[str, Scalar] = field(default_factory=dict)
    tolerance: Rule | Mapping[str, Rule] | Callable[..., Any] = Exact()  # noqa: RUF009  # frozen
    exact: bool = False
    draw: Callable[..., Mapping[str, Any]] | None = None
    work: Callable[..., Work] | None = None
    benchmarks: Benchmarks = ()
    folder: Path = field(default_factory=folder_of_caller)
    fits: Callable[..., str | None] = lambda: None
    serial_seconds: Callable[..., float] = lambda: 0.0
    prints: Callable[..., list[str]] | None = None
    reference_case: Callable[..., str] = lambda: ""
    ladder_shapes: Mapping[str, tuple[Shape, ...]] = field(default_factory=dict)
    reached_shapes: Mapping[str, tuple[Shape, ...]] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        """The folder that messages name files from: the loaded repository, or else two above the family."""
        return root_of(self.folder) or self.folder.parent.parent

    def variant(self, name: str) -> Variant:
        """Return the variant of that name. Raises BadCase, which suggests the nearest name."""
        return pick(name, {v.name: v for v in self.variants}, f"variant of {self.name}")

    def given(self, shape: Shape, dtype: str, **more: Any) -> dict[str, Any]:
        """Return what functions of this declaration may take by name."""
        sizes = dict(zip(self.sizes, shape, strict=False))
        of_case = {"shape": shape, "sizes": sizes, "dtype": dtype, "itemsize": itemsize(dtype)}
        return {**more, **of_case, **{name: scalar.value for name, scalar in self.scalars.items()}, **sizes}

    def problem_of(self, shape: Shape) -> str | None:
        """Say why a shape is invalid, by ``fits``; None where it is not."""
        sizes = dict(zip(self.sizes, shape, strict=False))
        return call(self.fits, {"shape": shape, "sizes": sizes, **sizes})  # type: ignore[no-any-return]

    @functools.cached_property
    def own_type(self) -> str:
        """The element type in ids where ``dtypes`` is empty: that of the first result."""
        if self.prints:
            return NONE
        made = call(self.arrays, self.given(self.tests[0], NONE))
        arrays = made.values() if isinstance(made, Mapping) else ()  # other mistakes are found by a rule too
        first = [a.dtype for a in arrays if isinstance(a, DeclaredArray) and a.role in (Role.OUT, Role.IN_OUT)]
        return first[0] if first else NONE

    def dtypes_of(self, variant: Variant) -> tuple[str, ...]:
        """Return the element types that a variant comes in."""
        return variant.dtypes or self.dtypes or (self.own_type,)

    def benchmarks_of(self, variant: Variant, dtype: str) -> tuple[Shape, ...]:
        """Return the shapes on which a variant is timed."""
        chosen = self.benchmarks if variant.benchmarks is None else variant.benchmarks
        return tuple(chosen.get(dtype, ())) if isinstance(chosen, Mapping) else tuple(chosen)

    def result_shape(self, shape: Shape) -> Shape | None:
        """Return the shape of the first result; None where kernels print."""
        named = (dtype for variant in self.variants for dtype in variant.dtypes or ())
        dtype = next(dtype for dtype in (*self.dtypes, self.own_type, *named) if dtype in C_TYPES)
        return next((array.shape for array in arrays_of(self, shape, dtype) if array.is_result), None)


@functools.lru_cache(maxsize=2**14)
def arrays_of(family: Family, shape: Shape, dtype: str) -> tuple[CaseArray, ...]:
    """Return the arrays of a family for a shape and element type, in the order of its declaration."""
    declared: Mapping[str, DeclaredArray] = call(family.arrays, family.given(shape, dtype))
    drawn: Mapping[str, Any] = {}
    if family.draw and any(array.shape is None for array in declared.values()):
        drawn = call(
            family.draw,
            family.given(
                shape, dtype, rng=np.random.default_rng(np.random.SeedSequence([TIMED_SEED, *shape])), exact=False
            ),
        )
    return tuple(
        of_case(name, array, dtype, np.shape(drawn[name]) if array.shape is None else None)
        for name, array in declared.items()
    )


def of_case(name: str, array: DeclaredArray, dtype: str, drawn: Shape | None = None) -> CaseArray:
    """Return a declared array with the element type of a case, where it has none, or with a shape that was drawn."""
    shape = drawn or array.shape
    assert shape is not None
    return CaseArray(
        name=name,
        role=array.role,
        shape=shape,
        is_drawn=array.shape is None,
        dtype=array.dtype or dtype,
        initial=array.initial,
        aligned=array.aligned,
        low=array.low,
        high=array.high,
    )


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
        if callable(source) or not str(source):
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
    def macros(self) -> dict[str, str]:
        """Macros that the declaration names: the configuration's and the variant's."""
        macros = {name: str(value) for name, value in self.configuration.macros}
        if self.variant.macros:
            given = given_of(self.configuration, self.dtype)
            macros |= {name: str(value) for name, value in call(self.variant.macros, given).items()}
        return macros


def _registered_build(family: str, variant: str, configuration: Configuration, dtype: str) -> Build:
    found = registered(family)
    return Build(found, found.variant(variant), configuration, dtype)


@dataclass(frozen=True)
class Case:
    """One build on one shape, which a test checks and a benchmark times."""

    build: Build
    shape: Shape

    @property
    def id(self) -> str:
        """Name of the case, ``<family>-<variant>-<block>-<shape>-<dtype>``, by which baselines are found."""
        b = self.build
        return f"{b.family.name}-{b.variant.name}-{b.block_name}-{self.shape_name}-{b.dtype}"

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
        """The sizes of the shape by their names."""
        return dict(zip(self.family.sizes, self.shape, strict=True))

    @property
    def given(self) -> dict[str, Any]:
        """What functions of the declaration may take by name."""
        own = self.build.configuration
        return self.family.given(self.shape, self.dtype, block=own.block, c=own, configuration=own)

    @property
    def arrays(self) -> tuple[CaseArray, ...]:
        """The family's arrays, then the scratch memory of the variant."""
        scratch = call(self.variant.scratch, self.given) if self.variant.scratch else {}
        own = (of_case(name, array, self.dtype) for name, array in scratch.items())
        return (*arrays_of(self.family, self.shape, self.dtype), *own)

    @property
    def inputs(self) -> tuple[CaseArray, ...]:
        """The arrays that are drawn and uploaded."""
        return tuple(array for array in self.arrays if array.is_input)

    @property
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
        """Bytes of all arrays together."""
        return sum(array.nbytes for array in self.arrays)

    @property
    def parameters(self) -> dict[str, str]:
        """The parts of the id, as saved runs and pytest-benchmark's tables name them."""
        build = self.build
        names = (build.family.name, build.variant.name, build.block_name, self.shape_name, build.dtype)
        return dict(zip(("family", "variant", "block", "shape", "dtype"), names, strict=True))

    @property
    def launch_cost(self) -> float:
        """Rough cost of a launch on the software device: operations, accesses of 4 bytes, or 16 for each thread."""
        threads = sum(int(np.prod((*step.launch.grid, *step.launch.block), dtype=float)) for step in self.steps)
        return max(self.work.operations, self.work.bytes / 4, 16 * threads)

    @property
    def fallback(self) -> str:
        """The slower branch that the kernel takes, in words; empty where it takes none."""
        return call(self.variant.fallback, self.given) if self.variant.fallback else ""

    @property
    def tile(self) -> tuple[int, int]:
        """Elements of the result that a thread block computes, along x and y."""
        return call(self.variant.tile, self.given) if self.variant.tile else self.build.block_xy

    @property
    def omitted(self) -> str | None:
        """Reason why a benchmark leaves this case out, or None."""
        seconds = call(self.family.serial_seconds, self.given) if self.variant.on_host else 0.0
        return f"would take about {seconds:.0f} s on one core" if seconds > 1.0 else None

    @property
    def steps(self) -> tuple[CaseStep, ...]:
        """The launches of the case, in order; those of a call and of the host are one, of one thread."""
        if self.variant.launches:
            return tuple(CaseStep(step.entry, self._declared(step), step.arguments) for step in self.variant.launches)
        entry = self.variant.entry or self.build.entry
        name = call(entry, self.given) if callable(entry) else entry
        return (CaseStep(name, self._launch(), self.variant.arguments),)

    @property
    def entry(self) -> str:
        """Name of the kernel function for this shape, the first where there are several launches."""
        return self.steps[0].entry

    @property
    def launch(self) -> Launch:
        """Grid and block of the first launch."""
        return self.steps[0].launch

    def _value(self, given: Any) -> Any:
        """Return what a field of the declaration says: itself, or what its function returns."""
        return call(given, self.given) if callable(given) else given

    def _declared(self, step: Step | Variant, block: Block = ()) -> Launch:
        """Return the launch that a step or a variant declares."""
        block = block or self._value(getattr(step, "block", ())) or self.build.block
        grid, cluster = three(self._value(step.grid)), three(self._value(step.cluster))
        return Launch(grid, three(block), self._value(step.shared_bytes), cluster)

    def _launch(self) -> Launch:
        """Return the launch that is declared, or one with enough blocks for every element of the result."""
        if self.variant.call:
            return Launch((1, 1, 1), (1, 1, 1))  # a call chooses its own
        threads = call(self.variant.threads, self.given) if self.variant.threads else ()
        if self.variant.grid:
            return self._declared(self.variant, threads)
        (bx, by), (tx, ty) = self.tile, threads or self.build.block_xy
        shared = self._value(self.variant.shared_bytes)
        if not self.results:
            return Launch((self.shape[0], 1, 1), (bx, by, 1), shared)
        blocks_x, blocks_y = self._tiles
        # Kernels take blockIdx.z * gridDim.y + blockIdx.y, so that y may pass CUDA's 65,535.
        grid_z = -(-blocks_y // LARGEST_GRID_Y)
        return Launch((blocks_x, -(-blocks_y // grid_z), grid_z), (tx, ty, 1), shared)

    @property
    def _tiles(self) -> tuple[int, int]:
        """Tiles of the result along x and y."""
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
            return tuple(call(given, self.given | {"at": addresses, "padding": padding}))
        shapes, scalars = drawn or {}, self.family.scalars
        arrays = {a.name: replace(a, shape=shapes[a.name]) if a.name in shapes else a for a in self.arrays}
        words = read(given or " ".join((*arrays, *scalars, *self.family.sizes)))
        typed = {name: (scalar.dtype or self.dtype, scalar.value) for name, scalar in scalars.items()}
        return fill(words, Known(arrays=arrays, addresses=addresses, sizes=self.sizes, scalars=typed))

    def owner(self, index: tuple[int, ...], offset: int = 0) -> Owner | None:
        """Return the block and thread that write the element of the result at ``index``; None where nothing says it.

        ``offset``: elements that each array starts past the alignment of an allocation.
        """
        variant, given = self.variant, self.given | {"index": index, "offset": offset, "case": self}
        if variant.owner:
            found = call(variant.owner, given)
        elif variant.tile_of:
            found = Owner(call(variant.tile_of, given), None)
        elif variant.follows_tiles:
            bx, by = self.tile
            x, y = index[variant.x], 0 if variant.y is None else index[variant.y]
            found = Owner((x // bx, y // by), None if variant.threads else (x % bx, y % by))
        else:
            return None
        return self._numbered(found)

    def _numbered(self, found: Owner) -> Owner:
        """Return the owner with the block's own index, where a kernel numbers its tiles in another order."""
        tile_x, tile_y = found.block
        grid_x, grid_y, grid_z = self.launch.grid
        order = self.variant.order
        number = call(order, {"tile": (tile_x, tile_y), "tiles": self._tiles}) if order else tile_y * grid_x + tile_x
        block = (number % grid_x, number // grid_x % grid_y, number // (grid_x * grid_y))
        return Owner(block if block[2] or grid_z > 1 else block[:2], found.thread)


@dataclass(frozen=True)
class CaseStep:
    """One launch of a case: the kernel's name, grid and block, and its arguments as they are declared."""

    entry: str
    launch: Launch
    arguments: str | Callable[..., tuple[Any, ...]]


def takes_part(family: Family) -> bool:
    """Tell whether the reference can compute some rows of a result alone."""
    return takes(family.reference, "part")
