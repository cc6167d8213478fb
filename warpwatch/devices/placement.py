"""How the arrays and the blocks of one launch are laid out, where that is not the plain way."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from warpwatch.catalogue.declaration import LARGEST_GRID_Y, Array, Launch, Shape
from warpwatch.devices.machine import OPERAND_POISON, POISON


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Says where the arrays of a launch start, how far apart their rows lie, and how its blocks are numbered.

    ``offsets``: elements that each array starts past the alignment of an allocation, operands first and the result
    last; those that are not named start there. ``padding``: elements between the end of a row and the start of the
    next, of every array with rows; for variants that have ``padded_arguments``. ``grid_y``: the largest gridDim.y to
    use. Blocks beyond it continue in z, as they must beyond CUDA's own limit, but with a small array.
    """

    offsets: tuple[int, ...] = ()
    padding: int = 0
    grid_y: int = LARGEST_GRID_Y

    def offset(self, index: int) -> int:
        """Return the offset of one array in elements."""
        return self.offsets[index] if index < len(self.offsets) else 0

    def launch(self, plain: Launch) -> Launch:
        """Return the launch with no more than ``grid_y`` rows of blocks in y; the blocks cover as much as before."""
        x, y, z = plain.grid
        if y <= self.grid_y:
            return plain
        deep = -(-y * z // self.grid_y)
        return replace(plain, grid=(x, -(-y * z // deep), deep))

    def room(self, shape: Shape) -> Shape:
        """Return the shape of the memory that an array of this shape takes."""
        return (*shape[:-1], shape[-1] + self.padding) if len(shape) > 1 else shape

    def spread(self, array: Array) -> Array:
        """Return an operand with its rows apart, and poison between them."""
        room = self.room(array.shape)
        if room == array.shape:
            return array
        words = room[-1] * array.dtype.itemsize // 4
        spread = np.full((*room[:-1], words), OPERAND_POISON, np.uint32).view(array.dtype)
        spread[..., : array.shape[-1]] = array
        return spread

    def gather(self, name: str, room: Array, shape: Shape) -> tuple[Array, str | None]:
        """Return a result without what lies between its rows, and in words what was written there, or None."""
        if room.shape == shape:
            return room, None
        between = np.ascontiguousarray(room[..., shape[-1] :]).view(np.uint32)
        wrong = int(np.count_nonzero(between != POISON)) * 4 // room.dtype.itemsize
        return room[..., : shape[-1]], f"wrote {wrong:,} element(s) between the rows of {name}" if wrong else None


PLAIN = Placement()
