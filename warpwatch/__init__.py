"""Warpwatch: a regression suite for CUDA kernels.

``import warpwatch as ww`` gives what declarations need. Each name is imported when it is first used, because pytest
imports this package in every repository where it is installed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpwatch.catalogue.accepted import Accept
    from warpwatch.catalogue.arrays import ALL_ROWS, Array, In, InOut, Out, Part, Scalar, Scratch, Shape
    from warpwatch.catalogue.calls import CallError, DeviceArray, Driver, Queue, SharedLibrary, check_status
    from warpwatch.catalogue.declaration import Family
    from warpwatch.catalogue.importers.t1 import from_t1
    from warpwatch.catalogue.launches import Owner, Step, Work, blocks
    from warpwatch.catalogue.tensor_maps import tensor_map
    from warpwatch.catalogue.texts import from_python, text
    from warpwatch.catalogue.textures import surface, texture
    from warpwatch.catalogue.threads import for_each
    from warpwatch.catalogue.tolerance import dot_error, error_of, exact, product, relative, ulp
    from warpwatch.catalogue.variants import Block, Variant, by_elements, call, kernel, serial

__version__ = "0.1.0"
_HOMES = {
    "accepted": ("Accept",),
    "arrays": ("ALL_ROWS", "Array", "In", "InOut", "Out", "Part", "Scalar", "Scratch", "Shape"),
    "calls": ("CallError", "DeviceArray", "Driver", "Queue", "SharedLibrary", "check_status"),
    "declaration": ("Family",),
    "launches": ("Owner", "Step", "Work", "blocks"),
    "tensor_maps": ("tensor_map",),
    "texts": ("from_python", "text"),
    "textures": ("surface", "texture"),
    "threads": ("for_each",),
    "importers.t1": ("from_t1",),
    "tolerance": ("dot_error", "error_of", "exact", "product", "relative", "ulp"),
    "variants": ("Block", "Variant", "by_elements", "call", "kernel", "serial"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
__all__ = [
    "ALL_ROWS",
    "Accept",
    "Array",
    "Block",
    "CallError",
    "DeviceArray",
    "Driver",
    "Family",
    "In",
    "InOut",
    "Out",
    "Owner",
    "Part",
    "Queue",
    "Scalar",
    "Scratch",
    "Shape",
    "SharedLibrary",
    "Step",
    "Variant",
    "Work",
    "blocks",
    "by_elements",
    "call",
    "check_status",
    "dot_error",
    "error_of",
    "exact",
    "for_each",
    "from_python",
    "from_t1",
    "kernel",
    "product",
    "relative",
    "serial",
    "surface",
    "tensor_map",
    "text",
    "texture",
    "ulp",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'warpwatch' has no attribute {name!r}")
    return getattr(importlib.import_module(f"warpwatch.catalogue.{_HOME[name]}"), name)
