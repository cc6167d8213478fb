"""Sets aside what of a .cu file is the host's, so that only what kernels need is compiled, by g++ or by nvcc.

A function without __global__ or __device__ is host code, and so is a variable that is neither marked nor constant.
Types, constants and constexpr functions are kept where the device's code names them, directly or through one another;
other than that, nothing has to be known of what host code uses. What goes leaves its lines empty.

nvcc compiles host code with its headers and libraries, which are not all here. So functions that the compiler refuses
are found by the lines of its complaints. A function without mark that stayed (as a constexpr one, or an operator that
is named as one of the device's) goes. One for both sides that calls host code is an error only where a kernel calls it:
it stops with a message about that. A template of a kernel that has no instance is looked at by g++ more than by nvcc.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import messages
from instances import INSTANCE, bare, launches, made_at
from items import DEVICE, Item, Source, edited, functions, head, is_marked, items, line_of, place_of, source_of

COMPUTED = {"constexpr", "consteval"}
CONSTANT = {"const", *COMPUTED, "constinit", "__constinit"}
# Words that are no names: besides them, no three names follow each other in a declaration.
KEYWORDS = {"alignas", "asm", "auto", "bool", "char", "class", "concept", "const", "consteval", "constexpr",
            "constinit", "decltype", "default", "delete", "do", "double", "enum", "explicit", "extern", "final",
            "float", "for", "friend", "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept",
            "operator", "override", "private", "protected", "public", "register", "requires", "return", "restrict",
            "short", "signed", "sizeof", "static", "static_assert", "struct", "template", "thread_local", "typedef",
            "typename", "union", "unsigned", "using", "virtual", "void", "volatile", "wchar_t", "char8_t",
            "char16_t", "char32_t"}  # fmt: skip
Edit = tuple[int, int, str]  # the first token, the one behind the last, and what is to stand there


class NotHere(Exception):
    """Raised for a name in the device's code that softcuda does not support; the message begins with file and line."""


@dataclass(kw_only=True)
class Host:
    """Declarations that were set aside.

    ``names``: of functions and variables. ``computed``: constants that only code can set. ``constructors``: classes of
    shared variables whose constructor is code. ``headers``: whether the headers of the system are needed; ``without``:
    whether some were left out. ``asked``: instances of templates that host code launches; ``refused``: those that are
    none, because the compiler refuses the very words. ``broken``: first tokens of functions that kernels do without,
    since the compiler refuses them; ``complaint``: what it said of the first of them; ``launched``: words of all
    instances; ``source``, ``declared``: of the last attempt. ``missing``: headers that are not there, and where each is
    asked for. ``trap``: the body of a function for both sides that needs host code; ``instance``: the declaration that
    makes an instance of a template.
    """

    names: set[str] = field(default_factory=set)
    computed: set[str] = field(default_factory=set)
    constructors: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    headers: bool = False
    without: bool = False
    asked: list[str] = field(default_factory=list)
    broken: set[int] = field(default_factory=set)
    complaint: str = ""
    launched: set[str] = field(default_factory=set)
    source: Source | None = None
    declared: list[Item] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    trap: str = '{ softcuda_trap("a call of a function that needs host code"); }'
    instance: str = "__attribute__((used)) static const auto softcuda_instance{number} = &{instance};"

    def learn(self, errors: str) -> bool:
        """Take note of what the compiler complains of. Returns whether the next attempt can differ from the last."""
        computed = set(re.findall(r"[‘']constinit[’'] variable [‘'](?:\w+::)*(\w+)", errors))
        constructors = set(re.findall(r"non-[‘']constexpr[’'] function [‘'](?:\w+::)*?(\w+)(?:<.*>)?::\1\(", errors))
        undeduced = re.findall(r"unable to deduce [‘']const auto[’'] from [‘']& ?(.+)[’']$", errors, re.MULTILINE)
        # Those whose very words g++ refuses, and not those within which it finds an error.
        wrong = [self.asked[int(n)] for n in re.findall(rf"^{INSTANCE}(\d+)[:(].*: error:", errors, re.MULTILINE)]
        refused = set(map(bare, [*undeduced, *wrong]))
        if computed - self.computed or constructors - self.constructors:
            self.computed |= computed
            self.constructors |= constructors
        elif self.without and not self.headers:
            self.headers = True
        elif refused - self.refused:
            self.refused |= refused
        elif more := broken(self, errors) - self.broken:
            self.broken |= more
            self.complaint = self.complaint or errors
        else:
            return False
        return True


