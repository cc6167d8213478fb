"""Splits preprocessed CUDA C++ into its declarations: functions, classes, variables, with what each declares.

Only what the user wrote is split: headers of the system and of softcuda stay as they are. A declaration is recognised
by its brackets and its words, not by its types, so that nothing has to be known of what it names.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

STRING = r"(?:\"(?:\\.|[^\"\\\n])*\"|(?<![\w'])(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')"
MARKS = "global|device|constant|shared|managed|host"  # nvcc's macros make __attribute__((global)) of __global__
LEXEME = re.compile(
    rf"""^[\ \t]*\#\ (?P<line>\d+)\ "(?P<file>(?:\\.|[^"])*)"(?P<flags>[\ \d]*)$ | ^[\ \t]*\#[^\n]*
    | \b__attribute__\(\((?P<mark>{MARKS})\)\) | \bR"(?P<delimiter>[^(\s]*)\((?s:.*?)\)(?P=delimiter)" | {STRING}
    | (?P<word>[A-Za-z_]\w*) | \d[\w.']* | :: | -> | [<>]=(?!=) | [^\s\w]""",
    re.MULTILINE | re.VERBOSE,
)
SYSTEM = "3"  # the flag of a line marker for a header of the system's
BACK = re.compile(r"^# \d+ ", re.MULTILINE)
PAIRS = {"(": ")", "[": "]", "{": "}"}
CLASS_WORDS = {"class", "struct", "union", "enum"}
# Words that have round brackets of their own, before or behind the name of what is declared.
WITH_BRACKETS = {"__launch_bounds__", "__attribute__", "alignas", "decltype", "noexcept", "__declspec", "requires",
                 "__maxnreg__", "__block_size__", "__cluster_dims__", "explicit", "asm", "__asm__", "typeof",
                 "__typeof__", "throw", "static_assert"}  # fmt: skip
OTHER_NAMES = {"using", "typedef", "static_assert", "namespace", "concept"}
ACCESS = {"public", "private", "protected"}
DEVICE = {"__global__", "__device__", "__constant__", "__shared__", "__managed__"}


@dataclass(frozen=True, kw_only=True)
class Source:
    """Preprocessed text as tokens.

    ``markers``: where the user's line markers stand, which are no tokens. ``others``: headers that are not the user's:
    begin, end, and whether they are softcuda's. ``partner``: of each bracket, the index of the token that closes it.
    """

    text: str
    tokens: list[str]
    places: list[tuple[int, int]]
    partner: dict[int, int]
    markers: list[tuple[int, int]]
    others: list[tuple[int, int, bool]]


@dataclass(frozen=True, kw_only=True)
class Item:
    """A declaration: the tokens from ``first`` up to ``last``, which is not of it.

    ``kind``: function, variable, class, using or other. ``body``: the bracket that opens it, 0 where there is none.
    ``brackets``: the one that opens the parameters of a function. ``names``: what is declared, A::f as A and f.
    """

    first: int
    last: int
    kind: str
    body: int
    brackets: int
    names: tuple[tuple[str, ...], ...]


def source_of(text: str, begin: int, end: int, foreign: str | tuple[str, ...]) -> Source | None:
    """Return the tokens of ``text`` between two places; None where its brackets do not match.

    ``foreign``: the beginning of the paths of headers that are left alone, as those of the system are.
    """
    tokens, places, markers, others, partner, opened = [], [], [], [], {}, []
    own: set[str] = set()
    theirs: set[str] = set()
    position, softcudas = begin, False  # the latter also in what softcuda's headers include
    while (match := LEXEME.search(text, position, end)) is not None:
        position, token = match.end(), match[0]
        if match["line"]:
            softcudas = softcudas or match["file"].startswith(foreign)
            # Where a macro of the user's is used in a header, the flag is missing; where one of the system's is used
            # in the user's file, it is there.
            if match["file"] in own or not (softcudas or match["file"] in theirs or is_systems(match, own)):
                own.add(match["file"])
                softcudas = False
                markers.append((match.start(), match.end() + 1))
                continue
            theirs.add(match["file"])
            following = BACK.search(text, match.end(), end)
            position = following.start() if following else end
            others.append((match.start(), position, softcudas))
            continue
        if token.lstrip().startswith("#"):
            continue
        if token in PAIRS:
            opened.append(len(tokens))
        elif token in PAIRS.values():
            if not opened or PAIRS[tokens[opened[-1]]] != token:
                return None
            partner[opened.pop()] = len(tokens)
        tokens.append(f"__{match['mark']}__" if match["mark"] else token)
        places.append(match.span())
    tokens += ["", "", ""]  # what is looked at behind the last one
    places += [(end, end)] * 3
    return None if opened else Source(text=text, tokens=tokens, places=places, partner=partner, markers=markers,
                                      others=others)  # fmt: skip


