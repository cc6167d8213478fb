"""Operations of the table of arithmetic, the values that they are tried on, and what NVIDIA's documents say of each.

A kernel an operation reads its operands from arrays, so that no compiler folds them. ``table.json`` has what they give.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tests.softcuda.snippets.floats import WHOLE, rounded
from warpwatch.catalogue.launches import Launch

CVT = "PTX ISA 9.0, cvt"
BY_32_BITS = "PTX ISA 9.0, cvt; nvcc 13.0 converts float32 and float64 to 8 and 16 bits by way of 32"
SHIFT = "PTX ISA 9.0, shl and shr; nvcc 13.0 compiles a shift of C++ to it"
FMA = "nvcc 13.0, -fmad=true is the default; PTX ISA 9.0, fma.rn"
IEEE = "CUDA C++ Programming Guide, Floating-Point Standard"
INTEGER = "CUDA Math API, Integer Intrinsics"
# C++'s name, bytes, whether it is signed; of floats the format of struct.
INTEGERS = {"schar": ("signed char", 1, True), "uchar": ("unsigned char", 1, False), "short": ("short", 2, True),
            "ushort": ("unsigned short", 2, False), "int": ("int", 4, True), "uint": ("unsigned", 4, False),
            "ll": ("long long", 8, True), "ull": ("unsigned long long", 8, False)}  # fmt: skip
FLOATS = {"float": ("float", 4, "f"), "double": ("double", 8, "d"), "half": ("__half", 2, "e"),
          "bfloat16": ("__nv_bfloat16", 2, "")}  # fmt: skip
Number = float | int
NAN, INF = math.nan, math.inf


@dataclass(frozen=True, kw_only=True)
class Operation:
    """An expression of a, b and c, which are of the types ``operands``; its ``result``; and the values it is tried on.

    ``says``: what the document ``source`` says that it gives.
    """

    code: str
    operands: tuple[str, ...]
    result: str
    values: tuple[tuple[Number, ...], ...]
    says: Callable[..., Number]
    source: str

    @property
    def name(self) -> str:
        """Code and types, by which a table finds it."""
        return f"{self.code} of {', '.join(self.operands)}"


def size(kind: str) -> int:
    return INTEGERS[kind][1] if kind in INTEGERS else FLOATS[kind][1]


def bits(value: Number, kind: str) -> int:
    """Return a value's bits; every NaN has the same."""
    if kind in INTEGERS:
        return int(value) % (1 << 8 * size(kind))
    if math.isnan(value):
        return {2: 0x7FFF, 4: 0x7FFFFFFF, 8: 0x7FFFFFFFFFFFFFFF}[size(kind)]
    if kind == "bfloat16":
        return bits(value, "float") >> 16
    layout = FLOATS[kind][2]
    try:
        packed = struct.pack(f"<{layout}", value)
    except OverflowError:
        packed = struct.pack(f"<{layout}", math.copysign(INF, value))
    return int.from_bytes(packed, "little")


def value_of(word: int, kind: str) -> Number:
    """Return the value that bits are."""
    if kind in INTEGERS:
        _, width, signed = INTEGERS[kind]
        return word - 2 ** (8 * width) if signed and word >> (8 * width - 1) else word
    if kind == "bfloat16":
        return value_of(word << 16, "float")
    number: float = struct.unpack(f"<{FLOATS[kind][2]}", word.to_bytes(size(kind), "little"))[0]
    return number


def nearest(value: float, source: str, to: str, mode: str = "rz") -> int:
    """Return the integer that ``cvt`` makes of a float."""
    _, width, signed = INTEGERS[to]
    if math.isnan(value):
        return 1 << 8 * width - 1 if 8 in (width, size(source)) else 0
    half = 1 << 8 * width - 1
    low, high = (-half, half - 1) if signed else (0, 2 * half - 1)
    if math.isinf(value):
        return high if value > 0 else low
    return int(max(low, min(high, WHOLE[mode](Fraction(value)))))


def cast(source: str, to: str) -> Callable[[float], int]:
    """Return what a conversion of C++ gives: of float and double to 8 and 16 bits the low bits of 32."""
    by_32 = size(to) < 4 and source in ("float", "double")
    wide = ("int" if INTEGERS[to][2] else "uint") if by_32 else to
    return lambda value: nearest(value, source, wide)


