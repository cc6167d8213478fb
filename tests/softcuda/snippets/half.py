"""Functions of half precision and bfloat16 that test_half.py does not compare with NumPy, each in both types."""

from __future__ import annotations

from collections.abc import Callable

from tests.softcuda.snippets.snippet import Snippet, of

INCLUDE = "#include <cuda_bf16.h>\n#include <cuda_fp16.h>"
# Of each type: itself, pairs, and what conversions call it.
TYPES = (("__half", "__half2", "half"), ("__nv_bfloat16", "__nv_bfloat162", "bfloat16"))
# Where both are numbers; where one is not, the first form is false and the second (u) true.
COMPARED: dict[str, Callable[[float, float], bool]] = {
    "eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y, "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y,
}  # fmt: skip


def halves(name: str, t: int) -> tuple[bool, bool]:
    """The comparison of (t - 8, t) with (8 - t, 12), where in the second place of every fourth lane stands a NaN."""
    compare = COMPARED[name.removesuffix("u")]
    return compare(t - 8, 8 - t), compare(t, 12) if t % 4 else name.endswith("u")


def compared(name: str, pair: str, conversion: str) -> list[Snippet]:
    set_up = (f"const {pair} a = __floats2{conversion}2_rn(t - 8.0f, t % 4 ? t : nanf(\"\")), b = __floats2{conversion}2_rn(8.0f - t, 12.0f);")  # fmt: skip
    return [
        of(
            "u",
            f"{set_up} r = __h{name}2_mask(a, b);",
            lambda t: 0xFFFF * halves(name, t)[0] + 0xFFFF0000 * halves(name, t)[1],
            preamble=INCLUDE,
        ),
        of("i", f"{set_up} r = __hb{name}2(a, b);", lambda t: all(halves(name, t)), preamble=INCLUDE),
    ]


def number(code: str, wanted: Callable[[int], float]) -> Snippet:
    return of("f", code, wanted, preamble=INCLUDE)


HALF: list[Snippet] = []
for kind, pair, name in TYPES:
    for comparison in COMPARED:
        HALF += compared(comparison, pair, name) + compared(f"{comparison}u", pair, name)
    complex_numbers = f"{pair} a = __floats2{name}2_rn(t, 2.0f), b = __floats2{name}2_rn(3.0f, -1.0f), c = __floats2{name}2_rn(5.0f, 7.0f);"
    HALF += [
        number(f"{complex_numbers} r = __low2float(__hcmadd(a, b, c));", lambda t: 3 * t + 2 + 5),
        number(f"{complex_numbers} r = __high2float(__hcmadd(a, b, c));", lambda t: -t + 6 + 7),
        of("i", f"__{name}2char_rz({kind}((t - 16) * 12.5f))", lambda t: max(-128, min(127, int((t - 16) * 12.5))), preamble=INCLUDE),
        of("i", f"__{name}2uchar_rz({kind}((t - 2) * 12.0f))", lambda t: max(0, min(255, (t - 2) * 12)), preamble=INCLUDE),
        number(f"{pair} a = __floats2{name}2_rn(t, 2.0f), b = a++; ++a; r = __low2float(a) * 10 + __high2float(+a) + __low2float(b);", lambda t: 10 * (t + 2) + 4 + t),
        number(f"{pair} a = __floats2{name}2_rn(t, 2.0f); --a; a--; r = __low2float(a) * 10 + __high2float(a);", lambda t: 10 * (t - 2)),
        number(f"__shared__ {pair} sum; if (t == 0) sum = __floats2{name}2_rn(0.0f, 1.0f); __syncwarp(); atomicAdd(&sum, __floats2{name}2_rn(1.0f, 2.0f));"
               " __syncwarp(); r = __low2float(sum) + __high2float(sum);", lambda t: 32 + 65),
        number(f"__shfl_down_sync(~0u, {kind}(float(t)), 1)", lambda t: min(t + 1, 31)),
        number(f"{kind}* const h = ({kind}*)(out + 32 + t); __stcg(h, {kind}(t + 0.5f)); r = __ldcg(h) + __ldca(h);", lambda t: 2 * t + 1),
    ]  # fmt: skip
