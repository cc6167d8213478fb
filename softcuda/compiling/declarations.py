"""Makes ordinary C++ of the kernels in preprocessed CUDA C++: each begins with a record of its parameters.

Which kernels an image has is read from g++'s assembly, where each instance of a template, each kernel of a namespace
and each overload has its record beside it, by its mangled name. So nothing here has to know how C++ finds a name.
"""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple

RECORD = "softcuda_kernel"  # the name of the variable that holds it
STRING = r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
# Words before a function's name that have brackets of their own.
QUALIFIER = re.compile(
    r"\b(__launch_bounds__|__attribute__|alignas|__declspec|decltype|__block_size__|__maxnreg__)\s*$"
)
NAME = re.compile(r"(~?\w+)\s*(?:<[^;{}]*>)?\s*$")
TYPE_WORDS = {"const", "volatile", "unsigned", "signed", "int", "char", "short", "long", "float", "double", "bool",
              "struct", "class", "enum", "union", "typename", "auto", "__restrict", "__restrict__", "void"}  # fmt: skip
# Not known before the launch is the size of this one; and a variable of C++ cannot be extern and static at once.
ATTRIBUTES = r"(?:(?:__attribute__\s*\(\(.*?\)\)|alignas\s*\([^()]*\)|__restrict)\s*)*"
DYNAMIC = re.compile(
    rf"(?:\bextern\s+{ATTRIBUTES}(?P<before>(?:(?:const|volatile)\s+)*)__shared__|\b__shared__\s+extern)\s+{ATTRIBUTES}"
    rf"(?P<type>[\w:\s<>,]+?)\s*{ATTRIBUTES}\b(?P<name>\w+)\s*\[\s*\](?P<rows>[^;={{}}]*);"
)
NAMESPACE = re.compile(
    r"(?:\bnamespace(?:\s+[\w:]+)?|\bextern\s+\"C(?:\+\+)?\")\s*(?:__attribute__\s*\(\(.*?\)\)\s*)?$"
)
# Without __constinit (g++ 10 and later), g++ guards variables of classes with constructors, even of empty ones.
PLAIN_WORDS = {
    "__global__": "__attribute__((noinline, used))",
    "__device__": "",
    "__managed__": "",
    "__host__": "",
    "__constant__": '__attribute__((section("softcuda_constant")))',
    "__noinline__": "__attribute__((noinline))",
    "__shared__": 'static __constinit __attribute__((section("softcuda_shared")))',
}


# In C++ alignas(...) stands before static, and not behind it.
ALIGNED = r"\b__shared__\s+(?P<aligned>alignas\s*\((?:[^()]|\([^()]*\))*\))"
WORDS = re.compile(
    rf"{STRING}|{ALIGNED}|\bstatic\s+__shared__\b|\b__shared__\s+static\b|\b(?:{'|'.join(PLAIN_WORDS)})\b"
)


SHARED = re.compile(r"\b__shared__\b[^;{}()]*")
CLASS = re.compile(rf"\b(?:struct|class)\s+{ATTRIBUTES}(\w+)")
BRACKET = re.compile(rf"^[\ \t]*\#[^\n]*|{STRING}|[{{}}]", re.MULTILINE)


# Where a line begins with #pragma, g++ reads it as one and knows which to leave alone.
PRAGMA = re.compile(
    r"#(?<=[^\n]#)[ \t]*pragma[ \t]+"
    r"(?:(?:nv_)?(?:no)?unroll(?:[ \t]+\d+|[ \t]*\([^()\n]*\)|[ \t]+\w+$)?|\w+[^;{}\n]*$)",
    re.MULTILINE,
)


class Kernel(NamedTuple):
    """What follows one __global__ of a source."""

    name: str
    parameters: list[str]  # as they are written
    inside: tuple[int, int]  # where the text between the brackets of the parameters begins and ends
    bounds: list[tuple[int, int]]  # where __launch_bounds__(...) stand
    bound: str  # an expression for the threads that a block may have at most; "" where the kernel says nothing
    body: int  # behind the bracket that opens it; 0 where there is no body


