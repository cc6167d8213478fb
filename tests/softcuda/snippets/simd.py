"""Words of halves or bytes, and minima and maxima of three, two of the snippets for each function."""

from __future__ import annotations

from collections.abc import Callable

from tests.softcuda.snippets.integers import parts
from tests.softcuda.snippets.snippet import Snippet, of, signed, word_a, word_b

Of = Callable[..., int]


def clamp(x: int, bits: int, is_signed: bool) -> int:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)
    return max(low, min(high, x))


def away(total: int) -> int:
    """Half of a sum, where a half is rounded away from zero."""
    return (total + (total >= 0)) >> 1


# Whether parts are signed, and what becomes of each pair; `bits` is how wide they are.
PAIRS: dict[str, tuple[bool, Of]] = {
    "add": (False, lambda x, y, bits: x + y),
    "addss": (True, lambda x, y, bits: clamp(x + y, bits, True)),
    "addus": (False, lambda x, y, bits: clamp(x + y, bits, False)),
    "sub": (False, lambda x, y, bits: x - y),
    "subss": (True, lambda x, y, bits: clamp(x - y, bits, True)),
    "subus": (False, lambda x, y, bits: clamp(x - y, bits, False)),
    "avgs": (True, lambda x, y, bits: away(x + y)),
    "avgu": (False, lambda x, y, bits: (x + y + 1) >> 1),
    "haddu": (False, lambda x, y, bits: (x + y) >> 1),
    "absdiffs": (True, lambda x, y, bits: abs(x - y)),
    "absdiffu": (False, lambda x, y, bits: abs(x - y)),
    "maxs": (True, lambda x, y, bits: max(x, y)),
    "maxu": (False, lambda x, y, bits: max(x, y)),
    "mins": (True, lambda x, y, bits: min(x, y)),
    "minu": (False, lambda x, y, bits: min(x, y)),
}
COMPARED: dict[str, tuple[bool, Of]] = {
    "eq": (False, lambda x, y: x == y), "ne": (False, lambda x, y: x != y),
    "ges": (True, lambda x, y: x >= y), "geu": (False, lambda x, y: x >= y),
    "gts": (True, lambda x, y: x > y), "gtu": (False, lambda x, y: x > y),
    "les": (True, lambda x, y: x <= y), "leu": (False, lambda x, y: x <= y),
    "lts": (True, lambda x, y: x < y), "ltu": (False, lambda x, y: x < y),
}  # fmt: skip
SINGLE: dict[str, Of] = {
    "abs": lambda x, bits: abs(x),
    "absss": lambda x, bits: clamp(abs(x), bits, True),
    "neg": lambda x, bits: -x,
    "negss": lambda x, bits: clamp(-x, bits, True),
}


def packed(found: list[int], bits: int) -> int:
    return sum(part % 2**bits << bits * i for i, part in enumerate(found))


def of_pairs(function: Of, bits: int, is_signed: bool) -> Callable[[int], int]:
    def wanted(t: int) -> int:
        both = zip(parts(word_a(t), bits, is_signed), parts(word_b(t), bits, is_signed), strict=True)
        return packed([function(x, y) for x, y in both], bits)

    return wanted


def of_three(function: Of, kind: str, is_relu: bool) -> Callable[[int], int]:
    """Of three numbers, or of the halves of three words."""

    def wanted(t: int) -> int:
        bits = 16 if kind.endswith("x2") else 32
        words = (word_a(t), word_b(t), word_a(t + 9))
        triples = zip(*(parts(word, bits, kind[0] == "s") for word in words), strict=True)
        found = [
            signed(value, bits) if kind[0] == "s" else value % 2**bits
            for value in (function(*triple, bits, kind[0] == "s") for triple in triples)
        ]
        return packed([max(value, 0) if is_relu else value for value in found], bits)

    return wanted


def wrapped(x: int, bits: int, is_signed: bool) -> int:
    return signed(x, bits) if is_signed else x % 2**bits


THREES: dict[str, Of] = {
    "imax3": lambda a, b, c, bits, is_signed: max(a, b, c),
    "imin3": lambda a, b, c, bits, is_signed: min(a, b, c),
    "iaddmax": lambda a, b, c, bits, is_signed: max(wrapped(a + b, bits, is_signed), c),
    "iaddmin": lambda a, b, c, bits, is_signed: min(wrapped(a + b, bits, is_signed), c),
}
TWOS: dict[str, Of] = {
    "imax": lambda a, b, c, bits, is_signed: max(a, b),
    "imin": lambda a, b, c, bits, is_signed: min(a, b),
}
SIMD: list[Snippet] = []
for lanes in (2, 4):
    width = 32 // lanes
    for name, (sign, function) in PAIRS.items():
        each = of_pairs(lambda x, y, f=function, w=width: f(x, y, w), width, sign)
        SIMD.append(of("u", f"__v{name}{lanes}(word_a(t), word_b(t))", each))
    for name, (sign, function) in COMPARED.items():
        SIMD.append(
            of(
                "u",
                f"__vcmp{name}{lanes}(word_a(t), word_b(t))",
                of_pairs(lambda x, y, f=function: -f(x, y), width, sign),
            )
        )
        SIMD.append(
            of(
                "u",
                f"__vset{name}{lanes}(word_a(t), word_b(t))",
                of_pairs(lambda x, y, f=function: int(f(x, y)), width, sign),
            )
        )
    for name, function in SINGLE.items():
        each = of_pairs(lambda x, y, f=function, w=width: f(x, w), width, True)
        SIMD.append(of("u", f"__v{name}{lanes}(word_a(t))", each))
    for name, sign in (("sads", True), ("sadu", False)):
        SIMD.append(of("u", f"__v{name}{lanes}(word_a(t), word_b(t))", lambda t, w=width, s=sign: sum(
            abs(x - y) for x, y in zip(parts(word_a(t), w, s), parts(word_b(t), w, s), strict=True))))  # fmt: skip
for kind, of_word in (("s32", "int"), ("u32", "unsigned"), ("s16x2", "unsigned"), ("u16x2", "unsigned")):
    words = [f"{of_word}({word})" for word in ("word_a(t)", "word_b(t)", "word_a(t + 9)")]
    for name, function in THREES.items():
        SIMD.append(of("u", f"unsigned(__v{name}_{kind}({', '.join(words)}))", of_three(function, kind, False)))
        if kind[0] == "s":
            SIMD.append(of("u", f"unsigned(__v{name}_{kind}_relu({', '.join(words)}))", of_three(function, kind, True)))
    if kind[0] == "s":
        for name, function in TWOS.items():
            SIMD.append(
                of("u", f"unsigned(__v{name}_{kind}_relu({', '.join(words[:2])}))", of_three(function, kind, True))
            )
for name, largest in (("imax", max), ("imin", min)):
    SIMD.append(of("i", f"bool first; r = __vib{name[1:]}_s32(t, 9, &first); r = 2 * r + first;",
                   lambda t, f=largest: 2 * f(t, 9) + (f(t, 9) == t)))  # fmt: skip
SIMD.append(of("u", "bool high, low; r = __vibmax_u16x2(t << 16 | 7u, 9u << 16 | t, &high, &low); r += (high ? 1000 : 0) + (low ? 2000 : 0);",
               lambda t: (max(t, 9) << 16 | max(7, t)) + 1000 * (t >= 9) + 2000 * (t <= 7)))  # fmt: skip
