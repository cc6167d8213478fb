"""Instructions of machine code as nvdisasm prints them: their kinds, the operations that they stand for, and loops.

What ``nvdisasm -c`` prints of a cubin is parsed into instructions whose branches lead to other instructions.

Addresses are taken out: a branch leads to the number of an instruction in its section. So are the instructions after
the last one that can be reached, which fill a section up, and the numbers that the compiler gives to its own functions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

SECTION = re.compile(r"\s*\.section\s+\.text\.([^,\s]+),")
LABEL = re.compile(r"([^\s:/]+):\s*")
INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]+\*/\s+(?:\{\s*)?(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);")
TARGET = re.compile(r"`\(([^)]+)\)")
INDEXED = re.compile(r'\(\*"BRANCH_TARGETS ([^"]*)"\*\)')
INTERNAL = re.compile(r"\$__internal_\d+_")


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

    def __str__(self) -> str:
        targets = (f"->{target}" for target in self.targets)
        return " ".join(filter(None, (self.predicate, self.opcode, self.operands, *targets)))


@dataclass
class _Section:
    """Lines of a section. ``labels``: the number of the instruction that follows each."""

    lines: list[tuple[str, str, str]] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)


def parse(listing: str) -> dict[str, tuple[Instruction, ...]]:
    """Return the instructions of each section of code by its kernel's symbol, with the functions that it calls."""
    return {name: _without_padding(tuple(_resolved(name, section))) for name, section in _sections(listing)}


def _sections(listing: str) -> Iterable[tuple[str, _Section]]:
    sections: dict[str, _Section] = {}
    current = _Section()
    for line in listing.splitlines():
        if line.split(maxsplit=1)[:1] == [".section"]:
            named = SECTION.match(line)
            current = sections.setdefault(named[1], _Section()) if named else _Section()
        elif read := INSTRUCTION.match(line):
            current.lines.append((read[1] or "", read[2], read[3]))
        elif label := LABEL.fullmatch(line):
            current.labels[label[1]] = len(current.lines)
    return sections.items()


def _resolved(kernel: str, section: _Section) -> Iterator[Instruction]:
    """Yield the instructions of a section, with numbers in place of labels."""
    labels = section.labels
    for predicate, opcode, printed in section.lines:
        indexed = INDEXED.search(printed)
        named = [*TARGET.findall(printed), *(indexed[1].split(",") if indexed else ())]
        # A return names its kernel, which is no place that it leads to.
        targets = tuple(labels[name] for name in named if name in labels and name != kernel)
        text = INDEXED.sub("", printed)
        if opcode.startswith("BRX"):  # its last operand is the distance to the table's first address
            text = re.sub(r"\s-?0x[0-9a-f]+\s*$", "", text.rstrip())
        text = TARGET.sub(lambda match: _outside(match[1], kernel, labels), text)
        yield Instruction(opcode=opcode, predicate=predicate, operands=" ".join(text.split()), targets=targets)


def _outside(name: str, kernel: str, labels: Mapping[str, int]) -> str:
    """Return what stands for a label: nothing for one of this section, else the name without its number."""
    return "" if name in labels or name == kernel else INTERNAL.sub("$__internal_", name)


def _without_padding(instructions: tuple[Instruction, ...]) -> tuple[Instruction, ...]:
    """Leave out what fills a section up: NOPs, and before them a branch to itself."""
    end = len(instructions)
    while end and instructions[end - 1].name == "NOP":
        end -= 1
    last = instructions[end - 1] if end else None
    if last and last.name == "BRA" and last.targets == (end - 1,) and not last.predicate:
        end -= 1
    return instructions[:end]


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


INTEGER_DIVISION = "integer division"
FLOAT_DIVISION = "float32 division"
READ_ONLY_LOAD = "read-only global load"
PLAIN_LOAD = "plain global load"
CALL = "call"


