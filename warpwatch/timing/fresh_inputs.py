"""Inputs that differ in every launch, for calls that are not trusted: no result can be kept by the value of its inputs.

Small inputs, and those of a family's own ``draw``, are drawn anew for each launch. For large ones, which take longer to
draw than to use, two draws of at most BASE_ELEMENTS elements lie in the GPU's memory. New inputs are put together of
pieces of 32 bytes, each from a place in either draw that a secret seed chooses: as random as before, and different in
nearly every place. How often each piece is there differs too, so that sums of earlier inputs are of no use. For the
reference they are made once more, in memory that no other process has.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from warpwatch.catalogue.arrays import Array, CaseArray
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.declaration import seeds
from warpwatch.catalogue.elements import numpy_type
from warpwatch.catalogue.inputs import usual
from warpwatch.catalogue.launches import Launch
from warpwatch.devices.compile.compiler import compile_file
from warpwatch.devices.foreign.secret_random import SEED_BITS, SecretRandom
from warpwatch.devices.foreign.shared_arrays import empty
from warpwatch.devices.gpu import Device
from warpwatch.devices.machine import Function, GuardedArray, NoFigure
from warpwatch.devices.references import drawn

PIECE = 32  # bytes, as in fresh_inputs.cu
BASE_ELEMENTS = 2**22
WHOLE = Launch((1024, 1, 1), (256, 1, 1))
DRAWN_BYTES = 2**20  # of all inputs: more are put together on the GPU
TRIES = 8  # draws until one has the case's shapes


@dataclass(frozen=True)
class Recipe:
    """Origin of inputs: a seed, or for each array one by which pieces of two draws are chosen."""

    seed: int = 0
    chosen: Mapping[str, int] | None = None


@functools.lru_cache(maxsize=1)
def _loaded(device: Device) -> Function:
    """Return the kernel of fresh_inputs.cu."""
    image = compile_file(Path(__file__).with_name("fresh_inputs.cu"), {}, device.info.timing_target)
    return device.load(image.path, "choose")


def _draw(case: Case, seed: int) -> dict[str, Array]:
    """Draw of each input what pieces are taken from: as many elements as it has, or BASE_ELEMENTS."""
    draws = {}
    for array, stream in zip(case.inputs, seeds(seed, case.shape).spawn(len(case.inputs)), strict=True):
        draws[array.name] = np.empty(min(array.size, BASE_ELEMENTS), numpy_type(array.dtype))
        usual(np.random.default_rng(stream), draws[array.name], array)
    return draws


class FreshInputs:
    """Makes inputs of a case, each with other bytes than all before."""

    def __init__(self, device: Device, case: Case, rng: SecretRandom) -> None:
        """Draw what inputs are made of. Raises DeviceError, BadCase or NoFigure."""
        self._device, self._case, self._rng = device, case, rng
        self._sources: list[dict[str, GuardedArray]] = []
        if not case.inputs:
            raise NoFigure(f"{case.id}: without inputs, a result of an earlier launch cannot be told from a new one")
        if not case.family.draw and sum(array.nbytes for array in case.inputs) > DRAWN_BYTES:
            for _ in range(2):
                self._sources.append({})
                for name, values in _draw(case, self._rng.getrandbits(SEED_BITS)).items():
                    array = GuardedArray(device, name, values.shape, str(values.dtype), operand=True, filled=False)
                    self._sources[-1][name] = array
                    array.set(values)

    def write(self, arrays: Mapping[str, GuardedArray]) -> Recipe:
        """Write new inputs into arrays by name, and return what they are made of."""
        if not self._sources:
            recipe = self._seed()
            for name, values in self.host(recipe).items():
                arrays[name].write(values)
            return recipe
        chosen = {name: self._rng.getrandbits(SEED_BITS) for name in self._sources[0]}
        for name, seed in chosen.items():
            self._choose(arrays[name], seed)
        return Recipe(chosen=chosen)

    def _choose(self, array: GuardedArray, seed: int) -> None:
        """Put an array together of pieces of both draws."""
        one, other = (source[array.name] for source in self._sources)
        numbers = (array.address, one.address, other.address, array.nbytes, one.nbytes, seed)
        self._device.launcher(_loaded(self._device), WHOLE, tuple(map(np.uint64, numbers)))()

    def host(self, recipe: Recipe) -> Mapping[str, Array]:
        """Return the inputs of a recipe in the host's memory."""
        if recipe.chosen is None:
            return self._drawn(recipe.seed)
        return {array.name: self._read(array, recipe.chosen[array.name]) for array in self._case.inputs}

    def _read(self, array: CaseArray, seed: int) -> Array:
        """Return an input of a large recipe."""
        own = GuardedArray(self._device, array.name, array.shape, array.dtype, filled=False)
        try:
            self._choose(own, seed)
            values = empty(own.shape, own.dtype)
            self._device.read(own.address, values)
            return values
        finally:
            own.free()

    def free(self) -> None:
        """Give the memory of the GPU back."""
        for array in (array for source in self._sources for array in source.values()):
            array.free()
        self._sources = []

    def _seed(self) -> Recipe:
        """Choose a seed whose inputs have the case's shapes; a family's own ``draw`` may return others."""
        if not self._case.family.draw:
            return Recipe(seed=self._rng.getrandbits(SEED_BITS))
        wanted = {array.name: array.shape for array in self._case.inputs}
        for _ in range(TRIES):
            seed = self._rng.getrandbits(SEED_BITS)
            if {name: values.shape for name, values in self._drawn(seed).items()} == wanted:
                return Recipe(seed=seed)
        raise NoFigure(f"{self._case.id}: draw returns inputs of other shapes for {TRIES} seeds: let it keep to shapes")

    def _drawn(self, seed: int) -> Mapping[str, Array]:
        return drawn(self._case, seed)
