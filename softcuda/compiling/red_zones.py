"""Puts gaps between the variables of a kernel, in the assembly that g++ writes, and lists them for the driver."""

from __future__ import annotations

import re

import declarations

RED_ZONE = 128  # bytes between variables, which belong to none of them
MAX_SHARED = 48 * 1024
# Shared memory that a launch adds: dynamic_gap and dynamic_area of image.h say how much.
DYNAMIC = ['\t.section softcuda_dynamic,"aw",@nobits', "\t.balign 128", "\t.globl softcuda_dynamic_area",
           "\t.hidden softcuda_dynamic_area",
           f"\t.zero {RED_ZONE}", "softcuda_dynamic_area:", f"\t.zero {232448 + 128}"]  # fmt: skip

# What would run before main, for variables of the host such as those of <iostream>. The linker leaves out what nothing
# but such a section refers to.
NEVER_RUN = re.compile(r"^\s*\.section\s+\.(?:init_array|fini_array|ctors|dtors)\b.*$", re.MULTILINE)
LIBRARY = re.compile(r"(?:^|\s)_Z(?:GV)?N?K?St|(?:^|\s)__dso_handle")  # a variable of the C++ library's

INSTRUCTION_OR_LINE = re.compile(r"\t(?:[a-z]|\.loc\b|\.(?:byte|value|long|quad|string|uleb128|sleb128)\b)|\.L")


def with_red_zones(lines: list[str]) -> tuple[list[str], str]:
    """The assembly with gaps between variables, and a list of them at its end.

    What a function calls its own and static is shared memory; what lies in .data or .bss is a device variable.
    Returns the lines, and what is wrong with them: more shared memory than a block may have.
    """
    text = NEVER_RUN.sub('\t.section .softcuda_never_run,"e",@progbits', "\n".join(lines))
    objects = set(re.findall(r"^\s*\.type\s+(\S+),\s*[@%]object", text, re.MULTILINE))
    sizes = {name: int(size) for name, size in re.findall(r"^\s*\.size\s+(\S+),\s*(\d+)$", text, re.MULTILINE)}
    out = ['\t.section softcuda_shared,"aw"', "\t.balign 128", "\t.globl softcuda_shared_first",
           "\t.hidden softcuda_shared_first", "softcuda_shared_first:", f"\t.zero {RED_ZONE}"]  # fmt: skip
    symbols: list[tuple[str, int, int]] = []
    late: list[tuple[str, int, int]] = []  # zeroed variables that the linker would have placed: name, size, alignment
    section = ".text"
    for line in text.split("\n"):
        if INSTRUCTION_OR_LINE.match(line):  # nearly all of them
            out.append(line)
            continue
        if match := re.match(r"\s*\.section\s+([^,\s]+)|\s*(\.text|\.data|\.bss)\b", line):
            section = match[1] or match[2]
        label = re.match(r"(\S+):$", line)
        if (match := re.match(r"\s*\.comm\s+([^,]+),(\d+),(\d+)", line)) and not LIBRARY.search(line):
            late.append((match[1], int(match[2]), int(match[3])))
        elif label and label[1] in objects and (kind := kind_of(label[1], section)) is not None:
            out += [f"\t.zero {RED_ZONE}", line]
            symbols.append((label[1], sizes[label[1]], kind))
        elif not re.match(r"\s*\.local\s", line) or LIBRARY.search(line):
            out.append(line)
    for name, size, alignment in late:
        kind = SHARED if name.startswith("_ZZ") else DEVICE
        out += [f'\t.section {SECTIONS[kind]},"aw"', f"\t.balign {max(alignment, 64)}", f"\t.zero {RED_ZONE}",
                f"{name}:", f"\t.zero {size}"]  # fmt: skip
        symbols.append((name, size, kind))
    for name in ("softcuda_shared", "softcuda_constant", "softcuda_device", ".data", ".bss"):
        out += [f'\t.section {name},"aw"' if not name.startswith(".") else f"\t{name.replace('.bss', '.section .bss')}",
                f"\t.zero {RED_ZONE}"]  # fmt: skip
    out += ['\t.section softcuda_shared,"aw"', "\t.globl softcuda_shared_last", "\t.hidden softcuda_shared_last",
            "softcuda_shared_last:", *DYNAMIC, *symbol_table(symbols), *declarations.kernel_table(text)]  # fmt: skip
    return out, shared_too_large(symbols)


SHARED, CONSTANT, DEVICE = 0, 1, 2  # as in image.h
SECTIONS = {SHARED: "softcuda_shared", CONSTANT: "softcuda_constant", DEVICE: "softcuda_device"}


def kind_of(name: str, section: str) -> int | None:
    """What a variable in a section is to a kernel; None for what is none of its."""
    if section in SECTIONS.values():
        return next(kind for kind, known in SECTIONS.items() if known == section)
    if (
        name.startswith(("softcuda_", ".L"))
        or LIBRARY.search(name)
        or not re.match(r"\.(data|bss)\b", section)
        or section.startswith(".data.rel.ro")
    ):
        return None
    return SHARED if name.startswith("_ZZ") else DEVICE


def symbol_table(symbols: list[tuple[str, int, int]]) -> list[str]:
    """softcuda::Symbol, one for each variable, and their names."""
    out = ['\t.section .data.rel.ro,"aw"', "\t.balign 16"]
    out += ["\t.globl softcuda_symbols", "\t.hidden softcuda_symbols", "softcuda_symbols:"]
    for number, (name, size, kind) in enumerate(symbols):
        out.append(f"\t.quad {name}, {size}, .Lsoftcuda_name{number}, {kind}")
    out += ["\t.globl softcuda_symbols_end", "\t.hidden softcuda_symbols_end", "softcuda_symbols_end:"]
    out.append("\t.section .rodata")
    for number, (name, _, _) in enumerate(symbols):
        out += [f".Lsoftcuda_name{number}:", f'\t.string "{name}"']
    return out


def shared_too_large(symbols: list[tuple[str, int, int]]) -> str:
    """ptxas's complaint, for the function that has more than a block may have."""
    totals: dict[str, int] = {}
    for name, size, kind in symbols:
        if kind == SHARED:
            function = match[1] if (match := re.match(r"_ZZ\d*(.*)E\d", name)) else ""
            totals[function] = totals.get(function, 0) + size
    for function, total in totals.items():
        if total > MAX_SHARED:
            return f"{function} uses too much shared data ({total:,} bytes, {MAX_SHARED:,} max)"
    return ""
