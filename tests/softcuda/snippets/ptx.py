"""Inline PTX: an instruction a snippet, or a few that belong together."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from tests.softcuda.snippets.floats import rounded
from tests.softcuda.snippets.integers import bits_of, nth_set
from tests.softcuda.snippets.snippet import Snippet, double_a, float_a, of, signed, word_a, word_b

REGISTERS: dict[str, tuple[str, Callable[[int], int]]] = {
    "laneid": ("u", lambda t: t), "tid.x": ("u", lambda t: t), "ntid.x": ("u", lambda t: 32), "ctaid.x": ("u", lambda t: 0),
    "nctaid.y": ("u", lambda t: 1), "lanemask_eq": ("u", lambda t: 1 << t),
    "lanemask_lt": ("u", lambda t: 2**t - 1), "lanemask_le": ("u", lambda t: 2 ** (t + 1) - 1),
    "lanemask_gt": ("u", lambda t: 2**32 - 2 ** (t + 1)), "lanemask_ge": ("u", lambda t: 2**32 - 2**t),
}  # fmt: skip
PTX: list[Snippet] = []
for name, (kind, wanted) in REGISTERS.items():
    PTX.append(of(kind, f'asm("mov.u32 %0, %%{name};" : "=r"(r));', wanted))
for width, name, letter in (
    ("u32", "clock", "r"),
    ("u64", "clock64", "l"),
    ("u64", "globaltimer", "l"),
    ("u32", "smid", "r"),
    ("u32", "warpid", "r"),
):
    word = "unsigned" if letter == "r" else "unsigned long long"
    PTX.append(of("i", f'{word} x, y; asm volatile("mov.{width} %0, %%{name};" : "={letter}"(x));'
                       f' asm volatile("mov.{width} %0, %%{name};" : "={letter}"(y)); r = y - x < 4000000000u;', lambda t: 1))  # fmt: skip


def two(text: str, kind: str, letter: str, of_word: str, wanted: Callable[[int], float], ulps: float = 0.0) -> Snippet:
    """An instruction of two operands, words or floats a and b."""
    return of(
        kind,
        f'asm("{text} %0, %1, %2;" : "={letter}"(r) : "{letter}"({of_word}_a(t)), "{letter}"({of_word}_b(t)));',
        wanted,
        ulps,
    )


def three(text: str, wanted: Callable[[int], int], c: str = "t", kind: str = "u") -> Snippet:
    """An instruction of the words a and b and a number."""
    text += "" if text.endswith("}") else ";"
    return of(kind, f'asm("{text}" : "=r"(r) : "r"(word_a(t)), "r"(word_b(t)), "r"({c}));', wanted)


def field(word: int, position: int, length: int, is_signed: bool) -> int:
    sign = -(word >> min(position + length - 1, 31) & 1) if is_signed else 0
    there = max(0, min(length, 32 - position))
    return (word >> position & ((1 << there) - 1)) | (sign << there if length else 0)


def lop3(a: int, b: int, c: int, table: int) -> int:
    return sum((table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1) << i for i in range(32))


def prmt(a: int, b: int, selectors: int) -> int:
    found = 0
    for i in range(4):
        byte = (b << 32 | a) >> 8 * (selectors >> 4 * i & 7) & 255
        if selectors >> 4 * i & 8:
            byte = 255 if byte & 128 else 0
        found |= byte << 8 * i
    return found


def word_at(t: int) -> int:
    return word_a(t % 32)


PTX += [
    two("add.u32", "u", "r", "word", lambda t: word_a(t) + word_b(t)),
    two("sub.s32", "i", "r", "word", lambda t: word_a(t) - word_b(t)),
    two("add.sat.s32", "i", "r", "word", lambda t: max(-(2**31), min(2**31 - 1, signed(word_a(t)) + signed(word_b(t))))),
    two("mul.lo.u32", "u", "r", "word", lambda t: word_a(t) * word_b(t)),
    two("mul.hi.s32", "i", "r", "word", lambda t: signed(word_a(t)) * signed(word_b(t)) >> 32),
    two("mul24.lo.s32", "i", "r", "word", lambda t: signed(word_a(t), 24) * signed(word_b(t), 24)),
    two("min.s32", "i", "r", "word", lambda t: min(signed(word_a(t)), signed(word_b(t)))),
    two("max.u32", "u", "r", "word", lambda t: max(word_a(t), word_b(t))),
    two("and.b32", "u", "r", "word", lambda t: word_a(t) & word_b(t)),
    two("or.b32", "u", "r", "word", lambda t: word_a(t) | word_b(t)),
    two("xor.b32", "u", "r", "word", lambda t: word_a(t) ^ word_b(t)),
    two("div.u32", "u", "r", "word", lambda t: word_a(t) // word_b(t)),
    two("rem.u32", "u", "r", "word", lambda t: word_a(t) % word_b(t)),
    of("l", 'asm("mul.wide.s32 %0, %1, %2;" : "=l"(r) : "r"(word_a(t)), "r"(-7));', lambda t: signed(word_a(t)) * -7),
    of("L", 'asm("mul.wide.u32 %0, %1, %2;" : "=l"(r) : "r"(word_a(t)), "r"(word_b(t)));', lambda t: word_a(t) * word_b(t)),
    of("L", 'asm("mul.hi.u64 %0, %1, %2;" : "=l"(r) : "l"(~0ull - t), "l"(0x123456789abcdef0ull));', lambda t: (2**64 - 1 - t) * 0x123456789ABCDEF0 >> 64),
    three("mad.lo.s32 %0, %1, %2, %3", lambda t: word_a(t) * word_b(t) + t),
    three("mad.hi.u32 %0, %1, %2, %3", lambda t: (word_a(t) * word_b(t) >> 32) + t),
    of("L", 'asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(r) : "r"(word_a(t)), "r"(3), "l"(1ull << 40));', lambda t: word_a(t) * 3 + 2**40),
    three("sad.u32 %0, %1, %2, %3", lambda t: abs(word_a(t) - word_b(t)) + t),
    three("bfe.u32 %0, %1, %3, 9", lambda t: field(word_a(t), t, 9, False)),
    three("bfe.s32 %0, %1, %3, 5", lambda t: field(word_a(t), t, 5, True)),
    three("bfi.b32 %0, %1, %2, %3, 7", lambda t: (word_b(t) & ~(127 << t)) | (word_a(t) & 127) << t),
    three("prmt.b32 %0, %1, %2, %3", lambda t: prmt(word_a(t), word_b(t), word_a(t) >> 5), "word_a(t) >> 5"),
    three("prmt.b32.f4e %0, %1, %2, %3", lambda t: prmt(word_a(t), word_b(t), [0x3210, 0x4321, 0x5432, 0x6543][t % 4])),
    three("prmt.b32.rc16 %0, %1, %2, %3", lambda t: prmt(word_a(t), word_b(t), [0x1010, 0x3232][t % 2])),
    three("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3", lambda t: t + sum(
        abs((word_a(t) >> i & 255) - (word_b(t) >> i & 255)) for i in (0, 8, 16, 24))),
    three("lop3.b32 %0, %1, %2, %3, 0x96", lambda t: word_a(t) ^ word_b(t) ^ t),
    three("lop3.b32 %0, %1, %2, %3, 0xca", lambda t: lop3(word_a(t), word_b(t), t, 0xCA)),
    three("shf.l.wrap.b32 %0, %1, %2, %3", lambda t: (word_b(t) << 32 | word_a(t)) << t >> 32),
    three("shf.r.clamp.b32 %0, %1, %2, %3", lambda t: (word_b(t) << 32 | word_a(t)) >> min(2 * t, 32), "2 * t"),
    three("shl.b32 %0, %1, %3", lambda t: word_a(t) << 2 * t if t < 16 else 0, "2 * t"),
    three("shr.u32 %0, %1, %3", lambda t: word_a(t) >> 2 * t, "2 * t"),
    three("shr.s32 %0, %1, %3", lambda t: signed(word_a(t)) >> 2 * t, "2 * t"),
    three("popc.b32 %0, %1", lambda t: word_a(t).bit_count()),
    three("clz.b32 %0, %3", lambda t: 32 - t.bit_length()),
    of("u", 'asm("clz.b64 %0, %1;" : "=r"(r) : "l"(1ull << 2 * t));', lambda t: 63 - 2 * t),
    three("brev.b32 %0, %1", lambda t: int(f"{word_a(t):032b}"[::-1], 2)),
    three("cvt.pack.sat.s8.s32.b32 %0, %3, 200, %1", lambda t: (word_a(t) & 0xFFFF) << 16 | (max(-128, 9 * t - 200) & 255) << 8 | 127,
          "9 * t - 200"),
    three("cvt.pack.sat.u8.s32.b32 %0, %3, -3, 1", lambda t: 1 << 16 | min(9 * t, 255) << 8, "9 * t"),
    three("cvt.pack.sat.s16.s32 %0, %3, %3", lambda t: 0x10001 * (min(5000 * t, 32767)), "5000 * t"),
    of("L", "unsigned long long low, high; "
            'asm volatile("add.cc.u64 %0, %1, %2;" : "=l"(low) : "l"(~0ull - t), "l"(17ull)); '
            'asm volatile("addc.u64 %0, %1, %2;" : "=l"(high) : "l"(5ull), "l"(6ull)); r = high << 8 | low >> 56;',
       lambda t: (12 if t < 17 else 11) << 8 | (0 if t < 17 else 255)),
    of("L", "unsigned low, middle, high; "
            'asm("sub.cc.u32 %0, %3, %4; subc.cc.u32 %1, %5, %5; subc.u32 %2, 9, 3;" '
            ': "=r"(low), "=r"(middle), "=r"(high) : "r"(t), "r"(16), "r"(word_a(t))); '
            "r = (unsigned long long)high << 48 | (unsigned long long)(middle & 0xffff) << 32 | low;",
       lambda t: 6 << 48 | t - 16 if t >= 16 else 5 << 48 | 0xFFFF << 32 | (t - 16) % 2**32),
    of("L", "unsigned low, high; "
            'asm("{mul.lo.u32 %0, %2, %3; mul.hi.u32 %1, %2, %3; mad.lo.cc.u32 %0, %2, %4, %0; madc.hi.u32 %1, %2, %4, %1;}" '
            ': "=&r"(low), "=&r"(high) : "r"(word_a(t)), "r"(word_b(t)), "r"(0x10)); '
            "r = (unsigned long long)high << 32 | low;",
       lambda t: word_a(t) * word_b(t) + word_a(t) * 16),
    of("L", "unsigned low, high; "
            'asm("{mul.lo.u32 %0, %2, %3; mul.hi.u32 %1, %2, %3; mad.hi.cc.u32 %0, %2, %2, %0; madc.lo.cc.u32 %1, 2, 3, %1; addc.s32 %1, %1, 1;}" '
            ': "=&r"(low), "=&r"(high) : "r"(word_a(t)), "r"(word_b(t))); '
            "r = (unsigned long long)high << 32 | low;",
       lambda t: word_a(t) * word_b(t) + (word_a(t) ** 2 >> 32) + (7 << 32)),
    of("u", "unsigned leader = 99, is = 0; "
            'asm volatile("{ .reg .b32 %%lane; .reg .pred %%own; elect.sync %%lane|%%own, %2; @%%own mov.s32 %1, 1; mov.b32 %0, %%lane; }"'
            ' : "=r"(leader), "+r"(is) : "r"(0xffffffff)); r = leader * 2 + is;', lambda t: int(t == 0)),
    of("u", 'asm("{.reg .u32 more; add.u32 more, %1, 1; add.u32 %1, more, %1; mov.u32 %0, %1;}" : "=r"(r) : "r"(t));', lambda t: 2 * t + 1),
    of("u", 'volatile unsigned to = 0; asm("add.u32 %0, %1, 1;" : "=r"(to) : "r"(t)); r = to;', lambda t: t + 1),
    three("bfind.u32 %0, %3", lambda t: t.bit_length() - 1),
    three("fns.b32 %0, %1, %3, 2", lambda t: nth_set(word_a(t), t, 2)),
    three("not.b32 %0, %1", lambda t: ~word_a(t)),
    three("neg.s32 %0, %1", lambda t: -word_a(t)),
    three("abs.s32 %0, %1", lambda t: abs(signed(word_a(t)))),
    three("dp4a.u32.u32 %0, %1, %2, %3", lambda t: t + sum((word_a(t) >> i & 255) * (word_b(t) >> i & 255) for i in (0, 8, 16, 24))),
    three("{ .reg .pred p; setp.gt.u32 p, %1, %2; selp.b32 %0, %3, 99, p; }", lambda t: t if word_a(t) > word_b(t) else 99),
    three("{ .reg .pred p, q; setp.lt.s32 p|q, %3, 9; selp.u32 %0, 1, 0, q; @p add.u32 %0, %0, 4; }", lambda t: 4 if t < 9 else 1),
    three("{ .reg .pred p, q; setp.ge.u32 p, %3, 5; setp.le.and.u32 q, %3, 7, p; selp.u32 %0, 1, 0, q; }", lambda t: int(5 <= t <= 7)),
    three("{ .reg .pred p; .reg .u32 x<2>; mov.u32 x0, 5; mov.u32 x1, 0; AGAIN_%=: add.u32 x1, x1, %3; sub.u32 x0, x0, 1;"
          " setp.ne.u32 p, x0, 0; @p bra AGAIN_%=; mov.u32 %0, x1; }", lambda t: 5 * t),
    of("u", 'r = word_a(t); asm("add.u32 %0, %0, %1;" : "+r"(r) : "n"(5));', lambda t: word_a(t) + 5),
    of("u", 'asm("mov.b64 {%0, _}, %1;" : "=r"(r) : "d"(double_a(t)));', lambda t: bits_of(double_a(t), "d")),
    of("d", 'asm("mov.b64 %0, {%1, %2};" : "=d"(r) : "r"(t), "r"(0x3ff00000));', lambda t: 1 + t * 2.0**-52),
    of("u", 'asm("mov.b32 %0, {%1, %2};" : "=r"(r) : "h"((unsigned short)t), "h"((unsigned short)7));', lambda t: t | 7 << 16),
    of("u", 'asm("mov.b32 %0, %1;" : "=r"(r) : "f"(float_a(t)));', lambda t: bits_of(float_a(t), "f")),
    of("f", 'asm("mov.f32 %0, 0f3FC00000;" : "=f"(r));', lambda t: 1.5),
    of("d", 'asm("mov.f64 %0, 0d3FF8000000000000;" : "=d"(r));', lambda t: 1.5),
    of("u", 'const int x = t; asm(// a comment\n"add.u32 %0, %1, 1; // and one of PTX\\n\\t"\n"add.u32 %0, %0, 1;" : "=r"(r) : "r"(x));', lambda t: t + 2),
]  # fmt: skip


def float_of(text: str, wanted: Callable[[float, float], float], ulps: float = 0.0) -> Snippet:
    """An instruction of the floats a, and 1 / (t + 3) as b."""
    text += "" if text.endswith("}") else ";"
    code = f'const float a = float_a(t), b = 1.0f / (t + 3); asm("{text}" : "=f"(r) : "f"(a), "f"(b));'
    return of("f", code, lambda t: wanted(float_a(t), float(np.float32(1) / np.float32(t + 3))), ulps)


def fused(a: float, b: float, mode: str) -> float:
    return rounded(Fraction(a) * Fraction(b) + Fraction(b), "f", mode)


PTX += [
    float_of("add.rn.f32 %0, %1, %2", lambda a, b: rounded(Fraction(a) + Fraction(b), "f", "rn")),
    float_of("add.rz.f32 %0, %1, %2", lambda a, b: rounded(Fraction(a) + Fraction(b), "f", "rz")),
    float_of("sub.rp.f32 %0, %1, %2", lambda a, b: rounded(Fraction(a) - Fraction(b), "f", "ru")),
    float_of("mul.rm.f32 %0, %1, %2", lambda a, b: rounded(Fraction(a) * Fraction(b), "f", "rd")),
    float_of("mul.sat.f32 %0, %1, %2", lambda a, b: max(0.0, min(1.0, rounded(Fraction(a) * Fraction(b), "f", "rn")))),
    float_of("add.ftz.f32 %0, %1, 0f00000001", lambda a, b: a),
    float_of("fma.rn.f32 %0, %1, %2, %2", lambda a, b: fused(a, b, "rn")),
    float_of("fma.rz.ftz.f32 %0, %1, %2, %2", lambda a, b: fused(a, b, "rz")),
    float_of("div.rn.f32 %0, %1, %2", lambda a, b: rounded(Fraction(a) / Fraction(b), "f", "rn")),
    float_of("div.approx.ftz.f32 %0, %1, %2", lambda a, b: a / b, 2),
    float_of("min.f32 %0, %1, %2", min),
    float_of("max.ftz.f32 %0, %1, %2", max),
    float_of("abs.f32 %0, %1", lambda a, b: abs(a)),
    float_of("neg.ftz.f32 %0, %1", lambda a, b: -a),
    float_of("copysign.f32 %0, %1, %2", lambda a, b: math.copysign(b, a)),
    float_of("rcp.approx.ftz.f32 %0, %2", lambda a, b: 1 / b, 1),
    float_of("rcp.rn.f32 %0, %1", lambda a, b: rounded(1 / Fraction(a), "f", "rn")),
    float_of("sqrt.approx.f32 %0, %2", lambda a, b: math.sqrt(b), 2),
    float_of("rsqrt.approx.ftz.f32 %0, %2", lambda a, b: 1 / math.sqrt(b), 3),
    float_of("sin.approx.f32 %0, %2", lambda a, b: math.sin(b), 64),
    float_of("cos.approx.f32 %0, %2", lambda a, b: math.cos(b), 16),
    float_of("ex2.approx.ftz.f32 %0, %1", lambda a, b: 2**a, 4),
    float_of("lg2.approx.f32 %0, %2", lambda a, b: math.log2(b), 16),
    float_of("tanh.approx.f32 %0, %1", lambda a, b: math.tanh(a), 2.0**-11 * 2**24),
    float_of("{ .reg .pred p; setp.geu.f32 p, %1, %2; selp.f32 %0, %1, %2, p; }", max),
    of("d", 'asm("fma.rn.f64 %0, %1, %1, %2;" : "=d"(r) : "d"(double_a(t)), "d"(1.0));', lambda t: rounded(Fraction(double_a(t)) ** 2 + 1, "d", "rn")),
    of("d", 'asm("add.rp.f64 %0, %1, %2;" : "=d"(r) : "d"(double_a(t)), "d"(1e-9));', lambda t: rounded(Fraction(double_a(t)) + Fraction(1e-9), "d", "ru")),
    of("i", 'asm("cvt.rni.s32.f32 %0, %1;" : "=r"(r) : "f"(float_a(t)));', lambda t: round(float_a(t))),
    of("i", 'asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(r) : "f"(float_a(t)));', lambda t: math.trunc(float_a(t))),
    of("u", 'asm("cvt.rni.sat.u8.f32 %0, %1;" : "=r"(r) : "f"(float_a(t) * 60));', lambda t: max(0, min(255, round(float(np.float32(float_a(t)) * np.float32(60)))))),
    of("i", 'asm("cvt.rmi.s32.f64 %0, %1;" : "=r"(r) : "d"(double_a(t)));', lambda t: math.floor(double_a(t))),
    of("f", 'asm("cvt.rn.f32.s32 %0, %1;" : "=f"(r) : "r"(word_a(t)));', lambda t: rounded(Fraction(signed(word_a(t))), "f", "rn")),
    of("f", 'asm("cvt.rz.f32.u32 %0, %1;" : "=f"(r) : "r"(word_a(t)));', lambda t: rounded(Fraction(word_a(t)), "f", "rz")),
    of("f", 'asm("cvt.rp.f32.f64 %0, %1;" : "=f"(r) : "d"(double_a(t)));', lambda t: rounded(Fraction(double_a(t)), "f", "ru")),
    of("d", 'asm("cvt.f64.f32 %0, %1;" : "=d"(r) : "f"(float_a(t)));', float_a),
    of("f", 'asm("cvt.rpi.f32.f32 %0, %1;" : "=f"(r) : "f"(float_a(t)));', lambda t: math.copysign(math.ceil(float_a(t)), float_a(t))),
    of("f", 'asm("cvt.sat.f32.f32 %0, %1;" : "=f"(r) : "f"(float_a(t)));', lambda t: max(0.0, min(1.0, float_a(t)))),
    of("L", 'asm("cvt.u64.u32 %0, %1;" : "=l"(r) : "r"(word_a(t)));', word_a),
    of("l", 'asm("cvt.s64.s32 %0, %1;" : "=l"(r) : "r"(word_a(t)));', lambda t: signed(word_a(t))),
    of("i", 'asm("cvt.s32.s8 %0, %1;" : "=r"(r) : "r"(word_a(t)));', lambda t: signed(word_a(t), 8)),
    of("u", 'asm("cvt.sat.u8.s32 %0, %1;" : "=r"(r) : "r"(20 * t - 100));', lambda t: max(0, min(255, 20 * t - 100))),
    of("u", 'unsigned short h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(float_a(t))); r = h;', lambda t: int(np.float16(float_a(t)).view(np.uint16))),
    of("f", 'asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"((unsigned short)(0x3c00 + t)));', lambda t: 1 + t / 1024),
    of("u", 'asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(float_a(t)), "f"(2.0f));', lambda t: int(np.float16(float_a(t)).view(np.uint16)) << 16 | 0x4000),
    of("u", 'asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(1.0f * t), "f"(-2.0f));', lambda t: bits_of(float(t), "f") >> 16 << 16 | 0xC000),
    of("u", 'unsigned short h; asm("tanh.approx.f16 %0, %1;" : "=h"(h) : "h"((unsigned short)(0x3400 + 64 * t))); r = h;',
        lambda t: int(np.float16(np.tanh(float(np.uint16(0x3400 + 64 * t).view(np.float16)))).view(np.uint16))),
    of("u", 'asm("ex2.approx.f16x2 %0, %1;" : "=r"(r) : "r"(0x4000bc00));', lambda t: 0x44003800),
    of("u", 'asm("ex2.approx.ftz.bf16x2 %0, %1;" : "=r"(r) : "r"(0x4000bf80));', lambda t: 0x40803f00),
    of("u", 'asm("fma.rn.f16x2 %0, %1, %1, %1;" : "=r"(r) : "r"(0x3c004000));', lambda t: 0x40004600),
    of("u", 'asm("add.f16x2 %0, %1, %2;" : "=r"(r) : "r"(0x3c004000), "r"(0x3c003c00));', lambda t: 0x40004200),
]  # fmt: skip
