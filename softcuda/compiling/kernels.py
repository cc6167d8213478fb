"""Makes ordinary C++ of the kernels in preprocessed CUDA C++: each begins with a record of its parameters.

Which kernels an image has is read from g++'s assembly, where each instance of a template, each kernel of a namespace
and each overload has its record beside it, by its mangled name. So nothing here has to know how C++ finds a name.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import assembly
from brackets import STRING, Edit, closing, split
from reader import MARK, Declaration, Unit

ROUND = r"\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\)"
ATTRIBUTE = rf"(?:(?:__attribute__|alignas)\s*{ROUND}|\[\[[^][]*\]\]|\b__restrict(?:__)?\b)"
# Not known before the launch is the size of this one; and a variable of C++ cannot be extern and static at once.
BETWEEN = rf"(?:{ATTRIBUTE}|[^;={{}}()\"])*"
DECLARED = r"(?:[^;={}]|\{\}\))*"
DYNAMIC = re.compile(
    rf"\b(?:extern\b(?P<before>{BETWEEN})\b__shared__|__shared__\b(?P<behind>{BETWEEN})\bextern)\b"
    rf"(?P<declared>{DECLARED}\[\s*\]{DECLARED});"
)
WITHOUT_SIZE = re.compile(r"\b\w+(?=\s*\)?\s*\[\s*\])")
# Without __constinit (g++ 10 and later), g++ guards variables of classes with constructors, even of empty ones.
PLAIN_WORDS = {
    "__global__": "__attribute__((noinline, used))",
    "__device__": "",
    "__managed__": "",
    "__host__": "",
    "__constant__": "",
    "__noinline__": "__attribute__((noinline))",
    "__shared__": 'static __constinit __attribute__((section("softcuda_shared")))',
}


# In C++ alignas(...) stands before static, and not behind it.
ALIGNED = rf"\b__shared__\s+(?P<aligned>alignas\s*{ROUND})"
WORDS = re.compile(
    rf"{STRING}|{ALIGNED}|\b(?:static|extern)\s+__shared__\b|\b__shared__\s+static\b|\b(?:{'|'.join(PLAIN_WORDS)})\b"
)


SHARED = re.compile(r"\b__shared__\b[^;{}()]*")
CLASS = re.compile(rf"\b(?:struct|class)\s+(?:{ATTRIBUTE}\s*)*(\w+)")
BOUNDS = re.compile(r"__launch_bounds__\s*\(")
BRACES = re.compile(rf"{STRING}|[{{}}]")
RETURN = re.compile(rf"{STRING}|\b(?P<back>return\s*;)")

# Where a line begins with #pragma, g++ reads it as one and knows which to leave alone.
PRAGMA = re.compile(
    r"#(?<=[^\n]#)[ \t]*pragma[ \t]+"
    r"(?:(?:nv_)?(?:no)?unroll(?:[ \t]+\d+|[ \t]*\([^()\n]*\)|[ \t]+\w+$)?|\w+[^;{}\n]*$)",
    re.MULTILINE,
)


def edits(unit: Unit, checked: bool) -> list[Edit]:
    """Return what makes C++ of the kernels and of the shared memory that is sized at the launch."""
    numbers = itertools.count(1)  # which keep g++ from making one call of two
    kernels = [each for each in unit.functions_and_declarations() if each.has("__global__")]
    # A bound may stand at the declaration alone.
    declared = {each.names[0]: bound for each in kernels if not each.body and (bound := bound_of(each))}
    changes = list(dynamic_shared(unit))
    for kernel in kernels:
        places = bounds(kernel)
        changes += [(first, last, "") for first, last in places]
        if kernel.body:
            changes += record(unit, kernel, bound_of(kernel) or declared.get(kernel.names[0], "0"))
            changes += marked_returns(unit, kernel, numbers) if checked else []
    return changes


def unread(unit: Unit) -> list[int]:
    """Return the places of __global__ that Clang has not read as a kernel's."""
    known = [each for each in unit.functions_and_declarations() if each.has("__global__")]
    marks = (match for match in unit.find(MARK) if "global" in match.groups())
    return [mark.start() for mark in marks if not any(each.first <= mark.start() < each.last for each in known)]


def bounds(kernel: Declaration) -> list[tuple[int, int]]:
    """Return where __launch_bounds__(...) stand at a kernel."""
    found = BOUNDS.finditer(kernel.text, kernel.first, kernel.ahead)
    return [(match.start(), closing(kernel.text, match.end()) + 1) for match in found]


def bound_of(kernel: Declaration) -> str:
    """Return an expression for the threads that a block may have at most; "" where the kernel says nothing."""
    for first, last in bounds(kernel):
        return split_top(kernel.text[first:last].partition("(")[2][:-1])[0].strip()
    return ""


def record(unit: Unit, kernel: Declaration, bound: str) -> Iterator[Edit]:
    """Yield a record of its parameters at the beginning of a kernel, and names for those without one."""
    names, types = [], []
    for number, parameter in enumerate(unit.parameters(kernel)):
        name = parameter.name or f"softcuda_unnamed{number}"
        if not parameter.name:
            yield parameter.last, parameter.last, f" {name}"
        names.append(parameter.name)
        types.append(f"decltype({name}){'...' if parameter.is_pack else ''}")
    text = f'softcuda::record((void (*)({", ".join(types)}))nullptr, "{", ".join(names)}", {bound})'
    begin = kernel.body + 1
    yield begin, begin, f" __attribute__((used)) static constexpr auto {assembly.RECORD} = {text};"