def fused(kind: str, sign_product: int = 1, sign_sum: int = 1) -> Callable[..., float]:
    """Return the function that rounds ±a b ± c once."""

    def result(a: float, b: float, c: float) -> float:
        if not all(map(math.isfinite, (a, b, c))):
            return sign_product * a * b + sign_sum * c
        exact = sign_product * Fraction(a) * Fraction(b) + sign_sum * Fraction(c)
        return rounded(exact, "f" if kind == "float" else "d", "rn") if exact else sign_product * a * b + sign_sum * c

    return result


def shifted(kind: str, left: bool) -> Callable[[int, int], int]:
    width = 8 * size(kind)
    return lambda a, count: (a << min(count, width)) if left else a >> min(count, width)


def singles(values: Sequence[Number]) -> tuple[tuple[Number, ...], ...]:
    return tuple((value,) for value in values)


# fmt: off
SMALL = [0.0, -0.0, 0.9, -0.9, 1.5, -1.5, 127.6, 128.0, -128.9, 255.5, 256.0, 300.0, 32767.5, 32768.0, -32769.0,
         65504.0, NAN, INF, -INF]
FLOAT_VALUES = [*SMALL, 65536.0, -1e5, 2147483520.0, 2.0**31, -(2.0**31), 3e9, -3e9, 4294967040.0, 2.0**32, 5e9,
                2.0**63, -(2.0**63), 1e19, 2.0**64, 1e30, -1e30, 1e-40]
DOUBLE_VALUES = [*FLOAT_VALUES, 2147483647.5, 2147483647.0, -2147483648.5, 4294967295.5, 9007199254740993.0, 1e300,
                 -1e300]
# fmt: on
VALUES = {
    "float": FLOAT_VALUES,
    "double": DOUBLE_VALUES,
    "half": SMALL,
    "bfloat16": [*SMALL, 3e9, -3e9, 1e19, -1e30, 1e30],
}  # fmt: skip
HALVES = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, 8388607.5, NAN, 3e9, -3e9]


def casts() -> list[Operation]:
    return [
        Operation(
            code=f"({INTEGERS[to][0]})a",
            operands=(source,),
            result=to,
            values=singles([bits_back(value, source) for value in VALUES[source]]),
            says=cast(source, to),
            source=BY_32_BITS if size(to) < 4 else CVT,
        )
        for source, to in itertools.product(FLOATS, INTEGERS)
    ]


def implicit() -> list[Operation]:
    values = tuple(itertools.product([1, -1], [3e9, -3e9, 1.75, NAN]))
    codes = {"[&] { int r = a; return r += b; }()": "int", "[&] { unsigned r = b; return r; }()": "uint"}
    said: list[Callable[[int, float], int]] = [
        lambda a, b: nearest(float(np.float32(a) + np.float32(b)), "float", "int"),
        lambda a, b: nearest(b, "float", "uint"),
    ]
    return [
        Operation(code=code, operands=("int", "float"), result=kind, values=values, says=says, source=CVT)
        for (code, kind), says in zip(codes.items(), said, strict=True)
    ]


def intrinsics() -> list[Operation]:
    return [
        Operation(
            code=f"__{source}2{to}_{mode}(a)",
            operands=(source,),
            result=to,
            values=singles([bits_back(value, source) for value in HALVES]),
            says=lambda value, source=source, to=to, mode=mode: nearest(value, source, to, mode),
            source="CUDA Math API, Type Casting Intrinsics; " + CVT,
        )
        for source, to, mode in itertools.product(("float", "double", "half"), ("int", "uint", "ll", "ull"), WHOLE)
    ]


def bits_back(value: float, kind: str) -> float:
    """Return a value as its type can hold it."""
    return float(value_of(bits(value, kind), kind))


def to_floats() -> list[Operation]:
    values = {
        "int": [16777217, -16777219, 2**31 - 1],
        "uint": [2**32 - 1, 33554435],
        "ll": [2**53 + 1, -(2**63), 2**63 - 1],
        "ull": [2**64 - 1, 2**63 + 2**39 + 1],
    }
    return [
        Operation(
            code=f"({to})a",
            operands=(source,),
            result=to,
            values=singles(numbers),
            says=lambda value, to=to: rounded(Fraction(value), to[0], "rn"),
            source=CVT,
        )
        for (source, numbers), to in itertools.product(values.items(), ("float", "double"))
    ]


