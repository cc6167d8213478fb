"""Facts that a terminal shows of cases, and whether the document for programs has them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

NUMBER = re.compile(r"[+-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
TABLE = re.compile(r"^(?P<case>\w+-\w+-[\w-]+) +(?P<figures>[\d.,]+ .*)$")
# Words between figures, which say what the keys of the document say.
WORDS = frozenset("median floor process processes µs % -> mJ a launch energy host time turn by to".split())  # noqa: SIM905
# What is a flag or another word in the document.
FLAGS: dict[str, tuple[str, object]] = {"probably slower (of those": ("suspect", True)}
for quantity in ("energy", "host time"):
    FLAGS |= {f"more {quantity}": ("verdict", "slower"), f"less {quantity}": ("verdict", "faster")}
    FLAGS |= {f"unsure {quantity}": ("verdict", "unsure")}
SECTION = re.compile(r"^(=+|-+) .* (=+|-+)$|^[=-]{20,}$|^Legend:")
FAILURE = re.compile(r"^_+ (?P<title>\S.*\S) _+$")


def lines_of(printed: str, cases: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the lines that are about a case, with its id: those that name it, and what is indented or failed below."""
    case, failing = "", False
    for line in printed.splitlines():
        named = next((name for name in sorted(cases, key=len, reverse=True) if name in line), "")
        if title := FAILURE.match(line):
            case, failing = named, True
            assert named or not re.search(r"\[.*-.*\]", title["title"]), f"no case: {line}"
            continue
        if SECTION.match(line):
            case, failing = "", False
        elif named and not failing:
            case = named
        elif not failing and not line.startswith("  "):
            case = ""
        if case and line.strip() and not line.startswith(("FAILED ", "ERROR ", "SKIPPED ", "next: ", "[gw")):
            yield case, line.strip()


def strings(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)


def figures(value: Any) -> Iterator[str]:
    """Yield every number in a JSON value in all the ways in which a terminal may show it."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from figures(each)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield f"{value:,}"
        for scale, digits in ((1e6, 1), (1e6, 2), (1e6, 4), (1e2, 1), (1e3, 1), (1e3, 2), (1e3, 3), (1, 1)):
            for least in (-1e-9, 0.0, 1e-9):  # a half may be rounded either way
                yield f"{scale * value + least:,.{digits}f}"
        if math.isfinite(value):
            yield f"{100 * (value - 1):+.1f}"


def flagged(entry: Mapping[str, Any], key: str, value: object) -> bool:
    """Tell whether time, energy or host time of a case has a value."""
    return any(side and side[key] == value for side in (entry["comparison"], entry["energy"], entry["host"]))


def lost_of(part: str, entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield the facts of a part of a line that the entry of its case does not have."""
    texts, known = "\n".join(strings(entry)), set(figures(entry))
    if part in texts:
        return
    for words, (key, value) in FLAGS.items():
        if part.startswith(words) and not flagged(entry, key, value):
            yield words
        elif part.startswith(words):
            part = "" if words.startswith("probably") else part.removeprefix(words)
    part = part.replace("(95 %:", "")
    yield from (each for each in NUMBER.findall(part) if each not in known)
    rest = NUMBER.sub(" ", re.sub(r"[(),:+]", " ", part)).split()
    yield from (each for each in rest if each not in WORDS and not re.search(rf"\b{re.escape(each)}\b", texts))


def lost(printed: str, document: Mapping[str, Any]) -> list[str]:
    """Return what a terminal shows of a case and the document does not have in that case's entry, with its line."""
    entries = {case["id"]: case for case in document["cases"]}
    missing = []
    for name, line in lines_of(printed, list(entries)):
        row = TABLE.match(line)
        rest = re.sub(r"\([^)]*\)", "", row["figures"]) if row else line
        for part in re.sub(rf"^(\d+ skipped: )?{name}( and [\d,]+ more)?: ", "", rest).split("; "):
            missing += [f"{name}: {each!r} of {line}" for each in lost_of(part, entries[name])]
    return missing
