"""Holds what a case passes to its kernels to what they take: arguments to parameters, copied inputs to variables.

What is known nowhere is not checked. Where something may be meant, a note says it: the likely cause of a wrong result.

The machine code has the place and size of each parameter. Their types are in the kernel's mangled name and in the
software device's images. A kernel that is declared extern "C" has a plain name: a GPU's machine code then says nothing
of types, and the source does where it spells out those of C++.
"""

from __future__ import annotations

import contextlib
import functools
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from warpwatch.catalogue.arrays import CaseArray, Role
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.elements import C_TYPES, is_float, numpy_type
from warpwatch.catalogue.launches import Launch
from warpwatch.catalogue.textures import is_surface, is_texture, taken
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
    Section,
    Symbol,
    demangled,
    find_elf,
    opening,
    read_attributes,
    read_machine,
    read_relocations,
    read_sections,
    read_symbols,
)
from warpwatch.devices.machine import (
    DeviceError,
    Function,
    GuardedArray,
    Machine,
    Parameter,
    laid_out,
    parameters_for,
    with_copies,
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
WORD = 4  # bytes; of smaller numbers the bits of one kind are passed as another
UNKNOWN = Parameter(offset=0, size=0)
LEAST_ADDRESS = 1 << 32  # no array of a device lies below it
KINDS = {"i": "int", "u": "uint", "f": "float"}
Launches = Sequence[tuple[Function, Launch, Sequence["Argument"]]]


@dataclass(frozen=True)
class Prepared:
    """The first kernel that a case launches, and what launches them all. Other fields are those of Loaded."""

    function: Function
    start: Callable[[], None]
    notes: tuple[str, ...] = ()
    symbols: Mapping[str, str] = field(default_factory=dict)
    launches: Launches = ()


@dataclass(frozen=True, kw_only=True)
class Argument:
    """An argument of a launch.

    ``name``: as it is declared, or its number. ``kind``: its type in words, empty where the name says it. ``cure``: how
    a declaration says that it has another type, in the place of {}. ``number``: from 1. ``array``: the one that it
    points into, if any. ``parameter``: that takes it, where the kernel has as many as there are arguments.
    """

    value: np.generic
    name: str
    kind: str
    cure: str
    number: int
    array: CaseArray | None = None
    parameter: Parameter = UNKNOWN

    def __str__(self) -> str:
        return f"{self.name} is {self.kind}," if self.kind else self.name

    @property
    def read(self) -> tuple[str, int] | None:
        """Kind and size of the numbers that its parameter points to."""
        return number_type(pointed_to_type(self.parameter.type))

    @property
    def is_to_constants(self) -> bool:
        pointee = pointed_to_type(self.parameter.type)
        return "const" in pointee.split() and "*" not in pointee

    @property
    def place(self) -> str:
        number = self.number
        end = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
        return f"takes {self.parameter} as its {number}{end}"


def named_arguments(
    case: Case, addresses: Mapping[str, int], values: Sequence[np.generic], words: Sequence[str] = ()
) -> list[Argument]:
    """Return the arguments of a launch with what messages call them. ``words``: those of the declaration, if any."""
    named = []
    for number, value in enumerate(values):
        word = words[number] if number < len(words) else ""
        place = int(value) if value.dtype.kind in "iu" and value.dtype.itemsize == POINTER else 0
        inside = (a for a in case.arrays if addresses[a.name] <= place < addresses[a.name] + max(a.nbytes, 1))
        array = next(inside, None) if place else None
        named.append(argument_of(word, number + 1, value, array, case.family.scalars))
    return named


def argument_of(
    word: str, number: int, value: np.generic, array: CaseArray | None, scalars: Mapping[str, object]
) -> Argument:
    """Return an argument with what messages call it. ``word``: as it is declared, empty where a function returns it."""
    if not word:
        shown = f"a struct of {value.dtype.itemsize} bytes" if value.dtype.names else f"{value.dtype.name} {value}"
        if is_texture(value):
            shown = "a surface" if is_surface(value) else "a texture"
        kind = f"a pointer to {array.name} ({array.dtype})" if array else shown
        return Argument(
            value=value, name=f"argument {number}", kind=kind, cure="give np.{}", number=number, array=array
        )
    name, _, given = word.partition("=")
    stem, _, typed = name.partition(":")
    cure = f'write "{stem}:{{}}{"=" + given if given else ""}"'
    if stem in scalars and not given:
        cure = f'declare {stem} as ww.Scalar({value}, "{{}}")'
    kind = f"an array of {array.dtype}" if array else "" if typed else value.dtype.name
    return Argument(value=value, name=f'"{word}"', kind=kind, cure=cure, number=number, array=array)


def prepare_launches(
    machine: Machine,
    case: Case,
    kernels: Kernels,
    launches: Launches,
    inputs: Sequence[GuardedArray],
    symbols: Mapping[str, str],
) -> Prepared:
    """Prepare the launches of a case in order, of its own kernels or another revision's.

    ``symbols``: variable of the module -> the input that is copied there. Of an array that a kernel gets a pointer to
    as well a variable may hold less: the kernel can read the array where it does not fit. Raises DeviceError where a
    kernel cannot take its arguments, or a variable what is copied there.
    """
    notes = _check_arguments(case, kernels, launches)
    passed = [each.value for _, _, arguments in launches for each in arguments]
    cuda_arrays = machine.cuda_arrays(passed)  # which the launchers' textures are of
    starts = {  # with attributes first: where a module must be loaded again for them, all launches use that one
        i: machine.launcher(function, launch, [each.value for each in arguments])
        for i, (function, launch, arguments) in sorted(enumerate(launches), key=lambda it: not it[1][1].has_attributes)
    }
    pointed = {each.array.name for _, _, arguments in launches for each in arguments if each.array}
    for symbol, name in symbols.items():
        (array,) = (array for array in inputs if array.name == name)
        size = machine.set_constant(launches[0][0], symbol, array.address, array.nbytes)
        declared = declared_element(kernels, demangled([symbol])[0].rpartition("::")[2])
        if note := check_variable(symbol, size, declared, array, may_be_cut=name in pointed):
            notes.append(f"symbols   {note}")
    start = machine.in_sequence([launch for _, launch, _ in launches], [starts[i] for i in range(len(launches))])
    start = with_copies(start, cuda_arrays) if cuda_arrays else start
    return Prepared(launches[0][0], start, tuple(notes), symbols, launches)


def _check_arguments(case: Case, kernels: Kernels, launches: Launches) -> list[str]:
    """Return notes on what is unusual. Raises DeviceError where a kernel cannot take its arguments."""
    passed: list[Argument] = []
    for function, _, arguments in launches:
        parameters = typed_by_source(function.parameters, kernels, function.name)
        if parameters is None:
            continue
        name = demangled([function.name])[0].partition("(")[0]
        kernel = f"the kernel {name}" if len(launches) > 1 else "the kernel"
        if unfit(kernel, arguments, parameters):
            parameters = with_names(parameters, kernels, name)
            raise DeviceError(f"arguments: {unfit(kernel, arguments, parameters)}")
        if len(arguments) == len(parameters):
            passed += _pairs(arguments, parameters)
    unwritten = [
        f"{result.name} is a result, and the kernel {own[0].place} parameter"
        for result in case.results
        if (own := [each for each in passed if each.array and each.array.name == result.name])
        and all(each.is_to_constants for each in own)
    ]
    written = [
        f"{each.array.name} is an input, and it {each.place}"
        for each in passed
        if each.array and each.array.role is Role.IN and each.read and not each.is_to_constants
    ]
    if unwritten and written:
        raise DeviceError(f"arguments: {unwritten[0]}; {written[0]}: give them in the order of the kernel's parameters")
    odd = [
        f"{each.array.name} is {each.array.dtype}, and the kernel {each.place} parameter"
        for each in passed
        if each.array and each.read and each.read[1] != 1 and not _are_alike(numpy_type(each.array.dtype), each.read)
    ]
    return [f"arguments {note}" for note in (*unwritten, *odd)]


def _pairs(arguments: Sequence[Argument], parameters: Sequence[Parameter]) -> list[Argument]:
    return [replace(each, parameter=parameter) for each, parameter in zip(arguments, parameters, strict=True)]


def unfit(kernel: str, arguments: Sequence[Argument], parameters: Sequence[Parameter]) -> str:
    """Say why a kernel cannot take these arguments, and what to write; empty where nothing speaks against them."""
    if len(arguments) != len(parameters):
        given = ", ".join(each.name if each.name.startswith('"') else each.kind for each in arguments)
        takes = ", ".join(map(str, parameters))
        are = f"{len(arguments)} {'is' if len(arguments) == 1 else 'are'} given" if arguments else "none is given"
        fault = (
            f"{are}{f' ({given})' if given else ''}, but {kernel} takes {len(parameters) or 'none'}"
            f"{f' ({takes})' if takes else ''}; give one for each parameter, in the kernel's order"
        )
        return "" if _lie_alike(arguments, parameters) else fault
    faults = [
        f"{each} but {kernel} {each.place} parameter; {cure}"
        for each in _pairs(arguments, parameters)
        if (cure := _cure(each))
    ]
    more = f" ({len(faults) - 1} more {'do' if len(faults) > 2 else 'does'} not fit)" if len(faults) > 1 else ""
    return f"{faults[0]}{more}" if faults else ""


def _lie_alike(arguments: Sequence[Argument], parameters: Sequence[Parameter]) -> bool:
    """Return whether the bytes of arguments are those of the parameters, as where two numbers make a struct."""
    given = parameters_for([taken(each.value) for each in arguments])
    places, wanted = {each.offset for each in given}, {each.offset for each in parameters}
    missing = max((each.end for each in parameters), default=0) - max((each.end for each in given), default=0)
    is_padded = len(arguments) > len(parameters) and 0 < missing < POINTER  # at the end of a struct
    return (missing == 0 or is_padded) and (wanted <= places or wanted >= places)


def _cure(argument: Argument) -> str:
    """Say what to write where an argument does not fit its parameter; empty where it does, or nothing is known."""
    parameter, dtype = argument.parameter, taken(argument.value).dtype
    number = number_type(parameter.type)
    if argument.array:
        return _cure_of_array(argument, argument.array, number)
    is_opaque = dtype.kind == "V" and not is_float(dtype)  # a struct, or bytes of which only the number is known
    if pointed_to_type(parameter.type) and not is_opaque:
        may_be_address = dtype.kind in "iu" and dtype.itemsize == POINTER
        return "" if may_be_address and not 0 < int(argument.value) < LEAST_ADDRESS else "give an array"
    is_same_kind = is_opaque or not number or is_float(dtype) == (number[0] == "f")
    if dtype.itemsize == parameter.size and (is_same_kind or parameter.size < WORD):
        return ""
    name = _numpy_name(parameter.type, parameter.size, dtype)
    if name and not is_opaque:
        return argument.cure.format(name)
    return f"give {parameter.size} bytes, as np.dtype(..., align=True) does"


def _cure_of_array(argument: Argument, array: CaseArray, number: tuple[str, int] | None) -> str:
    """Say what to declare where a kernel takes an array for one of other elements; empty where it may be right."""
    if argument.parameter.size != POINTER or (number and number[0] == "f"):
        return "give the arguments in the order of the kernel's parameters"
    if not argument.read or not _are_others(array.dtype, argument.read):
        return ""
    wanted = _numpy_name(pointed_to_type(argument.parameter.type), argument.read[1], numpy_type(array.dtype))
    return f"declare {array.name} as {wanted}, or let the kernel take {C_TYPES[array.dtype]}*"


def _numpy_name(name: str, size: int, dtype: np.dtype[np.generic]) -> str:
    """Return what NumPy calls a type of C++; of its size and the argument's kind where it is not one of numbers."""
    kind = (number_type(name) or ("f" if is_float(dtype) else "i", size))[0]
    if kind == "b" or "bfloat16" in name:
        return "bool" if kind == "b" else "bfloat16"
    known = (2, 4, 8) if kind == "f" else (1, 2, 4, 8)
    return f"{KINDS[kind]}{8 * size}" if size in known else ""


def _are_others(dtype: str, number: tuple[str, int]) -> bool:
    """Return whether elements cannot be what a kernel reads as numbers of a type.

    Many kernels take bytes, the bits of floating-point numbers as integers, or several small elements as one word.
    """
    kind, size = number
    element, floats = numpy_type(dtype), is_float(numpy_type(dtype))
    itemsize = element.itemsize // (2 if element.kind == "c" else 1)
    if kind == "b":
        return itemsize != 1
    return size != 1 and (itemsize > size or (itemsize < size and floats and kind == "f" and itemsize > 1))


def _are_alike(dtype: np.dtype[Any], number: tuple[str, int]) -> bool:
    return dtype.itemsize == number[1] and is_float(dtype) == (number[0] == "f")


def check_variable(symbol: str, size: int, declared: str, array: GuardedArray, *, may_be_cut: bool) -> str:
    """Return a note where a variable has other elements than the array that is copied there, or more of them.

    ``size``: the variable's bytes. ``declared``: the type of its elements, empty if unknown. Raises DeviceError where
    the variable cannot hold the array.
    """
    number = number_type(declared)
    if number and size % number[1] == 0:
        is_whole = size * array.dtype.itemsize == number[1] * array.nbytes  # as many elements as the array
        if _are_others(array.dtype.name, number) or (is_whole and array.dtype.itemsize != number[1] > 1):
            wanted = _numpy_name(declared, number[1], array.dtype)
            has = f"{symbol} holds {declared} ({number[1]} bytes) and {array.name} is {array.dtype.name}"
            raise DeviceError(f"symbols: {has}; declare {array.name} as {wanted}")
    if size < array.nbytes and not may_be_cut:
        has = f"{symbol} has {size:,} bytes and {array.name} has {array.nbytes:,}"
        raise DeviceError(f"symbols: {has}; make the variable as large")
    if size <= array.nbytes and (not number or number[1] == 1 or _are_alike(array.dtype, number)):
        return ""
    has = f"{size:,} bytes" + (f" of {declared}" if declared else "")
    return f"{symbol} has {has}, and {array.name}, {array.dtype.name}, fills {array.nbytes:,} of them"


# Parameters in machine code


@functools.lru_cache(maxsize=1024)
def read_parameters(image: Path, symbol: str) -> tuple[Parameter, ...] | None:
    """Return the parameters of a kernel as an image has them, None where it does not say. Raises CompileError."""
    code = read_image(image)
    elf = find_elf(code)
    try:
        if not elf:
            return _typed(_of_ptx(code, symbol), _types_of(symbol))
        sections = read_sections(elf)
        symbols = read_symbols(elf, sections, next(each for each in sections if each.kind == SYMBOLS))
        if read_machine(elf) == CUDA:
            return _typed(_of_cubin(elf, sections, symbols, symbol), _types_of(symbol))
        return _of_software(elf, sections, symbols, symbol)
    except (*BROKEN, StopIteration, KeyError):
        return None


def _of_cubin(elf: bytes, sections: Sequence[Section], symbols: Sequence[Symbol], symbol: str) -> tuple[Parameter, ...]:
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
    return laid_out(members)


def _of_software(
    elf: bytes, sections: Sequence[Section], symbols: Sequence[Symbol], symbol: str
) -> tuple[Parameter, ...]:
    """Return the parameters as the software device's records have them (softcuda/include/softcuda/image.h).

    A record begins with the address of the function that takes the parameters apart, whose name has their types.
    """
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


# Types in sources


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
    return laid_out(zip(sizes, sizes, types, strict=True)) or None if all(sizes) else None


def _declared_types(kernels: Kernels, name: str) -> list[str]:
    """Return the types of a function's parameters as its source spells them, with macros of the declaration.

    Nothing where the source has no such kernel, or several that differ. Types may be any words.
    """
    text = _text_of(kernels)
    spellings = [[_divided(_resolved(part, kernels, text))[0] for part in parts] for parts in _spellings(text, name)]
    return spellings[0] if spellings and all(each == spellings[0] for each in spellings) else []


def with_names(parameters: tuple[Parameter, ...], kernels: Kernels, name: str) -> tuple[Parameter, ...]:
    """Return parameters with the names that the source gives them, where it has one kernel of that name and number.

    ``name``: of the kernel, with or without namespaces and what is in angle brackets.
    """
    bare = re.sub(r"<.*", "", name).split()[-1].rpartition("::")[2]
    names = [[_divided(part)[1] for part in parts] for parts in _spellings(_text_of(kernels), bare)]
    if not names or any(each != names[0] for each in names) or len(names[0]) != len(parameters):
        return parameters
    return tuple(replace(each, name=name) for each, name in zip(parameters, names[0], strict=True))


def _spellings(text: str, name: str) -> list[list[str]]:
    """Return the parameters of each kernel or function of the host of that name as a source spells them."""
    spellings = list[list[str]]()
    for match in re.finditer(rf"\b{re.escape(name)}\s*\(", text):
        before = re.split(r"[;{}]", text[max(0, match.start() - 400) : match.start()])[-1]
        end = _closing(text, match.end())
        if not re.search(r"\b__global__\b|\bvoid\s+$", before) or not re.match(r"\s*[;{]", text[end + 1 :]):
            continue
        parts = [part.partition("=")[0].strip() for part in _split(text[match.end() : end])]
        spellings.append([part for part in parts if part != "void"])
    return spellings


def declared_element(kernels: Kernels, name: str) -> str:
    """Return the type of a __constant__ or __device__ variable's elements as its source spells it; empty if unclear."""
    pattern = rf"\b(?:__constant__|__device__)\b([^;{{}}()=,]*?)\b{re.escape(name)}\s*(?=[\[;={{])"
    text = _text_of(kernels)
    types = {_resolved(match[1], kernels, text) for match in re.finditer(pattern, text)}
    words = [re.sub(r"\b__(?:constant|device|managed)__\b", " ", QUALIFIERS.sub(" ", name)) for name in types]
    return " ".join(words[0].split()) if len(words) == 1 else ""


def _text_of(kernels: Kernels) -> str:
    """Return a source and what it includes, without comments and strings; empty where numbers may be renamed there."""
    if kernels.text:
        return _without_renamed(kernels.text.code)
    with contextlib.suppress(OSError):
        return _plain_text(kernels.source, kernels.root, kernels.source.stat().st_ctime_ns)
    return ""


@functools.lru_cache(maxsize=256)  # each copy of each case asks
def _plain_text(source: Path, root: Path, changed: int) -> str:
    """Return what ``_text_of`` does for a source that was ``changed`` last at that time. Raises OSError."""
    paths = [source, *sorted(files_of(source, root) - {source})]
    return _without_renamed("\n".join(path.read_text(errors="replace") for path in paths))


def _without_renamed(text: str) -> str:
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


def _divided(parameter: str) -> tuple[str, str]:
    """Return type and name of a parameter: its name is the last word if that is not a type."""
    words = re.findall(r"[\w:]+|\S", parameter)
    is_name = len(words) > 1 and re.fullmatch(r"[A-Za-z_]\w*", words[-1]) and not QUALIFIERS.fullmatch(words[-1])
    named = is_name and not ({words[-1]} & BUILT_IN) and any(re.match(r"\w", word) for word in words[:-1])
    return (" ".join(words[:-1]), words[-1]) if named else (" ".join(words), "")


def _closing(text: str, place: int) -> int:
    """Return where the round bracket closes that is open at a place."""
    depth = 1
    while depth and place < len(text):
        depth += (text[place] == "(") - (text[place] == ")")
        place += 1
    return place - 1
