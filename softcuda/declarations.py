"""Reads from a kernel's file which kernels it has: names, parameters, launch bounds."""

from __future__ import annotations

import re
from typing import NamedTuple

BRACKETS = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
BOUNDS = re.compile(rf"__launch_bounds__\s*({BRACKETS})")
TEMPLATE = re.compile(r"template\s*(<[^;{}]*>)\s*$")


class Kernel(NamedTuple):
    """A kernel that can be launched: a function, or an instance of a template that the file asks for."""

    name: str  # as its file writes it: 'copy', 'copy<float, 4>'
    parameters: list[str]
    bound: str  # an expression for the threads that a block may have at most; "" where the kernel says nothing


class Declaration(NamedTuple):
    """What stands around one __global__ of a file."""

    name: str
    parameters: list[str]
    bound: str
    template: str  # '<class T, int n>' of a template
    launchable: bool  # neither a template by itself nor a declaration without a body


def kernels(text: str) -> tuple[list[Kernel], str]:
    """The kernels of a source, and the C++ that their launch bounds need: it belongs at the end of the file."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    found = [one for match in re.finditer(r"__global__\b", text) if (one := declaration(text, match))]
    plain = {one.name: one.bound for one in found if one.bound and not one.template}
    templates = {one.name: one for one in found if one.bound and one.template}
    helpers = [
        f"template {one.template} struct softcuda_bound_{name} {{ static constexpr unsigned value = {one.bound}; }};"
        for name, one in templates.items()
    ]
    made = []
    for one in found:
        name, bracket, arguments = one.name.partition("<")
        bound = plain.get(one.name, "")
        if not bound and bracket and name.strip() in templates:
            bound = f"softcuda_bound_{name.strip()}<{arguments}::value"
        if one.launchable:
            made.append(Kernel(one.name, one.parameters, bound))
    return made, "\n".join(helpers)


def declaration(text: str, match: re.Match[str]) -> Declaration | None:
    """What a __global__ of a source without comments declares; None where no function follows."""
    begin = max(text.rfind(end, 0, match.start()) for end in ";}")
    head, rest = text[begin + 1 : match.start()].rstrip(), text[match.end() :]
    after = BOUNDS.search(rest)
    if after and re.search(r"[;{}(]", rest[: after.start()]):
        after = None  # another kernel's
    bounds = after or BOUNDS.search(head)
    head = BOUNDS.sub(" ", head).rstrip()
    rest = BOUNDS.sub(" ", rest, count=1) if after else rest
    signature = re.match(r"[\s\w]*?\b(\w+(?:\s*<[^;{]*?>)?)\s*\(((?:[^()]|\([^()]*\))*)\)", rest)
    if not signature:
        return None
    template = TEMPLATE.search(head)
    is_instance = bool(re.search(r"\btemplate\s*$", head))
    body = rest[signature.end() :].lstrip()
    names = [re.sub(r"\[.*", "", part).split("=")[0].strip() for part in split_top(signature[2])]
    return Declaration(
        name=signature[1],
        parameters=[re.split(r"[\s*&]", name)[-1] for name in names],
        bound=split_top(bounds[1][1:-1])[0].strip() if bounds else "",
        template=template[1] if template else "",
        launchable=not template and (is_instance or not body.startswith(";")),
    )


TOKEN = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | ^[\ \t]*\#(?:[^\n\\]|\\.)* | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'
    | \b__global__\b | (?P<back>\breturn\s*;) | [{};]""",
    re.MULTILINE | re.VERBOSE | re.DOTALL,
)
LAMBDA = re.compile(r"\]\s*(?:\([^(){}]*\))?\s*(?:mutable\b)?\s*(?:->[\w\s:*&<>]*)?$")


def with_marked_returns(text: str) -> str:
    """The source with SOFTCUDA_RETURN for each return statement of a kernel itself, on the same lines."""
    out, position, expected = [], 0, False  # `expected`: the next bracket opens a kernel
    brackets: list[bool] = []  # of a kernel, those that are open: whether a lambda begins there
    for match in TOKEN.finditer(text):
        out.append(text[position : match.start()])
        position, token = match.end(), match[0]
        if match["back"] and brackets and not any(brackets):
            token = "SOFTCUDA_RETURN" + "\n" * token.count("\n")
        elif token == "{" and (expected or brackets):
            brackets.append(bool(brackets and LAMBDA.search(text[max(0, match.start() - 200) : match.start()])))
            expected = False
        elif token == "}" and brackets:
            brackets.pop()
        elif token in ("__global__", ";"):
            expected = token == "__global__"
        out.append(token)
    return "".join([*out, text[position:]])


def split_top(text: str) -> list[str]:
    """Split at commas that are in no brackets."""
    parts, depth, part = [], 0, ""
    for character in text:
        depth += (character in "(<[") - (character in ")>]")
        if character == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += character
    return [p for p in [*parts, part] if p.strip()]
