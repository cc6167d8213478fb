"""Holds what a case passes to its kernels to what they take: arguments to parameters, copied inputs to variables.

What is known nowhere is not checked. Where something may be meant, a note says it: the likely cause of a wrong result.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpwatch.catalogue.arrays import CaseArray, Role
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.elements import C_TYPES, is_float, numpy_type
from warpwatch.catalogue.launches import Launch
from warpwatch.devices.compile.entries import Kernels
from warpwatch.devices.compile.symbols import demangled
from warpwatch.devices.machine import DeviceError, Function, GuardedArray, Machine
from warpwatch.devices.parameters import (
    POINTER,
    Parameter,
    declared_element,
    number_type,
    parameters_for,
    pointed_to_type,
    typed_by_source,
)

WORD = 4  # bytes; of smaller numbers the bits of one kind are passed as another
LEAST_ADDRESS = 1 << 32  # no array of a device lies below it
KINDS = {"i": "int", "u": "uint", "f": "float"}
Launches = Sequence[tuple[Function, Launch, Sequence["Argument"]]]


@dataclass(frozen=True, kw_only=True)
class Argument:
    """An argument of a launch.

    ``name``: as it is declared, or its number. ``kind``: its type in words, empty where the name says it. ``array``:
    the one that it points into, if any. ``cure``: how a declaration says that it has another type, in the place of {}.
    """

    value: np.generic
    name: str
    kind: str
    cure: str
    array: CaseArray | None = None

    def __str__(self) -> str:
        return f"{self.name} is {self.kind}," if self.kind else self.name


@dataclass(frozen=True, kw_only=True)
class Passed:
    """An argument, and the parameter of that number, from 1, that takes it."""

    argument: Argument
    parameter: Parameter
    number: int

    @property
    def array(self) -> CaseArray | None:
        return self.argument.array

    @property
    def read(self) -> tuple[str, int] | None:
        """Kind and size of the numbers that a pointer points to."""
        return number_type(pointed_to_type(self.parameter.type))

    @property
    def is_to_constants(self) -> bool:
        pointee = pointed_to_type(self.parameter.type)
        return "const" in pointee.split() and "*" not in pointee

    @property
    def place(self) -> str:
        number = self.number
        end = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
        return f"takes {self.parameter} as its {number}{end}"


def named_arguments(
    case: Case, addresses: Mapping[str, int], values: Sequence[np.generic], words: Sequence[str] = ()
) -> list[Argument]:
    """Return the arguments of a launch with what messages call them. ``words``: those of the declaration, if any."""
    named = []
    for number, value in enumerate(values):
        word = words[number] if number < len(words) else ""
        place = int(value) if value.dtype.kind in "iu" and value.dtype.itemsize == POINTER else 0
        inside = (a for a in case.arrays if addresses[a.name] <= place < addresses[a.name] + max(a.nbytes, 1))
        array = next(inside, None) if place else None
        named.append(argument_of(word, number + 1, value, array, case.family.scalars))
    return named


def argument_of(
    word: str, number: int, value: np.generic, array: CaseArray | None, scalars: Mapping[str, object]
) -> Argument:
    """Return an argument with what messages call it. ``word``: as it is declared, empty where a function returns it."""
    if not word:
        shown = f"a struct of {value.dtype.itemsize} bytes" if value.dtype.names else f"{value.dtype.name} {value}"
        kind = f"a pointer to {array.name} ({array.dtype})" if array else shown
        return Argument(value=value, name=f"argument {number}", kind=kind, cure="give np.{}", array=array)
    name, _, given = word.partition("=")
    stem, _, typed = name.partition(":")
    cure = f'write "{stem}:{{}}{"=" + given if given else ""}"'
    if stem in scalars and not given:
        cure = f'declare {stem} as ww.Scalar({value}, "{{}}")'
    kind = f"an array of {array.dtype}" if array else "" if typed else value.dtype.name
    return Argument(value=value, name=f'"{word}"', kind=kind, cure=cure, array=array)


def check_arguments(case: Case, kernels: Kernels, launches: Launches) -> list[str]:
    """Return notes on what is unusual. Raises DeviceError where a kernel cannot take its arguments."""
    passed: list[Passed] = []
    for function, _, arguments in launches:
        parameters = typed_by_source(function.parameters, kernels, function.name)
        if parameters is None:
            continue
        name = demangled([function.name])[0].partition("(")[0]
        if fault := unfit(f"the kernel {name}" if len(launches) > 1 else "the kernel", arguments, parameters):
            raise DeviceError(f"arguments: {fault}")
        if len(arguments) == len(parameters):
            passed += _pairs(arguments, parameters)
    unwritten = [
        f"{result.name} is a result, and the kernel {own[0].place} parameter"
        for result in case.results
        if (own := [each for each in passed if each.array and each.array.name == result.name])
        and all(each.is_to_constants for each in own)
    ]
    written = [
        f"{each.array.name} is an input, and it {each.place}"
        for each in passed
        if each.array and each.array.role is Role.IN and each.read and not each.is_to_constants
    ]
    if unwritten and written:
        raise DeviceError(f"arguments: {unwritten[0]}; {written[0]}: give them in the order of the kernel's parameters")
    odd = [
        f"{each.array.name} is {each.array.dtype}, and the kernel {each.place} parameter"
        for each in passed
        if each.array and each.read and each.read[1] != 1 and not _are_alike(numpy_type(each.array.dtype), each.read)
    ]
    return [f"arguments {note}" for note in (*unwritten, *odd)]


def _pairs(arguments: Sequence[Argument], parameters: Sequence[Parameter]) -> list[Passed]:
    pairs = enumerate(zip(arguments, parameters, strict=True), 1)
    return [Passed(argument=argument, parameter=parameter, number=i) for i, (argument, parameter) in pairs]


def unfit(kernel: str, arguments: Sequence[Argument], parameters: Sequence[Parameter]) -> str:
    """Say why a kernel cannot take these arguments, and what to write; empty where nothing speaks against them."""
    if len(arguments) != len(parameters):
        return "" if _lie_alike(arguments, parameters) else _other_number(kernel, arguments, parameters)
    faults = [
        f"{each.argument} but {kernel} {each.place} parameter; {cure}"
        for each in _pairs(arguments, parameters)
        if (cure := _cure(each))
    ]
    more = f" ({len(faults) - 1} more {'do' if len(faults) > 2 else 'does'} not fit)" if len(faults) > 1 else ""
    return f"{faults[0]}{more}" if faults else ""


def _lie_alike(arguments: Sequence[Argument], parameters: Sequence[Parameter]) -> bool:
    """Return whether the bytes of arguments are those of the parameters, as where two numbers make a struct."""
    given = parameters_for([each.value for each in arguments])
    places, wanted = {each.offset for each in given}, {each.offset for each in parameters}
    missing = max((each.end for each in parameters), default=0) - max((each.end for each in given), default=0)
    is_padded = len(arguments) > len(parameters) and 0 < missing < POINTER  # at the end of a struct
    return (missing == 0 or is_padded) and (wanted <= places or wanted >= places)


def _other_number(kernel: str, arguments: Sequence[Argument], parameters: Sequence[Parameter]) -> str:
    given = ", ".join(each.name if each.name.startswith('"') else each.kind for each in arguments)
    takes = ", ".join(map(str, parameters))
    are = f"{len(arguments)} {'is' if len(arguments) == 1 else 'are'} given" if arguments else "none is given"
    return (
        f"{are}{f' ({given})' if given else ''}, but {kernel} takes {len(parameters) or 'none'}"
        f"{f' ({takes})' if takes else ''}; give one for each parameter, in the kernel's order"
    )


def _cure(passed: Passed) -> str:
    """Say what to write where an argument does not fit its parameter; empty where it does, or nothing is known."""
    argument, parameter = passed.argument, passed.parameter
    number, dtype = number_type(parameter.type), argument.value.dtype
    if passed.array:
        return _cure_of_array(passed, passed.array, number)
    is_opaque = dtype.kind == "V" and not is_float(dtype)  # a struct, or bytes of which only the number is known
    if pointed_to_type(parameter.type) and not is_opaque:
        may_be_address = dtype.kind in "iu" and dtype.itemsize == POINTER
        return "" if may_be_address and not 0 < int(argument.value) < LEAST_ADDRESS else "give an array"
    is_same_kind = is_opaque or not number or is_float(dtype) == (number[0] == "f")
    if dtype.itemsize == parameter.size and (is_same_kind or parameter.size < WORD):
        return ""
    name = _numpy_name(parameter.type, parameter.size, dtype)
    if name and not is_opaque:
        return argument.cure.format(name)
    return f"give {parameter.size} bytes, as np.dtype(..., align=True) does"


def _cure_of_array(passed: Passed, array: CaseArray, number: tuple[str, int] | None) -> str:
    """Say what to declare where a kernel takes an array for one of other elements; empty where it may be right."""
    if passed.parameter.size != POINTER or (number and number[0] == "f"):
        return "give the arguments in the order of the kernel's parameters"
    if not passed.read or not _are_others(array.dtype, passed.read):
        return ""
    wanted = _numpy_name(pointed_to_type(passed.parameter.type), passed.read[1], numpy_type(array.dtype))
    return f"declare {array.name} as {wanted}, or let the kernel take {C_TYPES[array.dtype]}*"


def _numpy_name(name: str, size: int, dtype: np.dtype[np.generic]) -> str:
    """Return what NumPy calls a type of C++; of its size and the argument's kind where it is not one of numbers."""
    kind = (number_type(name) or ("f" if is_float(dtype) else "i", size))[0]
    if kind == "b" or "bfloat16" in name:
        return "bool" if kind == "b" else "bfloat16"
    known = (2, 4, 8) if kind == "f" else (1, 2, 4, 8)
    return f"{KINDS[kind]}{8 * size}" if size in known else ""


