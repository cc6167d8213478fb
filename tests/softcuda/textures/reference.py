"""Computes what a texture gives at coordinates, in NumPy, from CUDA's guide and what was measured on an H100.

Written from the formulas and not from softcuda's source: whole arrays at once, with sums in long double.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tests.softcuda.textures.objects import BORDER, CLAMP, MIRROR, NORMALIZED, READ_AS_INTEGER, WRAP, Texture

Array = Any  # NumPy's arrays, of types that arithmetic chooses


def fetched(texture: Texture, coordinates: Array) -> Array:
    """Values at coordinates of the shape (3, n), of which a texture of fewer dimensions takes the first: (n, channels).

    float32; or of the texture's own type, where it is read as integers.
    """
    values = texture.values if texture.values.ndim > 2 else texture.values[None]  # a line is a plane of one row
    extents = values.shape[-2::-1]
    if texture.values.ndim == 2:
        coordinates = np.stack([coordinates[0], np.zeros_like(coordinates[0])])
    axes = [axis(texture, i, coordinates[i], extents[i]) for i in range(len(extents))]
    weights = corner_weights([each[2] for each in axes])
    total = np.zeros((coordinates.shape[1], values.shape[-1]), np.longdouble)
    for corner in itertools.product((0, 1), repeat=len(extents)):
        places = [each[0] + second for each, second in zip(axes, corner, strict=True)]
        places = [address(place, n, each[1]) for place, n, each in zip(places, extents, axes, strict=True)]
        inside = np.all([(place >= 0) & (place < n) for place, n in zip(places, extents, strict=True)], axis=0)
        index = tuple(np.clip(place, 0, n - 1) for place, n in zip(places, extents, strict=True))[::-1]
        texels = components(texture, values[index])
        edge = np.asarray(texture.border, np.longdouble)[: values.shape[-1]]
        if values.dtype.kind != "f":
            edge = edge * 0  # tests give integers a black border
        total += weights[corner][:, None] * np.where(inside[:, None], texels, edge)
    return finished(texture, total)


def axis(texture: Texture, number: int, coordinate: Array, extent: int) -> tuple[Array, int, Array]:
    """The first of two texels along an axis, the address mode, and the weight of the second in 256ths."""
    mode, normalized = texture.modes[number], texture.flags & NORMALIZED
    if not normalized and mode in (WRAP, MIRROR):
        mode = CLAMP
    place = np.clip(coordinate.astype(np.float32).astype(np.float64), -1e12, 1e12)
    if normalized:
        steps = 2**22 if extent > 8192 else 2**21
        place = np.floor(place * steps) / steps * extent
    if not texture.linear:
        return np.floor(place).astype(int), mode, np.zeros(len(place), int)
    fixed = np.floor(place * 256 + 0.5).astype(int) - 128
    if mode == CLAMP:
        fixed = np.clip(fixed, 0, 256 * (extent - 1))
    return fixed // 256, mode, fixed % 256


def address(place: Array, extent: int, mode: int) -> Array:
    if mode == WRAP:
        return place % extent
    if mode == MIRROR:
        folded = place % (2 * extent)
        return np.minimum(folded, 2 * extent - 1 - folded)
    return place if mode == BORDER else np.clip(place, 0, extent - 1)


def share(whole: Array, of_256: Array) -> Array:
    return (whole * of_256 + 128) // 256


def corner_weights(alphas: list[Array]) -> dict[tuple[int, ...], Array]:
    """The weight of each corner in 256ths, by which side of each axis it is on: 256 together."""
    x, last = alphas[0], alphas[-1]
    both = share(x, last)
    plane: dict[tuple[int, ...], Array] = {
        (1, 1): both,
        (1, 0): x - both,
        (0, 1): last - both,
        (0, 0): 256 - x - last + both,
    }
    if len(alphas) == 2:
        return plane
    volume: dict[tuple[int, ...], Array] = {}
    for (i, k), weight in plane.items():
        upper = share(weight, alphas[1]) if i else weight - share(weight, 256 - alphas[1])
        volume[i, 1, k], volume[i, 0, k] = upper, weight - upper
    return volume


def is_integer(texture: Texture) -> bool:
    kind = texture.values.dtype
    return kind.kind != "f" and (bool(texture.flags & READ_AS_INTEGER) or kind.itemsize == 4)


def components(texture: Texture, texels: Array) -> Array:
    """Texels as they are summed: of normalised integers, what is not below the least that there is."""
    kind = texels.dtype
    if kind.kind == "i" and not is_integer(texture):
        texels = np.maximum(texels, -np.iinfo(kind).max)
    return texels.astype(np.longdouble)


def finished(texture: Texture, total: Array) -> Array:
    """The sum of 256ths as the texture's reading gives it."""
    kind = texture.values.dtype
    if is_integer(texture):
        return (total / 256).astype(kind)
    if kind.kind == "f":
        return rounded(total / 256, np.float16 if kind == np.float16 else np.float32).astype(np.float32)
    most = np.iinfo(kind).max
    if not texture.linear:
        return (total / 256 / most).astype(np.float32)
    steps = 65535 if kind.kind == "u" else 32767
    if kind == np.int8:
        return (np.sign(total) * np.floor(np.abs(total) * steps / (256 * most) + 0.5) / steps).astype(np.float32)
    return (np.floor(total * (steps // most) / 256 + 0.5) / steps).astype(np.float32)


def rounded(exact: Array, kind: type[np.floating]) -> Array:
    """Numbers rounded to the nearest of a type, halves away from zero."""
    near = exact.astype(kind)
    unit = np.spacing(np.abs(near)).astype(np.longdouble)
    off = exact - near.astype(np.longdouble)
    is_half = (2 * np.abs(off) == unit) & (np.sign(off) == np.sign(exact))
    return np.where(is_half, near.astype(np.longdouble) + np.sign(off) * unit, near.astype(np.longdouble)).astype(kind)
