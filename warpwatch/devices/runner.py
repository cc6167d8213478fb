"""Runs one case on a machine: uploads operands, launches, reads the result and looks for damage."""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from warpwatch.catalogue.declaration import ALL_ROWS, Array, BadCase, Case
from warpwatch.catalogue.work_rules import unlike_bound, unlike_result
from warpwatch.devices.machine import OPERAND_POISON, DeviceError, Function, GuardedArray, Machine
from warpwatch.devices.placement import PLAIN, Placement

_libc = ctypes.CDLL(None)
DRAWN_AT_ONCE = 2**20  # elements of a piece, which one thread draws


@dataclass(frozen=True)
class Outcome:
    """The result and the damage of one launch.

    ``result``: the array that the kernel wrote, or the sorted lines that it printed. ``damage``: a sentence for each
    write outside its arrays or into its operands.
    """

    result: Array
    damage: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A case in a machine's memory, ready to be launched any number of times."""

    case: Case
    machine: Machine
    function: Function
    start: Callable[[], None]
    operands: tuple[GuardedArray, ...]
    result: GuardedArray | None

    def free(self) -> None:
        for array in filter(None, (*self.operands, self.result)):
            array.free()


def require_memory(machine: Machine, case: Case) -> None:
    """Raise DeviceError where operands and result do not fit into the machine's memory."""
    try:
        machine.require(case.array_bytes)
    except DeviceError as error:
        raise DeviceError(f"{case.id}: {error}", error.lost) from None


def upload(
    machine: Machine, case: Case, operands: Sequence[Array], placement: Placement = PLAIN
) -> tuple[GuardedArray, ...]:
    """Upload the operands of a case. Raises DeviceError, or BadCase where their shapes or types are not the case's."""
    shapes = case.family.operands(case.shape)
    fit = len(operands) == len(shapes)
    for (name, shape), array in zip(shapes.items(), operands, strict=False):
        if array.shape != shape or array.dtype != case.dtype:
            raise BadCase(f"{case.id}: {name} must be {shape} of {case.dtype}, not {array.shape} of {array.dtype}")
    if not fit:
        raise BadCase(f"{case.id}: takes {len(shapes)} operands ({', '.join(shapes)}), not {len(operands)}")
    guarded: list[GuardedArray] = []
    try:
        for (name, shape), array in zip(shapes.items(), operands, strict=True):
            padded, offset = placement.padded_shape(shape), placement.offset(len(guarded))
            guarded.append(GuardedArray(machine, name, padded, case.dtype, offset, OPERAND_POISON))
            guarded[-1].write(placement.spread(array))
    except DeviceError as error:
        for done in guarded:
            done.free()
        raise DeviceError(f"{case.id}: {error}", error.lost) from None
    return tuple(guarded)


def load(
    machine: Machine, case: Case, image: Path, operands: tuple[GuardedArray, ...], placement: Placement = PLAIN
) -> Loaded:
    """Load the kernel and allocate a poisoned result, for operands that are uploaded already. Raises DeviceError."""
    result = None
    try:
        library = case.variant.library
        function = Function(library.name, None) if library else machine.load(image, case.entry)
        if case.family.result:
            name, shape = case.family.result(case.shape)
            padded, offset = placement.padded_shape(shape), placement.offset(len(operands))
            result = GuardedArray(machine, name, padded, case.dtype, offset)
        arrays = (*operands, result) if result else operands
        pointers = [array.address for array in arrays]
        if library:
            start = machine.library(case, pointers)
        else:
            set_constants(machine, function, case.variant.constant, operands)
            launch = placement.launch(case.launch)
            start = machine.launcher(function, launch, arguments(case, pointers, placement.padding))
    except DeviceError as error:
        if result and not error.lost:
            result.free()
        raise DeviceError(f"{case.id}: {error}", error.lost) from None
    return Loaded(case=case, machine=machine, function=function, start=start, operands=operands, result=result)


def arguments(case: Case, pointers: Sequence[int], padding: int) -> tuple[np.generic, ...]:
    """Return the kernel's arguments for arrays with ``padding`` elements after each row. Raises BadCase."""
    if not padding:
        return case.variant.arguments(pointers, case.shape)
    if not case.variant.padded_arguments:
        raise BadCase(f"{case.id}: {case.variant.name} takes no padded rows: it declares no padded_arguments")
    return case.variant.padded_arguments(pointers, case.shape, padding)


def set_constants(machine: Machine, function: Function, name: str, operands: Sequence[GuardedArray]) -> None:
    """Copy the operand of that name, if any, to the kernel's constant memory."""
    for array in operands:
        if array.name == name:
            machine.set_constant(function, f"constant_{name}", array.address, array.nbytes)


