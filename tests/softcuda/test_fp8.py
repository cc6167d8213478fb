"""Compares 8-bit floats on the software device with ml_dtypes' float8_e4m3fn and float8_e5m2, to the bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.project import ROOT
from tests.softcuda.device import Device, assert_same

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of NaN and infinity, which are meant
Values = np.ndarray[Any, Any]
TYPES = {"e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "e5m2": np.dtype(ml_dtypes.float8_e5m2)}
LARGEST = {"e4m3": 448.0, "e5m2": 57344.0}
COUNT = 200_000


@pytest.fixture(scope="module", params=TYPES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(checked: Device, kind: str, name: str, given: Values, out: Any, together: int = 1) -> Values:
    """What a kernel makes of an array, whose threads take ``together`` elements each."""
    image = checked.unchecked.image(ROOT / "tests/softcuda/fp8.cu", {"USE_E5M2": 1} if kind == "e5m2" else {})
    return checked.computed(image, name, [given], given.size * np.dtype(out).itemsize, out, given.size // together)


def all_values(kind: str) -> Values:
    return np.arange(256, dtype=np.uint8).view(TYPES[kind])


def floats(kind: str) -> Values:
    """Float32 of any bits; near the middle of two neighbours of the narrow type, and at its ends; and special ones."""
    rng = np.random.default_rng(8)
    values = rng.integers(0, 2**32, COUNT, dtype=np.uint32)
    wide = all_values(kind).astype(np.float32)
    wide = np.sort(wide[np.isfinite(wide)])
    middle = np.concatenate([(wide[1:] + wide[:-1]) / 2, np.array([464, -464, 61440, -61440, 480, 65536], np.float32)])
    near = middle[rng.integers(0, middle.size, COUNT // 2)].view(np.uint32)
    values[::2] = near + rng.integers(-2, 3, COUNT // 2).astype(np.uint32)
    values[:6] = np.array([0, -0.0, np.inf, -np.inf, np.nan, 448.0], np.float32).view(np.uint32)
    return values.view(np.float32)


def rounded(values: Values, kind: str, saturate: bool = False) -> Values:
    """ml_dtypes' rounding of float64, for which it has a path of its own; or of float32 at most."""
    wide = np.clip(values, -LARGEST[kind], LARGEST[kind]) if saturate else values
    return wide.astype(TYPES[kind])


@pytest.mark.once
@pytest.mark.parametrize("flags", [(), ("-ftz=true",)], ids=["", "denormals-flushed"])
def test_every_value_is_widened_exactly(checked: Device, kind: str, flags: tuple[str, ...]) -> None:
    checked, values = replace(checked, flags=flags), all_values(kind)
    wide = values.astype(np.float32)
    for name, together in (("widen", 1), ("widen_pair", 2), ("widen_four", 4)):
        assert_same(run(checked, kind, name, values, np.float32, together), wide)
    assert_same(run(checked, kind, "widen_half", values, np.float16), values.astype(np.float16))
    whole = np.nan_to_num(np.clip(np.trunc(wide.astype(np.float64)), -(2.0**31), 2.0**31 - 1), nan=0).astype(np.int32)
    assert (run(checked, kind, "to_int", values, np.int32) == whole).all()


def test_floats_are_rounded_to_nearest_and_saturate_where_that_is_asked_for(checked: Device, kind: str) -> None:
    values, out = floats(kind), TYPES[kind]
    assert_same(run(checked, kind, "float_nosat", values, out), rounded(values, kind))
    wanted = rounded(values, kind, saturate=True)
    for name, together in (("float_sat", 1), ("float_type", 1), ("float_pair", 2), ("float_four", 4)):
        assert_same(run(checked, kind, name, values, out, together), wanted)


def test_other_types_are_rounded_once(checked: Device, kind: str) -> None:
    out = TYPES[kind]
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    assert_same(run(checked, kind, "half_nosat", halves, out), rounded(halves.astype(np.float32), kind))
    assert_same(run(checked, kind, "half_pair", halves, out, 2), rounded(halves.astype(np.float32), kind, True))
    bfloats = np.arange(65536, dtype=np.uint16).view(ml_dtypes.bfloat16)
    assert_same(run(checked, kind, "bfloat_nosat", bfloats, out), rounded(bfloats.astype(np.float32), kind))
    assert_same(run(checked, kind, "bfloat_pair", bfloats, out, 2), rounded(bfloats.astype(np.float32), kind, True))
    integers = np.arange(-1000, 1000, dtype=np.int32) * np.int32(70)
    assert_same(run(checked, kind, "int_type", integers, out), rounded(integers.astype(np.float32), kind, True))


def test_a_double_next_to_the_middle_of_two_numbers_is_not_rounded_twice(checked: Device, kind: str) -> None:
    """By a float between, which would lie in the middle, it would go the wrong way."""
    one, step = 1.0, 2.0**-3 if kind == "e4m3" else 2.0**-2
    doubles = np.array([one + step / 2 + 2.0**-40, one + step * 1.5 - 2.0**-40, -one - step / 2 - 2.0**-40])
    wanted = np.array([one + step, one + step, -one - step]).astype(TYPES[kind])
    assert_same(run(checked, kind, "double_nosat", doubles, TYPES[kind]), wanted)
