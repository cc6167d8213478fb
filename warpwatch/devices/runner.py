"""Runs one case on a machine: uploads inputs, launches, reads the results and looks for damage."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from warpwatch.catalogue.arrays import Array, CaseArray, Role
from warpwatch.catalogue.cases import Case, initial_values
from warpwatch.catalogue.declaration import LARGEST_GRID_Y
from warpwatch.catalogue.elements import no_word, word_of
from warpwatch.catalogue.named_arguments import call
from warpwatch.catalogue.names import BadCase
from warpwatch.devices.accepting import accepted_of
from warpwatch.devices.arguments import Launches, Prepared, named_arguments, prepare_launches
from warpwatch.devices.compile.builds import kernels_of, symbol_of
from warpwatch.devices.digest import digests
from warpwatch.devices.gpu import Device
from warpwatch.devices.machine import DeviceError, Function, GuardedArray, Machine, in_order
from warpwatch.devices.placement import PLAIN, Placement
from warpwatch.devices.preparing import is_prepared, other_values
from warpwatch.devices.references import LINE

_libc = ctypes.CDLL(None)
# What softcuda says of a grid's barrier in a usual launch, and what to declare then.
NOT_COOPERATIVE, COOPERATIVE = "cuLaunchCooperativeKernel", "declare   cooperative=True of the kernel or its ww.Step"
DIGESTED_BYTES = 2**20  # of results, from which on they are compared by digests on a GPU
_kernels_of = functools.lru_cache(maxsize=256)(kernels_of)  # each copy of each case asks; for messages alone


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The results and the damage of one launch.

    ``results``: the arrays that the kernel wrote, by name; or the sorted lines that it printed, as LINE. ``damage``: a
    sentence for each write outside its arrays or into its inputs. ``notes``: as in Loaded. ``launch``: its number,
    from 1. ``draw``: the number of the inputs, 0 for the first.
    """

    results: Mapping[str, Array]
    damage: tuple[str, ...]
    notes: tuple[str, ...] = ()
    launch: int = 1
    draw: int = 0

    @property
    def first(self) -> Array:
        return next(iter(self.results.values()))


