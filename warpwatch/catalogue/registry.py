"""Remembers the loaded project: its families, so that a build can be sent between processes by names, and its root."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

_families: dict[str, Any] = {}
_roots: set[Path] = set()


def register(families: Iterable[Any], root: Path) -> None:
    """Make families known to this process by their names, and the folder of the repository that declares them."""
    _families.update((family.name, family) for family in families)
    _roots.add(root)


def root_of(folder: Path) -> Path | None:
    """The innermost registered repository that a folder lies in, or None."""
    holding = [root for root in _roots if folder.is_relative_to(root)]
    return max(holding, key=lambda root: len(root.parts), default=None)


def registered(name: str) -> Any:
    """Return the family of that name. Raises LookupError where the project that this process loaded has none."""
    try:
        return _families[name]
    except KeyError:
        raise LookupError(f"this process has loaded no family named {name!r}") from None
