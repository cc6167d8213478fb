"""Inline PTX in preprocessed C++: what ptx_table.py knows becomes C++ that does it, any other instruction an error."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

import brackets
import ptx_table
from brackets import STRING, Edit, closing
from ptx_table import Row
from reader import Unit

ASM = re.compile(rf"{STRING}|\b(?P<asm>asm|__asm__|__asm)\b(?:\s*(?:volatile|__volatile__)\b)?\s*(?P<open>\(?)")
REFUSED = "softcuda_refused_ptx"  # messages.py knows calls by it
NUMBERS = {
    r"0[fF]([0-9a-fA-F]{8})": "__int_as_float(0x{0})",
    r"0[dD]([0-9a-fA-F]{16})": "__longlong_as_double(0x{0})",
    r"(-?(?:0[xX][0-9a-fA-F]+|\d+\.\d*(?:[eE][-+]?\d+)?|\d+))U?": "{0}",
}
# Brackets of blocks stand where an instruction would begin; those of vectors do not.
STATEMENT = re.compile(r"\s*(?:(?P<bracket>[{}])|(?P<label>[$\w%]+)\s*:(?!:)|(?P<line>[^;]*)(?:;|$))")
WORDS = {"static_cast", "reinterpret_cast", "sizeof", "float", "double"}  # that look like calls in the table
FUNCTION = re.compile(r"(?<![\w:])(?!u?int\d+_t\b)[a-z]\w*(?=[(<]|>\()")


class UnknownPtx(Exception):
    """Raised for an instruction or operand that softcuda does not support."""


def edits(unit: Unit) -> Iterator[Edit]:
    """Yield C++ in the place of asm statements."""
    for match in unit.find(ASM):
        if match["asm"]:
            opened = match.end() if match["open"] else unit.text.find("(", match.end()) + 1
            end = closing(unit.text, opened)
            try:
                call = statement(unit.text[opened:end] if match["open"] else "")
            except UnknownPtx as error:
                line = unit.line_of(match.start())[1]
                call = refusal(line, f"softcuda does not support asm (inline PTX): {error}")
            yield match.start(), end + 1, call


def refusal(line: int, why: str) -> str:
    """Return a call that g++ refuses where it is compiled: headers have PTX in functions that no kernel calls."""
    text = why.replace("\\", "\\\\").replace('"', '\\"')
    return f'({{ __attribute__((error("{text}"))) void {REFUSED}_{line}(); {REFUSED}_{line}(); }})'


def split(text: str, separator: str) -> list[str]:
    """Split at separators that are in no bracket and no string."""
    return [part.strip() for part in brackets.split(text, separator)]


def statement(inside: str) -> str:
    """Return a statement expression that does what is in the brackets of an asm statement."""
    template, *sections = split(" ".join(inside.split("\n")), ":")
    try:
        code = ast.literal_eval(f"({template})") if template else None
    except (SyntaxError, ValueError):
        code = None
    if not isinstance(code, str):
        raise UnknownPtx(template or "with other words than volatile")
    code = code.replace("%=", "_")  # a number of this statement's own, as whose labels they are seen nowhere else
    variables: list[str] = []
    for number, section in enumerate(sections[:2]):
        # nvcc takes operands with no comma between them.
        for operand in filter(None, split(re.sub(r'\)\s*"', '), "', section), ",")):
            match = re.fullmatch(r'"([^"]*)"\s*(\(.*\))', operand)
            if not match:
                raise UnknownPtx(operand)
            name = f"softcuda_a{len(variables)}"
            if number and match[1].isdigit():  # an input in the place of an output
                variables.append(f"auto& {name} = softcuda_a{match[1]}; {name} = {match[2]};")
            else:
                variables.append(f"{'auto' if number else 'auto&&'} {name} = {match[2]};")
    lines, labels = body(code, {f"%{i}": f"softcuda_a{i}" for i in range(len(variables))})
    declared = f"__label__ {', '.join(labels)}; " if labels else ""
    return f"({{ {declared}{' '.join([*variables, *lines])} (void)0; }})"


def body(code: str, operands: dict[str, str]) -> tuple[list[str], list[str]]:
    """Return statements for the text of PTX, and its labels. ``operands``: those of the asm statement in C++."""
    code = re.sub(r"//[^\n]*|/\*.*?\*/", " ", code, flags=re.DOTALL)
    names = dict(operands)
    lines: list[str] = []
    labels: list[str] = []
    for token in STATEMENT.finditer(" ".join(code.split())):
        line = (token["line"] or "").strip()
        if token["bracket"]:
            lines.append(token["bracket"])
        elif token["label"]:
            labels.append(own_name(token["label"]))
            lines.append(f"{labels[-1]}: ;")
        elif line.startswith(".reg"):
            kind, declared = registers(line)
            names |= {name: own_name(name) for name in declared}
            lines.append(f"{kind} {', '.join(map(own_name, declared))};")
        elif line:
            lines.append(predicated(Line(text=line, names=names)))
    return lines, labels


@dataclass(frozen=True, kw_only=True)
class Line:
    """An instruction, and what operands and registers are in C++ there."""

    text: str
    names: dict[str, str]


def own_name(name: str) -> str:
    """Return a C++ name for a register or label of PTX."""
    return "softcuda_r_" + re.sub(r"\W", "_", name)


def registers(line: str) -> tuple[str, list[str]]:
    """Return the C++ type and the names of `.reg .b32 a, b<4>`."""
    match = re.fullmatch(r"\.reg\s*\.(\w+)\s+(.*)", line)
    if not match or match[1] not in ptx_table.TYPES:
        raise UnknownPtx(line)
    names = []
    for name in match[2].split(","):
        several = re.fullmatch(r"\s*(\S+)<(\d+)>\s*", name)
        names += [f"{several[1]}{i}" for i in range(int(several[2]))] if several else [name.strip()]
    return ptx_table.TYPES[match[1]], names


def predicated(line: Line) -> str:
    """Return a statement for an instruction, which may have a predicate in front."""
    match = re.fullmatch(r"(?:@(!?)\s*([$\w%]+)\s+)?(.*)", line.text)
    if not match:
        raise UnknownPtx(line.text)
    if jump := re.fullmatch(r"bra(?:\.uni)?\s+([$\w%]+)", match[3]):
        code = f"goto {own_name(jump[1])};"
    else:
        code = instruction(Line(text=match[3], names=line.names))
    return f"if ({match[1]}{value(match[2], line)}) {{ {code} }}" if match[2] else code


def value(written: str, line: Line) -> str:
    """Return a C++ expression for an operand that is read: of the asm statement, a register, or a number."""
    written = written.strip()
    if written in line.names:
        return line.names[written]
    if written.startswith("!"):
        return f"!{value(written[1:], line)}"
    if register := ptx_table.REGISTERS.get(written.lstrip("%")):
        return f"({register})"
    for pattern, expression in NUMBERS.items():
        if match := re.fullmatch(pattern, written):
            return expression.format(match[1])
    raise UnknownPtx(f"{line.text} (it has no operand or register {written})")


def instruction(line: Line) -> str:
    """Return a statement for an instruction: by its line of the table, or a function of ptx.h."""
    name, rest = re.fullmatch(r"([^\s{\[]*)\s*(.*)", line.text, re.DOTALL).groups()
    operands = [part for part in split(rest, ",") if part]
    if name.endswith(".L2::cache_hint") or ".L2::cache_hint." in name:
        operands = operands[:-1]  # a cache policy
    for row in ptx_table.rows(name.partition(".")[0]):
        least = len(row.results) + sum(not each.startswith("[") for each in row.operands)
        most = len(row.results) + len(row.operands)
        if (match := row.pattern.fullmatch(name)) and least <= len(operands) <= most:
            return by_row(row, match, operands, line)
    raise UnknownPtx(line.text)


def by_row(row: Row, match: re.Match[str], operands: list[str], line: Line) -> str:
    """Return a statement for an instruction, by its line of the table."""
    classes = {key: text for key, text in match.groupdict().items() if text}
    kinds = {key: ptx_table.TYPES[classes[key]] for key in "TDS" if key in classes}
    if "T" in classes and classes["T"] in ptx_table.WIDE:
        kinds["W"] = ptx_table.TYPES[ptx_table.WIDE[classes["T"]]]
    result, given = operands[: len(row.results)], operands[len(row.results) :]
    flush = ".ftz" in match[0]
    sources: list[str] = []
    for kind, operand in zip(row.operands, given, strict=False):
        sources += source(kind.strip("[]"), operand, kinds, classes, line, flush)
    targets = members(result[0]) if result else []
    number = len(targets) if row.results and row.results[0].endswith("*") else max(0, len(sources) - 1)
    kind = of_kind(row.results[0], kinds) if row.results else ""
    filled = [fill(text, classes, kinds, sources, number) for text in (row.expression, row.second) if text]
    if not kind:
        return f"{filled[0]};"
    expression = f"static_cast<{kind}>({filled[0]})" if not row.results[0].endswith("*") else filled[0]
    if kind == "float":
        expression = f"softcuda_ptx::saturated({expression})" if ".sat" in match[0] else expression
        expression = f"softcuda_ptx::flushed({expression})" if flush else expression
    return assigned(result[0], expression, filled[1:], row.results[0].endswith("*"), line)


def assigned(result: str, expression: str, second: list[str], several: bool, line: Line) -> str:
    """Return assignments to the destination of an instruction: one place, d|p, or the members of a vector."""
    first, _, other = result.partition("|")
    targets = members(first)
    both = f" const bool softcuda_second = {second[0]};" if other and second else ""
    out = [f"const auto softcuda_result = {expression};"]
    for number, target in enumerate(targets):
        if target == "_":
            continue
        part = "softcuda_result"
        if several:
            part = f"softcuda_result.values[{number}]"
        elif len(targets) > 1:
            part = f"softcuda_ptx::piece<{number}, {len(targets)}>(softcuda_result)"
        out.append(f"softcuda_ptx::set({value(target, line)}, {part});")
    if other and second and other.strip() != "_":
        out.append(f"softcuda_ptx::set({value(other, line)}, softcuda_second);")
    return f"{{{both} {' '.join(out)} }}"


def members(operand: str) -> list[str]:
    """Return the parts of {a, b}; the operand itself if it is not a vector."""
    return split(operand[1:-1], ",") if operand.startswith("{") else [operand]


def of_kind(kind: str, kinds: dict[str, str]) -> str:
    """Return the C++ type for one of the second column."""
    kind = kind.rstrip("*")
    return kinds.get(kind) or ptx_table.TYPES[kind]


def source(
    kind: str, operand: str, kinds: dict[str, str], classes: dict[str, str], line: Line, flush: bool
) -> list[str]:
    """Return C++ for an operand that is read, as the type of the table; several for the members of a vector."""
    if kind.startswith("@"):
        match = re.fullmatch(r"\[\s*([^\s+]+)\s*(?:\+\s*(-?\w+)\s*)?\]", operand)
        if not match:
            raise UnknownPtx(line.text)
        address = f"softcuda_ptx::as<uint64_t>({value(match[1], line)}) + {match[2] or 0}"
        if kind == "@shared":
            return [f"unsigned({address})"]
        shared = classes.get("SPACE", "").startswith("shared")
        return [
            f"static_cast<void*>(softcuda_ptx::at(unsigned({address})))"
            if shared
            else f"reinterpret_cast<void*>({address})"
        ]
    if kind == "any":
        return [value(operand, line)]
    wanted, parts = of_kind(kind, kinds), members(operand)
    values = [value(part, line) for part in parts]
    if kind.endswith("*"):
        return [f"softcuda_ptx::as<{wanted}>({each})" for each in values]
    expression = (
        f"softcuda_ptx::as<{wanted}>({values[0]})"
        if len(values) == 1
        else f"softcuda_ptx::joined<{wanted}>({', '.join(values)})"
    )
    return [f"softcuda_ptx::flushed({expression})" if flush and wanted == "float" else expression]


def fill(text: str, classes: dict[str, str], kinds: dict[str, str], sources: list[str], number: int) -> str:
    """Return an expression of the table with the operands of an instruction."""
    text = re.sub(r"\\(\d)", lambda match: classes.get(f"_{match[1]}", ""), text)
    for word, default in (("SEM", "weak"), ("SCOPE", "gpu"), ("OP", ""), ("CMP", ""), ("BOOL", ""), ("HOW", "plain")):
        text = text.replace(word, classes.get(word, default))
    text = FUNCTION.sub(lambda match: match[0] if match[0] in WORDS else f"softcuda_ptx::{match[0]}", text)
    rounding = f"softcuda::Rounding::{ptx_table.ROUNDINGS[classes.get('R', 'rn')]}"
    names = {"R": rounding, "N": str(number), "ALL": ", ".join(sources), **kinds}
    names |= {letter: f"({each})" for letter, each in zip("abce", sources, strict=False)}
    return re.sub(r"(?<![\w:])(?:ALL|[A-Zabce])(?!\w)", lambda match: names.get(match[0], match[0]), text)
