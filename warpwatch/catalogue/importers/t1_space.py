"""Chooses configurations from the space that a T1 file describes: parameters, their values, and conditions."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from warpwatch.catalogue.importers.t1_fields import BadT1, Field

TRIES = 20_000  # configurations that are looked at; conditions of a file take 50 µs each
Value = int | float | str
Values = dict[str, Value]
Wanted = int | Sequence[Mapping[str, object]] | None


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of the kernel. ``default``: of the file's values, the Default or else the first."""

    name: str
    values: list[Value]
    default: Value


@dataclass(frozen=True, kw_only=True)
class Space:
    """Every combination of values that the conditions allow."""

    parameters: list[Parameter]
    conditions: list[Field]
    where: str

    @property
    def lists(self) -> dict[str, list[Value]]:
        """The values of each parameter, which the Size of an argument may name."""
        return {each.name: each.values for each in self.parameters}

    @property
    def defaults(self) -> Values:
        return {each.name: each.default for each in self.parameters}

    def broken(self, values: Values) -> Field | None:
        """Return the first condition that a configuration does not satisfy, or None. Raises BadT1."""
        return next((each for each in self.conditions if not each.calculated(values)), None)


def read_space(given: Field) -> Space:
    """Read ``ConfigurationSpace``. Raises BadT1."""
    parameters = [_parameter(each) for each in given.take("TuningParameters").each()]
    names = [each.name for each in parameters]
    for name in names:
        if names.count(name) > 1 or not name.isidentifier() or not name.isascii() or name in ("block", "name"):
            raise given.bad(f"has the parameter {name!r}, which is there twice or cannot be a macro's name")
    conditions = given.find("Conditions")
    texts = [each.take("Expression") for each in conditions.each()] if conditions else []
    for text in texts:
        text.text()
    return Space(parameters=parameters, conditions=texts, where=given.where)


def _parameter(given: Field) -> Parameter:
    listed = given.take("Values")
    values = listed.calculated({})
    if not isinstance(values, list) or not values or not all(isinstance(each, int | float | str) for each in values):
        raise listed.bad(f"is {listed.value!r}: a list of numbers or texts is due, such as '[16, 32]'")
    default = given.find("Default")
    first = default.value if default and default.value in values else values[0]
    return Parameter(name=given.take("Name").text(), values=values, default=first)


def choose(space: Space, wanted: Wanted) -> list[tuple[str, Values]]:
    """Return configurations, each with a name that the caller gave it, or an empty text. Raises BadT1.

    ``wanted``: values by parameter, where a parameter that is left out has its default; or how many configurations,
    which are the same in each run; None for one.
    """
    if wanted is None or isinstance(wanted, int):
        return [("", values) for values in _spread(space, 1 if wanted is None else wanted)]
    if not wanted:
        raise BadT1(f"{space.where}: configurations= is empty: give values by parameter, or how many")
    return [_given(space, each) for each in wanted]


def _given(space: Space, given: Mapping[str, object]) -> tuple[str, Values]:
    values, known = space.defaults, space.lists
    for name, value in given.items():
        if name == "name":
            continue
        if name not in known:
            raise BadT1(f"{space.where} has no parameter {name}; there are {', '.join(known)}")
        if not isinstance(value, int | float | str) or value not in known[name]:
            raise BadT1(f"{space.where}: {name} = {value!r} is none of its values {known[name]}")
        values[name] = value
    if broken := space.broken(values):
        raise broken.bad(f"({broken.value}) does not hold for {values}: choose other values")
    return str(given.get("name", "")), values


def _spread(space: Space, count: int) -> list[Values]:
    """Return so many valid configurations, or all where there are fewer: the default, then a fixed random choice."""
    total = prod(len(each.values) for each in space.parameters)
    tries = random.Random(0).sample(range(min(total, 2**62)), min(total, TRIES))
    found = [] if space.broken(space.defaults) else [space.defaults]
    for number in tries if len(found) < count else ():
        values = _numbered(space, number)
        if values not in found and not space.broken(values):
            found.append(values)
        if len(found) >= count:
            break
    if not found:
        raise BadT1(f"{space.where}.Conditions hold for none of {len(tries):,} configurations: give configurations=")
    return found


def _numbered(space: Space, number: int) -> Values:
    """Return the configuration of that number, counted in the order of the file."""
    values: Values = {}
    for each in reversed(space.parameters):
        number, at = divmod(number, len(each.values))
        values[each.name] = each.values[at]
    return {each.name: values[each.name] for each in space.parameters}
