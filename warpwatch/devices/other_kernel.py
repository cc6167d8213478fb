"""Describes a kernel as another revision declares it: source, macros, launch and arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warpwatch.catalogue.declaration import Case, Launch


@dataclass(frozen=True, kw_only=True)
class OtherKernel:
    """The other revision's side of a case.

    ``arguments``: ("pointer", number of the array, offset in bytes), ("struct", bytes, fields) or (NumPy type, value).
    ``constant``: the operand that is copied to the kernel's constant memory, or empty.
    """

    library: str
    source: Path
    entry: str
    macros: Mapping[str, str]
    flags: tuple[str, ...]
    launch: Launch
    operands: Mapping[str, Sequence[int]]
    result: Sequence[Any] | None
    arguments: tuple[tuple[Any, ...], ...]
    constant: str = ""

    def fill(self, pointers: Sequence[int]) -> list[np.generic]:
        """Return the kernel's arguments for arrays at these addresses."""
        return [_fill(value, pointers) for value in self.arguments]

    def differs(self, case: Case) -> str:
        """Say why the two sides of a case do different work; empty where they do the same."""
        operands = {name: list(shape) for name, shape in case.family.operands(case.shape).items()}
        if operands != {name: list(shape) for name, shape in self.operands.items()}:
            return "its operands were others"
        result = case.family.result(case.shape) if case.family.result else None
        if (result and [result[0], list(result[1])]) != (self.result and [self.result[0], list(self.result[1])]):
            return "its result was another"
        return ""


def _fill(value: Sequence[Any], pointers: Sequence[int]) -> np.generic:
    if value[0] == "pointer":
        return np.uint64(pointers[value[1]] + value[2])
    if value[0] == "struct":
        _, size, fields = value
        filled = [_fill(inner, pointers) for _, _, inner in fields]
        layout = {
            "names": [name for name, _, _ in fields],
            "formats": [each.dtype for each in filled],
            "offsets": [offset for _, offset, _ in fields],
            "itemsize": size,
        }
        struct = np.zeros(1, np.dtype(layout))  # type: ignore[call-overload]
        for (name, _, _), each in zip(fields, filled, strict=True):
            struct[name] = each
        return struct[0]  # type: ignore[no-any-return]
    return np.dtype(value[0]).type(value[1])  # type: ignore[no-any-return]


def key(kernel: OtherKernel) -> tuple[object, ...]:
    """Return a key of the kernel's machine code, which cases of several shapes share."""
    return (kernel.source, *sorted(kernel.macros.items()), kernel.flags)
