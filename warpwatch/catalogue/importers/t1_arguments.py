"""Reads the arguments of a kernel from a T1 file: arrays, scalars, and what they are filled with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpwatch.catalogue.arrays import Array, DeclaredArray, In, InOut, Out, Shape
from warpwatch.catalogue.by_name import call
from warpwatch.catalogue.elements import numpy_type, word_of
from warpwatch.catalogue.importers.expressions import BadExpression, names_of
from warpwatch.catalogue.importers.t1_fields import BadT1, Field

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
