"""Reads preprocessed CUDA C++ with Clang's front end: its declarations, kernels, and the instances of templates.

libclang parses the very text that g++ or nvcc is given later, behind the same headers, so that the offsets of its
cursors are places in that text. Only what the user wrote is read: headers of the system and of softcuda stay as they
are. Clang continues after an error, as after an unknown type in host code; what it cannot read at all is left for the
compiler to refuse.

An instance shows by a warning: each kernel template begins with a call of a deprecated function whose own instances
depend on the kernel's, and Clang names the kernel's instance, with all arguments, in the note that follows.
"""

from __future__ import annotations

import bisect
import functools
import importlib
import re
import site
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from brackets import BRACKETS, STRING, SYSTEM, end_of, opening
from messages import BadKernel
from precompiled import Precompiled, beginning, precompiled

MARKS = "global|device|constant|shared|managed|host"  # nvcc's macros make __attribute__((global)) of __global__
MARK = re.compile(rf"\b__(?P<word>{MARKS})__\b|\b__attribute__\(\((?P<attribute>{MARKS})\)\)")
MARKER = re.compile(r'^[ \t]*# (?P<line>\d+) "(?P<file>(?:\\.|[^"])*)"(?P<flags>[ \d]*)$', re.MULTILINE)
FLAGS = re.compile(r'^([ \t]*# \d+ "(?:\\.|[^"])*")[ \d]+$', re.MULTILINE)
SPACE = re.compile(r"(?:\s|;|^[ \t]*#[^\n]*|\b(?:public|private|protected)\s*:)*", re.MULTILINE)
BLANK = re.compile(r"(?:\s|^[ \t]*#[^\n]*)*", re.MULTILINE)
TOKEN = re.compile(rf"^[ \t]*#[^\n]*|{STRING}|[A-Za-z_]\w*|::|->|[^\s\w]", re.MULTILINE)
END = re.compile(r"(?:\s|^[ \t]*#[^\n]*)*;", re.MULTILINE)
ATTRIBUTES = {word: f"__attribute__(({word}))" for word in MARKS.split("|") if word != "managed"}
# No CUDA that is installed: what Clang has read without one it would not take with one.
ARGUMENTS = ["-x", "cuda", "--cuda-host-only", "-std=c++17", "-nocudainc", "-nocudalib", "-nostdinc", "-ferror-limit=0",
             "--cuda-path=/nowhere",
             "-Wno-everything", "-Wdeprecated-declarations", "-ftemplate-backtrace-limit=0", "-fno-spell-checking",
             "-Xclang", "-target-sdk-version=12.3", "-D__managed__=__attribute__((device))",
             *(f"-D__{word}__={attribute}" for word, attribute in ATTRIBUTES.items()),
             "-D__launch_bounds__(...)=", "-D__maxnreg__(...)=", "-D__block_size__(...)=",
             "-D__remove_reference(...)=__remove_reference_t(__VA_ARGS__)",
             "-D__reference_converts_from_temporary(...)=false"]  # fmt: skip
SEEN = "softcuda_seen"
NAME, HEADERS = "kernel.cu", "headers.cu"  # what Clang reads
FOR_SERIALIZATION = 0x10  # CXTranslationUnit_ForSerialization, which the bindings lack
# What Clang says where a text declares what a header does that it does not include.
CLASH = re.compile(r"\b(?:redefinition|ambiguous|redeclar|conflict|cannot overload|different kind of symbol)")
# What Clang asks for to launch kernels, and functions that are handed kernels.
LAUNCHERS = ["cudaLaunchKernel", "cudaLaunchKernelEx", "cudaLaunchKernelExC", "cudaLaunchCooperativeKernel",
             "cudaFuncSetAttribute", "cudaFuncGetAttributes", "cudaFuncSetCacheConfig",
             "cudaOccupancyMaxActiveBlocksPerMultiprocessor", "cudaOccupancyMaxPotentialBlockSize"]  # fmt: skip
