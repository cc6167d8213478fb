"""Declares ten kernels of files as others have them: with launches, main, PyTorch, and headers that are missing."""

from __future__ import annotations

import numpy as np

import warpwatch as ww
from warpwatch.catalogue.arrays import Array


def attention(q: Array, k: Array, v: Array) -> Array:
    scores = q.astype(np.float64) @ k.astype(np.float64).T / np.sqrt(q.shape[1])
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return np.asarray(weights / weights.sum(1, keepdims=True) @ v)


ATTENTION = ww.Family(
    "attention",
    sizes=("n", "d"),
    arrays=lambda n, d: {**{name: ww.In((n, d), "float32") for name in "qkv"}, "o": ww.Out((n, d), "float32")},
    reference=attention,
    tolerance=ww.relative(1e-4, absolute=1e-5),
    tests=((7, 40),),
    variants=(
        ww.kernel(
            "head",
            source="csrc/attention.cu",
            entry="forward_kernel",
            configurations=((32,),),
            grid=lambda n: n,
            shared_bytes=lambda n: 4 * n,
            arguments=lambda at, n, d: (
                *(np.uint64(at[name]) for name in "qkv"), np.int32(n), np.int32(d), np.float32(d**-0.5),
                np.uint64(at["o"]),
            ),
        ),
    ),
)  # fmt: skip


def neighbours(centres: Array, points: Array) -> Array:
    near = ((centres[:, None, :] - points[None, :, :]) ** 2).sum(2) < 0.25
    return np.asarray(near.sum(1), np.int32)


BALL_QUERY = ww.Family(
    "ball_query",
    sizes=("m", "n"),
    arrays=lambda m, n: {
        "centres": ww.In((m, 3), "float32"),
        "points": ww.In((n, 3), "float32"),
        "count": ww.Out(m, "int32"),
    },
    # Far from the radius on either side, whatever the rounding.
    draw=lambda rng, m, n: {"centres": rng.integers(0, 2, (m, 3)), "points": rng.integers(0, 2, (n, 3)) / 8},
    reference=neighbours,
    tests=((70, 9),),
    variants=(
        ww.kernel(
            "plain",
            source="csrc/ball_query.cu",
            entry="ball_query_kernel",
            configurations=((64,),),
            grid=lambda m, block: ww.blocks(m, block[0]),
            arguments="n m radius:float32=0.5 centres points count",
        ),
    ),
)


def layer_norm(x: Array, gamma: Array, eps: float) -> tuple[Array, Array]:
    x = x.astype(np.float64)
    mean = x.mean(1)
    return (x - mean[:, None]) / np.sqrt(x.var(1) + eps)[:, None] * gamma, mean


LAYER_NORM = ww.Family(
    "layer_norm",
    sizes=("m", "n"),
    arrays=lambda m, n: {
        "x": ww.In((m, n), "float16"),
        "gamma": ww.In(n, "float16"),
        "y": ww.Out((m, n), "float16"),
        "mean": ww.Out(m, "float32"),
    },
    scalars={"eps": ww.Scalar(1e-3, "float32")},
    reference=layer_norm,
    tolerance={"y": ww.relative(4e-3, absolute=4e-3), "mean": ww.relative(1e-4, absolute=1e-4)},
    tests=((3, 70),),
    variants=(
        ww.kernel(
            "half",
            source="csrc/layer_norm.cu",
            entry="cuApplyLayerNorm<at::Half, float>",
            configurations=((32,),),
            grid=lambda m: m,
            shared_bytes=4,
            arguments="y mean x m n eps gamma",
        ),
    ),
)


def gemv(x: Array, weights: Array, scales: Array) -> Array:
    digits = weights[:, :, None] >> (4 * np.arange(8, dtype=np.uint32)) & 15
    whole = digits.reshape(len(weights), -1)[:, : len(x)].astype(np.float64) - 8
    return np.asarray(scales * (whole @ x.astype(np.float64)))


