"""Inline PTX in preprocessed C++: an instruction that ptx.h knows becomes a call of it, any other an error."""

from __future__ import annotations

import ast
import re
from pathlib import Path

KNOWN = set(re.findall(r"\b(?:cp|mma)_\w+", Path(__file__).with_name("ptx.h").read_text()))
STRING = r'"(?:\\.|[^"\\\n])*"'
TOKEN = re.compile(
    rf"""^\#\ (?P<line>\d+)\ "(?P<file>(?:\\.|[^"])*)"(?P<flags>[\ \d]*)$  # where what follows comes from
    | {STRING} | '(?:\\.|[^'\\\n])*'
    | \b(?P<asm>asm|__asm__|__asm)\b (?:\s*(?:volatile|__volatile__)\b)? \s*(?P<open>\(?)""",
    re.MULTILINE | re.VERBOSE,
)
SYSTEM = "3"  # the flag of a line marker for a header of the system's


class UnknownPtx(Exception):
    """An instruction or operand that softcuda has not; the message begins with file and line."""


def translate(text: str, source: str) -> str:
    """Preprocessed text, with calls in place of asm statements from ``source``'s first line on. Raises UnknownPtx."""
    begin = text.index(f'# 1 "{source}"')
    out, position, system, place = [text[:begin]], begin, False, ("", 0, 0)
    while match := TOKEN.search(text, position):
        out.append(text[position : match.start()])
        position = match.end()
        if match["line"]:
            system, place = SYSTEM in match["flags"].split(), (match["file"], int(match["line"]), match.end() + 1)
        if system or not match["asm"]:
            out.append(match[0])
            continue
        end = closing(text, match.end()) if match["open"] else match.end()
        line = place[1] + text.count("\n", place[2], match.start())
        try:
            call = statement(text[match.end() : end])
        except UnknownPtx as error:
            why = f"softcuda does not support asm (inline PTX): {error}"
            raise UnknownPtx(f"{place[0]}:{line}:1: error: {why}") from None
        out.append(call + "\n" * text.count("\n", match.start(), end))  # what follows stays on its line
        position = end + 1
    return "".join([*out, text[position:]])


def closing(text: str, position: int) -> int:
    """Where the bracket closes that is open at ``position``."""
    depth = 1
    for match in re.compile(rf"{STRING}|[()]").finditer(text, position):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if not depth:
            return match.start()
    return len(text)


def split(text: str, separator: str) -> list[str]:
    """Parts between separators that are in no bracket and no string."""
    parts, depth, begin = [], 0, 0
    for match in re.finditer(rf"{STRING}|[(){{}}\[\]{separator}]", text):
        depth += (match[0] in "([{") - (match[0] in ")]}")
        if match[0] == separator and not depth:
            parts.append(text[begin : match.start()])
            begin = match.end()
    return [part.strip() for part in (*parts, text[begin:])]


def statement(inside: str) -> str:
    """An expression that does what is in the brackets of an asm statement."""
    template, *sections = split(" ".join(inside.split("\n")), ":")
    try:
        code = ast.literal_eval(f"({template})") if template else None
    except (SyntaxError, ValueError):
        code = None
    if not isinstance(code, str):
        raise UnknownPtx(template or "with other words than volatile")
    operands = []
    for operand in filter(None, (part for section in sections[:2] for part in split(section, ","))):
        match = re.fullmatch(rf"{STRING}\s*(\(.*\))", operand)
        if not match:
            raise UnknownPtx(operand)
        operands.append(match[1])
    calls = [instruction(line, operands) for part in re.split(r"[;\n]", code) if (line := part.strip())]
    return f"({', '.join([*calls, '(void)0'])})"


def instruction(line: str, operands: list[str]) -> str:
    """A call of what ptx.h has for an instruction."""
    name, _, rest = line.partition(" ")
    function = re.sub(r"\W", "_", name)
    if function not in KNOWN:
        raise UnknownPtx(line)
    arguments = []
    for argument in filter(None, re.split(r"[\s,{}\[\]]+", rest)):
        if (match := re.fullmatch(r"%(\d+)", argument)) and int(match[1]) < len(operands):
            arguments.append(operands[int(match[1])])
        elif argument.isdigit():
            arguments.append(argument)
        else:
            raise UnknownPtx(line)
    return f"softcuda_ptx::{function}({', '.join(arguments)})"
