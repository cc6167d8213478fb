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
import functools
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import messages
from brackets import Edit, closing, edited
from reader import TOKEN, Declaration, Unit

DEVICE = {"__global__", "__device__", "__constant__", "__shared__", "__managed__"}
MARKED = {mark.strip("_") for mark in DEVICE}
COMPUTED = {"constexpr", "consteval"}
CONSTANT = {"const", *COMPUTED, "constinit", "__constinit"}
RUNTIME = re.compile(r"(?:cuda|cu|cublas|curand|cudnn)[A-Z]\w+")  # names of functions that host code calls
INSTANCE = "softcuda-instance-"  # what the file of an instance is called, with its number
NAME = re.compile(r"(\w+)<")  # of an instance
# A variable whose value is an address as another type.
CAST = re.compile(
    r"[‘']constinit[’'] variable [‘'](?:\w+::)*(\w+)[’'].*\n(?: .*\n)*.* error: [‘']reinterpret_cast[’'] is not a const"
)


@dataclass(kw_only=True)
class Host:
    """Declarations that were set aside.

    ``names``: of functions and variables. ``computed``: constants that only code can set. ``cast``: variables whose
    value is cast, which g++ 14 calls no constant. ``constructors``: classes of shared variables whose constructor
    is code. ``headers``: whether the headers of the system are needed; ``without``: whether some were left out.
    ``asked``: instances of templates that host code launches; ``refused``: those that the compiler refuses.
    ``broken``: where functions begin that kernels do without, since the compiler refuses them; ``complaint``: what
    it said of the first of them; ``unit``: what the last attempt was read from. ``missing``: headers that are not
    there, and where each is asked for. ``trap``: the body of a function for both sides that needs host code;
    ``instance``: the declaration that makes an instance of a template.
    """

    names: set[str] = field(default_factory=set)
    computed: set[str] = field(default_factory=set)
    cast: set[str] = field(default_factory=set)
    constructors: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    headers: bool = False
    without: bool = False
    asked: list[str] = field(default_factory=list)
    broken: set[int] = field(default_factory=set)
    complaint: str = ""
    unit: Unit = field(init=False)
    missing: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    trap: str = '{ softcuda_trap("a call of a function that needs host code"); }'
    instance: str = "__attribute__((used)) static const auto softcuda_instance{number} = &{instance};"

    def learn(self, errors: str) -> bool:
        """Take note of what the compiler complains of. Returns whether the next attempt can differ from the last."""
        cast = set(CAST.findall(errors))
        computed = set(re.findall(r"[‘']constinit[’'] variable [‘'](?:\w+::)*(\w+)", errors)) - cast
        constructors = set(re.findall(r"non-[‘']constexpr[’'] function [‘'](?:\w+::)*?(\w+)(?:<.*>)?::\1\(", errors))
        # Those whose very words g++ refuses, and not those within which it finds an error.
        numbers = map(int, re.findall(rf"^{INSTANCE}(\d+)[:(].*: error:", errors, re.MULTILINE))
        refused = {self.asked[number] for number in numbers}
        if computed - self.computed or constructors - self.constructors or cast - self.cast:
            self.computed |= computed
            self.cast |= cast
            self.constructors |= constructors
        elif self.without and not self.headers:
            self.headers = True
        elif refused - self.refused:
            self.refused |= refused
        elif more := broken(self, errors):
            self.broken |= more
            self.complaint = self.complaint or errors
        else:
            return False
        return True


def device_part(unit: Unit, host: Host) -> str:
    """Return a text that nvcc has preprocessed with empty lines in place of host code, and add that to ``host``."""
    return written(unit, divided(unit, host)[2])


def without_host_code(unit: Unit, host: Host) -> list[Edit]:
    """Return the edits that leave of a text what g++ compiles, and add what goes to ``host``. Raises BadKernel."""
    chosen, inner, gone = divided(unit, host)
    refuse_unsupported(unit, chosen, inner)
    host.headers |= any("std" in words(unit, each, inner) for each in chosen if each.kind != "using")
    left_out = [] if host.headers else [(first, last, "") for first, last, softcudas, _ in unit.others if not softcudas]
    host.without = bool(left_out)
    edits = [edit for each in chosen if each.kind == "variable" for edit in constant_initialisers(each, host.cast)]
    return [*gone, *edits, *renamed(unit, chosen), *left_out]


