"""Describes a kernel as another revision declares it: source, macros, launch and arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.elements import numpy_type
from warpwatch.catalogue.launches import Launch
from warpwatch.devices.entries import Kernels


@dataclass(frozen=True, kw_only=True)
class OtherStep:
    """A launch of the other revision.

    ``arguments``: ("pointer", number of the array, offset in bytes), ("struct", bytes, fields) or (NumPy type, value).
    """

    entry: str
    launch: Launch
    arguments: tuple[tuple[Any, ...], ...]

    def fill(self, pointers: Sequence[int]) -> list[np.generic]:
        """Return the kernel's arguments for arrays at these addresses."""
        return [_fill(value, pointers) for value in self.arguments]


@dataclass(frozen=True, kw_only=True)
class OtherKernel:
    """The other revision's side of a case.

    ``call``: the name of a call that takes the kernel's place, or empty. ``code``: machine
    code, where a function returns it; ``kernels``: what is compiled otherwise. ``arrays``:
    name and shape of each, in the order of the declaration, and whether it is a result. ``symbols``: variable of the
    module -> the input that is copied there.
    """

    call: str
    code: bytes
    kernels: Kernels
    steps: tuple[OtherStep, ...]
    arrays: tuple[tuple[str, tuple[int, ...], bool], ...]
    symbols: Mapping[str, str]

    @property
    def launches(self) -> tuple[Launch, ...]:
        return tuple(step.launch for step in self.steps)

    def differs(self, case: Case) -> str:
        """Say why the two sides of a case do different work; empty where they do the same."""
        mine = [(array.name, array.shape, array.is_result) for array in case.arrays]
        for is_result, what in ((False, "its inputs were others"), (True, "its results were others")):
            if [each for each in mine if each[2] == is_result] != [e for e in self.arrays if e[2] == is_result]:
                return what
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
    return numpy_type(value[0]).type(value[1])  # type: ignore[no-any-return]


def key(kernel: OtherKernel) -> tuple[object, ...]:
    """Return a key of the kernel's machine code, which cases of several shapes share."""
    made = kernel.kernels
    macros = (*sorted(made.macros.items()), *sorted(made.own_macros.items()))
    return (kernel.code, made.source, made.entries, macros, made.flags, made.include)