GEMV = ww.Family(
    "gemv",
    sizes=("m", "n"),
    arrays=lambda m, n: {
        "x": ww.In(n, "float16"),
        "weights": ww.In((m, -(-n // 8)), "uint32"),
        "scales": ww.In(m, "float16", low=0.01, high=0.1),
        "y": ww.Out(m, "float16"),
    },
    draw=lambda rng, m, n: {"weights": rng.integers(0, 2**32, (m, -(-n // 8)), dtype=np.uint32)},
    reference=gemv,
    tolerance=ww.relative(4e-3, absolute=2e-2),
    tests=((6, 300),),
    variants=(
        ww.kernel(
            "words",
            source="csrc/gemv.cu",
            entry="gemv_kernel",
            configurations=((32, 4),),
            grid=lambda m, block: ww.blocks(m, block[1]),
            arguments="x weights scales y n m",
        ),
    ),
)


def rms_norm(x: Array, weight: Array, eps: float) -> Array:
    x = x.astype(np.float64)
    return np.asarray(x / np.sqrt((x**2).mean(1) + eps)[:, None] * weight)


def rows(name: str, dtype: str, source: str, entry: str, arguments: str) -> ww.Family:
    """Declare a root-mean-square norm of rows."""
    return ww.Family(
        name,
        sizes=("m", "n"),
        arrays=lambda m, n: {
            "x": ww.In((m, n), dtype),
            "weight": ww.In(n, dtype),
            "y": ww.Out((m, n), dtype),
        },
        scalars={"eps": ww.Scalar(1e-3, "float32")},
        reference=rms_norm,
        tolerance=ww.relative(2e-2, absolute=2e-2),
        tests=((3, 90),),
        variants=(
            ww.kernel(
                "rows",
                source=source,
                entry=entry,
                configurations=((32,),),
                grid=lambda m: m,
                arguments=arguments,
            ),
        ),
    )


RMS_NORM = rows(
    "rms_norm", "bfloat16", "csrc/rms_norm.cu", "ops::rms_norm_kernel<at::BFloat16, 8>", "y x weight eps m n"
)
HALF_NORM = rows("half_norm", "float16", "csrc/half_norm.cu", "rms_norm_row", "y x weight eps n")


def overlaps(boxes: Array) -> Array:
    corners = boxes.astype(np.float64)
    first, other = corners[:, None], corners[None, :]
    low, high = np.maximum(first[..., :2], other[..., :2]), np.minimum(first[..., 2:], other[..., 2:])
    area = (corners[:, 2:] - corners[:, :2]).prod(1)
    common = np.maximum(high - low, 0).prod(2)
    return np.asarray((common > 0.5 * (area[:, None] + area[None, :] - common)).sum(1), np.int32)


def boxes(rng: np.random.Generator, n: int) -> dict[str, Array]:
    low = rng.integers(0, 8, (n, 2))
    return {"boxes": np.concatenate([low, low + rng.integers(1, 8, (n, 2))], axis=1)}


NMS = ww.Family(
    "nms",
    sizes=("n",),
    arrays=lambda n: {"boxes": ww.In((n, 4), "float32"), "count": ww.Out(n, "int32")},
    draw=boxes,
    reference=overlaps,
    tests=((100,),),
    variants=(
        ww.kernel(
            "loop",
            source="csrc/nms.cu",
            entry="nms_cuda",
            configurations=((64,),),
            grid=1,
            arguments="n threshold:float32=0.5 offset:int32=0 boxes count",
        ),
    ),
)


def transformed(points: Array, view: Array) -> Array:
    matrix = view.reshape(4, 4).astype(np.float64)
    return 0.28209479177387814 * (points @ matrix[:3, :3] + matrix[3, :3]) + 0.5


RASTERIZER = ww.Family(
    "rasterizer",
    sizes=("n",),
    arrays=lambda n: {
        "points": ww.In((n, 3), "float32"),
        "view": ww.In(16, "float32"),
        "colors": ww.Out((n, 3), "float32"),
    },
    reference=transformed,
    tolerance=ww.relative(1e-5, absolute=1e-5),
    tests=((70,),),
    variants=(
        ww.kernel(
            "points",
            source="csrc/rasterizer.cu",
            entry="preprocessCUDA<NUM_CHANNELS>",
            configurations=((64,),),
            grid=lambda n, block: ww.blocks(n, block[0]),
            arguments="n points view colors",
        ),
    ),
)


def moved(velm: Array, parameters: Array, kicks: Array) -> Array:
    old = velm.astype(np.float64)
    new = old * parameters[0] + kicks * parameters[1] * np.sqrt(old[:, 3:])
    new[:, 3] = old[:, 3]
    return np.where(old[:, 3:] != 0, new, old)


LANGEVIN = ww.Family(
    "langevin",
    sizes=("n",),
    arrays=lambda n: {
        "velm": ww.InOut((n, 4), "float32", low=0.1, high=1),
        "parameters": ww.In(2, "float32"),
        "kicks": ww.In((n, 4), "float32"),
    },
    reference=moved,
    tolerance=ww.relative(1e-5, absolute=1e-5),
    tests=((100,),),
    variants=(
        ww.kernel(
            "part1",
            source="csrc/langevin.cu",
            entry="integrateLangevinPart1",
            configurations=({"block": (64,), "NUM_ATOMS": 100, "RESTRICT": "__restrict__"},),
            grid=2,
            arguments="n velm parameters kicks",
        ),
    ),
)


def turned(x: Array, by: int) -> Array:
    return (x >> np.uint32(by)) | (x << np.uint32(32 - by))


def hashed(words: Array) -> Array:
    keys = np.array([0x428A2F98, 0x71374491, 0xB5C0FBCF, 0xE9B5DBA5, 0x3956C25B, 0x59F111F1, 0x923F82A4, 0xAB1C5ED5])
    state = np.tile(np.array([0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A], np.uint32), (len(words), 1))
    for i in range(8):
        beside = state[:, (i + 1) % 4]
        mixed = turned(beside, 2) ^ turned(beside, 13) ^ turned(beside, 22)
        t = state[:, i % 4] + mixed + np.uint32(keys[i]) + words[:, i]
        state[:, i % 4] = turned(t, 7) ^ state[:, (i + 2) % 4]
    return state


HASH = ww.Family(
    "hash",
    sizes=("n",),
    arrays=lambda n: {"words": ww.In((n, 8), "uint32"), "state": ww.Out((n, 4), "uint32")},
    draw=lambda rng, n: {"words": rng.integers(0, 2**32, (n, 8), dtype=np.uint32)},
    reference=hashed,
    tests=((70,),),
    variants=(
        ww.kernel(
            "batch",
            source="csrc/hash.cu",
            entry="kernel_hash",
            configurations=((64,),),
            grid=lambda n, block: ww.blocks(n, block[0]),
            arguments="words state n:uint32",
        ),
    ),
)

FAMILIES = (ATTENTION, BALL_QUERY, LAYER_NORM, GEMV, RMS_NORM, NMS, RASTERIZER, HALF_NORM, LANGEVIN, HASH)