class Variables:
    """Variables of a kernel's module, which outlive its launches, and the values that they had at ``keep``."""

    def __init__(self, device: Device, function: Function) -> None:
        """Find the variables and keep their values. Raises DeviceError."""
        self._device = device
        self._kept = [(address, size, device.allocate(size)) for address, size in device.variables(function)]
        self.keep()

    def __bool__(self) -> bool:
        return bool(self._kept)

    def keep(self) -> None:
        """Keep the values that the variables have now."""
        for address, size, copy in self._kept:
            self._device.copy(copy, address, size)

    def restore(self) -> None:
        for address, size, copy in self._kept:
            self._device.copy(address, copy, size)

    def free(self) -> None:
        for _, _, copy in self._kept:
            self._device.free(copy)


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A case in a machine's memory, ready to be launched any number of times.

    ``inputs``: as they were uploaded; of an array that is changed in place these are its first values. ``own``: the
    arrays that belong to this case alone, by name. ``start`` launches; ``restore`` gives arrays their first values
    again, and is to be called before each launch. ``notes``: what is unusual in the declaration, and the likely cause
    if the kernel turns out to be wrong. ``variables``: of the kernel's module, where their values were kept.
    ``symbols``: variables that hold inputs, with the names of these. ``firsts``: addresses of first values.
    ``launches``: the kernels that ``start`` launches, each with its launch and arguments; none where it is a call.
    """

    case: Case
    machine: Machine
    function: Function
    start: Callable[[], None]
    restore: Callable[[], None]
    inputs: tuple[GuardedArray, ...]
    own: Mapping[str, GuardedArray]
    notes: tuple[str, ...] = ()
    variables: Variables | None = None
    symbols: Mapping[str, str] = field(default_factory=dict)
    firsts: tuple[int, ...] = ()
    launches: Launches = ()

    @functools.cached_property
    def results(self) -> tuple[GuardedArray, ...]:
        return tuple(self.own[array.name] for array in self.case.results)

    @functools.cached_property
    def _without_first_values(self) -> tuple[GuardedArray, ...]:
        return tuple(self.own[a.name] for a in self.case.arrays if a.name in self.own and a.role is not Role.IN_OUT)

    @property
    def addresses(self) -> dict[str, int]:
        """The address of each array that the kernel is given, by name, in the order of the declaration."""
        uploaded = {array.name: array.address for array in self.inputs}
        return uploaded | {name: array.address for name, array in self.own.items()}

    def poison(self) -> None:
        """Fill results and scratch memory with poison, but for arrays that have first values."""
        for array in self._without_first_values:
            array.poison()

    def take_inputs(self) -> None:
        """Copy inputs that have changed into the variables that hold them."""
        arrays = {array.name: array for array in self.inputs}
        for symbol, name in self.symbols.items():
            self.machine.set_constant(self.function, symbol, arrays[name].address, arrays[name].nbytes)

    def clear(self, second: bool) -> None:
        """Fill results, scratch memory and their guard bands with one of the two patterns of poison."""
        for array in self.own.values():
            array.clear(second)

    def free_own(self) -> None:
        """Give back the memory of the arrays that belong to this case alone."""
        for array in self.own.values():
            array.free()
        for address in self.firsts:
            self.machine.free(address)
        if self.variables:
            self.variables.free()


@contextmanager
def naming(case: Case) -> Iterator[None]:
    """Name the case in errors of the device."""
    try:
        yield
    except DeviceError as error:
        raise DeviceError(f"{case.id}: {error}", error.lost) from None


def require_memory(machine: Machine, case: Case) -> None:
    """Raise DeviceError where the arrays of a case do not fit into the machine's memory."""
    with naming(case):
        machine.require(case.array_bytes)


def upload(
    machine: Machine, case: Case, inputs: Mapping[str, Array], placement: Placement = PLAIN
) -> tuple[GuardedArray, ...]:
    """Upload the inputs of a case. Raises DeviceError, or BadCase where their shapes or types are not the case's."""
    case.check_inputs(inputs)
    guarded: list[GuardedArray] = []
    with naming(case), ExitStack() as on_error:
        for index, array in enumerate(case.arrays):
            if array.is_input:
                padded = placement.padded_shape(inputs[array.name].shape)
                offset = placement.offset(index, array)
                guarded.append(
                    GuardedArray(machine, array.name, padded, array.dtype, offset, operand=True, filled=False)
                )
                on_error.callback(guarded[-1].free)
                guarded[-1].set(placement.spread(inputs[array.name]))
        on_error.pop_all()
    return tuple(guarded)


def load(
    machine: Machine,
    case: Case,
    image: Path,
    inputs: tuple[GuardedArray, ...],
    placement: Placement = PLAIN,
    beside: Function | None = None,
) -> Loaded:
    """Load the kernel and allocate poisoned results, for inputs that are uploaded already. Raises DeviceError.

    ``beside``: the kernel of the same case on other arrays, with which it shares its module. One whose variables hold
    inputs has a module of its own all the same.
    """
    shared = None if case.variant.symbols else beside
    prepare = functools.partial(_prepare, machine, case, image, inputs, placement, shared)
    return load_with(machine, case, inputs, prepare, placement)