def plain_cpp(text: str, begin: int, checked: bool) -> str:
    """The preprocessed text with C++ in place of CUDA's kernels and shared variables, from ``begin`` on."""
    head, text = text[:begin], text[begin:]
    text = with_dynamic_shared(text)
    if checked:
        text = with_marked_returns(text)
    text = with_records(text)
    return head + WORDS.sub(plain_word, text)


def without_pragmas_of_macros(text: str) -> str:
    """The preprocessed text without pragmas inside lines, as macros leave them: nvcc takes them, g++ does not."""

    def instead(match: re.Match) -> str:
        before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        return match[0] if '"' in before or before.startswith("#") else ""

    return PRAGMA.sub(instead, text)


def plain_word(match: re.Match) -> str:
    """What stands for a word of CUDA's in C++."""
    if match[0] == "__noinline__":  # in headers of the system's it is the name of an attribute, in brackets
        before = re.sub(r"^#.*$", "", match.string[max(0, match.start() - 300) : match.start()], flags=re.MULTILINE)
        if before.rstrip().endswith(("(", ",")):
            return match[0]
    if match[0].split()[-1] == "__shared__" or match[0].startswith("__shared__"):
        aligned = " ".join((match["aligned"] or "").split())
        return f"{aligned} {PLAIN_WORDS['__shared__']}" + "\n" * match[0].count("\n")
    return PLAIN_WORDS.get(match[0], match[0])


def with_dynamic_shared(text: str) -> str:
    """The source with references to shared memory in place of arrays that have no size, on the same lines.

    References, so that the address of one is that of an array. Where no function is around them, only what has an
    address before the program runs can be referred to.
    """
    out, position = [], 0
    for match in DYNAMIC.finditer(text):
        kind = f"{match['before'] or ''}{match['type']}"
        array = f"[]{match['rows']}"
        inside = in_a_function(text, match.start())
        memory = "softcuda_dynamic_shared()" if inside else "softcuda_dynamic_area"
        made = f"{'' if inside else 'static '}{kind} (&{match['name']}){array}"
        made += f" = *reinterpret_cast<{kind} (*){array}>({memory});"
        out += [text[position : match.start()], made, "\n" * (match[0].count("\n") - made.count("\n"))]
        position = match.end()
    return "".join([*out, text[position:]])


def in_a_function(text: str, place: int) -> bool:
    """Whether a place is in brackets that are not those of a namespace."""
    open_brackets: list[bool] = []
    for match in BRACKET.finditer(text, 0, place):
        if match[0] == "{":
            open_brackets.append(not NAMESPACE.search(text[max(0, match.start() - 200) : match.start()]))
        elif match[0] == "}" and open_brackets:
            open_brackets.pop()
    return any(open_brackets)


def with_default_constructors(text: str, begin: int, others: set[str]) -> str:
    """The text where empty constructors and destructors of shared variables' classes are the compiler's own.

    Those need no code to be run, so that shared memory can have such objects, as CUDA allows. ``others``: classes that
    templates have as parameters.
    """
    words = {word for match in SHARED.finditer(text, begin) for word in re.findall(r"\w+", match[0])}
    for name in words.intersection(CLASS.findall(text, begin)) | others:
        empty = rf"(?<![\w:.])(~?{name}\s*\(\s*(?:void\s*)?\)\s*(?:noexcept\b\s*)?)\{{(\s*)\}}"
        text = re.sub(empty, r"\1= default;\2", text)
    return text