def run(machine: Machine, case: Case, image: Path, operands: Sequence[Array], placement: Placement = PLAIN) -> Outcome:
    """Launch a case once and return its outcome. Raises DeviceError or BadCase, which name the case."""
    with ExitStack() as cleanup:
        guarded = upload(machine, case, operands, placement)
        for array in guarded:
            cleanup.callback(array.free)
        loaded = load(machine, case, image, guarded, placement)
        if loaded.result:
            cleanup.callback(loaded.result.free)
        result = launch_once(loaded)
        said = damage(loaded, [placement.spread(operand) for operand in operands])
        if case.family.result:
            name, shape = case.family.result(case.shape)
            result, between = placement.gather(name, result, shape)
            said = (*said, between) if between else said
        return Outcome(result, said)


def launch_and_wait(loaded: Loaded) -> None:
    """Launch, and return when the kernel has run. Raises DeviceError, which names the case."""
    try:
        loaded.start()
        loaded.machine.finish()
    except DeviceError as error:
        raise DeviceError(f"{loaded.case.id}: {error}", error.lost) from None


def launch_once(loaded: Loaded) -> Array:
    """Launch, wait, and read the whole result, or the lines that were printed."""
    case = loaded.case
    if loaded.result:
        launch_and_wait(loaded)
        return loaded.result.read()
    with captured_stdout() as printed:
        assert case.family.prints
        print(case.family.prints(case.build.block, case.shape)[0], flush=True)  # the host's own line
        launch_and_wait(loaded)
    return np.sort(np.array(printed))


def damage(loaded: Loaded, operands: Sequence[Array]) -> tuple[str, ...]:
    """Return a sentence for each write outside the arrays or into the operands. ``operands``: as uploaded."""
    said = [array.overrun() for array in (*loaded.operands, loaded.result) if array]
    for array, before in zip(loaded.operands, operands, strict=True):
        changed = np.count_nonzero(array.read().view(np.uint8) != np.ascontiguousarray(before).view(np.uint8))
        said.append(f"changed its operand {array.name}: {changed:,} bytes differ" if changed else None)
    return tuple(filter(None, said))


def expected(case: Case, operands: Sequence[Array]) -> tuple[Array, Array | float]:
    """Return the reference result from NumPy, and the largest error allowed for each element.

    Raises BadCase where the family's reference or bound does not have the result's shape and type.
    """
    family = case.family
    if family.prints:
        return np.sort(np.array(family.prints(case.build.block, case.shape))), 0.0
    reference, bound = family.reference(operands, ALL_ROWS), family.bound(operands, ALL_ROWS)
    for field, fault in (
        ("reference", unlike_result(family, case.shape, case.dtype, reference)),
        ("bound", unlike_bound(family, case.shape, case.dtype, bound)),
    ):
        if fault:
            raise BadCase(f"{case.id}: family {family.name}: {field} {fault}")
    return reference, bound


def random_operands(case: Case, seed: int) -> tuple[Array, ...]:
    """Draw operands: floats uniform in [-1, 1), int32 over its whole range."""

    def draw(rng: np.random.Generator, out: Array) -> None:
        if out.dtype == np.int32:
            out[:] = rng.integers(-(2**31), 2**31, out.shape, dtype=np.int32)
        else:
            rng.random(out=out, dtype=out.dtype.type)
            out *= 2
            out -= 1

    return _draw(case, seed, draw)


def exact_operands(case: Case, seed: int) -> tuple[Array, ...]:
    """Draw whole numbers in [-8, 8], so that float32 sums of up to 2^18 products are exact in any order."""

    def draw(rng: np.random.Generator, out: Array) -> None:
        out[:] = rng.integers(-8, 9, out.shape)

    return _draw(case, seed, draw)


def _draw(case: Case, seed: int, draw: Callable[[np.random.Generator, Array], None]) -> tuple[Array, ...]:
    """Draw each piece of an array from its own random stream, so that the number of cores changes nothing."""
    seeds = np.random.SeedSequence([seed, *case.shape])
    operands = [np.empty(shape, case.dtype) for shape in case.family.operands(case.shape).values()]
    pieces = [a.reshape(-1)[i : i + DRAWN_AT_ONCE] for a in operands for i in range(0, a.size, DRAWN_AT_ONCE)]
    streams = map(np.random.default_rng, seeds.spawn(len(pieces)))
    with ThreadPoolExecutor(
        len(os.sched_getaffinity(0))
    ) as pool:  # NumPy releases the interpreter's lock while it draws
        list(pool.map(draw, streams, pieces))
    return tuple(operands)


@contextmanager
def captured_stdout() -> Iterator[list[str]]:
    """Collect the lines that this process and its kernels print on file descriptor 1; the list is filled at the end."""
    lines: list[str] = []
    with tempfile.TemporaryFile() as file:
        _libc.fflush(None)
        before = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            yield lines
        finally:
            _libc.fflush(None)
            os.dup2(before, 1)
            os.close(before)
            file.seek(0)
            lines += file.read().decode().splitlines()
