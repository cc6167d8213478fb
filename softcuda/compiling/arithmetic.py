"""Gives conversions and shifts the results of a GPU where C++ leaves them undefined, in the assembly that g++ writes.

An x86 makes 0x80000000 of a float that an int has no room for, and shifts by the lowest bits of a count; a GPU takes
the nearest integer, and shifts everything out. g++ -fsanitize=float-cast-overflow,shift-exponent calls a function just
before such an instruction, with the types. device/arithmetic.cpp has these functions, and notes there what a GPU gives;
the instruction that follows then takes that result. It is known by its operands: others may come between.
aarch64 converts as a GPU does, but for NaN and 64 bits, and to 8 and 16 bits.

A sum of a product is rounded once (-fmad=true, nvcc's default) where the processor can do that.
"""

from __future__ import annotations

import re
from pathlib import Path

# This also turns off -faggressive-loop-optimizations, which would end a loop over a whole array by its first row, such
# as `counters[0][i] = 0`, at the end of that row.
UNDEFINED = ["-fsanitize=float-cast-overflow,shift-exponent", "-fno-tree-slp-vectorize"]
BLOCK = "softcuda_undefined"  # softcuda::Undefined of image.h: pending, kind, kept, source, result
PENDING, KIND, KEPT, SOURCE, RESULT = (f"{BLOCK}+{offset}(%rip)" for offset in (0, 4, 8, 16, 24))
CONVERSION = re.compile(r"^\tv?cvtt(s[sd])2si([lq])\t(\S.*), (%\w+)$")
SHIFT = re.compile(r"^\t(sal|shl|shr|sar)([lq])\t%cl, (%\w+)$")
LONG = {f"%e{name}": f"%r{name}" for name in ("ax", "bx", "cx", "dx", "si", "di", "bp")}
LONG |= {f"%r{number}d": f"%r{number}" for number in range(8, 16)}
# Kinds, as device/arithmetic.cpp has them.
KINDS = {"ssl": 0, "ssq": 1, "sdl": 2, "sdq": 3, "shll": 4, "shlq": 5, "shrl": 6, "shrq": 7, "sarl": 8, "sarq": 9}


def flags(*, fused: bool) -> list[str]:
    """Return the flags of g++ by which it calls before what is undefined, and contracts as nvcc does, or never."""
    can = fused and " fma " in Path("/proc/cpuinfo").read_text().replace("\n", " ")
    return [*UNDEFINED, *(["-mfma", "-ffp-contract=fast"] if can else ["-ffp-contract=off"])]


def with_results_of_a_gpu(assembly: str) -> str:
    """Return the assembly, whose conversions and shifts ask for a noted result where one is pending."""
    written = assembly.split("\n")
    if "__ubsan_handle_float_cast_overflow" in assembly or "__ubsan_handle_shift_out_of_bounds" in assembly:
        for number, line in enumerate(written):
            if match := CONVERSION.match(line):
                written[number] = _conversion(line, number, *match.groups())
            elif match := SHIFT.match(line):
                written[number] = _shift(line, number, *match.groups())
    block = ['\t.section .softcuda_undefined,"aw",@nobits', "\t.balign 16", f"\t.globl {BLOCK}", f"\t.hidden {BLOCK}"]
    return "\n".join([*written, *block, f"{BLOCK}:", "\t.zero 32", ""])


def _conversion(line: str, number: int, operand: str, width: str, source: str, target: str) -> str:
    """Return a conversion that changes no flag: g++ may have a comparison before it and the jump behind."""
    usual = [f"\tmovq\t%rcx, {KEPT}", f"\tmovl\t{PENDING}, %ecx",
             f"\tjrcxz\t.Lsoftcuda_usual{number}", f"\tjmp\t.Lsoftcuda_rare{number}",
             f".Lsoftcuda_usual{number}:", f"\tmovq\t{KEPT}, %rcx", line]  # fmt: skip
    if source.startswith("%"):
        vector = "v" if line.startswith("\tv") else ""
        noted = [f"\t{vector}mov{operand}\t{source}, {SOURCE}"]
    else:
        load = f"\tmovl\t{source}, %ecx" if operand == "ss" else f"\tmovq\t{source}, %rcx"
        noted = [load, f"\tmovq\t%rcx, {SOURCE}", f"\tmovq\t{KEPT}, %rcx"]
    rare = [f"\tmovq\t{KEPT}, %rcx", *noted, line, *_ask(KINDS[operand + width], number, LONG.get(target, target))]
    return "\n".join([*usual, *_apart(number, rare)])


def _shift(line: str, number: int, name: str, width: str, target: str) -> str:
    usual = [f"\tcmpl\t$0, {PENDING}", f"\tjne\t.Lsoftcuda_rare{number}", line]
    register = LONG.get(target, target)
    rare = [f"\tmovq\t%rcx, {KEPT}", f"\tmovq\t{register}, {SOURCE}", line]
    kind = KINDS[name.replace("sal", "shl") + width]
    return "\n".join([*usual, *_apart(number, [*rare, *_ask(kind, number, register)])])


def _ask(kind: int, number: int, register: str) -> list[str]:
    """Return instructions that give a register what is noted for its value. %rcx keeps its value unless it is that."""
    return [f"\tmovq\t{register}, {RESULT}", f"\tmovl\t${kind}, {KIND}", "\tleaq\t-128(%rsp), %rsp",
            f"\tleaq\t{BLOCK}(%rip), %rcx", "\tcall\t*softcuda_noted_result@GOTPCREL(%rip)",
            "\tleaq\t128(%rsp), %rsp", f"\tmovq\t{KEPT}, %rcx", f"\tmovq\t{RESULT}, {register}",
            f"\tjmp\t.Lsoftcuda_done{number}"]  # fmt: skip


def _apart(number: int, rare: list[str]) -> list[str]:
    """Return instructions out of the way, in a section of their own: the linker drops it with its function."""
    begin = [f".Lsoftcuda_done{number}:", f'\t.pushsection .text.softcuda_rare{number},"ax",@progbits']
    return [*begin, f".Lsoftcuda_rare{number}:", *rare, "\t.popsection"]
