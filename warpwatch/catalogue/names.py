"""Reads and writes the names and sizes in case ids, and reports ids that cannot be read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

LONGEST_ID = 200  # characters of a case id; Python reads no number of more than 4,300 digits
_T = TypeVar("_T")


class BadCase(ValueError):
    """An invalid case: an unknown name, a bad size, or a type that the variant does not have."""


def size_name(sizes: Sequence[int]) -> str:
    """Write sizes as text: (16, 16) -> '16x16'."""
    return "x".join(map(str, sizes))


def read_sizes(text: str, what: str, case_id: str) -> tuple[int, ...]:
    """Read sizes: '16x16' -> (16, 16). Raises BadCase, which calls the text ``what``."""
    if not re.fullmatch(r"-?[0-9]+(x-?[0-9]+)*", text):  # int() takes other alphabets' digits and 1_000 too
        raise BadCase(f"{case_id}: {what} {text!r} is not of the form 16x16")
    return tuple(int(part) for part in text.split("x"))


def split_id(case_id: str) -> tuple[str, str, str, str, str]:
    """Split a case id into family, variant, block, shape and element type. Raises BadCase."""
    if len(case_id) > LONGEST_ID:
        raise BadCase(f"{case_id[:60]!r}... is not a case id: it has {len(case_id):,} characters")
    parts = re.fullmatch(r"(\w+)-(\w+)-(\w+)-([-\w]+)-(\w+)", case_id, re.ASCII)
    if not parts:
        raise BadCase(f"{case_id!r} is not a case id: <family>-<variant>-<block>-<shape>-<dtype>")
    family, variant, block, shape, dtype = parts.groups()
    return family, variant, block, shape, dtype


def pick(name: str, known: Mapping[str, _T], kind: str) -> _T:
    """Return the value of that name. Raises BadCase, which suggests the nearest name."""
    if name in known:
        return known[name]
    raise BadCase(f"no {kind} is named {name!r}; {suggestion(name, known)}")


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean softmax?`` for a misspelt name, or ``there are: ...`` where none of ``known`` is near."""
    import difflib  # noqa: PLC0415  # takes milliseconds

    listed = [*known]
    near = difflib.get_close_matches(name, listed, n=1)
    return f"did you mean {near[0]}?" if near else f"there are: {', '.join(listed)}"


def unknown_word(expression: str, case_ids: Iterable[str]) -> str:
    """Return ``; no case has 'softmx' in its id: did you mean softmax?`` of an expression of ``-k``, or an empty text.

    Only the first word that occurs in none of the ids is named, and only where a part of an id is near.
    """
    parts = {part for case_id in case_ids for part in (*case_id.split("-"), case_id)}
    for word in re.findall(r"[\w-]+", expression.lower()):
        if word not in ("and", "or", "not") and not any(word in part.lower() for part in parts):
            answer = suggestion(word, sorted(parts))
            return f"; no case has {word!r} in its id: {answer}" if answer.startswith("did") else ""
    return ""


def print_short(named: object, printer: Any, cycle: bool) -> None:
    """Print an object by its ``repr``, as its ``_repr_pretty_``: Hypothesis and IPython would print every field."""
    printer.text(repr(named))
