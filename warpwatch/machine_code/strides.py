"""Distances in memory between the accesses of neighbouring threads, and what one access of a warp costs.

A register is followed as a linear function of the thread's index in its block: so much for each step of threadIdx.x, y
and z, from a value that may be known. That needs no launch, and holds within a warp. Whatever is not linear, or comes
from memory, is unknown. The code is read once from its beginning to its end; where paths meet, what they disagree about
is unknown.
"""

from __future__ import annotations

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from warpwatch.machine_code.instructions import ACCESSES, JUMPS, Instruction

Steps = tuple[int, int, int]  # bytes, or what a register holds, for each step of threadIdx.x, y and z
FAR = 1 << 40  # a step of unknown length, such as a row of a matrix: far more than a warp's contiguous accesses
UNIFORM: Steps = (0, 0, 0)
INDICES: Mapping[str, Steps] = {"SR_TID.X": (1, 0, 0), "SR_TID.Y": (0, 1, 0), "SR_TID.Z": (0, 0, 1)}
WARP, SECTOR = 32, 32  # threads; bytes that memory moves at once
BANKS, WORD = 32, 4  # of shared memory, and the bytes of a bank
WHOLE_WARP = 31  # threadIdx.x & 31 changes within a warp as threadIdx.x does
WARP_BITS, SIGN_BIT = 5, 31
PREDICATE = re.compile(r"\b(U?P\d)\b")
ADDRESS = re.compile(r"\[(R\d+)(?:\.\w+)*(?:\+(?:UR\d+|-?0x[0-9a-f]+))*\]")
REGISTER = re.compile(r"-?\|?(U?R\d+|U?RZ)\|?(?:\.\w+)*")
NUMBER = re.compile(r"-?(?:0x[0-9a-f]+|\d+)")
LOADS = frozenset({"ATOM", "ATOMG", "ATOMS", "SHFL", "TEX", "TLD", "LDSM"})  # more that bring what is not computed
AND = 0xC0  # LOP3's table of a & b
HIGH = frozenset({"HI", "X", "SX32"})  # modifiers of instructions that compute the upper half of an address