def load_with(
    machine: Machine,
    case: Case,
    inputs: tuple[GuardedArray, ...],
    prepare: Callable[[Mapping[str, int]], Prepared],
    placement: Placement = PLAIN,
) -> Loaded:
    """Allocate poisoned results, and load what ``prepare`` makes for the addresses of all arrays. Raises DeviceError.

    ``prepare``: returns a kernel's function, and one that launches.
    """
    own: dict[str, GuardedArray] = {}
    shapes = {array.name: array.shape for array in inputs}
    with naming(case), ExitStack() as on_error:
        for index, array in enumerate(case.arrays):
            if array.role is not Role.IN:
                padded = shapes.get(array.name) or placement.padded_shape(array.shape)
                own[array.name] = GuardedArray(machine, array.name, padded, array.dtype, placement.offset(index, array))
                on_error.callback(own[array.name].free)
        prepared = prepare({array.name: array.address for array in (*inputs, *own.values())})
        firsts = _first_values(machine, case)
        for address in firsts.values():
            on_error.callback(machine.free, address)
        restore = _restorer(machine, case, inputs, own, firsts)
        on_error.pop_all()
    return Loaded(
        case=case,
        machine=machine,
        function=prepared.function,
        start=prepared.start,
        restore=restore,
        inputs=inputs,
        own=own,
        notes=prepared.notes,
        symbols=prepared.symbols,
        firsts=tuple(firsts.values()),
        launches=prepared.launches,
    )


def _first_values(machine: Machine, case: Case) -> dict[str, int]:
    """Upload the first values that functions of the declaration give, and return their addresses by array."""
    addresses = {}
    for array in case.arrays:
        if callable(array.initial):
            addresses[array.name] = machine.allocate(array.nbytes)
            machine.write(addresses[array.name], initial_values(case, array))
    return addresses


def with_variables(loaded: Loaded) -> Loaded:
    """Keep the values that the variables of a kernel's module have now, if it has any. Raises DeviceError."""
    machine = loaded.machine
    kept = Variables(machine, loaded.function) if isinstance(machine, Device) else None
    return replace(loaded, variables=kept) if kept else loaded


def _prepare(
    machine: Machine,
    case: Case,
    image: Path,
    inputs: Sequence[GuardedArray],
    placement: Placement,
    beside: Function | None,
    addresses: Mapping[str, int],
) -> Prepared:
    """Load the kernels of a case, and return the first and a function that launches them all in order."""
    if case.variant.call:
        others = other_values(machine, case, inputs, addresses, placement) if is_prepared(case) else nullcontext()
        with others:
            return Prepared(Function(case.variant.name, None), machine.call(case, addresses))
    if placement.padding and not case.variant.takes_padding:
        raise BadCase(f"{case.id}: {case.variant.name} takes no padded rows: its arguments do not ask for `padding`")
    machine.accept(each.key for each in accepted_of(case.build))
    functions: list[Function] = []
    launches = []
    drawn = {array.name: array.shape for array in inputs} if case.family.draw else None
    for step in case.steps:
        symbol = symbol_of(image, case, step.entry)
        functions.append(machine.load(image, symbol, functions[0] if functions else beside))
        values = case.arguments(step, addresses, placement.padding, drawn)
        given = named_arguments(case, addresses, values, case.words(step))
        launches.append((functions[-1], placement.launch(step.launch), given))
    prepared = prepare_launches(machine, case, _kernels_of(case.build), launches, inputs, case.variant.symbols)
    if placement.grid_y < LARGEST_GRID_Y:
        return prepared
    folded = [
        f"grid      {step.launch.grid} has more than CUDA's {LARGEST_GRID_Y:,} blocks in y, so that the rest is in z, "
        f"as {launch.grid}: take blockIdx.z * gridDim.y + blockIdx.y for y, or let x count these blocks"
        for step, (_, launch, _) in zip(case.steps, launches, strict=True)
        if launch.grid != step.launch.grid
    ]
    return replace(prepared, notes=(*prepared.notes, *folded))


