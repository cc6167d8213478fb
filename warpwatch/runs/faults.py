"""Faults of kernels with their places in sources, and the reports of compilers and the software device as such.

A fault is made once, in the process in which a test failed, from the error itself. Whatever shows faults later reads
them from the run's record (runs/record.py).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct, structs

from warpwatch.catalogue.cases import Case
from warpwatch.devices.compile.builds import text_of
from warpwatch.devices.compile.compiler import CompileError
from warpwatch.devices.foreign_text import plain_lines
from warpwatch.devices.machine import LATE, DeviceError
from warpwatch.devices.mismatch import WrongElements, WrongResult
from warpwatch.verdict.contracts import BrokenContract

UNPRINTABLE = r"\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
Text = Annotated[str, Meta(pattern=rf"^[^{UNPRINTABLE}]*\Z", max_length=10_000)]  # of one line
Number = Annotated[int, Meta(ge=0, le=2**31)]

# The report of the software device, or of compute-sanitizer: what is wrong in which kernel, and a line for each place.
FINDING = re.compile(
    r"^(?:softcuda|compute-sanitizer \w+): (?P<what>.+) in (?P<kernel>\S+)\n(?P<places>(?:  .*\n?)+)", re.MULTILINE
)
PLACE = re.compile(r"^  (?P<file>[^\s:][^:\n]*?):(?P<line>\d+)(?: \(called at [^)]*\))?: (?P<said>.+)$", re.MULTILINE)
# The report of a compiler: g++ and clang separate the line by a colon, nvcc puts it in parentheses.
COMPILE = re.compile(
    r"^(?P<file>[^\s:(]+)(?::(?P<line>\d+)(?::\d+)?|\((?P<nvcc>\d+)\)): error: (?P<said>.+)$", re.MULTILINE
)
# Whose access a line of the software device's report is of.
ACCESS = re.compile(r"thread \((?P<thread>\d+(?:, \d+)*)\) of block \((?P<block>\d+(?:, \d+)*)\)")
COMPILE_ERROR, WRONG, FAILED, SLOWER = "compile error", "wrong result", "failed test", "slower"
CONTRACT = "broken contract"
LONGEST = 2000  # characters of a sentence
MISTAKE, TIMEOUT, LOST = "mistake in a declaration", "timeout", "lost device"


class Place(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of a file, and what happens there. ``file`` is empty where the place is unknown.

    ``thread``, ``block``: indices of the thread to which it happens, where that is known.
    """

    file: Text = ""
    line: Number = 0
    message: Text = ""
    thread: tuple[Number, ...] = ()
    block: tuple[Number, ...] = ()

    @classmethod
    def of_kernel(cls, case: Case) -> Place:
        """Return a kernel's file and the first line of its function; nothing of a call or a function of Python."""
        if case.variant.call:
            return cls()
        if text := text_of(case.build):
            place = text.place(_line_of_kernel(text.code, case.entry))
            return cls(file=_file(place[0]), line=place[1]) if place else cls()
        if callable(case.variant.source):
            return cls()
        return cls(file=_file(case.build.source), line=first_line(case.build.source, case.entry))

    @classmethod
    def of_declaration(cls, case: Case) -> Place:
        """Return the line of a family's declaration that has its arrays, or else its reference."""
        for function in (case.family.arrays, case.family.reference):
            code = getattr(function, "__code__", None)
            if code and Path(code.co_filename).is_relative_to(case.family.root):
                return cls(file=_file(code.co_filename), line=code.co_firstlineno)
        return cls()

    @classmethod
    def of_access(cls, match: re.Match[str]) -> Place:
        """Return a place in the software device's report, a match of PLACE."""
        access = ACCESS.match(match["said"])
        thread, block = (tuple(map(int, access[name].split(", "))) if access else () for name in ("thread", "block"))
        return cls(
            file=match["file"], line=int(match["line"]), message=match["said"][:LONGEST], thread=thread, block=block
        )


