"""Describes tensor maps: matrices of which the tensor memory accelerator (TMA) copies boxes (CUtensorMap of cuda.h).

The driver makes a map where its kernel is launched. Until then it is plain numbers, as other arguments are.
"""

from __future__ import annotations

import numpy as np

from warpwatch.catalogue.arrays import Shape
from warpwatch.catalogue.elements import numpy_type

# CUtensorMapDataType
ELEMENTS = {
    "uint8": 0, "uint16": 1, "uint32": 2, "int32": 3, "uint64": 4, "int64": 5, "float16": 6, "float32": 7,
    "float64": 8, "bfloat16": 9,
}  # fmt: skip
ALIGNED = 16  # bytes, of which addresses and rows are multiples
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # bytes -> CUtensorMapSwizzle
TENSOR_MAP = np.dtype(
    {
        "names": ["tensor_map", "columns", "rows", "row_bytes", "element", "box_columns", "box_rows", "swizzle"],
        "formats": ["u8", "u8", "u8", "u8", "i4", "i4", "i4", "i4"],
        "offsets": [0, 8, 16, 24, 32, 36, 40, 44],
        "itemsize": 128,
    }
)


def tensor_map(
    address: int, dtype: str, shape: Shape, *, box: Shape, row_bytes: int = 0, swizzle: int = 0
) -> np.generic:
    """Return an argument that the kernel takes as a ``const __grid_constant__ CUtensorMap``.

    Beyond the matrix, boxes have zeros.

    Parameters
    ----------
    address : int
        Of the matrix, a multiple of 16.
    dtype : str
        Type of its elements.
    shape, box : tuple of int
        Rows and columns of the matrix, and of the boxes that are copied.
    row_bytes : int
        From one row to the next, a multiple of 16; 0 for rows without gaps.
    swizzle : int
        Bytes of the pattern in which a box lies in shared memory: 0, 32, 64 or 128.

    Raises
    ------
    ValueError
        There are no maps of this type or swizzle, or of rows that begin off multiples of 16 bytes.
    """
    if dtype not in ELEMENTS:
        raise ValueError(f"a tensor map has no {dtype}: its types are {', '.join(ELEMENTS)}")
    if swizzle not in SWIZZLES:
        raise ValueError(f"the swizzle is {swizzle} bytes: it may be {', '.join(map(str, SWIZZLES))}")
    (rows, columns), (box_rows, box_columns) = shape, box
    pitch = row_bytes or columns * numpy_type(dtype).itemsize
    if pitch % ALIGNED:
        raise ValueError(
            f"rows of {pitch} bytes: TMA needs multiples of {ALIGNED}, so copy the matrix, or pad its rows"
        )
    values = (address, columns, rows, pitch, ELEMENTS[dtype], box_columns, box_rows, SWIZZLES[swizzle])
    described = np.zeros(1, TENSOR_MAP)
    described[0] = values
    return described[0]  # type: ignore[no-any-return]


def is_tensor_map(value: np.generic) -> bool:
    """Tell whether an argument is a tensor map that is still to be made; other revisions' arguments may be, too."""
    return value.dtype.names == TENSOR_MAP.names
