"""What a snippet is, the kernels that are made of snippets, and whether what they left is right."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

THREADS = 32
KINDS = {
    "i": ("int", np.int32), "u": ("unsigned", np.uint32), "l": ("long long", np.int64), "f": ("float", np.float32),
    "L": ("unsigned long long", np.uint64), "d": ("double", np.float64),
}  # fmt: skip
WIDTH = 16 * THREADS  # bytes that a snippet may leave: its results, and as much to write to on the way


@dataclass(frozen=True, kw_only=True)
class Snippet:
    """An expression of ``t``, the thread's number, or statements that set ``r``; and its value for each thread.

    Statements may use ``scratch``, zeros of the same type, one for each thread. ``preamble``: what stands before.

    ``kind``: its type, of KINDS. ``ulps``: how far a float may be from the value, in units of its last place.
    """

    kind: str
    code: str
    wanted: Callable[[int], float]
    ulps: float = 0.0
    preamble: str = ""


def of(kind: str, code: str, wanted: Callable[[int], float], ulps: float = 0.0, preamble: str = "") -> Snippet:
    return Snippet(kind=kind, code=code, wanted=wanted, ulps=ulps, preamble=preamble)


# Words, floats and doubles of all sorts, the same here and in a kernel.
HELPERS = """
__device__ static unsigned word_a(int t) { return 0x80ff7f01u + t * 0x01234567u; }
__device__ static unsigned word_b(int t) { return t % 5 == 4 ? word_a(t) : 0x7f80ff02u ^ t * 0x9e3779b9u; }
__device__ static float float_a(int t) { return (t - 15.5f) * 0.37f; }
__device__ static double double_a(int t) { return (t - 15.5) * 0.37; }
"""


def word_a(t: int) -> int:
    return (0x80FF7F01 + t * 0x01234567) % 2**32


def word_b(t: int) -> int:
    return word_a(t) if t % 5 == 4 else 0x7F80FF02 ^ t * 0x9E3779B9 % 2**32


def float_a(t: int) -> float:
    return float(np.float32(t - 15.5) * np.float32(0.37))


def double_a(t: int) -> float:
    return (t - 15.5) * 0.37


def signed(word: int, bits: int = 32) -> int:
    """The low bits of a number, as one of two's complement."""
    half: int = 2 ** (bits - 1)
    return (word + half) % (2 * half) - half


def kernel(number: int, snippet: Snippet) -> str:
    kind = KINDS[snippet.kind][0]
    code = snippet.code if ";" in snippet.code else f"r = {snippet.code};"
    return f"""{snippet.preamble}
extern "C" __global__ void snippet_{number}({kind}* out)
{{
    const int t = threadIdx.x;
    [[maybe_unused]] {kind}* const scratch = out + {THREADS};
    {kind} r = 0;
    {code}
    out[t] = r;
}}
"""


def source(snippets: Sequence[Snippet]) -> str:
    """A .cu file with a kernel for each, by their numbers."""
    return HELPERS + "".join(kernel(number, snippet) for number, snippet in enumerate(snippets))


def mistakes(snippet: Snippet, left: bytes) -> list[str]:
    """What is wrong in what a snippet left, in words."""
    kind = KINDS[snippet.kind][1]
    said = []
    for t, got in enumerate(np.frombuffer(left, kind)[:THREADS]):
        wanted = snippet.wanted(t)
        if issubclass(kind, np.floating):
            right = near(got, wanted, snippet.ulps)
        else:
            right = (int(got) - int(wanted)) % 2 ** (8 * got.itemsize) == 0
        if not right:
            said.append(f"{snippet.code}: thread {t} has {got!r} and not {wanted!r}")
    return said


def always(value: float) -> Callable[[int], float]:
    """The same value for each thread."""
    return lambda t: value


def near(got: np.floating, wanted: float, ulps: float) -> bool:
    """Whether a number is the one that is wanted, or so near; a NaN is the same as another, -0 not the same as 0."""
    exact = type(got)(wanted)
    if np.isnan(exact) or np.isnan(got):
        return bool(np.isnan(exact) and np.isnan(got))
    if got == exact:
        return math.copysign(1, got) == math.copysign(1, exact) or ulps > 0
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(abs(float(got) - wanted) <= ulps * float(np.spacing(abs(exact))))
