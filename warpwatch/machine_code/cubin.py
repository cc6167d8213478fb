"""Needs of the kernels of a cubin, by its ELF file, and how many of their warps a multiprocessor holds.

The limits of theoretical occupancy are those of the CUDA C++ Programming Guide, "Technical Specifications per Compute
Capability".
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from warpwatch.catalogue.launches import Capability
from warpwatch.devices.compile.compiler import Image, digest_of, read_image
from warpwatch.devices.compile.symbols import (
    ALLOCATED,
    BROKEN,
    CUDA,
    CUDA_ENTRY,
    CUDA_INFO,
    EXECUTABLE,
    NOBITS,
    SYMBOLS,
    Section,
    Symbol,
    find_elf,
    read_attributes,
    read_machine,
    read_sections,
    read_symbols,
)

PROGBITS = 1
REGISTERS, FRAME, LEAST_STACK = 0x2F, 0x11, 0x12  # attributes: of a symbol's number and a value each
# From this capability on, the shared memory that the system reserves lies in front of a kernel's own in its section.
RESERVED_IN_SECTION, RESERVED = Capability(9, 0), 1024


@dataclass(frozen=True, kw_only=True)
class Needs:
    """Needs of a kernel. ``shared_bytes``: static, of a block. ``local_bytes``: of a thread. ``code_bytes``: its size.

    ``code``: a hash of its machine code, with what schedules it, which no listing shows.
    """

    registers: int
    local_bytes: int
    shared_bytes: int
    code: str
    code_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class Cubin:
    """Needs of each kernel of a cubin, by its symbol. ``data``: a hash of constants and variables."""

    kernels: Mapping[str, Needs]
    data: str


def code_digest(image: Image, capability: Capability) -> str:
    """Return a digest of what a GPU runs of an image: kernels, their needs, constants and variables.

    It is the same whatever else a compiler writes into the file, such as its version. The digest of the file where this
    is not a cubin, and that of an image without a file, as of a call. Raises CompileError where the image is damaged.
    """
    cubin = read_cubin(read_image(image.path), capability) if image.path.name else None
    if not cubin:
        return image.image_hash
    kernels = (f"{name} {needs}" for name, needs in sorted(cubin.kernels.items()))
    return digest_of("\n".join([*kernels, cubin.data]).encode())


def read_cubin(image: bytes, capability: Capability) -> Cubin | None:
    """Read a cubin for GPUs of a capability; None where it is not one, such as PTX, or is damaged."""
    elf = find_elf(image)
    try:
        return _read(elf, capability) if elf and read_machine(elf) == CUDA else None
    except BROKEN:
        return None


def _read(elf: bytes, capability: Capability) -> Cubin:
    sections = read_sections(elf)
    table = next(section for section in sections if section.kind == SYMBOLS)
    symbols = read_symbols(elf, sections, table)
    of_all = (section for section in sections if section.kind == CUDA_INFO and not section.info)
    attributes = (each for section in of_all for each in read_attributes(elf, section) if len(each[1]) == 8)
    words = ((attribute, *struct.unpack("<II", payload)) for attribute, payload in attributes)
    values = {(attribute, number): value for attribute, number, value in words}  # number: of a symbol
    kernels = {}
    for number, symbol in enumerate(symbols):
        if not symbol.section or not symbol.other & CUDA_ENTRY:
            continue
        kernels[symbol.name] = Needs(
            registers=values.get((REGISTERS, number), 0),
            local_bytes=max(values.get((FRAME, number), 0), values.get((LEAST_STACK, number), 0)),
            shared_bytes=_shared_bytes(sections, symbol, capability),
            code=_hash(elf, sections[symbol.section]),
            code_bytes=sections[symbol.section].length,
        )
    data = sorted(_hash(elf, section) for section in sections if _is_data(section))
    return Cubin(kernels=kernels, data=digest_of("".join(data).encode()))


def _shared_bytes(sections: Sequence[Section], kernel: Symbol, capability: Capability) -> int:
    own = [s for s in sections if s.kind == NOBITS and s.info == kernel.section and s.flags & ALLOCATED]
    total = sum(section.length for section in own)
    return max(0, total - RESERVED) if capability >= RESERVED_IN_SECTION else total


def _is_data(section: Section) -> bool:
    """Tell whether a section holds constants or variables; variables without an initial value count by their size."""
    kept = section.kind == PROGBITS or (section.kind == NOBITS and not section.info)
    return bool(kept and section.flags & ALLOCATED and not section.flags & EXECUTABLE)


def _hash(elf: bytes, section: Section) -> str:
    if section.kind == NOBITS:
        return digest_of(str(section.length).encode())
    return digest_of(elf[section.offset : section.offset + section.length])


WARP = 32
REGISTER_FILE = 65_536  # of a multiprocessor, since compute capability 5.0 (but for 5.3 and 6.2)
REGISTER_UNIT = 256  # registers are given to a warp in multiples of it
PARTITIONS = 4  # of a multiprocessor, each with its share of the registers
KIB = 1024


@dataclass(frozen=True)
class Limits:
    """Limits of a multiprocessor.

    ``reserved``: bytes of shared memory that the system takes of each block. ``shared_unit``: shared memory is given in
    multiples of it.
    """

    warps: int
    blocks: int
    shared_bytes: int
    reserved: int = KIB
    shared_unit: int = 128


LIMITS = {
    (7, 5): Limits(32, 16, 64 * KIB, reserved=0, shared_unit=256),
    (8, 0): Limits(64, 32, 164 * KIB),
    (8, 6): Limits(48, 16, 100 * KIB),
    (8, 7): Limits(48, 16, 164 * KIB),
    (8, 9): Limits(48, 24, 100 * KIB),
    (9, 0): Limits(64, 32, 228 * KIB),
    (10, 0): Limits(64, 32, 228 * KIB),
    (10, 3): Limits(64, 32, 228 * KIB),
    (11, 0): Limits(48, 24, 228 * KIB),
    (12, 0): Limits(48, 24, 100 * KIB),
    (12, 1): Limits(48, 24, 100 * KIB),
}


@dataclass(frozen=True, kw_only=True)
class Occupancy:
    """Theoretical occupancy of a kernel: ``blocks`` of a multiprocessor, and ``limited_by`` what."""

    share: float
    blocks: int
    limited_by: str


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def occupancy(capability: tuple[int, int], *, threads: int, registers: int, shared_bytes: int) -> Occupancy | None:
    """Return the occupancy of a kernel in blocks of ``threads``; None for a GPU whose limits are not known here.

    ``registers``: of a thread. ``shared_bytes``: of a block, static and dynamic, without what the system reserves.
    """
    limits = LIMITS.get(capability)
    if limits is None:
        return None
    warps = -(-threads // WARP)
    most = {"threads": limits.warps // warps}
    if registers:
        # A partition holds whole warps alone.
        resident = REGISTER_FILE // PARTITIONS // _up(registers * WARP, REGISTER_UNIT) * PARTITIONS
        most["registers"] = resident // warps
    if needed := shared_bytes + limits.reserved:
        most["shared memory"] = limits.shared_bytes // _up(needed, limits.shared_unit)
    most["blocks"] = limits.blocks
    blocks = min(most.values())
    return Occupancy(
        share=blocks * warps / limits.warps, blocks=blocks, limited_by=next(k for k, v in most.items() if v == blocks)
    )
