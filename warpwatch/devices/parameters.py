"""Reads which parameters a kernel takes, from its machine code and its source.

The machine code has the place and size of each parameter. Their types are in the kernel's mangled name and in the
software device's images. A kernel that is declared extern "C" has a plain name: a GPU's machine code then says nothing
of types, and the source does where it spells out those of C++.
"""

from __future__ import annotations

import contextlib
import functools
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from warpwatch.devices.compile.compiler import files_of, read_image
from warpwatch.devices.compile.entries import Kernels
from warpwatch.devices.compile.symbols import (
    BROKEN,
    CUDA,
    CUDA_ENTRY,
    CUDA_INFO,
    RELA,
    SOFTWARE_KERNEL,
    SYMBOLS,
    demangled,
    find_elf,
    opening,
    read_attributes,
    read_machine,
    read_relocations,
    read_sections,
    read_symbols,
)

POINTER = 8  # bytes
# Attributes of a cubin's kernel, one for each parameter: number, place and size. The second form has larger fields.
PARAMETER, LARGE_PARAMETER = 0x17, 0x45
INVOKE = re.compile(r"softcuda::invoke<(.*)>\(void const\*, char const\*\)")
PTX_PARAMETER = re.compile(rb"\.param\s+(?:\.align\s+(\d+)\s+)?\.([a-z])(\d+)\b[^\[]*(?:\[(\d+)\])?")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
# Names of types: #define real float, typedef float real, using real = float.
MEANING = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([\w \t]+)$"
    r"|\btypedef\s+([\w\s]+?)\s+(\w+)\s*;|\busing\s+(\w+)\s*=\s*([\w\s]+);",
    re.MULTILINE,
)
QUALIFIERS = re.compile(r"\b(?:const|volatile|__restrict__|__restrict|restrict|__grid_constant__|static|extern)\b")
INTEGERS = {"signed", "unsigned", "short", "long", "int", "char"}
BUILT_IN = INTEGERS | {"float", "double", "bool"}
# Kind and size of types of one word.
NUMBERS: Mapping[str, tuple[str, int]] = {
    "bool": ("b", 1),
    "float": ("f", 4),
    "double": ("f", 8),
    **dict.fromkeys(("__half", "half", "__nv_bfloat16", "nv_bfloat16"), ("f", 2)),
    "size_t": ("u", 8),
    **{f"{'u' if kind == 'u' else ''}int{8 * size}_t": (kind, size) for kind in "iu" for size in (1, 2, 4, 8)},
}
POINTED_TO = re.compile(r"(.*\S|)\s*\*(?:\s*\b(?:const|volatile|__restrict__|__restrict|restrict)\b)*\s*", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of a kernel: its place and size in bytes, and its type in C++, empty where it is not known."""

    offset: int
    size: int
    type: str = ""

    @property
    def end(self) -> int:
        return self.offset + self.size

    def __str__(self) -> str:
        counted = f"{self.size} byte{'s' if self.size != 1 else ''}"
        if not self.type:
            return counted
        written = re.sub(r"^(.+?) const\b", r"const \1", self.type)
        return written if "*" in written else f"{written} ({counted})"


@functools.lru_cache(maxsize=1024)
def read_parameters(image: Path, symbol: str) -> tuple[Parameter, ...] | None:
    """Return the parameters of a kernel as an image has them, None where it does not say. Raises CompileError."""
    code = read_image(image)
    elf = find_elf(code)
    try:
        if not elf:
            return _typed(_of_ptx(code, symbol), _types_of(symbol))
        if read_machine(elf) == CUDA:
            return _typed(_of_cubin(elf, symbol), _types_of(symbol))
        return _of_software(elf, symbol)
    except (*BROKEN, StopIteration, KeyError):
        return None


def typed_by_source(
    parameters: tuple[Parameter, ...] | None, kernels: Kernels, symbol: str
) -> tuple[Parameter, ...] | None:
    """Return a kernel's parameters with the types that its source spells, where the machine code has none.

    Where it has no parameters either, as that of the host, they are known only if all types are.
    """
    if symbol.startswith("_Z") or (parameters and any(each.type for each in parameters)):
        return parameters
    types = _declared_types(kernels, symbol)
    if parameters is not None:
        return _typed(parameters, types)
    sizes = [size_of(name) for name in types]
    return _laid_out(zip(sizes, sizes, types, strict=True)) or None if all(sizes) else None


def parameters_for(values: Sequence[np.generic]) -> tuple[Parameter, ...]:
    """Return the parameters that take values as C aligns the members of a struct."""
    return _laid_out((value.dtype.itemsize, value.dtype.alignment, "") for value in values)


def _laid_out(members: Iterable[tuple[int, int, str]]) -> tuple[Parameter, ...]:
    """Return parameters of these sizes, alignments and types, one after the other."""
    parameters, end = list[Parameter](), 0
    for size, alignment, name in members:
        parameters.append(Parameter(offset=-(-end // alignment) * alignment, size=size, type=name))
        end = parameters[-1].end
    return tuple(parameters)


def _of_cubin(elf: bytes, symbol: str) -> tuple[Parameter, ...]:
    sections = read_sections(elf)
    symbols = read_symbols(elf, sections, next(each for each in sections if each.kind == SYMBOLS))
    kernel = next(each for each in symbols if each.name == symbol and each.other & CUDA_ENTRY)
    own = next(each for each in sections if each.kind == CUDA_INFO and each.info == kernel.section)
    parameters = {
        number: Parameter(offset=offset, size=size if attribute == LARGE_PARAMETER else size >> 18)
        for attribute, payload in read_attributes(elf, own)
        if attribute in (PARAMETER, LARGE_PARAMETER)
        for _, number, offset, size in [struct.unpack("<IHHI", payload)]
    }
    return tuple(parameters[number] for number in range(len(parameters)))


def _of_ptx(code: bytes, symbol: str) -> tuple[Parameter, ...]:
    text = re.sub(rb"//[^\n]*", b"", code)
    entry = re.search(rb"\.entry\s+" + re.escape(symbol.encode()) + rb"(?![\w$])\s*(?:\(([^)]*)\))?", text)
    if not entry:
        raise KeyError(symbol)
    members = []
    for written in filter(bytes.strip, (entry[1] or b"").split(b",")):
        match = PTX_PARAMETER.search(written)
        if not match:
            raise KeyError(symbol)
        alignment, kind, bits, count = match.groups()
        size = int(bits) // 8 * int(count or 1)
        name = {4: "float", 8: "double"}.get(size, "") if kind == b"f" else ""
        members.append((size, int(alignment or int(bits) // 8), name))
    return _laid_out(members)


def _of_software(elf: bytes, symbol: str) -> tuple[Parameter, ...]:
    """Return the parameters as the software device's records have them (softcuda/include/softcuda/image.h).

    A record begins with the address of the function that takes the parameters apart, whose name has their types.
    """
    sections = read_sections(elf)
    symbols = read_symbols(elf, sections, next(each for each in sections if each.kind == SYMBOLS))
    entry = next(each.value for each in symbols if each.name == SOFTWARE_KERNEL + symbol)
    relocations = (each for section in sections if section.kind == RELA for each in read_relocations(elf, section))
    pointers = {at: to for at, number, to in relocations if not number}  # into the image itself
    record = pointers[entry + 16]
    held = next(each for each in sections if each.address <= record < each.address + each.length)
    (count,) = struct.unpack_from("<I", elf, record - held.address + held.offset + 16)
    numbers = struct.unpack_from(f"<{2 * count + 1}I", elf, record - held.address + held.offset + 32)
    parameters = tuple(Parameter(offset=numbers[i], size=numbers[count + 1 + i]) for i in range(count))
    names = {each.value: each.name for each in symbols if "invoke" in each.name}
    types = INVOKE.search(demangled([names.get(pointers[record], "")])[0])
    return _typed(parameters, _split(types[1]) if types else ())


def _types_of(symbol: str) -> Sequence[str]:
    """Return the types of a kernel's parameters as its mangled name has them; nothing where it has none."""
    (text,) = demangled([symbol])
    return _split(text[opening(text) + 1 : -1]) if text != symbol and text.endswith(")") else ()


def _split(text: str) -> list[str]:
    """Split types at the commas that are in no brackets; those of comparisons are in round ones."""
    parts, depth, part, round_ones = list[str](), 0, "", 0
    for character in text:
        round_ones += (character == "(") - (character == ")")
        depth += (character in "([{") - (character in ")]}")
        depth += 0 if round_ones else (character == "<") - (character == ">")
        if character == "," and not depth:
            parts.append(part.strip())
            part = ""
        else:
            part += character
    return [*parts, part.strip()] if part.strip() else parts


def _typed(parameters: tuple[Parameter, ...], types: Sequence[str]) -> tuple[Parameter, ...]:
    """Return parameters with their types, without where these do not agree in number and size."""
    if len(types) != len(parameters):
        return parameters
    named = tuple(
        replace(each, type=re.sub(r"\s*\b(?:__)?restrict(?:__)?\b", "", kind))
        for each, kind in zip(parameters, types, strict=True)
    )
    return named if all(size_of(each.type) in (0, each.size) for each in named) else parameters


def number_type(name: str) -> tuple[str, int] | None:
    """Return kind ('i', 'u', 'f', 'b') and size of a plain type of numbers; None for any other type."""
    words = QUALIFIERS.sub(" ", name).split()
    if len(words) == 1 and words[0] in NUMBERS:
        return NUMBERS[words[0]]
    if not words or not set(words) <= INTEGERS:
        return None
    size = 1 if "char" in words else 2 if "short" in words else 8 if "long" in words else 4
    return "u" if "unsigned" in words else "i", size


def pointed_to_type(name: str) -> str:
    """Return the type that a pointer points to; empty for other types, and for references, functions and arrays."""
    match = POINTED_TO.fullmatch(name)
    return match[1] if match and "(" not in name else ""


def size_of(name: str) -> int:
    """Return the size of a type in bytes; 0 where it is not known."""
    if number := number_type(name):
        return number[1]
    return POINTER if pointed_to_type(name) else 0


def _declared_types(kernels: Kernels, name: str) -> list[str]:
    """Return the types of a function's parameters as its source spells them, with macros of the declaration.

    Nothing where the source has no such kernel, or several that differ. Types may be any words.
    """
    text = _text_of(kernels)
    spellings = list[list[str]]()
    for match in re.finditer(rf"\b{re.escape(name)}\s*\(", text):
        before = re.split(r"[;{}]", text[max(0, match.start() - 400) : match.start()])[-1]
        end = _closing(text, match.end())
        if not re.search(r"\b__global__\b|\bvoid\s+$", before) or not re.match(r"\s*[;{]", text[end + 1 :]):
            continue
        parts = [_resolved(part.partition("=")[0], kernels, text) for part in _split(text[match.end() : end])]
        spellings.append([_without_name(part) for part in parts if part != "void"])
    return spellings[0] if spellings and all(each == spellings[0] for each in spellings) else []


def declared_element(kernels: Kernels, name: str) -> str:
    """Return the type of a __constant__ or __device__ variable's elements as its source spells it; empty if unclear."""
    pattern = rf"\b(?:__constant__|__device__)\b([^;{{}}()=,]*?)\b{re.escape(name)}\s*(?=[\[;={{])"
    text = _text_of(kernels)
    types = {_resolved(match[1], kernels, text) for match in re.finditer(pattern, text)}
    words = [re.sub(r"\b__(?:constant|device|managed)__\b", " ", QUALIFIERS.sub(" ", name)) for name in types]
    return " ".join(words[0].split()) if len(words) == 1 else ""


def _text_of(kernels: Kernels) -> str:
    """Return a source and what it includes, without comments and strings; empty where numbers may be renamed there."""
    with contextlib.suppress(OSError):
        return _plain_text(kernels.source, kernels.root, kernels.source.stat().st_ctime_ns)
    return ""


@functools.lru_cache(maxsize=256)  # each copy of each case asks
def _plain_text(source: Path, root: Path, changed: int) -> str:
    """Return what ``_text_of`` does for a source that was ``changed`` last at that time. Raises OSError."""
    paths = [source, *sorted(files_of(source, root) - {source})]
    text = COMMENT.sub(" ", "\n".join(path.read_text(errors="replace") for path in paths))
    return "" if re.search(rf"#\s*define\s+(?:{'|'.join(BUILT_IN)})\b", text) else text


def _resolved(text: str, kernels: Kernels, source: str) -> str:
    """Return a text with the values of macros and the types of typedefs in their places, several deep.

    Those of the source count where it gives a name one meaning, and no condition asks for it.
    """
    known = dict(_meanings(source))
    given = dict(flag[2:].split("=", 1) for flag in kernels.flags if re.match(r"-D\w+=", flag))
    known |= {**kernels.seen_macros, **given}
    for _ in range(4):
        text = re.sub(r"\b[A-Za-z_]\w*\b", lambda match: known.get(match[0], match[0]), text)
    return text.strip()


@functools.lru_cache(maxsize=64)  # each parameter of each copy of each case asks
def _meanings(source: str) -> tuple[tuple[str, str], ...]:
    """Return names that a source gives one meaning, and that no condition asks for, with what they mean."""
    meanings: dict[str, set[str]] = {}
    for macro, value, kind, name, other, aliased in MEANING.findall(source):
        meanings.setdefault(macro or name or other, set()).add((value or kind or aliased).strip())
    directives = " ".join(re.findall(r"^[ \t]*#(?![ \t]*define).*$", source, re.MULTILINE))
    return tuple((name, each) for name, (each, *more) in meanings.items() if not more and name not in directives)


def _without_name(parameter: str) -> str:
    """Return the type of a parameter: what is left without its name, which is the last word if that is not a type."""
    words = re.findall(r"[\w:]+|\S", parameter)
    is_name = len(words) > 1 and re.fullmatch(r"[A-Za-z_]\w*", words[-1]) and not QUALIFIERS.fullmatch(words[-1])
    named = is_name and not ({words[-1]} & BUILT_IN) and any(re.match(r"\w", word) for word in words[:-1])
    return " ".join(words[:-1] if named else words)


def _closing(text: str, place: int) -> int:
    """Return where the round bracket closes that is open at a place."""
    depth = 1
    while depth and place < len(text):
        depth += (text[place] == "(") - (text[place] == ")")
        place += 1
    return place - 1
