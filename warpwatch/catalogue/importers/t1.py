"""Imports kernels from files in the input format T1 of Kernel Tuner, KTT and BAT (docs/your-kernels.md).

Schema: https://github.com/KernelTuner/kernel_tuner, kernel_tuner/schema/T1. A mistake is reported with file and field.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite, prod
from pathlib import Path
from typing import Any

import numpy as np

from warpwatch.catalogue.arrays import Array, DeclaredArray, In, InOut, Out, Scalar, Shape
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.elements import numpy_type, word_of
from warpwatch.catalogue.expressions import BadExpression, evaluate, names_of
from warpwatch.catalogue.named_arguments import call
from warpwatch.catalogue.names import BadCase, size_name
from warpwatch.catalogue.variants import Configuration, Variant, kernel

AXES = "XYZ"
PROBLEM = "ProblemSize"
OLDER = re.compile(r"--?std=c\+\+(03|11|14|17)")  # kernels are compiled as C++17, which has what these ask for
LONGEST_LABEL = 80  # characters of a configuration in ids, which have at most 200
ONE_SIZE = ("elements",)  # name of the size where a file has no ProblemSize
TRIES = 20_000  # configurations that are looked at; conditions of a file take 50 µs each
ALIGNED = 16  # bytes: tuners allocate each array by itself, so kernels may use the widest loads
Value = int | float | str
Values = dict[str, Value]
Wanted = int | Sequence[Mapping[str, object]] | None
_SCALAR_TYPES = {
    **{name: name for name in ("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))},
    "half": "float16",
    "float": "float32",
    "double": "float64",
}
# Types of an element, and how many numbers it has: those of CUDA's vector types. Longer ones are OpenCL's.
TYPES: Mapping[str, tuple[str, int]] = {name: (dtype, 1) for name, dtype in _SCALAR_TYPES.items()} | {
    f"{name}{lanes}": (_SCALAR_TYPES[name], lanes)
    for name, most in (("half", 2), ("float", 4), ("double", 4))
    for lanes in range(2, most + 1)
}


class BadT1(BadCase):
    """A file that cannot be imported; the message names file and field, and says what would be right."""


def from_t1(
    path: str | Path,
    *,
    reference: Callable[..., Any],
    name: str = "",
    configurations: Wanted = None,
    arguments: Mapping[str, Mapping[str, Any]] | None = None,
    draw: Callable[..., Mapping[str, Any]] | None = None,
    kernel: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Family:
    """Return the family of one kernel that a T1 file describes.

    - ``path``: of the file, from the folder of the module that calls this function;
    - ``reference``: as a Family's, because a T1 file has none. Arrays have one axis, or two where their type is one
      such as float4;
    - ``name``: of the family; left out: the file's BenchmarkName, or else its KernelName;
    - ``configurations``: a list of values by parameter, such as ``[{"block_size_x": 64}]``, where others have their
      Default; or how many, which are spread over the space and the same in each run; left out: one, of the Defaults
      where the Conditions allow it;
    - ``arguments``: members of Arguments that are to be otherwise: ``{"n": {"FillValue": "ProblemSize[0]"}}``;
    - ``draw``: inputs by name, in place of the file's or where its FillType cannot be imported;
    - ``kernel``: other fields of the Variant, such as ``dict(include=("../include",))``, from the file's folder;
    - the rest are fields of the Family, such as ``tolerance``, ``work``, ``tests`` and ``benchmarks``. A shape is the
      ProblemSize; left out, the file's is tested and timed.

    What cannot be imported is a mistake in the declaration: one sentence with file and field, and one failed test.
    """
    file = Path(sys._getframe(1).f_code.co_filename).parent / path
    try:
        imported = _read(file, arguments or {}, configurations, draw is not None)
        return _family(imported, name, reference, draw, kernel or {}, fields)
    except BadT1 as error:
        return _refused(file, name, reference, str(error))


@dataclass(frozen=True, kw_only=True)
class Field:
    """Value of a file, and its place: ``add.json: KernelSpecification.GlobalSize.X``."""

    where: str
    value: Any

    def bad(self, fault: str) -> BadT1:
        return BadT1(f"{self.where} {fault}")

    def find(self, name: str) -> Field | None:
        """Return a member of an object; None where it is missing or null. Raises BadT1 unless this is an object."""
        if not isinstance(self.value, Mapping):
            raise self.bad(f"is {self.value!r}: an object with {name} is due")
        value = self.value.get(name)
        separator = " " if self.where.endswith(":") else "."
        return None if value is None else Field(where=f"{self.where}{separator}{name}", value=value)

    def take(self, name: str) -> Field:
        """Return a member of an object. Raises BadT1 where it is missing."""
        member = self.find(name)
        if member is None:
            raise self.bad(f"has no {name}")
        return member

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
        try:
            return evaluate(self.value, names) if isinstance(self.value, str) else self.value
        except BadExpression as error:
            raise self.bad(f"cannot be calculated: {error}") from None

    @property
    def names_size(self) -> bool:
        """True where it is arithmetic with the problem's size. Raises BadT1 unless a text is valid arithmetic."""
        try:
            return isinstance(self.value, str) and PROBLEM in names_of(self.value)
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


