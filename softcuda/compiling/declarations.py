"""Makes ordinary C++ of the kernels in preprocessed CUDA C++: each begins with a record of its parameters.

Which kernels an image has is read from g++'s assembly, where each instance of a template, each kernel of a namespace
and each overload has its record beside it, by its mangled name. So nothing here has to know how C++ finds a name.
"""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple

import assembly
from items import STRING, closing, edited, split

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
    """Declaration that follows a __global__."""

    name: str
    parameters: list[str]  # as they are written
    inside: tuple[int, int]  # where the text between the brackets of the parameters begins and ends
    bounds: list[tuple[int, int]]  # where __launch_bounds__(...) stand
    bound: str  # an expression for the threads that a block may have at most; "" where the kernel says nothing
    body: int  # behind the bracket that opens it; 0 where there is no body


def plain_cpp(text: str, begin: int, checked: bool) -> str:
    """Return the preprocessed text, from ``begin`` on with C++ in place of CUDA's kernels and shared variables."""
    head, text = text[:begin], text[begin:]
    text = with_dynamic_shared(text)
    if checked:
        text = with_marked_returns(text)
    text = with_records(text)
    return head + WORDS.sub(plain_word, text)


def without_pragmas_of_macros(text: str) -> str:
    """Return the preprocessed text without pragmas inside lines, as macros leave them: g++ does not take them."""

    def instead(match: re.Match) -> str:
        before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        return match[0] if '"' in before or before.startswith("#") else ""

    return PRAGMA.sub(instead, text)


def plain_word(match: re.Match) -> str:
    """Return what stands for a word of CUDA in C++."""
    if match[0] == "__noinline__":  # in headers of the system's it is the name of an attribute, in brackets
        before = re.sub(r"^#.*$", "", match.string[max(0, match.start() - 300) : match.start()], flags=re.MULTILINE)
        if before.rstrip().endswith(("(", ",")):
            return match[0]
    if match[0].split()[-1] == "__shared__" or match[0].startswith("__shared__"):
        aligned = " ".join((match["aligned"] or "").split())
        return f"{aligned} {PLAIN_WORDS['__shared__']}" + "\n" * match[0].count("\n")
    return PLAIN_WORDS.get(match[0], match[0])


def with_dynamic_shared(text: str) -> str:
    """Return the source with references to shared memory in place of arrays without a size, on the same lines.

    References, so that the address of one is that of an array. Where no function is around them, only what has an
    address before the program runs can be referred to.
    """

    def reference(match: re.Match) -> str:
        kind, array = f"{match['before'] or ''}{match['type']}", f"[]{match['rows']}"
        inside = in_a_function(text, match.start())
        memory = "softcuda_dynamic_shared()" if inside else "softcuda_dynamic_area"
        cpp = f"{'' if inside else 'static '}{kind} (&{match['name']}){array}"
        cpp += f" = *reinterpret_cast<{kind} (*){array}>({memory});"
        return cpp + "\n" * (match[0].count("\n") - cpp.count("\n"))

    return DYNAMIC.sub(reference, text)


def in_a_function(text: str, place: int) -> bool:
    """Return whether a place is in brackets that are not those of a namespace."""
    open_brackets: list[bool] = []
    for match in BRACKET.finditer(text, 0, place):
        if match[0] == "{":
            open_brackets.append(not NAMESPACE.search(text[max(0, match.start() - 200) : match.start()]))
        elif match[0] == "}" and open_brackets:
            open_brackets.pop()
    return any(open_brackets)


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


