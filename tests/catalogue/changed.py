"""This repository's families with something changed, for tests of what is wrong with declarations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kernels import FAMILIES
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