def with_records(text: str) -> str:
    """The source with a record at the beginning of each kernel, on the same lines."""
    found = [
        kernel for match in GLOBAL.finditer(text) if match["global"] and (kernel := kernel_at(text, match.start()))
    ]
    # A bound may stand at the declaration alone.
    declared = {kernel.name: kernel.bound for kernel in found if kernel.bound and not kernel.body}
    edits: list[tuple[int, int, str]] = []
    for kernel in found:
        edits += [(first, last, "\n" * text.count("\n", first, last)) for first, last in kernel.bounds]
        if not kernel.body:
            continue
        names, types, written = [], [], []
        for number, parameter in enumerate(kernel.parameters):
            name = name_of(parameter)
            written.append(parameter if name else f"{parameter} softcuda_unnamed{number}")
            names.append(name)
            pack = "..." if "..." in parameter else ""
            types.append(f"decltype({name or f'softcuda_unnamed{number}'}){pack}")
        if not all(names):
            edits.append((*kernel.inside, ",".join(written)))
        bound = kernel.bound or declared.get(kernel.name, 0)
        made = f'softcuda::record((void (*)({", ".join(types)}))nullptr, "{", ".join(names)}", {bound})'
        edits.append((kernel.body, kernel.body, f" __attribute__((used)) static constexpr auto {RECORD} = {made};"))
    out, position = [], 0
    for first, last, instead in sorted(set(edits)):
        out += [text[position:first], instead]
        position = last
    return "".join([*out, text[position:]])


def kernel_at(text: str, begin: int) -> Kernel | None:
    """What the __global__ at ``begin`` declares; None where no function follows."""
    before = max(text.rfind(end, 0, begin) for end in ";}{") + 1
    bounds = []
    for match in re.finditer(r"__launch_bounds__\s*\(", text[before:begin]):
        bounds.append((before + match.start(), closing(text, before + match.end()) + 1))
    position = begin
    while True:
        bracket = text.find("(", position)
        if bracket < 0 or re.search(r"[;{}]", text[position:bracket]):
            return None
        end = closing(text, bracket + 1)
        qualifier = QUALIFIER.search(text, position, bracket)
        if not qualifier:
            break
        if qualifier[1] == "__launch_bounds__":
            bounds.append((qualifier.start(), end + 1))
        position = end + 1
    name = NAME.search(text, position, bracket)
    follows = re.compile(r"(?:\s|^\#.*$|noexcept|__attribute__\s*\(\(.*?\)\))*([;{]?)", re.MULTILINE).match(
        text, end + 1
    )
    if not name or not follows or not follows[1]:
        return None
    return Kernel(
        name=name[1],
        parameters=[part for part in split_top(text[bracket + 1 : end]) if part.strip() != "void"],
        inside=(bracket + 1, end),
        bounds=bounds,
        bound=split_top(text[slice(*bounds[0])].partition("(")[2][:-1])[0].strip() if bounds else "",
        body=follows.end() if follows[1] == "{" else 0,
    )


def name_of(parameter: str) -> str:
    """The name of a parameter; "" where it has none."""
    text = re.sub(r"^\#.*$|__attribute__\s*\(\(.*?\)\)", " ", parameter.partition("=")[0], flags=re.MULTILINE)
    if pointer := re.search(r"\(\s*[*&]\s*(\w*)", text):  # to a function, or a reference to an array
        return pointer[1]
    text = re.sub(r"(\[[^\]]*\]\s*)+$", "", text.strip())
    match = re.search(r"(?<!::)\b([A-Za-z_]\w*)$", text)
    if not match or match[1] in TYPE_WORDS:
        return ""
    rest = re.sub(r"\b(?:const|volatile|struct|class|enum|union|typename)\b", "", text[: match.start()])
    return match[1] if rest.strip(" \n.") else ""


def closing(text: str, position: int) -> int:
    """Where the round bracket closes that is open at ``position``."""
    depth = 1
    for match in re.compile(rf"{STRING}|[()]").finditer(text, position):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if not depth:
            return match.start()
    return len(text)


