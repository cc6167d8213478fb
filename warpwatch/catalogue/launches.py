"""Describes a launch: its grid and block, the work that it does, the compute capability that it needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass

Three = tuple[int, int, int]


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
    found = re.fullmatch(r"sm_(\d+)(\d)[a-z]?", arch)
    return Capability(int(found[1]), int(found[2])) if found else None


@dataclass(frozen=True)
class Work:
    """The least work of a case: arithmetic operations, and bytes if each is moved once."""

    operations: int
    bytes: int


@dataclass(frozen=True)
class Launch:
    """Grid and block in CUDA's order (x, y, z), the dynamic shared memory of a block in bytes, and blocks of a cluster.

    A number or a shorter tuple is filled up with ones: ``Launch(grid=m, block=256)``. A block of () is that of the
    case's configuration.
    """

    grid: Three
    block: Three = ()  # type: ignore[assignment]
    shared_bytes: int = 0
    cluster: Three = (1, 1, 1)

    def __init__(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int] = (),
        shared_bytes: int = 0,
        cluster: int | Sequence[int] = 1,
    ) -> None:
        for name, value in (("grid", grid), ("block", block), ("cluster", cluster)):
            object.__setattr__(self, name, value if value == () else _three(value))
        object.__setattr__(self, "shared_bytes", shared_bytes)


def _three(sizes: int | Sequence[int]) -> tuple[int, ...]:
    given = tuple(sizes) if isinstance(sizes, Sequence) else (sizes,)
    return (*given, *(1,) * (3 - len(given)))


@dataclass(frozen=True)
class Owner:
    """The block and the thread, in CUDA's order (x, y), that write one element of the result.

    ``block`` has a z too where the grid is deeper than 1. ``thread`` is None where only the kernel's own file says
    which thread of the block it is.
    """

    block: tuple[int, ...]
    thread: tuple[int, int] | None


@dataclass(frozen=True)
class Step:
    """One of several launches that are timed together.

    ``entry``, ``launch`` and ``arguments`` are those of a kernel (warpwatch/catalogue/variants.py).
    """

    entry: str
    _: KW_ONLY
    launch: Callable[..., Launch]
    arguments: str | Callable[..., tuple[object, ...]] = ""