# Functions of tensors' classes that give a pointer to elements of the type that they are called with.
POINTERS = ["data", "data_ptr", "const_data_ptr", "mutable_data_ptr", "mutable_data"]
PRELUDE = (
    f"\ntemplate <class T> __attribute__((deprecated, host, device)) void {SEEN}(); "
    'extern "C" unsigned __cudaPushCallConfiguration(dim3, dim3 = 1, decltype(sizeof(0)) = 0, void* = 0); '
    + " ".join(f"template <class... T> int {name}(T...);" for name in LAUNCHERS)
    + "struct softcuda_any { template <class... T> softcuda_any(T&&...); "
    + " ".join(f"template <class T> T* {name}() const;" for name in POINTERS)
    + " };\n"
)
PROBE = f" struct {SEEN}_here {{ }}; {SEEN}<{SEEN}_here>(); "
FORCED = ("\n#pragma clang force_cuda_host_device begin\n", "\n#pragma clang force_cuda_host_device end\n")
# What is built into g++, and Clang has under another name or not at all: types and traits from g++ 13 on.
TYPES = """
typedef float _Float32; typedef double _Float64; typedef double _Float32x; typedef long double _Float64x;
#ifdef __SIZEOF_FLOAT128__
typedef __float128 _Float128;
#else
typedef long double _Float128;
#endif
"""
PACK = re.compile(r"integer_sequence<_Tp, __integer_pack\((?:_Num|_Tp\(_Num\))\)\.\.\.>")
LOOSE = re.compile(r"(<<)\s+(<)|(>>)\s+(>)")  # nvcc takes these for <<< and >>>
LAUNCH = re.compile(r"(?P<name>(?:(?:\w+\s*)?::\s*)*[A-Za-z_]\w*)\s*$")
LOOSE_LAUNCH = re.compile(r"<<\s*<")
LAUNCHED = re.compile(r">\s*<<\s*<")  # with arguments of a template
WORTH_KEEPING = 2**20  # characters, from which on what Clang has read of a beginning is kept
ATTEMPTS = 4  # to read a text, each with more stand-ins for unknown types
QUALIFIED = re.compile(r"\w+(?:::\w+)*")
UNKNOWN = re.compile(
    r"^(?:unknown type name|no type named|no (?P<template>template) named|no member named"
    r"|(?P<first>use of undeclared identifier)) '(?P<name>\w+)'(?: in namespace '(?P<space>[\w:]+)')?$"
)
INSTANCE = re.compile(r"in instantiation of function template specialization '(?P<instance>.*)' requested here")
UNNAMED = re.compile(r"\((?:lambda|unnamed|anonymous (?!namespace))")
CLASSES = {"CLASS_DECL", "STRUCT_DECL", "UNION_DECL", "CLASS_TEMPLATE", "CLASS_TEMPLATE_PARTIAL_SPECIALIZATION"}
FUNCTIONS = {"FUNCTION_DECL", "FUNCTION_TEMPLATE", "CXX_METHOD", "CONSTRUCTOR", "DESTRUCTOR", "CONVERSION_FUNCTION"}
KINDS = {**dict.fromkeys(CLASSES, "class"), "ENUM_DECL": "class", **dict.fromkeys(FUNCTIONS, "function"),
         **dict.fromkeys(["VAR_DECL", "FIELD_DECL"], "variable"),
         **dict.fromkeys(["USING_DIRECTIVE", "USING_DECLARATION", "TYPEDEF_DECL", "TYPE_ALIAS_DECL", "STATIC_ASSERT",
                          "TYPE_ALIAS_TEMPLATE_DECL", "NAMESPACE_ALIAS", "CONCEPT_DECL"], "using")}  # fmt: skip
PRIORITY = ["class", "function", "variable", "using", "other"]


