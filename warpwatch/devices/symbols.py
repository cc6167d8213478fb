"""Reads the names of the kernels in a cubin, or in a shared object of the host, from its ELF symbols."""

from __future__ import annotations

import struct

SYMBOLS, DYNAMIC_SYMBOLS = 2, 11  # SHT_SYMTAB, SHT_DYNSYM
FUNCTION, GLOBAL, CUDA = 2, 1, 190  # STT_FUNC, STB_GLOBAL, EM_CUDA
CUDA_ENTRY = 0x10  # STO_CUDA_ENTRY: a function of a cubin that can be launched


def entries(image: bytes) -> list[str]:
    """List the kernels of a cubin, or the global functions of a shared object; none where it cannot be read.

    The software device's compiler makes a shared object behind a header of its own.
    """
    start = image.find(b"\x7fELF\x02\x01", 0, 64)  # 64 bits, least significant byte first
    try:
        return sorted(_read(image[start:])) if start >= 0 else []
    except (struct.error, UnicodeDecodeError, IndexError, ValueError):  # a file that is cut off, or no ELF file
        return []


def _read(elf: bytes) -> set[str]:
    (machine,) = struct.unpack_from("<H", elf, 18)
    (first,) = struct.unpack_from("<Q", elf, 40)
    size, count = struct.unpack_from("<HH", elf, 58)
    # Of each section: type, offset, length, number of the section with its strings.
    sections = [struct.unpack_from("<4xI16xQQI", elf, first + i * size) for i in range(count)]
    found: set[str] = set()
    for kind, offset, length, link in sections:
        if kind not in (SYMBOLS, DYNAMIC_SYMBOLS):
            continue
        strings = sections[link][1]
        for at in range(offset, offset + length, 24):
            name, info, other, section = struct.unpack_from("<IBBH", elf, at)
            defined = info == GLOBAL << 4 | FUNCTION and section
            if defined and (machine != CUDA or other & CUDA_ENTRY):
                begin = strings + name
                found.add(elf[begin : elf.index(b"\0", begin)].decode())
    return found


def missing_entry(entry: str, image: bytes) -> str:
    """Say that a file lacks a kernel, and which kernels it has."""
    known = entries(image)
    has = f"the file has {', '.join(known)}" if known else "no entries can be found in the file"
    return f'no kernel is named {entry}: {has}; a kernel is declared `extern "C"` and named <family>_<variant>'