def marked_returns(unit: Unit, kernel: Declaration, numbers: Iterator[int]) -> Iterator[Edit]:
    """Yield a call of softcuda_returns at each return of a kernel itself."""
    found = [match for match in RETURN.finditer(unit.text, kernel.body, kernel.end) if match["back"]]
    inner = unit.functions_inside(kernel) if found else []
    for match in found:
        if not any(first <= match.start() < last for first, last in inner):
            yield match.start(), match.end(), f"{{ softcuda_returns({next(numbers)}); return; }}"


def dynamic_shared(unit: Unit) -> Iterator[Edit]:
    """Yield references to shared memory in place of arrays without a size.

    References, so that the address of one is that of an array. Where no function is around them, only what has an
    address before the program runs can be referred to. What a block declares again, as two headers do, it has once.
    """
    found = list(unit.find(DYNAMIC))
    inside = [(each.body, each.end) for each in unit.functions(unit.declared)] if found else []
    behind = dict[str, int]()  # where the last one of a text ends
    for match in found:
        within = any(first < match.start() < last for first, last in inside)
        memory = "softcuda_dynamic_shared()" if within else "softcuda_dynamic_area"
        declared = re.sub(ATTRIBUTE, "", f"{match['before'] or match['behind'] or ''}{match['declared']}")
        cpp = WITHOUT_SIZE.sub(r"softcuda_\g<0>", f"typedef {declared};")
        for name in WITHOUT_SIZE.findall(declared):
            kind = f"softcuda_{name}"
            cpp += f" {'' if within else 'static '}{kind} &{name} = *reinterpret_cast<{kind}*>({memory});"
        cpp = " ".join(cpp.split())
        is_again = cpp in behind and _in_one_block(unit.text, behind[cpp], match.start())
        behind[cpp] = match.end()
        yield match.start(), match.end(), ";" if is_again else cpp


def _in_one_block(text: str, first: int, last: int) -> bool:
    """Return whether no bracket closes between two places that has opened before them, and none stays open."""
    depths = [0]
    for match in BRACES.finditer(text, first, last):
        depths.append(depths[-1] + {"{": 1, "}": -1}.get(match[0], 0))
    return min(depths) == depths[-1] == 0


def plain_words(text: str, begin: int) -> str:
    """Return the text with C++ in place of CUDA's words, from a place on."""
    numbers = itertools.count(1)
    return text[:begin] + WORDS.sub(lambda match: plain_word(match, numbers), text[begin:])


def without_pragmas_of_macros(text: str) -> str:
    """Return the preprocessed text without pragmas inside lines, as macros leave them: g++ does not take them."""

    def instead(match: re.Match) -> str:
        before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        return match[0] if '"' in before or before.startswith("#") else ""

    return PRAGMA.sub(instead, text)


def plain_word(match: re.Match, numbers: Iterator[int]) -> str:
    """Return what stands for a word of CUDA in C++. ``numbers``: of constants, the const of which share no section."""
    if match[0] == "__constant__":
        is_declared = re.search(r"\bextern\s+(?:const\s+)?$", match.string[max(0, match.start() - 100) : match.start()])
        return "" if is_declared else f'__attribute__((section("{assembly.CONSTANTS}{next(numbers)}")))'
    if match[0] == "__noinline__":  # in headers of the system's it is the name of an attribute, in brackets
        before = re.sub(r"^#.*$", "", match.string[max(0, match.start() - 300) : match.start()], flags=re.MULTILINE)
        if before.rstrip().endswith(("(", ",")):
            return match[0]
    if match[0].split()[-1] == "__shared__" or match[0].startswith("__shared__"):
        aligned = " ".join((match["aligned"] or "").split())
        return f"{aligned} {PLAIN_WORDS['__shared__']}" + "\n" * match[0].count("\n")
    return PLAIN_WORDS.get(match[0], match[0])


def with_default_constructors(text: str, begin: int, others: set[str]) -> str:
    """Return the text with default constructors in place of empty ones of shared variables' classes.

    Those need no code to be run, so that shared memory can have such objects, as CUDA allows. ``others``: classes that
    templates have as parameters.
    """
    words = {word for match in SHARED.finditer(text, begin) for word in re.findall(r"\w+", match[0])}
    for name in words.intersection(CLASS.findall(text, begin)) | others:
        empty = rf"(?<![\w:.])(~?{name}\s*\(\s*(?:void\s*)?\)\s*(?:noexcept\b\s*)?)\{{(\s*)\}}"
        text = re.sub(empty, r"\1= default;\2", text)
    return text


def split_top(text: str) -> list[str]:
    """Split at commas that are in no brackets. Where < and > do not match, they compare."""
    angles = "<>" if text.count("<") == text.count(">") else ""
    return [part for part in split(text, ",", f"()[]{{}}{angles}") if part.strip()]
