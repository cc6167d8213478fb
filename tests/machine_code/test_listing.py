"""Tests the parsing of nvdisasm's listings, on texts like those that it prints of small kernels."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from warpwatch.machine_code.disassembler import inside_loops, loops, mix, parse
from warpwatch.machine_code.instructions import Instruction

# A loop of four instructions; then what fills the section up.
LOOP = """
\t.section\t.text.add,"ax",@progbits
\t.sectioninfo\t@"SHI_REGISTERS=10"
\t.align\t128
        .type           add,@function
add:
.text.add:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
        /*0010*/              @!P0 EXIT ;
.L_x_0:
        /*0020*/                   LDG.E.128.CONSTANT R8, desc[UR6][R2.64] ;
        /*0030*/                   FFMA R4, R8, 2, R4 ;
        /*0040*/                   ISETP.NE.AND P0, PT, R5, RZ, PT ;
        /*0050*/               @P0 BRA `(.L_x_0) ;
        /*0060*/                   STG.E desc[UR6][R2.64], R4 ;
        /*0070*/                   EXIT ;
.L_x_1:
        /*0080*/                   BRA `(.L_x_1);
        /*0090*/                   NOP;
        /*00a0*/                   NOP;
.L_x_2:
"""
# The code that is seldom run stands behind the rest, and goes back: no loop.
OUT_OF_LINE = """
\t.section\t.text.far,"ax",@progbits
.text.far:
        /*0000*/              @!P0 BRA `(.L_x_3) ;
.L_x_4:
        /*0010*/                   STG.E desc[UR6][R2.64], R4 ;
        /*0020*/                   EXIT ;
.L_x_3:
        /*0030*/                   MUFU.RCP R4, R4 ;
        /*0040*/                   BRA `(.L_x_4) ;
"""
# A function that is called from a loop, and a jump by a table.
CALLED = """
\t.section\t.text.calls,"ax",@progbits
calls:
.text.calls:
        /*0000*/                   MOV R2, RZ ;
.L_x_5:
        /*0010*/                   MOV R20, 0x30 ;
        /*0020*/                   CALL.REL.NOINC `($__internal_7_$__cuda_sm20_div_rn_f64_full) ;
        /*0030*/               @P0 BRA `(.L_x_5) ;
        /*0040*/                   BRX R2 -0x50            (*"BRANCH_TARGETS .L_x_6,.L_x_7"*);
.L_x_6:
        /*0050*/                   EXIT ;
.L_x_7:
        /*0060*/                   EXIT ;
        .weak           $__internal_7_$__cuda_sm20_div_rn_f64_full
$__internal_7_$__cuda_sm20_div_rn_f64_full:
        /*0070*/                   DFMA R4, R4, R6, R8 ;
        /*0080*/                   RET.REL.NODEC R20 `(calls) ;
"""


def loop_sizes(instructions: Sequence[Instruction]) -> list[int]:
    return [end - begin + 1 for begin, end in loops(instructions)]


def moved(listing: str) -> str:
    """Return a listing as it would be in another place of a file: other addresses, labels and numbers of functions."""
    text = re.sub(r"/\*([0-9a-f]+)\*/", lambda match: f"/*{int(match[1], 16) + 0x700:04x}*/", listing)
    return re.sub(r"L_x_(\d)", r"L_x_4\1", text).replace("__internal_7_", "__internal_31_")


def test_branches_lead_to_instructions_and_padding_is_left_out() -> None:
    (add,) = parse(LOOP).values()
    assert [each.opcode for each in add][-1] == "EXIT"
    assert len(add) == 8
    assert add[5] == Instruction(predicate="@P0", opcode="BRA", targets=(2,))
    assert str(add[2]) == "LDG.E.128.CONSTANT R8, desc[UR6][R2.64]"


def test_place_and_order_in_the_file_make_no_difference() -> None:
    first, second = parse(LOOP + OUT_OF_LINE + CALLED), parse(moved(CALLED + LOOP + OUT_OF_LINE))
    assert len(first) == 3
    assert first == second
    assert parse(LOOP.replace("FFMA R4, R8, 2", "FFMA R4, R8, 3")) != parse(LOOP)
    assert parse(LOOP.replace("BRA `(.L_x_0)", "BRA `(.L_x_1)")) != parse(LOOP)


def test_sections_of_other_things_are_none_of_the_code() -> None:
    assert parse('\t.section\t.nv.info,"",@"SHT_CUDA_INFO"\n.L_1:\n        /*0010*/  .byte 0x04, 0x2f\n') == {}


def test_instructions_in_a_loop_are_told_from_the_rest() -> None:
    (add,) = parse(LOOP).values()
    assert inside_loops(add) == [False, False, True, True, True, True, False, False]
    assert loop_sizes(add) == [4]


def test_a_jump_back_from_code_that_is_seldom_run_is_no_loop() -> None:
    (far,) = parse(OUT_OF_LINE).values()
    assert far[-1].targets == (1,)
    assert not any(inside_loops(far))
    assert loop_sizes(far) == []


def test_a_function_that_a_loop_calls_is_inside_it() -> None:
    (calls,) = parse(CALLED).values()
    assert [str(each) for each, inside in zip(calls, inside_loops(calls), strict=True) if not inside] == [
        "MOV R2, RZ",
        "BRX R2 ->5 ->6",
        "EXIT",
        "EXIT",
    ]
    assert loop_sizes(calls) == [3]


def test_two_branches_to_one_target_are_one_loop() -> None:
    twice = LOOP.replace("                   FFMA R4, R8, 2, R4", "              @!P1 BRA `(.L_x_0)")
    assert loop_sizes(next(iter(parse(twice).values()))) == [4]


