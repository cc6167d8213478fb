"""Instructions of machine code as nvdisasm prints them, and their kinds."""

from __future__ import annotations

from dataclasses import dataclass

# Names are those of the CUDA Binary Utilities, "Instruction Set Reference", for compute capability 7.5 and newer.
OTHER = "other"  # the kind of a name that is not known here
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
ZERO = {"RZ", "URZ"}
JUMPS = frozenset({"BRA", "BRX", "JMP", "JMX", "BRXU", "JMXU"})


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """One instruction. ``predicate``: such as @!P0, or empty.

    ``operands``: as they are printed, without targets of branches. ``targets``: numbers of the instructions that a
    branch or a call leads to.
    """

    opcode: str
    predicate: str = ""
    operands: str = ""
    targets: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The opcode without what is written after its first point."""
        return self.opcode.partition(".")[0]

    @property
    def modifiers(self) -> tuple[str, ...]:
        return tuple(self.opcode.split(".")[1:])

    @property
    def width(self) -> int:
        """Bytes that an access moves for each thread."""
        return next((BYTES[each] for each in self.modifiers if each in BYTES), 4)

    @property
    def kind(self) -> str:
        """The kind, such as "global load 4 B" or "integer"."""
        if self.name in ACCESSES:
            return f"{ACCESSES[self.name]} {self.width} B"
        if self.name.endswith(TENSOR):
            return "tensor"
        if (self.name, *self.modifiers[:1]) in MOVES or self._is_constant:
            return "move"
        return KIND_OF.get(self.name, OTHER)

    @property
    def _is_constant(self) -> bool:
        """True for an instruction of half precision that writes a constant: `HFMA2 R4, -RZ, RZ, 0, 0` moves a zero."""
        factors = [each.strip(" -") for each in self.operands.split(",")][1:3]
        return self.name == "HFMA2" and len(factors) == 2 and set(factors) <= ZERO

    def __str__(self) -> str:
        targets = (f"->{target}" for target in self.targets)
        return " ".join(filter(None, (self.predicate, self.opcode, self.operands, *targets)))
