"""Describes the variants of a family: kernels, calls that take a kernel's place, and serial C++ for the host."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

from warpwatch.catalogue.accepted import Accept
from warpwatch.catalogue.arrays import DeclaredArray, Shape
from warpwatch.catalogue.calls import Call, PythonPackage, Queue, Requirement
from warpwatch.catalogue.launches import ARCH_FLAG, Capability, Owner, Step, WrittenSizes, read_capability
from warpwatch.catalogue.named_arguments import takes
from warpwatch.catalogue.names import print_short, size_name
from warpwatch.catalogue.texts import Text

Block = tuple[int, ...]  # the size that an id calls the block (see Variant)
Macro = int | str


@dataclass(frozen=True)
class Configuration:
    """One way to compile and launch a kernel. A macro is an attribute: ``c.ROWS``.

    ``block``: the size that ids call the block; () where there is none. ``macros``: those that were written for it.
    ``name``: what stands in ids in place of the block, or an empty text. ``plain``: it is written as a block alone,
    and a block of any other size would do as well.
    """

    block: Block
    macros: tuple[tuple[str, Macro], ...] = ()
    name: str = ""
    plain: bool = True

    def __getattr__(self, name: str) -> Macro:
        for known, value in self.__dict__.get("macros", ()):
            if known == name:
                return value  # type: ignore[no-any-return]
        raise AttributeError(f"this configuration has no {name}; it has block, {', '.join(dict(self.macros))}")

    @property
    def label(self) -> str:
        """The configuration's part of an id, such as 16x16 or 256_rows2; empty without a block."""
        if self.name or not self.block:
            return self.name
        return "_".join([size_name(self.block), *(f"{name}{value}".lower() for name, value in self.macros)])


def configurations(given: object) -> tuple[Configuration, ...]:
    """Read a declaration's list of configurations: tuples are blocks, mappings have a block and macros.

    Raises ValueError, which says what is wrong.
    """
    if not isinstance(given, tuple | list) or not given:
        raise ValueError(f"is {given!r}: give a tuple of at least one, such as ((16, 16),) or (dict(block=(256,)),)")
    read = tuple(_configuration(each) for each in given)
    if len({len(each.block) for each in read}) > 1:
        first, other = next((a.block, b.block) for a in read for b in read if len(a.block) < len(b.block))
        raise ValueError(f"has blocks of {len(first)} and of {len(other)} sizes: {first!r} and {other!r}")
    labels = [each.label for each in read]
    if twice := next((label for i, label in enumerate(labels) if label in labels[:i]), None):
        raise ValueError(f"has {twice} twice: ids would be the same; give one of them a name=")
    return read


def _configuration(given: object) -> Configuration:
    if not isinstance(given, Mapping):
        return Configuration(() if given == () else _block(given))
    name = given.get("name", "")
    macros = {key: value for key, value in given.items() if key not in ("block", "name")}
    for key, value in macros.items():
        if not key.isidentifier() or not key.isascii() or not isinstance(value, int | str):
            raise ValueError(f"has {key!r} = {value!r}: a macro is a name, and a whole number or a text")
    if not isinstance(name, str) or (name and not (name.isascii() and name.replace("_", "a").isalnum())):
        raise ValueError(f"has the name {name!r}: it stands in ids, and has letters, digits and _ alone")
    return Configuration(_block(given.get("block", ())), tuple(macros.items()), name, plain=False)


def _block(given: object) -> Block:
    sizes = tuple(given) if isinstance(given, tuple | list) else (given,)
    are_counts = all(isinstance(size, int) and not isinstance(size, bool) and size >= 1 for size in sizes)
    if not 1 <= len(sizes) <= len("xyz") or not are_counts:
        raise ValueError(f"has {given!r}: a block is one to three whole numbers from 1 on, such as (16, 16)")
    return sizes


OLDEST = Capability(7, 5)  # the oldest compute capability that nvcc 13 compiles for
Benchmarks = Mapping[str, tuple[Shape, ...]] | tuple[Shape, ...]  # for each element type, or for all alike
Limit = float | None
Source = str | Path | Text | Callable[..., bytes | str]