def _are_others(dtype: str, number: tuple[str, int]) -> bool:
    """Return whether elements cannot be what a kernel reads as numbers of a type.

    Many kernels take bytes, the bits of floating-point numbers as integers, or several small elements as one word.
    """
    kind, size = number
    element, floats = numpy_type(dtype), is_float(numpy_type(dtype))
    itemsize = element.itemsize // (2 if element.kind == "c" else 1)
    if kind == "b":
        return itemsize != 1
    return size != 1 and (itemsize > size or (itemsize < size and floats and kind == "f" and itemsize > 1))


def _are_alike(dtype: np.dtype[Any], number: tuple[str, int]) -> bool:
    return dtype.itemsize == number[1] and is_float(dtype) == (number[0] == "f")


def copy_to_variables(
    machine: Machine,
    function: Function,
    symbols: Mapping[str, str],
    inputs: Sequence[GuardedArray],
    kernels: Kernels,
    pointed: Container[str],
) -> list[str]:
    """Copy inputs to variables of the module that holds a kernel, and return notes on what is unusual.

    ``pointed``: the arrays that the kernel gets a pointer to as well. Of these a variable may hold less: the kernel can
    read the array where it does not fit. Raises DeviceError where a variable cannot hold what is copied there.
    """
    notes = []
    for symbol, name in symbols.items():
        (array,) = (array for array in inputs if array.name == name)
        size = machine.set_constant(function, symbol, array.address, array.nbytes)
        declared = declared_element(kernels, demangled([symbol])[0].rpartition("::")[2])
        notes.append(check_variable(symbol, size, declared, array, may_be_cut=name in pointed))
    return [f"symbols   {note}" for note in notes if note]


