"""Kernels' instructions: nvdisasm is called, its listing is parsed, and what it comes to is kept in the cache.

What ``nvdisasm -c`` prints of a cubin is parsed into instructions whose branches lead to other instructions. Addresses
are taken out: a branch leads to the number of an instruction in its section. So are the instructions after the last one
that can be reached, which fill a section up, and the numbers that the compiler gives to its own functions.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from warpwatch.devices.compile.compiler import CompileError, Image, cached, digest_of, from_pypi, nvcc, read_image
from warpwatch.machine_code.instructions import JUMPS, Instruction
from warpwatch.machine_code.strides import Access, accesses

SECONDS = 120.0  # a listing of the largest kernel here takes one
HOW = "pip install nvidia-cuda-nvdisasm (extra 'disassembly'), or name one in $NVDISASM"
SECTION = re.compile(r"\s*\.section\s+\.text\.([^,\s]+),")
LABEL = re.compile(r"([^\s:/]+):\s*")
INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]+\*/\s+(?:\{\s*)?(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);")
TARGET = re.compile(r"`\(([^)]+)\)")
INDEXED = re.compile(r'\(\*"BRANCH_TARGETS ([^"]*)"\*\)')
INTERNAL = re.compile(r"\$__internal_\d+_")
INTEGER_DIVISION = "integer division"
FLOAT_DIVISION = "float32 division"
READ_ONLY_LOAD = "read-only global load"
PLAIN_LOAD = "plain global load"
ENDS = frozenset({"EXIT", "RET", "KILL", "BPT"})
NEVER_TAKEN = "@!PT"


class NoDisassembler(Exception):
    """A missing nvdisasm, or one that fails; the message says what is lacking and how to get it."""


@dataclass(frozen=True, kw_only=True)
class Code:
    """Summary of a kernel's instructions.

    ``inside``, ``outside``: instructions in loops and outside of them, by kind. ``loops``: how many instructions each
    loop has; ``bodies``: the instructions of each that are in no loop within it, by kind. ``marks``: operations of the
    source by name. ``accesses``: loads and stores. ``text``: a hash of the instructions, which does not change with
    addresses, padding and order.
    """

    instructions: int
    loops: tuple[int, ...]
    inside: Mapping[str, int]
    outside: Mapping[str, int]
    text: str
    bodies: tuple[Mapping[str, int], ...] = ()
    marks: Mapping[str, int] = field(default_factory=dict)
    accesses: tuple[Access, ...] = ()


_CODES = msgspec.json.Decoder(dict[str, Code])


@functools.cache
def nvdisasm() -> tuple[str, str]:
    """Find nvdisasm, by $NVDISASM, the PATH, beside nvcc, or Python packages; and what it prints for --version.

    Raises NoDisassembler.
    """
    named = os.environ.get("NVDISASM")
    beside = str(Path(nvcc().program).resolve().with_name("nvdisasm"))
    places = [shutil.which("nvdisasm"), beside, "/usr/local/cuda/bin/nvdisasm", *from_pypi("nvdisasm")]
    for program in [named] if named else filter(None, places):
        if Path(program).is_file():
            return program, _run([program, "--version"])
    where = f"$NVDISASM names {named}, which is not a file" if named else "there is no nvdisasm"
    raise NoDisassembler(f"{where}: {HOW}")


def _run(command: list[str]) -> str:
    """Run nvdisasm and return what it prints. Raises NoDisassembler."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoDisassembler(f"{command[0]} cannot be run ({error}): {HOW}") from None
    if done.returncode:
        message = (done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}").splitlines()[0]
        raise NoDisassembler(f"{command[0]} cannot read this machine code ({message}): take one as new as nvcc, {HOW}")
    return done.stdout


