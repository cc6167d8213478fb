"""Finds the assembler's names of C++ expressions such as ``matmul<float, 16>``, which clients of NVRTC ask for.

Each expression's address is taken behind the kernel's own text. That makes the instance of a template, as NVRTC does,
and g++ writes its name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

VARIABLE = "softcuda_name_expression"


def asked(expressions: Sequence[str]) -> str:
    """C++ that takes the address of each expression; what g++ says of one is at a line of that name."""
    lines = []
    for number, expression in enumerate(expressions):
        written = expression.strip().removeprefix("&")
        place = f"the name expression {expression}".replace("\\", "\\\\").replace('"', '\\"')
        declared = f"__attribute__((used)) extern const void* const {VARIABLE}{number}"
        lines.append(f'# 1 "{place}"\nextern "C" {{ {declared} = (const void*)&{written}; }}\n')
    return "".join(lines)


def lowered(assembly: str, expressions: Sequence[str]) -> str:
    """The name of each expression, one a line, as the assembly of ``asked`` has it."""
    found = dict(re.findall(rf"^{VARIABLE}(\d+):\n\s*\.quad\s+(\S+)", assembly, re.MULTILINE))
    return "".join(f"{found.get(str(number), '')}\n" for number in range(len(expressions)))
