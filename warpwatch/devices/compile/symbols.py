"""Reads the names of kernels from the ELF symbols of a cubin, a shared object, or an image of the software device."""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

SYMBOLS, DYNAMIC_SYMBOLS = 2, 11  # SHT_SYMTAB, SHT_DYNSYM
NOBITS = 8  # SHT_NOBITS: of a section that has a length, and no content in the file
RELA, REL = 4, 9  # SHT_RELA, SHT_REL: relocations of 24 bytes with the number that is added, and of 16 without
ALLOCATED, EXECUTABLE = 2, 4  # SHF_ALLOC, SHF_EXECINSTR, flags of a section
OBJECT, FUNCTION, GLOBAL, CUDA = 1, 2, 1, 190  # STT_OBJECT, STT_FUNC, STB_GLOBAL, EM_CUDA
CUDA_ENTRY = 0x10  # STO_CUDA_ENTRY: a function of a cubin that can be launched
CUDA_INFO = 0x70000000  # the kind of a section .nv.info: of all kernels, or of the one whose section is linked
WITH_SIZE = 4  # the format of an entry of .nv.info that has a payload, of the size that it says
SOFTWARE_KERNEL = "softcuda_kernel."  # what softcuda/compiling/assembly.py puts before a kernel's name
BROKEN = (struct.error, UnicodeDecodeError, IndexError, ValueError)  # a file that is cut off, or no ELF file


class Section(NamedTuple):
    """A section of an ELF file. ``kind``: SHT_SYMTAB and so on. ``linked``, ``info``: sh_link and sh_info."""

    kind: int
    flags: int
    address: int
    offset: int
    length: int
    linked: int
    info: int


class Symbol(NamedTuple):
    """A symbol of an ELF file. ``section``: the number of the one that defines it, 0 for none."""

    name: str
    kind: int
    binding: int
    other: int
    section: int
    value: int
    size: int


def find_elf(image: bytes) -> bytes:
    """Return the ELF file in an image, where the software device's has a header of its own; nothing for other files."""
    start = image.find(b"\x7fELF\x02\x01", 0, 64)  # 64 bits, least significant byte first
    return image[start:] if start >= 0 else b""


def read_machine(elf: bytes) -> int:
    """Return the number of the machine that an ELF file is for."""
    return int(struct.unpack_from("<H", elf, 18)[0])


def code_bytes(image: bytes) -> int:
    """Return the bytes of machine code of a cubin; 0 where they are unknown, as of PTX."""
    elf = find_elf(image)
    try:
        sections = read_sections(elf) if elf and read_machine(elf) == CUDA else []
    except BROKEN:
        return 0
    return sum(section.length for section in sections if section.flags & EXECUTABLE)


def read_sections(elf: bytes) -> list[Section]:
    """List the sections of an ELF file. Raises one of BROKEN."""
    (first,) = struct.unpack_from("<Q", elf, 40)
    size, count = struct.unpack_from("<HH", elf, 58)
    return [Section(*struct.unpack_from("<4xIQQQQII", elf, first + i * size)) for i in range(count)]


def read_symbols(elf: bytes, sections: Sequence[Section], table: Section) -> list[Symbol]:
    """List the symbols of a section that is a table of symbols. Raises one of BROKEN."""
    strings = sections[table.linked].offset
    symbols = []
    for name, info, *rest in struct.iter_unpack("<IBBHQQ", elf[table.offset : table.offset + table.length]):
        text = elf[strings + name : elf.index(b"\0", strings + name)].decode()
        symbols.append(Symbol(text, info & 15, info >> 4, *rest))
    return symbols


def read_attributes(elf: bytes, section: Section) -> Iterator[tuple[int, bytes]]:
    """Yield number and payload of each attribute of a cubin's section .nv.info that has a payload."""
    at, end = section.offset, section.offset + section.length
    while at < end:
        form, attribute, size = struct.unpack_from("<BBH", elf, at)
        at += 4
        if form == WITH_SIZE:
            yield attribute, elf[at : at + size]
            at += size


def entries(image: bytes) -> list[str]:
    """List the kernels of a cubin or of the software device's image, or the global functions of a shared object.

    The list is empty where the image cannot be read.
    """
    elf = find_elf(image)
    try:
        sections = read_sections(elf)
        tables = [section for section in sections if section.kind in (SYMBOLS, DYNAMIC_SYMBOLS)]
        symbols = [symbol for table in tables for symbol in read_symbols(elf, sections, table) if symbol.section]
        is_cubin = read_machine(elf) == CUDA
    except BROKEN:
        return []
    if software := {s.name.removeprefix(SOFTWARE_KERNEL) for s in symbols if s.name.startswith(SOFTWARE_KERNEL)}:
        return sorted(software)
    functions = [symbol for symbol in symbols if symbol.kind == FUNCTION]
    if is_cubin:  # a static kernel's symbol is local
        return sorted({symbol.name for symbol in functions if symbol.other & CUDA_ENTRY})
    return sorted({symbol.name for symbol in functions if symbol.binding == GLOBAL})