@dataclass(frozen=True, kw_only=True)
class Division:
    """Division of a source: the declarations that kernels need, and the edits that set aside all else.

    ``gone``: the tokens that go within the ``chosen`` declarations.
    """

    source: Source
    chosen: list[Item]
    gone: set[int]
    edits: list[Edit]


def without_host_code(text: str, begin: int, end: int, foreign: str, host: Host) -> str:
    """Return C++ for softcuda, with empty lines in place of host code, and add that code to ``host``.

    Between two places; ``foreign``: the beginning of the paths of softcuda's own headers. Raises NotHere.
    """
    source = source_of(text, begin, end, foreign)
    if source is None:
        return text
    division = divided(source, host)
    chosen, gone = division.chosen, division.gone
    refuse_unsupported(source, chosen, gone)
    edits = [edit for item in chosen if item.kind == "variable" for edit in constant_initialisers(source, item)]
    host.headers |= any("std" in words_without(source, item, gone) for item in chosen if item.kind != "using")
    left_out = [] if host.headers else [other[:2] for other in source.others if not other[2]]
    host.without = bool(left_out)
    return without_tokens(source, (begin, end), [*division.edits, *edits, *renamed(source, chosen)], left_out)


def device_part(text: str, begin: int, end: int, foreign: tuple[str, ...], host: Host) -> str:
    """Return a text that nvcc has preprocessed with empty lines in place of host code, and add that to ``host``.

    Between two places; ``foreign``: the beginning of the paths of CUDA's own headers.
    """
    source = source_of(text, begin, end, foreign)
    return without_tokens(source, (begin, end), divided(source, host).edits, []) if source else text


def divided(source: Source, host: Host) -> Division:
    """Return which part of a source is device code, and add what is not to ``host``."""
    # What cannot be a declaration stays, so that the compiler refuses it.
    declared = [item for item in items(source, 0, len(source.tokens) - 3) if is_declaration(source, item)]
    marked = marked_functions(source, declared)
    whole = {name[-1] for item in declared if item.kind == "function" and item.body and is_marked(source, item)
             for name in item.names}  # fmt: skip
    remaining, hosts = apart(source, declared, marked, whole, host)
    host.names |= {name[-1] for item in hosts for name in item.names}
    instances = launches(source, declared, hosts, remaining, host.refused)
    host.asked = [instance for own in instances.values() for instance in own]

    def at(item: Item, token: int) -> str:
        numbered = {host.asked.index(instance): instance for instance in instances.get(item, ())}
        return made_at(source, token, numbered, host.instance)

    edits = [(item.first, item.last, at(item, item.first)) for item in hosts]
    used = set(re.findall(r"\w+", " ".join(host.asked)))
    host.launched |= used
    host.source, host.declared = source, declared
    chosen, inner = reached(source, remaining, marked, used, host)
    kept = {item.first for item in chosen}
    edits += [(item.first, item.last, at(item, item.first)) for item in remaining if item.first not in kept]
    edits += [(item.last, item.last, at(item, item.last - 1)) for item in chosen if item in instances]
    return Division(source=source, chosen=chosen, gone=places(inner), edits=[*edits, *inner])


def apart(
    source: Source, declared: list[Item], marked: set[str], whole: set[str], host: Host
) -> tuple[list[Item], list[Item]]:
    """Return the declarations that stay, and those of host code. ``marked``, ``whole``: functions of the device."""
    asked = asked_types(source)
    remaining: list[Item] = []
    hosts: list[Item] = []
    for item in declared:
        typed = item.kind == "function" and not item.body and item.names[0][-1] in asked
        of_host = (is_host(source, item, marked, whole) and not typed) or is_computed(source, item, host.computed)
        if item.first in host.broken:
            of_host |= not is_marked(source, item) or is_kernel_template(source, item)
        (hosts if of_host else remaining).append(item)
    return remaining, hosts