@dataclass(frozen=True, eq=False)
class Variant:
    """One way to compute a family's results: a kernel, a call, or serial C++; made by kernel(), call() and serial().

    Functions take by name what they need: the sizes of a shape, ``shape``, ``dtype``, ``itemsize``, ``block`` and ``c``
    (the configuration).

    - ``note``: says in a few words what is special about it;
    - ``configurations``: blocks such as (16, 16), or ``dict(block=(256,), ROWS=2)`` with macros. A block that is
      written as a tuple is the tile of the result that a thread block computes, and the thread block has one thread
      for each element of the tile, where the next two are not given:
    - ``threads``: -> threads of the thread block along x and y, where they are fewer than the tile's elements;
    - ``tile``: -> elements of the result that a thread block computes along x and y, where that is not the block;
    - ``fixed_blocks``: other blocks are refused, because the kernel needs macros for each;
    - ``takes``: -> whether that configuration exists in that type;
    - ``valid``: sizes -> whether this variant takes such a shape, besides ``valid`` of the family. Others are left out;
    - ``dtypes``: the element types, where they are not the family's;
    - ``x``, ``y``: the axis of the result that blockIdx.x and blockIdx.y run along (y: None where there is none). The
      grid and the owner of an element follow from them;
    - ``grid``: a number, sizes, a text such as "ceil(n/BLOCK_X) rows", or -> any of these, where the
      grid does not follow from the tile; ``blocks`` helps;
    - ``cluster``: blocks of a thread block cluster, in the same ways;
    - ``cooperative``: all blocks run at the same time (cuLaunchCooperativeKernel), so that they may synchronise;
    - ``launches``: several steps that are timed together;
    - ``scratch``: -> name and Scratch of arrays that this variant alone needs;
    - ``capability``: the oldest compute capability that runs it;
    - ``requires``: packages that a function of the declaration needs;
    - ``on_host``: it is C++ for one thread of the host;
    - ``call``: what takes the kernel's place;
    - ``source``: the file, from the family's folder: .cu (empty: ``<name>.cu``), .cubin, .ptx or .fatbin; or a text,
      by ``ww.text`` or ``ww.from_python``; or a function that returns machine code or CUDA C++;
    - ``include``, ``flags``: folders with headers, from the family's folder, and options of the compiler;
    - ``entry``: the kernel's name in that file, or a function that returns it; empty: ``<family>_<variant>``;
    - ``macros``: -> macros besides those of the configuration;
    - ``arguments``: the kernel's arguments as text (warpwatch/catalogue/argument_words.py), or a function that takes
      ``at`` (array -> address) and returns NumPy scalars. One that takes ``padding`` too works on rows with so many
      elements between them. Empty: every array, then the sizes as int;
    - ``shared_bytes``: a number, a text such as "4*BLOCK_X", or -> dynamic shared memory of a block in bytes;
    - ``symbols``: name of a __constant__ or __device__ variable -> the input that is copied there. A variable may be
      larger; a smaller one is refused, unless the kernel is given a pointer to the input too;
    - ``fallback``: -> in words, a slower branch that the kernel takes, or an empty text. Saved runs and tables repeat
      it;
    - ``benchmarks``: shapes that are timed instead of the family's;
    - ``accept``: findings of the software device that are right, as Accept, each with its reason;
    - ``deterministic``, ``same_for``: where they are not the family's;
    - ``at_least``: the least share of the reference's rate that it reaches, such as 0.9; or ``dict(reference=0.9,
      roof=0.6)``, where the roof is what the GPU can do; or -> either of them;
    - ``at_most``: ``dict(registers=64, local_bytes=0, seconds=50e-6)``, or some of these, or -> them;
    - ``threshold``: a share, or -> one: smaller changes of its time are not called slower or faster;
    - ``owner``: ``index`` of an element -> its owner, where x and y do not give it;
    - ``order``: ``tile`` (x, y), ``tiles`` (x, y) -> number of the block that computes the tile, counted along x, then
      y, then z, where that is not the block of the same index;
    - ``tile_of``: ``index`` of an element, ``offset`` (elements from an array's alignment to its start) -> tile (x, y)
      whose block writes the element, where it is not the tile that contains the element.
    """

    name: str
    note: str = ""
    _: KW_ONLY
    configurations: tuple[Any, ...] = ((),)
    dtypes: tuple[str, ...] | None = None
    x: int = 1
    y: int | None = 0
    capability: Capability = OLDEST
    requires: tuple[Requirement, ...] = ()
    on_host: bool = False
    call: Call | None = None
    source: Source = ""
    include: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    entry: str | Callable[..., str] = ""
    grid: WrittenSizes | Callable[..., WrittenSizes] = ()
    cluster: WrittenSizes | Callable[..., WrittenSizes] = 1
    scratch: Callable[..., Mapping[str, DeclaredArray]] | None = None
    cooperative: bool = False
    launches: tuple[Step, ...] = ()
    arguments: str | Callable[..., tuple[Any, ...]] = ""
    shared_bytes: int | str | Callable[..., int | str] = 0
    owner: Callable[..., Owner] | None = None
    order: Callable[..., int] | None = None
    tile_of: Callable[..., tuple[int, int]] | None = None
    threads: Callable[..., tuple[int, int]] | None = None
    tile: Callable[..., tuple[int, int]] | None = None
    benchmarks: Benchmarks | None = None
    deterministic: bool | None = None
    same_for: tuple[str, ...] | None = None
    macros: Callable[..., Mapping[str, Macro]] | None = None
    fixed_blocks: bool = False
    takes: Callable[..., bool] | None = None
    valid: Callable[..., bool] | None = None
    symbols: Mapping[str, str] = field(default_factory=dict)
    fallback: Callable[..., str] | None = None
    accept: tuple[Accept, ...] = ()
    at_least: Limit | Mapping[str, float] | Callable[..., Limit | Mapping[str, float]] = None
    at_most: Mapping[str, float] | Callable[..., Mapping[str, float]] | None = None
    threshold: Limit | Callable[..., Limit] = None

    def __repr__(self) -> str:
        return f"Variant({self.name!r})"

    _repr_pretty_ = print_short

    @property
    def has_no_block(self) -> bool:
        return self.on_host or self.call is not None

    @property
    def own_arch(self) -> str:
        """The architecture whose own instructions it uses, such as sm_90a; empty for code that newer GPUs take too."""
        named = (flag.removeprefix(ARCH_FLAG) for flag in self.flags if flag.startswith(ARCH_FLAG))
        return next(named, "")

    def runs_on(self, capability: Capability) -> bool:
        """Return whether a GPU of a compute capability runs it."""
        return capability == self.capability if self.own_arch else capability >= self.capability

    @property
    def missing(self) -> str:
        """Say what it needs that is not installed, and how to get it; empty where it lacks nothing."""
        lacks = (each.missing() for each in self.requires)
        return next(filter(None, lacks), "") or (self.call.missing() if self.call else "")

    @property
    def follows_tiles(self) -> bool:
        """True where the grid follows from the tiles of the result, so that corner cases can be made of them."""
        return not (self.has_no_block or self.grid or self.launches)

    @property
    def takes_padding(self) -> bool:
        """True where the kernel can work on rows that are further apart than they are long."""
        return callable(self.arguments) and takes(self.arguments, "padding")

    @functools.cached_property
    def listed(self) -> tuple[Configuration, ...]:
        """Its configurations. Raises ValueError where the declaration's list cannot be read."""
        return configurations(self.configurations)