@dataclass(frozen=True, kw_only=True)
class Space:
    """Every combination of values that the conditions allow.

    ``lists``: the values of each parameter, which the Size of an argument may name. ``defaults``: of each parameter the
    Default or else the first value.
    """

    lists: dict[str, list[Value]]
    defaults: Values
    conditions: list[Field]
    where: str

    def broken(self, values: Values) -> Field | None:
        """Return the first condition that a configuration does not satisfy, or None. Raises BadT1."""
        return next((each for each in self.conditions if not each.calculated(values)), None)


def _space(given: Field) -> Space:
    lists, defaults = dict[str, list[Value]](), Values()
    for each in given.take("TuningParameters").each():
        name, listed, default = each.take("Name").text(), each.take("Values"), each.find("Default")
        values = listed.calculated({})
        if not isinstance(values, list) or not values or not all(isinstance(value, Value) for value in values):
            raise listed.bad(f"is {listed.value!r}: a list of numbers or texts is due, such as '[16, 32]'")
        if name in lists or not name.isidentifier() or not name.isascii() or name in ("block", "name"):
            raise given.bad(f"has the parameter {name!r}, which is there twice or cannot be a macro's name")
        lists[name] = values
        defaults[name] = default.value if default and default.value in values else values[0]
    conditions = given.find("Conditions")
    texts = [each.take("Expression") for each in conditions.each()] if conditions else []
    for text in texts:
        text.text()
    return Space(lists=lists, defaults=defaults, conditions=texts, where=given.where)


def _chosen(space: Space, wanted: Wanted) -> list[tuple[str, Values]]:
    """Return configurations, each with a name that the caller gave it, or an empty text. Raises BadT1.

    ``wanted``: values by parameter, where a parameter that is left out has its default; or how many configurations,
    which are the same in each run; None for one.
    """
    if wanted is None or isinstance(wanted, int):
        return [("", values) for values in _spread(space, 1 if wanted is None else wanted)]
    if not wanted:
        raise BadT1(f"{space.where}: configurations= is empty: give values by parameter, or how many")
    return [(str(each.get("name", "")), _given(space, each)) for each in wanted]


def _given(space: Space, given: Mapping[str, object]) -> Values:
    values = {name: value for name, value in given.items() if name != "name"}
    for name, value in values.items():
        if name not in space.lists:
            raise BadT1(f"{space.where} has no parameter {name}; there are {', '.join(space.lists)}")
        if not isinstance(value, Value) or value not in space.lists[name]:
            raise BadT1(f"{space.where}: {name} = {value!r} is none of its values {space.lists[name]}")
    chosen: Values = {**space.defaults, **values}  # type: ignore[dict-item]  # they are of its lists
    if broken := space.broken(chosen):
        raise broken.bad(f"({broken.value}) does not hold for {chosen}: choose other values")
    return chosen