def is_systems(marker: re.Match, own: set[str]) -> bool:
    """Return whether a header is the system's. Beside a file of the user's, the flag may be that of a pragma before."""
    beside = marker["file"].rpartition("/")[0] in {path.rpartition("/")[0] for path in own}
    return SYSTEM in marker["flags"].split() and (not beside or marker["file"][0] == "<")


def items(source: Source, first: int, last: int) -> Iterator[Item]:
    """Yield the declarations between two tokens, also those in namespaces and in extern "C" { }."""
    position, tokens = first, source.tokens
    while position < last:
        if tokens[position] in (";", "}"):
            position += 1
        elif tokens[position] in ACCESS and tokens[position + 1] == ":":
            position += 2
        elif opened := container(source, position):
            yield from items(source, opened + 1, source.partner[opened])
            position = source.partner[opened] + 1
        else:
            item = Reader(source, position, last).item()
            yield item
            position = item.last


def container(source: Source, position: int) -> int:
    """Return the bracket that opens the namespace or extern "C" at a token; 0 if none begins there."""
    tokens = source.tokens
    if tokens[position] == "extern" and tokens[position + 1][:1] == '"' and tokens[position + 2] == "{":
        return position + 2
    if tokens[position] == "inline" and tokens[position + 1] == "namespace":
        position += 1
    if tokens[position] != "namespace":
        return 0
    while tokens[position] not in ("{", ";", "=", ""):
        position = source.partner.get(position, position) + 1
    return position if tokens[position] == "{" else 0


class Reader:
    """Reader of one declaration, token by token."""

    def __init__(self, source: Source, first: int, last: int) -> None:
        self.source, self.tokens, self.first, self.end = source, source.tokens, first, last
        self.position, self.depth = first, 0  # of angle brackets
        self.brackets = self.body = 0
        self.classish = self.value = self.initialisers = self.naming = False
        self.declared: list[int] = []  # tokens that are names of variables

    def item(self) -> Item:
        """Return the declaration that begins at the first token."""
        while self.position < self.end:
            token = self.tokens[self.position]
            if token == ";" and not self.depth:
                self.position += 1
                break
            if token in PAIRS:
                if self.bracket(token):
                    break
            else:
                self.word(token)
                self.position += 1
        last = min(self.position, self.end)
        kind = self.kind()
        return Item(first=self.first, last=last, kind=kind, body=self.body, brackets=self.brackets,
                    names=tuple(self.names(kind, last)))  # fmt: skip

    def kind(self) -> str:
        if self.classish and self.body:
            return "class"
        if self.naming:
            return "using"
        if self.brackets:
            return "function"
        return "class" if self.classish and not self.declared[1:] else "variable"

    def word(self, token: str) -> None:
        """Take note of a token that is not a bracket."""
        following = self.tokens[self.position + 1]
        if token == "operator":
            self.position += 2 if following == "(" else 0
            while not re.match(r"\w|\(", self.tokens[self.position + 1]):
                self.position += 1
        elif token == "<":
            self.depth += bool(self.depth or not self.value)
        elif token == ">":
            self.depth = max(0, self.depth - 1)
        elif self.depth:
            return
        elif token in OTHER_NAMES and not self.value:
            self.naming = True
        elif token == "=":
            self.value = True
        elif token == ",":
            self.value = self.value and not self.declared
        elif token == ":" and self.brackets:
            self.initialisers = True
        elif token in CLASS_WORDS and not self.brackets and not self.value:
            self.classish = True
        elif re.match(r"[A-Za-z_]", token) and following in (";", ",", "=", "[", "{", "(", ":") and not self.value:
            self.declared.append(self.position)

    def bracket(self, token: str) -> bool:
        """Go behind what a bracket encloses. Returns whether the declaration ends there."""
        opened, close = self.position, self.source.partner[self.position]
        self.position = close + 1
        following = self.tokens[close + 1]
        if self.depth or token == "[":
            return False
        if token == "(":
            self.round_bracket(opened, close)
            return False
        if self.classish:
            self.body = self.body or opened
            return False
        inits = self.value if not self.brackets else self.initialisers
        if (inits and not self.brackets) or (following in (",", "{") and (inits or not self.brackets)):
            return False
        if not self.brackets:
            return following not in (";", ",")
        self.body = opened
        self.position += following == ";"
        return True

    def round_bracket(self, opened: int, close: int) -> None:
        """Take note of the parameters of a function, or of the name of a pointer to one."""
        if self.brackets or self.value or self.tokens[opened - 1] in WITH_BRACKETS:
            return
        inside = self.tokens[opened + 1 : opened + 4]
        if inside[0] in ("*", "&") or inside[1:] == ["::", "*"]:
            if self.declared[-1:] == [opened - 1]:  # a type, and not a name
                self.declared.pop()
            self.declared += [place for place in range(opened + 1, close) if self.tokens[place].isidentifier()]
            self.value = True
        elif opened > self.first:
            self.brackets = opened
            self.classish = False

    def names(self, kind: str, last: int) -> Iterator[tuple[str, ...]]:
        """Yield the names that the declaration introduces."""
        tokens = self.tokens
        if kind == "function":
            yield qualified(tokens, self.brackets - 1, self.first)
        elif kind == "class":
            yield from self.class_names(last)
        else:
            yield from (qualified(tokens, place, self.first) for place in self.declared)

    def class_names(self, last: int) -> Iterator[tuple[str, ...]]:
        tokens, place, depth = self.tokens, self.first, 0
        while tokens[place] not in CLASS_WORDS or depth:
            if tokens[place] == "(":  # around a default argument, in which < and > compare or shift
                place = self.source.partner[place]
            depth += (tokens[place] == "<") - (tokens[place] == ">")
            place += 1
        enumeration = tokens[place] == "enum"
        while tokens[place] not in ("{", ":", ";", "=", "<", ""):
            if tokens[place] in ("(", "["):
                place = self.source.partner[place]
            elif tokens[place].isidentifier() and tokens[place] not in ("final", "class", "struct"):
                yield (tokens[place],)
            place += 1
        if enumeration and self.body:
            inside = range(self.body + 1, self.source.partner[self.body])
            yield from ((tokens[i],) for i in inside if tokens[i - 1] in ("{", ","))
        yield from ((tokens[i],) for i in self.declared if not self.body or i > self.source.partner[self.body])


