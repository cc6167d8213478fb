"""Integer intrinsics, and those of bits, bytes and types."""

from __future__ import annotations

import struct

import numpy as np

from tests.softcuda.snippets.snippet import Snippet, double_a, float_a, of, signed, word_a, word_b

WIDE = "(((unsigned long long)word_a(t) << 32) | word_b(t))"


def wide(t: int) -> int:
    return word_a(t) << 32 | word_b(t)


def reverse(word: int, bits: int) -> int:
    return int(f"{word:0{bits}b}"[::-1], 2)


def low24(word: int) -> int:
    return signed(word % 2**24, 24)


def nth_set(mask: int, base: int, offset: int) -> int:
    if offset == 0:
        return base if mask >> base & 1 else -1
    places = range(base, 32) if offset > 0 else range(base, -1, -1)
    found = [place for place in places if mask >> place & 1]
    return found[abs(offset) - 1] if len(found) >= abs(offset) else -1


def permuted(a: int, b: int, selector: int) -> int:
    bytes_of = struct.pack("<II", a, b)
    return int.from_bytes(bytes(bytes_of[selector >> 4 * i & 7] for i in range(4)), "little")


def parts(word: int, bits: int, is_signed: bool) -> list[int]:
    found = [word >> at & (2**bits - 1) for at in range(0, 32, bits)]
    return [signed(part, bits) if is_signed else part for part in found]


def dot(a: int, b: int, c: int, bits: int, is_signed: bool, first: int = 0) -> int:
    return c + sum(x * y for x, y in zip(parts(a, bits, is_signed), parts(b, 8, is_signed)[first:], strict=False))


def bits_of(x: float, code: str) -> int:
    return int.from_bytes(struct.pack(f"<{code}", x), "little")