def shifts() -> list[Operation]:
    counts = [0, 1, 7, 31, 32, 33, 63, 64, 65, 255]
    operations = []
    for kind, left in itertools.product(("int", "uint", "ll", "ull"), (True, False)):
        numbers = [1, -8 if INTEGERS[kind][2] else 2 ** (8 * size(kind)) - 8]
        values = tuple((number, count) for number in numbers for count in counts)
        sign, type_name = "<<" if left else ">>", f"{'s' if INTEGERS[kind][2] else 'u'}{8 * size(kind)}"
        name = f"shl.b{8 * size(kind)}" if left else f"shr.{type_name}"
        letter = "r" if size(kind) == 4 else "l"
        instruction = f'asm("{name} %0, %1, %2;" : "={letter}"(r) : "{letter}"(a), "r"(b));'
        ptx = f"[&] {{ {INTEGERS[kind][0]} r; {instruction} return r; }}()"
        operations += [
            Operation(
                code=code, operands=(kind, "uint"), result=kind, values=values, says=shifted(kind, left), source=SHIFT
            )
            for code in (f"a {sign} b", ptx)
        ]
    return operations


def funnels() -> list[Operation]:
    low, high = 0x89ABCDEF, 0x01234567
    values = tuple((low, high, count) for count in (0, 1, 16, 31, 32, 33, 255))
    both = high << 32 | low
    says: dict[str, Callable[[int, int, int], int]] = {
        "__funnelshift_l": lambda a, b, count: both << (count % 32) >> 32,
        "__funnelshift_r": lambda a, b, count: both >> (count % 32),
        "__funnelshift_lc": lambda a, b, count: both << min(count, 32) >> 32,
        "__funnelshift_rc": lambda a, b, count: both >> min(count, 32),
    }
    return [
        Operation(
            code=f"{name}(a, b, c)", operands=("uint",) * 3, result="uint", values=values, says=each, source=INTEGER
        )
        for name, each in says.items()
    ]


def products() -> list[Operation]:
    """Return sums of products, which nvcc contracts; functions that are never contracted; denormals."""
    operations = []
    for kind, (code, *signs) in itertools.product(
        ("float", "double"), [("a * b + c", 1, 1), ("a * b - c", 1, -1), ("c - a * b", -1, 1)]
    ):
        operations.append(
            Operation(
                code=code, operands=(kind,) * 3, result=kind, values=summed(kind), says=fused(kind, *signs), source=FMA
            )
        )
    single = np.float32
    apart: dict[str, Callable[..., float]] = {
        "fmaf(a, b, c)": fused("float"),
        "__fadd_rn(__fmul_rn(a, b), c)": lambda a, b, c: float(single(a) * single(b) + single(c)),
    }
    return operations + [
        Operation(code=code, operands=("float",) * 3, result="float", values=summed("float"), says=says, source=IEEE)
        for code, says in apart.items()
    ]


def summed(kind: str) -> tuple[tuple[float, ...], ...]:
    """Return operands of a b + c of which the product has more digits than its type."""
    e = 2.0**-12 if kind == "float" else 2.0**-30
    rows = ((1 + e, 1 + e, -1.0), (1 + e, 1 - e, -1.0), (1 + e, 1 + e, 1.0), (3.0, 2.0**-149, 0.0), (1e-30, 1e-15, 1.0))
    return tuple(tuple(bits_back(x, kind) for x in row) for row in rows)


def remainders() -> list[Operation]:
    values = ((7, 2), (-7, 2), (7, -2), (-7, -2), (-(2**31), 2))
    quotient: Callable[[int, int], int] = lambda a, b: math.trunc(Fraction(a, b))  # noqa: E731
    return [
        Operation(code=code, operands=("int", "int"), result="int", values=values, says=says, source="C++17 [expr.mul]")
        for code, says in {"a / b": quotient, "a % b": lambda a, b: a - b * quotient(a, b)}.items()
    ]


