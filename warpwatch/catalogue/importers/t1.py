"""Imports kernels from files in the input format T1 of Kernel Tuner, KTT and BAT (docs/your-kernels.md).

Schema: https://github.com/KernelTuner/kernel_tuner, kernel_tuner/schema/T1.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from warpwatch.catalogue.arrays import DeclaredArray, Scalar, Shape
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.importers.t1_file import (
    PROBLEM,
    Argument,
    BadT1,
    Field,
    Space,
    Values,
    Wanted,
    choose,
    make_draw,
    mentions_size,
    read_arguments,
    read_space,
    read_t1,
)
from warpwatch.catalogue.names import size_name
from warpwatch.catalogue.variants import Configuration, Variant, kernel

AXES = "XYZ"
OLDER = re.compile(r"--?std=c\+\+(03|11|14|17)")  # kernels are compiled as C++17, which has what these ask for
LONGEST_LABEL = 80  # characters of a configuration in ids, which have at most 200
ONE_SIZE = ("elements",)  # name of the size where a file has no ProblemSize


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
        problem = _read(file, arguments or {}, configurations, draw is not None)
        return _family(problem, name, reference, draw, kernel or {}, fields)
    except BadT1 as error:
        return _refused(file, name, reference, str(error))


@dataclass(frozen=True, kw_only=True, eq=False)  # its methods are functions of the declaration: hashable
class _Problem:
    """The problem that a file describes.

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
        found = [local.find(axis) or Field(where=local.where, value=1) for axis in AXES]
        while len(found) > 1 and str(found[-1].value) == "1":
            found.pop()
        return found

    @property
    def shape(self) -> Shape:
        """The shape of the file's own case: its ProblemSize, or else the elements of the first result."""
        if self.size:
            return self.size
        first = next(each for each in self.arguments if each.size and each.access != "ReadOnly")
        return (prod(first.shape(self.space.lists)),)

    def names(self, shape: Shape) -> dict[str, Any]:
        """Return what the Size of an argument may name: values of each parameter, as Kernel Tuner has it."""
        return {**self.space.lists, **self._size(shape)}

    def _size(self, shape: Shape) -> dict[str, list[int]]:
        return {PROBLEM: list(shape)} if self.size else {}

    def configuration(self, name: str, values: Values) -> dict[str, Any]:
        """Return a configuration as a declaration has it: block, name and macros."""
        block = tuple(side.count(values) for side in self.sides)
        shown = {str(side.value) for side in self.sides}
        macros = {key: value if isinstance(value, str) else _number(value) for key, value in values.items()}
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
        names = {**self.by_label[c.label], **self._size(shape)}
        threads = (*c.block, 1, 1)
        if self.size:
            return tuple(-(-size // self._divisor(i, threads[i], names)) for i, size in enumerate(shape[: len(AXES)]))
        kind, sizes = self.kernel.find("GlobalSizeType"), self.kernel.take("GlobalSize")
        of_threads = (kind.one_of("CUDA", "OpenCL") if kind else "CUDA") == "OpenCL"
        counts = (found.count(names) if (found := sizes.find(axis)) else 1 for axis in AXES)
        return tuple(-(-count // (threads[i] if of_threads else 1)) for i, count in enumerate(counts))

    def _divisor(self, axis: int, threads: int, names: Mapping[str, Any]) -> int:
        """Return how many elements of the problem a block covers along an axis: the product of GridDiv."""
        given = self.kernel.find(f"GridDiv{AXES[axis]}")
        if given is None or not given.value:
            return threads
        each = given.each() if isinstance(given.value, list) else iter([given])
        return prod(divisor.count(names) for divisor in each)

    def shared_bytes(self, c: Configuration, shape: Shape) -> int:
        given = self.kernel.find("SharedMemory")
        return given.count({**self.by_label[c.label], **self._size(shape)}, least=0) if given else 0

    def values(self, at: Mapping[str, int], shape: Shape) -> tuple[np.generic, ...]:
        """Return the kernel's arguments for arrays at these addresses."""
        names = self._size(shape)
        passed = (each for each in self.arguments if each.is_passed)
        return tuple(np.uint64(at[each.name]) if each.size else each.scalar(names) for each in passed)

    def fits(self, shape: Shape) -> str | None:
        """Say why another shape than the file's cannot be: nothing in the file follows it."""
        if shape == self.shape or any(each.size and each.follows_size for each in self.arguments):
            return None
        return (
            f"{self.file.name} describes {size_name(self.shape)} alone, because no Size there names {PROBLEM}: "
            f'change that by arguments=, as in {{"{self.arguments[0].name}": {{"Size": "{PROBLEM}[0]"}}}}'
        )


def _number(value: float) -> int | str:
    return int(value) if isinstance(value, int) else str(value)


def _read(file: Path, changed: Mapping[str, Mapping[str, Any]], wanted: Wanted, has_draw: bool) -> _Problem:
    """Read a file. Raises BadT1."""
    given = read_t1(file)
    spec = given.take("KernelSpecification")
    language = spec.take("Language")
    if language.value != "CUDA":
        raise language.bad(f"is {language.value!r}: kernels in CUDA alone can be imported")
    space = read_space(given.take("ConfigurationSpace"))
    size = spec.find(PROBLEM)
    listed = size.each() if size and isinstance(size.value, list) else [size] if size else []
    shape = tuple(each.count({}) for each in listed)
    if len(shape) > len(AXES):
        raise spec.take(PROBLEM).bad(f"has {len(shape)} sizes: a grid has at most {len(AXES)}")
    return _Problem(
        file=file,
        given=given,
        space=space,
        chosen=choose(space, wanted),
        arguments=read_arguments(spec.take("Arguments"), changed, has_draw),
        size=shape or None,
    )


def _family(
    problem: _Problem,
    name: str,
    reference: Callable[..., Any],
    draw: Callable[..., Any] | None,
    fields_of_kernel: Mapping[str, Any],
    fields: Mapping[str, Any],
) -> Family:
    """Make the family of a file. Raises BadT1."""
    general = problem.given.find("General")
    title = (general.find("BenchmarkName") if general else None) or problem.kernel.take("KernelName")
    shape = problem.shape
    sizes = tuple(f"problem_{axis.lower()}" for axis in AXES[: len(shape)]) if problem.size else ONE_SIZE

    def arrays(shape: Shape) -> dict[str, DeclaredArray]:
        return {each.name: each.declared(problem.names(shape)) for each in problem.arguments if each.size}

    arrays(shape)  # a Size that cannot be calculated is a mistake of the file, said at once
    constant = [each for each in problem.arguments if each.size is None and not mentions_size(each.value)]
    return Family(
        name or _named(title.text()),
        **{
            "sizes": sizes,
            "variants": (_variant(problem, fields_of_kernel),),
            "arrays": arrays,
            "reference": reference,
            "scalars": {each.name: Scalar(each.number({}), each.dtype) for each in constant},
            "draw": make_draw(problem.arguments, draw, problem.names),
            "tests": (shape,),
            "benchmarks": (shape,),
            "folder": problem.file.parent,
            "fits": problem.fits,
            **fields,
        },
    )


def _variant(problem: _Problem, fields: Mapping[str, Any]) -> Variant:
    """Return the kernel of a file. Raises BadT1."""
    spec = problem.kernel
    entry, types, options = (spec.take("KernelName").text(), spec.find("KernelTypeNames"), spec.find("CompilerOptions"))
    template = f"<{', '.join(each.text() for each in types.each())}>" if types and types.value else ""
    flags = tuple(each.text() for each in options.each()) if options else ()
    return kernel(
        _named(entry),
        f"imported from {problem.file.name}",
        **{
            "source": _source(problem.file, spec.take("KernelFile").text()),
            "entry": entry + template,
            "flags": tuple(flag for flag in flags if not OLDER.fullmatch(flag)),
            "configurations": tuple(problem.configuration(*each) for each in problem.chosen),
            "grid": problem.grid,
            "shared_bytes": problem.shared_bytes,
            "arguments": problem.values,
            "symbols": {each.name: each.name for each in problem.arguments if each.is_symbol},
            **fields,
        },
    )


def _source(file: Path, name: str) -> str:
    """Return the kernel's file, from the folder of the T1 file or, as Kernel Tuner also looks, from the one above."""
    above = file.parent.parent / name
    return name if (file.parent / name).is_file() or not above.is_file() else os.path.join("..", name)


def _named(text: str) -> str:
    """Make a name for ids of a text."""
    made = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    return made if made[:1].isalpha() else f"t1_{made}"


def _refused(file: Path, name: str, reference: Callable[..., Any], said: str) -> Family:
    """Make a family with one mistake, which says why a file was not imported, so that everything else runs."""

    def arrays() -> dict[str, DeclaredArray]:
        raise BadT1(said)

    return Family(
        name or _named(file.stem),
        sizes=ONE_SIZE,
        arrays=arrays,
        reference=reference,
        variants=(kernel("t1", configurations=((1,),), grid=1),),
        tests=((1,),),
        folder=file.parent if file.parent.is_dir() else Path(__file__).parent,
    )
