"""Reads the arguments of a kernel as a declaration writes them: ``"y x m n:int64 eps:float32=1e-5 x.size"``."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from warpwatch.catalogue.arrays import Shape
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
        match = WORD.fullmatch(part)
        if not match or (match["value"] and not match["type"]):
            raise BadArguments(f"{part!r} is not an argument: write x, m, m:int64, x.size or eps:float32=1e-5")
        dtype, value = match["type"] or "int32", match["value"] or ""
        words.append(Word(name=match["name"], is_count=bool(match["size"]), dtype=dtype, value=value))
    return tuple(words)


def fill(
    words: Sequence[Word],
    *,
    addresses: Mapping[str, int],
    shapes: Mapping[str, Shape],
    sizes: Mapping[str, int],
    scalars: Mapping[str, tuple[str, float]],
) -> tuple[np.generic, ...]:
    """Return the arguments as NumPy scalars. Raises BadArguments.

    ``addresses``, ``shapes``: of arrays by name. ``sizes``: of the case's shape. ``scalars``: type and value by name.
    """

    def value(word: Word) -> np.generic:
        match word:
            case Word(value=constant) if constant:
                return _scalar(word, constant)
            case Word(name=name, is_count=True):
                if name not in shapes:
                    raise BadArguments(f"{name}.size is of no array; there are {', '.join(shapes)}")
                return _scalar(word, prod(shapes[name]))
            case Word(name=name) if name in shapes:
                return np.uint64(addresses[name])
            case Word(name=name) if name in sizes:
                return _scalar(word, sizes[name])
            case Word(name=name) if name in scalars:
                dtype, number = scalars[name]
                return _scalar(replace(word, dtype=dtype), number)
        known = ", ".join((*shapes, *sizes, *scalars))
        raise BadArguments(f"{word.name} is neither an array nor a size nor a scalar; there are {known}")

    return tuple(map(value, words))


def _scalar(word: Word, value: float | str) -> np.generic:
    try:
        kind = numpy_type(word.dtype)
        number = int(value) if kind.kind in "iub" else float(value)
        if kind.kind in "iu" and not np.iinfo(kind).min <= number <= np.iinfo(kind).max:
            raise BadArguments(f"{word.name} = {value} does not fit into {word.dtype}: write {word.name}:int64")
        with np.errstate(over="ignore"):
            scalar = np.array([number]).astype(kind)[0]
        if np.isfinite(number) and not np.isfinite(scalar):
            raise BadArguments(f"{word.name} = {value} does not fit into {word.dtype}")
        return scalar  # type: ignore[no-any-return]
    except (TypeError, AttributeError):
        unknown = f"{word.name} has the type {word.dtype!r}, which does not exist: write int32, float32"
        raise BadArguments(unknown) from None
    except ValueError as error:
        if isinstance(error, BadArguments):
            raise
        raise BadArguments(f"{word.name} = {value!r} is not a valid {word.dtype}") from None
