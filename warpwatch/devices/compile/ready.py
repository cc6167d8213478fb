"""Takes machine code that is there already: .cubin, .ptx and .fatbin files, and what a function returns.

PyCUDA's module_from_buffer loads all three. What the driver would answer with "device kernel image is invalid" or "no
kernel image is available" is a sentence here that says why.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from warpwatch.devices.compile.compiler import CompileError, Image, Target, cached, digest_of, nvcc, read_image
from warpwatch.devices.compile.symbols import BROKEN, CUDA, demangled, entries, read_machine, read_sections

READY = (".cubin", ".ptx", ".fatbin")
NOBITS = 8  # SHT_NOBITS: a section that takes no room in the file
FATBIN = b"\x50\xed\x55\xba"  # the first bytes of a fatbin, whose header's last 8 of 16 bytes say how many follow
SOFTWARE = b"SOFTCUDA"  # the first bytes of an image for the software device
HEADER = 24  # bytes in front of its shared object, of which the second 8 say how many follow


def code_image(code: bytes, name: str, target: Target) -> Image:
    """Keep machine code that a function returned, and return it as an image.

    ``code``: a cubin, a fatbin, an image for the software device, or PTX. ``name``: what messages call it. Raises
    CompileError where the code cannot run on the target's device.
    """
    kind = _check(code, name, target)
    data = code + b"\0" * (kind == ".ptx" and not code.endswith(b"\0"))  # the driver reads as far as that
    stem, key = re.sub(r"\W", "_", Path(name).stem), digest_of(data)
    entry = cached(f"{stem}-{key}", kind, lambda: data)
    return Image(entry.path, key, entry.checksum)


def find_entries(image: Path, names: Sequence[str], shown: str) -> Mapping[str, str]:
    """Return the symbols of an image's kernels, by their symbols or the names that C++ has for these.

    Nothing is looked up in a fatbin, whose parts may be compressed. ``shown``: what messages call the image. Raises
    CompileError where a kernel is missing.
    """
    code = read_image(image)
    if code.startswith(FATBIN):
        return {name: name for name in names}
    in_ptx = sorted(kernel.decode() for kernel in re.findall(rb"\.entry\s+([\w$.]+)", code))
    symbols = entries(code) if code.startswith((b"\x7fELF", SOFTWARE)) else in_ptx
    return {name: _find(name, symbols, shown) for name in names}


def _find(name: str, symbols: Sequence[str], shown: str) -> str:
    if name in symbols:
        return name
    wanted, known = "".join(name.split()), dict(zip(symbols, demangled(symbols), strict=True))
    written = {symbol: "".join(text.split()) for symbol, text in known.items()}
    matches = [symbol for symbol, text in written.items() if text in (wanted, f"{wanted}()")]
    matches = matches or [symbol for symbol, text in written.items() if _without_parameters(text) == wanted]
    if len(matches) == 1:
        return matches[0]
    how = f"has {len(matches)} kernels" if matches else "has no kernel"
    raise CompileError(f"{shown} {how} named {name}: the file has {', '.join(known.values()) or 'none at all'}")


def _without_parameters(text: str) -> str:
    """Return 'ns::scale<4>' of 'ns::scale<4>(float*,int)'; a bracket of a template's argument does not count."""
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "<") - (character == ">")
        if character == "(" and depth == 0 and not text.startswith("(anonymousnamespace)", position):
            return text[:position].replace("(anonymousnamespace)::", "")
    return text


def is_ptx(data: bytes) -> bool:
    return re.search(rb"^\s*\.version\s+\d", data, re.MULTILINE) is not None


def _check(data: bytes, name: str, target: Target) -> str:
    """Return the tail of a file of this kind. Raises CompileError where the target's device cannot run it."""
    on_software = bool(target.program) and "NVIDIA" not in nvcc(target.program).banner
    if data.startswith(SOFTWARE):
        if not on_software:
            raise CompileError(f"{name} is an image for the software device, and cannot run on a GPU")
        _check_length(data, name, HEADER + int.from_bytes(data[8:16], "little"))
        return ".cubin"
    is_kind = {
        ".cubin": data.startswith(b"\x7fELF"),
        ".fatbin": data.startswith(FATBIN),
        ".ptx": is_ptx(data),
    }
    if not (kinds := [kind for kind, is_it in is_kind.items() if is_it]):
        raise CompileError(f"{name} is neither a cubin nor PTX nor a fatbin: it begins with {data[:8]!r}")
    if on_software:
        code = {".cubin": "a GPU's machine code", ".ptx": "PTX", ".fatbin": "a fatbin"}[kinds[0]]
        raise CompileError(
            f"{name} is {code}, which the software device cannot run: give the source, or run it on a GPU"
        )
    if kinds[0] == ".fatbin":
        _check_length(data, name, sum(struct.unpack_from("<HQ", data, 6)) if len(data) >= 16 else 16)
    else:
        (_check_cubin if kinds[0] == ".cubin" else _check_ptx)(data, name, target.arch)
    return kinds[0]


def _check_length(data: bytes, name: str, needed: int) -> None:
    if len(data) < needed:
        raise CompileError(f"{name} is cut off: it has {len(data):,} bytes")


def _check_cubin(data: bytes, name: str, arch: str) -> None:
    machine = flags = 0
    try:
        tables = struct.unpack_from("<QQ", data, 32)  # of segments and of sections
        sizes = struct.unpack_from("<HHHH", data, 54)
        ends = [first + sizes[2 * i] * sizes[2 * i + 1] for i, first in enumerate(tables)]
        ends += [part.offset + part.length for part in read_sections(data) if part.kind != NOBITS]
        machine, (flags,) = read_machine(data), struct.unpack_from("<I", data, 48)
    except BROKEN:
        ends = [len(data) + 1]
    _check_length(data, name, max(ends))
    if machine != CUDA:
        raise CompileError(
            f"{name} is an ELF file, but not a cubin: its machine has the number {machine}, a GPU's has {CUDA}"
        )
    # The architecture is in bits 8 to 15 since version 8 of this format (CUDA 13), and was in bits 0 to 7 before.
    number = flags >> 8 & 255 if data[8] >= 8 else flags & 255
    (major, minor), (own_major, own_minor) = divmod(number, 10), _capability(arch)
    if major != own_major or minor > own_minor:
        raise CompileError(f"{name} is machine code for sm_{number}, which {arch} cannot run: compile it for {arch}")


def _check_ptx(data: bytes, name: str, arch: str) -> None:
    target = re.search(rb"^\s*\.target\s+sm_(\d+)(\w?)", data, re.MULTILINE)
    if not target or data.count(b"{") != data.count(b"}") or b".entry" not in data:
        raise CompileError(f"{name} is cut off, or is not PTX with a kernel: it has {len(data):,} bytes")
    needed, own, kind = divmod(int(target[1]), 10), _capability(arch), target[2].decode()
    if needed > own or (kind and (needed[0] != own[0] or (kind == "a" and needed != own))):
        wanted = f"sm_{target[1].decode()}{kind}"
        raise CompileError(
            f"{name} is PTX for {wanted}, which {arch} cannot run: compile it for {arch} or an older one"
        )


def _capability(arch: str) -> tuple[int, int]:
    return divmod(int(re.sub(r"\D", "", arch)), 10)
