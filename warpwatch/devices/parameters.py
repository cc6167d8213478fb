"""Reads which parameters a kernel takes, from its machine code and its source, and holds a case's arguments to them.

The machine code has the place and size of each parameter. Their types are in the kernel's mangled name and in the
software device's images. A kernel that is declared extern "C" has a plain name: a GPU's machine code then says nothing
of types, and the source does where it spells out those of C++. What is known nowhere is not checked.
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from warpwatch.catalogue.arrays import CaseArray, Role
from warpwatch.catalogue.elements import C_TYPES, is_float, numpy_type
from warpwatch.devices.compile.compiler import files_of, read_image
from warpwatch.devices.compile.entries import Kernels
from warpwatch.devices.compile.symbols import (
    BROKEN,
    CUDA,
    CUDA_ENTRY,
    CUDA_INFO,
    SOFTWARE_KERNEL,
    SYMBOLS,
    Section,
    demangled,
    find_elf,
    read_attributes,
    read_machine,
    read_relocations,
    read_sections,
    read_symbols,
)

POINTER = 8  # bytes
WORD = 4  # bytes; of smaller numbers the bits of one kind are passed as another
LEAST_ADDRESS = 1 << 32  # no array of a device lies below it
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
BUILT_IN = {"signed", "unsigned", "short", "long", "int", "char", "float", "double", "bool"}
OTHER_NAMES: Mapping[str, tuple[str, int]] = {
    "__half": ("f", 2),
    "half": ("f", 2),
    "__nv_bfloat16": ("f", 2),
    "nv_bfloat16": ("f", 2),
    "size_t": ("u", 8),
    **{f"{'u' if kind == 'u' else ''}int{8 * size}_t": (kind, size) for kind in "iu" for size in (1, 2, 4, 8)},
}


KINDS = {"i": "int", "u": "uint", "f": "float"}


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of a kernel: its place and size in bytes, and its type in C++, empty where it is not known."""

    offset: int
    size: int
    type: str = ""

    def __str__(self) -> str:
        counted = f"{self.size} byte{'s' if self.size != 1 else ''}"
        if not self.type:
            return counted
        written = re.sub(r"^(.+?) const\b", r"const \1", self.type)
        return written if "*" in written else f"{written} ({counted})"


class Copied(Protocol):
    """An array that is copied to a variable."""

    name: str
    dtype: np.dtype[Any]
    nbytes: int


