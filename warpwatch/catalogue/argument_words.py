"""Reads the arguments of a kernel as a declaration writes them: ``"y x m n:int64 eps:float32=1e-5 ceil(n/32)"``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from warpwatch.catalogue.arrays import Shape
from warpwatch.catalogue.elements import numpy_type
from warpwatch.catalogue.expressions import BadExpression, evaluate, names_of

NAMED = re.compile(r"(?P<name>[A-Za-z_]\w*)(?P<size>\.size)?(:(?P<type>\w+))?(=(?P<value>\S+))?", re.ASCII)
EXPRESSION = re.compile(r"(?P<text>.+?)(:(?P<type>\w+))?", re.ASCII)
WORD = re.compile(r"(?:\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|\S)+")  # blanks in parentheses do not end one
CONSTANTS = {"null": np.uint64(0), "true": np.bool_(True), "false": np.bool_(False)}
CURE = "write x, m, m:int64, x.size, ceil(m/32), null or eps:float32=1e-5"
Known = Mapping[str, Any]


class BadArguments(ValueError):
    """Arguments that cannot be read, or name what is not there; the message says which word."""


def words_in(text: str) -> list[str]:
    """Split a text at the blanks that are in no parentheses."""
    return WORD.findall(text)


def fill(
    words: Sequence[str],
    *,
    addresses: Mapping[str, int],
    shapes: Mapping[str, Shape],
    sizes: Mapping[str, int],
    scalars: Mapping[str, tuple[str, float]],
    macros: Mapping[str, int] | None = None,
) -> tuple[np.generic, ...]:
    """Return the arguments as NumPy scalars. Raises BadArguments.

    A word is a pointer (``y``, ``null``), ``true`` or ``false``, a size (``m``, ``m:int64``), the elements of an array
    (``x.size``), a scalar (``eps``), a constant (``eps:float32=1e-5``) or arithmetic (``1/sqrt(m):float32``).
    ``addresses``, ``shapes``: of arrays by name. ``sizes``: of the case's shape. ``scalars``: type and value by name.
    ``macros``: those that are whole numbers.
    """
    numbers = {**(macros or {}), **{name: value for name, (_, value) in scalars.items()}, **sizes}
    numbers |= {f"{name}.size": prod(shape) for name, shape in shapes.items()}
    known = ", ".join((*shapes, *sizes, *scalars))

    def value(word: str) -> np.generic:
        match = NAMED.fullmatch(word)
        if not match:
            return _computed(word, numbers, shapes)
        if match["value"]:
            return _constant(match)
        name, full = match["name"], match["name"] + (match["size"] or "")
        if full in shapes:
            return np.uint64(addresses[name])
        if full in scalars:
            return _scalar(name, *scalars[name])
        if full in numbers:
            return _scalar(name, match["type"] or "int32", numbers[full])
        if full in CONSTANTS:
            return CONSTANTS[full]
        if match["size"]:
            raise BadArguments(f"{full} is of no array; there are {', '.join(shapes)}")
        raise BadArguments(f"{name} is neither an array nor a size nor a scalar; there are {known}")

    return tuple(map(value, words))


def _constant(match: re.Match[str]) -> np.generic:
    """Return the value of an argument such as ``eps:float32=1e-5``."""
    if not match["type"]:
        raise BadArguments(f"{match[0]!r} is not an argument: {CURE}")
    return _scalar(match["name"], match["type"], match["value"])


def whole(text: str, numbers: Known) -> int:
    """Return the value of a text such as ``ceil(n/32)``, which is a whole number. Raises BadArguments."""
    try:
        value = evaluate(text, numbers)
    except BadExpression as error:
        raise BadArguments(str(error)) from None
    if isinstance(value, int | float) and float(value).is_integer():
        return int(value)
    raise BadArguments(f"{text} is {_shown(value)}{_where(text, numbers)}: {_cure(text, value)}")


def _computed(word: str, numbers: Known, shapes: Mapping[str, Shape]) -> np.generic:
    """Return the value of an argument that is arithmetic."""
    match = EXPRESSION.fullmatch(word)
    text, dtype = (match["text"], match["type"]) if match else (word, None)
    try:
        if "," in re.sub(r"\(.*\)", "", text):
            raise BadExpression("blanks separate arguments")
        if array := next((name for name in names_of(text) if name in shapes and f"{name}." not in text), None):
            raise BadArguments(f"{word}: {array} is an array, not a number: give it alone, or let a function add")
        value = evaluate(text, numbers)
    except BadExpression as error:
        raise BadArguments(f"{word!r} is not an argument ({error}): {CURE}") from None
    if not isinstance(value, int | float):
        raise BadArguments(f"{word!r} is not a number: {CURE}")
    if float(value).is_integer():
        value = int(value)
    elif _is_whole(dtype or "int32"):
        raise BadArguments(f"{text} is {_shown(value)}{_where(text, numbers)}: {_cure(text, value)} or {text}:float32")
    return _scalar(text, dtype or "int32", value)


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else repr(value)


def _where(text: str, numbers: Known) -> str:
    """Say what the names in an expression are, such as ``(n = 5)``."""
    given = ", ".join(f"{name} = {numbers[name]}" for name in sorted(names_of(text)) if name in numbers)
    return f" ({given})" if given else ""


def _cure(text: str, value: object) -> str:
    whole = f"ceil({text})" if isinstance(value, float) else "whole numbers"
    return f"a whole number is due: write {whole}"


def _is_whole(dtype: str) -> bool:
    try:
        return numpy_type(dtype).kind in "iub"
    except (TypeError, AttributeError):
        return False  # ``_scalar`` says that there is no such type


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