@dataclass(frozen=True, kw_only=True)
class Access:
    """Equal accesses of a kernel: how many instructions, of which kind, and how far neighbours are apart.

    ``kind``: such as "global load"; ``bytes``: of a thread. ``steps``: bytes for each step of threadIdx.x, y and z, or
    None where they are unknown.
    """

    kind: str
    bytes: int
    steps: Steps | None
    count: int = 1

    def sectors(self, block: Sequence[int]) -> int | None:
        """Count the sectors of 32 bytes that one access of a full warp touches; None where addresses are unknown.

        ``block``: x, y and z. The first address is taken for a multiple of a sector.
        """
        if self.steps is None:
            return None
        return len({place for at in self._addresses(self.steps, block) for place in self._units(at, SECTOR)})

    def bank_ways(self, block: Sequence[int]) -> int | None:
        """Return how many rounds a warp's access to shared memory takes; 1 where no two threads want one bank.

        Threads that read the same word share it. Accesses of 8 and 16 bytes are made by half and quarter warps.
        """
        if self.steps is None:
            return None
        lanes = self._addresses(self.steps, block)
        together = max(1, min(WARP, WARP * WORD // self.bytes))
        ways = 0
        for first in range(0, len(lanes), together):
            words = {word for at in lanes[first : first + together] for word in self._units(at, WORD)}
            ways = max(ways, *Counter(word % BANKS for word in words).values())
        return ways

    def _units(self, at: int, unit: int) -> Iterable[int]:
        """Number the units of memory that an access at an address lies in."""
        return range(at // unit, (at + self.bytes - 1) // unit + 1)

    @staticmethod
    def _addresses(steps: Steps, block: Sequence[int]) -> list[int]:
        """Return the address of each thread of a block's first warp, from that of its first thread."""
        x, y, z = (*block, 1, 1)[:3]
        indices = ((thread % x, thread // x % y, thread // (x * y)) for thread in range(min(WARP, x * y * z)))
        return [sum(step * index for step, index in zip(steps, at, strict=True)) for at in indices]


@dataclass(frozen=True)
class Value:
    """Known part of a register's value: its steps, and what it holds in thread (0, 0, 0), or None."""

    steps: Steps
    origin: int | None = None

    @property
    def constant(self) -> int | None:
        """The value in all threads, where it is known."""
        return self.origin if self.steps == UNIFORM else None


# Values of registers at one instruction, by register and the condition that they were written under: "" for the value
# that holds for all threads.
State = Mapping[tuple[str, str], Value | None]


def accesses(instructions: Sequence[Instruction]) -> tuple[Access, ...]:
    """List the loads and stores of a kernel, equal ones together."""
    counts: Counter[tuple[str, int, Steps | None]] = Counter()
    arriving: defaultdict[int, list[State]] = defaultdict(list)  # states on the paths that lead to an instruction
    for i, each in enumerate(instructions):
        state = functools.reduce(_joined, arriving.pop(i, [{}]))
        if each.name in ACCESSES and (match := ADDRESS.search(each.operands)):
            value = _held(match[1], each, state)
            counts[ACCESSES[each.name], each.width, value.steps if value else None] += 1
        for target in each.targets if each.name in JUMPS else ():
            if target > i:
                arriving[target].append(state)
        if each.predicate or each.name not in (*JUMPS, "EXIT"):
            arriving[i + 1].append(_after(each, state))
    listed = [Access(kind=k, bytes=b, steps=s, count=n) for (k, b, s), n in counts.items()]
    return tuple(sorted(listed, key=lambda a: (a.kind, a.bytes, a.steps or (-1, 0, 0))))


def _joined(one: State, other: State) -> State:
    """Return what registers hold where two paths join."""
    return {place: _common(one.get(place), other.get(place)) for place in {*one, *other}}


def _common(one: Value | None, other: Value | None) -> Value | None:
    """Return what two paths agree on about a register."""
    if one is None or other is None or one == other:
        return one if one == other else None
    return Value(one.steps) if one.steps == other.steps else None


def _held(register: str, each: Instruction, state: State) -> Value | None:
    """Return what an instruction finds in a register: what was written under its own condition, or to all threads."""
    return state.get((register, each.predicate), state.get((register, "")))


def _after(each: Instruction, state: State) -> State:
    """Return the values of the registers after an instruction."""
    conditions = PREDICATE.findall(",".join(each.operands.split(",")[:2]))  # that it may set
    gone = {f"@{sign}{name}" for name in conditions for sign in ("", "!")}
    after = {place: value for place, value in state.items() if place[1] not in gone} if gone else dict(state)
    target = each.operands.partition(",")[0].strip()
    if not re.fullmatch(r"R\d+", target) or each.name.startswith(("ST", "RED")):
        return after
    result = _value(each, _operands(each.operands)[1:], after)
    count = 4 if "128" in each.modifiers else 2 if {"64", "WIDE"} & set(each.modifiers) else 1
    for step in range(count):
        name = f"R{int(target[1:]) + step}"
        new = result if step == 0 or (result and result.steps == UNIFORM) else None
        if each.predicate:
            after[name, ""] = _common(after.get((name, "")), new)
        else:
            after = {place: value for place, value in after.items() if place[0] != name}
        after[name, each.predicate] = new
    return after


def _operands(text: str) -> list[str]:
    """Split operands, without predicates and without what marks a register as used again."""
    words = [word.strip().removesuffix(".reuse") for word in text.split(",")]
    return [word for word in words if word and not re.fullmatch(r"!?U?P(?:\d|T)", word)]


def _value(each: Instruction, operands: Sequence[str], state: State) -> Value | None:
    """Return what an instruction computes, or None where that is unknown."""
    if each.name == "S2R":
        special = {"SR_LANEID": None, **{index: Value(steps, 0) for index, steps in INDICES.items()}}
        return special.get(operands[0], Value(UNIFORM))
    if each.name in ("LDC", "ULDC", "CS2R"):  # a parameter, unless a thread's own index chooses it
        return Value(UNIFORM) if ADDRESS.search(each.operands) is None else None
    if each.name in ACCESSES or each.name in LOADS:
        return None
    return _computed(each.name, set(each.modifiers), [_read(word, each, state) for word in operands])


def _computed(name: str, modifiers: set[str], values: Sequence[Value | None]) -> Value | None:
    """Return what arithmetic makes of values, or None where that is unknown."""
    if (name in ("MOV", "UMOV") or (name == "IMAD" and "MOV" in modifiers)) and values:
        return values[-1]
    if all(value is not None and value.steps == UNIFORM for value in values):
        return Value(UNIFORM)
    if name == "LEA" and "HI" in modifiers and [v.constant if v else None for v in (values[0], values[2])] == [0, 0]:
        return values[1]  # a number that is not negative, to which its sign is added before it is divided
    if modifiers & HIGH and name != "SHF":
        return None
    return _linear(name, modifiers, values) or _within_warp(name, modifiers, values)


def _linear(name: str, modifiers: set[str], values: Sequence[Value | None]) -> Value | None:
    """Return a linear function of values, at least one of which differs from thread to thread; None for others."""
    match name, values:
        case "IADD3" | "IADD" | "VIADD", _:
            return _sum(values)
        case "IMAD", (a, b, c):
            return _sum([_product(a, b), c])
        case "LEA", (a, b, shift):
            return _sum([_product(a, _power(shift)), b])
        case "SHF", (a, shift, *_) if "L" in modifiers and not modifiers & HIGH:
            return _product(a, _power(shift))
    return None


def _within_warp(name: str, modifiers: set[str], values: Sequence[Value | None]) -> Value | None:
    """Return what lower bits, and those above them, are of a thread's number such as y * 32 + x; None for others.

    ``& mask`` and ``>> bits`` leave the x of such a number and its other steps apart, where a warp is a row of them.
    """
    number = next((value for value in values if value and value.steps != UNIFORM), None)
    numbers = [value.constant for value in values if value and value.constant is not None]
    if number is None or number.origin is None or number.steps[0] != 1 or not numbers:
        return None
    if name == "SHF" and "R" in modifiers:
        if max(numbers) == SIGN_BIT and min(number.steps) >= 0 <= number.origin:
            return Value(UNIFORM, 0)
        return _rows(number, 1 << max(numbers))[0] if WARP_BITS <= max(numbers) < SIGN_BIT else None
    for mask in numbers[:-1] if name == "LOP3" and numbers[-1] == AND else ():
        if mask & WHOLE_WARP == WHOLE_WARP and mask & (mask + 1) == 0:
            return _rows(number, mask + 1)[1]
        row = 2**32 - mask
        if mask >> SIGN_BIT and row > WHOLE_WARP and row & (row - 1) == 0:
            return _rows(number, row)[2]
    return None


def _rows(number: Value, row: int) -> tuple[Value | None, Value | None, Value | None]:
    """Split a number into rows of ``row``, where its steps and its origin are whole rows.

    Returns the number of its row, its place in it, and where its row begins.
    """
    _, y, z = number.steps
    if any(step % row for step in (y, z, number.origin or 0)) or FAR in (abs(y), abs(z)):
        return None, None, None
    return Value((0, y // row, z // row)), Value(INDICES["SR_TID.X"], 0), Value((0, y, z), number.origin)


def _read(word: str, each: Instruction, state: State) -> Value | None:
    """Read an operand: a register, a number, or something that all threads share."""
    if NUMBER.fullmatch(word):
        return Value(UNIFORM, int(word, 0))
    if not (match := REGISTER.fullmatch(word)):
        return Value(UNIFORM) if word.startswith(("c[", "cx[", "-c[")) else None
    if (register := match[1]).startswith("U") or register == "RZ":
        return Value(UNIFORM, 0 if register.endswith("RZ") else None)
    value = _held(register, each, state)
    return _product(value, Value(UNIFORM, -1)) if word.startswith("-") else value


def _sum(values: Sequence[Value | None]) -> Value | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    x, y, z = (FAR if FAR in map(abs, steps) else sum(steps) for steps in zip(*(v.steps for v in known), strict=True))
    origins = [value.origin for value in known if value.origin is not None]
    return Value((x, y, z), sum(origins) if len(origins) == len(known) else None)


def _product(one: Value | None, other: Value | None) -> Value | None:
    if one is None or other is None or UNIFORM not in (one.steps, other.steps):
        return None
    value, factor = (one, other.constant) if other.steps == UNIFORM else (other, one.constant)
    if factor is None:
        x, y, z = (FAR if step else 0 for step in value.steps)
        return Value((x, y, z))
    x, y, z = (FAR if abs(step) == FAR and factor else step * factor for step in value.steps)
    return Value((x, y, z), None if value.origin is None else value.origin * factor)


def _power(shift: Value | None) -> Value | None:
    """Return the factor that a shift to the left multiplies by."""
    if shift is None or shift.constant is None:
        return shift and Value(UNIFORM)
    return Value(UNIFORM, 1 << shift.constant) if 0 <= shift.constant < 32 else None