def others() -> list[Operation]:
    """Return what is made of NaN, zeros with a sign, denormals, and numbers that do not fit."""
    pairs = ((NAN, 1.0), (1.0, NAN), (NAN, NAN), (-1.0, 2.0))
    larger: Callable[[float, float], float] = lambda a, b: float(np.fmax(a, b))  # noqa: E731
    smaller: Callable[[float, float], float] = lambda a, b: float(np.fmin(a, b))  # noqa: E731
    small, large, most = (
        ((1e-30, 1e-10), (1e-40, 0.5), (3.0, 1e-38)),
        ((1.0, 2.0**127), (0.0, 2.0**127)),
        float(np.finfo(np.float32).max),
    )
    narrow = singles([65504.0, 65519.0, 65520.0, -1e30, 1e-8, 5.9e-8, 2.98e-8, NAN, 1e30, 1.00390625])

    def one(
        code: str, operand: str, result: str, values: Any, says: Callable[..., Number], source: str = IEEE
    ) -> Operation:
        tried = tuple(tuple(bits_back(x, operand) for x in row) for row in values)
        return Operation(
            code=code, operands=(operand,) * len(tried[0]), result=result, values=tried, says=says, source=source
        )

    return [
        one("fmaxf(a, b)", "float", "float", pairs, larger),
        one("fminf(a, b)", "float", "float", pairs, smaller),
        one("a * b", "float", "float", small, lambda a, b: float(np.float32(a) * np.float32(b))),
        one("__saturatef(a)", "float", "float", singles([NAN, -1.0, 0.25, 7.0]), lambda a: min(1.0, larger(a, 0.0))),
        one("__fdividef(a, b)", "float", "float", large, lambda a, b: 0.0, "CUDA Math API, __fdividef"),
        one("(float)a", "double", "float", singles([1e300, -1e300, 1e-300, 0.1]), lambda a: bits_back(a, "float"), CVT),
        one("__double2float_rz(a)", "double", "float", singles([1e300, -1e300]), lambda a: math.copysign(most, a), CVT),
        one("(__half)a", "float", "half", narrow, lambda a: bits_back(a, "half"), "CUDA Math API, __float2half"),
        one("(__half)a", "double", "half", narrow, lambda a: bits_back(a, "half"), "CUDA Math API, __double2half"),
    ]


OPERATIONS = [
    *casts(),
    *implicit(),
    *intrinsics(),
    *to_floats(),
    *shifts(),
    *funnels(),
    *products(),
    *remainders(),
    *others(),
]


def documented(operation: Operation) -> list[int]:
    """Return the bits that the document says, of each tuple of operands."""
    return [bits(operation.says(*row), operation.result) for row in operation.values]


def kernel(number: int, operation: Operation) -> str:
    names = "abc"[: len(operation.operands)]
    cpp = {kind: known[0] for kind, known in (INTEGERS | FLOATS).items()}
    parameters = "".join(f"const {cpp[kind]}* {name}s, " for kind, name in zip(operation.operands, names, strict=True))
    reads = "".join(
        f"const {cpp[kind]} {name} = {name}s[i]; " for kind, name in zip(operation.operands, names, strict=True)
    )
    head = f'extern "C" __global__ void operation_{number}({parameters}{cpp[operation.result]}* r, int n)'
    return f"{head} {{ const int i = threadIdx.x; if (i < n) {{ {reads}r[i] = {operation.code}; }} }}\n"


def source(operations: Sequence[Operation] = OPERATIONS) -> str:
    """Return a .cu file with a kernel for each operation, by its number."""
    includes = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
    return includes + "".join(kernel(number, operation) for number, operation in enumerate(operations))


def same(got: int, wanted: int, kind: str) -> bool:
    """Return whether bits are the same, where every NaN is equal to every other."""
    if kind not in FLOATS:
        return got == wanted
    values = value_of(got, kind), value_of(wanted, kind)
    return got == wanted or all(map(math.isnan, values))


def computed(device: Any, image: Any, operations: Sequence[Operation] = OPERATIONS) -> list[list[int]]:
    """Launch each operation on an open device, and return the bits of its results."""
    answers, beside = [], None
    for number, operation in enumerate(operations):
        count, kinds = len(operation.values), (*operation.operands, operation.result)
        columns = [
            np.array([bits(x, kind) for x in column], f"u{size(kind)}")
            for column, kind in zip(zip(*operation.values, strict=True), operation.operands, strict=True)
        ]
        columns.append(np.zeros(count, f"u{size(kinds[-1])}"))
        memory = [device.allocate(max(column.nbytes, 16)) for column in columns]
        for address, column in zip(memory, columns, strict=True):
            device.write(address, column)
        beside = device.load(image, f"operation_{number}", beside)
        launch = Launch((1, 1, 1), (64, 1, 1))
        device.launcher(beside, launch, (*map(np.uint64, memory), np.int32(count)))()
        device.read(memory[-1], columns[-1])
        for address in memory:
            device.free(address)
        answers.append(columns[-1].tolist())
    return answers