@dataclass(frozen=True, kw_only=True)
class Argument:
    """An argument of a launch.

    ``name``: as it is declared, or its number. ``kind``: its type in words, empty where the name says it. ``array``:
    the one that it points into, if any. ``cure``: how a declaration says that it has another type, in the place of {}.
    """

    value: np.generic
    name: str
    kind: str
    cure: str
    array: CaseArray | None = None

    def __str__(self) -> str:
        return f"{self.name} is {self.kind}," if self.kind else self.name


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
    sizes, end, found = [size_of(each) for each in types], 0, []
    for size, name in zip(sizes, types, strict=True) if all(sizes) else ():
        end = -(-end // size) * size
        found.append(Parameter(offset=end, size=size, type=name))
        end += size
    return tuple(found) or None


def _of_cubin(elf: bytes, symbol: str) -> tuple[Parameter, ...]:
    sections = read_sections(elf)
    symbols = read_symbols(elf, sections, next(each for each in sections if each.kind == SYMBOLS))
    kernel = next(each for each in symbols if each.name == symbol and each.other & CUDA_ENTRY)
    own = next(each for each in sections if each.kind == CUDA_INFO and each.info == kernel.section)
    found = {}
    for attribute, payload in read_attributes(elf, own):
        if attribute in (PARAMETER, LARGE_PARAMETER):
            _, number, offset, size = struct.unpack("<IHHI", payload)
            found[number] = Parameter(offset=offset, size=size if attribute == LARGE_PARAMETER else size >> 18)
    return tuple(found[number] for number in range(len(found)))


def _of_ptx(code: bytes, symbol: str) -> tuple[Parameter, ...]:
    text = re.sub(rb"//[^\n]*", b"", code)
    entry = re.search(rb"\.entry\s+" + re.escape(symbol.encode()) + rb"(?![\w$])\s*(?:\(([^)]*)\))?", text)
    if not entry:
        raise KeyError(symbol)
    found: list[Parameter] = []
    for written in filter(bytes.strip, (entry[1] or b"").split(b",")):
        match = PTX_PARAMETER.search(written)
        if not match:
            raise KeyError(symbol)
        size = int(match[3]) // 8 * int(match[4] or 1)
        aligned = int(match[1] or match[3]) // (1 if match[1] else 8)
        end = found[-1].offset + found[-1].size if found else 0
        kind = {4: "float", 8: "double"}.get(size, "") if match[2] == b"f" else ""
        found.append(Parameter(offset=-(-end // aligned) * aligned, size=size, type=kind))
    return tuple(found)


def _of_software(elf: bytes, symbol: str) -> tuple[Parameter, ...]:
    """Return the parameters as the software device's records have them (softcuda/include/softcuda/image.h).

    A record begins with the address of the function that takes the parameters apart, whose name has their types.
    """
    sections = read_sections(elf)
    symbols = read_symbols(elf, sections, next(each for each in sections if each.kind == SYMBOLS))
    entry = next(each.value for each in symbols if each.name == SOFTWARE_KERNEL + symbol)
    pointers = {at: to for section in sections for at, to in _pointers(elf, section)}
    record = pointers[entry + 16]
    held = next(each for each in sections if each.address <= record < each.address + each.length)
    (count,) = struct.unpack_from("<I", elf, record - held.address + held.offset + 16)
    numbers = struct.unpack_from(f"<{2 * count + 1}I", elf, record - held.address + held.offset + 32)
    found = (Parameter(offset=numbers[i], size=numbers[count + 1 + i]) for i in range(count))
    names = {each.value: each.name for each in symbols if "invoke" in each.name}
    types = INVOKE.search(demangled([names.get(pointers[record], "")])[0])
    return _typed(tuple(found), _split(types[1]) if types else ())


def _pointers(elf: bytes, section: Section) -> list[tuple[int, int]]:
    """List the addresses of a section of relocations that point into the image itself, and where they point to."""
    rela = 4
    each = read_relocations(elf, section) if section.kind == rela else ()
    return [(offset, added) for offset, number, added in each if not number]


def _types_of(symbol: str) -> Sequence[str]:
    """Return the types of a kernel's parameters as its mangled name has them; nothing where it has none."""
    (text,) = demangled([symbol])
    depth = 0
    for place in reversed(range(len(text) if text != symbol and text.endswith(")") else 0)):
        depth += (text[place] == ")") - (text[place] == "(")
        if not depth:
            return _split(text[place + 1 : -1])
    return ()


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
    if len(words) == 1 and words[0] in OTHER_NAMES:
        return OTHER_NAMES[words[0]]
    if not words or not set(words) <= BUILT_IN:
        return None
    if words in (["bool"], ["float"], ["double"]):
        return {"bool": ("b", 1), "float": ("f", 4), "double": ("f", 8)}[words[0]]
    if {"bool", "float", "double"} & set(words):
        return None  # long double
    size = 1 if "char" in words else 2 if "short" in words else 8 if "long" in words else 4
    return "u" if "unsigned" in words else "i", size


def pointed_to_type(name: str) -> str:
    """Return the type that a pointer points to; empty for other types, and for references, functions and arrays."""
    bare = name.rstrip()
    while (shorter := re.sub(r"\s*\b(?:const|volatile|__restrict__|__restrict|restrict)$", "", bare)) != bare:
        bare = shorter
    return bare[:-1].strip() if bare.endswith("*") and "(" not in bare else ""


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
    found = list[list[str]]()
    for match in re.finditer(rf"\b{re.escape(name)}\s*\(", text):
        before = re.split(r"[;{}]", text[max(0, match.start() - 400) : match.start()])[-1]
        end = _closing(text, match.end())
        if not re.search(r"\b__global__\b|\bvoid\s+$", before) or not re.match(r"\s*[;{]", text[end + 1 :]):
            continue
        parts = [_resolved(part.partition("=")[0], kernels, text) for part in _split(text[match.end() : end])]
        found.append([_without_name(part) for part in parts if part != "void"])
    return found[0] if found and all(each == found[0] for each in found) else []


def declared_element(kernels: Kernels, name: str) -> str:
    """Return the type of a __constant__ or __device__ variable's elements as its source spells it; empty if unclear."""
    pattern = rf"\b(?:__constant__|__device__)\b([^;{{}}()=,]*?)\b{re.escape(name)}\s*(?=[\[;={{])"
    text = _text_of(kernels)
    found = {_resolved(match[1], kernels, text) for match in re.finditer(pattern, text)}
    words = [re.sub(r"\b__(?:constant|device|managed)__\b", " ", QUALIFIERS.sub(" ", each)) for each in found]
    return " ".join(words[0].split()) if len(words) == 1 else ""


def _text_of(kernels: Kernels) -> str:
    """Return a source and what it includes, without comments and strings; empty where numbers may be renamed there."""
    try:
        return _plain_text(kernels.source, kernels.root, kernels.source.stat().st_ctime_ns)
    except OSError:
        return ""


@functools.lru_cache(maxsize=256)  # each copy of each case asks
def _plain_text(source: Path, root: Path, changed: int) -> str:
    """Return what ``_text_of`` does for a source that was ``changed`` last at that time."""
    try:
        paths = [source, *sorted(files_of(source, root) - {source})]
        text = "\n".join(path.read_text(errors="replace") for path in paths)
    except OSError:
        return ""
    text = COMMENT.sub(" ", text)
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
    """Return the type of a parameter: what is left where its last word, which is no type, is taken away."""
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


def unfit(kernel: str, arguments: Sequence[Argument], parameters: Sequence[Parameter]) -> str:
    """Say why a kernel cannot take these arguments, and what to write; empty where nothing speaks against them."""
    if len(arguments) != len(parameters):
        return "" if _lie_alike(arguments, parameters) else _other_number(kernel, arguments, parameters)
    found = [
        f"{argument} but {kernel} takes {parameter} as its {ordinal(number)} parameter; {cure}"
        for number, (argument, parameter) in enumerate(zip(arguments, parameters, strict=True), 1)
        if (cure := _cure(argument, parameter))
    ]
    more = f" ({len(found) - 1} more {'do' if len(found) > 2 else 'does'} not fit)" if len(found) > 1 else ""
    return f"{found[0]}{more}" if found else ""


def ordinal(number: int) -> str:
    """Return '1st' for 1."""
    return f"{number}{'th' if number % 100 in (11, 12, 13) else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def _lie_alike(arguments: Sequence[Argument], parameters: Sequence[Parameter]) -> bool:
    """Tell whether the bytes of arguments are those of the parameters, as where two numbers make a struct."""
    places, end = offsets([each.value for each in arguments])
    wanted = {each.offset for each in parameters}
    last = max((each.offset + each.size for each in parameters), default=0)
    is_padded = len(arguments) > len(parameters) and 0 < last - end < POINTER  # at the end of a struct
    return (end == last or is_padded) and (wanted <= set(places) or wanted >= set(places))


def offsets(values: Sequence[np.generic]) -> tuple[list[int], int]:
    """Return where values lie as C aligns the members of a struct, and where the last one ends."""
    if not values:
        return [], 0
    layout = np.dtype([(f"a{i}", value.dtype) for i, value in enumerate(values)], align=True)
    places = [layout.fields[name][1] for name in layout.names or ()]  # type: ignore[index]
    return places, places[-1] + values[-1].dtype.itemsize


def _other_number(kernel: str, arguments: Sequence[Argument], parameters: Sequence[Parameter]) -> str:
    given = ", ".join(each.name if each.name.startswith('"') else each.kind for each in arguments)
    takes = ", ".join(map(str, parameters))
    are = f"{len(arguments)} {'is' if len(arguments) == 1 else 'are'} given" if arguments else "none is given"
    return (
        f"{are}{f' ({given})' if given else ''}, but {kernel} takes {len(parameters) or 'none'}"
        f"{f' ({takes})' if takes else ''}; give one for each parameter, in the kernel's order"
    )


def _cure(argument: Argument, parameter: Parameter) -> str:
    """Say what to write where an argument does not fit its parameter; empty where it does, or nothing is known."""
    pointee, number = pointed_to_type(parameter.type), number_type(parameter.type)
    if argument.array:
        if parameter.size != POINTER or (number and number[0] == "f"):
            return "give the arguments in the order of the kernel's parameters"
        return _cure_of_array(argument.array, pointee)
    if pointee and not _is_opaque(argument.value.dtype):
        return "" if _may_be_address(argument.value) else "give an array"
    return _cure_of_number(argument, parameter, number)


def _may_be_address(value: np.generic) -> bool:
    is_word = value.dtype.kind in "iu" and value.dtype.itemsize == POINTER
    return is_word and not 0 < int(value) < LEAST_ADDRESS


def _is_opaque(dtype: np.dtype[np.generic]) -> bool:
    """Tell whether a value is a struct, or bytes of which only the number is known."""
    return dtype.kind == "V" and not is_float(dtype)


def _cure_of_array(array: CaseArray, pointee: str) -> str:
    """Say what to declare where a kernel takes an array for one of other elements; empty where it may be right."""
    number = number_type(pointee)
    if not number or not are_others(array.dtype, number):
        return ""
    wanted = _numpy_name(pointee, number[1], numpy_type(array.dtype))
    return f"declare {array.name} as {wanted}, or let the kernel take {C_TYPES[array.dtype]}*"


def _cure_of_number(argument: Argument, parameter: Parameter, number: tuple[str, int] | None) -> str:
    """Say what to write in place of a number or struct; empty where its bytes are what the kernel takes."""
    dtype = argument.value.dtype
    is_same_kind = _is_opaque(dtype) or not number or is_float(dtype) == (number[0] == "f")
    if dtype.itemsize == parameter.size and (is_same_kind or parameter.size < WORD):
        return ""
    name = _numpy_name(parameter.type, parameter.size, dtype)
    return (
        argument.cure.format(name)
        if name and not _is_opaque(dtype)
        else f"give {parameter.size} bytes, as np.dtype(..., align=True) does"
    )


def _numpy_name(name: str, size: int, dtype: np.dtype[np.generic]) -> str:
    """Return what NumPy calls a type of C++; of its size and the argument's kind where it is not one of numbers."""
    kind = (number_type(name) or ("f" if is_float(dtype) else "i", size))[0]
    if kind == "b" or "bfloat16" in name:
        return "bool" if kind == "b" else "bfloat16"
    known = (2, 4, 8) if kind == "f" else (1, 2, 4, 8)
    return f"{KINDS[kind]}{8 * size}" if size in known else ""


def are_others(dtype: str, number: tuple[str, int]) -> bool:
    """Tell whether elements cannot be what a kernel reads as numbers of a type.

    Many kernels take bytes, the bits of floating-point numbers as integers, or several small elements as one word.
    """
    kind, size = number
    element, floats = numpy_type(dtype), is_float(numpy_type(dtype))
    itemsize = element.itemsize // (2 if element.kind == "c" else 1)
    if kind == "b":
        return itemsize != 1
    if size == 1:
        return False
    return itemsize > size or (itemsize < size and floats and kind == "f" and itemsize > 1)


def odd(argument: Argument, parameter: Parameter, number: int) -> str:
    """Say that a kernel takes an array for one of other elements, which is right only if that is meant."""
    read, array = number_type(pointed_to_type(parameter.type)), argument.array
    if not read or not array or read[1] == 1:
        return ""
    dtype = numpy_type(array.dtype)
    if _are_alike(dtype, read):
        return ""
    return f"{array.name} is {array.dtype}, and the kernel takes {parameter} as its {ordinal(number)} parameter"


def unwritten(result: CaseArray, taken: Sequence[tuple[Argument, Parameter, int]]) -> str:
    """Say that the only pointers to a result that a kernel takes are to constants."""
    own = [each for each in taken if each[0].array and each[0].array.name == result.name]
    if not own or not all(_is_to_constants(parameter) for _, parameter, _ in own):
        return ""
    _, parameter, number = own[0]
    return f"{result.name} is a result, and the kernel takes {parameter} as its {ordinal(number)} parameter"


def written_inputs(taken: Sequence[tuple[Argument, Parameter, int]]) -> list[str]:
    """Say of each input that a kernel takes it by a pointer that it may write to."""
    return [
        f"{argument.array.name} is an input, and it takes {parameter} as its {ordinal(number)}"
        for argument, parameter, number in taken
        if argument.array and argument.array.role is Role.IN
        if number_type(pointed_to_type(parameter.type)) and not _is_to_constants(parameter)
    ]


def _is_to_constants(parameter: Parameter) -> bool:
    pointee = pointed_to_type(parameter.type)
    return "const" in pointee.split() and "*" not in pointee


def argument_of(
    word: str, number: int, value: np.generic, array: CaseArray | None, scalars: Mapping[str, object]
) -> Argument:
    """Return an argument with what messages call it. ``word``: as it is declared, empty where a function returns it."""
    if not word:
        shown = _shown(value.dtype) if value.dtype.names else f"{value.dtype.name} {value}"
        what = f"a pointer to {array.name} ({array.dtype})" if array else shown
        return Argument(value=value, name=f"argument {number}", kind=what, cure="give np.{}", array=array)
    name, _, given = word.partition("=")
    stem, _, typed = name.partition(":")
    cure = f'write "{stem}:{{}}{"=" + given if given else ""}"'
    if stem in scalars and not given:
        cure = f'declare {stem} as ww.Scalar({value}, "{{}}")'
    kind = f"an array of {array.dtype}" if array else "" if typed else value.dtype.name
    return Argument(value=value, name=f'"{word}"', kind=kind, cure=cure, array=array)


def _shown(dtype: np.dtype[np.generic]) -> str:
    return f"a struct of {dtype.itemsize} bytes" if dtype.names else dtype.name


def unfit_variable(symbol: str, size: int, declared: str, array: Copied, *, may_be_cut: bool) -> str:
    """Say why a variable cannot hold an array; empty where it can.

    ``size``: the variable's bytes. ``declared``: the type of its elements, empty if unknown. A variable may be larger.
    """
    number = number_type(declared)
    if number and size % number[1] == 0:
        is_whole = size * array.dtype.itemsize == number[1] * array.nbytes  # as many elements as the array
        if are_others(array.dtype.name, number) or (is_whole and array.dtype.itemsize != number[1] > 1):
            wanted = _numpy_name(declared, number[1], array.dtype)
            has = f"{symbol} holds {declared} ({number[1]} bytes) and {array.name} is {array.dtype.name}"
            return f"{has}; declare {array.name} as {wanted}"
    if size < array.nbytes and not may_be_cut:
        return f"{symbol} has {size:,} bytes and {array.name} has {array.nbytes:,}; make the variable as large"
    return ""


def odd_variable(symbol: str, size: int, declared: str, array: Copied) -> str:
    """Say that a variable has other elements than the array that is copied there, or that more would fit."""
    number, more = number_type(declared), size > array.nbytes
    if not more and (not number or number[1] == 1 or _are_alike(array.dtype, number)):
        return ""
    has = f"{size:,} bytes" + (f" of {declared}" if declared else "")
    return f"{symbol} has {has}, and {array.name}, {array.dtype.name}, fills {array.nbytes:,} of them"


def _are_alike(dtype: np.dtype[Any], number: tuple[str, int]) -> bool:
    return dtype.itemsize == number[1] and is_float(dtype) == (number[0] == "f")