def _spread(space: Space, count: int) -> list[Values]:
    """Return so many valid configurations, or all where there are fewer: the default, then a fixed random choice."""
    total = prod(map(len, space.lists.values()))
    tries = random.Random(0).sample(range(min(total, 2**62)), min(total, TRIES))
    chosen = [] if space.broken(space.defaults) else [space.defaults]
    for number in tries:
        if len(chosen) >= count:
            break
        values = _numbered(space, number)
        if values not in chosen and not space.broken(values):
            chosen.append(values)
    if not chosen:
        raise BadT1(f"{space.where}.Conditions hold for none of {len(tries):,} configurations: give configurations=")
    return chosen


def _numbered(space: Space, number: int) -> Values:
    """Return the configuration of that number, counted in the order of the file."""
    values: Values = {}
    for name, listed in reversed(space.lists.items()):
        number, at = divmod(number, len(listed))
        values[name] = listed[at]
    return {name: values[name] for name in space.lists}


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
        is_constant = self.access == "WriteOnly" and self.fill == "Constant"
        return is_constant and word_of(self.constant, self.dtype) is None

    @property
    def constant(self) -> float:
        """The value that every element starts from."""
        value = self.value.number({}) if self.value else 0
        return int(value) if numpy_type(self.dtype).kind in "iu" else value

    def shape(self, names: Mapping[str, Any]) -> Shape:
        assert self.size is not None
        count = self.size.count(names)
        return (count,) if self.lanes == 1 else (count, self.lanes)

    def declared(self, names: Mapping[str, Any]) -> DeclaredArray:
        """Return the array's declaration. ``names``: what its Size may name.

        Random numbers are from 0 to FillValue, as KTT has it, or from the usual range without a FillValue.
        """
        shape, low, high = self.shape(names), None, None
        if self.access == "WriteOnly" and not self.starts_as_input:
            initial = self.constant if self.fill == "Constant" else None
            return Out(shape, self.dtype, initial=initial, aligned=ALIGNED)
        most = self.value.number({}) if self.value and self.fill == "Random" else 0
        if most > 0 and self.dtype != "bool":
            low, high = 0, int(most) + 1 if numpy_type(self.dtype).kind in "iu" else most
        return (In if self.access == "ReadOnly" else InOut)(shape, self.dtype, aligned=ALIGNED, low=low, high=high)

    def number(self, names: Mapping[str, Any]) -> float:
        if self.value is None:
            raise self.field.bad("has no FillValue, which is the value of a scalar")
        return self.value.number(names)

    def scalar(self, names: Mapping[str, Any]) -> np.generic:
        """Return the value of a scalar in its type. Raises BadT1 where it does not fit."""
        value = self.number(names)
        with np.errstate(over="ignore"):
            scalar = np.array([value]).astype(numpy_type(self.dtype))[0]
        if (scalar != value) if scalar.dtype.kind in "iub" else (np.isfinite(value) and not np.isfinite(scalar)):
            raise self.field.bad(f"has the value {value!r}, which does not fit into {self.dtype}")
        return scalar  # type: ignore[no-any-return]


def _arguments(given: Field, changed: Mapping[str, Mapping[str, Any]], has_draw: bool) -> list[Argument]:
    """Read ``Arguments``, with members of them changed by the argument's name. Raises BadT1."""
    fields = list(given.each())
    names = [named.text() if (named := each.find("Name")) else f"argument{i}" for i, each in enumerate(fields, 1)]
    if len(set(names)) < len(names):
        raise given.bad(f"have a Name twice: {', '.join(names)}")
    if unknown := [name for name in changed if name not in names]:
        raise given.bad(f"have no {unknown[0]}; there are {', '.join(names)}")
    read = []
    for name, each in zip(names, fields, strict=True):
        value = {"Name": name, **each.value, **changed.get(name, {})}
        read.append(_argument(Field(where=each.where, value=value), has_draw))
    if not any(each.size and each.access != "ReadOnly" for each in read):
        raise given.bad("have no Vector that is WriteOnly or ReadWrite: change the AccessType of the result")
    return read