def check_variable(symbol: str, size: int, declared: str, array: GuardedArray, *, may_be_cut: bool) -> str:
    """Return a note where a variable has other elements than the array that is copied there, or more of them.

    ``size``: the variable's bytes. ``declared``: the type of its elements, empty if unknown. Raises DeviceError where
    the variable cannot hold the array.
    """
    number = number_type(declared)
    if number and size % number[1] == 0:
        is_whole = size * array.dtype.itemsize == number[1] * array.nbytes  # as many elements as the array
        if _are_others(array.dtype.name, number) or (is_whole and array.dtype.itemsize != number[1] > 1):
            wanted = _numpy_name(declared, number[1], array.dtype)
            has = f"{symbol} holds {declared} ({number[1]} bytes) and {array.name} is {array.dtype.name}"
            raise DeviceError(f"symbols: {has}; declare {array.name} as {wanted}")
    if size < array.nbytes and not may_be_cut:
        has = f"{symbol} has {size:,} bytes and {array.name} has {array.nbytes:,}"
        raise DeviceError(f"symbols: {has}; make the variable as large")
    if size <= array.nbytes and (not number or number[1] == 1 or _are_alike(array.dtype, number)):
        return ""
    has = f"{size:,} bytes" + (f" of {declared}" if declared else "")
    return f"{symbol} has {has}, and {array.name}, {array.dtype.name}, fills {array.nbytes:,} of them"
