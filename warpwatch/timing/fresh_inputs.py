"""Inputs that differ in every launch, for calls that are not trusted: no result can be kept by the value of its inputs.

Small inputs, and those of a family's own ``draw``, are drawn anew for each launch. Of large ones, which take longer to
draw than to use, two draws lie in the GPU's memory: the end of one and the begin of another make new inputs, whose
elements are as random as before, and differ in nearly every place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from warpwatch.catalogue.arrays import Array
from warpwatch.catalogue.cases import Case
from warpwatch.devices.foreign.secret_random import SEED_BITS, SecretRandom
from warpwatch.devices.gpu import Device
from warpwatch.devices.machine import GuardedArray, NoFigure
from warpwatch.devices.references import drawn

DRAWN_BYTES = 2**20  # of all inputs: more are put together on the GPU
TRIES = 8  # draws until one has the case's shapes


@dataclass(frozen=True)
class Recipe:
    """Origin of inputs: a seed, or for each array the number of the draw that it begins with, and where that is cut."""

    seed: int = 0
    cuts: Mapping[str, tuple[int, int]] | None = None


class FreshInputs:
    """Makes inputs of a case, each with other bytes than all before."""

    def __init__(self, device: Device, case: Case, rng: SecretRandom) -> None:
        """Draw what inputs are made of. Raises DeviceError, BadCase or NoFigure."""
        self._device, self._case, self._rng = device, case, rng
        self._draws: list[Mapping[str, Array]] = []
        self._sources: list[dict[str, GuardedArray]] = []
        if not case.inputs:
            raise NoFigure(f"{case.id}: it has no inputs, so that its results may be kept from launch to launch")
        if not case.family.draw and sum(array.nbytes for array in case.inputs) > DRAWN_BYTES:
            self._draws = [self._drawn(self._rng.getrandbits(SEED_BITS)) for _ in range(2)]
            for draw in self._draws:
                self._sources.append({})
                for name, values in draw.items():
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
        cuts = {
            name: (self._rng.randrange(2), self._rng.randrange(max(1, array.nbytes // array.dtype.itemsize)))
            for name, array in self._sources[0].items()
        }
        for name, (first, cut) in cuts.items():
            begin, end = (self._sources[which][name] for which in (first, 1 - first))
            skipped, to = cut * begin.dtype.itemsize, arrays[name].address
            self._device.copy(to, begin.address + skipped, begin.nbytes - skipped)
            if skipped:
                self._device.copy(to + begin.nbytes - skipped, end.address, skipped)
        return Recipe(cuts=cuts)

    def host(self, recipe: Recipe) -> Mapping[str, Array]:
        """Return the inputs of a recipe in the host's memory."""
        if recipe.cuts is None:
            return self._drawn(recipe.seed)
        joined: dict[str, Array] = {}
        for name, (first, cut) in recipe.cuts.items():
            begin, end = (self._draws[which][name].reshape(-1) for which in (first, 1 - first))
            joined[name] = np.concatenate([begin[cut:], end[:cut]]).reshape(self._draws[0][name].shape)
        return joined

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
