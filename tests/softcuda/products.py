"""Products of small matrices on tensor cores: what each instruction multiplies, and which lane holds which element.

The places of elements are those of the PTX ISA's chapter "Matrix multiply-accumulate instructions", shape by shape.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

Matrix = np.ndarray[Any, Any]
Place = Callable[[int, int, int], tuple[int, int]]  # of g, t (lane 4 g + t) and the element's number: row and column
BITS = {"f64": 64, "f32": 32, "tf32": 32, "s32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8,
        "s4": 4, "u4": 4, "b1": 1}  # fmt: skip
RANGES = {"s8": (-128, 128), "u8": (0, 256), "s4": (-8, 8), "u4": (0, 16), "b1": (0, 2)}
FLOATS = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip

# By the width of an element and the depth of the product.
PLACES_A: dict[tuple[int, int, int], Place] = {
    (16, 64, 4): lambda g, t, i: (g + 8 * i, t),
    (8, 64, 4): lambda g, t, i: (g, t),
    (16, 64, 8): lambda g, t, i: (g + 8 * (i in (1, 3)), t + 4 * (i >= 2)),
    (16, 64, 16): lambda g, t, i: (g + 8 * (i % 2), i // 2 * 4 + t),
    (16, 32, 4): lambda g, t, i: (g + 8 * i, t),
    (16, 32, 8): lambda g, t, i: (g + 8 * (i in (1, 3)), t + 4 * (i >= 2)),
    (16, 16, 8): lambda g, t, i: (g + 8 * (i >= 2), 2 * t + i % 2),
    (16, 16, 16): lambda g, t, i: (g + 8 * (i in (2, 3, 6, 7)), 2 * t + i % 2 + 8 * (i >= 4)),
    (8, 8, 16): lambda g, t, i: (g, 4 * t + i),
    (16, 8, 16): lambda g, t, i: (g + 8 * (i >= 4), 4 * t + i % 4),
    (16, 8, 32): lambda g, t, i: (g + 8 * (4 <= i < 8 or i >= 12), 4 * t + i % 4 + 16 * (i >= 8)),
    (8, 4, 32): lambda g, t, i: (g, 8 * t + i),
    (16, 4, 32): lambda g, t, i: (g + 8 * (i >= 8), 8 * t + i % 8),
    (16, 4, 64): lambda g, t, i: (g + 8 * (8 <= i < 16 or i >= 24), 8 * t + i % 8 + 32 * (i >= 16)),
    (8, 1, 128): lambda g, t, i: (g, 32 * t + i),
    (16, 1, 128): lambda g, t, i: (g + 8 * (i >= 32), 32 * t + i % 32),
    (16, 1, 256): lambda g, t, i: (g + 8 * (32 <= i < 64 or i >= 96), 32 * t + i % 32 + 128 * (i >= 64)),
}
PLACES_B: dict[tuple[int, int], Place] = {
    (64, 4): lambda g, t, i: (t, g),
    (64, 8): lambda g, t, i: (t + 4 * i, g),
    (64, 16): lambda g, t, i: (t + 4 * i, g),
    (32, 4): lambda g, t, i: (t, g),
    (32, 8): lambda g, t, i: (t + 4 * i, g),
    (16, 8): lambda g, t, i: (2 * t + i, g),
    (16, 16): lambda g, t, i: (2 * t + i % 2 + 8 * (i >= 2), g),
    (8, 16): lambda g, t, i: (4 * t + i, g),
    (8, 32): lambda g, t, i: (4 * t + i % 4 + 16 * (i >= 4), g),
    (4, 32): lambda g, t, i: (8 * t + i, g),
    (4, 64): lambda g, t, i: (8 * t + i % 8 + 32 * (i >= 8), g),
    (1, 128): lambda g, t, i: (32 * t + i, g),
    (1, 256): lambda g, t, i: (32 * t + i % 32 + 128 * (i >= 32), g),
}


def place_c(g: int, t: int, i: int) -> tuple[int, int]:
    return g + 8 * (i >= 2), 2 * t + i % 2


@dataclass(frozen=True, kw_only=True)
class Product:
    """An mma.sync: A of m x k, B of k x 8, C and D of m x 8, with PTX's names of their types.

    ``extra``: what stands between layout and types (.satfinite); ``operation``: behind the types, of bits.
    """

    m: int
    k: int
    d: str
    a: str
    b: str
    extra: str = ""
    operation: str = ""

    @property
    def name(self) -> str:
        shape = f"m{self.m}n8k{self.k}.row.col{self.extra}"
        return f"mma.sync.aligned.{shape}.{self.d}.{self.a}.{self.b}.{self.d}{self.operation}"

    def words(self) -> tuple[int, int, int]:
        """How many registers A, B and C take."""
        count = (self.m * self.k, self.k * 8, self.m * 8)
        bits = (BITS[self.a], BITS[self.b], BITS[self.d])
        a, b, c = (of * width // 32 // max(32, width) for of, width in zip(count, bits, strict=True))
        return a, b, c


PRODUCTS = [
    *(Product(m=16, k=k, d=d, a="f16", b="f16") for k in (8, 16) for d in ("f32", "f16")),
    *(Product(m=16, k=k, d="f32", a="bf16", b="bf16") for k in (8, 16)),
    *(Product(m=16, k=k, d="f32", a="tf32", b="tf32") for k in (4, 8)),
    *(Product(m=16, k=k, d="f64", a="f64", b="f64") for k in (4, 8, 16)),
    Product(m=8, k=4, d="f64", a="f64", b="f64"),
    *(Product(m=16, k=32, d=d, a=a, b=b) for d, a, b in (("f32", "e4m3", "e4m3"), ("f16", "e5m2", "e4m3"))),
    *(Product(m=m, k=k, d="s32", a=a, b=b, extra=extra)
      for m, k in ((8, 16), (16, 16), (16, 32)) for a, b, extra in (("s8", "s8", ""), ("u8", "s8", ".satfinite"))),
    *(Product(m=m, k=k, d="s32", a=a, b=b)
      for m, k in ((8, 32), (16, 32), (16, 64)) for a, b in (("s4", "u4"), ("u4", "s4"))),
    *(Product(m=m, k=k, d="s32", a="b1", b="b1", operation=f".{how}.popc")
      for m, k in ((8, 128), (16, 128), (16, 256)) for how in ("and", "xor")),
]  # fmt: skip


def drawn(kind: str, shape: tuple[int, int], rng: np.random.Generator, whole: bool) -> Matrix:
    """Random elements, as float64 or int64: any, or ``whole`` numbers so small that every sum is exact."""
    if kind in RANGES:
        return rng.integers(*RANGES[kind], shape)
    if kind == "s32":
        return rng.integers(-1000, 1000, shape)
    values = rng.integers(-4, 5, shape).astype(np.float64) if whole else rng.normal(size=shape)
    if kind == "tf32":
        bits = values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)
        return bits.view(np.float32).astype(np.float64)
    return values.astype(FLOATS[kind]).astype(np.float64)


def encoded(kind: str, values: Matrix) -> Matrix:
    """The bits of elements, as numbers."""
    if kind in RANGES or kind == "s32":
        return values.astype(np.int64).view(np.uint64) & np.uint64(2 ** BITS[kind] - 1)
    made = values.astype(np.float32 if kind == "tf32" else FLOATS[kind])
    return made.view(f"u{made.itemsize}").astype(np.uint64)


def in_registers(kind: str, values: Matrix, place: Place, words: int) -> Matrix:
    """What each of 32 lanes has in its registers: an array of 32 x words."""
    bits, width = encoded(kind, values), BITS[kind]
    packed = 1 if width == 64 else 32 // width
    made = np.zeros((32, words), np.uint64)
    for lane in range(32):
        for i in range(words * packed):
            row, column = place(lane // 4, lane % 4, i)
            made[lane, i // packed] |= bits[row, column] << np.uint64(i % packed * width)
    return made.astype(np.uint64 if width == 64 else np.uint32)


def from_registers(kind: str, registers: Matrix, m: int) -> Matrix:
    """The m x 8 elements of D, as their own type."""
    flat = registers.view(np.int32 if kind == "s32" else FLOATS[kind]).reshape(32, -1)
    made = np.zeros((m, 8), flat.dtype)
    for lane in range(32):
        for i in range(flat.shape[1]):
            made[place_c(lane // 4, lane % 4, i)] = flat[lane, i]
    return made


def kernel(product: Product, number: int) -> str:
    """A kernel of one warp that multiplies: out = registers of D, from those of A, B and C, lane by lane."""
    word, letter = ("double", "d") if product.a == "f64" else ("unsigned", "r")
    a, b, c = product.words()
    sources = ", ".join(f'"{letter}"({x}[{n} * t + {i}])' for x, n in (("a", a), ("b", b), ("c", c)) for i in range(n))
    results = ", ".join(f'"={letter}"(out[{c} * t + {i}])' for i in range(c))
    operands = ", ".join(listed(first, n) for first, n in ((0, c), (c, a), (c + a, b), (c + a + b, c)))
    arguments = f"const {word}* a, const {word}* b, const {word}* c, {word}* out"
    return f"""extern "C" __global__ void product_{number}({arguments})
{{
    const int t = threadIdx.x;
    asm volatile("{product.name} {operands};\\n" : {results} : {sources});
}}
"""


def listed(first: int, count: int) -> str:
    """The registers of an operand, as PTX has them: {%4, %5}."""
    return "{" + ", ".join(f"%{first + i}" for i in range(count)) + "}"
