"""Lets the checker know where a kernel or a function has parameters that are declared ``__restrict__``.

C++ says of such a pointer that nothing else changes what it leads to while the function runs: no other thread either.
A function tells the checker when it is left, with its lines, its pointers and their names; a kernel when it begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from reader import Declaration, Unit

from kernels import Edit

POINTER = re.compile(r"\*|\]\s*$")
RESTRICTED = re.compile(r"\*\s*(?:const\s+)?__restrict\b\s*(?:const\s+)?\w+\s*$")


def edits(unit: Unit) -> Iterator[Edit]:
    """Yield such calls at the beginning of bodies."""
    for function in unit.functions(unit.declared):
        if not function.has("constexpr") and (call := _call(unit, function)):
            begin = unit.text.index("{", function.body) + 1
            yield begin, begin, call


def _call(unit: Unit, function: Declaration) -> str:
    """Return what is to be put into the body of a function; "" where none of its parameters is restrict."""
    pointers = [each for each in unit.parameters(function) if each.name and POINTER.search(each.text)]
    names = [each.name for each in pointers if RESTRICTED.search(each.text) and not each.is_pack]
    if not names:
        return ""
    file, first = unit.line_of(function.body)
    _, last = unit.line_of(function.end - 1)
    others = [each.name for each in pointers if each.name not in names and not each.is_pack]
    record = f'"{file}|{first}|{last}|{"|".join(names)}"'
    if function.has("__global__"):
        return f" softcuda_restricts({record});"
    values = ", ".join(f"(const void*)({name})" for name in [*names, *others])
    return f" const softcuda::Restricts<{len(names) + len(others)}> softcuda_restricts_here {{{record}, {values}}};"