class Fault(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fault that a test found.

    ``kind``: such as race, out-of-bounds, compile error, wrong result or timeout. ``kernel``: the function, where it is
    known. ``place``: where the fault shows; its ``message`` says what is wrong. ``others``: places of its other side.
    ``in_source``: the place is the line of the fault itself, and not merely where the kernel begins. ``elements``: of
    each result that is wrong.
    """

    kind: Text
    place: Place
    kernel: Text = ""
    others: tuple[Place, ...] = ()
    in_source: bool = False
    elements: tuple[WrongElements, ...] = ()


def reported(text: str) -> list[Fault]:
    """Return the faults that compilers, the software device and compute-sanitizer report with a line."""
    faults = []
    for match in FINDING.finditer(text):
        places = [Place.of_access(place) for place in PLACE.finditer(match["places"])]
        if places:
            kind = match["what"].partition("(")[0].strip() or match["what"]
            kind, kernel = kind[:LONGEST], match["kernel"][:LONGEST]
            first, *others = places
            faults.append(Fault(kind=kind, kernel=kernel, place=first, others=tuple(others), in_source=True))
    return [*faults, *compile_errors(text)]


def compile_errors(text: str) -> tuple[Fault, ...]:
    """Return the errors in the output of a compiler, without what differs between builds."""
    places = (
        Place(file=match["file"], line=int(match["line"] or match["nvcc"]), message=match["said"])
        for match in COMPILE.finditer(text)
    )
    return tuple(Fault(kind=COMPILE_ERROR, place=place, in_source=True) for place in places)


def of_error(error: BaseException, place: Place, text: str = "") -> list[Fault]:
    """Return the faults of an error: those that it names with a line in a source, or the error itself at ``place``.

    ``text``: what is said of it, where that is not its message.
    """
    message = text or plain_lines(str(error))
    if not text and (faults := reported(message)):
        return faults
    summary = message.strip().partition("\n")[0]
    elements: tuple[WrongElements, ...] = ()
    if isinstance(error, WrongResult):
        summary, elements = error.summary, error.elements
    place = structs.replace(place, message=one_line(summary) or "no message")
    return [Fault(kind=_kind(error), place=place, elements=elements)]


def _kind(error: BaseException) -> str:
    if isinstance(error, WrongResult):
        return WRONG
    if isinstance(error, CompileError):
        return COMPILE_ERROR
    if isinstance(error, BrokenContract):
        return CONTRACT
    if isinstance(error, DeviceError) and error.lost:
        return TIMEOUT if error.lost == LATE else LOST
    return FAILED


def one_line(text: str) -> str:
    """Return a text as a record holds it: one line, cut off where it is too long."""
    return " ".join(plain_lines(text).split())[:LONGEST]


def _file(path: object) -> str:
    """Return a path as a record holds it, also where a folder has a line break in its name, or what is not UTF-8."""
    return plain_lines(str(path)).replace("\n", " ")[:LONGEST]


@functools.cache
def first_line(source: Path, entry: str) -> int:
    """Return the line in which a kernel function begins, or else the file's first kernel."""
    try:
        return _line_of_kernel(source.read_text(errors="replace"), entry)
    except OSError:
        return 1


def _line_of_kernel(text: str, entry: str) -> int:
    lines = text.splitlines()
    name = re.split(r"[<(]", entry)[0].rpartition("::")[2]
    called = re.compile(rf"\b{re.escape(name)}\s*\(")
    here = [number for number, line in enumerate(lines) if called.search(line.partition("//")[0])]
    for number in here:
        for start in range(number, max(-1, number - 6), -1):
            if "__global__" in lines[start]:
                return start + 1
            if start < number and re.search(r"[;}]\s*$", lines[start]):
                break
    marked = [number for number, line in enumerate(lines) if "__global__" in line.partition("//")[0]]
    return next(iter([*here, *marked]), 0) + 1  # the name of a template's or a macro's instance is in no line


def merged(faults: Iterable[tuple[Fault, str]]) -> list[tuple[Fault, tuple[str, ...]]]:
    """Return each fault once, by kind, kernel and lines, with all the tests that found it."""
    known: dict[tuple[object, ...], tuple[Fault, tuple[str, ...]]] = {}
    for fault, test in faults:
        lines = tuple((place.file, place.line) for place in (fault.place, *fault.others))
        first, tests = known.get(key := (fault.kind, fault.kernel, *lines), (fault, ()))
        known[key] = (first, (*tests, test))
    return list(known.values())


def sentence(fault: Fault, tests: tuple[str, ...] = ()) -> str:
    """Return a fault in a sentence, with the first test that found it."""
    where = f" in {fault.kernel}" if fault.kernel else ""
    parts = [f"{fault.kind}{where}: {fault.place.message}"]
    parts += [f"{other.file}:{other.line}: {other.message}" for other in fault.others]
    if tests:
        more = f" and {len(tests) - 1} other tests" if len(tests) > 1 else ""
        parts.append(f"found by {tests[0]}{more}")
    return "; ".join(parts)


def at(fault: Fault, file: str, line: int) -> Fault:
    """Return a fault at another place, with what it says."""
    return structs.replace(fault, place=structs.replace(fault.place, file=file, line=line))
