"""Makes the instances of templates that clients of NVRTC ask for.

They ask for the assembler's names of C++ expressions such as ``matmul<float, 16>``: each expression's address is taken
behind the kernel's own text, which makes the instance, and g++ writes its name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

VARIABLE = "softcuda_name_expression"


def name_expressions(expressions: Sequence[str]) -> str:
    """Return C++ that takes the address of each expression; errors of g++ are at a line of that name."""
    lines = []
    for number, expression in enumerate(expressions):
        written = expression.strip().removeprefix("&")
        place = f"the name expression {expression}".replace("\\", "\\\\").replace('"', '\\"')
        declared = f"__attribute__((used)) extern const void* const {VARIABLE}{number}"
        lines.append(f'# 1 "{place}"\nextern "C" {{ {declared} = (const void*)&{written}; }}\n')
    return "".join(lines)


def lowered_names(assembly: str, expressions: Sequence[str]) -> str:
    """Return the name of each expression, one a line, as the assembly of name_expressions() has it."""
    labels = dict(re.findall(rf"^{VARIABLE}(\d+):\n\s*\.quad\s+(\S+)", assembly, re.MULTILINE))
    return "".join(f"{labels.get(str(number), '')}\n" for number in range(len(expressions)))