def _argument(given: Field, has_draw: bool) -> Argument:
    name = given.take("Name").text()
    given = Field(where=f"{given.where} ({name})", value=given.value)
    memory = given.take("MemoryType").one_of("Vector", "Scalar", "Symbol")
    kind, is_array = given.take("Type"), memory != "Scalar"
    dtype, lanes = TYPES[kind.one_of(*TYPES)]
    if lanes > 1 and not is_array:
        raise kind.bad(f"is {kind.value!r}: a scalar of a vector type cannot be imported")
    accesses, access = ("ReadOnly", "WriteOnly", "ReadWrite"), "ReadOnly"
    if memory == "Vector":
        access = given.take("AccessType").one_of(*accesses)
    value, fill = given.find("FillValue"), given.find("FillType")
    argument = Argument(
        name=name,
        dtype=dtype,
        lanes=lanes,
        field=given,
        size=given.take("Size") if is_array else None,
        access=access,
        fill=fill.text() if fill else ("Constant" if value else ""),
        value=value,
        is_passed=memory != "Symbol",
        is_symbol=memory == "Symbol" or (is_array and given.value.get("MemType") == "Constant"),
    )
    if argument.is_input and not has_draw and argument.fill not in ("Constant", "Random"):
        raise given.bad(f"has the FillType {argument.fill!r}: give draw=, a function that returns {name}")
    return argument


