"""Remembers the families of the loaded project, so that a build can be sent between processes by its names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_families: dict[str, Any] = {}


def register(families: Iterable[Any]) -> None:
    """Make families known to this process by their names."""
    _families.update((family.name, family) for family in families)


def registered(name: str) -> Any:
    """Return the family of that name. Raises LookupError where the project that this process loaded has none."""
    try:
        return _families[name]
    except KeyError:
        raise LookupError(f"this process has loaded no family named {name!r}") from None
