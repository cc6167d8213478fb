"""Lays out the arrays and blocks of one launch in unusual ways, for tests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from warpwatch.catalogue.arrays import Array, CaseArray, Shape
from warpwatch.catalogue.declaration import LARGEST_GRID_Y
from warpwatch.catalogue.elements import numpy_type
from warpwatch.catalogue.launches import Launch
from warpwatch.devices.machine import poison_of, repeated


def poisoned(shape: Shape, dtype: np.dtype[Any], operand: bool = False) -> Array:
    """Return an array that is filled with poison."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return repeated(poison_of(dtype.itemsize, operand), size).view(dtype).reshape(shape)


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Start addresses of the arrays of a launch, the distance of their rows, and the numbering of its blocks.

    ``offsets``: elements that each array starts past the alignment of an allocation, in the order of the declaration;
    arrays that are not named start at the alignment, and those that demand another one keep it. ``padding``: elements
    between the end of a row and the start of the next, of every array with rows; for variants that ``takes_padding``.
    ``grid_y``: the largest gridDim.y to use; blocks beyond it continue in z. This tests on small arrays what happens
    beyond CUDA's own limit.
    """

    offsets: tuple[int, ...] = ()
    padding: int = 0
    grid_y: int = LARGEST_GRID_Y

    def offset(self, index: int, array: CaseArray) -> int:
        """Return the offset of the array of that number, in elements."""
        given = self.offsets[index] if index < len(self.offsets) else 0
        whole = max(1, array.aligned // numpy_type(array.dtype).itemsize)
        return -(-given // whole) * whole

    def launch(self, plain: Launch) -> Launch:
        """Return the launch with no more than ``grid_y`` rows of blocks in y; the blocks cover as much as before."""
        x, y, z = plain.grid
        if y <= self.grid_y:
            return plain
        deep = -(-y * z // self.grid_y)
        return replace(plain, grid=(x, -(-y * z // deep), deep))

    def padded_shape(self, shape: Shape) -> Shape:
        """Return the shape of an array with the padding of its rows."""
        return (*shape[:-1], shape[-1] + self.padding) if len(shape) > 1 else shape

    def spread(self, array: Array) -> Array:
        """Return an operand with poison as the padding of its rows."""
        padded = self.padded_shape(array.shape)
        if padded == array.shape:
            return array
        spread = poisoned(padded, array.dtype, operand=True)
        spread[..., : array.shape[-1]] = array
        return spread

    def gather(self, name: str, padded: Array, shape: Shape, word: int) -> tuple[Array, str | None]:
        """Return a result without the padding of its rows, and a sentence on writes to the padding, or None.

        ``word``: the poison that the padding held before the launch.
        """
        if padded.shape == shape:
            return padded, None
        between = np.ascontiguousarray(padded[..., shape[-1] :])
        bytes_of_each = between.view(np.uint8).reshape(-1, padded.dtype.itemsize)
        unharmed = repeated(word, bytes_of_each.size).reshape(bytes_of_each.shape)
        wrong = int(np.count_nonzero((bytes_of_each != unharmed).any(axis=1)))
        return padded[..., : shape[-1]], f"wrote {wrong:,} element(s) between the rows of {name}" if wrong else None


PLAIN = Placement()