def asked_types(source: Source) -> set[str]:
    """Return the names within decltype(...), of functions whose type alone may be asked for."""
    tokens = source.tokens
    asked = (place + 1 for place, token in enumerate(tokens) if token == "decltype" and tokens[place + 1] == "(")
    return {token for opened in asked for token in tokens[opened : source.partner[opened]]} | taken_over(tokens)


def taken_over(tokens: list[str]) -> set[str]:
    """Return names of functions that a class has from another one by "using A::f;"."""
    return {
        tokens[place - 1]
        for place, token in enumerate(tokens)
        if token == ";" and tokens[place - 2 : place - 1] == ["::"] and "using" in tokens[max(0, place - 8) : place]
    }


def refuse_unsupported(source: Source, chosen: list[Item], gone: set[int]) -> None:
    """Raise NotHere if a name that is left is not supported, unless the source declares it itself."""
    own = {item.names[0][-1] for item in chosen if item.kind == "function"}
    errors = [
        f"{place_of(source, place)}: error: {messages.not_supported(name)}"
        for item in chosen
        for place in range(item.first, item.last)
        if (name := messages.unsupported_name(source.tokens[place - 2 : place], source.tokens[place]))
        and source.tokens[place - 1] not in (".", "->")
        and place not in gone
        and name not in own
        and not (
            name in messages.WITHOUT_MASK and source.tokens[item.first] == "template"
        )  # only instances can be wrong
    ]
    if errors:
        raise NotHere("\n".join(errors))


def is_declaration(source: Source, item: Item) -> bool:
    """Return whether an item can be a declaration, by its words and its end."""
    words = head(source, item)
    in_a_row = any(all(is_name(token) for token in words[place : place + 3]) for place in range(len(words) - 2))
    return source.tokens[item.last - 1] in (";", "}") and not in_a_row


def is_name(token: str) -> bool:
    """Return whether a token is a name: one that begins with __ is not, as __device__."""
    return token.isidentifier() and token not in KEYWORDS and not token.startswith("__")


def marked_functions(source: Source, declared: Iterable[Item]) -> set[str]:
    """Return the names of functions that run on the device; of members also with that of their class, ending in ::."""
    functions = (item for item in declared if item.kind == "function" and is_marked(source, item))
    names = {name[-1] for item in functions for name in item.names}
    for item in declared:
        if item.kind == "class" and item.body and item.names:
            inner = marked_functions(source, list(items(source, item.body + 1, source.partner[item.body])))
            own = f"{item.names[0][-1]}::"
            names |= {own, *inner, *(own + name for name in inner)}
    return names


def is_marked_name(name: tuple[str, ...], marked: set[str]) -> bool:
    """Return whether a function of that name runs on the device; A::f is known by its class if the file has it."""
    of_class = len(name) > 1 and f"{name[-2]}::" in marked
    return (f"{name[-2]}::{name[-1]}" if of_class else name[-1]) in marked


def is_host(source: Source, item: Item, marked: set[str], whole: set[str]) -> bool:
    """Return whether a declaration of a namespace is the host's alone. ``whole``: marked functions with a body."""
    words = head(source, item)
    if item.kind == "function":
        if not (DEVICE | COMPUTED).isdisjoint(words):
            return False
        is_devices = is_marked_name(item.names[0], marked)
        if item.body and words[0] != "template":  # its declaration may be the one that is marked
            return not is_devices or item.names[0][-1] in whole
        return not is_devices or bool(item.body)
    if item.kind == "variable":
        return DEVICE.isdisjoint(words) and CONSTANT.isdisjoint(words) and "texture" not in words
    return False


def is_computed(source: Source, item: Item, computed: set[str]) -> bool:
    names = {name[-1] for name in item.names}
    return item.kind == "variable" and not is_marked(source, item) and not names.isdisjoint(computed)


