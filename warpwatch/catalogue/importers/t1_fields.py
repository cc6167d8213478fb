"""Reads files in the input format T1 of Kernel Tuner, KTT and BAT, so that a mistake is said with file and field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from warpwatch.catalogue.importers.expressions import BadExpression, evaluate
from warpwatch.catalogue.names import BadCase


class BadT1(BadCase):
    """A file that cannot be imported; the message names file and field, and says what would be right."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """Holds a value of a file, and where it stands: ``add.json: KernelSpecification.GlobalSize.X``."""

    where: str
    value: Any

    def bad(self, said: str) -> BadT1:
        return BadT1(f"{self.where} {said}")

    def find(self, name: str) -> Field | None:
        """Return a member of an object; None where it is missing or null. Raises BadT1 where this is no object."""
        if not isinstance(self.value, Mapping):
            raise self.bad(f"is {self.value!r}: an object with {name} is due")
        value = self.value.get(name)
        separator = " " if self.where.endswith(":") else "."
        return None if value is None else Field(where=f"{self.where}{separator}{name}", value=value)

    def take(self, name: str) -> Field:
        """Return a member of an object. Raises BadT1 where it is missing."""
        found = self.find(name)
        if found is None:
            raise self.bad(f"has no {name}")
        return found

    def each(self) -> Iterator[Field]:
        """Return the elements of a list. Raises BadT1 where it is none."""
        if not isinstance(self.value, list):
            raise self.bad(f"is {self.value!r}: a list is due")
        for i, value in enumerate(self.value):
            yield Field(where=f"{self.where}[{i}]", value=value)

    def text(self) -> str:
        if not isinstance(self.value, str) or not self.value:
            raise self.bad(f"is {self.value!r}: a text is due")
        return self.value

    def one_of(self, *known: str) -> str:
        """Return a text that is one of several. Raises BadT1, which lists them."""
        if self.value not in known:
            raise self.bad(f"is {self.value!r}, which cannot be imported: {' or '.join(known)} can")
        return str(self.value)

    def calculated(self, names: Mapping[str, Any]) -> Any:
        """Return the value of a text that is arithmetic; other values as they are. Raises BadT1."""
        if not isinstance(self.value, str):
            return self.value
        try:
            return evaluate(self.value, names)
        except BadExpression as error:
            raise self.bad(f"cannot be calculated: {error}") from None

    def number(self, names: Mapping[str, Any]) -> float:
        """Return a number, or the value of arithmetic that gives one. Raises BadT1."""
        value = self.calculated(names)
        if not isinstance(value, int | float) or not isfinite(value):
            raise self.bad(f"is {value!r}: a number is due")
        return value

    def count(self, names: Mapping[str, Any], least: int = 1) -> int:
        """Return a whole number, or the value of arithmetic that gives one. Raises BadT1."""
        value = self.number(names)
        if value != value // 1 or value < least:
            raise self.bad(f"is {value!r}: a whole number from {least} on is due")
        return int(value)


def read_t1(path: Path) -> Field:
    """Read a file. Raises BadT1 where it is no object in JSON."""
    where = f"{path.name}:"
    try:
        value = json.loads(path.read_text())
    except OSError as error:
        raise BadT1(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise BadT1(f"{where} is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadT1(f"{where} is no object with ConfigurationSpace and KernelSpecification")
    return Field(where=where, value=value)
