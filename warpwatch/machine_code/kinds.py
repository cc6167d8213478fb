"""Sorts instructions into kinds, such as "FMA float32" or "global load 16 B", and counts them.

The names of instructions are those of the CUDA Binary Utilities, "Instruction Set Reference", for compute capability
7.5 and newer. A name that is not known here is of the kind "other".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from warpwatch.machine_code.listing import Instruction

OTHER = "other"
BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "32": 4, "64": 8, "128": 16, "256": 32}
# Instructions that move data, each moving 4 bytes for a thread where no modifier says otherwise.
ACCESSES = {
    "LDG": "global load",
    "STG": "global store",
    "LD": "generic load",
    "ST": "generic store",
    "LDS": "shared load",
    "STS": "shared store",
    "LDL": "local load",
    "STL": "local store",
    "LDGSTS": "global to shared",
}
KINDS = {
    "FMA float32": "FFMA FFMA2 FFMA32I",
    "FMA float64": "DFMA",
    "FMA half": "HFMA2 HFMA2_32I",
    "float32": "FADD FADD2 FADD32I FMUL FMUL2 FMUL32I FMNMX FMNMX3 FSET FSETP FSEL FCHK FSWZADD",
    "float64": "DADD DMUL DSETP DMNMX",
    "half": "HADD2 HADD2_32I HMUL2 HMUL2_32I HMNMX2 HSET2 HSETP2",
    "special function": "MUFU",
    "conversion": "F2F F2I F2FP F2IP I2F I2FP I2I I2IP FRND F2F_X F2I_X I2F_X",
    "shared load matrix": "LDSM LDSTM",
    "shared store matrix": "STSM",
    "global atomic": "ATOM ATOMG RED REDG",
    "shared atomic": "ATOMS",
    "bulk copy": "UBLKCP UBLKRED UBLKPF UTMALDG UTMASTG UTMAREDG UTMAPF LDTM STTM UTCCP",
    "constant load": "LDC ULDC LDCU",
    "texture or surface": "TEX TLD TLD4 TMML TXD TXQ SULD SUST SURED SUATOM SUQUERY",
    "control": "BRA BRX BRXU JMP JMX JMXU CALL RET EXIT BSSY BSYNC BREAK BMOV BPT KILL LEPC NANOSLEEP PBK RPCMOV"
    " WARPSYNC YIELD ELECT PREEXIT ACQBULK ENDCOLLECTIVE NOP",
    "barrier": "BAR UCGABAR_ARV UCGABAR_WAIT",
    "wait or fence": "DEPBAR LDGDEPBAR MEMBAR ERRBAR SYNCS ARRIVES WARPGROUP UTMACMDFLUSH UTMACCTL CCTL CCTLL CCTLT"
    " FENCE UTCBAR LDTBAR DEPBAR_ALL",
    "shuffle or vote": "SHFL VOTE VOTEU MATCH REDUX CREDUX R2B B2R",
    "move": "MOV MOV32I UMOV CS2R CS2UR S2R S2UR R2UR P2R R2P P2UR UP2UR UR2UP PRMT UPRMT SEL USEL MOVM SGXT USGXT"
    " GETLMEMBASE SETLMEMBASE",
    "integer": "IABS IADD IADD3 IADD32I IDP IDP4A IMAD IMAD32I IMNMX IMUL IMUL32I ISCADD ISCADD32I ISETP ISET LEA LOP"
    " LOP3 LOP32I PLOP3 PSETP POPC FLO BMSK BREV SHF SHL SHR VABSDIFF VABSDIFF4 VIADD VIADDMNMX VIMNMX VIMNMX3 VHMNMX"
    " UBMSK UBREV UFLO UIADD3 UIMAD UIMNMX UISETP ULEA ULOP ULOP3 ULOP32I UPLOP3 UPOPC UPSETP USHF USHL USHR UIABS"
    " UVIADD UVIMNMX",
}
KIND_OF = {name: kind for kind, names in KINDS.items() for name in names.split()}
TENSOR = ("MMA",)  # HMMA, IMMA, DMMA, HGMMA, UTCHMMA and so on
MOVES = (("IMAD", "MOV"), ("FADD", "MOV"))
ZERO = ("RZ", "URZ")


def kind(instruction: Instruction) -> str:
    """Return the kind of an instruction."""
    name = instruction.name
    if name in ACCESSES:
        return f"{ACCESSES[name]} {width(instruction)} B"
    if name.endswith(TENSOR):
        return "tensor"
    if (name, *instruction.modifiers[:1]) in MOVES or _is_constant(instruction):
        return "move"
    return KIND_OF.get(name, OTHER)


def width(instruction: Instruction) -> int:
    """Return how many bytes an access moves for each thread."""
    return next((BYTES[each] for each in instruction.modifiers if each in BYTES), 4)


def _is_constant(instruction: Instruction) -> bool:
    """Tell whether an instruction of half precision writes a constant: `HFMA2 R4, -RZ, RZ, 0, 0` moves a zero."""
    operands = [each.strip() for each in instruction.operands.split(",")]
    return instruction.name == "HFMA2" and len(operands) > 2 and all(each.lstrip("-") in ZERO for each in operands[1:3])


def mix(instructions: Iterable[Instruction]) -> dict[str, int]:
    """Count instructions by their kinds, in alphabetical order."""
    return dict(sorted(Counter(map(kind, instructions)).items()))