def reached(
    source: Source, remaining: list[Item], marked: set[str], used: set[str], host: Host
) -> tuple[list[Item], list[Edit]]:
    """Return the declarations that the device's code and ``used`` need, and the edits within them."""
    edits: list[Edit] = []
    chosen: list[Item] = []
    waiting, over = remaining, taken_over(source.tokens)
    while True:
        wanted = [is_wanted(source, item, used) for item in waiting]
        if not any(wanted):
            return chosen, edits
        for item in itertools.compress(waiting, wanted):
            inner = members(source, item, marked, host, over) if item.kind == "class" and item.body else []
            inner += [trapped(source, item, host)] if item.first in host.broken else []
            edits += inner
            used |= words_without(source, item, places(inner))
            chosen.append(item)
        waiting = [item for item, is_now in zip(waiting, wanted, strict=True) if not is_now]


def is_wanted(source: Source, item: Item, used: set[str]) -> bool:
    words = head(source, item)
    if not DEVICE.isdisjoint(words) or words[0] == "static_assert" or "texture" in words:
        return True
    if words[0] == "using" and "=" not in words:
        return words[1] == "namespace" or item.names[0][-1] in used
    # An operator is used without being named.
    names = [name[:-1] if name[-1].startswith("operator") else name for name in item.names]
    return not names or any(used.issuperset(name) for name in names)


def places(edits: list[Edit]) -> set[int]:
    """Return the tokens that edits replace."""
    return {place for first, last, _ in edits for place in range(first, last)}


def words_without(source: Source, item: Item, gone: set[int]) -> set[str]:
    return {source.tokens[place] for place in range(item.first, item.last) if place not in gone}


def members(source: Source, item: Item, marked: set[str], host: Host, over: set[str]) -> list[Edit]:
    """Return the edits that remove bodies of host functions of a class, and functions that no type depends on.

    A function without body stays where a constant or a type of the class asks for its type, as traits do.
    """
    edits: list[Edit] = []
    names = {name[-1] for name in item.names}
    if "enum" in head(source, item):
        return []
    inner = list(items(source, item.body + 1, source.partner[item.body]))
    asked = {word for member in inner if member.kind != "function" for word in words_without(source, member, set())}
    for member in inner:
        words = head(source, member)
        if member.kind == "class" and member.body:
            edits += members(source, member, marked, host, over)
        befriended = words[0] == "friend" and not member.body and "(" in words
        if befriended and member.names[0][-1] not in marked and (DEVICE | COMPUTED).isdisjoint(words):
            edits.append((member.first, member.last, ""))
        if member.first in host.broken:
            edits += [trapped(source, member, host)] if is_marked(source, member) else without_body(source, member)
            continue
        defaulted = source.tokens[member.last - 2] in ("default", "delete")
        if member.kind != "function" or defaulted or not (DEVICE | COMPUTED).isdisjoint(words):
            continue
        name = member.names[0][-1]
        asked_for = "virtual" in words or "override" in words or name in over or name == "operator="
        if name.lstrip("~") in names or asked_for:
            edits += without_body(source, member)
        elif member.body or name not in marked | asked:
            edits.append((member.first, member.last, ""))
    return edits


def constant_initialisers(source: Source, item: Item) -> list[Edit]:
    """Have the compiler refuse a variable that would need code to be run first, as CUDA does."""
    words = head(source, item)
    if not {*COMPUTED, "__constinit", "__shared__", "extern", "texture"}.isdisjoint(words):
        return []
    before = words[: words.index("=")] if "=" in words else words
    if ("(", "*") in itertools.pairwise(before):  # a pointer to a function, where g++ 12 takes no such word
        return []
    mark = next((word for word in words if word in ("__device__", "__managed__", "__constant__", "const")), "")
    place = item.first + words.index(mark)
    return [(place, place + 1, f"__constinit {mark}")]


def renamed(source: Source, chosen: list[Item]) -> Iterator[Edit]:
    """Rename types of fixed width that a source declares itself: those of <cstdint> are there, maybe with others."""
    words = {item.names[0][-1] for item in chosen if item.kind == "using" and source.tokens[item.first] == "typedef"}
    own = {word for word in words if re.fullmatch(r"u?int\d+_t", word)}
    for place, token in enumerate(source.tokens if own else []):
        if token in own and source.tokens[place - 1] != "::":
            yield (place, place + 1, f"softcuda_own_{token}")


