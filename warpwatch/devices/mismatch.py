"""Compares a result with its reference and describes the differences for the kernel's developer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from warpwatch.catalogue.arrays import Array
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.elements import is_float, wide
from warpwatch.catalogue.expected import Expected
from warpwatch.catalogue.launches import Owner
from warpwatch.catalogue.threads import for_each
from warpwatch.devices.foreign_text import plain_lines
from warpwatch.devices.machine import poison_of

PIECE = 2**16  # elements that are compared at a time, so that they stay in the cache
PIECES_A_THREAD = 32


WORST = "  worst     "  # how the line on the worst element begins


@dataclass(frozen=True, kw_only=True)
class WrongElements:
    """Wrong elements of a result, for programs.

    ``wrong`` of ``total`` elements of ``array`` are wrong, and ``unwritten`` of them still hold poison. ``worst``:
    index of the one that is off by the most. There it holds ``got``; ``error`` is the difference from ``expected``, and
    ``allowed`` the largest that is right, both None where they are not finite. ``first``: index of the first one, which
    ``thread`` of ``block`` writes, as far as that is known.
    """

    array: str
    wrong: int
    total: int
    worst: tuple[int, ...]
    got: str
    expected: str
    first: tuple[int, ...]
    error: float | None = None
    allowed: float | None = None
    unwritten: int = 0
    block: tuple[int, ...] = ()
    thread: tuple[int, ...] = ()


class Description(str):
    """Description of a wrong result for people, with its elements for programs."""

    elements: WrongElements


class WrongResult(Exception):
    """A wrong result of a kernel; the message says where it is wrong. ``elements``: which, as far as that is known."""

    elements: tuple[WrongElements, ...] = ()

    @classmethod
    def of(cls, problems: Sequence[str]) -> Self:
        """Return the error of some descriptions."""
        error = cls("\n".join(problems))
        error.elements = tuple(each.elements for each in problems if isinstance(each, Description))
        return error

    @property
    def summary(self) -> str:
        """Number of wrong elements, and the worst one, in a line."""
        first, *others = str(self).splitlines()
        return "; ".join([first, *[line.strip() for line in others if line.startswith(WORST)][:1]])


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """The differences between a result and its reference. Indices are those of the result.

    ``wrong`` of ``total`` elements are outside their bound, and ``unwritten`` of them still hold poison. ``worst``:
    index of the element that exceeds its bound most. ``expected``, ``got``, ``error``, ``bound``: the values there,
    their difference, and the error allowed. ``first``: index of the first wrong element. ``indices``: for each axis, at
    most 9 of the indices that occur. ``spans``: for each axis, how many indices occur, the lowest and the highest.
    """

    wrong: int
    total: int
    worst: tuple[int, ...]
    expected: object
    got: object
    error: float
    bound: float
    first: tuple[int, ...]
    unwritten: int
    indices: tuple[tuple[int, ...], ...]
    spans: tuple[tuple[int, int, int], ...]


def compare(
    got: Array, expected: Array, bound: Array | float, rows: Array | None = None, special: bool = False
) -> Mismatch | None:
    """Compare with the reference; return None where every element lies within its bound, which NaN never does.

    Of bool the bytes are compared: one that is neither 0 nor 1 is wrong, although NumPy takes it for true.
    ``rows``: the numbers of these rows in the whole result, where it was not read whole. ``special``: where the
    reference is infinite or NaN, the result must be the same, but not the NaN that poison is.
    """
    if got.shape != expected.shape:
        raise ValueError(f"got shape {got.shape}, expected {expected.shape}")
    if got.dtype.kind == "b":
        got, expected = got.view(np.uint8), expected.view(np.uint8)
    if _right(got, expected, bound):
        return None
    if is_float(got.dtype):
        with np.errstate(invalid="ignore"):
            error = np.abs(got.astype(wide(got.dtype)) - expected)
        wrong = ~(error <= bound)
        if special:
            same = (got == expected) | (np.isnan(got) & np.isnan(expected) & ~(_holds_poison(got) & (got.itemsize > 1)))
            wrong = np.where(np.isfinite(expected), wrong, ~same)
            if not wrong.any():
                return None
    else:
        error = wrong = got != expected
        if (kind := got.dtype.kind) in "iu":
            # The difference of two numbers of 64 bits fits into an unsigned one, whatever their signs are.
            high, low = (pick(got, expected).astype(f"{kind}8").view(np.uint64) for pick in (np.maximum, np.minimum))
            error = high - low
    return _describe(got, expected, np.broadcast_to(bound, got.shape), error.astype(np.float64), wrong, rows)


class RightElsewhere(dict[str, Expected]):
    """Right results that another process holds, by name: it compares, and they do not come here."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(dict.fromkeys(names))  # type: ignore[arg-type]  # whoever wants them here is told by an error

    def compare(self, results: Mapping[str, Array], rows: Array | None) -> dict[str, Mismatch]:
        """Compare results as ``compare_all`` does."""
        raise NotImplementedError

    def nothing_shown(self) -> str:
        """Say as ``evaluate.nothing_shown`` does that a kernel which writes nothing would be right."""
        raise NotImplementedError