def qualified(tokens: list[str], place: int, first: int) -> tuple[str, ...]:
    """Return the parts of the name that ends at a token: A<T>::f is A and f, an operator of it A and "operator+"."""
    named = next((each for each in range(place, first - 1, -1) if tokens[each] == "operator"), None)
    if named is not None:
        before = qualified(tokens, named - 2, first) if tokens[named - 1] == "::" and named > first + 1 else ()
        return (*before, "".join(tokens[named : place + 1]))
    parts: list[str] = []
    while place >= first:
        if tokens[place] == ">":  # the arguments of a template
            depth = 1
            while depth and place > first:
                place -= 1
                depth += (tokens[place] == ">") - (tokens[place] == "<")
            place -= 1
        elif tokens[place].isidentifier():
            name = tokens[place]
            place -= 1
            if tokens[place] == "~":
                name, place = f"~{name}", place - 1
            parts.insert(0, name)
            if tokens[place] != "::":
                break
            place -= 1
        else:
            break
    return tuple(parts) or ("",)


def head(source: Source, item: Item) -> list[str]:
    """Return the tokens of a declaration in front of its body."""
    return source.tokens[item.first : item.body or item.last]


def is_marked(source: Source, item: Item) -> bool:
    return not DEVICE.isdisjoint(head(source, item))


def line_of(source: Source, token: int) -> tuple[str, int]:
    """Return file and line of a token."""
    place = source.places[token][0]
    first, marker = source.markers[bisect.bisect_left(source.markers, (place, place)) - 1]
    line, file = re.findall(r'^# (\d+) "(.*)"', source.text[first:marker])[0]
    return file, int(line) + source.text.count("\n", marker, place)


def place_of(source: Source, token: int) -> str:
    """Return file, line and column of a token, as compilers write them."""
    file, line = line_of(source, token)
    place = source.places[token][0]
    return f"{file}:{line}:{place - source.text.rfind(chr(10), 0, place)}"


def functions(source: Source, declared: list[Item]) -> Iterator[Item]:
    """Yield the functions that have a body, also those of classes."""
    for item in declared:
        if item.kind == "function" and item.body:
            yield item
        elif item.kind == "class" and item.body and "enum" not in head(source, item):
            yield from functions(source, list(items(source, item.body + 1, source.partner[item.body])))


def closing(text: str, position: int) -> int:
    """Return where the round bracket closes that is open at ``position``."""
    depth = 1
    for match in re.compile(rf"{STRING}|[()]").finditer(text, position):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if not depth:
            return match.start()
    return len(text)


def split(text: str, separator: str, brackets: str = "()[]{}") -> list[str]:
    """Split at separators that are in no bracket and no string."""
    parts, depth, begin = [], 0, 0
    for match in re.finditer(rf"{STRING}|[{re.escape(brackets + separator)}]", text):
        depth += (match[0] in brackets[::2]) - (match[0] in brackets[1::2])
        if match[0] == separator and not depth:
            parts.append(text[begin : match.start()])
            begin = match.end()
    return [*parts, text[begin:]]


def edited(text: str, edits: Iterable[tuple[int, int, str]], begin: int = 0) -> str:
    """Return the text from a place on with other words between some places; an edit within another one is left out."""
    out = []
    for start, stop, instead in sorted(edits, key=lambda edit: (edit[0], -edit[1])):
        if start >= begin:
            out += [text[begin:start], instead]
            begin = stop
    return "".join([*out, text[begin:]])
