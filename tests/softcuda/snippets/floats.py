"""Functions of floats: those that round as they say, fast ones, and those that C has not."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from scipy import special

from tests.softcuda.snippets.snippet import Snippet, double_a, float_a, of

MODES = ("rn", "rz", "ru", "rd")
PI = decimal.Decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459"
    "230781640628620899862803482534211706798214808651328230664709"
)
WHOLE: dict[str, Callable[[Fraction], int]] = {"rn": round, "rz": math.trunc, "ru": math.ceil, "rd": math.floor}
FORMATS = {"f": (24, -149), "d": (53, -1074)}


def rounded(x: Fraction, kind: str, mode: str) -> float:
    """An exact number as a float of a kind, rounded once."""
    digits, smallest = FORMATS[kind]
    if x == 0:
        return 0.0
    size = abs(x)
    exponent = max(math.floor(math.log2(size.numerator) - math.log2(size.denominator)) - digits - 1, smallest)
    while size / Fraction(2) ** exponent >= 2**digits:
        exponent += 1
    scaled = x / Fraction(2) ** exponent
    return math.ldexp(WHOLE[mode](scaled), exponent)


def root(x: Fraction, kind: str, mode: str) -> float:
    """A square root: 200 bits of it, and one that says whether there are more."""
    shift = 400
    square = x * 4**shift
    whole = math.isqrt(square.numerator // square.denominator)
    is_exact = whole * whole == square
    return rounded(Fraction(2 * whole + (not is_exact), 2 ** (shift + 1)), kind, mode)


def third(kind: str, t: int) -> float:
    """The other operand, which has digits of its own."""
    return float(np.float32(1) / np.float32(t + 3)) if kind == "f" else 1.0 / (t + 3)


Exact = Callable[[Fraction, Fraction], Fraction]
OPERATIONS: dict[str, tuple[str, Exact]] = {
    "add": ("x, y", lambda x, y: x + y),
    "sub": ("x, y", lambda x, y: x - y),
    "mul": ("x, y", lambda x, y: x * y),
    "div": ("x, y", lambda x, y: x / y),
    "rcp": ("x", lambda x, y: 1 / x),
    "ma": ("x, y, y", lambda x, y: x * y + y),
}


def rounded_result(exact: Exact, of_t: Callable[[int], float], kind: str, mode: str) -> Callable[[int], float]:
    return lambda t: rounded(exact(Fraction(of_t(t)), Fraction(third(kind, t))), kind, mode)


def rounded_root(kind: str, mode: str) -> Callable[[int], float]:
    return lambda t: root(Fraction(t), kind, mode)


NAMES = {"f": {"ma": "__fmaf"}, "d": {"ma": "__fma"}}
FLOATS: list[Snippet] = []
for kind, word, of_t in (("f", "float", float_a), ("d", "double", double_a)):
    one = "1.0f" if kind == "f" else "1.0"
    for mode in MODES:
        for name, (arguments, exact) in OPERATIONS.items():
            function = NAMES[kind].get(name, f"__{kind}{name}")
            code = f"const {word} x = {word}_a(t), y = {one} / (t + 3); r = {function}_{mode}({arguments});"
            FLOATS.append(of(kind, code, rounded_result(exact, of_t, kind, mode)))
        FLOATS.append(of(kind, f"__{kind}sqrt_{mode}({one} * t)", rounded_root(kind, mode)))


def rounded_large(t: int) -> float:
    total = Fraction(float(np.float32(1e38) * np.float32(t))) + Fraction(float(np.float32(3e38))) if t < 4 else None
    if total is None or total > Fraction(float(np.finfo(np.float32).max)):
        return math.inf
    return rounded(total, "f", "ru")


FLOATS += [
    of("f", "__fadd_ru(1e38f * t, 3e38f)", rounded_large),
    of("f", "__frsqrt_rn(t + 1.0f)", lambda t: float(np.float32(1 / np.sqrt(np.float64(t + 1))))),
]


def halves(t: int) -> float:
    return (t - 16) / 2.0


def normal(x: float) -> float:
    """The normal distribution, by its series in 120 digits."""
    with decimal.localcontext(decimal.Context(prec=120)):
        term = total = decimal.Decimal(x)
        for k in range(3, 1001, 2):
            term *= decimal.Decimal(x) ** 2 / k
            total += term
        density = (-(decimal.Decimal(x) ** 2) / 2).exp() / (2 * PI).sqrt()
        return float(decimal.Decimal("0.5") + density * total)


def sine_pi(x: float, quarters: int = 0) -> float:
    """The sine of pi x, and of as many quarters of a turn more: exactly where that is a whole number or a half."""
    turns = Fraction(x) % 2 + Fraction(quarters, 2)
    turns %= 2
    sign = 1 if turns <= 1 else -1
    turns = turns % 1
    near = min(turns, 1 - turns)
    if near == 0:
        return math.copysign(0.0, x) if not quarters else 0.0
    return sign * (1.0 if near == Fraction(1, 2) else math.sin(math.pi * float(near)))


def reciprocal_cube_root(x: float) -> float:
    with decimal.localcontext(decimal.Context(prec=50)):
        return float(decimal.Decimal(x) ** (decimal.Decimal(-1) / 3))


def of_reference(reference: Callable[[float], float], of_t: Callable[[int], float]) -> Callable[[int], float]:
    return lambda t: float(reference(of_t(t)))


# Function of float32 or float64, the argument's values, the reference, and the largest error that CUDA's guide states.
Reference = Callable[[float], float]
SPECIAL: list[tuple[str, str, str, Callable[[int], float], Reference, float]] = [
    ("d", "rcbrt", "(t + 1) * 0.75", lambda t: (t + 1) * 0.75, reciprocal_cube_root, 1),
    ("d", "sinpi", "(t - 16) / 7.0", lambda t: (t - 16) / 7.0, sine_pi, 2),
    ("d", "cospi", "(t - 16) / 7.0", lambda t: (t - 16) / 7.0, lambda x: sine_pi(x, 1), 2),
    ("d", "sinpi", "(t - 16) / 2.0", halves, sine_pi, 0.01),
    ("d", "cospi", "(t - 16) / 2.0", halves, lambda x: sine_pi(x, 1), 0.01),
    ("d", "erfcx", "(t - 8) / 2.0", lambda t: (t - 8) / 2.0, special.erfcx, 4),
    ("d", "erfinv", "(t - 15.5) / 16.0", lambda t: (t - 15.5) / 16.0, special.erfinv, 5),
    ("d", "erfcinv", "(t + 0.5) / 16.0", lambda t: (t + 0.5) / 16.0, special.erfcinv, 6),
    ("d", "erfcinv", "ldexp(1.0, -30 * t - 1)", lambda t: math.ldexp(1, -30 * t - 1), special.erfcinv, 6),
    ("d", "normcdf", "(t - 20) * 0.75", lambda t: (t - 20) * 0.75, normal, 5),
    ("d", "normcdfinv", "(t + 0.5) / 32.0", lambda t: (t + 0.5) / 32.0, special.ndtri, 8),
    ("d", "cyl_bessel_i0", "double(t) - 9", lambda t: t - 9.0, special.i0, 6),
    ("d", "cyl_bessel_i1", "double(t) - 9", lambda t: t - 9.0, special.i1, 6),
    ("f", "rcbrtf", "(t + 1) * 0.75f", lambda t: (t + 1) * 0.75, reciprocal_cube_root, 1),
    ("f", "sinpif", "(t - 16) * 0.375f", lambda t: (t - 16) * 0.375, sine_pi, 1),
    ("f", "cospif", "(t - 16) * 0.375f", lambda t: (t - 16) * 0.375, lambda x: sine_pi(x, 1), 1),
    ("f", "erfcxf", "(t - 8) / 2.0f", lambda t: (t - 8) / 2.0, special.erfcx, 4),
    ("f", "erfinvf", "(t - 15.5f) / 16.0f", lambda t: (t - 15.5) / 16.0, special.erfinv, 2),
    ("f", "erfcinvf", "(t + 0.5f) / 16.0f", lambda t: (t + 0.5) / 16.0, special.erfcinv, 4),
    ("f", "normcdff", "(t - 20) * 0.5f", lambda t: (t - 20) * 0.5, special.ndtr, 5),
    ("f", "normcdfinvf", "(t + 0.5f) / 32.0f", lambda t: (t + 0.5) / 32.0, special.ndtri, 5),
    ("f", "cyl_bessel_i0f", "float(t) - 9", lambda t: t - 9.0, special.i0, 6),
    ("f", "cyl_bessel_i1f", "float(t) - 9", lambda t: t - 9.0, special.i1, 6),
    ("f", "rsqrtf", "t + 1.0f", lambda t: t + 1.0, lambda x: 1 / np.sqrt(x), 2),
    ("d", "rsqrt", "t + 1.0", lambda t: t + 1.0, lambda x: 1 / np.sqrt(x), 1),
    ("d", "exp10", "(t - 16) / 4.0", lambda t: (t - 16) / 4.0, special.exp10, 2),
    ("f", "exp10f", "(t - 16) / 4.0f", lambda t: (t - 16) / 4.0, special.exp10, 2),
    ("f", "rsqrt", "t + 1.0f", lambda t: t + 1.0, lambda x: 1 / np.sqrt(x), 2),
    ("f", "rcbrt", "t + 1.0f", lambda t: t + 1.0, reciprocal_cube_root, 1),
    ("d", "j0", "t * 0.25", lambda t: t * 0.25, special.j0, 20),
    ("f", "tgammaf", "(t + 1) * 0.5f", lambda t: (t + 1) * 0.5, special.gamma, 5),
    ("d", "lgamma", "(t + 1) * 0.8", lambda t: (t + 1) * 0.8, special.gammaln, 4),
    ("f", "erfcf", "(t - 16) / 4.0f", lambda t: (t - 16) / 4.0, special.erfc, 4),
    ("d", "log1p", "t * 0.01", lambda t: t * 0.01, np.log1p, 1),
    ("d", "expm1", "t * 0.01", lambda t: t * 0.01, np.expm1, 1),
]


for kind, name, argument, of_thread, reference, error in SPECIAL:
    FLOATS.append(of(kind, f"{name}({argument})", of_reference(reference, of_thread), error))
# The largest error that CUDA's guide states, of which those of sines and cosines are no share of the value.
FAST: list[tuple[str, Reference, float]] = [
    ("__sinf", np.sin, 50), ("__cosf", np.cos, 8), ("__tanf", np.tan, 50), ("__expf", np.exp, 3), ("__exp10f", special.exp10, 4),
    ("__tanhf", np.tanh, 2**13),
]  # fmt: skip
for name, reference, error in FAST:
    FLOATS.append(of("f", f"{name}((t - 16) / 16.0f)", of_reference(reference, lambda t: (t - 16) / 16.0), error))
for name, reference in (("__logf", np.log), ("__log2f", np.log2), ("__log10f", np.log10)):
    FLOATS.append(of("f", f"{name}(t + 3.0f)", of_reference(reference, lambda t: t + 3.0), 4))


def length(*values: float) -> float:
    return math.sqrt(sum(Fraction(value) ** 2 for value in values))


FLOATS += [
    of("f", "__powf(t + 1.0f, 1.5f)", lambda t: (t + 1) ** 1.5, 16),
    of("f", "__fdividef(t + 1.0f, 3.0f)", lambda t: (t + 1) / 3, 2),
    of("f", "__fdividef(t + 1.0f, 1.5e38f)", lambda t: 0.0),
    of("f", "fdividef(t + 1.0f, 3.0f)", lambda t: (t + 1) / 3, 2),
    of("f", "__saturatef(t / 8.0f - 1)", lambda t: min(max(t / 8 - 1, 0), 1)),
    of("f", "__saturatef(nanf(\"\"))", lambda t: 0.0),
    of("f", "float s, c; __sincosf(t / 32.0f, &s, &c); r = s + c;", lambda t: math.sin(t / 32) + math.cos(t / 32), 16),
    of("d", "double s, c; sincospi(t / 8.0, &s, &c); r = s + 2 * c;", lambda t: sine_pi(t / 8) + 2 * sine_pi(t / 8, 1), 4),
    of("f", "float s, c; sincospif(t / 8.0f, &s, &c); r = c;", lambda t: sine_pi(t / 8, 1), 1),
    of("d", "rhypot(3.0 * t + 3, 4.0 * t + 4)", lambda t: 1 / (5.0 * (t + 1)), 1),
    of("f", "rhypotf(3.0f * t + 3, 4.0f * t + 4)", lambda t: 1 / (5.0 * (t + 1)), 2),
    of("d", "norm3d(1.0 * t, 2.0, 3e200)", lambda t: 3e200, 1),
    of("d", "norm3d(1.0 * t, 2.0, 3.0)", lambda t: length(t, 2, 3), 1),
    of("d", "rnorm3d(1.0 * t, 2.0, 3.0)", lambda t: 1 / length(t, 2, 3), 1),
    of("d", "norm4d(1e-200 * t, 2e-200, 0.0, 0.0)", lambda t: 1e-200 * length(t, 2), 2),
    of("d", "rnorm4d(1.0 * t, 2.0, 3.0, 4.0)", lambda t: 1 / length(t, 2, 3, 4), 1),
    of("f", "norm3df(1.0f * t, 2.0f, 3.0f)", lambda t: length(t, 2, 3), 1),
    of("f", "rnorm3df(1.0f * t, 2.0f, 3.0f)", lambda t: 1 / length(t, 2, 3), 2),
    of("f", "norm4df(1.0f * t, 2.0f, 3.0f, 4.0f)", lambda t: length(t, 2, 3, 4), 1),
    of("f", "rnorm4df(1.0f * t, 2.0f, 3.0f, 4.0f)", lambda t: 1 / length(t, 2, 3, 4), 2),
    of("d", "const double all[] = {1, 2, double(t)}; r = norm(3, all);", lambda t: length(1, 2, t), 1),
    of("f", "const float all[] = {1, 2, float(t)}; r = rnormf(3, all);", lambda t: 1 / length(1, 2, t), 2),
    of("f", "fminf(float_a(t), 0) + fmaxf(float_a(t), 1)", lambda t: float(np.float32(min(float_a(t), 0)) + np.float32(max(float_a(t), 1)))),
    of("f", "min(float_a(t), 0.5f)", lambda t: min(float_a(t), 0.5)),
    of("d", "max(double_a(t), 0.5)", lambda t: max(double_a(t), 0.5)),
    of("i", "isnan(nanf(\"\")) + isinf(1.0f / (t - t)) + isfinite(float_a(t)) + signbit(-1.0f)", lambda t: 4),
    of("f", "copysignf(float_a(t), -1.0f) + truncf(float_a(t)) * 0", lambda t: -abs(float_a(t))),
    of("l", "llrintf(float_a(t)) + lroundf(float_a(t))", lambda t: round(float_a(t)) + int(math.copysign(math.floor(abs(float_a(t)) + 0.5), float_a(t)))),
    of("f", "int e; r = frexpf(t + 1.0f, &e) * e;", lambda t: math.frexp(t + 1)[0] * math.frexp(t + 1)[1]),
    of("f", "fmaf(float_a(t), float_a(t), 1.0f)", lambda t: rounded(Fraction(float_a(t)) ** 2 + 1, "f", "rn")),
    of("f", "remainderf(float_a(t), 0.3125f)", lambda t: math.remainder(float_a(t), 0.3125)),
    of("f", "nextafterf(float_a(t), 9.0f)", lambda t: float(np.nextafter(np.float32(float_a(t)), np.float32(9)))),
]  # fmt: skip
