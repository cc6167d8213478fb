"""Compares half precision on the software device with NumPy's float16 and ml_dtypes' bfloat16, to the bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.project import ROOT
from tests.softcuda.device import Device, assert_same
from warpwatch.devices.compile.compiler import Image

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of NaN and infinity, which are meant
Values = np.ndarray[Any, Any]
TYPES = {"half": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
FRACTION = {"half": 10, "bfloat16": 7}
SMALLEST = {"half": -14, "bfloat16": -126}
LARGEST = {"half": 65504.0, "bfloat16": (2 - 2.0**-7) * 2.0**127}
COUNT = 1_000_000


@pytest.fixture(scope="module", params=TYPES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def image_of(device: Device, kind: str) -> Image:
    return device.image(ROOT / "tests/softcuda/half.cu", {"USE_BFLOAT16": 1} if kind == "bfloat16" else {})


def all_values(kind: str) -> Values:
    return np.arange(65536, dtype=np.uint16).view(TYPES[kind])


def operands(kind: str) -> tuple[Values, Values, Values]:
    """A million triples: of any bits, and as many whose exponents are near each other."""
    rng = np.random.default_rng(7)
    bits = rng.integers(0, 65536, (3, COUNT), dtype=np.uint16)
    near = (bits & np.uint16(0x8000 | (1 << FRACTION[kind]) - 1)) | (
        (np.uint16(64 if kind == "bfloat16" else 12) + (bits >> 11 & 7)) << np.uint16(FRACTION[kind])
    ).astype(np.uint16)
    bits[:, ::2] = near[:, ::2]
    a, b, c = bits.view(TYPES[kind])
    return a, b, c


def floats(kind: str) -> Values:
    """A million float32: of any bits; near the middle of two neighbours of the narrow type; and special ones."""
    rng = np.random.default_rng(8)
    values = rng.integers(0, 2**32, COUNT, dtype=np.uint32)
    wide = all_values(kind)[rng.integers(0, 65536, COUNT // 2)].astype(np.float32).view(np.uint32)
    middle = np.uint32(1 << (22 - FRACTION[kind]))
    values[::2] = wide + middle + rng.integers(-2, 3, COUNT // 2).astype(np.uint32)
    values[:6] = np.array([0, -0.0, np.inf, -np.inf, np.nan, 65520.0], np.float32).view(np.uint32)
    return values.view(np.float32)


def run(device: Device, kind: str, name: str, out: Any, **inputs: Values) -> Values:
    """Run a kernel on arrays a, b, c, f, d and i, of which those that it does not use may be left out."""
    count = next(iter(inputs.values())).size
    arrays = [inputs.get(each, np.zeros(1, np.uint8)) for each in "abcfdi"]
    device = device.unchecked
    return device.computed(image_of(device, kind), name, arrays, count * np.dtype(out).itemsize, out, count)


@pytest.mark.once
def test_every_value_is_widened_exactly(checked: Device, kind: str) -> None:
    values = all_values(kind)
    assert_same(run(checked, kind, "widen", np.float32, a=values), values.astype(np.float32))


def test_a_subnormal_half_is_widened_where_denormals_are_flushed(checked: Device) -> None:
    """It is a normal float32."""
    flushing, values = replace(checked, flags=("-ftz=true",)), all_values("half")
    assert_same(run(flushing, "half", "widen", np.float32, a=values), values.astype(np.float32))


def rounded(values: Values, kind: str, mode: str) -> Values:
    """NumPy's rounding to nearest, moved by one place where the direction asks for it."""
    dtype = TYPES[kind]
    near = values.astype(dtype)
    wide, bits = near.astype(np.float64), near.view(np.uint16).copy()
    exact = values.astype(np.float64)
    magnitude, negative = np.abs(exact), np.signbit(exact)
    too_large, too_small = np.abs(wide) > magnitude, np.abs(wide) < magnitude
    away = {"rn": None, "rz": np.zeros_like(negative), "rd": negative, "ru": ~negative}[mode]
    if away is not None:
        bits = np.where(too_large & ~away, bits - 1, np.where(too_small & away, bits + 1, bits)).astype(np.uint16)
    return bits.view(dtype)