def divided(unit: Unit, host: Host) -> tuple[list[Declaration], list[Edit], list[Edit]]:
    """Return what kernels need of a text, the edits within that, and all edits; add what goes to ``host``."""
    marked = marked_functions(unit, unit.declared)
    whole = {each.names[0][-1] for each in unit.declared if each.kind == "function" and each.body and is_marked(each)}
    remaining, hosts = apart(unit, marked, whole, host)
    host.names |= {name[-1] for each in hosts for name in each.names}
    host.asked = [each for each in asked_instances(unit, host.refused) if each not in host.refused]
    host.unit = unit
    used = set(re.findall(r"\w+", " ".join(host.asked)))
    chosen, inner = reached(unit, remaining, marked, used, host)
    kept = {each.first for each in chosen}
    gone = [*hosts, *(each for each in remaining if each.first not in kept)]
    edits = [(each.first, each.last, "") for each in gone]
    made = "".join(
        f'\n# 1 "{INSTANCE}{number}"\n{host.instance.format(number=number, instance=instance)}\n'
        for number, instance in enumerate(host.asked)
    )
    return chosen, inner, [*edits, *inner, (unit.end, unit.end, made)]


def asked_instances(unit: Unit, refused: set[str]) -> list[str]:
    """Return the instances that are launched; of kernels of which some are refused, also as the launches name them.

    Clang leaves out the arguments of a template that is an argument itself.
    """
    kernels = {name_of(each) for each in refused}
    return list(dict.fromkeys([*unit.instances, *(each for each in unit.launched if name_of(each) in kernels)]))


def name_of(instance: str) -> str:
    return match[1] if (match := NAME.search(instance)) else ""


def not_made(unit: Unit, host: Host) -> Iterator[str]:
    """Yield a warning for each instance that g++ refuses, and each kernel template without one that is launched."""
    as_written = {name_of(each) for each in {*unit.launched} & {*host.asked}}
    for instance in sorted(each for each in host.refused if name_of(each) not in as_written or each in unit.launched):
        yield f"warning: {instance} is launched and not made here: instantiate it (template __global__ void ...;)\n"
    made = {name_of(each) for each in (*unit.instances, *host.asked) if each not in host.refused}
    guessed = host.refused or unit.errors()
    bodies = [(each.body, each.end) for each in unit.functions(unit.declared)] if guessed else []
    for each in unit.declared if guessed else ():
        name = each.names[0][-1] if each.names else ""
        if each.body and is_kernel_template(each) and name not in made:
            named = unit.find(re.compile(rf"\b{name}\s*<"))
            if launch := next((match for match in named if any(a < match.start() < b for a, b in bodies)), None):
                yield (
                    f"{unit.place_of(launch.start())}: warning: no instance of the kernel template {name} is made here:"
                    " its arguments depend on what is missing, so instantiate it (template __global__ void ...;)\n"
                )


def apart(unit: Unit, marked: set[str], whole: set[str], host: Host) -> tuple[list[Declaration], list[Declaration]]:
    """Return the declarations that stay, and those of host code. ``marked``, ``whole``: functions of the device."""
    asked = asked_types(unit)
    remaining: list[Declaration] = []
    hosts: list[Declaration] = []
    for each in unit.declared:
        typed = each.kind == "function" and not each.body and each.names[0][-1] in asked
        of_host = (is_host(each, marked, whole) and not typed) or is_computed(each, host.computed)
        if each.first in host.broken:
            of_host |= not is_marked(each) or is_kernel_template(each)
        (hosts if of_host else remaining).append(each)
    return remaining, hosts


def asked_types(unit: Unit) -> set[str]:
    """Return the names within decltype(...), of functions whose type alone may be asked for."""
    asked = (match.end() for match in unit.find(re.compile(r"\bdecltype\s*\(")))
    return {word for place in asked for word in re.findall(r"\w+", unit.text[place : closing(unit.text, place)])} | (
        taken_over(unit)
    )


@functools.lru_cache(maxsize=1)
def taken_over(unit: Unit) -> set[str]:
    """Return names of functions that a class has from another one by "using A::f;"."""
    return {match[1] for match in unit.find(re.compile(r"\busing\s+[^;={}]*::\s*(\w+)\s*;"))}