@functools.lru_cache(maxsize=256)  # each copy of each case asks
def variables(image: bytes) -> tuple[str, ...]:
    """List the names of the variables of a cubin or of the software device's image, and of other objects in it.

    The list is empty where the image cannot be read.
    """
    elf = find_elf(image)
    try:
        sections = read_sections(elf)
        tables = [section for section in sections if section.kind in (SYMBOLS, DYNAMIC_SYMBOLS)]
        symbols = [symbol for table in tables for symbol in read_symbols(elf, sections, table)]
    except BROKEN:
        return ()
    return tuple(sorted({s.name for s in symbols if s.kind == OBJECT and s.section and s.size}))


def pointed_to(image: bytes, table: str) -> list[str]:
    """List the names of the functions that a table of addresses holds, as the image's relocations say them.

    ``table``: the name of an array that the image defines. The list is empty where it cannot be read; a name is empty
    where no function is known at an address.
    """
    elf = find_elf(image)
    try:
        sections, is_cubin = read_sections(elf), read_machine(elf) == CUDA
        (symbols,) = (read_symbols(elf, sections, section) for section in sections if section.kind == SYMBOLS)
        array = next(symbol for symbol in symbols if symbol.name == table and symbol.section)
        names = [""] * (array.size // 8)
        functions = {symbol.value: symbol.name for symbol in symbols if symbol.kind == FUNCTION and symbol.section}
        for section in sections:
            # Offsets in a cubin count from the section, those in a shared object from the beginning of the file.
            if section.kind not in (REL, RELA) or (is_cubin and section.info != array.section):
                continue
            others = read_symbols(elf, sections, sections[section.linked])
            for offset, number, added in read_relocations(elf, section):
                if 0 <= offset - array.value < array.size:
                    names[(offset - array.value) // 8] = others[number].name if number else functions.get(added, "")
    except (*BROKEN, StopIteration):
        return []
    from softcuda.compiling.assembly import external  # noqa: PLC0415  # whose images alone need it

    return names if is_cubin else [external(name) for name in names]  # as the image's list of kernels has them


def read_relocations(elf: bytes, section: Section) -> Iterator[tuple[int, int, int]]:
    """Yield the offset, the number of the symbol and the number to add of each relocation of a section."""
    form = "<QQq" if section.kind == RELA else "<QQ"
    for offset, info, *added in struct.iter_unpack(form, elf[section.offset : section.offset + section.length]):
        yield offset, info >> 32, added[0] if added else 0


def demangled(names: Sequence[str]) -> list[str]:
    """Return names as C++ writes them, without the type that they return; unchanged where C++'s library is missing."""
    return [_demangled(name) for name in names]


@functools.lru_cache(maxsize=4096)
def _demangled(name: str) -> str:
    demangle, libc = _demangler()
    found = demangle(name.encode(), None, None, None) if demangle and name.startswith("_Z") else None
    if not found:
        return name
    text = ctypes.string_at(found).decode(errors="replace")
    libc.free(found)
    return text.removeprefix("void ")


@functools.cache
def _demangler() -> tuple[Any, ctypes.CDLL]:
    """Return what C++'s library demangles names by, None where there is no such library, and C's library."""
    libc = ctypes.CDLL(None)
    libc.free.argtypes = (ctypes.c_void_p,)
    try:
        demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except (OSError, AttributeError):
        return None, libc
    demangle.restype = ctypes.c_void_p
    demangle.argtypes = (ctypes.c_char_p, *[ctypes.c_void_p] * 3)
    return demangle, libc


def opening(text: str) -> int:
    """Return where the round bracket opens that closes at the end of a text."""
    depth = 0
    for position in reversed(range(len(text))):
        depth += (text[position] == ")") - (text[position] == "(")
        if not depth:
            return position
    return 0


def missing_entry(entry: str, image: bytes) -> str:
    """Say that a file lacks a kernel, and which kernels it has."""
    known = demangled(entries(image))
    has = f"the file has {', '.join(known)}" if known else "no entries can be found in the file"
    return f'no kernel is named {entry}: {has}; a kernel is declared `extern "C"` and named <family>_<variant>'