@pytest.mark.once
@pytest.mark.parametrize("mode", ["rn", "rz", "rd", "ru"])
def test_a_million_floats_are_rounded_as_each_mode_says(checked: Device, kind: str, mode: str) -> None:
    values = floats(kind)
    assert_same(run(checked, kind, f"narrow_{mode}", TYPES[kind], f=values), rounded(values, kind, mode))


def nearest(value: Fraction, kind: str) -> float:
    """The value of the narrow type next to an exact number, with ties to even, by integers alone."""
    size = abs(value)
    if size == 0:
        return 0.0
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, SMALLEST[kind]) - FRACTION[kind])
    whole = round(size / unit) * unit  # Python rounds ties to even
    largest = LARGEST[kind]
    return float(np.copysign(float(whole) if whole <= largest else np.inf, float(value > 0) - 0.5))


@pytest.mark.once
def test_doubles_and_integers_are_rounded_once(checked: Device, kind: str) -> None:
    """Also those that float32 or float64 would round to the middle of two neighbours first."""
    rng = np.random.default_rng(9)
    doubles = all_values(kind)[rng.integers(0, 65536, 4000)].astype(np.float64)
    doubles = doubles[np.isfinite(doubles)]
    gaps = np.spacing(np.abs(doubles.astype(TYPES[kind]))).astype(np.float64) / 2
    doubles = doubles + gaps * rng.choice([1, 1 + 2.0**-30, 1 - 2.0**-30, 0.3], doubles.size)
    got = run(checked, kind, "narrow_double", TYPES[kind], d=doubles)
    assert_same(
        got[doubles != 0], np.array([nearest(Fraction(x), kind) for x in doubles[doubles != 0]]).astype(TYPES[kind])
    )
    integers = rng.integers(-(2**63), 2**63 - 1, 2000) >> rng.integers(0, 63, 2000)
    ties = (rng.integers(128, 256, 2000) * 2 + 1 << 54) + rng.integers(-1, 2, 2000)
    for each, name in ((np.concatenate([integers, ties]), "from_ll"), (integers >> 32, "from_int")):
        wanted = np.array([nearest(Fraction(int(x)), kind) for x in each]).astype(TYPES[kind])
        assert_same(run(checked, kind, name, TYPES[kind], i=each), wanted)


def test_numbers_become_integers_by_each_rounding_and_stay_in_range(checked: Device, kind: str) -> None:
    values = all_values(kind)
    wide = values.astype(np.float64)
    for mode, whole in (("rn", np.rint), ("rz", np.trunc), ("rd", np.floor), ("ru", np.ceil)):
        wanted = np.nan_to_num(np.clip(whole(wide), -(2.0**31), 2.0**31 - 1), nan=0).astype(np.int64).astype(np.int32)
        assert (run(checked, kind, f"to_int_{mode}", np.int32, a=values) == wanted).all(), mode
    wanted = np.nan_to_num(np.clip(np.trunc(wide), 0, 65535), nan=0).astype(np.uint16)
    assert (run(checked, kind, "to_ushort", np.uint16, a=values) == wanted).all()


def exactly(operation: Callable[..., Values]) -> Callable[..., Values]:
    """An operation in float64, rounded once: exact enough for sums, products, quotients and roots of 11 bits."""

    def compute(*values: Values) -> Values:
        return operation(*(value.astype(np.float64) for value in values)).astype(values[0].dtype)

    return compute


