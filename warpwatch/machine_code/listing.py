"""Parses what nvdisasm prints of a cubin (``nvdisasm -c``) into instructions whose branches lead to other instructions.

Addresses are taken out: a branch leads to the number of an instruction in its section. So are the instructions after
the last one that can be reached, which fill a section up, and the numbers that the compiler gives to its own functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
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