def _restorer(
    machine: Machine,
    case: Case,
    inputs: Sequence[GuardedArray],
    own: Mapping[str, GuardedArray],
    firsts: Mapping[str, int],
) -> Callable[[], None]:
    """Return a function that gives arrays their first values again: those changed in place, and others with some.

    ``firsts``: addresses of first values, by array, where a function of the declaration gives them. Raises
    BadCase where no word fills an array with its initial value.
    """
    uploaded = {array.name: array.address for array in inputs}
    starts: list[Callable[[], None]] = []
    for array in case.arrays:
        target = own.get(array.name)
        if target and array.role is Role.IN_OUT:
            starts.append(functools.partial(machine.copy, target.address, uploaded[array.name], target.nbytes))
        elif target and array.name in firsts:
            starts.append(functools.partial(machine.copy, target.address, firsts[array.name], array.nbytes))
        elif target and array.initial is not None:
            starts.append(functools.partial(machine.fill, target.address, target.nbytes, initial_word(array)))
    return in_order(starts)


def initial_word(array: CaseArray) -> int:
    """Return the word that fills an array with its initial value, which it has. Raises BadCase where none does."""
    assert isinstance(array.initial, int | float)
    word = word_of(array.initial, array.dtype)
    if word is None:
        raise BadCase(f"{array.name} {no_word(array.initial, array.dtype)}")
    return word


@contextmanager
def loaded_with(
    machine: Machine, case: Case, image: Path, inputs: Mapping[str, Array], placement: Placement = PLAIN
) -> Iterator[Loaded]:
    """Upload inputs and load a case, and free both at the end. Raises DeviceError or BadCase."""
    with ExitStack() as cleanup:
        guarded = upload(machine, case, inputs, placement)
        for array in guarded:
            cleanup.callback(array.free)
        loaded = load(machine, case, image, guarded, placement)
        cleanup.callback(machine.leave_call)
        cleanup.callback(loaded.free_own)
        yield loaded


def run_several(
    machine: Machine,
    case: Case,
    image: Path,
    draws: Sequence[Mapping[str, Array]],
    launches: int,
    placement: Placement = PLAIN,
) -> Iterator[Outcome]:
    """Launch a case several times, and yield the outcomes that are to be looked at.

    ``draws``: inputs, of which the first are used for so many ``launches`` and each of the others for one more. Of the
    launches on the first inputs, those are left out whose results are the same to the bit as those of the first
    launch. From the second launch on, results and guard bands hold other poison, and blocks run in another order where
    that costs nothing. Writes elsewhere are looked for after the first two launches, after the last one on the first
    inputs, and after those on others. Raises DeviceError or BadCase, which name the case.
    """
    with loaded_with(machine, case, image, draws[0], placement) as loaded:
        yield from _launch_all(loaded, draws, launches, placement)


def _launch_all(
    loaded: Loaded, draws: Sequence[Mapping[str, Array]], launches: int, placement: Placement
) -> Iterator[Outcome]:
    """Launch on all inputs in order, and yield the outcomes that are to be looked at, as ``run_several`` does."""
    results, last = launch_once(loaded), launches + len(draws) - 1
    known = _digests(loaded) if launches > 1 else []
    first = outcome = _outcome(loaded, results, draws[0], placement)
    yield first
    for number in range(2, last + 1):
        if outcome.damage:
            break  # what the next launches would show may come from that
        draw = max(0, number - launches)
        for array in loaded.inputs if draw else ():
            array.write(placement.spread(draws[draw][array.name]))
        loaded.take_inputs()
        if number == 2:
            loaded.clear(second=True)
        else:
            loaded.poison()
        another = loaded.machine.in_another_order(number - 1 if loaded.machine.finds_faults and not draw else 0)
        try:
            with another:
                results = _launch_again(loaded, first.results, [] if draw else known)
        except DeviceError as error:
            raise DeviceError(f"{error}\n  launch    {number} of {last}", error.lost) from None
        looks = number == 2 or number >= launches
        outcome = _outcome(loaded, results, draws[draw], placement, looks=looks)
        if draw or outcome.damage or not _are_equal(outcome.results, first.results):
            yield replace(outcome, launch=number, draw=draw)


