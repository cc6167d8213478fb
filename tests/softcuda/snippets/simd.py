"""Words of halves or bytes, and minima and maxima of three, two of the snippets for each function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from tests.softcuda.snippets.integers import parts
from tests.softcuda.snippets.snippet import Snippet, of, signed, word_a, word_b

Of = Callable[..., int]


def clamp(x: int, bits: int, is_signed: bool) -> int:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
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


def by_names(bits: int) -> dict[str, tuple[bool, Of]]:
    """How each name goes on, whether parts are signed, and the function of the parts x and y."""
    found: dict[str, tuple[bool, Of]] = {}
    for name, (sign, function) in PAIRS.items():
        found[name] = (sign, partial(function, bits=bits))
    for name, (sign, compared) in COMPARED.items():
        found[f"cmp{name}"] = (sign, partial(opposite, compared))
        found[f"set{name}"] = (sign, compared)
    return found


def opposite(function: Of, x: int, y: int) -> int:
    return -function(x, y)


def first_of(function: Of, bits: int, x: int, _: int) -> int:
    return function(x, bits)


def sum_of(bits: int, is_signed: bool) -> Callable[[int], int]:
    def wanted(t: int) -> int:
        both = zip(parts(word_a(t), bits, is_signed), parts(word_b(t), bits, is_signed), strict=True)
        return sum(abs(x - y) for x, y in both)

    return wanted


def two_word_snippets(lanes: int) -> Iterator[Snippet]:
    """Those of words of two or four."""
    bits, operands = 32 // lanes, "word_a(t), word_b(t)"
    for name, (sign, function) in by_names(bits).items():
        yield of("u", f"__v{name}{lanes}({operands})", of_pairs(function, bits, sign))
    for name, function in SINGLE.items():
        yield of("u", f"__v{name}{lanes}(word_a(t))", of_pairs(partial(first_of, function, bits), bits, True))
    for name, sign in (("sads", True), ("sadu", False)):
        yield of("u", f"__v{name}{lanes}({operands})", sum_of(bits, sign))


def three_word_snippets(kind: str, of_word: str) -> Iterator[Snippet]:
    """Those of three numbers, of one kind."""
    words = [f"{of_word}({word})" for word in ("word_a(t)", "word_b(t)", "word_a(t + 9)")]
    for name, function in THREES.items():
        for tail in ("", "_relu") if kind[0] == "s" else ("",):
            code = f"unsigned(__v{name}_{kind}{tail}({', '.join(words)}))"
            yield of("u", code, of_three(function, kind, bool(tail)))
    for name, function in TWOS.items() if kind[0] == "s" else ():
        yield of("u", f"unsigned(__v{name}_{kind}_relu({', '.join(words[:2])}))", of_three(function, kind, True))


KINDS = {"s32": "int", "u32": "unsigned", "s16x2": "unsigned", "u16x2": "unsigned"}
SIMD: list[Snippet] = [
    *two_word_snippets(2),
    *two_word_snippets(4),
    *(snippet for kind, word in KINDS.items() for snippet in three_word_snippets(kind, word)),
    of("i", "bool first; r = __vibmax_s32(t, 9, &first); r = 2 * r + first;", lambda t: 2 * max(t, 9) + (t >= 9)),
    of("i", "bool first; r = __vibmin_s32(t, 9, &first); r = 2 * r + first;", lambda t: 2 * min(t, 9) + (t <= 9)),
    of("u", "bool high, low; r = __vibmax_u16x2(t << 16 | 7u, 9u << 16 | t, &high, &low); r += (high ? 1000 : 0) + (low ? 2000 : 0);",
       lambda t: (max(t, 9) << 16 | max(7, t)) + 1000 * (t >= 9) + 2000 * (t <= 7)),
]  # fmt: skip
