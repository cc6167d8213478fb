"""Declares kernels as data: families, variants, builds and cases.

This module and the families import the standard library and NumPy alone, so that every case can be listed without a
GPU, a driver, a compiler or PyCUDA.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwatch.catalogue.library import Library
from warpwatch.catalogue.names import BadCase as BadCase  # noqa: PLC0414  # users of the catalogue import both from here
from warpwatch.catalogue.names import pick
from warpwatch.catalogue.names import size_name as size_name  # noqa: PLC0414
from warpwatch.catalogue.registry import registered, root_of

Shape = tuple[int, ...]
Block = tuple[int, ...]  # the size that an id calls its block (see Variant)
Array = npt.NDArray[Any]
Rows = Array | slice

C_TYPES: Mapping[str, str] = {
    "float32": "float",
    "float64": "double",
    # Overflow of a signed int is undefined in C++. An unsigned int wraps modulo 2^32 and has the same bits.
    "int32": "unsigned",
    "none": "void",
}
HOST_BLOCK = "host"  # replaces the block in the id of a variant that runs on the host
VENDOR_BLOCK = "vendor"  # the same for a variant that is a library
LARGEST_SIZE = 2**30  # kernels count rows and columns in int, rounded up to whole blocks
LARGEST_GRID_Y = 65_535  # CUDA's limit for gridDim.y and gridDim.z, of every architecture
ALL_ROWS = slice(None)


@dataclass(frozen=True, order=True)
class Capability:
    """A CUDA compute capability, such as 9.0."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @property
    def arch(self) -> str:
        """The architecture's name for nvcc, such as ``sm_90``."""
        return f"sm_{self.major}{self.minor}"


@dataclass(frozen=True)
class Work:
    """The least work of a case: arithmetic operations, and bytes if each is moved once."""

    operations: int
    bytes: int


