"""Describes a launch: its grid and block, the work that it does, the compute capability that it needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass

Three = tuple[int, int, int]
ARCH_FLAG = "-arch="  # of nvcc, before the name of an architecture
MOST_LAUNCHED = 100  # kernels, copies and fills of a call that are noted


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


def read_capability(arch: str) -> Capability | None:
    """Read a capability from an architecture's name: 'sm_90' -> 9.0. None for other words."""
    match = re.fullmatch(r"sm_(\d+)(\d)[a-z]?", arch)
    return Capability(int(match[1]), int(match[2])) if match else None


@dataclass(frozen=True)
class Work:
    """The least work of a case: arithmetic operations, and bytes if each is moved once.

    ``pipe``: that all operations run on, by a name of catalogue/pipes.py. A time in which it cannot do them is then no
    result; without a name that is a remark.
    """

    operations: int
    bytes: int
    pipe: str = ""


@dataclass(frozen=True)
class Launch:
    """Grid, block and cluster in CUDA's order (x, y, z), and the dynamic shared memory of a block in bytes.

    ``cooperative``: all blocks run at the same time, so that they may wait for each other. ``stream``: name of the one
    that it is queued on, empty for the case's own. ``after``: the launches of a sequence, by number, that it waits for.
    ``programmatic``: it may begin before the launch before it has ended.
    """

    grid: Three
    block: Three
    shared_bytes: int = 0
    cluster: Three = (1, 1, 1)
    cooperative: bool = False
    stream: str = ""
    after: tuple[int, ...] = ()
    programmatic: bool = False

    @property
    def has_attributes(self) -> bool:
        """True where it takes more than a grid, a block and shared memory."""
        return self.cluster != (1, 1, 1) or self.cooperative or self.programmatic


def three(sizes: int | Sequence[int]) -> Three:
    """Fill sizes up with ones: 5 -> (5, 1, 1)."""
    given = tuple(sizes) if isinstance(sizes, Sequence) else (sizes,)
    x, y, z = (*given, 1, 1)[:3] if len(given) <= len("xyz") else given
    return x, y, z


@dataclass(frozen=True)
class Owner:
    """The block and the thread, in CUDA's order (x, y), that write one element of the result.

    ``block`` has a z too where the grid is deeper than 1. ``thread`` is None where only the kernel's own file says
    which thread of the block it is.
    """

    block: tuple[int, ...]
    thread: tuple[int, int] | None


Sizes = int | Sequence[int]
WrittenSizes = int | str | Sequence[int | str]  # texts are arithmetic, such as "ceil(n/32)"


@dataclass(frozen=True)
class Step:
    """One of several launches that are timed together.

    Its fields are those of a kernel (warpwatch/catalogue/variants.py). ``block``: () for the configuration's.
    ``stream``: a name of its own for each stream beside the case's, which is empty; steps of one stream run in order.
    ``after``: entries of earlier steps, on whatever stream, that must have ended. ``programmatic``: programmatic
    dependent launch: the kernel may begin before that of the step before it has ended, and waits for it by
    cudaGridDependencySynchronize().
    """

    entry: str
    _: KW_ONLY
    grid: WrittenSizes | Callable[..., WrittenSizes]
    block: WrittenSizes | Callable[..., WrittenSizes] = ()
    shared_bytes: int | str | Callable[..., int | str] = 0
    cluster: WrittenSizes | Callable[..., WrittenSizes] = 1
    arguments: str | Callable[..., tuple[object, ...]] = ""
    cooperative: bool = False
    stream: str = ""
    after: str | tuple[str, ...] = ()
    programmatic: bool = False

    @property
    def awaited(self) -> tuple[str, ...]:
        return (self.after,) if isinstance(self.after, str) else self.after


def blocks(elements: Sizes, each: Sizes) -> tuple[int, ...]:
    """Return how many blocks cover so many elements, along each axis, where a block covers ``each`` of them."""
    many, few = three(elements), three(each)
    return tuple(-(-size // covered) for size, covered in zip(many, few, strict=True))