def marks(instructions: Iterable[Instruction]) -> Mapping[str, int]:
    """Count operations by name.

    A division of integers by a number that is not known when the kernel is compiled begins with a conversion that
    rounds up (I2F.RP); one of float32 numbers checks its range (FCHK). Loads with CONSTANT go through the cache for
    data that no thread writes meanwhile, which the compiler chooses where it can prove that.
    """
    counts = dict.fromkeys((INTEGER_DIVISION, FLOAT_DIVISION, READ_ONLY_LOAD, PLAIN_LOAD, CALL), 0)
    names = {"FCHK": FLOAT_DIVISION, "CALL": CALL}
    for each in instructions:
        if each.name == "LDG":
            counts[READ_ONLY_LOAD if "CONSTANT" in each.modifiers else PLAIN_LOAD] += 1
        elif name := INTEGER_DIVISION if each.name == "I2F" and "RP" in each.modifiers else names.get(each.name):
            counts[name] += 1
    return counts


ENDS = frozenset({"EXIT", "RET", "KILL", "BPT"})
JUMPS = frozenset({"BRA", "BRX", "JMP", "JMX", "BRXU", "JMXU"})
NEVER_TAKEN = "@!PT"

# A branch backwards alone does not make a loop, because compilers move code that is seldom run to the end, from where
# it goes back: a loop is a set of instructions that can be reached from themselves.


def inside_loops(instructions: Sequence[Instruction]) -> list[bool]:
    """Tell of each instruction whether it is in a loop, or in a function that is called from one."""
    ways = _ways(instructions)
    components = _components(ways)
    size = Counter(components)
    inside = [size[components[i]] > 1 or i in following for i, following in enumerate(ways)]
    callees = [each.targets if each.name == "CALL" else () for each in instructions]
    waiting = [target for targets, loop in zip(callees, inside, strict=True) if loop for target in targets]
    called: set[int] = set()
    while waiting:
        if (i := waiting.pop()) not in called:
            called.add(i)
            waiting += [*ways[i], *callees[i]]
    return [loop or i in called for i, loop in enumerate(inside)]


def loops(instructions: Sequence[Instruction]) -> list[tuple[int, int]]:
    """Return the first and the last instruction of each loop, in order: the target of a branch back, and that branch.

    Several branches to one target, as `continue` makes them, are one loop.
    """
    components = _components(_ways(instructions))
    last: dict[int, int] = {}
    for i, each in enumerate(instructions):
        if each.name in JUMPS:
            last |= {target: i for target in each.targets if target <= i and components[target] == components[i]}
    return sorted(last.items())


def loop_bodies(spans: Sequence[tuple[int, int]]) -> list[list[int]]:
    """List the instructions of each of these loops that are in no loop within it."""
    return [
        [
            i
            for i in range(begin, end + 1)
            if not any(begin <= b <= i <= e <= end for b, e in spans if (b, e) != (begin, end))
        ]
        for begin, end in spans
    ]


def _ways(instructions: Sequence[Instruction]) -> list[list[int]]:
    """List for each instruction those that may run after it in the same function. A call comes back to the next one."""
    ways = []
    for i, each in enumerate(instructions):
        targets = () if each.name in ("CALL", "BSSY") or each.predicate == NEVER_TAKEN else each.targets
        # BRA takes a second condition as an operand, and .DIV where the threads of a warp disagree.
        always = not each.predicate and (each.name in ENDS or (each.name in JUMPS and not _is_conditional(each)))
        following = (*targets, *(() if always else (i + 1,)))
        ways.append([target for target in following if target < len(instructions)])
    return ways


def _is_conditional(each: Instruction) -> bool:
    words = each.operands.replace("!", "").replace(",", " ").split()
    predicates = any(word.startswith(("P", "UP")) and word not in ("PT", "UPT") for word in words)
    return predicates or not {"DIV", "CONV"}.isdisjoint(each.modifiers)


def _components(ways: Sequence[Sequence[int]]) -> list[int]:
    """Number the strongly connected components: two instructions have one number where each can follow the other."""
    from scipy.sparse import csgraph, csr_array  # noqa: PLC0415  # takes a fifth of a second, and seldom is anything new

    rows = [i for i, following in enumerate(ways) for _ in following]
    columns = [target for following in ways for target in following]
    graph = csr_array(([True] * len(rows), (rows, columns)), shape=(len(ways), len(ways)))
    return [int(number) for number in csgraph.connected_components(graph, connection="strong")[1]]
