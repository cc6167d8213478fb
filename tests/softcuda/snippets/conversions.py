"""Conversions whose name says how they round, and what becomes of numbers that have no place in the other type."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from tests.softcuda.snippets.floats import MODES, WHOLE, rounded
from tests.softcuda.snippets.snippet import Snippet, double_a, float_a, of, signed, word_a, word_b

RANGES = {"int": ("i", -(2**31), 2**31 - 1), "uint": ("u", 0, 2**32 - 1),
          "ll": ("l", -(2**63), 2**63 - 1), "ull": ("L", 0, 2**64 - 1)}  # fmt: skip
CONVERSIONS: list[Snippet] = []


def within(low: int, high: int, whole: Callable[[Fraction], int], of_t: Callable[[int], float]) -> Callable[[int], int]:
    return lambda t: max(low, min(high, whole(Fraction(of_t(t)))))


def of_integer(kind: str, mode: str, of_t: Callable[[int], int]) -> Callable[[int], float]:
    return lambda t: rounded(Fraction(of_t(t)), kind, mode)


def of_double(mode: str) -> Callable[[int], float]:
    return lambda t: rounded(Fraction(double_a(t)), "f", mode)


for source, of_t in (("float", float_a), ("double", double_a)):
    for target, (kind, low, high) in RANGES.items():
        for mode, whole in WHOLE.items():
            CONVERSIONS.append(of(kind, f"__{source}2{target}_{mode}({source}_a(t))",
                                  within(low, high, whole, of_t)))  # fmt: skip
for mode in MODES:
    CONVERSIONS += [
        of("f", f"__int2float_{mode}(int(word_a(t)))", of_integer("f", mode, lambda t: signed(word_a(t)))),
        of("f", f"__uint2float_{mode}(word_b(t))", of_integer("f", mode, word_b)),
        of("f", f"__ll2float_{mode}((long long)word_a(t) * -12345)", of_integer("f", mode, lambda t: word_a(t) * -12345)),
        of("f", f"__ull2float_{mode}(~0ull - word_b(t))", of_integer("f", mode, lambda t: 2**64 - 1 - word_b(t))),
        of("d", f"__ll2double_{mode}((long long)word_a(t) * -1234567)", of_integer("d", mode, lambda t: word_a(t) * -1234567)),
        of("d", f"__ull2double_{mode}(~0ull - word_b(t))", of_integer("d", mode, lambda t: 2**64 - 1 - word_b(t))),
        of("f", f"__double2float_{mode}(double_a(t))", of_double(mode)),
    ]  # fmt: skip
CONVERSIONS += [
    of("d", "__int2double_rn(int(word_a(t)))", lambda t: signed(word_a(t))),
    of("d", "__uint2double_rn(word_a(t))", word_a),
    of("i", "__float2int_rz(1e20f * (t + 1))", lambda t: 2**31 - 1),
    of("i", "__float2int_rn(-1e20f * (t + 1))", lambda t: -(2**31)),
    of("u", "__float2uint_rz(-3.0f - t)", lambda t: 0),
    of("i", "__float2int_rn(nanf(\"\") + t)", lambda t: 0),
    of("L", "__float2ull_rn(nanf(\"\") + t)", lambda t: 2**63),
    of("i", "__double2int_rz(nan(\"\") + t)", lambda t: -(2**31)),
    of("l", "__double2ll_rz(1e300 * (t + 1))", lambda t: 2**63 - 1),
]  # fmt: skip