def refuse_unsupported(unit: Unit, chosen: list[Declaration], inner: list[Edit]) -> None:
    """Raise BadKernel if a name that is left is not supported, unless the source declares it itself."""
    own = {each.names[0][-1] for each in chosen if each.kind == "function"}
    errors = [
        f"{unit.place_of(place)}: error: {messages.not_supported(name)}"
        for each in chosen
        for place, before, word in qualified_words(unit, each)
        if (name := messages.unsupported_name(before, word))
        and before[-1:] not in ([".", "->"])
        and not any(first <= place < last for first, last, _ in inner)
        and name not in own
        # only instances can be wrong
        and not (name in messages.WITHOUT_MASK and each.words[0] == "template")
    ]
    if errors:
        raise messages.BadKernel("\n".join(errors))


def qualified_words(unit: Unit, declaration: Declaration) -> Iterator[tuple[int, list[str], str]]:
    """Yield the names in a declaration that may not be supported, where each is, and the two tokens before it."""
    if messages.REASON_WORDS.isdisjoint(spelled(unit.text, declaration)):
        return
    before = ["", ""]
    for match in TOKEN.finditer(unit.text, declaration.first, declaration.last):
        if match[0] in messages.REASON_WORDS:
            yield match.start(), before, match[0]
        before = [before[1], match[0]]


def marked_functions(unit: Unit, declared: Iterable[Declaration]) -> set[str]:
    """Return the names of functions that run on the device; of members also with that of their class, ending in ::."""
    names: set[str] = set()
    for each in declared:
        if each.kind == "function" and is_marked(each):
            names |= {name[-1] for name in each.names}
        elif each.kind == "class" and each.body and each.names:
            inner = marked_functions(unit, unit.members(each))
            own = f"{each.names[0][-1]}::"
            names |= {own, *inner, *(own + name for name in inner)}
    return names


def is_marked(declaration: Declaration) -> bool:
    return not DEVICE.isdisjoint(declaration.words)


def is_marked_name(name: tuple[str, ...], marked: set[str]) -> bool:
    """Return whether a function of that name runs on the device; A::f is known by its class if the file has it."""
    of_class = len(name) > 1 and f"{name[-2]}::" in marked
    return (f"{name[-2]}::{name[-1]}" if of_class else name[-1]) in marked


def is_host(each: Declaration, marked: set[str], whole: set[str]) -> bool:
    """Return whether a declaration of a namespace is the host's alone. ``whole``: marked functions with a body."""
    if each.kind == "instance":
        named = re.search(r"([A-Za-z_]\w*)\s*(?:<.*>)?\s*\(", " ".join(each.words))
        return bool(named) and not is_marked(each) and named[1] not in marked
    if each.kind == "function":
        if not (DEVICE | COMPUTED).isdisjoint(each.words):
            return False
        is_devices = is_marked_name(each.names[0], marked)
        if each.body and each.words[0] != "template":  # its declaration may be the one that is marked
            return not is_devices or each.names[0][-1] in whole
        return not is_devices or bool(each.body)
    if each.kind == "variable":
        return DEVICE.isdisjoint(each.words) and CONSTANT.isdisjoint(each.words) and "texture" not in each.words
    return False


def is_computed(each: Declaration, computed: set[str]) -> bool:
    return each.kind == "variable" and not is_marked(each) and any(name[-1] in computed for name in each.names)


def reached(
    unit: Unit, remaining: list[Declaration], marked: set[str], used: set[str], host: Host
) -> tuple[list[Declaration], list[Edit]]:
    """Return the declarations that the device's code and ``used`` need, and the edits within them."""
    edits: list[Edit] = []
    chosen: list[Declaration] = []
    waiting = remaining
    while True:
        wanted = [is_wanted(each, used) for each in waiting]
        if not any(wanted):
            return chosen, edits
        for each in itertools.compress(waiting, wanted):
            inner = members(unit, each, marked, host) if each.kind == "class" and each.body else []
            inner += [(each.body, each.end, host.trap)] if each.first in host.broken and each.body else []
            edits += inner
            used |= words(unit, each, inner)
            chosen.append(each)
        waiting = [each for each, is_now in zip(waiting, wanted, strict=True) if not is_now]


