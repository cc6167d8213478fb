"""Describes the arrays of a kernel: what it reads, writes, changes in place, or needs as scratch memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwatch.catalogue.elements import C_TYPES, NONE, numpy_type

Shape = tuple[int, ...]
Array = npt.NDArray[Any]
Part = Array | slice  # rows of a result, along its first axis
ALL_ROWS = slice(None)
Initial = float | bool | Callable[..., Any]


class Role(Enum):
    """Use that a kernel makes of an array."""

    IN = "in"
    OUT = "out"
    IN_OUT = "in-out"
    SCRATCH = "scratch"


@dataclass(frozen=True)
class DeclaredArray:
    """An array as a family declares it, by In, Out, InOut or Scratch.

    ``shape``: None where a family's ``draw`` gives it. ``dtype``: empty where it is the case's. ``initial``: the value
    of every element before each launch, or of scratch memory a function that returns all of them; None where the
    kernel writes every element. ``aligned``: bytes that its address
    must be a multiple of; 0 where the alignment of an element is enough. ``low``, ``high``: the range that elements are
    drawn from, without ``high`` itself; None for the usual one. ``special``: tests draw infinities and NaN too.
    """

    role: Role
    shape: Shape | None
    dtype: str = ""
    initial: Initial | None = None
    aligned: int = 0
    low: float | None = None
    high: float | None = None
    special: bool = False

    @property
    def is_input(self) -> bool:
        """True where it is drawn and uploaded."""
        return self.role in (Role.IN, Role.IN_OUT)

    @property
    def is_result(self) -> bool:
        """True where it is compared after a launch."""
        return self.role in (Role.OUT, Role.IN_OUT)


def _shape(given: int | Sequence[int] | None) -> Shape | None:
    if given is None:
        return None
    return (given,) if isinstance(given, int | np.integer) else tuple(given)


def In(  # noqa: N802
    shape: int | Sequence[int] | None,
    dtype: str = "",
    *,
    aligned: int = 0,
    low: float | None = None,
    high: float | None = None,
    special: bool = False,
) -> DeclaredArray:
    """Declare an array that the kernel reads.

    ``shape``: None where the family's ``draw`` gives it. ``low``, ``high``: elements are drawn from low to below high.
    Left out, benchmarks draw them from -1 to 1, or all integers of the type, and tests draw others besides: large ones,
    negative ones, zeros. ``special``: infinities and NaN too.
    """
    return DeclaredArray(Role.IN, _shape(shape), dtype, aligned=aligned, low=low, high=high, special=special)


def Out(  # noqa: N802
    shape: int | Sequence[int], dtype: str = "", *, initial: float | bool | None = None, aligned: int = 0
) -> DeclaredArray:
    """Declare an array that the kernel writes. ``initial``: the value of every element before each launch."""
    return DeclaredArray(Role.OUT, _shape(shape), dtype, initial, aligned)


def InOut(  # noqa: N802
    shape: int | Sequence[int] | None,
    dtype: str = "",
    *,
    aligned: int = 0,
    low: float | None = None,
    high: float | None = None,
    special: bool = False,
) -> DeclaredArray:
    """Declare an array that the kernel changes in place. Before each launch it gets its first values again.

    The rest is as for In.
    """
    return DeclaredArray(Role.IN_OUT, _shape(shape), dtype, aligned=aligned, low=low, high=high, special=special)


def Scratch(  # noqa: N802
    shape: int | Sequence[int], dtype: str = "", *, initial: Initial | None = None, aligned: int = 0
) -> DeclaredArray:
    """Declare an array for intermediate values, which nobody reads after the last launch.

    ``initial``: the value of every element before each launch, such as 0 of a counter, or a function of sizes that
    returns all of them. Left out, the array holds poison.
    """
    return DeclaredArray(Role.SCRATCH, _shape(shape), dtype, initial, aligned)


@dataclass(frozen=True)
class Scalar:
    """A number that a kernel takes and the reference may ask for by name. ``dtype``: empty where it is the case's."""

    value: float
    dtype: str = ""

    def rounded(self, dtype: str) -> float:
        """Return the number as a kernel gets it, in its type or ``dtype``; as it is where no such type is known."""
        name = self.dtype or dtype
        if name not in C_TYPES or name == NONE or not isinstance(self.value, int | float):
            return self.value  # a rule of the declaration says what is wrong
        with np.errstate(over="ignore"):
            return np.array([self.value]).astype(numpy_type(name)).tolist()[0]  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class CaseArray(DeclaredArray):
    """An array of one case, whose name, shape and element type are known.

    ``is_drawn``: its shape is that of the inputs that benchmarks time, and other inputs may have another.
    """

    name: str
    shape: Shape
    is_drawn: bool = False

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * numpy_type(self.dtype).itemsize

    @property
    def moved_bytes(self) -> int:
        """Bytes that at least move between memory and chip: each array once, those that are changed in place twice."""
        return self.nbytes * (self.is_input + self.is_result)
