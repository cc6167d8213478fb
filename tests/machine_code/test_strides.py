"""Tests how far apart neighbouring threads' accesses are found to be, on instructions as nvdisasm prints them."""

from __future__ import annotations

import pytest

from warpwatch.machine_code.disassembler import parse
from warpwatch.machine_code.strides import FAR, Access, Steps, accesses

INDICES = """
S2R R0, SR_TID.X
S2R R1, SR_TID.Y
S2R R2, SR_CTAID.X
LDC R3, c[0x0][0x220]
"""


def found(code: str) -> tuple[Access, ...]:
    lines = [line.strip() for line in (INDICES + code).splitlines() if line.strip()]
    text = "\n".join(
        f"{line}" if line.endswith(":") else f"        /*{16 * i:04x}*/    {line} ;" for i, line in enumerate(lines)
    )
    (instructions,) = parse(f"\t.section\t.text.kernel,\n{text}\n").values()
    return accesses(instructions)


@pytest.mark.parametrize(
    ("address", "steps"),
    [
        ("IMAD R4, R2, 0x100, R0\nIMAD.WIDE R6, R4, 0x4, R8", None),  # R8 is not known
        ("IMAD R4, R2, 0x100, R0\nIMAD.WIDE R6, R4, 0x4, RZ", (4, 0, 0)),
        ("LEA R4, R2, R0, 0x8\nLEA R6, P0, R4, UR4, 0x2", (4, 0, 0)),
        ("IMAD R4, R1, R3, R0\nLEA R6, P0, R4, UR4, 0x3", (8, FAR, 0)),  # a row of unknown length
        ("IMAD R6, R0, 0x84, RZ", (132, 0, 0)),
        ("LOP3.LUT R4, R0, 0x1f, RZ, 0xc0, !PT\nIMAD.SHL.U32 R6, R4, 0x4, RZ", (4, 0, 0)),  # the lane of a warp
        ("LOP3.LUT R4, R0, 0x1f, RZ, 0x3c, !PT\nIMAD.SHL.U32 R6, R4, 0x4, RZ", None),  # an exclusive or
        ("LOP3.LUT R4, R0, 0x7, RZ, 0xc0, !PT\nIMAD.SHL.U32 R6, R4, 0x4, RZ", None),  # 0 to 7, again and again
        ("SHF.R.U32.HI R4, RZ, 0x5, R0\nIMAD.SHL.U32 R6, R4, 0x4, RZ", (0, 0, 0)),  # the number of the warp
        ("SHF.R.U32.HI R4, RZ, 0x2, R0\nIMAD.SHL.U32 R6, R4, 0x4, RZ", None),
        ("IADD3 R4, P0, -R0, UR4, RZ\nIMAD.SHL.U32 R6, R4, 0x4, RZ", (-4, 0, 0)),
        ("IMAD.MOV.U32 R4, RZ, RZ, R0\nIADD3 R6, R4, R4, RZ", (2, 0, 0)),
        ("IMAD.WIDE R8, R0, 0x4, RZ\nLDG.E R6, desc[UR4][R8.64]", None),  # an index from memory
        ("IMAD.SHL.U32 R6, R0, 0x4, RZ\n@P0 IMAD.SHL.U32 R6, R1, 0x4, RZ", None),
        ("IMAD.SHL.U32 R6, R0, 0x4, RZ\n@P0 VIADD R6, R6, 0x40", (4, 0, 0)),
    ],
)
def test_the_address_is_followed(address: str, steps: Steps | None) -> None:
    (store,) = (each for each in found(f"{address}\nSTG.E desc[UR4][R6.64+0x10], R0") if each.kind == "global store")
    assert store == Access(kind="global store", bytes=4, steps=steps)


def test_paths_that_disagree_leave_a_register_unknown_and_those_that_agree_do_not() -> None:
    code = """
    IMAD.SHL.U32 R6, R0, 0x4, RZ
    IMAD.SHL.U32 R8, R0, 0x8, RZ
    @P0 BRA `(.L_x_1)
    IMAD.SHL.U32 R6, R1, 0x4, RZ
    .L_x_1:
    LDG.E R10, desc[UR4][R6.64]
    LDG.E.64 R12, desc[UR4][R8.64]
    """
    four, eight = found(code)
    assert (four.bytes, four.steps) == (4, None)
    assert (eight.bytes, eight.steps) == (8, (8, 0, 0))


def test_a_predicate_that_is_written_changes_no_register() -> None:
    (load,) = found("ISETP.GE.AND P0, PT, R0, UR4, PT\nLDS R4, [R0+0x20]")
    assert load.steps == (1, 0, 0)


@pytest.mark.parametrize(
    ("steps", "size", "block", "count"),
    [
        ((4, 0, 0), 4, (256, 1, 1), 4),
        ((16, 0, 0), 16, (256, 1, 1), 16),
        ((16, 0, 0), 4, (256, 1, 1), 16),
        ((0, 0, 0), 4, (256, 1, 1), 1),
        ((FAR, 4, 0), 4, (32, 8, 1), 32),
        ((4, FAR, 0), 4, (8, 8, 1), 4),  # four rows of eight threads, a sector each
        ((4, FAR, 0), 8, (16, 2, 1), 6),
        ((-4, 0, 0), 4, (32, 1, 1), 5),  # its first address is a multiple of a sector, and it goes down from there
    ],
)
def test_sectors_of_a_warp(steps: Steps, size: int, block: tuple[int, int, int], count: int) -> None:
    assert Access(kind="global load", bytes=size, steps=steps).sectors(block) == count


@pytest.mark.parametrize(
    ("steps", "size", "ways"),
    [
        ((4, 0, 0), 4, 1),
        ((128, 4, 0), 4, 32),
        ((132, 4, 0), 4, 1),
        ((8, 0, 0), 4, 2),
        ((8, 0, 0), 8, 1),
        ((16, 0, 0), 16, 1),
        ((0, 4, 0), 4, 1),  # one word for all
        ((256, 0, 0), 16, 8),
    ],
)
def test_rounds_of_a_warp_in_shared_memory(steps: Steps, size: int, ways: int) -> None:
    assert Access(kind="shared load", bytes=size, steps=steps).bank_ways((32, 8, 1)) == ways


def test_what_is_not_known_costs_an_unknown_amount() -> None:
    unknown = Access(kind="global load", bytes=4, steps=None)
    assert unknown.sectors((32, 1, 1)) is None
    assert unknown.bank_ways((32, 1, 1)) is None
