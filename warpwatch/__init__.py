"""Warpwatch: a regression suite for CUDA kernels.

``import warpwatch as ww`` gives what declarations need. Each name is imported when it is first used, because pytest
imports this package in every repository where it is installed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpwatch.catalogue.arrays import In, InOut, Out, Scalar, Scratch
    from warpwatch.catalogue.calls import CallError, Driver, SharedLibrary
    from warpwatch.catalogue.declaration import Family
    from warpwatch.catalogue.importers.t1 import from_t1
    from warpwatch.catalogue.launches import Owner, Step, Work, blocks
    from warpwatch.catalogue.tolerance import dot_error, error_of, exact, relative, ulp
    from warpwatch.catalogue.variants import Variant, call, kernel, serial

__version__ = "0.1.0"
_HOMES = {
    "arrays": ("In", "InOut", "Out", "Scalar", "Scratch"),
    "calls": ("CallError", "Driver", "SharedLibrary"),
    "declaration": ("Family",),
    "launches": ("Owner", "Step", "Work", "blocks"),
    "importers.t1": ("from_t1",),
    "tolerance": ("dot_error", "error_of", "exact", "relative", "ulp"),
    "variants": ("Variant", "call", "kernel", "serial"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
__all__ = [
    "CallError",
    "Driver",
    "Family",
    "In",
    "InOut",
    "Out",
    "Owner",
    "Scalar",
    "Scratch",
    "SharedLibrary",
    "Step",
    "Variant",
    "Work",
    "blocks",
    "call",
    "dot_error",
    "error_of",
    "exact",
    "from_t1",
    "kernel",
    "relative",
    "serial",
    "ulp",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'warpwatch' has no attribute {name!r}")
    return getattr(importlib.import_module(f"warpwatch.catalogue.{_HOME[name]}"), name)