@dataclass(frozen=True)
class Launch:
    """Grid and block in CUDA's order (x, y, z), and the dynamic shared memory of a block in bytes."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0


@dataclass(frozen=True)
class Owner:
    """The block and the thread, in CUDA's order (x, y), that write one element of the result.

    ``block`` has a z too where the grid is deeper than 1. ``thread`` is None where only the kernel's own file says
    which thread of the block it is.
    """

    block: tuple[int, ...]
    thread: tuple[int, int] | None


def _no_shared_memory(shape: Shape, block: Block, itemsize: int) -> int:
    return 0


def pointers_then_sizes(pointers: Sequence[int], shape: Shape) -> tuple[np.generic, ...]:
    """Return kernel arguments: operands, result, then the sizes as int, in the order of the shape."""
    return (*map(np.uint64, pointers), *map(np.int32, shape))


@dataclass(frozen=True, eq=False)
class Variant:
    """One kernel of a family: the file ``<name>.cu``, or ``<name>.cpp`` for one that runs on the host.

    - ``note``: says in a few words what is special about it;
    - ``blocks``: the sizes that ids call the block, such as (16, 16). It is the tile of the result that a thread block
      computes, and the thread block has one thread for each element of the tile, where the next two are not given:
    - ``threads``: block -> threads of the thread block along x and y, where they are fewer than the tile's elements;
    - ``tile``: block -> elements of the result that a thread block computes along x and y, where that is not the block;
    - ``fixed_blocks``: other blocks are refused, because the kernel needs macros for each;
    - ``takes``: block, element type -> whether that block exists in that type;
    - ``dtypes``: the element types;
    - ``x``, ``y``: the axis of the result that threadIdx.x and threadIdx.y run along (y: None where there is none).
      The grid and the owner of an element follow from them;
    - ``needs``: the oldest compute capability that runs it;
    - ``on_host``: it is C++ for one thread of the host;
    - ``library``: a vendor's library that replaces the kernel;
    - ``entry``: shape -> suffix of the kernel's name, where a file holds several kernels;
    - ``macros``: block -> macros besides BLOCK_X and BLOCK_Y;
    - ``arguments``: addresses of the arrays, shape -> arguments of the kernel;
    - ``padded_arguments``: the same for arrays with padded rows, by so many elements; None where the kernel takes none;
    - ``shared_bytes``: shape, block, bytes an element -> dynamic shared memory of a block in bytes;
    - ``constant``: an operand that is copied to the kernel's constant memory ``constant_<name>``, as far as it fits;
    - ``fallback``: shape, bytes an element -> in words, a slower branch that the kernel takes, or an empty text. Saved
      runs and tables repeat it;
    - ``bench_shapes``: shapes that are timed instead of the family's;
    - ``owner``: block, index of an element -> its owner, where x and y do not give it;
    - ``order``: tile (x, y), number of tiles (x, y) -> number of the block that computes it, counted along x, then y,
      then z, where that is not the block of the same index;
    - ``tile_of``: case, index of an element, elements from an array's alignment to its start -> tile (x, y) whose block
      writes the element, where it is not the tile that contains the element.
    """

    name: str
    note: str
    _: KW_ONLY
    blocks: tuple[Block, ...]
    dtypes: tuple[str, ...]
    x: int = 1
    y: int | None = 0
    needs: Capability = Capability(7, 5)
    on_host: bool = False
    shared_bytes: Callable[[Shape, Block, int], int] = _no_shared_memory
    arguments: Callable[[Sequence[int], Shape], tuple[np.generic, ...]] = pointers_then_sizes
    owner: Callable[[Block, tuple[int, ...]], Owner] | None = None
    order: Callable[[tuple[int, int], tuple[int, int]], int] | None = None
    tile_of: Callable[[Case, tuple[int, ...], int], tuple[int, int]] | None = None
    threads: Callable[[Block], tuple[int, int]] | None = None
    tile: Callable[[Block], tuple[int, int]] | None = None
    library: Library | None = None
    entry: Callable[[Shape], str] = lambda shape: ""
    bench_shapes: Mapping[str, tuple[Shape, ...]] | None = None
    macros: Callable[[Block], Mapping[str, int]] = lambda block: {}
    fixed_blocks: bool = False
    takes: Callable[[Block, str], bool] = lambda block, dtype: True
    constant: str = ""
    padded_arguments: Callable[[Sequence[int], Shape, int], tuple[np.generic, ...]] | None = None
    fallback: Callable[[Shape, int], str] = lambda shape, itemsize: ""

    @property
    def has_no_block(self) -> bool:
        return self.on_host or self.library is not None


@dataclass(frozen=True, eq=False, kw_only=True)
class Family:
    """Kernels that compute the same result. docs/adding-a-kernel.md shows one in use.

    - ``folder``: the folder of the kernels' files;
    - ``sizes``: names of the numbers in a shape;
    - ``operands``: shape -> name and shape of each input array, in the kernel's order;
    - ``result``: shape -> name and shape of the array that the kernel writes; None where it prints;
    - ``reference``: operands, rows -> those rows of the result, in float64 or exact integers;
    - ``bound``: operands, rows -> largest error allowed per element; 0 where the result is exact;
    - ``work``: shape, bytes an element -> Work;
    - ``fits``: shape -> a sentence that says why it is invalid, or None;
    - ``serial_seconds``: shape -> about how long the serial variant takes, from measured rates;
    - ``reference_case``: shape, element type -> id of the case whose rate the others are held against, or nothing;
    - ``prints``: block, shape -> the host's own line, then those that a printing kernel must print;
    - ``ladder_shapes``: element type -> shapes of which a table shows every variant;
    - ``reached_shapes``: element type -> shapes of which a table shows the best variant.
    """

    name: str
    folder: Path
    sizes: tuple[str, ...]
    operands: Callable[[Shape], Mapping[str, Shape]]
    result: Callable[[Shape], tuple[str, Shape]] | None
    reference: Callable[[Sequence[Array], Rows], Array]
    bound: Callable[[Sequence[Array], Rows], Array | float]
    work: Callable[[Shape, int], Work]
    test_shapes: tuple[Shape, ...]
    bench_shapes: Mapping[str, tuple[Shape, ...]]
    variants: tuple[Variant, ...]
    fits: Callable[[Shape], str | None] = lambda shape: None
    serial_seconds: Callable[[Shape], float] = lambda shape: 0.0
    prints: Callable[[Block, Shape], list[str]] | None = None
    reference_case: Callable[[Shape, str], str] = lambda shape, dtype: ""
    ladder_shapes: Mapping[str, tuple[Shape, ...]] = field(default_factory=dict)
    reached_shapes: Mapping[str, tuple[Shape, ...]] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        """The folder that messages name files from: the loaded repository, or else two above the family."""
        return root_of(self.folder) or self.folder.parent.parent

    def variant(self, name: str) -> Variant:
        """Return the variant of that name. Raises BadCase, which suggests the nearest name."""
        return pick(name, {v.name: v for v in self.variants}, f"variant of {self.name}")


@dataclass(frozen=True)
class Build:
    """The subject of one compilation: a variant for one block and one element type."""

    family: Family
    variant: Variant
    block: Block
    dtype: str

    @property
    def block_name(self) -> str:
        return size_name(self.block) if self.block else VENDOR_BLOCK if self.variant.library else HOST_BLOCK

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
        return self.family.folder / f"{self.variant.name}{'.cpp' if self.variant.on_host else '.cu'}"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by name: both processes have loaded the same project, whose functions cannot be pickled."""
        return _registered_build, (self.family.name, self.variant.name, self.block, self.dtype)

    @property
    def entry(self) -> str:
        """Name of the kernel function in that file."""
        return f"{self.family.name}_{self.variant.name}"

    @property
    def macros(self) -> dict[str, str]:
        """Macros of the compilation.

        ``scalar_t`` is the element type (a macro named T breaks the headers that nvcc includes by itself).
        """
        macros = {"scalar_t": C_TYPES[self.dtype]}
        if not self.variant.has_no_block:
            macros |= dict(zip(("BLOCK_X", "BLOCK_Y"), map(str, self.block_xy), strict=True))
            macros |= {name: str(value) for name, value in self.variant.macros(self.block).items()}
        return macros


