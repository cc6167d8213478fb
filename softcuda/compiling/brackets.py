"""Brackets and strings of C++, and edits of its text."""

from __future__ import annotations

import re
from collections.abc import Iterable

STRING = r"(?:\"(?:\\.|[^\"\\\n])*\"|(?<![\w'])(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')"
BRACKETS = re.compile(rf"^[ \t]*#[^\n]*|{STRING}|[(){{}};]", re.MULTILINE)
PAIRS = {"(": ")", "<": ">"}
Edit = tuple[int, int, str]  # where a text begins and ends, and what is to stand there
SYSTEM = "3"  # the flag of a line marker for a header of the system's


def end_of(text: str, first: int, last: int) -> int | None:
    """Return the place behind the semicolon or the bracket that ends what begins at a place; None if none does."""
    depth = 0
    for match in BRACKETS.finditer(text, first, last):
        depth += (match[0] in "({") - (match[0] in ")}") if match[0] in "(){}" else 0
        if not depth and match[0] in (";", "}"):
            return match.end()
    return None


def closing(text: str, position: int) -> int:
    """Return where the round bracket closes that is open at ``position``."""
    depth = 1
    for match in re.compile(rf"{STRING}|[()]").finditer(text, position):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if not depth:
            return match.start()
    return len(text)


def edited(text: str, edits: Iterable[Edit], begin: int = 0) -> str:
    """Return the text from a place on with other words between some places, what is inserted at a place first.

    An edit within another one is left out.
    """
    out = []
    for start, stop, instead in sorted(edits, key=lambda edit: (edit[0], edit[1] != edit[0], -edit[1])):
        if start >= begin:
            out += [text[begin:start], instead]
            begin = stop
    return "".join([*out, text[begin:]])


def opening(text: str, place: int, begin: int, brackets: str) -> int:
    """Return where the bracket opens that closes at a place; ``begin`` if it does not."""
    depth = 0
    while place > begin and text[place] not in "{};":
        depth += (text[place] in "".join(PAIRS[each] for each in brackets)) - (text[place] in brackets)
        if not depth:
            return place
        place -= 1
    return begin


def split(text: str, separator: str, brackets: str = "()[]{}") -> list[str]:
    """Split at separators that are in no bracket and no string."""
    parts, depth, begin = [], 0, 0
    for match in re.finditer(rf"{STRING}|[{re.escape(brackets + separator)}]", text):
        depth += (match[0] in brackets[::2]) - (match[0] in brackets[1::2])
        if match[0] == separator and not depth:
            parts.append(text[begin : match.start()])
            begin = match.end()
    return [*parts, text[begin:]]
