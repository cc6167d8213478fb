"""Finds how far apart in memory neighbouring threads' accesses lie, from the instructions that compute addresses.

A register is followed as a linear function of the thread's index in its block: so much for each step of threadIdx.x, y
and z, from a value that may be known. That needs no launch, and holds within a warp. Whatever is not linear, or comes
from memory, is unknown. The code is read once from its begin to its end; where paths meet, what they disagree about is
unknown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from warpwatch.machine_code.listing import ACCESSES, JUMPS, Instruction, width

Steps = tuple[int, int, int]  # bytes, or what a register holds, for each step of threadIdx.x, y and z
FAR = 1 << 40  # a step of unknown length, such as a row of a matrix: far more than a warp's contiguous accesses
UNIFORM: Steps = (0, 0, 0)
INDICES: Mapping[str, Steps] = {"SR_TID.X": (1, 0, 0), "SR_TID.Y": (0, 1, 0), "SR_TID.Z": (0, 0, 1)}
WHOLE_WARP = 31  # threadIdx.x & 31 changes within a warp as threadIdx.x does
WARP_BITS, SIGN_BIT = 5, 31
PREDICATE = re.compile(r"\b(U?P\d)\b")
ADDRESS = re.compile(r"\[(R\d+)(?:\.\w+)*(?:\+(?:UR\d+|-?0x[0-9a-f]+))*\]")
REGISTER = re.compile(r"-?\|?(U?R\d+|U?RZ)\|?(?:\.\w+)*")
NUMBER = re.compile(r"-?(?:0x[0-9a-f]+|\d+)")
LOADS = frozenset({"ATOM", "ATOMG", "ATOMS", "SHFL", "TEX", "TLD", "LDSM"})  # more that bring what is not computed
AND = 0xC0  # LOP3's table of a & b
HIGH = frozenset({"HI", "X", "SX32"})  # modifiers of instructions that compute the upper half of an address


@dataclass(frozen=True)
class Value:
    """Holds what is known of a register: its steps, and what it holds in thread (0, 0, 0), or None."""

    steps: Steps
    origin: int | None = None

    @property
    def constant(self) -> int | None:
        """The value in all threads, where it is known."""
        return self.origin if self.steps == UNIFORM else None


@dataclass(frozen=True, kw_only=True)
class Access:
    """Holds equal accesses of a kernel: how many instructions, of which kind, and how far neighbours are apart.

    ``kind``: such as "global load"; ``bytes``: of a thread. ``steps``: bytes for each step of threadIdx.x, y and z, or
    None where they are unknown.
    """

    kind: str
    bytes: int
    steps: Steps | None
    count: int = 1


@dataclass
class State:
    """Holds what registers hold.

    ``held``: by register. ``under``: what was written under a condition, by register and condition.
    """

    held: dict[str, Value | None] = field(default_factory=dict)
    under: dict[str, dict[str, Value | None]] = field(default_factory=dict)

    def copy(self) -> State:
        return State(dict(self.held), {name: dict(values) for name, values in self.under.items()})


def accesses(instructions: Sequence[Instruction]) -> tuple[Access, ...]:
    """List the loads and stores of a kernel, equal ones together."""
    found: Counter[tuple[str, int, Steps | None]] = Counter()
    state = State()
    waiting: dict[int, list[State]] = {}  # states on paths that join at an instruction
    for i, each in enumerate(instructions):
        for other in waiting.pop(i, ()):
            state = _joined(state, other)
        if each.name in ACCESSES and (match := ADDRESS.search(each.operands)):
            value = _held(match[1], each, state)
            found[ACCESSES[each.name], width(each), value.steps if value else None] += 1
        for target in each.targets if each.name in JUMPS else ():
            if target > i:
                waiting.setdefault(target, []).append(state.copy())
        _run(each, state)
        if (each.name in JUMPS or each.name == "EXIT") and not each.predicate:
            state = State()  # what follows is reached from elsewhere alone
            if following := waiting.pop(i + 1, ()):
                state = following[0]
                waiting[i + 1] = following[1:]
    listed = [Access(kind=k, bytes=b, steps=s, count=n) for (k, b, s), n in found.items()]
    return tuple(sorted(listed, key=lambda a: (a.kind, a.bytes, a.steps or (-1, 0, 0))))


def _joined(one: State, other: State) -> State:
    """Return what registers hold where two paths join."""
    under = {name: _agreed(one.under.get(name, {}), other.under.get(name, {})) for name in {*one.under, *other.under}}
    return State(_agreed(one.held, other.held), under)


def _agreed(one: Mapping[str, Value | None], other: Mapping[str, Value | None]) -> dict[str, Value | None]:
    return {name: _common(one.get(name), other.get(name)) for name in {*one, *other}}


def _common(one: Value | None, other: Value | None) -> Value | None:
    """Return what two paths agree on about a register."""
    if one is None or other is None or one == other:
        return one if one == other else None
    return Value(one.steps) if one.steps == other.steps else None


def _held(register: str, each: Instruction, state: State) -> Value | None:
    """Return what an instruction finds in a register: what was written under its own condition, or to all threads."""
    under = state.under.get(register, {}) if each.predicate else {}
    return under[each.predicate] if each.predicate in under else state.held.get(register)


def _run(each: Instruction, state: State) -> None:
    """Change the state as an instruction does."""
    for predicate in PREDICATE.findall(",".join(each.operands.split(",")[:2])):  # what it may set
        for values in state.under.values():
            values.pop(f"@{predicate}", None)
            values.pop(f"@!{predicate}", None)
    target = each.operands.partition(",")[0].strip()
    if not re.fullmatch(r"R\d+", target) or each.name.startswith(("ST", "RED")):
        return
    made = _value(each, _operands(each.operands)[1:], state)
    count = 4 if "128" in each.modifiers else 2 if {"64", "WIDE"} & set(each.modifiers) else 1
    names = [target, *(f"R{int(target[1:]) + step}" for step in range(1, count))]
    for name in names:
        new = made if name == target or (made and made.steps == UNIFORM) else None
        if each.predicate:
            state.under.setdefault(name, {})[each.predicate] = new
            state.held[name] = _common(state.held.get(name), new)
        else:
            state.under.pop(name, None)
            state.held[name] = new


def _operands(text: str) -> list[str]:
    """Split operands, without predicates and without what marks a register as used again."""
    words = [word.strip().removesuffix(".reuse") for word in text.split(",")]
    return [word for word in words if word and not re.fullmatch(r"!?U?P(?:\d|T)", word)]


def _value(each: Instruction, operands: Sequence[str], state: State) -> Value | None:
    """Return what an instruction computes, or None where that is unknown."""
    name, modifiers = each.name, set(each.modifiers)
    if name == "S2R":
        special = operands[0]
        if special == "SR_LANEID":
            return None
        return Value(INDICES[special], 0) if special in INDICES else Value(UNIFORM)
    if name in ("LDC", "ULDC", "CS2R"):  # a parameter, unless a thread's own index chooses it
        return Value(UNIFORM) if ADDRESS.search(each.operands) is None else None
    if name in ACCESSES or name in LOADS:
        return None
    return _computed(name, modifiers, [_read(word, each, state) for word in operands])


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
    made = None
    if name in ("IADD3", "IADD", "VIADD"):
        made = _sum(values)
    elif name == "IMAD" and len(values) == 3:
        made = _sum([_product(values[0], values[1]), values[2]])
    elif name == "LEA" and len(values) == 3:
        made = _sum([_shifted(values[0], values[2]), values[1]])
    elif name == "SHF" and "L" in modifiers and not modifiers & HIGH:
        made = _shifted(values[0], values[1])
    return made


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
        return _rows(number, 1 << max(numbers), "number") if WARP_BITS <= max(numbers) < SIGN_BIT else None
    if name == "LOP3" and numbers[-1] == AND:
        for mask in numbers[:-1]:
            if mask & WHOLE_WARP == WHOLE_WARP and mask & (mask + 1) == 0:
                return _rows(number, mask + 1, "place")
            row = 2**32 - mask
            if mask >> SIGN_BIT and row > WHOLE_WARP and row & (row - 1) == 0:
                return _rows(number, row, "begin")
    return None


def _rows(number: Value, row: int, asked: str) -> Value | None:
    """Split a number into rows of ``row``, where its steps and its origin are whole rows.

    ``asked``: the number of its row, its place in it, or where its row begins.
    """
    _, y, z = number.steps
    if any(step % row for step in (y, z, number.origin or 0)) or FAR in (abs(y), abs(z)):
        return None
    made = {
        "number": Value((0, y // row, z // row)),
        "place": Value(INDICES["SR_TID.X"], 0),
        "begin": Value((0, y, z), number.origin),
    }
    return made[asked]


def _read(word: str, each: Instruction, state: State) -> Value | None:
    """Read an operand: a register, a number, or something that all threads share."""
    if NUMBER.fullmatch(word):
        return Value(UNIFORM, int(word, 0))
    if match := REGISTER.fullmatch(word):
        register = match[1]
        if register in ("RZ", "URZ"):
            return Value(UNIFORM, 0)
        if register.startswith("U"):
            return Value(UNIFORM)
        value = _held(register, each, state)
        if value and word.startswith("-"):
            return Value(_times(value.steps, -1), None if value.origin is None else -value.origin)
        return value
    return Value(UNIFORM) if word.startswith(("c[", "cx[", "-c[")) else None


def _sum(values: Sequence[Value | None]) -> Value | None:
    steps, origin = UNIFORM, 0
    known = True
    for value in values:
        if value is None:
            return None
        steps = (_add(steps[0], value.steps[0]), _add(steps[1], value.steps[1]), _add(steps[2], value.steps[2]))
        known = known and value.origin is not None
        origin += value.origin or 0
    return Value(steps, origin if known else None)


def _add(one: int, other: int) -> int:
    return FAR if FAR in (abs(one), abs(other)) else one + other


def _times(steps: Steps, factor: int) -> Steps:
    x, y, z = (FAR if abs(step) == FAR and factor else step * factor for step in steps)
    return (x, y, z)


def _product(one: Value | None, other: Value | None) -> Value | None:
    if one is None or other is None:
        return None
    if other.steps != UNIFORM:
        one, other = other, one
    if other.steps != UNIFORM:
        return None
    if other.constant is not None:
        return Value(_times(one.steps, other.constant), None if one.origin is None else one.origin * other.constant)
    x, y, z = (FAR if step else 0 for step in one.steps)
    return Value((x, y, z))


def _shifted(value: Value | None, shift: Value | None) -> Value | None:
    if value is None or shift is None:
        return None
    if shift.constant is None:
        return _product(value, Value(UNIFORM))
    return _product(value, Value(UNIFORM, 1 << shift.constant)) if 0 <= shift.constant < 32 else None


WARP, SECTOR = 32, 32  # threads; bytes that memory moves at once
BANKS, WORD = 32, 4  # of shared memory, and the bytes of a bank


def sectors(access: Access, block: Sequence[int]) -> int | None:
    """Count the sectors of 32 bytes that one access of a full warp touches; None where the addresses are unknown.

    ``block``: x, y and z. The first address is taken for a multiple of a sector.
    """
    if access.steps is None:
        return None
    touched = {
        place
        for at in _addresses(access.steps, block)
        for place in range(at // SECTOR, -(-(at + access.bytes) // SECTOR))
    }
    return len(touched)


def bank_ways(access: Access, block: Sequence[int]) -> int | None:
    """Return how many rounds an access of a warp to shared memory takes; 1 where no two threads want one bank.

    Threads that read the same word share it. Accesses of 8 and 16 bytes are made by half and quarter warps.
    """
    if access.steps is None:
        return None
    lanes = list(_addresses(access.steps, block))
    together = max(1, min(WARP, WARP * WORD // access.bytes))
    ways = []
    for first in range(0, len(lanes), together):
        words = {word for at in lanes[first : first + together] for word in _words(at, access.bytes)}
        wanted = [0] * BANKS
        for word in words:
            wanted[word % BANKS] += 1
        ways.append(max(wanted))
    return max(ways)


def _words(at: int, size: int) -> Iterable[int]:
    return range(at // WORD, (at + size - 1) // WORD + 1)


def _addresses(steps: Steps, block: Sequence[int]) -> Iterable[int]:
    """Yield the address of each thread of a block's first warp, from that of its first thread."""
    x, y, z = (*block, 1, 1)[:3]
    for thread in range(min(WARP, x * y * z)):
        at = (thread % x, thread // x % y, thread // (x * y))
        yield sum(step * index for step, index in zip(steps, at, strict=True))
