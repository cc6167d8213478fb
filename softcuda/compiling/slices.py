"""Finds what the address of each access depends on: variables, and conditions on the way (a backward slice).

A fault shows where memory is touched; the mistake is often where the index was computed, or in the condition that let
the thread come so far. Read from the intermediate form that g++ writes. The answer goes into the image, a line for each
access, and slices.cpp looks there when something is found.

Limits: a slice has at most the nearest 200 statements, a value that comes through shared or global memory ends it, a
function that is not inlined begins a new one (of what a lambda function captured, only the line above that sets it is
known), and a switch counts as no condition. Where the form cannot be read, findings are as they would be without.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

# The first form in which all calls are inlined. Loops are not unrolled yet, and addresses not yet simplified.
FLAG = "-fdump-tree-objsz1-lineno"
MOST = 200  # statements of a slice, the nearest: a function of thousands would take minutes

LOCATION = re.compile(r"\[([^\[\]\n]+):(\d+):\d+(?: discrim \d+)?\] ")
VALUE = re.compile(r"(?<![\w.])((?:[A-Za-z$][\w$.]*)?_\d+)(\(D\))?(?!\w)")
NAMED_VALUE = re.compile(r"([A-Za-z$][\w$]*)_\d+")
VARIABLE = re.compile(r"([A-Za-z]\w*)")  # one whose address is taken
CAPTURED = re.compile(r"(?:->|\.)__(\w+)$")  # what a lambda function has of the function around
REFERENCES = re.compile(r"  .*& (_\d+);")  # g++'s own
LOCAL = re.compile(r"  (?!static )\S.*?[ *&]([A-Za-z_]\w*(?:\.\d+)?)(?:\[\d+\])*;")
BASE = re.compile(r"(?:MEM\b[^&]*&)?([A-Za-z_]\w*(?:\.\d+)?)(?![\w(])")
MEMBER = re.compile(r"(?:\.|->)([A-Za-z_]\w*)$")
ELEMENT = re.compile(r"([A-Za-z_]\w*)\[")
CONVERSION = re.compile(r"(?:\([^()]*\) )?([\w$.]*_\d+)")
OWN_INDEX = re.compile(r"\b(?:threadIdx|blockIdx)\.")
LAUNCH = re.compile(r"\b(?:threadIdx|blockIdx|blockDim|gridDim)\b")
ARGUMENT = re.compile(rf"\(D\)|{LAUNCH.pattern}")
CALL = re.compile(r"[A-Za-z_.][\w:.]* ?\(")
WATCHED_CALL = re.compile(r"softcuda_(?:copy_async|atomic|compare_and_swap) \(")
COPY = re.compile(r"softcuda_copy_async \((.*?), (.*)")  # where to, and from where and how much
REFERENCE = re.compile(r"\.UBSAN_NULL \((.*), 2B, \d+\)")  # an object is bound to a reference: its address


class Place(NamedTuple):
    """A line of a kernel's file or header."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Statement(NamedTuple):
    """Statement of a dump: its target, and the text of its value or of the condition that it is."""

    number: int
    place: Place | None
    target: str
    source: str
    block: int
    is_condition: bool

    @property
    def name(self) -> str:
        """Variable of the source that it sets; "" for one of g++'s own."""
        patterns = NAMED_VALUE.fullmatch, VARIABLE.fullmatch, MEMBER.search, ELEMENT.match
        match = next(filter(None, (matches(self.target) for matches in patterns)), None)
        return match[1] if match and not CAPTURED.search(self.target) else ""


class Slice(NamedTuple):
    """Backward slice of one access: where variables of its address are set, and conditions; the nearest first."""

    place: Place
    writes: bool
    reads: bool
    variables: list[tuple[str, Place]]
    conditions: list[tuple[str, Place]]  # and what they are of
    lines: set[Place]  # all of the address
    deciders: set[Place]  # all of what decides whether it is reached


