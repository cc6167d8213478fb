"""Describes texture and surface objects of declared arrays: of their memory, or of CUDA arrays with copies of them.

PyCUDA has texture references alone, which CUDA 12 took out of the language. So the driver makes an object where its
kernel is launched (devices/driver_calls.py). Until then it is plain numbers, as other arguments are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warpwatch.catalogue.arrays import Shape
from warpwatch.catalogue.elements import numpy_type

# CUarray_format, CUfilter_mode and CUaddress_mode of cuda.h
FORMATS = {
    "uint8": 1, "uint16": 2, "uint32": 3, "int8": 8, "int16": 9, "int32": 10, "float16": 16, "float32": 32,
}  # fmt: skip
FILTERS = {"point": 0, "linear": 1}
BEYOND = {"wrap": 0, "clamp": 1, "mirror": 2, "border": 3}
READ_AS_INTEGER, NORMALIZED = 1, 2  # CU_TRSF_*
OF_MEMORY, OF_CUDA_ARRAY, SURFACE = range(3)  # what is made
ALIGNED, PITCH = 512, 32  # bytes, of which addresses and rows are multiples (an H100 with driver 580)
EXTENTS = ("texture", "width", "height", "depth", "row_bytes")  # the first is an address
CHOICES = ("format", "channels", "filter", "beyond", "flags", "kind")
TEXTURE = np.dtype([*((name, "u8") for name in EXTENTS), *((name, "i4") for name in CHOICES)])
OBJECT = np.dtype("u8")  # which a kernel takes in its place


def texture(
    address: int,
    dtype: str,
    shape: Shape,
    *,
    channels: int = 1,
    row_bytes: int = 0,
    filter: str = "point",  # the guide's word
    beyond: str = "clamp",
    normalized: bool = False,
    as_float: bool = False,
    cuda_array: bool = False,
) -> np.generic:
    """Return an argument that the kernel takes as a ``cudaTextureObject_t``.

    ``address``: a multiple of 512, of an array that is declared with ``aligned=512``; ``dtype``: of its numbers.
    ``shape``: ``(n,)`` texels for ``tex1Dfetch``, rows and texels of a row for ``tex2D``. ``channels``: numbers of
    a texel: 1, 2, or 4 for ``float4``. ``row_bytes``: from one row of a matrix to the next, a multiple of 32; 0 for
    rows without gaps.
    ``filter``: "point" or "linear". ``beyond``: what coordinates outside give: "clamp", "border" (zeros), or, if they
    are ``normalized`` to shares of the extents, "wrap" or "mirror". ``as_float``: integers of 8 and 16 bits are read as
    numbers from 0 or -1 to 1. ``cuda_array``: it is of a CUDA array, to which the declared one is copied before each
    launch, outside its time: of one axis for ``tex1D``, two, or three for ``tex3D``, at any address.

    Raises ValueError where there are no textures of this type, or of an array that lies so.
    """
    for value, known, what in ((dtype, FORMATS, "type"), (filter, FILTERS, "filter"), (beyond, BEYOND, "beyond")):
        if value not in known:
            raise ValueError(f"a texture has no {what} {value!r}: it may be {', '.join(known)}")
    _check_shape(shape, channels, 3 if cuda_array else 2)
    depth, height, width = (0, 0, *shape)[-3:]
    row = width * channels * numpy_type(dtype).itemsize
    pitch = row_bytes or row
    _check_layout(address, height, pitch, row, cuda_array=cuda_array)
    _check_coordinates(filter, beyond, normalized=normalized, whole=not (height or cuda_array))
    _check_integers(dtype, filter, as_float=as_float)
    flags = READ_AS_INTEGER * (dtype[0] != "f" and not as_float) + NORMALIZED * bool(normalized)
    choices = (FORMATS[dtype], channels, FILTERS[filter], BEYOND[beyond], flags, OF_CUDA_ARRAY * bool(cuda_array))
    values = (address, width, height, depth, pitch, *choices)
    return np.array([values], TEXTURE)[0]  # type: ignore[no-any-return]


def surface(address: int, dtype: str, shape: Shape, *, channels: int = 1, row_bytes: int = 0) -> np.generic:
    """Return an argument that the kernel takes as a ``cudaSurfaceObject_t``, which it reads and writes.

    It is of a CUDA array, to which the declared array at ``address`` is copied before each launch, and from which it is
    copied back behind it, both outside the launch's time. ``shape``: ``(n,)`` elements for ``surf1Dread``, rows and
    elements of a row for ``surf2Dread``, or slices, rows and elements for ``surf3Dread``. ``dtype``, ``channels`` and
    ``row_bytes``: as for ``texture``. Kernels give x in bytes.

    Raises ValueError where there are no surfaces of this type, or of an array that lies so.
    """
    described: Any = texture(address, dtype, shape, channels=channels, row_bytes=row_bytes, cuda_array=True)
    described["kind"] = SURFACE
    return described  # type: ignore[no-any-return]


def _check_shape(shape: Shape, channels: int, most: int) -> None:
    """Raise ValueError where no texture has this shape. ``most``: axes."""
    axes = len(shape) if isinstance(shape, tuple | list) else 0
    if channels not in (1, 2, 4) or not 1 <= axes <= most:
        raise ValueError(
            f"a texture has 1 {'to 3' if most > 2 else 'or 2'} axes, and 1, 2 or 4 channels, not {shape} and {channels}"
            + ("; those of 3 need cuda_array=True" if axes == 3 > most else "")
        )
    if any(not isinstance(size, int | np.integer) or size < 1 for size in shape):
        raise ValueError(f"a texture of {shape}: its shape has whole numbers from 1 on")


def _check_coordinates(filter: str, beyond: str, *, normalized: bool, whole: bool) -> None:
    """Raise ValueError where coordinates do not give what is asked for. ``whole``: they are those of tex1Dfetch."""
    if whole and (filter, beyond, normalized) != ("point", "clamp", False):
        raise ValueError("tex1Dfetch takes whole coordinates alone: filter, beyond and normalized are of matrices")
    if beyond in ("wrap", "mirror") and not normalized:
        raise ValueError(f"beyond={beyond!r} needs normalized=True: other coordinates are clamped")


def _check_integers(dtype: str, filter: str, *, as_float: bool) -> None:
    """Raise ValueError where integers are to be read as they cannot be."""
    is_float = dtype[0] == "f"
    if as_float and not is_float and numpy_type(dtype).itemsize > 2:
        raise ValueError(f"as_float is of integers of 8 and 16 bits alone, not of {dtype}")
    if filter == "linear" and not (is_float or as_float):
        raise ValueError("integers are not filtered, but for those of 8 and 16 bits with as_float=True")


def _check_layout(address: int, height: int, pitch: int, row: int, *, cuda_array: bool) -> None:
    """Raise ValueError where no texture can be made of an array that lies so. ``pitch``, ``row``: bytes."""
    aligned, multiples = (1, 1) if cuda_array else (ALIGNED, PITCH)
    if not isinstance(address, int | np.integer) or address < 0 or address % aligned:
        raise ValueError(f"address {address}: a texture needs multiples of {ALIGNED}, so declare aligned={ALIGNED}")
    if not height and pitch != row:
        raise ValueError("row_bytes is of matrices: the texels of tex1Dfetch lie one behind the other")
    if height and (pitch % multiples or pitch < row):
        hold = f"multiples of {PITCH} that hold a row, so pad them" if multiples > 1 else f"{row} at least"
        raise ValueError(f"rows of {pitch} bytes: a texture needs {hold}")


def is_surface(value: Any) -> bool:
    """Tell whether an argument that ``is_texture`` is a surface."""
    return bool(value["kind"] == SURFACE)


def is_texture(value: np.generic) -> bool:
    """Tell whether an argument is a texture or surface that is still to be made, also of another revision."""
    return value.dtype == TEXTURE


def taken(value: np.generic) -> np.generic:
    """Return a value of the type that a kernel takes in the place of an argument."""
    return OBJECT.type(0) if is_texture(value) else value
