"""Reads files in the input format T1 of Kernel Tuner, KTT and BAT: fields, the space of configurations, arguments.

A mistake is reported with file and field.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, prod
from pathlib import Path
from typing import Any

import numpy as np

from warpwatch.catalogue.arrays import Array, DeclaredArray, In, InOut, Out, Shape
from warpwatch.catalogue.by_name import call
from warpwatch.catalogue.elements import numpy_type, word_of
from warpwatch.catalogue.importers.expressions import BadExpression, evaluate, names_of
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


PROBLEM = "ProblemSize"
ALIGNED = 16  # bytes: tuners allocate each array by itself, so kernels may use the widest loads
_SCALAR_TYPES = {
    **{name: name for name in ("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))},
    "half": "float16",
    "float": "float32",
    "double": "float64",
}
_LANES = (2, 3, 4)  # of CUDA's vector types; longer ones are OpenCL's
TYPES: Mapping[str, tuple[str, int]] = {name: (dtype, 1) for name, dtype in _SCALAR_TYPES.items()} | {
    f"{name}{lanes}": (_SCALAR_TYPES[name], lanes)
    for name in ("half", "float", "double")
    for lanes in _LANES
    if name != "half" or lanes == _LANES[0]
}


@dataclass(frozen=True, kw_only=True)
class Argument:
    """An argument of the kernel, or a ``__constant__`` variable that is filled before the launch.

    ``lanes``: numbers in an element of a type such as float4. ``fill``: FillType. ``value``: FillValue. ``size``: None
    of a scalar. ``access``: AccessType, of an array.
    """

    name: str
    dtype: str
    lanes: int
    field: Field
    size: Field | None
    access: str
    fill: str
    value: Field | None
    is_passed: bool
    is_symbol: bool

    @property
    def is_input(self) -> bool:
        """True where its first values are drawn or given."""
        return self.size is not None and (self.access != "WriteOnly" or self.starts_as_input)

    @property
    def starts_as_input(self) -> bool:
        """True where it is written only, and starts from a value that memory cannot be filled with."""
        return self.access == "WriteOnly" and self.fill == "Constant" and self.word is None

    @property
    def word(self) -> int | None:
        return word_of(self.constant, self.dtype)

    @property
    def constant(self) -> float:
        """The value that every element starts from."""
        value = self.value.number({}) if self.value else 0
        return int(value) if numpy_type(self.dtype).kind in "iu" else value

    @property
    def follows_size(self) -> bool:
        """True where its size or value depends on the problem's size."""
        return mentions_size(self.value if self.size is None else self.size)

    def shape(self, names: Mapping[str, Any]) -> Shape:
        assert self.size is not None
        count = self.size.count(names)
        return (count,) if self.lanes == 1 else (count, self.lanes)

    def declared(self, names: Mapping[str, Any]) -> DeclaredArray:
        """Return the array's declaration. ``names``: what its Size may name."""
        shape = self.shape(names)
        if self.access == "WriteOnly" and not self.starts_as_input:
            initial = self.constant if self.fill == "Constant" else None
            return Out(shape, self.dtype, initial=initial, aligned=ALIGNED)
        low, high = self._range()
        made = In if self.access == "ReadOnly" else InOut
        return made(shape, self.dtype, aligned=ALIGNED, low=low, high=high)

    def _range(self) -> tuple[float | None, float | None]:
        """Return the range of random numbers, as KTT has it: from 0 to FillValue; the usual one without a FillValue."""
        most = self.value.number({}) if self.value and self.fill == "Random" else 0
        if most <= 0 or self.dtype == "bool":
            return None, None
        return 0, int(most) + 1 if numpy_type(self.dtype).kind in "iu" else most

    def scalar(self, names: Mapping[str, Any]) -> np.generic:
        """Return the value of a scalar in its type. Raises BadT1 where it does not fit."""
        value = self.number(names)
        with np.errstate(over="ignore"):
            made = np.array([value]).astype(numpy_type(self.dtype))[0]
        if (made != value) if made.dtype.kind in "iub" else (np.isfinite(value) and not np.isfinite(made)):
            raise self.field.bad(f"has the value {value!r}, which does not fit into {self.dtype}")
        return made  # type: ignore[no-any-return]

    def number(self, names: Mapping[str, Any]) -> float:
        if self.value is None:
            raise self.field.bad("has no FillValue, which is the value of a scalar")
        return self.value.number(names)