def _registered_build(family: str, variant: str, block: Block, dtype: str) -> Build:
    found = registered(family)
    return Build(found, found.variant(variant), block, dtype)


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
    def entry(self) -> str:
        """Name of the kernel function for this shape."""
        return self.build.entry + self.variant.entry(self.shape)

    @property
    def shape_name(self) -> str:
        return size_name(self.shape)

    @property
    def itemsize(self) -> int:
        return 0 if self.dtype == "none" else np.dtype(self.dtype).itemsize

    @property
    def work(self) -> Work:
        return self.family.work(self.shape, self.itemsize)

    @property
    def array_bytes(self) -> int:
        """Bytes of operands and result together."""
        shapes = list(self.family.operands(self.shape).values())
        if self.family.result:
            shapes.append(self.family.result(self.shape)[1])
        return sum(prod(shape) for shape in shapes) * self.itemsize

    @property
    def parameters(self) -> dict[str, str]:
        """The parts of the id, as saved runs and pytest-benchmark's tables name them."""
        build = self.build
        names = (build.family.name, build.variant.name, build.block_name, self.shape_name, build.dtype)
        return dict(zip(("family", "variant", "block", "shape", "dtype"), names, strict=True))

    @property
    def launch_cost(self) -> float:
        """Rough cost of a launch on the software device: operations, accesses of 4 bytes, or 16 for each thread."""
        threads = prod(self.launch.grid) * prod(self.launch.block)
        return max(self.work.operations, self.work.bytes / 4, 16 * threads)

    @property
    def tile(self) -> tuple[int, int]:
        """Elements of the result that a thread block computes, along x and y."""
        return self.variant.tile(self.build.block) if self.variant.tile else self.build.block_xy

    @property
    def omitted(self) -> str | None:
        """Reason why a benchmark leaves this case out, or None."""
        seconds = self.family.serial_seconds(self.shape) if self.variant.on_host else 0.0
        return f"would take about {seconds:.0f} s on one core" if seconds > 1.0 else None

    @property
    def launch(self) -> Launch:
        """Grid and block: enough blocks for every element of the result."""
        if self.variant.library:
            return Launch((1, 1, 1), (1, 1, 1))  # the library chooses its own
        bx, by = self.tile
        tx, ty = self.variant.threads(self.build.block) if self.variant.threads else self.build.block_xy
        shared = self.variant.shared_bytes(self.shape, self.build.block, self.itemsize)
        if self.family.result is None:
            return Launch((self.shape[0], 1, 1), (bx, by, 1), shared)
        blocks_x, blocks_y = self._tiles
        # Kernels take blockIdx.z * gridDim.y + blockIdx.y, so that y may pass CUDA's 65,535.
        grid_z = -(-blocks_y // LARGEST_GRID_Y)
        return Launch((blocks_x, -(-blocks_y // grid_z), grid_z), (tx, ty, 1), shared)

    @property
    def _tiles(self) -> tuple[int, int]:
        """Tiles of the result along x and y."""
        assert self.family.result
        _, result = self.family.result(self.shape)
        bx, by = self.tile
        return -(-result[self.variant.x] // bx), 1 if self.variant.y is None else -(-result[self.variant.y] // by)

    def owner(self, index: tuple[int, ...], offset: int = 0) -> Owner:
        """Return the block and thread that write the element of the result at ``index``.

        ``offset``: elements that each array starts past the alignment of an allocation.
        """
        if self.variant.owner:
            found = self.variant.owner(self.build.block, index)
        elif self.variant.tile_of:
            found = Owner(self.variant.tile_of(self, index, offset), None)
        else:
            bx, by = self.tile
            x, y = index[self.variant.x], 0 if self.variant.y is None else index[self.variant.y]
            found = Owner((x // bx, y // by), None if self.variant.threads else (x % bx, y % by))
        tile_x, tile_y = found.block
        grid_x, grid_y, grid_z = self.launch.grid
        number = self.variant.order((tile_x, tile_y), self._tiles) if self.variant.order else tile_y * grid_x + tile_x
        block = (number % grid_x, number // grid_x % grid_y, number // (grid_x * grid_y))
        return Owner(block if block[2] or grid_z > 1 else block[:2], found.thread)