@dataclass(frozen=True, kw_only=True, eq=False)  # its methods are functions of the declaration: hashable
class _Imported:
    """Kernel that a file describes.

    ``size``: its ProblemSize, or None. ``chosen``: configurations, each with the name that the caller gave it.
    """

    file: Path
    given: Field
    space: Space
    chosen: list[tuple[str, Values]]
    arguments: list[Argument]
    size: Shape | None

    @property
    def kernel(self) -> Field:
        return self.given.take("KernelSpecification")

    @cached_property
    def by_label(self) -> dict[str, Values]:
        """The values of each configuration by what an id calls it."""
        return {self.configuration(name, values)["name"]: values for name, values in self.chosen}

    @cached_property
    def sides(self) -> list[Field]:
        """LocalSize along x, y and z, without those at the end that are always 1."""
        local = self.kernel.take("LocalSize")
        sides = [local.find(axis) or Field(where=local.where, value=1) for axis in AXES]
        while len(sides) > 1 and str(sides[-1].value) == "1":
            sides.pop()
        return sides

    @property
    def shape(self) -> Shape:
        """The shape of the file's own case: its ProblemSize, or else the elements of the first result."""
        if self.size:
            return self.size
        first = next(each for each in self.arguments if each.size and each.access != "ReadOnly")
        return (prod(first.shape(self.space.lists)),)

    def names(self, shape: Shape, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return what arithmetic may name: these values of parameters, and the problem's size."""
        return {**values, PROBLEM: list(shape)} if self.size else dict(values)

    def configuration(self, name: str, values: Values) -> dict[str, Any]:
        """Return a configuration as a declaration has it: block, name and macros."""
        block = tuple(side.count(values) for side in self.sides)
        shown = {str(side.value) for side in self.sides}
        macros = {key: int(value) if isinstance(value, int) else str(value) for key, value in values.items()}
        other = [
            re.sub(r"[^0-9a-z_]", "_", f"{key}{macros[key]}".lower())
            for key, value in values.items()
            if value != self.space.defaults[key] and key not in shown
        ]
        if self.size:  # Kernel Tuner's own
            sides = zip(("block_size_x", "block_size_y", "block_size_z"), (*block, 1, 1), strict=False)
            macros = dict(sides) | macros | {"kernel_tuner": 1}
        label = "_".join([size_name(block), *other])
        if len(label) > LONGEST_LABEL:
            label = f"{size_name(block)}_{hashlib.sha256(label.encode()).hexdigest()[:8]}"
        return {"block": block, "name": name or label, **macros}

    def grid(self, c: Configuration, shape: Shape) -> tuple[int, ...]:
        """Return the blocks along x, y and z, as Kernel Tuner counts them, or KTT where there is no ProblemSize."""
        names, threads = self.names(shape, self.by_label[c.label]), (*c.block, 1, 1)
        if self.size:
            return tuple(-(-size // self._divisor(i, threads[i], names)) for i, size in enumerate(shape[: len(AXES)]))
        kind, sizes = self.kernel.find("GlobalSizeType"), self.kernel.take("GlobalSize")
        of_threads = (kind.one_of("CUDA", "OpenCL") if kind else "CUDA") == "OpenCL"
        counts = (side.count(names) if (side := sizes.find(axis)) else 1 for axis in AXES)
        return tuple(-(-count // (threads[i] if of_threads else 1)) for i, count in enumerate(counts))

    def _divisor(self, axis: int, threads: int, names: Mapping[str, Any]) -> int:
        """Return how many elements of the problem a block covers along an axis: the product of GridDiv."""
        given = self.kernel.find(f"GridDiv{AXES[axis]}")
        if given is None or not given.value:
            return threads
        return prod(each.count(names) for each in (given.each() if isinstance(given.value, list) else [given]))

    def shared_bytes(self, c: Configuration, shape: Shape) -> int:
        given = self.kernel.find("SharedMemory")
        return given.count(self.names(shape, self.by_label[c.label]), least=0) if given else 0

    def arrays(self, shape: Shape) -> dict[str, DeclaredArray]:
        """Return the arrays. Their Size may name the values of each parameter, as Kernel Tuner has it."""
        names = self.names(shape, self.space.lists)
        return {each.name: each.declared(names) for each in self.arguments if each.size}

    def values(self, at: Mapping[str, int], shape: Shape) -> tuple[np.generic, ...]:
        """Return the kernel's arguments for arrays at these addresses."""
        names = self.names(shape, {})
        passed = (each for each in self.arguments if each.is_passed)
        return tuple(np.uint64(at[each.name]) if each.size else each.scalar(names) for each in passed)

    def fits(self, shape: Shape) -> str | None:
        """Say why another shape than the file's cannot be: nothing in the file follows it."""
        if shape == self.shape or any(each.size and each.size.names_size for each in self.arguments):
            return None
        return (
            f"{self.file.name} describes {size_name(self.shape)} alone, because no Size there names {PROBLEM}: "
            f'change that by arguments=, as in {{"{self.arguments[0].name}": {{"Size": "{PROBLEM}[0]"}}}}'
        )

    def draw(self, own: Callable[..., Any] | None) -> Callable[..., Any] | None:
        """Return the family's ``draw``: constants of the file, then what ``own`` returns; None without any."""
        inputs = [each for each in self.arguments if each.is_input]
        constants = [each for each in inputs if each.fill == "Constant"]

        def draw(rng: np.random.Generator, exact: bool, shape: Shape, sizes: Mapping[str, int]) -> dict[str, Array]:
            names = self.names(shape, self.space.lists)
            drawn = {c.name: np.full(c.shape(names), c.constant, numpy_type(c.dtype)) for c in constants}
            if own:
                drawn |= call(own, {"rng": rng, "exact": exact, "shape": shape, "sizes": sizes, **sizes})
            for each in inputs:
                if each.fill not in ("Constant", "Random") and each.name not in drawn:
                    raise each.field.bad(f"has the FillType {each.fill!r}, and draw= does not return it")
            return drawn

        return draw if constants or own else None


def _read(file: Path, changed: Mapping[str, Mapping[str, Any]], wanted: Wanted, has_draw: bool) -> _Imported:
    try:
        value = json.loads(file.read_text())
    except OSError as error:
        raise BadT1(f"{file} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise BadT1(f"{file.name}: is not valid JSON: {error}") from None
    given = Field(where=f"{file.name}:", value=value)
    if not isinstance(value, dict):
        raise given.bad("is not an object with ConfigurationSpace and KernelSpecification")
    spec = given.take("KernelSpecification")
    language = spec.take("Language")
    if language.value != "CUDA":
        raise language.bad(f"is {language.value!r}: kernels in CUDA alone can be imported")
    space, size = _space(given.take("ConfigurationSpace")), spec.find(PROBLEM)
    listed = size.each() if size and isinstance(size.value, list) else [size] if size else []
    shape = tuple(each.count({}) for each in listed)
    if len(shape) > len(AXES):
        raise spec.take(PROBLEM).bad(f"has {len(shape)} sizes: a grid has at most {len(AXES)}")
    arguments = _arguments(spec.take("Arguments"), changed, has_draw)
    chosen = _chosen(space, wanted)
    return _Imported(file=file, given=given, space=space, chosen=chosen, arguments=arguments, size=shape or None)


def _family(
    imported: _Imported,
    name: str,
    reference: Callable[..., Any],
    draw: Callable[..., Any] | None,
    fields_of_kernel: Mapping[str, Any],
    fields: Mapping[str, Any],
) -> Family:
    general, shape = imported.given.find("General"), imported.shape
    title = (general.find("BenchmarkName") if general else None) or imported.kernel.take("KernelName")
    imported.arrays(shape)  # a Size that cannot be calculated is a mistake of the file, said at once
    scalars = [each for each in imported.arguments if each.size is None]
    constant = [each for each in scalars if each.value is None or not each.value.names_size]
    return Family(
        name or _named(title.text()),
        **{
            "sizes": tuple(f"problem_{axis.lower()}" for axis in AXES[: len(shape)]) if imported.size else ONE_SIZE,
            "variants": (_variant(imported, fields_of_kernel),),
            "arrays": imported.arrays,
            "reference": reference,
            "scalars": {each.name: Scalar(each.number({}), each.dtype) for each in constant},
            "draw": imported.draw(draw),
            "tests": (shape,),
            "benchmarks": (shape,),
            "folder": imported.file.parent,
            "fits": imported.fits,
            **fields,
        },
    )


def _variant(imported: _Imported, fields: Mapping[str, Any]) -> Variant:
    spec, file = imported.kernel, imported.file
    entry, types, options = (spec.take("KernelName").text(), spec.find("KernelTypeNames"), spec.find("CompilerOptions"))
    template = f"<{', '.join(each.text() for each in types.each())}>" if types and types.value else ""
    flags = tuple(each.text() for each in options.each()) if options else ()
    source = spec.take("KernelFile").text()
    if not (file.parent / source).is_file() and (file.parent.parent / source).is_file():  # Kernel Tuner looks there too
        source = os.path.join("..", source)
    return kernel(
        _named(entry),
        f"imported from {file.name}",
        **{
            "source": source,
            "entry": entry + template,
            "flags": tuple(flag for flag in flags if not OLDER.fullmatch(flag)),
            "configurations": tuple(imported.configuration(*each) for each in imported.chosen),
            "grid": imported.grid,
            "shared_bytes": imported.shared_bytes,
            "arguments": imported.values,
            "symbols": {each.name: each.name for each in imported.arguments if each.is_symbol},
            **fields,
        },
    )


def _named(text: str) -> str:
    """Make a name for ids of a text."""
    name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    return name if name[:1].isalpha() else f"t1_{name}"


def _refused(file: Path, name: str, reference: Callable[..., Any], message: str) -> Family:
    """Make a family with one mistake, which says why a file was not imported, so that everything else runs."""

    def arrays() -> dict[str, DeclaredArray]:
        raise BadT1(message)

    return Family(
        name or _named(file.stem),
        sizes=ONE_SIZE,
        arrays=arrays,
        reference=reference,
        variants=(kernel("t1", configurations=((1,),), grid=1),),
        tests=((1,),),
        folder=file.parent if file.parent.is_dir() else Path(__file__).parent,
    )
