"""Times a case on data that its declaration does not draw, where --data asks for it: do they change its time?

Branches, atomic operations on one address, caches, subnormal numbers and the power that a multiplication draws depend
on values. The other data lie in the same memory as the declared ones and are timed in turns with them, so that nothing
else differs. Their results are not compared: tests draw some of these kinds (catalogue/draws.py). Nothing of this is
part of a case's samples or of a verdict.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import ClassVar

import numpy as np

from warpwatch.catalogue.arrays import Array, CaseArray
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.elements import is_float, smallest_normal, wide
from warpwatch.devices.machine import DeviceError, GuardedArray, in_order
from warpwatch.devices.runner import Loaded
from warpwatch.devices.worker import gpu
from warpwatch.timing.observers.observer import Facts, Observer
from warpwatch.timing.timer import GpuTimer
from warpwatch.verdict.other_data import TURNS, DataEffect

BLOCK = 4  # samples in a row
SPARSE = 0.1  # of the elements, which stay as they are drawn


def _zeros(values: Array, array: CaseArray) -> Array | None:
    return np.zeros_like(values) if _may_be_zero(array) else None


def _one_value(values: Array, array: CaseArray) -> Array | None:
    return np.full_like(values, values.flat[0])


def _sorted(values: Array, array: CaseArray) -> Array | None:
    return np.sort(values, axis=None).reshape(values.shape)


def _sparse(values: Array, array: CaseArray) -> Array | None:
    if not _may_be_zero(array):
        return None
    kept = np.random.default_rng(0).random(values.shape, np.float32) < SPARSE
    return np.where(kept, values, values.dtype.type(0))


def _subnormal(values: Array, array: CaseArray) -> Array | None:
    if not _may_be_zero(array) or not is_float(values.dtype):
        return None
    exact = values.astype(wide(values.dtype))
    made: Array = (exact * (smallest_normal(values.dtype) / 2 / max(np.abs(exact).max(), 1.0))).astype(values.dtype)
    return made


def _may_be_zero(array: CaseArray) -> bool:
    return (array.low is None or array.low <= 0) and (array.high is None or array.high > 0)


# Makes values of an array out of those that its declaration draws; None where the declaration rules them out.
KINDS: Mapping[str, Callable[[Array, CaseArray], Array | None]] = {
    "zeros": _zeros,
    "one value": _one_value,
    "sorted values": _sorted,
    "sparse values": _sparse,
    "subnormal values": _subnormal,
}


class Data(Observer):
    """Times a case on data of KINDS where --data asks for it, after the samples of a case."""

    option: ClassVar = "data"
    units: ClassVar = {"data": ""}
    missing: ClassVar = "its test failed before, its declaration allows none of them, or memory has no room"

    def leaves_out(self, case: Case) -> str:
        if case.variant.on_host:
            return "it runs on the host"
        if case.family.draw:
            return "its inputs are drawn by a `draw` of its own, which alone knows what they may be"
        if not case.inputs:
            return "it has no inputs"
        return "its launches print" if case.family.prints else ""

    def launch(self, copies: Sequence[Loaded]) -> Facts:
        loaded = copies[0]
        if gpu().free_memory < 2 * sum(array.nbytes for array in loaded.inputs):
            return {}
        declared = [array.read() for array in loaded.inputs]
        effects = {name: self._effect(loaded, declared, name) for name in KINDS}
        timed = {name: asdict(effect) for name, effect in effects.items() if effect}
        return {"data": timed} if timed else {}

    def _effect(self, loaded: Loaded, declared: Sequence[Array], name: str) -> DataEffect | None:
        """Time a case on one kind of data. None where the declared data are of that kind, or rule it out."""
        arrays = {array.name: array for array in loaded.case.inputs}
        made = [KINDS[name](values, arrays[array.name]) for array, values in zip(loaded.inputs, declared, strict=True)]
        others = [values if other is None else other for values, other in zip(declared, made, strict=True)]
        if all(map(np.array_equal, declared, others)):
            return None
        try:
            with self._exchanging(loaded, others) as exchange:
                return DataEffect.of([self._turn(loaded, exchange) for _ in range(TURNS)])
        except DeviceError as error:
            raise DeviceError(f"{loaded.case.id}: on {name} (--data): {error}", error.lost) from None

    def _turn(self, loaded: Loaded, exchange: Callable[[], None]) -> float:
        """Sample the declared data, twice the others, and the declared ones; return the logarithm of the ratio."""
        first = self._samples(loaded)
        exchange()
        others = self._samples(loaded) + self._samples(loaded)
        exchange()
        return math.log(statistics.median(others) / statistics.median(first + self._samples(loaded)))

    def _samples(self, loaded: Loaded) -> list[float]:
        restore = in_order((loaded.poison, loaded.restore))
        return [self._timer.sample(loaded.start, restore) for _ in range(BLOCK)]

    @functools.cached_property
    def _timer(self) -> GpuTimer:
        return GpuTimer(gpu(), cold=True)

    @contextmanager
    def _exchanging(self, loaded: Loaded, values: Sequence[Array]) -> Iterator[Callable[[], None]]:
        """Upload other values, and yield a function that exchanges a case's inputs with them; twice is as before."""
        others = list[GuardedArray]()
        try:
            for array, other in zip(loaded.inputs, values, strict=True):
                others.append(GuardedArray(loaded.machine, array.name, array.shape, array.dtype.name))
                others[-1].write(other)

            def exchange() -> None:
                for array, other in zip(loaded.inputs, others, strict=True):
                    self._timer.swap(array, other)
                loaded.take_inputs()

            yield exchange
        finally:
            for there in others:
                there.free()