def read_code(image: Image) -> dict[str, Code]:
    """Disassemble a cubin; returns what its kernels' code comes to, by their symbols.

    Raises NoDisassembler, or CompileError where the image is damaged.
    """
    program, banner = nvdisasm()
    # The cache holds nothing of another version of this code.
    version = (path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    key = digest_of(image.image_hash.encode(), banner.encode(), *version)

    def make() -> bytes:
        read_image(image.path)  # raises where it is damaged
        kernels = parse(_run([program, "-c", str(image.path)]))
        if not kernels or not all(kernels.values()):
            raise NoDisassembler(f"{program} prints no instructions that can be read here: take another, {HOW}")
        return msgspec.json.encode({name: summary(instructions) for name, instructions in kernels.items()})

    entry = cached(f"code-{key}", ".json", make)
    try:
        return _CODES.decode(read_image(entry.path))
    except msgspec.MsgspecError as error:
        raise CompileError(f"{entry.path} is damaged ({error}): remove it") from None


def summary(instructions: tuple[Instruction, ...]) -> Code:
    """Return what the instructions of a kernel come to."""
    flags, spans = inside_loops(instructions), loops(instructions)
    inside, outside = (
        mix(each for each, loop in zip(instructions, flags, strict=True) if loop is side) for side in (True, False)
    )
    return Code(
        instructions=len(instructions),
        loops=tuple(end - begin + 1 for begin, end in spans),
        inside=inside,
        outside=outside,
        text=digest_of("\n".join(map(str, instructions)).encode()),
        bodies=tuple(mix(instructions[i] for i in body) for body in loop_bodies(spans)),
        marks=marks(instructions),
        accesses=accesses(instructions),
    )


@dataclass
class _Section:
    """Lines of a section. ``labels``: the number of the instruction that follows each."""

    lines: list[tuple[str, str, str]] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)


def parse(listing: str) -> dict[str, tuple[Instruction, ...]]:
    """Return the instructions of each section of code by its kernel's symbol, with the functions that it calls."""
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
    return {name: _without_padding(tuple(_resolved(name, section))) for name, section in sections.items()}


def _resolved(kernel: str, section: _Section) -> Iterator[Instruction]:
    """Yield the instructions of a section, with numbers in place of labels."""
    labels = {name: number for name, number in section.labels.items() if name != kernel}

    def shown(match: re.Match[str]) -> str:
        """Return what stands for a label: nothing for one of this section, else the name without its number."""
        # A return names its kernel, which is not a place that it leads to.
        return "" if match[1] in labels or match[1] == kernel else INTERNAL.sub("$__internal_", match[1])

    for predicate, opcode, printed in section.lines:
        indexed = INDEXED.search(printed)
        named = [*TARGET.findall(printed), *(indexed[1].split(",") if indexed else ())]
        text = INDEXED.sub("", printed)
        if opcode.startswith("BRX"):  # its last operand is the distance to the table's first address
            text = re.sub(r"\s-?0x[0-9a-f]+\s*$", "", text.rstrip())
        yield Instruction(
            opcode=opcode,
            predicate=predicate,
            operands=" ".join(TARGET.sub(shown, text).split()),
            targets=tuple(labels[name] for name in named if name in labels),
        )


def _without_padding(instructions: tuple[Instruction, ...]) -> tuple[Instruction, ...]:
    """Leave out what fills a section up: NOPs, and before them a branch to itself."""
    end = len(instructions)
    while end and instructions[end - 1].name == "NOP":
        end -= 1
    last = instructions[end - 1] if end else None
    if last and last.name == "BRA" and last.targets == (end - 1,) and not last.predicate:
        end -= 1
    return instructions[:end]


def mix(instructions: Iterable[Instruction]) -> dict[str, int]:
    return dict(sorted(Counter(each.kind for each in instructions).items()))


def marks(instructions: Iterable[Instruction]) -> Mapping[str, int]:
    """Count operations by name.

    A division of integers by a number that is not known when the kernel is compiled begins with a conversion that
    rounds up (I2F.RP); one of float32 numbers checks its range (FCHK). Loads with CONSTANT go through the cache for
    data that no thread writes meanwhile, which the compiler chooses where it can prove that.
    """
    counts = Counter[str]()
    for each in instructions:
        if each.name == "LDG":
            counts[READ_ONLY_LOAD if "CONSTANT" in each.modifiers else PLAIN_LOAD] += 1
        elif each.name == "FCHK":
            counts[FLOAT_DIVISION] += 1
        elif each.name == "I2F" and "RP" in each.modifiers:
            counts[INTEGER_DIVISION] += 1
    return dict(counts)


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
