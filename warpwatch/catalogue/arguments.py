"""Reads the arguments of a kernel as a declaration writes them: ``"y x m n:int64 eps:float32=1e-5 x.size"``."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from warpwatch.catalogue.arrays import CaseArray
from warpwatch.catalogue.elements import numpy_type

WORD = re.compile(r"(?P<name>[A-Za-z_]\w*)(?P<size>\.size)?(:(?P<type>\w+))?(=(?P<value>\S+))?", re.ASCII)


class BadArguments(ValueError):
    """Arguments that cannot be read, or name what is not there; the message says which word."""


@dataclass(frozen=True, kw_only=True)
class Word:
    """One word: a pointer (``y``), a size (``m``, ``m:int64``), the elements of an array (``x.size``) or a constant.

    ``value``: of a constant, as it is written.
    """

    name: str
    is_count: bool
    dtype: str
    value: str


@functools.cache
def read(text: str) -> tuple[Word, ...]:
    """Read the words of a text. Raises BadArguments."""
    words = []
    for part in text.split():
        found = WORD.fullmatch(part)
        if not found or (found["value"] and not found["type"]):
            raise BadArguments(f"{part!r} is no argument: write x, m, m:int64, x.size or eps:float32=1e-5")
        words.append(
            Word(
                name=found["name"],
                is_count=bool(found["size"]),
                dtype=found["type"] or "int32",
                value=found["value"] or "",
            )
        )
    return tuple(words)


@dataclass(frozen=True, kw_only=True)
class Known:
    """Holds what words may name: arrays with their addresses, sizes of the shape, and scalars with their types."""

    arrays: Mapping[str, CaseArray]
    addresses: Mapping[str, int]
    sizes: Mapping[str, int]
    scalars: Mapping[str, tuple[str, float]]


def fill(words: Sequence[Word], known: Known) -> tuple[np.generic, ...]:
    """Return the arguments as NumPy scalars. Raises BadArguments."""
    return tuple(_fill(word, known) for word in words)


def _fill(word: Word, known: Known) -> np.generic:
    arrays, sizes = known.arrays, known.sizes
    if word.value:
        return _scalar(word, word.value)
    if word.is_count:
        if word.name not in arrays:
            raise BadArguments(f"{word.name}.size is of no array; there are {', '.join(arrays)}")
        return _scalar(word, arrays[word.name].size)
    if word.name in arrays:
        return np.uint64(known.addresses[word.name])
    if word.name in sizes:
        return _scalar(word, sizes[word.name])
    if word.name in known.scalars:
        dtype, value = known.scalars[word.name]
        return _scalar(replace(word, dtype=dtype), value)
    there = ", ".join((*arrays, *sizes, *known.scalars))
    raise BadArguments(f"{word.name} is neither an array nor a size nor a scalar; there are {there}")


def _scalar(word: Word, value: float | str) -> np.generic:
    try:
        kind = numpy_type(word.dtype)
        number = int(value) if kind.kind in "iub" else float(value)
        if kind.kind in "iu" and not np.iinfo(kind).min <= number <= np.iinfo(kind).max:
            raise BadArguments(f"{word.name} = {value} does not fit into {word.dtype}: write {word.name}:int64")
        with np.errstate(over="ignore"):
            made = np.array([number]).astype(kind)[0]
        if np.isfinite(number) and not np.isfinite(made):
            raise BadArguments(f"{word.name} = {value} does not fit into {word.dtype}")
        return made  # type: ignore[no-any-return]
    except (TypeError, AttributeError):
        raise BadArguments(
            f"{word.name} has the type {word.dtype!r}, which there is not: write int32, float32"
        ) from None
    except ValueError as error:
        if isinstance(error, BadArguments):
            raise
        raise BadArguments(f"{word.name} = {value!r} is no {word.dtype}") from None