def without_body(source: Source, member: Item) -> Iterator[Edit]:
    """Make a declaration of a definition: what initialises members goes, too."""
    if not member.body:
        return
    first = source.partner[member.brackets] + 1
    while first < member.body and source.tokens[first] != ":":
        first += 1
    yield (first, member.last, ";")


def without_tokens(source: Source, limits: tuple[int, int], edits: list[Edit], left_out: list[tuple[int, int]]) -> str:
    """Return the text with other words for some tokens and without some headers, on the same lines."""
    stay = sorted({*source.markers, *((first, last) for first, last, _ in source.others)} - {*left_out})
    changes = [(first, last, "") for first, last in left_out]
    for first, last, instead in edits:
        start, stop = (
            source.places[first][0] if first < last else source.places[last - 1][1],
            source.places[last - 1][1],
        )
        changes.append((start, stop, instead + remains(source.text, start, stop, stay)))
    return source.text[: limits[0]] + edited(source.text, changes, limits[0])


def remains(text: str, start: int, stop: int, stay: list[tuple[int, int]]) -> str:
    """Return what is left of a removed text: its line ends, line markers, and headers of others."""
    out, position = [], start
    for first, last in stay[bisect.bisect_left(stay, (start, start)) :]:
        if last > stop:
            break
        out += ["\n" * text.count("\n", position, first), text[first:last]]
        position = last
    return "".join([*out, "\n" * text.count("\n", position, stop)])


# Errors as g++ and nvcc write them.
ERROR = re.compile(
    r"^(?P<file>[^\s:][^:\n]*?)(?::(?P<line>\d+):\d+: |\((?P<nvcc>\d+)\): )"
    r"(?:(?:catastrophic )?error(?: #[\w-]+)?: (?P<what>.*)|  required from .*)",
    re.MULTILINE,
)
QUOTED = re.compile(r"[‘'][^’']*[’']|\"[^\"\n]*\"")


def broken(host: Host, errors: str) -> set[int]:
    """Return the first tokens of functions and using directives that the compiler refuses and that can go."""
    complaints: dict[str, list[tuple[int, bool]]] = {}  # lines, and whether they are of host code
    for error in ERROR.finditer(errors):
        quoted = " ".join(QUOTED.findall(error["what"] or ""))
        of_host = not host.names.isdisjoint(re.findall(r"\w+", quoted))
        complaints.setdefault(error["file"], []).append((int(error["line"] or error["nvcc"]), of_host))
    source, launched = host.source, host.launched
    directives = (item for item in host.declared if head(source, item)[:2] == ["using", "namespace"])
    whole = itertools.chain(functions(source, host.declared), directives) if source else ()
    return {item.first for item in whole if is_meant(source, item, launched, complaints)}


def is_meant(source: Source, item: Item, launched: set[str], complaints: dict[str, list[tuple[int, bool]]]) -> bool:
    """Return whether complaints are of a function that can go; of one for both sides, that they name host code.

    ``launched``: words of the instances that host code launches.
    """
    words = head(source, item)
    both = "__host__" in words and "__device__" in words
    unused = is_kernel_template(source, item) and item.names[0][-1] not in launched
    if not (both or unused or DEVICE.isdisjoint(words)):
        return False
    file, first = line_of(source, item.first)
    last = first + source.text.count("\n", source.places[item.first][0], source.places[item.last - 1][1])
    return any(first <= line <= last and (of_host or not both) for line, of_host in complaints.get(file, ()))


def is_kernel_template(source: Source, item: Item) -> bool:
    words = head(source, item)
    return words[0] == "template" and words[2] != ">" and "__global__" in words


def trapped(source: Source, item: Item, host: Host) -> tuple[int, int, str]:
    """Return the edit that replaces the body of a function for both sides that needs host code."""
    return (item.body, source.partner[item.body] + 1, host.trap)
