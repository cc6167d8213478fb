"""Inputs that differ in every launch, for calls that are not trusted: no result can be kept by the value of its inputs.

Small inputs, and those of a family's own ``draw``, are drawn anew for each launch. Of large ones, which take longer to
draw than to use, two draws lie in the GPU's memory. New inputs are put together of pieces of 32 bytes, each from a
place in either draw that a secret seed chooses: as random as before, and different in nearly every place. How often
each piece is there differs too, so that sums of earlier inputs are of no use.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from warpwatch.catalogue.arrays import Array
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.launches import Launch
from warpwatch.devices.compile.compiler import compile_file
from warpwatch.devices.foreign.secret_random import SEED_BITS, SecretRandom
from warpwatch.devices.gpu import Device
from warpwatch.devices.machine import Function, GuardedArray, NoFigure
from warpwatch.devices.references import drawn

PIECE = 32  # bytes, as in fresh_inputs.cu
STEP = 0x9E3779B97F4A7C15  # between the numbers that are mixed
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


def _chosen(draws: Sequence[Array], seed: int) -> Array:
    """Return the array that fresh_inputs.cu makes of two draws."""
    one = draws[0]
    pieces, whole = -(-one.nbytes // PIECE), one.nbytes // PIECE
    x = np.uint64(seed) + np.uint64(STEP) * np.arange(1, pieces + 1, dtype=np.uint64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    places = ((x >> np.uint64(1)) % np.uint64(max(1, whole))).astype(np.int64)
    is_other = (x & np.uint64(1)).astype(bool)
    rows = []
    for draw in draws:
        flat = np.ascontiguousarray(draw).reshape(-1).view(np.uint8)
        rows.append(np.resize(flat, PIECE * max(1, whole)).reshape(-1, PIECE))
    made = rows[0][places]
    made[is_other] = rows[1][places[is_other]]
    joined: Array = made.reshape(-1)[: one.nbytes].view(one.dtype).reshape(one.shape)
    return joined


class FreshInputs:
    """Makes inputs of a case, each with other bytes than all before."""

    def __init__(self, device: Device, case: Case, rng: SecretRandom) -> None:
        """Draw what inputs are made of. Raises DeviceError, BadCase or NoFigure."""
        self._device, self._case, self._rng = device, case, rng
        self._draws: list[Mapping[str, Array]] = []
        self._sources: list[dict[str, GuardedArray]] = []
        if not case.inputs:
            raise NoFigure(f"{case.id}: without inputs, a result of an earlier launch cannot be told from a new one")
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
        chosen = {name: self._rng.getrandbits(SEED_BITS) for name in self._sources[0]}
        for name, seed in chosen.items():
            one, other = (source[name] for source in self._sources)
            addresses = (np.uint64(each) for each in (arrays[name].address, one.address, other.address))
            self._device.launcher(_loaded(self._device), WHOLE, (*addresses, np.uint64(one.nbytes), np.uint64(seed)))()
        return Recipe(chosen=chosen)

    def host(self, recipe: Recipe) -> Mapping[str, Array]:
        """Return the inputs of a recipe in the host's memory."""
        if recipe.chosen is None:
            return self._drawn(recipe.seed)
        return {name: _chosen([draw[name] for draw in self._draws], seed) for name, seed in recipe.chosen.items()}

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