GLOBAL = re.compile(rf"^[\ \t]*\#[^\n]*|{STRING}|(?P<global>\b__global__\b)", re.MULTILINE)
TOKEN = re.compile(
    rf"""^[\ \t]*\#[^\n]* | {STRING} | \b__global__\b | (?P<back>\breturn\s*;) | [{{}};]""",
    re.MULTILINE | re.VERBOSE,
)
LAMBDA = re.compile(r"\]\s*(?:\([^(){}]*\))?\s*(?:mutable\b)?\s*(?:->[\w\s:*&<>]*)?$")


def with_marked_returns(text: str) -> str:
    """The source with a call of softcuda_returns at each return statement of a kernel itself, on the same lines."""
    out, position, expected = [], 0, False  # `expected`: the next bracket opens a kernel
    brackets: list[bool] = []  # of a kernel, those that are open: whether a lambda begins there
    numbers = itertools.count(1)  # which keep g++ from making one call of two
    for match in TOKEN.finditer(text):
        out.append(text[position : match.start()])
        position, token = match.end(), match[0]
        if match["back"] and brackets and not any(brackets):
            token = f"{{ softcuda_returns({next(numbers)}); return; }}" + "\n" * token.count("\n")
        elif token == "{" and (expected or brackets):
            brackets.append(bool(brackets and LAMBDA.search(text[max(0, match.start() - 200) : match.start()])))
            expected = False
        elif token == "}" and brackets:
            brackets.pop()
        elif token in ("__global__", ";"):
            expected = token == "__global__"
        out.append(token)
    return "".join([*out, text[position:]])


def split_top(text: str) -> list[str]:
    """Split at commas that are in no brackets. Where < and > do not match, they compare."""
    opening, end = ("(<[", ")>]") if text.count("<") == text.count(">") else ("([", ")]")
    parts, depth, part = [], 0, ""
    for character in text:
        depth += (character in opening) - (character in end)
        if character == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += character
    return [p for p in [*parts, part] if p.strip()]


LABEL = re.compile(rf"^_ZZ(\S+)E{len(RECORD)}{RECORD}:$", re.MULTILINE)


def kernel_table(assembly: str) -> list[str]:
    """softcuda::KernelEntry in assembly, one for each record of a kernel that g++ wrote.

    Each has a label of its own, softcuda_kernel.NAME, so that a reader of the image's symbols finds its kernels.
    """
    functions = set(re.findall(r"^\s*\.type\s+(\S+),\s*[@%]function", assembly, re.MULTILINE))
    records = {match[1]: match[0][:-1] for match in LABEL.finditer(assembly)}
    out = ['\t.section .data.rel.ro,"aw"', "\t.balign 16", "\t.globl softcuda_kernels", "\t.hidden softcuda_kernels",
           "softcuda_kernels:"]  # fmt: skip
    names = []
    for number, (encoded, label) in enumerate(sorted(records.items())):
        name = f"_Z{encoded}"
        if name not in functions:  # extern "C"
            name = re.sub(r"^(?:N(?:\d+\w+?)*?)?\d+(\D\w*?)E?$", r"\1", encoded)
        out += [f"{RECORD}.{external(name)}:", f"\t.quad {name}, .Lsoftcuda_kernel{number}, {label}"]
        names += [f".Lsoftcuda_kernel{number}:", f'\t.string "{external(name)}"']
    return [*out, "\t.globl softcuda_kernels_end", "\t.hidden softcuda_kernels_end", "softcuda_kernels_end:",
            "\t.section .rodata", *names]  # fmt: skip


def external(name: str) -> str:
    """Return the mangled name of a function as nvcc has it: that of a static one too is as if it were not."""
    place = 3 if name.startswith("_ZN") else 2
    while part := re.compile(r"\d+").match(name, place):
        place = part.end() + int(part[0])
    return name[:place] + name[place + 1 :] if re.compile(r"L\d").match(name, place) else name