ARITHMETIC: dict[str, tuple[str, Callable[..., Values]]] = {
    "add": ("ab", exactly(np.add)),
    "subtract": ("ab", exactly(np.subtract)),
    "multiply": ("ab", exactly(np.multiply)),
    "divide": ("ab", exactly(np.divide)),
    "negate": ("a", exactly(np.negative)),
    "absolute": ("a", exactly(np.abs)),
    "root": ("a", exactly(np.sqrt)),
    "reciprocal": ("a", exactly(lambda x: 1 / x)),
    "reciprocal_root": ("a", exactly(lambda x: 1 / np.sqrt(x))),
    "exponential": ("a", exactly(np.exp)),
    "logarithm": ("a", exactly(np.log)),
    "largest": ("ab", exactly(lambda x, y: np.where(x == y, np.where(np.signbit(x), y, x), np.fmax(x, y)))),
    "smallest": ("ab", exactly(lambda x, y: np.where(x == y, np.where(np.signbit(x), x, y), np.fmin(x, y)))),
}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_each_operation_rounds_once(checked: Device, kind: str, name: str) -> None:
    used, operation = ARITHMETIC[name]
    given = dict(zip("abc", operands(kind), strict=True)) if len(used) > 1 else {"a": all_values(kind)}
    got = run(checked, kind, name, TYPES[kind], **given)
    assert_same(got, operation(*(given[each] for each in used)))


@pytest.mark.once
def test_a_fused_product_and_sum_rounds_once(checked: Device, kind: str) -> None:
    """Against exact fractions, with ties that a third number far smaller decides."""
    a, b, c = (each[:30_000].copy() for each in operands(kind))
    one, tiny = TYPES[kind].type(1), TYPES[kind].type(2.0**-24 if kind == "half" else 2.0**-100)
    rng = np.random.default_rng(3)
    steps = 2.0 ** -FRACTION[kind]
    a[:5000] = (1 + steps * rng.integers(0, 1 << FRACTION[kind], 5000)).astype(a.dtype)
    b[:5000] = TYPES[kind].type(1.5)  # half of these products lie in the middle of two neighbours
    c[:5000] = rng.choice([tiny, -tiny, one], 5000)
    got = run(checked, kind, "fma_", TYPES[kind], a=a, b=b, c=c)
    x, y, z = (each.astype(np.float64) for each in (a, b, c))
    wanted = (x * y + z).astype(a.dtype)
    for i in np.flatnonzero(np.isfinite(x * y + z)):
        exact = Fraction(x[i]) * Fraction(y[i]) + Fraction(z[i])
        if exact:
            wanted[i] = nearest(exact, kind)
    assert_same(got, wanted)


def test_comparisons_with_nan_are_false_and_the_unordered_ones_true(checked: Device, kind: str) -> None:
    a, b, _ = operands(kind)
    a[:1000] = b[:1000]
    x, y = a.astype(np.float64), b.astype(np.float64)
    unordered = np.isnan(x) | np.isnan(y)
    wanted = (x < y) + 2 * (x <= y) + 4 * ((x > y) | unordered) + 8 * (x == y) + 16 * ((x != y) & ~unordered)
    assert (run(checked, kind, "less", np.int32, a=a, b=b) == wanted).all()


@pytest.mark.once
def test_pairs_and_atomics(either: Device, kind: str) -> None:
    a, b, c = (each.view(np.uint16) % 0x3FFF for each in operands(kind))  # finite and positive
    a, b, c = (each[:64].astype(np.uint16).view(TYPES[kind]) for each in (a, b, c))
    image = image_of(either, kind)
    rows = either.computed(image, "pairs", [a, b, c], 32 * 10 * 4, TYPES[kind]).reshape(10, 64)
    wide = [each.astype(np.float64) for each in (a, b, c)]
    swapped = a.reshape(32, 2)[:, ::-1].reshape(64)
    mixed = np.where(np.arange(64) % 2, b, a)
    wanted = [wide[0] + wide[1], wide[0] * wide[1], wide[0] * wide[1] + wide[2], a, swapped, mixed, swapped]
    wanted += [np.exp(wide[0]), a.reshape(16, 2, 2)[:, ::-1].reshape(64), wide[0] - wide[1]]
    for row, values in zip(rows, wanted, strict=True):
        assert_same(row, values.astype(TYPES[kind]))
    left = either.computed(image, "atomics", [np.zeros(66, np.uint16)], 33 * 4, TYPES[kind])
    sums, lanes = np.split(left.astype(np.float32).reshape(33, 2), [1])
    assert sums.tolist() == [[32.0, 64.0]]
    assert lanes.tolist() == [[float(min(lane + 1, 31)), 16.0] for lane in range(32)]
