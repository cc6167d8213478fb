"""Describes a kernel as another revision declares it: source, macros, launch and arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from warpwatch.catalogue.launches import Launch
from warpwatch.devices.compile.entries import Kernels


class Argument(Protocol):
    """An argument of a kernel (warpwatch/runs/identity.py has them)."""

    def fill(self, addresses: Mapping[str, int]) -> np.generic:
        """Return its value for arrays at these addresses."""


@dataclass(frozen=True, kw_only=True)
class OtherStep:
    """A launch of the other revision."""

    entry: str
    launch: Launch
    arguments: tuple[Argument, ...]

    def fill(self, addresses: Mapping[str, int]) -> list[np.generic]:
        """Return the kernel's arguments for arrays at these addresses, by name."""
        return [value.fill(addresses) for value in self.arguments]


@dataclass(frozen=True, kw_only=True)
class OtherKernel:
    """The other revision's side of a case.

    ``call``: the name of a call that takes the kernel's place, or empty. ``code``: machine code, where a function
    returns it; ``kernels``: what is compiled otherwise. ``symbols``: variable of the module -> the input that is copied
    there. ``identity``: a warpwatch.runs.identity.Identity without the machine code, which this room knows nothing of.
    """

    call: str
    code: bytes
    kernels: Kernels
    steps: tuple[OtherStep, ...]
    symbols: Mapping[str, str]
    identity: Any


def key(kernel: OtherKernel) -> tuple[object, ...]:
    """Return a key of the kernel's machine code, which cases of several shapes share."""
    kernels = kernel.kernels
    macros = (*sorted(kernels.macros.items()), *sorted(kernels.own_macros.items()))
    return (kernel.code, kernels.source, kernels.text, kernels.entries, macros, kernels.flags, kernels.include)