def table(dump: str, rename: Callable[[str], str]) -> str:
    """Return a line for each access: its place, r or w or rw, names and places of variables, conditions, all lines,
    and those of what decides.

    ``dump``: what FLAG made. ``rename``: the path as findings show it, "" for a file that is none of the kernel's.
    """
    lines = set()
    functions = [Function(text, rename) for text in dump.split("\n;; Function ")[1:]]
    captured: dict[str, set[Place]] = {}
    for statement in (s for function in functions for s in function.statements if VARIABLE.fullmatch(s.target)):
        if statement.place:
            captured.setdefault(statement.name, set()).add(statement.place)
    for function in functions:
        function.captured = captured
        for one in function.slices():
            variables, conditions = (
                "|".join(f"{name}={place}" for name, place in part) for part in (one.variables, one.conditions)
            )
            kind = "r" * one.reads + "w" * one.writes
            all_lines, deciders = ("|".join(map(str, sorted(places))) for places in (one.lines, one.deciders))
            lines.add(f"{one.place}\t{kind}\t{variables}\t{conditions}\t{all_lines}\t{deciders}\n")
    return "".join(sorted(lines))


class Function:
    """A function of a dump."""

    def __init__(self, text: str, rename: Callable[[str], str]) -> None:
        self.statements: list[Statement] = []
        self.next: dict[int, list[int]] = {}  # blocks that come after a block
        head, _, body = text.partition("\n  <bb ")
        self.locals = {match[1] for line in head.split("\n") if (match := LOCAL.fullmatch(line))}
        self.references = {match[1] for line in head.split("\n") if (match := REFERENCES.fullmatch(line))}
        self.captured: dict[str, set[Place]] = {}  # where variables are set that lambda functions may capture
        self._places: dict[tuple[str, str], Place | None] = {}
        self._last: Place | None = None  # place of the statement or mark before, of the kernel's own
        self._rename = rename
        block = 0
        for line in f"<bb {body}".split("\n"):
            if header := re.match(r"\s*<bb (\d+)>.*:$", line):
                if block:
                    self.next.setdefault(block, [int(header[1])])
                block = int(header[1])
            elif "# DEBUG" not in line:
                self._read(block, line.strip())
            elif mark := LOCATION.match(line.strip()):
                self._last = self._place(mark[1], mark[2]) or self._last
        self.set_by = {s.target: s for s in self.statements if VALUE.fullmatch(s.target)}
        # g++ uses the value of a variable before its conversion to the variable's type.
        self.converted: dict[str, Statement] = {}
        for statement in self.statements:
            if statement.name and (conversion := CONVERSION.fullmatch(statement.source)):
                self.converted.setdefault(conversion[1], statement)
        self.stores: dict[str, list[Statement]] = {}  # to local arrays and structs, by the pieces that _local names
        for statement in self.statements:
            if statement.target not in self.set_by and (variable := self._local(statement.target)):
                self.stores.setdefault(variable, []).append(statement)

    def _read(self, block: int, line: str) -> None:
        location = LOCATION.match(line)
        plain = LOCATION.sub("", line).removeprefix("# ").rstrip(";")
        if jump := re.search(r"goto <bb (\d+)>", plain):
            self.next.setdefault(block, []).append(int(jump[1]))
        elif plain.startswith("return"):
            self.next.setdefault(block, [])
        elif plain.startswith("if ("):
            self._add(location, "", plain, block, True)
        elif " = " in plain or WATCHED_CALL.match(plain) or REFERENCE.match(plain):
            target, equals, source = plain.partition(" = ")
            if "CLOBBER" not in source and not source.startswith(".DEFERRED_INIT"):
                self._add(location, target if equals else "", source if equals else plain, block, False)

    def _add(self, location: re.Match[str] | None, target: str, source: str, block: int, is_condition: bool) -> None:
        place = self._place(location[1], location[2]) if location else None
        self._last = place or self._last
        if location and WATCHED_CALL.match(source):  # which a function of softcuda's may have in it
            place = self._last
        self.statements.append(Statement(len(self.statements), place, target, source, block, is_condition))

    def _place(self, file: str, line: str) -> Place | None:
        if (file, line) not in self._places:
            renamed = self._rename(file)
            self._places[file, line] = Place(renamed, int(line)) if renamed else None
        return self._places[file, line]

    def _local(self, text: str) -> str:
        """Return the name of a piece of a local array or struct, the same for every store to it and load from it."""
        if LAUNCH.match(text):  # whose x, y and z are no variable's
            return ""
        if member := MEMBER.search(text):
            return f".{member[1]}"
        return self._base(text)

    def _base(self, text: str) -> str:
        """Return the local array or struct that a text is a piece of; "" where it is reached by a pointer."""
        base = BASE.match(text)
        return base[1] if base and base[1] in self.locals else ""

    def _stores_to(self, text: str) -> Iterator[Statement]:
        """Yield the stores to a piece: those to the same member of another local variable are none."""
        base = self._base(text)
        for store in self.stores.get(self._local(text), ()):
            if not base or self._base(store.target) in ("", base):
                yield store

    def _is_memory(self, text: str) -> bool:
        """Return whether a text stands for shared, global or constant memory."""
        if VALUE.fullmatch(text) or text.startswith("&") or LAUNCH.match(text):
            return False
        if text[1:] in self.references and any(CAPTURED.search(s.source) for s in self._setters(text)):
            return False  # a variable that a lambda function captured
        if text.startswith(("*", "MEM")) or "->" in text:
            base = BASE.match(text) if text.startswith("MEM") and "&" in text else None
            return not (base and base[1] in self.locals)
        base = BASE.match(text)
        return bool(base and base[1] not in self.locals and re.search(r"[\[.]", text))

    def slices(self) -> Iterator[Slice]:
        """Yield the slice of each access of memory that threads share."""
        for statement in self.statements:
            if not statement.place or statement.is_condition:
                continue
            if copy := COPY.match(statement.source):
                yield self._slice(statement, copy[1], writes=True, reads=False)
                yield self._slice(statement, copy[2], writes=False, reads=True)
                continue
            if WATCHED_CALL.match(statement.source):
                yield self._slice(statement, statement.source, writes=True, reads=True)
                continue
            if reference := REFERENCE.match(statement.source):
                yield self._slice(statement, reference[1], writes=False, reads=True)
                continue
            if self._is_memory(statement.target):
                yield self._slice(statement, statement.target, writes=True, reads=False)
            if not CALL.match(statement.source) and self._is_memory(statement.source):
                yield self._slice(statement, statement.source, writes=False, reads=True)

    def _slice(self, access: Statement, memory: str, *, writes: bool, reads: bool) -> Slice:
        assert access.place
        statements = self._depends_on(self._setters(memory))
        own = {
            s.place for s in statements if s.place and OWN_INDEX.search(s.source)
        }  # where the thread's or block's own part is chosen
        named = self._named(statements, access.place)
        for place in own - {access.place, *named, *self._heads}:  # g++ did without the variable
            named[place] = ""
        variables = sorted(named, key=lambda place: place not in own)
        conditions: dict[Place, str] = {}
        for condition in self._conditions(access.block):
            if condition.place:
                conditions.setdefault(condition.place, "")
            of_condition = self._named(self._depends_on([condition]), access.place)
            unnamed = (place for place in of_condition if place not in {*variables, *conditions})
            if place := next(unnamed, None):
                conditions[place] = of_condition[place]
        conditions.pop(access.place, None)
        return Slice(
            access.place, writes, reads,
            [(named[place], place) for place in variables],
            [(name, place) for place, name in conditions.items()],
            {s.place for s in statements if s.place},
            {s.place for s in self._depends_on(self._branches(access.block)) if s.place},
        )  # fmt: skip

    def _named(self, statements: Iterable[Statement], access: Place) -> dict[Place, str]:
        """Return the lines where variables are set, without that of the access and heads of loops."""
        named: dict[Place, str] = {}
        for one in statements:
            if one.place and (capture := CAPTURED.search(one.source)):
                before = [place for place in self.captured.get(capture[1], ()) if place < one.place]
                if before and max(before).file == one.place.file:
                    named.setdefault(max(before), capture[1])
            statement = one if one.name else self.converted.get(one.target, one)
            if statement.name and statement.place and statement.place != access and statement.place not in self._heads:
                named.setdefault(statement.place, statement.name)
        return named

    def _setters(self, text: str) -> Iterator[Statement]:
        """Yield the statements that set a value of a text."""
        for value, _ in VALUE.findall(text):
            if value in self.set_by:
                yield self.set_by[value]

    def _depends_on(self, seeds: Iterable[Statement]) -> list[Statement]:
        """Return these statements and all that they depend on by local variables, the nearest first."""
        statements: dict[int, Statement] = {}
        stored: set[str] = set()
        waiting = deque(seeds)
        while waiting and len(statements) < MOST:
            statement = waiting.popleft()
            if statement.number in statements:
                continue
            statements[statement.number] = statement
            if self._is_memory(statement.source) and not self._local(statement.source):
                continue  # a loaded value, not an index
            waiting.extend(self._setters(statement.source))
            if statement.is_condition or CALL.match(statement.source) or statement.source in stored:
                continue
            stored.add(statement.source)
            waiting.extend(self._stores_to(statement.source))
        return list(statements.values())

    def _conditions(self, block: int) -> Iterator[Statement]:
        """Yield the conditions, other than of constants, that decide whether a block is reached; the nearest first."""
        for condition in self._branches(block):
            if any(ARGUMENT.search(s.source) for s in self._depends_on([condition])):
                yield condition

    def _branches(self, block: int) -> Iterator[Statement]:
        """Yield all conditions that decide whether a block is reached; the nearest first."""
        waiting, seen = deque([block]), {block}
        while waiting:
            for branch in self._deciders[waiting.popleft()]:
                if branch in seen:
                    continue
                seen.add(branch)
                waiting.append(branch)
                if condition := self._condition_of.get(branch):
                    yield condition

    @cached_property
    def _heads(self) -> set[Place]:
        """Lines that have a condition."""
        return {s.place for s in self.statements if s.is_condition and s.place}

    @cached_property
    def _condition_of(self) -> dict[int, Statement]:
        return {s.block: s for s in self.statements if s.is_condition}

    @cached_property
    def _deciders(self) -> dict[int, list[int]]:
        """Blocks whose branch decides whether a block is reached (control dependence), by that block."""
        after = self._always_after()
        decide: dict[int, list[int]] = {block: [] for block in after}
        for branch, successors in self.next.items():
            if len(successors) > 1:
                always = after[branch] & ~(1 << branch)
                decided = (after[successors[0]] | after[successors[1]]) & ~always
                while decided:
                    block = decided.bit_length() - 1
                    decide[block].append(branch)
                    decided ^= 1 << block
        for branches in decide.values():
            branches.sort(reverse=True)  # g++ numbers blocks as they come in the source
        return decide

    def _always_after(self) -> dict[int, int]:
        """Return, for each block, those on every way from it to the end (post-dominators), as bits."""
        blocks = {s.block for s in self.statements} | set(self.next)
        blocks.update(*self.next.values())
        everything = sum(1 << block for block in blocks)
        after = dict.fromkeys(sorted(blocks, reverse=True), everything)
        changed = True
        while changed:
            changed = False
            for block in after:
                common = everything if self.next.get(block) else 0
                for successor in self.next.get(block, ()):
                    common &= after[successor]
                if common | 1 << block != after[block]:
                    after[block], changed = common | 1 << block, True
        return after