def mentions_size(given: Field | None) -> bool:
    """Tell whether a field is arithmetic with the problem's size. Raises BadT1 where it is no arithmetic."""
    if given is None or not isinstance(given.value, str):
        return False
    try:
        return PROBLEM in names_of(given.value)
    except BadExpression as error:
        raise given.bad(f"cannot be calculated: {error}") from None


def read_arguments(given: Field, changed: Mapping[str, Mapping[str, Any]], has_draw: bool) -> list[Argument]:
    """Read ``Arguments``, with members of them changed by the argument's name. Raises BadT1."""
    fields = [(_name(each, i), each) for i, each in enumerate(given.each(), 1)]
    names = [name for name, _ in fields]
    if len(set(names)) < len(names):
        raise given.bad(f"have a Name twice: {', '.join(names)}")
    if unknown := [name for name in changed if name not in names]:
        raise given.bad(f"have no {unknown[0]}; there are {', '.join(names)}")
    read = [
        _argument(Field(where=each.where, value={"Name": name, **each.value, **changed.get(name, {})}), has_draw)
        for name, each in fields
    ]
    if not any(each.size and each.access != "ReadOnly" for each in read):
        raise given.bad("have no Vector that is WriteOnly or ReadWrite: change the AccessType of the result")
    return read


def _name(given: Field, number: int) -> str:
    named = given.find("Name")
    return named.text() if named else f"argument{number}"


def _argument(given: Field, has_draw: bool) -> Argument:
    name = given.take("Name").text()
    given = Field(where=f"{given.where} ({name})", value=given.value)
    memory = given.take("MemoryType").one_of("Vector", "Scalar", "Symbol")
    kind = given.take("Type")
    dtype, lanes = TYPES[kind.one_of(*TYPES)]
    if memory == "Scalar" and lanes > 1:
        raise kind.bad(f"is {kind.value!r}: a scalar of a vector type cannot be imported")
    is_array, fill, access = memory != "Scalar", given.find("FillType"), "ReadOnly"
    if memory == "Vector":
        access = given.take("AccessType").one_of("ReadOnly", "WriteOnly", "ReadWrite")
    made = Argument(
        name=name,
        dtype=dtype,
        lanes=lanes,
        field=given,
        size=given.take("Size") if is_array else None,
        access=access,
        fill=fill.text() if fill else ("Constant" if given.find("FillValue") else ""),
        value=given.find("FillValue"),
        is_passed=memory != "Symbol",
        is_symbol=memory == "Symbol" or (is_array and given.value.get("MemType") == "Constant"),
    )
    if made.is_input and not has_draw and made.fill not in ("Constant", "Random"):
        raise given.bad(f"has the FillType {made.fill!r}: give draw=, a function that returns {name}")
    return made


def make_draw(arguments: list[Argument], own: Callable[..., Any] | None, names: Callable[[Shape], Any]) -> Any:
    """Return the family's ``draw``: constants of the file, then what the caller's function returns; None without any.

    ``names``: shape -> what a Size may name.
    """
    inputs = [each for each in arguments if each.is_input]
    constants = [each for each in inputs if each.fill == "Constant"]
    strange = [each for each in inputs if each.fill not in ("Constant", "Random")]

    def draw(rng: np.random.Generator, exact: bool, shape: Shape, sizes: Mapping[str, int]) -> dict[str, Array]:
        made = {
            each.name: np.full(each.shape(names(shape)), each.constant, numpy_type(each.dtype)) for each in constants
        }
        if own:
            made |= call(own, {"rng": rng, "exact": exact, "shape": shape, "sizes": sizes, **sizes})
        if missing := [each for each in strange if each.name not in made]:
            raise BadT1(f"{missing[0].field.where} has the FillType {missing[0].fill!r}, and draw= does not return it")
        return made

    return draw if constants or own else None
