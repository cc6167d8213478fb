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
    """Holds one instruction. ``predicate``: such as @!P0, or empty.

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
    """Collects the lines of a section. ``labels``: the number of the instruction that follows each."""

    lines: list[tuple[str, str, str]] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)


def parse(listing: str) -> dict[str, tuple[Instruction, ...]]:
    """Return the instructions of each section of code by its kernel's symbol, with the functions that it calls."""
    return {name: _without_padding(tuple(_resolved(name, section))) for name, section in _sections(listing)}


def _sections(listing: str) -> Iterable[tuple[str, _Section]]:
    found: dict[str, _Section] = {}
    current = _Section()
    for line in listing.splitlines():
        if line.split(maxsplit=1)[:1] == [".section"]:
            named = SECTION.match(line)
            current = found.setdefault(named[1], _Section()) if named else _Section()
        elif read := INSTRUCTION.match(line):
            current.lines.append((read[1] or "", read[2], read[3]))
        elif label := LABEL.fullmatch(line):
            current.labels[label[1]] = len(current.lines)
    return found.items()


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
    found = dict.fromkeys((INTEGER_DIVISION, FLOAT_DIVISION, READ_ONLY_LOAD, PLAIN_LOAD, CALL), 0)
    for each in instructions:
        if each.name == "I2F" and "RP" in each.modifiers:
            found[INTEGER_DIVISION] += 1
        elif each.name == "FCHK":
            found[FLOAT_DIVISION] += 1
        elif each.name == "LDG":
            found[READ_ONLY_LOAD if "CONSTANT" in each.modifiers else PLAIN_LOAD] += 1
        elif each.name == "CALL":
            found[CALL] += 1
    return found


ENDS = frozenset({"EXIT", "RET", "KILL", "BPT"})
JUMPS = frozenset({"BRA", "BRX", "JMP", "JMX", "BRXU", "JMXU"})
NEVER_TAKEN = "@!PT"


def inside_loops(instructions: Sequence[Instruction]) -> list[bool]:
    """Tell of each instruction whether it is in a loop, or in a function that is called from one."""
    ways = [_ways(instructions, i) for i in range(len(instructions))]
    groups = _groups(ways)
    size = [0] * len(groups)
    for group in groups:
        size[group] += 1
    inside = [size[groups[i]] > 1 or i in ways[i] for i in range(len(ways))]
    calls = [i for i, each in enumerate(instructions) if each.name == "CALL" and inside[i]]
    waiting = [target for i in calls for target in instructions[i].targets]
    called: set[int] = set()
    while waiting:
        if (i := waiting.pop()) not in called:
            called.add(i)
            waiting += [*ways[i], *(instructions[i].targets if instructions[i].name == "CALL" else ())]
    return [each or i in called for i, each in enumerate(inside)]


def loop_sizes(instructions: Sequence[Instruction]) -> list[int]:
    """Return the number of instructions from the target of each branch that closes a loop to that branch, in order.

    Several branches to one target, as `continue` makes them, are one loop.
    """
    return [end - begin + 1 for begin, end in _loops(instructions)]


def loop_bodies(instructions: Sequence[Instruction]) -> list[list[int]]:
    """List the instructions of each loop, in the order of ``loop_sizes``, that are in no loop within it."""
    loops = _loops(instructions)
    bodies = []
    for begin, end in loops:
        within = [(b, e) for b, e in loops if (b, e) != (begin, end) and begin <= b and e <= end]
        bodies.append([i for i in range(begin, end + 1) if not any(b <= i <= e for b, e in within)])
    return bodies


def _loops(instructions: Sequence[Instruction]) -> list[tuple[int, int]]:
    """Return the first and the last instruction of each loop, in order."""
    groups = _groups([_ways(instructions, i) for i in range(len(instructions))])
    last: dict[int, int] = {}
    for i, each in enumerate(instructions):
        if each.name in JUMPS:
            last |= {target: i for target in each.targets if target <= i and groups[target] == groups[i]}
    return sorted(last.items())


def _ways(instructions: Sequence[Instruction], i: int) -> list[int]:
    """List the instructions that may run after one in the same function. A call comes back to the next one."""
    each = instructions[i]
    name, following = each.name, [i + 1] if i + 1 < len(instructions) else []
    targets = [] if name in ("CALL", "BSSY") or each.predicate == NEVER_TAKEN else list(each.targets)
    if name in ENDS and not each.predicate:
        return targets
    # BRA takes a second condition as an operand, and .DIV where the threads of a warp disagree.
    always = name in JUMPS and not each.predicate and not _is_conditional(each)
    return [target for target in targets if target < len(instructions)] + ([] if always else following)


def _is_conditional(each: Instruction) -> bool:
    words = each.operands.replace("!", "").replace(",", " ").split()
    return (
        any(word.startswith(("P", "UP")) and word not in ("PT", "UPT") for word in words)
        or "DIV" in each.modifiers
        or "CONV" in each.modifiers
    )


def _groups(ways: Sequence[Sequence[int]]) -> list[int]:
    """Number the strongly connected components: two instructions have one number where each can follow the other.

    Kosaraju's algorithm: components are trees of the reversed graph, in the reversed order in which visits end.
    """
    back: list[list[int]] = [[] for _ in ways]
    for i, following in enumerate(ways):
        for target in following:
            back[target].append(i)
    order: list[int] = []
    seen = [False] * len(ways)
    for start in range(len(ways)):
        if seen[start]:
            continue
        seen[start] = True
        stack = [(start, iter(ways[start]))]
        while stack:
            i, rest = stack[-1]
            target = next((each for each in rest if not seen[each]), -1)
            if target < 0:
                order.append(i)
                stack.pop()
            else:
                seen[target] = True
                stack.append((target, iter(ways[target])))
    groups = [-1] * len(ways)
    for root in reversed(order):
        waiting = [root]
        while waiting:
            if groups[i := waiting.pop()] < 0:
                groups[i] = root
                waiting += [each for each in back[i] if groups[each] < 0]
    return groups