def is_wanted(each: Declaration, used: set[str]) -> bool:
    tokens = each.words
    if not DEVICE.isdisjoint(tokens) or tokens[0] == "static_assert" or "texture" in tokens:
        return True
    if tokens[0] == "using" and "=" not in tokens:
        return tokens[1] == "namespace" or used.issuperset(each.names[0] if each.names else ())
    # An operator is used without being named.
    names = [name[:-1] if name[-1].startswith("operator") else name for name in each.names]
    return not names or any(used.issuperset(name) for name in names)


@functools.cache
def spelled(text: str, each: Declaration) -> frozenset[str]:
    return frozenset(re.findall(r"[A-Za-z_]\w*", text[each.first : each.last]))


def words(unit: Unit, each: Declaration, gone: list[Edit]) -> set[str]:
    """Return the words of a declaration without what is gone of it."""
    inside = [edit for edit in gone if each.first <= edit[0] < each.last]
    if not inside:
        return set(spelled(unit.text, each))
    shifted = [(first - each.first, last - each.first, "") for first, last, _ in inside]
    return set(re.findall(r"[A-Za-z_]\w*", edited(unit.text[each.first : each.last], shifted)))


def members(unit: Unit, declaration: Declaration, marked: set[str], host: Host) -> list[Edit]:
    """Return the edits that remove bodies of host functions of a class, and functions that no type depends on.

    A function without body stays where a constant or a type of the class asks for its type, as traits do.
    """
    edits: list[Edit] = []
    names, over = {name[-1] for name in declaration.names}, taken_over(unit)
    inner = unit.members(declaration)
    asked = {word for each in inner if each.kind != "function" for word in spelled(unit.text, each)}
    for each in inner:
        if each.kind == "class" and each.body:
            edits += members(unit, each, marked, host)
        befriended = each.words[0] == "friend" and not each.body and "(" in each.words
        if befriended and each.names and each.names[0][-1] not in marked and (DEVICE | COMPUTED).isdisjoint(each.words):
            edits.append((each.first, each.last, ""))
        if each.first in host.broken:
            edits += refused_member(unit, each, host)
            continue
        defaulted = each.words[-2:-1] in (["default"], ["delete"])
        if each.kind != "function" or defaulted or not (DEVICE | COMPUTED).isdisjoint(each.words):
            continue
        name = each.names[0][-1] if each.names else ""
        asked_for = each.has("virtual", "override") or name in over or name == "operator="
        if name.lstrip("~") in names or asked_for:
            edits += without_body(unit, each)
        elif each.body or name not in marked | asked:
            edits.append((each.first, each.last, ""))
    return edits


def refused_member(unit: Unit, each: Declaration, host: Host) -> Iterator[Edit]:
    """Yield the edits of a member that the compiler refuses: its body goes, or the value of a variable."""
    if each.kind == "variable":
        value = re.compile(r"[={]").search(unit.text, each.first, each.last)
        if value:
            yield value.start(), each.last, ";"
    elif is_marked(each):
        yield initialisers(unit, each), each.end, host.trap
    else:
        yield from without_body(unit, each)


def without_body(unit: Unit, each: Declaration) -> Iterator[Edit]:
    """Make a declaration of a definition: what initialises members goes, too."""
    if each.body:
        yield initialisers(unit, each), each.last, ";"


def initialisers(unit: Unit, each: Declaration) -> int:
    """Return where a constructor begins to initialise members; where the body begins of another function."""
    opened = unit.text.find("(", unit.place(each.cursors[0].location.offset), each.body)
    colon = re.compile(r"(?<!:):(?!:)").search(unit.text, closing(unit.text, opened + 1), each.body)
    return colon.start() if colon else each.body


def constant_initialisers(each: Declaration, cast: set[str]) -> list[Edit]:
    """Have the compiler refuse a variable that would need code to be run first, as CUDA does."""
    if (
        each.has(*COMPUTED, "__constinit", "__shared__", "extern", "texture")
        or {name[-1] for name in each.names} & cast
    ):
        return []
    before = each.words[: each.words.index("=")] if "=" in each.words else each.words
    if ("(", "*") in itertools.pairwise(before):  # a pointer to a function, where g++ 12 takes no such word
        return []
    mark = re.compile(r"\b(?:__device__|__managed__|__constant__|const)\b").search(each.text, each.first, each.last)
    return [(mark.start(), mark.start(), "__constinit ")] if mark else []