Needs = str | Requirement | Sequence[str | Requirement]


def kernel(name: str, note: str = "", *, needs: Needs = (), **fields: Any) -> Variant:
    """Declare a CUDA kernel.

    ``needs``: the oldest architecture, such as "sm_80", and packages that its source function needs, such as "triton".
    "sm_90a" is for instructions of that architecture alone: the kernel is compiled for it, and runs on no newer GPU.
    The other fields are Variant's.
    """
    oldest, packages = _needs(needs)
    own = {f"{ARCH_FLAG}{need}" for need in _each(needs) if isinstance(need, str) and re.fullmatch(r"sm_\d+a", need)}
    flags = (*fields.pop("flags", ()), *own)
    return Variant(name, note, capability=oldest, requires=packages, flags=flags, **fields)


def _each(given: Needs) -> tuple[str | Requirement, ...]:
    return (given,) if isinstance(given, str) or not isinstance(given, Sequence) else tuple(given)


def _needs(given: Needs) -> tuple[Capability, tuple[Requirement, ...]]:
    """Tell architectures from packages: the newest of the architectures, and the packages."""
    each = _each(given)
    architectures = {need: read_capability(need) for need in each if isinstance(need, str)}
    oldest = max(filter(None, architectures.values()), default=OLDEST)
    others = [need for need in each if not isinstance(need, str) or not architectures[need]]
    return oldest, tuple(PythonPackage(need) if isinstance(need, str) else need for need in others)


def serial(name: str, note: str = "", **fields: Any) -> Variant:
    """Declare plain C++ for one thread of the host: ``<name>.cpp``. The fields are Variant's."""
    return Variant(name, note, on_host=True, **fields)


def call(
    name: str,
    note: str = "",
    *,
    function: Callable[..., object] | None = None,
    prepare: Callable[..., Queue] | None = None,
    needs: Needs = (),
    needs_gpu: bool = True,
    **fields: Any,
) -> Variant:
    """Declare a call that takes a kernel's place, and queues its work on a stream.

    ``function`` takes by name arrays, sizes and ``stream``, and queues at once. ``prepare`` takes the same, does what
    can be done beforehand, and returns the function that queues. ``needs``: packages such as "torch", a SharedLibrary,
    an architecture such as "sm_80". ``needs_gpu``: it brings machine code, which the software device cannot run. The
    other fields are Variant's.
    """
    oldest, packages = _needs(needs)
    if (function is None) == (prepare is None):
        raise TypeError(f"the call {name} needs either function= or prepare=")
    queued = Call(prepare=prepare or Deferred(function), needs=packages, needs_gpu=needs_gpu)
    return Variant(name, note, call=queued, capability=oldest, **fields)


@dataclass(frozen=True)
class Deferred:
    """Makes of a function that queues at once one that is called with the same values for each sample."""

    function: Any

    @property
    def __signature__(self) -> Any:
        return inspect.signature(self.function)

    def __call__(self, **given: Any) -> Queue:
        return functools.partial(self.function, **given)


def by_elements(accesses: str, *lengths: str) -> Callable[..., str]:
    """Make the ``fallback`` of a kernel that accesses single elements where rows are not aligned to 16 bytes.

    ``accesses``: the loads or stores that are slower then. ``lengths``: the sizes that rows are as long as.
    """

    def fallback(sizes: Mapping[str, int], itemsize: int) -> str:
        unaligned = any(sizes[length] * itemsize % 16 for length in lengths)
        return f"{accesses} element by element: rows off 16 bytes" if unaligned else ""

    return fallback
