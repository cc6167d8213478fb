"""Lets the checker know where a kernel or a function has parameters that are declared ``__restrict__``.

C++ says of such a pointer that nothing else changes what it leads to while the function runs: no other thread either.
A function tells the checker when it is left, with its lines, its pointers and their names; a kernel when it begins.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from declarations import name_of, split_top
from items import closing, edited

HEAD = re.compile(r"([^;{}()]*?)\b([A-Za-z_]\w*)\s*$")
NO_FUNCTION = {"if", "for", "while", "switch", "return", "sizeof", "decltype", "alignof", "catch"}
BODY = re.compile(r"(?:\s|^#.*$|\bconst\b|\bnoexcept\b|\boverride\b|\bfinal\b|->[\w\s:*&<>]+)*\{", re.MULTILINE)
BRACE = re.compile(r"^[ \t]*#[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'|[{}]", re.MULTILINE)
RESTRICTED = re.compile(r"\*\s*(?:const\s+)?__restrict\b\s*(?:const\s+)?\w+\s*(?:=.*)?$", re.DOTALL)


def watched(text: str, begin: int, place_of: Callable[[str, int], str], is_own: Callable[[str], str]) -> str:
    """Return the preprocessed text from ``begin`` on with such calls, on the same lines, and what is before it."""
    brackets = {
        at for match in re.finditer(r"\b__restrict\b", text[begin:]) if (at := _opened(text, begin + match.start()))
    }
    edits = [edit for at in brackets if (edit := _call(text, at, place_of, is_own))]
    return edited(text, edits)


def _opened(text: str, at: int) -> int:
    """Return where the round bracket opens that is open at a place; 0 where there is none in its declaration."""
    depth = 0
    while at > 0 and (text[at] not in ";{}" or depth):
        depth += (text[at] == ")") - (text[at] == "(")
        if depth < 0:
            return at
        at -= 1
    return 0


def _call(
    text: str, bracket: int, place_of: Callable[[str, int], str], is_own: Callable[[str], str]
) -> tuple[int, int, str] | None:
    """Return what is to be put into the body of the function whose parameters begin there; None if it is none."""
    head = HEAD.search(text, max(text.rfind(end, 0, bracket) for end in ";{}") + 1, bracket)
    body = BODY.match(text, closing(text, bracket + 1) + 1)
    if not head or head[2] in NO_FUNCTION or not body or "constexpr" in head[1]:
        return None
    parameters = [part for part in split_top(text[bracket + 1 : closing(text, bracket + 1)]) if "..." not in part]
    pointers = [part for part in parameters if name_of(part) and re.search(r"\*|\]\s*$", part)]
    names = [name_of(part) for part in pointers if RESTRICTED.search(part)]
    file, _, first = place_of(text, body.end()).rpartition(":")
    if not names or not is_own(file):
        return None
    last = int(first) + text.count("\n", body.end(), _end_of_body(text, body.end()))
    others = [name_of(part) for part in pointers if name_of(part) not in names]
    record = f'"{file}|{first}|{last}|{"|".join(names)}"'
    values = ", ".join(f"(const void*)({name})" for name in [*names, *others])
    count = len(names) + len(others)
    if "__global__" in head[1]:
        return body.end(), body.end(), f" softcuda_restricts({record});"
    return (
        body.end(),
        body.end(),
        f" const softcuda::Restricts<{count}> softcuda_restricts_here {{{record}, {values}}};",
    )


def _end_of_body(text: str, position: int) -> int:
    depth = 1
    for match in BRACE.finditer(text, position):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if not depth:
            return match.start()
    return len(text)
