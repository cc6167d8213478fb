"""Reads the arguments of a kernel as a declaration writes them: ``"y x m n:int64 eps:float32=1e-5 x.size"``."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from warpwatch.catalogue.arrays import Shape
from warpwatch.catalogue.elements import numpy_type

WORD = re.compile(r"(?P<name>[A-Za-z_]\w*)(?P<size>\.size)?(:(?P<type>\w+))?(=(?P<value>\S+))?", re.ASCII)


class BadArguments(ValueError):
    """Arguments that cannot be read, or name what is not there; the message says which word."""


def fill(
    words: Sequence[str],
    *,
    addresses: Mapping[str, int],
    shapes: Mapping[str, Shape],
    sizes: Mapping[str, int],
    scalars: Mapping[str, tuple[str, float]],
) -> tuple[np.generic, ...]:
    """Return the arguments as NumPy scalars. Raises BadArguments.

    A word is a pointer (``y``), a size (``m``, ``m:int64``), the elements of an array (``x.size``), a scalar (``eps``)
    or a constant (``eps:float32=1e-5``).

    ``addresses``, ``shapes``: of arrays by name. ``sizes``: of the case's shape. ``scalars``: type and value by name.
    """

    def value(word: re.Match[str]) -> np.generic:
        name, dtype = word["name"], word["type"] or "int32"
        if word["value"]:
            return _scalar(name, dtype, word["value"])
        if word["size"]:
            if name not in shapes:
                raise BadArguments(f"{name}.size is of no array; there are {', '.join(shapes)}")
            return _scalar(name, dtype, prod(shapes[name]))
        if name in shapes:
            return np.uint64(addresses[name])
        if name in sizes:
            return _scalar(name, dtype, sizes[name])
        if name in scalars:
            return _scalar(name, *scalars[name])
        known = ", ".join((*shapes, *sizes, *scalars))
        raise BadArguments(f"{name} is neither an array nor a size nor a scalar; there are {known}")

    read = [_read(word) for word in words]
    return tuple(map(value, read))


@functools.cache
def _read(word: str) -> re.Match[str]:
    match = WORD.fullmatch(word)
    if not match or (match["value"] and not match["type"]):
        raise BadArguments(f"{word!r} is not an argument: write x, m, m:int64, x.size or eps:float32=1e-5")
    return match


def _scalar(name: str, dtype: str, value: float | str) -> np.generic:
    try:
        kind = numpy_type(dtype)
        number = int(value) if kind.kind in "iub" else float(value)
        if kind.kind in "iu" and not np.iinfo(kind).min <= number <= np.iinfo(kind).max:
            raise BadArguments(f"{name} = {value} does not fit into {dtype}: write {name}:int64")
        with np.errstate(over="ignore"):
            scalar = np.array([number]).astype(kind)[0]
        if np.isfinite(number) and not np.isfinite(scalar):
            raise BadArguments(f"{name} = {value} does not fit into {dtype}")
        return scalar  # type: ignore[no-any-return]
    except BadArguments:
        raise
    except (TypeError, AttributeError):
        raise BadArguments(f"{name} has the type {dtype!r}, which does not exist: write int32, float32") from None
    except ValueError:
        raise BadArguments(f"{name} = {value!r} is not a valid {dtype}") from None