def with_records(text: str) -> str:
    """Return the source with a record at the beginning of each kernel, on the same lines."""
    kernels = [
        kernel for match in GLOBAL.finditer(text) if match["global"] and (kernel := kernel_at(text, match.start()))
    ]
    # A bound may stand at the declaration alone.
    declared = {kernel.name: kernel.bound for kernel in kernels if kernel.bound and not kernel.body}
    edits: list[tuple[int, int, str]] = []
    for kernel in kernels:
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
        record = f'softcuda::record((void (*)({", ".join(types)}))nullptr, "{", ".join(names)}", {bound})'
        edits.append(
            (kernel.body, kernel.body, f" __attribute__((used)) static constexpr auto {assembly.RECORD} = {record};")
        )
    return edited(text, set(edits))


def kernel_at(text: str, begin: int) -> Kernel | None:
    """Return the kernel that the __global__ at ``begin`` declares; None if no function follows."""
    before = max(text.rfind(end, 0, begin) for end in ";}{") + 1
    bounds = []
    for match in re.finditer(r"__launch_bounds__\s*\(", text[before:begin]):
        bounds.append((before + match.start(), closing(text, before + match.end()) + 1))
    position, depth = begin, 0
    while True:
        bracket = text.find("(", position)
        if bracket < 0 or re.search(r"[;{}]", text[position:bracket]):
            return None
        end = closing(text, bracket + 1)
        qualifier = QUALIFIER.search(text, position, bracket)
        depth += text.count("<", position, bracket) - text.count(">", position, bracket)  # within a type's arguments
        if not qualifier and not depth:
            break
        if qualifier and qualifier[1] == "__launch_bounds__":
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
    """Return the name of a parameter; "" where it has none."""
    text = re.sub(r"^\#.*$|__attribute__\s*\(\(.*?\)\)", " ", parameter.partition("=")[0], flags=re.MULTILINE)
    if pointer := re.search(r"\(\s*[*&]\s*(\w*)", text):  # to a function, or a reference to an array
        return pointer[1]
    text = re.sub(r"(\[[^\]]*\]\s*)+$", "", text.strip())
    match = re.search(r"(?<!::)\b([A-Za-z_]\w*)$", text)
    if not match or match[1] in TYPE_WORDS:
        return ""
    rest = re.sub(r"\b(?:const|volatile|struct|class|enum|union|typename)\b", "", text[: match.start()])
    return match[1] if rest.strip(" \n.") else ""


GLOBAL = re.compile(rf"^[\ \t]*\#[^\n]*|{STRING}|(?P<global>\b__global__\b)", re.MULTILINE)
TOKEN = re.compile(
    rf"""^[\ \t]*\#[^\n]* | {STRING} | \b__global__\b | (?P<back>\breturn\s*;) | [{{}};]""",
    re.MULTILINE | re.VERBOSE,
)
LAMBDA = re.compile(r"\]\s*(?:\([^(){}]*\))?\s*(?:mutable\b)?\s*(?:->[\w\s:*&<>]*)?$")


def with_marked_returns(text: str) -> str:
    """Return the source with a call of softcuda_returns at each return of a kernel itself, on the same lines."""
    expected = False  # the next bracket opens a kernel
    brackets: list[bool] = []  # of a kernel, those that are open: whether a lambda begins there
    numbers = itertools.count(1)  # which keep g++ from making one call of two

    def marked(match: re.Match) -> str:
        nonlocal expected
        token = match[0]
        if match["back"] and brackets and not any(brackets):
            return f"{{ softcuda_returns({next(numbers)}); return; }}" + "\n" * token.count("\n")
        if token == "{" and (expected or brackets):
            brackets.append(bool(brackets and LAMBDA.search(text[max(0, match.start() - 200) : match.start()])))
            expected = False
        elif token == "}" and brackets:
            brackets.pop()
        elif token in ("__global__", ";"):
            expected = token == "__global__"
        return token

    return TOKEN.sub(marked, text)


def split_top(text: str) -> list[str]:
    """Split at commas that are in no brackets. Where < and > do not match, they compare."""
    angles = "<>" if text.count("<") == text.count(">") else ""
    return [part for part in split(text, ",", f"()[]{{}}{angles}") if part.strip()]
