"""Finds which instances of kernel templates host code launches, so that an image has those that nvcc's would have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from items import Item, Source

TYPES = {
    "bool",
    "char",
    "short",
    "int",
    "long",
    "signed",
    "unsigned",
    "float",
    "double",
    "void",
    "const",
    "true",
    "false",
}
BETWEEN = {",", "::", "*", "<", ">", "+", "-", "/", "(", ")"}
Tokens = list[str]


def launched(source: Source, host: Sequence[Item], item: Item, known: set[str]) -> Iterator[str]:
    """Instances that a host function launches, as "k<float, 16>", with arguments that are ``known`` outside of it.

    ``host``: all host functions; where the function is itself a template, they say for which arguments it is called.
    """
    tokens = source.tokens
    values = local_constants(tokens, item)
    for binding in bindings(source, host, item, known):
        for place in range(item.body, item.last):
            if tokens[place : place + 4] == [">", "<", "<", "<"]:
                opened = matching(tokens, place)
                arguments = [part for token in tokens[opened + 1 : place]
                             for part in binding.get(token, [values.get(token, token)])]  # fmt: skip
                if is_known(arguments, known):
                    yield f"{tokens[opened - 1]}<{' '.join(arguments)}>"


def bindings(source: Source, host: Sequence[Item], item: Item, known: set[str]) -> Iterator[dict[str, Tokens]]:
    """The arguments that a function template is called with, for each call; no argument for a plain function."""
    tokens, first = source.tokens, item.first
    if tokens[first : first + 2] != ["template", "<"]:
        yield {}
        return
    end = closing(tokens, first + 1)
    parameters = [part[-1] for part in split(tokens[first + 2 : end]) if "=" not in part]
    for caller in host:
        for place in range(caller.body, caller.last if caller.body else caller.body):
            if tokens[place] == item.names[0][-1] and tokens[place + 1] == "<":
                arguments = split(tokens[place + 2 : closing(tokens, place + 1)])
                if len(arguments) == len(parameters) and all(is_known(argument, known) for argument in arguments):
                    yield dict(zip(parameters, arguments, strict=True))


def local_constants(tokens: Tokens, item: Item) -> dict[str, str]:
    """Constants of a function that are plain numbers."""
    return {
        tokens[place]: tokens[place + 2]
        for place in range(item.body, item.last - 3)
        if tokens[place + 1] == "="
        and tokens[place + 2][:1].isdigit()
        and tokens[place + 3] == ";"
        and not {"const", "constexpr"}.isdisjoint(tokens[place - 3 : place])
    }


def is_known(arguments: Tokens, known: set[str]) -> bool:
    return all(token in BETWEEN or token in TYPES or token in known or token[:1].isdigit() for token in arguments)


def matching(tokens: Tokens, place: int) -> int:
    """The angle bracket that opens what the one at ``place`` closes."""
    depth = 1
    while depth and place:
        place -= 1
        depth += (tokens[place] == ">") - (tokens[place] == "<")
    return place


def closing(tokens: Tokens, place: int) -> int:
    """The angle bracket that closes what the one at ``place`` opens; the end where there is none."""
    depth = 1
    while depth and place < len(tokens) - 1:
        place += 1
        depth += (tokens[place] == "<") - (tokens[place] == ">")
    return place


def split(tokens: Tokens) -> list[Tokens]:
    """Split at commas that are in no brackets."""
    parts: list[Tokens] = [[]]
    depth = 0
    for token in tokens:
        depth += (token in "(<[{") - (token in ")>]}")
        if token == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]