def _outcome(
    loaded: Loaded, results: dict[str, Array], inputs: Mapping[str, Array], placement: Placement, looks: bool = True
) -> Outcome:
    """Return the results of a launch and, where it ``looks`` for them, the writes elsewhere."""
    harm: list[str] = []
    if looks:
        harm += damage(loaded, {name: placement.spread(array) for name, array in inputs.items()})
        harm += filter(None, [stray_work(loaded)])
    for declared in loaded.case.results:
        name, shape = declared.name, inputs[declared.name].shape if declared.is_input else declared.shape
        results[name], between = placement.gather(name, results[name], shape, loaded.own[name].word)
        harm += filter(None, [between])
    return Outcome(results=results, damage=tuple(harm), notes=(*loaded.notes, *loaded.machine.likely_causes()))


def _digests(loaded: Loaded) -> list[int]:
    """Return digests of large results, which are quicker than to read them; none where memory is the host's."""
    if loaded.machine.finds_faults or sum(array.nbytes for array in loaded.results) < DIGESTED_BYTES:
        return []
    return digests(loaded.machine, [(array.address, array.nbytes) for array in loaded.results])


def _launch_again(loaded: Loaded, first: Mapping[str, Array], known: Sequence[int]) -> dict[str, Array]:
    """Launch, wait, and return the results: the ``first`` ones, unread, where the digests are those that are known."""
    if not known:
        return launch_once(loaded)
    launch_and_wait(loaded)
    return dict(first) if _digests(loaded) == known else {array.name: array.read() for array in loaded.results}


def _are_equal(results: Mapping[str, Array], others: Mapping[str, Array]) -> bool:
    return all(np.array_equal(bytes_of(array), bytes_of(others[name])) for name, array in results.items())


def bytes_of(array: Array) -> Array:
    """Return the bytes of an array in the order of its elements."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def stray_work(loaded: Loaded) -> str:
    """Say how a call does not keep to its stream, so that its times would mean nothing; empty for kernels."""
    if not loaded.case.variant.call:
        return ""
    return loaded.machine.strays(loaded.start, loaded.results, in_order((loaded.restore, loaded.poison)))


def launch_and_wait(loaded: Loaded) -> None:
    """Launch, and return when the kernel has run. Raises DeviceError, which names the case."""
    with naming(loaded.case):
        try:
            loaded.restore()
            loaded.start()
            loaded.machine.finish()
        except DeviceError as error:
            cure = [COOPERATIVE] if NOT_COOPERATIVE in str(error) else []
            raise DeviceError("\n  ".join([str(error), *cure, *loaded.notes]), error.lost) from None


def launch_once(loaded: Loaded) -> dict[str, Array]:
    """Launch, wait, and read the whole results, or the lines that were printed."""
    case = loaded.case
    if not case.family.prints:
        launch_and_wait(loaded)
        return {array.name: array.read() for array in loaded.results}
    with captured_stdout() as printed:
        print(call(case.family.prints, case.given)[0], flush=True)  # the host's own line
        launch_and_wait(loaded)
    return {LINE: np.sort(np.array(printed))}


def damage(loaded: Loaded, inputs: Mapping[str, Array]) -> tuple[str, ...]:
    """Return a sentence for each write outside the arrays or into the inputs. ``inputs``: as uploaded."""
    harm = [array.overrun() for array in (*loaded.inputs, *loaded.own.values())]
    for array in loaded.inputs:
        if changed := np.count_nonzero(bytes_of(array.read()) != bytes_of(inputs[array.name])):
            harm.append(f"changed its operand {array.name}: {changed:,} bytes differ")
    return tuple(filter(None, harm))


def flush() -> None:
    """Write what this process and its kernels have printed and still is in buffers."""
    with suppress(OSError, ValueError):  # nobody reads it
        sys.stdout.flush()
    _libc.fflush(None)


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
            lines += file.read().decode(errors="replace").splitlines()