def renamed(unit: Unit, chosen: list[Declaration]) -> Iterator[Edit]:
    """Rename types of fixed width that a source declares itself: those of <cstdint> are there, maybe with others."""
    own = {name for each in chosen if each.words[0] == "typedef" and is_global(each) for (name,) in each.names
           if re.fullmatch(r"u?int\d+_t", name)}  # fmt: skip
    if own:
        for match in unit.find(re.compile(rf"(?<!::)\b(?:{'|'.join(own)})\b")):
            yield match.start(), match.end(), f"softcuda_own_{match[0]}"


def is_global(each: Declaration) -> bool:
    return all(cursor.semantic_parent.kind.is_translation_unit() for cursor in each.cursors)


def written(unit: Unit, edits: Iterable[Edit]) -> str:
    """Return the text with other words at some places, on the same lines."""
    stay = sorted({*((first, last) for first, last, *_ in unit.markers), *((each[0], each[1]) for each in unit.others)})
    left_out = {(first, last) for first, last, instead in edits if not instead} & set(stay)
    stay = [each for each in stay if each not in left_out]
    changes = [(first, last, instead if (first, last) in left_out else instead + remains(unit.text, first, last, stay))
               for first, last, instead in edits]  # fmt: skip
    return edited(unit.text, changes)


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
    """Return where functions and using directives begin that the compiler newly refuses and that can go.

    If there are none, where types without device code begin: host code may be all that names them.
    """
    unit, said = host.unit, complaints(host, errors)
    launched = set(re.findall(r"\w+", " ".join(host.asked)))
    found = {each.first for each in removable(unit, unit.declared) if is_meant(unit, each, launched, said)}
    types = [each for each in unit.declared if each.kind in ("class", "using", "instance")]
    return (
        found - host.broken
        or {each.first for each in types if not any(map(each.has_inside, MARKED)) and [*lines_of(unit, each, said)]}
        - host.broken
    )


def complaints(host: Host, errors: str) -> dict[str, list[tuple[int, bool]]]:
    """Return the lines of errors by file, and whether each is of host code."""
    by_file: dict[str, list[tuple[int, bool]]] = {}  # lines, and whether they are of host code
    for error in ERROR.finditer(errors):
        quoted = re.findall(r"\w+", " ".join(QUOTED.findall(error["what"] or "")))
        of_host = not host.names.isdisjoint(quoted) or any(map(RUNTIME.fullmatch, quoted))
        by_file.setdefault(error["file"], []).append((int(error["line"] or error["nvcc"]), of_host))
    return by_file


def lines_of(unit: Unit, each: Declaration, complaints: dict[str, list[tuple[int, bool]]]) -> Iterator[bool]:
    """Yield for each complaint within a declaration whether it is of host code."""
    file, first = unit.line_of(each.first)
    last = first + unit.text.count("\n", each.first, each.last)
    yield from (of_host for line, of_host in complaints.get(file, ()) if first <= line <= last)


def removable(unit: Unit, declared: Iterable[Declaration], depth: int = 0) -> Iterator[Declaration]:
    """Yield functions with a body, using directives, and variables of classes."""
    for each in declared:
        if each.kind == "class":
            yield from removable(unit, unit.members(each), depth + 1)
        elif (
            (each.kind == "function" and each.body)
            or each.words[:2] == ["using", "namespace"]
            or (depth and each.kind == "variable")
        ):
            yield each


def is_meant(unit: Unit, each: Declaration, launched: set[str], complaints: dict[str, list[tuple[int, bool]]]) -> bool:
    """Return whether complaints are of a function that can go; of one for both sides, that they name host code.

    ``launched``: words of the instances that host code launches.
    """
    both = each.has("__host__") and each.has("__device__")
    unused = is_kernel_template(each) and each.names[0][-1] not in launched
    if not (both or unused or DEVICE.isdisjoint(each.words)):
        return False
    needs_name = both or each.kind == "variable"
    return any(of_host or not needs_name for of_host in lines_of(unit, each, complaints))


def is_kernel_template(each: Declaration) -> bool:
    return each.words[0] == "template" and each.words[2] != ">" and each.has("__global__")
