"""Finds functions that g++ refuses and kernels can do without, by the lines of its complaints.

nvcc compiles host code with its headers and libraries, which are not all here. A function without mark that stayed (as
a constexpr one, or an operator that is named as one of the device's) is none of the device's business, and one for both
sides that calls host code is an error only where a kernel calls it: it stops with a word about that. A template of a
kernel that has no instance is looked at by g++ more than by nvcc.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from dataclasses import dataclass

from items import Item, Source, items

DEVICE = {"__global__", "__device__", "__constant__", "__shared__", "__managed__"}
ERROR = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):\d+: (?:error: (?P<what>.*)|  required from .*)", re.MULTILINE
)
TRAP = '{ softcuda_trap("a call of a function that needs host code"); }'


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """A source and its declarations. ``launched``: words of the instances that host code launches."""

    source: Source
    found: list[Item]
    launched: set[str]


def head(source: Source, item: Item) -> list[str]:
    """The tokens of a declaration in front of its body."""
    return source.tokens[item.first : item.body or item.last]


def is_marked(source: Source, item: Item) -> bool:
    return not DEVICE.isdisjoint(head(source, item))


def line_of(source: Source, token: int) -> tuple[str, int]:
    """File and line of a token."""
    place = source.places[token][0]
    first, marker = source.markers[bisect.bisect_left(source.markers, (place, place)) - 1]
    line, file = re.findall(r'^# (\d+) "(.*)"', source.text[first:marker])[0]
    return file, int(line) + source.text.count("\n", marker, place)


def place_of(source: Source, token: int) -> str:
    """File, line and column of a token, as compilers write them."""
    file, line = line_of(source, token)
    place = source.places[token][0]
    return f"{file}:{line}:{place - source.text.rfind(chr(10), 0, place)}"


def broken(parsed: Parsed, errors: str, hosts: set[str]) -> set[int]:
    """The first tokens of functions that g++ complains of and that can go. ``hosts``: names of what was set aside."""
    complaints: dict[str, list[tuple[int, bool]]] = {}  # lines, and whether they are of host code
    for error in ERROR.finditer(errors):
        quoted = " ".join(re.findall(r"[‘'][^’']*[’']", error["what"] or ""))
        of_host = not hosts.isdisjoint(re.findall(r"\w+", quoted))
        complaints.setdefault(error["file"], []).append((int(error["line"]), of_host))
    return {item.first for item in functions(parsed.source, parsed.found) if is_meant(parsed, item, complaints)}


def is_meant(parsed: Parsed, item: Item, complaints: dict[str, list[tuple[int, bool]]]) -> bool:
    """Whether complaints are of a function that can go; of one for both sides, that they name host code."""
    source, words = parsed.source, head(parsed.source, item)
    both = "__host__" in words and "__device__" in words
    unused = is_kernel_template(source, item) and item.names[0][-1] not in parsed.launched
    if not (both or unused or DEVICE.isdisjoint(words)):
        return False
    file, first = line_of(source, item.first)
    last = first + source.text.count("\n", source.places[item.first][0], source.places[item.last - 1][1])
    return any(first <= line <= last and (of_host or not both) for line, of_host in complaints.get(file, ()))


def is_kernel_template(source: Source, item: Item) -> bool:
    words = head(source, item)
    return words[0] == "template" and words[2] != ">" and "__global__" in words


def functions(source: Source, found: list[Item]) -> Iterator[Item]:
    """The functions that have a body, those of classes too."""
    for item in found:
        if item.kind == "function" and item.body:
            yield item
        elif item.kind == "class" and item.body and "enum" not in head(source, item):
            yield from functions(source, list(items(source, item.body + 1, source.partner[item.body])))


def trapped(source: Source, item: Item) -> tuple[int, int, str]:
    """What is to stand in place of the body of a function for both sides that needs host code."""
    return (item.body, source.partner[item.body] + 1, TRAP)