INTEGERS: list[Snippet] = [
    of("i", "__mul24(t - 8, 16)", lambda t: (t - 8) * 16),
    of("i", "__mul24(int(word_a(t)), int(word_b(t)))", lambda t: low24(word_a(t)) * low24(word_b(t))),
    of("u", "__umul24(word_a(t), word_b(t))", lambda t: (word_a(t) % 2**24) * (word_b(t) % 2**24)),
    of("i", "__mulhi(int(word_a(t)), int(word_b(t)))", lambda t: signed(word_a(t)) * signed(word_b(t)) >> 32),
    of("u", "__umulhi(word_a(t), word_b(t))", lambda t: word_a(t) * word_b(t) >> 32),
    of("l", f"__mul64hi((long long){WIDE}, -12345678901LL - t)",
       lambda t: signed(wide(t), 64) * (-12345678901 - t) >> 64),
    of("L", f"__umul64hi({WIDE}, 0xfedcba9876543210ull + t)", lambda t: wide(t) * (0xFEDCBA9876543210 + t) >> 64),
    of("u", "__sad(int(word_a(t)), int(word_b(t)), 7u)", lambda t: 7 + abs(signed(word_a(t)) - signed(word_b(t)))),
    of("u", "__usad(word_a(t), word_b(t), 9u)", lambda t: 9 + abs(word_a(t) - word_b(t))),
    of("i", "__hadd(int(word_a(t)), int(word_b(t)))", lambda t: (signed(word_a(t)) + signed(word_b(t))) >> 1),
    of("i", "__rhadd(int(word_a(t)), int(word_b(t)))", lambda t: (signed(word_a(t)) + signed(word_b(t)) + 1) >> 1),
    of("u", "__uhadd(word_a(t), word_b(t))", lambda t: (word_a(t) + word_b(t)) >> 1),
    of("u", "__urhadd(word_a(t), word_b(t))", lambda t: (word_a(t) + word_b(t) + 1) >> 1),
    of("u", "__brev(word_a(t))", lambda t: reverse(word_a(t), 32)),
    of("L", f"__brevll({WIDE})", lambda t: reverse(wide(t), 64)),
    of("i", "__clz(int(word_a(t) >> t))", lambda t: 32 - (word_a(t) >> t).bit_length()),
    of("i", "__clz(0)", lambda t: 32),
    of("i", f"__clzll((long long)({WIDE} >> 2 * t))", lambda t: 64 - (wide(t) >> 2 * t).bit_length()),
    of("i", "__ffs(t)", lambda t: (t & -t).bit_length()),
    of("i", "__ffsll((long long)t << 20)", lambda t: (t << 20 & -(t << 20)).bit_length()),
    of("i", "__popc(word_b(t))", lambda t: word_b(t).bit_count()),
    of("i", f"__popcll({WIDE})", lambda t: wide(t).bit_count()),
    of("u", "__byte_perm(word_a(t), word_b(t), word_a(t) >> 7)",
       lambda t: permuted(word_a(t), word_b(t), word_a(t) >> 7)),
    of("u", "__fns(word_a(t), t, 3)", lambda t: nth_set(word_a(t), t, 3)),
    of("u", "__fns(word_a(t), t, -2)", lambda t: nth_set(word_a(t), t, -2)),
    of("u", "__fns(word_a(t), t, 0)", lambda t: nth_set(word_a(t), t, 0)),
    of("u", "__funnelshift_l(word_a(t), word_b(t), t + 16)",
       lambda t: (word_b(t) << 32 | word_a(t)) << (t + 16) % 32 >> 32),
    of("u", "__funnelshift_r(word_a(t), word_b(t), t + 16)",
       lambda t: (word_b(t) << 32 | word_a(t)) >> (t + 16) % 32),
    of("u", "__funnelshift_lc(word_a(t), word_b(t), t + 16)",
       lambda t: (word_b(t) << 32 | word_a(t)) << min(t + 16, 32) >> 32),
    of("u", "__funnelshift_rc(word_a(t), word_b(t), t + 16)",
       lambda t: (word_b(t) << 32 | word_a(t)) >> min(t + 16, 32)),
    of("i", "__dp4a(int(word_a(t)), int(word_b(t)), t)", lambda t: dot(word_a(t), word_b(t), t, 8, True)),
    of("u", "__dp4a(word_a(t), word_b(t), 5u)", lambda t: dot(word_a(t), word_b(t), 5, 8, False)),
    of("i", "__dp4a(make_char4(1, -2, 3, t), make_char4(t, 5, -6, 7), 1)",
       lambda t: 1 + t - 10 - 18 + 7 * t),
    of("u", "__dp4a(make_uchar4(200, 2, 3, t), make_uchar4(t, 255, 6, 7), 1u)",
       lambda t: 1 + 200 * t + 510 + 18 + 7 * t),
    of("i", "__dp2a_lo(int(word_a(t)), int(word_b(t)), t)", lambda t: dot(word_a(t), word_b(t), t, 16, True)),
    of("i", "__dp2a_hi(int(word_a(t)), int(word_b(t)), t)", lambda t: dot(word_a(t), word_b(t), t, 16, True, 2)),
    of("u", "__dp2a_lo(word_a(t), word_b(t), 5u)", lambda t: dot(word_a(t), word_b(t), 5, 16, False)),
    of("u", "__dp2a_hi(word_a(t), word_b(t), 5u)", lambda t: dot(word_a(t), word_b(t), 5, 16, False, 2)),
    of("u", "__nv_bswap32(word_a(t))", lambda t: int.from_bytes(word_a(t).to_bytes(4, "little"), "big")),
    of("L", f"__nv_bswap64({WIDE})", lambda t: int.from_bytes(wide(t).to_bytes(8, "little"), "big")),
    of("u", "__nv_bswap16((unsigned short)(256 + t))", lambda t: t * 256 + 1),
    of("u", "umin(word_a(t), word_b(t))", lambda t: min(word_a(t), word_b(t))),
    of("u", "umax(word_a(t), word_b(t))", lambda t: max(word_a(t), word_b(t))),
    of("l", "llmin((long long)t, -5LL + 2 * t)", lambda t: min(t, 2 * t - 5)),
    of("L", "ullmax((unsigned long long)t, 10ull)", lambda t: max(t, 10)),
    of("i", "min(t, 7u) + max(t, 20)", lambda t: min(t, 7) + max(t, 20)),
    of("l", "llabs(-(long long)t) + labs(-3L)", lambda t: t + 3),
    of("i", "__float_as_int(float_a(t))", lambda t: signed(bits_of(float_a(t), "f"))),
    of("u", "__float_as_uint(float_a(t))", lambda t: bits_of(float_a(t), "f")),
    of("f", "__int_as_float(0x3f800000 + t)", lambda t: float(np.array(0x3F800000 + t, np.uint32).view(np.float32))),
    of("f", "__uint_as_float(0xbf800000u + t)", lambda t: float(np.array(0xBF800000 + t, np.uint32).view(np.float32))),
    of("l", "__double_as_longlong(double_a(t))", lambda t: signed(bits_of(double_a(t), "d"), 64)),
    of("d", "__longlong_as_double(0x3ff0000000000000ll + t)", lambda t: 1 + t * 2.0**-52),
    of("i", "__double2hiint(double_a(t))", lambda t: signed(bits_of(double_a(t), "d") >> 32)),
    of("i", "__double2loint(double_a(t))", lambda t: signed(bits_of(double_a(t), "d"))),
    of("d", "__hiloint2double(0x3ff00000, t)", lambda t: 1 + t * 2.0**-52),
]  # fmt: skip