def compare_all(
    results: Mapping[str, Array],
    right: Mapping[str, Expected],
    rows: Array | None = None,
    special: bool = False,
) -> dict[str, Mismatch]:
    """Compare results by name, as ``compare`` does, and return the differences of those that are wrong."""
    if isinstance(right, RightElsewhere):
        return right.compare(results, rows)
    mismatches = {
        name: compare(results[name], value.reference, value.bound, rows, special) for name, value in right.items()
    }
    return {name: mismatch for name, mismatch in mismatches.items() if mismatch}


def _right(got: Array, expected: Array, bound: Array | float) -> bool:
    """Return whether every element lies within its bound. In pieces that stay in the cache it is five times as fast."""
    bounds = np.broadcast_to(bound, got.shape)
    step = max(1, PIECE * len(got) // max(1, got.size))

    def is_right(first: int) -> bool:
        starts = range(first, min(first + PIECES_A_THREAD * step, len(got)), step)
        pieces = (slice(start, start + step) for start in starts)
        return all(_is_right(got[piece], expected[piece], bounds[piece]) for piece in pieces)

    return all(for_each(is_right, range(0, len(got), PIECES_A_THREAD * step)))


def _is_right(got: Array, expected: Array, bound: Array) -> bool:
    if not is_float(got.dtype):
        return bool((got == expected).all())
    with np.errstate(invalid="ignore"):
        error = np.abs(np.subtract(got.astype(wide(got.dtype), copy=False), expected))
    return bool((error <= bound).all())


def _describe(got: Array, expected: Array, bound: Array, error: Array, wrong: Array, rows: Array | None) -> Mismatch:
    with np.errstate(divide="ignore", invalid="ignore"):
        severity = np.where(wrong, np.nan_to_num(error, nan=np.inf) - bound, -np.inf)
    worst = tuple(map(int, np.unravel_index(int(np.argmax(severity)), got.shape)))
    indices = np.nonzero(wrong)
    named = indices if rows is None else (rows[indices[0]], *indices[1:])
    unwritten = int(np.count_nonzero(_holds_poison(got) & wrong)) if got.dtype.kind != "U" else 0
    axes = [np.unique(axis) for axis in named]
    return Mismatch(
        wrong=int(np.count_nonzero(wrong)),
        total=got.size,
        worst=worst if rows is None else (int(rows[worst[0]]), *worst[1:]),
        expected=expected[worst],
        got=got[worst],
        error=float(error[worst]),
        bound=float(bound[worst]),
        first=tuple(int(axis[0]) for axis in named),
        unwritten=unwritten,
        indices=tuple(tuple(int(i) for i in axis[:9]) for axis in axes),
        spans=tuple((axis.size, int(axis[0]), int(axis[-1])) for axis in axes),
    )


def _holds_poison(got: Array) -> Array:
    """Say of each element whether it still is poison: its own, or that of the software device's fresh memory."""
    itemsize, holds = got.dtype.itemsize, np.zeros(got.shape, bool)
    elements = np.ascontiguousarray(got).view(np.uint8).reshape(*got.shape, itemsize)
    for word in (poison_of(itemsize), poison_of(itemsize, second=True), poison_of(4)):
        for pattern in np.resize(np.array([word], np.uint32).view(np.uint8), max(4, itemsize)).reshape(-1, itemsize):
            holds |= (elements == pattern).all(axis=-1)
    return holds


def explain(
    case: Case, name: str, mismatch: Mismatch, command: str, offset: int = 0, notes: Sequence[str] = ()
) -> Description:
    """Describe a mismatch: the worst element, how many are wrong, their indices, their thread, and a command.

    ``name``: of the result. ``command`` runs the case again. ``offset``: elements that the result started past the
    alignment of an allocation. ``notes``: more lines, such as likely causes.
    """
    worst = ", ".join(map(str, mismatch.worst))
    of_result = f" of {name}" if len(case.results) > 1 else ""
    lines = [
        f"{case.id} is wrong in {mismatch.wrong:,} of {mismatch.total:,} elements{of_result}",
        f"{WORST}{name}[{worst}] {_values(case, name, mismatch)}",
    ]
    if mismatch.unwritten:
        lines.append(f"  unwritten {mismatch.unwritten:,} of them still hold the poison: no thread wrote them")
    names = ("rows", "columns") if len(mismatch.indices) <= 2 else [f"axis {i}" for i in range(len(mismatch.indices))]
    for axis, indices, span in zip(names, mismatch.indices, mismatch.spans, strict=False):
        lines.append(f"  {axis:<9} {_list(indices, *span)}")
    owner = case.owner(mismatch.first, offset) if case.results and name == case.results[0].name else None
    if owner:
        first = ", ".join(map(str, mismatch.first))
        who = f"thread {owner.thread} of block {owner.block}" if owner.thread else f"block {owner.block}"
        axes, (x, y) = "x, y" if len(owner.block) == 2 else "x, y, z", case.build.block_xy
        blocks = f"{axes}; blocks of {x}x{y}, grid {case.launch.grid}"
        lines.append(f"  first     [{first}], written by {who} ({blocks})")
    lines += [*(f"  {note}" for note in notes), f"  again     {command}"]
    description = Description("\n".join(lines))
    description.elements = _elements(name, mismatch, owner)
    return description


def _elements(name: str, mismatch: Mismatch, owner: Owner | None) -> WrongElements:
    got, expected = (" ".join(plain_lines(_value(each)).split()) for each in (mismatch.got, mismatch.expected))
    return WrongElements(
        array=name,
        wrong=mismatch.wrong,
        total=mismatch.total,
        worst=mismatch.worst,
        got=got,
        expected=expected,
        error=mismatch.error if np.isfinite(mismatch.error) else None,
        allowed=mismatch.bound if np.isfinite(mismatch.bound) else None,
        first=mismatch.first,
        unwritten=mismatch.unwritten,
        block=tuple(owner.block) if owner else (),
        thread=tuple(owner.thread or ()) if owner else (),
    )


def _values(case: Case, name: str, mismatch: Mismatch) -> str:
    if any(array.name == name and array.dtype == "bool" for array in case.results):
        byte, right = int(mismatch.got), bool(mismatch.expected)  # type: ignore[call-overload]
        return (
            f"holds {byte}, which is neither true nor false, expected {right}"
            if byte > 1
            else (f"= {bool(byte)}, expected {right}")
        )
    return (
        f"= {_value(mismatch.got)}, expected {_value(mismatch.expected)}, "
        f"off by {mismatch.error:.3g}, allowed {mismatch.bound:.3g}"
    )


def _value(value: object) -> str:
    return f"{value:.9g}" if isinstance(value, np.floating) else str(value)


def _list(indices: tuple[int, ...], count: int, low: int, high: int) -> str:
    if count <= len(indices):
        return ", ".join(map(str, indices))
    if count == high - low + 1:
        return f"{low} to {high}, all of them"
    return f"{count:,} between {low} and {high}: {', '.join(map(str, indices))}, ..."
