"""This repository's families with something changed, and families of one kernel, for tests of declarations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import warpwatch as ww
from kernels import FAMILIES
from warpwatch.catalogue.cases import Build, Case
from warpwatch.catalogue.declaration import Family

BY_NAME = {family.name: family for family in FAMILIES}
MATMUL, COPY = BY_NAME["matmul"], BY_NAME["copy"]


def with_family(name: str = "matmul", /, **changes: Any) -> tuple[Family, ...]:
    """Return this repository's families with one of them changed."""
    return tuple(replace(family, **changes) if family.name == name else family for family in FAMILIES)


def with_variant(name: str = "tiled", /, **changes: Any) -> tuple[Family, ...]:
    """Return this repository's families with one variant of the matrix product changed."""
    changed = tuple(replace(v, **changes) if v.name == name else v for v in MATMUL.variants)
    return with_family(variants=changed)


def own_family(arrays: Callable[..., Any], **fields: Any) -> Family:
    """Make a family of one kernel with blocks of 32 along x."""
    variants = (ww.kernel("new", configurations=(32,), x=0, y=None),)
    return Family("own", arrays=arrays, **{"sizes": ("n",), "folder": Path(), "variants": variants, **fields})


def own_case(family: Family, dtype: str = "float32") -> Case:
    """Make the case of a family of one kernel on its first shape."""
    (variant,) = family.variants
    return Case(Build(family, variant, variant.listed[0], dtype), family.tests[0])