@dataclass(kw_only=True, eq=False)
class Declaration:
    """A declaration: the text from ``first`` up to ``last``, with its semicolon.

    ``kind``: function, variable, class, using, instance (an explicit one), or other: what Clang has not read. ``body``:
    where the bracket stands that opens it, 0 where there is none; ``end``: behind the one that closes it. ``names``:
    what is declared, A::f as A and f. ``cursors``: Clang's.
    """

    text: str = field(repr=False)
    first: int
    last: int
    kind: str
    body: int = 0
    end: int = 0
    names: tuple[tuple[str, ...], ...] = ()
    cursors: list = field(default_factory=list, repr=False)

    @functools.cached_property
    def words(self) -> list[str]:
        """Tokens in front of the body, marks of the device's as __global__."""
        head = MARK.sub(lambda match: f"__{match['word'] or match['attribute']}__", self.text[self.first : self.ahead])
        return [token for token in TOKEN.findall(head) if not token.lstrip().startswith("#")] or [""]

    @property
    def ahead(self) -> int:
        """Where the body begins, or the end of a declaration without one."""
        return self.body or self.last

    def has(self, *words: str) -> bool:
        return not set(words).isdisjoint(self.words)

    def has_inside(self, mark: str) -> bool:
        return any(mark in match.groups() for match in MARK.finditer(self.text, self.first, self.last))


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of a function without its default: its name, "" where it has none, and where its type ends."""

    text: str
    name: str
    last: int
    is_pack: bool


class Unit:
    """What Clang has read of a text between two places."""

    def __init__(
        self, text: str, begin: int, end: int, foreign: str | tuple[str, ...], known: Precompiled | None = None
    ) -> None:
        """Read a text. ``known``: headers that Clang has read before, of which nothing has to be read again."""
        self.text, self.begin, self.end = text, begin, end
        self.markers, self.others = regions(text, begin, end, foreign)
        known = known or self._beginning()
        self._kernels = list(self._bodies())
        self._launches = list(self._launched())
        self._members: dict[Declaration, list[Declaration]] = {}
        self._read(known)
        if known and any(CLASH.search(error) for error in self.errors()):
            known = None
            self._read(known)
        self.declared = self.within(self._unit.cursor, begin, end)
        if calls := list(self._calls()):
            self._launches += calls
            self._members.clear()
            self._read(known)
            self.declared = self.within(self._unit.cursor, begin, end)
        self.instances = self._instances()

    def _beginning(self) -> Precompiled | None:
        """Return what Clang has read of the text up to the user's first line; None where that is not worth it."""
        length = self.begin
        for first, last, *_ in self.others:
            if not BLANK.fullmatch(self.text, length, first):
                break
            length = last
        if length < WORTH_KEEPING:
            return None
        path = beginning(self.text[:length], headers_read, ARGUMENTS, bindings().__file__)
        return Precompiled(path=path, length=length) if path else None

    def _read(self, known: Precompiled | None) -> None:
        """Let Clang read the text, again where stand-ins for types that it does not know make more of it."""
        stand_ins: list[str] = []
        for _ in range(ATTEMPTS):
            self._unit = parsed(self._for_clang(known, "".join(stand_ins)), known)
            unknown = self._unknown() if self._launches_templates() else []
            if set(unknown) <= set(stand_ins):
                break
            stand_ins = list(dict.fromkeys([*stand_ins, *unknown]))

    def _changes(self, known: Precompiled | None, stand_ins: str) -> Iterator[tuple[int, int, str]]:
        """Yield what Clang reads in place of parts of the text: of places without length, beside it."""
        if known:
            begin = known.length or self.begin - 1
            yield 0, begin, stand_ins.join(FORCED)
        else:
            begin = 0
            yield 0, 0, TYPES + FORCED[0]
            yield self.begin - 1, self.begin - 1, PRELUDE + stand_ins + FORCED[1]
        others = [each for each in self.others if each[0] >= begin and not (known and each[3] in known.files)]
        yield from ((first, last, "\n") for first, last, _, file in self.others if known and file in known.files)
        for first, last in joined(others):
            place = self.text.index("\n", first)
            yield place, place, FORCED[0]
            yield last, last, FORCED[1]
        yield from ((place, place, PROBE) for place in self._kernels)
        yield from ((place, place, f" (void)&{name}; ") for place, name in self._launches)

    def _for_clang(self, known: Precompiled | None, stand_ins: str) -> str:
        """Return what Clang reads, and keep which parts of it are the text's: where each begins here and there."""
        out: list[str] = []
        self._starts, self._origins = [], []
        position = length = 0
        for first, last, more in sorted(self._changes(known, stand_ins), key=lambda each: each[:2]):
            self._starts.append(length)
            self._origins.append((position, first))
            out += [self.text[position:first], more]
            length += first - position + len(more)
            position = last
        self._starts.append(length)
        self._origins.append((position, len(self.text)))
        text = with_packs("".join([*out, self.text[position:]]))
        text = LOOSE.sub(lambda match: "".join(filter(None, match.groups())).ljust(len(match[0])), text)
        # Where headers are left out, files that are left have not been entered.
        return FLAGS.sub(lambda match: match[1].ljust(len(match[0])), text) if known else text

    def place(self, offset: int) -> int:
        """Return where a place of Clang's is in the text."""
        index = bisect.bisect_right(self._starts, offset) - 1
        first, last = self._origins[index]
        return min(first + offset - self._starts[index], last)

    def place_in_text(self, location) -> int:
        """Return where a location of Clang's is in the text; -1 for one in headers that it has read before."""
        file = location.file
        return self.place(location.offset) if file and file.name == NAME else -1

    def _launches_templates(self) -> bool:
        """Return whether a file has launches and kernel templates."""
        starts = (statement(self.text, place - 1, self.begin) for place in self._kernels)
        is_template = any(re.compile(r"[\s;]*template\b").match(self.text, start) for start in starts)
        return is_template and any(self.find(LOOSE_LAUNCH))

    def _unknown(self) -> list[str]:
        """Return declarations of types that Clang does not know, as those of headers that are not here."""
        found: dict[str, None] = {}
        for error in self._unit.diagnostics:
            place = self.place_in_text(error.location)
            match = UNKNOWN.search(error.spelling)
            if not match or not self.is_own(place):
                continue
            name = QUALIFIED.match(self.text, place)
            is_template = match["template"] or self.text.startswith("<", place + len(match["name"]))
            parts = name[0].split("::") if name and match["first"] else [match["name"]]
            if match["space"]:
                parts = [*match["space"].split("::"), match["name"]]
            if len(parts) > 1 or not match["first"]:
                head = "template <class...> " if is_template else ""
                opened = "".join(f"namespace {part} {{ " for part in parts[:-1])
                found[f"{opened}{head}struct {parts[-1]} : softcuda_any {{ }};{' }' * (len(parts) - 1)}\n"] = None
        return list(found)

    def behind(self, place: int) -> int:
        """Return the end of the header of others that a place is in; the place itself where it is the user's."""
        index = bisect.bisect_right(self._begins, place) - 1
        return max(place, self.others[index][1]) if index >= 0 else place

    def is_own(self, place: int) -> bool:
        """Return whether a place is in the user's text."""
        return self.begin <= place < self.end and self.behind(place) == place

    def find(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """Yield matches in the user's text."""
        first = self.begin
        for last, behind in [*joined(self.others), (self.end, self.end)]:
            yield from pattern.finditer(self.text, first, last)
            first = behind

    def _bodies(self) -> Iterator[int]:
        """Yield the places behind the brackets that open kernels."""
        for mark in self.find(MARK):
            if "global" in mark.groups():
                depth = 0
                for match in BRACKETS.finditer(self.text, mark.end(), self.end):
                    depth += (match[0] == "(") - (match[0] == ")")
                    if not depth and match[0] in ("{", ";"):
                        yield from [match.end()] if match[0] == "{" else []
                        break

    def _launched(self) -> Iterator[tuple[int, str]]:
        """Yield the kernels with written arguments that are launched, and where the statement around each begins.

        Where Clang does not know what a launch passes, it does not look at which kernel is meant.
        """
        for match in self.find(LAUNCHED):
            opened = opening(self.text, match.start(), self.begin, "(<")
            name = LAUNCH.search(self.text, max(self.begin, opened - 200), opened)
            is_launch = name and self.text[opened] == "<" and not is_in_string(self.text, match.start())
            if name and is_launch and (place := statement(self.text, name.start(), self.begin)):
                yield place, " ".join(self.text[name.start() : match.start() + 1].split())

    def _calls(self) -> Iterator[tuple[int, str]]:
        """Yield templates with written arguments that host code calls or hands on, and where, if Clang misses parts.

        It then leaves out the statement, and with it the kernel that it names or what the host template launches.
        """
        templates = [each for each in self.declared if each.kind == "function" and each.body
                     and each.words[0] == "template" and each.words[2] != ">"]  # fmt: skip
        kernels = {each.names[0][-1] for each in templates if each.has("__global__")}
        hosts = {each.names[0][-1] for each in templates if not each.has("__global__", "__device__")}
        if not (kernels or (hosts and any(self.find(LOOSE_LAUNCH)))) or not self.errors():
            return
        bodies = [(each.body, each.end) for each in self.functions(self.declared) if not each.has("__global__")]
        for match in self.find(re.compile(rf"(?:\b\w+\s*::\s*)*\b({'|'.join(kernels | hosts)})\s*(?=<)")):
            last = closing_angle(self.text, match.end())
            is_meant = self.text.startswith("(", last) if match[1] in hosts else not LOOSE_LAUNCH.match(self.text, last)
            is_inside = last and is_meant and any(first < match.start() < end for first, end in bodies)
            if is_inside and (place := statement(self.text, match.start(), self.begin)):
                yield place, " ".join(self.text[match.start() : last].split())

    @functools.cached_property
    def _begins(self) -> list[int]:
        return [first for first, *_ in self.others]

    def within(self, cursor, first: int, last: int) -> list[Declaration]:
        """Return the declarations of a file, namespace or class whose text is between two places, in order."""
        found: list[tuple[int, int, object]] = []
        for child in cursor.get_children():
            extent = child.extent
            start = self.place_in_text(extent.start)
            is_empty = self.text.startswith(";", start)
            if first <= start < last and self.is_own(start) and child.kind.is_declaration() and not is_empty:
                found.append((start, self.place(extent.end.offset), child))
        found.sort(key=lambda each: each[0])
        groups: list[list] = []
        for start, stop, child in found:
            if groups and (start < groups[-1][1] or start == groups[-1][0]):
                groups[-1][1] = max(stop, groups[-1][1])
                groups[-1][2].append(child)
            else:
                groups.append([start, stop, [child]])
        return list(self._arranged(groups, first, last))

    def _arranged(self, groups: list[list], first: int, last: int) -> Iterator[Declaration]:
        position = first
        for index, (start, stop, cursors) in enumerate(groups):
            following = groups[index + 1][0] if index + 1 < len(groups) else last
            begin = position
            if start > position:
                yield from (before := list(self._between(position, start)))[:-1]
                begin = before[-1].first
            position = stop
            opened = self._container(cursors[0], stop)
            if opened:
                yield from self.within(self._innermost(cursors[0], opened), opened, stop - 1)
                continue
            declaration = self._declaration(begin, stop, following, cursors)
            position = declaration.last
            if declaration.kind != "access":
                yield declaration
        yield from list(self._between(position, last))[:-1]

    def _between(self, first: int, last: int) -> Iterator[Declaration]:
        """Yield what Clang has not read between two places, and then what belongs to the declaration behind."""
        while True:
            while (start := self.behind(min(SPACE.match(self.text, first, last).end(), last))) != first:
                first = start
            stop = end_of(self.text, first, last)
            if stop is None:
                yield Declaration(text=self.text, first=first, last=last, kind="other")
                return
            explicit = re.compile(r"(?:extern\s+)?template\b(?!\s*<)").match(self.text, first)
            yield Declaration(text=self.text, first=first, last=stop, kind="instance" if explicit else "other")
            first = stop

    def _container(self, cursor, stop: int) -> int:
        """Return the place behind the bracket that opens a namespace or extern "C"; 0 if it is none."""
        if cursor.kind.name not in ("NAMESPACE", "LINKAGE_SPEC", "UNEXPOSED_DECL") or self.text[stop - 1] != "}":
            return 0
        start = self.place(cursor.extent.start.offset)
        head = re.compile(r'(?:inline\s+)?namespace\b[^{;]*\{|extern\s*"C(?:\+\+)?"\s*\{').match(self.text, start)
        return head.end() if head else 0

    def _innermost(self, cursor, opened: int):
        """Return the innermost namespace of a::b::c, whose bracket is behind all names."""
        inner = [cursor]
        while inner:
            cursor = inner[0]
            inner = [each for each in cursor.get_children() if each.kind.name == "NAMESPACE"
                     and self.place(each.extent.start.offset) < opened]  # fmt: skip
        return cursor

    def _declaration(self, first: int, stop: int, following: int, cursors: list) -> Declaration:
        inner = [each for cursor in cursors for each in unwrapped(cursor)]
        kinds = [KINDS.get(cursor.kind.name, "other") for cursor in inner]
        kind = min(kinds, key=PRIORITY.index)
        chosen = inner[kinds.index(kind)]
        if chosen.kind.name == "CXX_ACCESS_SPEC_DECL":
            return Declaration(text=self.text, first=first, last=stop, kind="access")
        body, end = self._body(chosen, stop) if kind in ("function", "class") else (0, 0)
        semicolon = END.match(self.text, stop, following)
        if not semicolon and not (kind == "function" and body):
            found = end_of(self.text, stop, following)
            stop = found or stop
        names = tuple(name for cursor in inner for name in names_of(cursor))
        return Declaration(text=self.text, first=first, last=semicolon.end() if semicolon else stop, kind=kind,
                           body=body, end=end, names=names, cursors=inner)  # fmt: skip

    def _body(self, cursor, stop: int) -> tuple[int, int]:
        """Return where the body of a function or class begins and ends."""
        last = 0
        for child in cursor.get_children():
            extent, name = child.extent, child.kind.name
            start = self.place(extent.start.offset)
            if name in ("COMPOUND_STMT", "CXX_TRY_STMT") and self.text.startswith(("{", "try"), start):  # no default
                return start, self.place(extent.end.offset)
            if name in ("CXX_BASE_SPECIFIER", "TEMPLATE_TYPE_PARAMETER", "TEMPLATE_NON_TYPE_PARAMETER",
                        "TEMPLATE_TEMPLATE_PARAMETER"):  # fmt: skip
                last = self.place(extent.end.offset)
        if KINDS[cursor.kind.name] == "class" and cursor.is_definition():
            start = max(last, self.place(cursor.location.offset))
            stop = self.place(cursor.extent.end.offset)
            opened = self.text.find("{", start, stop)
            return (opened, stop) if opened >= 0 else (0, 0)
        return 0, 0

    def members(self, declaration: Declaration) -> list[Declaration]:
        """Return what a class declares inside."""
        if declaration not in self._members:
            cursor = next((each for each in declaration.cursors if each.kind.name in CLASSES), None)
            inside = cursor and declaration.body
            self._members[declaration] = (
                self.within(cursor, declaration.body + 1, declaration.end - 1) if inside else []
            )
        return self._members[declaration]

    def parameters(self, function: Declaration) -> Iterator[Parameter]:
        """Yield the parameters of a function."""
        cursor = next(each for each in function.cursors if each.kind.name in FUNCTIONS)
        for child in cursor.get_children():
            if child.kind.name == "PARM_DECL":
                first, last = (self.place(each.offset) for each in (child.extent.start, child.extent.end))
                value = self.text.find("=", first, last)
                last = value if value >= 0 else last
                text = self.text[first:last]
                yield Parameter(text=text, name=child.spelling, last=last, is_pack="..." in text)

    def functions_inside(self, function: Declaration) -> list[tuple[int, int]]:
        """Return where lambdas and classes begin and end within a function."""
        found: list[tuple[int, int]] = []
        waiting = list(function.cursors)
        while waiting:
            cursor = waiting.pop()
            for child in cursor.get_children():
                if child.kind.name in CLASSES or child.kind.name == "LAMBDA_EXPR":
                    found.append((self.place(child.extent.start.offset), self.place(child.extent.end.offset)))
                else:
                    waiting.append(child)
        return found

    def functions_and_declarations(self) -> list[Declaration]:
        """Return the functions of namespaces, and friends of classes that are kernels."""
        friends = (
            member
            for each in self.declared
            if each.kind == "class" and each.has_inside("global")
            for member in self.members(each)
        )
        return [each for each in (*self.declared, *friends) if each.kind in ("function", "instance")]

    def functions(self, declared: Iterable[Declaration]) -> Iterator[Declaration]:
        """Yield the functions that have a body, also those of classes, and members that are initialised."""
        for each in declared:
            if each.kind == "function" and each.body:
                yield each
            elif each.kind == "class":
                yield from self.functions(self.members(each))

    def line_of(self, place: int) -> tuple[str, int]:
        """Return file and line of a place."""
        _, marker, file, line = self.markers[bisect.bisect_right(self.markers, (place,)) - 1]
        return file, line + self.text.count("\n", marker, place)

    def place_of(self, place: int) -> str:
        """Return file, line and column of a place, as compilers write them."""
        file, line = self.line_of(place)
        return f"{file}:{line}:{place - self.text.rfind(chr(10), 0, place)}"

    def _instances(self) -> list[str]:
        """Return the instances of kernels, as C++ names them; those whose arguments have no name are none of nvcc's."""
        instances: dict[str, None] = {}
        for warning in self._unit.diagnostics:
            if SEEN in warning.spelling:
                notes = (INSTANCE.match(each.spelling) for each in warning.children)
                if note := next(filter(None, notes), None):
                    instances[note["instance"].replace("(anonymous namespace)::", "")] = None
        return [each for each in instances if not UNNAMED.search(each)]

    @property
    def launched(self) -> list[str]:
        """Kernels with the arguments that launches are written with."""
        return [name for _, name in self._launches]

    def errors(self) -> list[str]:
        """Return what Clang says of the user's text, each with its place."""
        return [
            f"{self.place_of(place)}: error: {each.spelling}"
            for each in self._unit.diagnostics
            if each.severity >= 3 and self.is_own(place := self.place_in_text(each.location))
        ]


def unwrapped(cursor) -> list:
    """Return the declarations of extern "C" without brackets and of friend, or the declaration itself."""
    if cursor.kind.name in ("LINKAGE_SPEC", "UNEXPOSED_DECL", "FRIEND_DECL"):
        return [each for each in cursor.get_children() if each.kind.is_declaration()] or [cursor]
    return [cursor]


def names_of(cursor) -> Iterator[tuple[str, ...]]:
    """Yield the names that a declaration introduces."""
    if cursor.kind.name == "ENUM_DECL":
        yield from ((each.spelling,) for each in cursor.get_children() if each.kind.name == "ENUM_CONSTANT_DECL")
    name = plain_name(cursor.spelling)
    if not name or name[0] == "(" or cursor.is_anonymous():
        return
    inside, around = cursor.semantic_parent, cursor.lexical_parent
    outside = inside and around and inside != around and around.kind.name not in CLASSES
    if outside and cursor.kind.name in FUNCTIONS | {"VAR_DECL"} and not inside.kind.is_translation_unit():
        yield (plain_name(inside.spelling), name)
    else:
        yield (name,)


def plain_name(name: str) -> str:
    """Return a name without the arguments of a template."""
    return name if name.startswith("operator") else name.partition("<")[0]


def parsed(text: str, known: Precompiled | None = None):
    """Return Clang's translation unit of a text, on top of headers that are known."""
    on_top = ["-include-pch", str(known.path)] if known else []
    index = bindings().Index.create(excludeDecls=True)  # those of the headers
    return index.parse(NAME, args=[*ARGUMENTS, *on_top], unsaved_files=[(NAME, encoded(text))])


def known_headers(flags: list[str]) -> Precompiled | None:
    """Return what Clang has read of softcuda's and the standard library's headers. ``flags``: g++'s."""
    return precompiled(flags, headers_read, ARGUMENTS)


def headers_read(text: str):
    """Return Clang's translation unit of preprocessed headers, without the bodies of functions."""
    cindex = bindings()
    kind = cindex.TranslationUnit
    options = kind.PARSE_INCOMPLETE | FOR_SERIALIZATION | kind.PARSE_SKIP_FUNCTION_BODIES
    whole = encoded(with_packs(f"{TYPES}{FORCED[0]}{text}{PRELUDE}{FORCED[1]}"))
    return cindex.Index.create().parse(HEADERS, args=ARGUMENTS, unsaved_files=[(HEADERS, whole)], options=options)


def with_packs(text: str) -> str:
    """Return the text with Clang's builtin for sequences of integers in place of g++'s, every place as before."""
    return PACK.sub(lambda match: "__make_integer_seq<integer_sequence,_Tp,_Num>".ljust(len(match[0])), text)


class NoReader(BadKernel):
    """Clang's front end is missing."""


def encoded(text: str) -> str:
    """Return the text with one byte for each character, as Clang counts them."""
    return text if text.isascii() else re.sub(r"[^\x00-\x7f]", "x", text)


@functools.cache
def bindings():
    """Return libclang's module. The compiler is started without the folders of packages, because they take long."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    sys.path.append(str(Path(sys.executable).parents[1] / "lib" / version / "site-packages"))
    try:
        return importlib.import_module("clang.cindex")
    except ImportError:
        site.main()  # the other folders of packages
    try:
        return importlib.import_module("clang.cindex")
    except ImportError:
        raise NoReader(
            "softcuda reads CUDA C++ with Clang's front end, which is missing: pip install libclang"
        ) from None


def regions(
    text: str, begin: int, end: int, foreign: str | tuple[str, ...]
) -> tuple[list[tuple[int, int, str, int]], list[tuple[int, int, bool, str]]]:
    """Return the user's line markers, and the headers of others: begin, end, whether they are softcuda's, and the file.

    ``foreign``: the beginning of the paths of headers that are left alone, as those of the system are.
    """
    markers: list[tuple[int, int, str, int]] = []
    others: list[tuple[int, int, bool, str]] = []
    own: set[str] = set()
    theirs: set[str] = set()
    softcudas = False  # also in what softcuda's headers include
    found = list(MARKER.finditer(text, begin, end))
    for index, match in enumerate(found):
        softcudas = softcudas or match["file"].startswith(foreign)
        # Where a macro of the user's is used in a header, the flag is missing; where one of the system's is used
        # in the user's file, it is there.
        if match["file"] in own or not (softcudas or match["file"] in theirs or is_systems(match, own)):
            own.add(match["file"])
            softcudas = False
            markers.append((match.start(), match.end() + 1, match["file"], int(match["line"])))
            continue
        theirs.add(match["file"])
        others.append(
            (match.start(), found[index + 1].start() if index + 1 < len(found) else end, softcudas, match["file"])
        )
    return markers, others


def is_systems(marker: re.Match, own: set[str]) -> bool:
    """Return whether a header is the system's. Beside a file of the user's, the flag may be that of a pragma before."""
    beside = marker["file"].rpartition("/")[0] in {path.rpartition("/")[0] for path in own}
    return SYSTEM in marker["flags"].split() and (not beside or marker["file"][0] == "<")


def joined(regions: list[tuple[int, int, bool, str]]) -> Iterator[tuple[int, int]]:
    """Yield regions, those that follow each other as one."""
    first = last = -1
    for begin, end, *_ in regions:
        if begin != last and last >= 0:
            yield first, last
        first = first if begin == last else begin
        last = end
    if last >= 0:
        yield first, last


def closing_angle(text: str, place: int) -> int:
    """Return the place behind the bracket that closes the arguments of a template; 0 where no such bracket does."""
    depth = 0
    for match in re.compile(rf"{STRING}|[<>(){{}};]").finditer(text, place):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(match[0], 0)
        if not depth:
            return match.end() if match[0] == ">" else 0
        if match[0] in "{};":
            return 0
    return 0


def is_in_string(text: str, place: int) -> bool:
    """Return whether a place is within a string, which ends on the line that it begins on."""
    line, end = text.rfind("\n", 0, place) + 1, text.find("\n", place)
    return any(match.start() < place < match.end() for match in re.compile(STRING).finditer(text, line, end))


def statement(text: str, place: int, begin: int) -> int:
    """Return where the statement around a place begins; 0 if none does."""
    while place > begin:
        place -= 1
        if text[place] in ";{}" and not re.compile(r"\s*else\b").match(text, place + 1):
            return place + 1
        if text[place] in ")}":
            depth = 0
            while place > begin:
                depth += (text[place] in ")}") - (text[place] in "({")
                if not depth:
                    break
                place -= 1
    return 0
