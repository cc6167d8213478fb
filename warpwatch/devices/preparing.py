"""Lets `prepare=` of a call see other inputs than the call will have, so that it can only prepare.

What it computes from values is of inputs that nobody asks for, and so wrong. It may look at shapes, types and
addresses, and at what holds for all inputs that the declaration allows, such as their order or range.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from warpwatch.catalogue.arrays import ALL_ROWS, Array
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.elements import numpy_type
from warpwatch.catalogue.inputs import usual
from warpwatch.catalogue.variants import Deferred
from warpwatch.devices.machine import DeviceError, GuardedArray, Machine
from warpwatch.devices.mismatch import compare_all
from warpwatch.devices.placement import Placement
from warpwatch.devices.references import drawn, expected

SEED = 977_173  # of what `prepare` sees, and nothing else
MOST_KEPT = 2**26  # bytes of them, for the next copy of a case's arrays
PIECE = 2**20  # elements of an array that are drawn, and repeated where it is longer
NOTE = "prepare   its result is that of the inputs that `prepare` saw: prepare may only prepare, and read no values"


def is_prepared(case: Case) -> bool:
    return case.variant.call is not None and not isinstance(case.variant.call.prepare, Deferred)


@functools.lru_cache(maxsize=1)  # each copy of a case's arrays asks
def _drawn(case: Case) -> Mapping[str, Array]:
    """Draw the inputs that `prepare` sees: of large arrays a piece, unless the family draws them by itself."""
    if case.family.draw:
        return drawn(case, SEED)
    pieces, rng = dict[str, Array](), np.random.default_rng([SEED, *case.shape])
    for array in case.inputs:
        pieces[array.name] = np.empty(min(array.size, PIECE), numpy_type(array.dtype))
        usual(rng, pieces[array.name], array)
    return pieces


@contextlib.contextmanager
def other_values(
    machine: Machine,
    case: Case,
    inputs: Sequence[GuardedArray],
    addresses: Mapping[str, int],
    placement: Placement,
) -> Iterator[None]:
    """Give the inputs of a call other values while it is prepared, and then their own again.

    ``addresses``: of the arrays that the call is given; those that it changes in place hold the same values.
    """
    values = _drawn(case)
    shapes = {array.name: array.shape for array in inputs}
    if case.family.draw and any(placement.spread(values[name]).shape != shape for name, shape in shapes.items()):
        yield  # as many as the family drew this time fit nowhere
        return
    with contextlib.ExitStack() as restoring:
        for array in inputs:
            restoring.callback(_saved(array))
            _fill(array, placement.spread(values[array.name]) if case.family.draw else values[array.name])
            if addresses[array.name] != array.address:  # it is changed in place, and given as a copy
                machine.copy(addresses[array.name], array.address, array.nbytes)
        machine.finish()
        if sum(array.nbytes for array in values.values()) > MOST_KEPT:
            _drawn.cache_clear()
        yield


def _saved(array: GuardedArray) -> Callable[[], None]:
    """Return a function that gives an array the values that it has now. They are kept on the device if they fit."""
    machine = array.machine
    try:
        spare = machine.allocate(array.nbytes)
    except DeviceError as error:
        if error.lost:
            raise
        return functools.partial(array.write, array.read())
    machine.copy(spare, array.address, array.nbytes)

    def restore() -> None:
        machine.copy(array.address, spare, array.nbytes)
        machine.finish()
        machine.free(spare)

    return restore


def _fill(array: GuardedArray, values: Array) -> None:
    """Write values, again and again where they are fewer than the array has elements."""
    array.write(values)
    done = values.nbytes
    while done < array.nbytes:
        size = min(done, array.nbytes - done)
        array.machine.copy(array.address + done, array.address, size)
        done += size


def note_on(case: Case, results: Mapping[str, Array], rows: Array | None = None) -> str:
    """Say that wrong results are those of the values that `prepare` saw; empty where they are not.

    ``rows``: the rows that the results are, None for all.
    """
    if not is_prepared(case) or case.family.prints:
        return ""
    values = _drawn(case)
    inputs = values
    if not case.family.draw:
        inputs = {array.name: np.resize(values[array.name], array.shape) for array in case.inputs}
    try:
        right = expected(case, inputs, ALL_ROWS if rows is None else rows)
        is_theirs = not compare_all(results, right, rows)
    except Exception:  # of a reference that these inputs are not made for; the result is wrong all the same
        return ""
    return NOTE if is_theirs else ""