@pytest.mark.parametrize(("branch", "size"), [("BRA P2, `(.L_x_9)", 4), ("BRA PT, `(.L_x_9)", 0)])
def test_a_branch_with_a_second_condition_may_not_be_taken(branch: str, size: int) -> None:
    """The branch leaves the loop of four; one that is always taken would leave none."""
    text = LOOP.replace("FFMA R4, R8, 2, R4", branch).replace("        /*0060*/", ".L_x_9:\n        /*0060*/")
    (add,) = parse(text).values()
    assert sum(inside_loops(add)) == size
    assert loop_sizes(add) == [size] * bool(size)


def test_a_branch_that_is_never_taken_closes_no_loop() -> None:
    (add,) = parse(LOOP.replace(" @P0 BRA", "@!PT BRA")).values()
    assert not any(inside_loops(add))


def test_functions_elsewhere_are_told_apart_without_the_compilers_numbers() -> None:
    text = LOOP.replace("MOV R1, c[0x0][0x28]", "CALL.ABS.NOINC `($__internal_7_$__cuda_sm20_div_rn_f64_full)")
    assert parse(text) == parse(moved(text))
    assert parse(text) != parse(text.replace("div_rn", "sqrt_rn"))


def instruction(text: str) -> Instruction:
    opcode, _, operands = text.partition(" ")
    return Instruction(opcode=opcode, operands=operands)


def test_kinds() -> None:
    kinds = {
        "LDG.E R8, desc[UR6][R2.64]": "global load 4 B",
        "LDG.E.U8.CONSTANT R8, desc[UR6][R2.64]": "global load 1 B",
        "LDG.E.LTC128B.64 R8, desc[UR6][R2.64]": "global load 8 B",
        "LDG.E.ENL2.256 R8, R12, desc[UR6][R2.64]": "global load 32 B",
        "STG.E.U16 desc[UR6][R2.64], R4": "global store 2 B",
        "LDGSTS.E.BYPASS.LTC128B.128 [R0], desc[UR24][R12.64]": "global to shared 16 B",
        "LDS.128 R4, [R0]": "shared load 16 B",
        "LDSM.16.M88.4 R4, [R0]": "shared load matrix",
        "STL.64 [R1], R2": "local store 8 B",
        "LDL.LU R2, [R1]": "local load 4 B",
        "RED.E.ADD.F32.FTZ.RN.STRONG.GPU desc[UR4][R2.64], R5": "global atomic",
        "FFMA R1, R2, R3, R4": "FMA float32",
        "DFMA R2, R4, R6, R8": "FMA float64",
        "HFMA2 R2, R4, R6, R8": "FMA half",
        "HFMA2.MMA R4, -RZ, RZ, 0, 0": "move",
        "HMMA.16816.F32 R4, R8, R12, R4": "tensor",
        "DMMA.16x8x4 R4, R8, R12, R4": "tensor",
        "UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8]": "tensor",
        "IMAD.MOV.U32 R1, RZ, RZ, R2": "move",
        "IMAD.WIDE R2, R0, 0x4, R2": "integer",
        "VIADD R7, R7, 0xfffffff0": "integer",
        "F2I.FTZ.U32.TRUNC.NTZ R3, R2": "conversion",
        "BAR.SYNC.DEFER_BLOCKING 0x0": "barrier",
        "DEPBAR.LE SB0, 0x1": "wait or fence",
        "BSSY B0, ->7": "control",
        "FROBNICATE R1": "other",
    }
    assert {text: instruction(text).kind for text in kinds} == kinds
    assert mix([instruction("EXIT"), instruction("BRA"), instruction("MOV R1, R2")]) == {"control": 2, "move": 1}
