"""Tests of guard bands and poison, on the host: writes outside of arrays are found and named."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from kernels import FAMILIES
from tests.project import ROOT
from tests.written import BYTES, compile_planted, compile_written
from warpwatch.catalogue.arrays import Array
from warpwatch.catalogue.cases import find_case
from warpwatch.catalogue.inputs import exact_inputs, random_inputs
from warpwatch.catalogue.names import BadCase
from warpwatch.devices import host as host_module
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.host import Host
from warpwatch.devices.machine import DeviceError, GuardedArray
from warpwatch.devices.references import expected
from warpwatch.devices.runner import Outcome, run_several

CASE = find_case(FAMILIES, "matmul-serial-host-7x5x9-float64")


@pytest.mark.parametrize("offset", [0, 1, 3])
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64"])
def test_an_array_that_is_set_is_unharmed_within_its_bands(dtype: str, offset: int) -> None:
    array = GuardedArray(Host(), "A", (3, 5), dtype, offset, operand=True, filled=False)
    ctypes.memset(array.address - 8, 1, array.nbytes + 16)
    values = np.arange(15).astype(dtype).reshape(3, 5)
    array.set(values)
    assert np.array_equal(array.read(), values)
    assert array.overrun() is None
    ctypes.memset(array.address - 1, 1, 1)
    assert array.overrun()


def test_a_large_fill_leaves_no_byte_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_module, "FILLED_AT_ONCE", 8)
    host = Host()
    address = host.allocate(32)
    host.fill(address, 32, 0)
    host.fill(address + 4, 23, 0x04030201)
    got = np.empty(32, np.uint8)
    host.read(address, got)
    assert got.tolist() == [0] * 4 + [1, 2, 3, 4] * 5 + [1, 2, 3] + [0] * 5


def planted(folder: Path, old: str, new: str) -> Path:
    """Return the serial matmul with a fault."""
    return compile_planted(folder, ROOT / "kernels/matmul/serial.cpp", old, new, CASE.build.all_macros).path


def launched(image: Path, inputs: Mapping[str, Array]) -> Outcome:
    return next(run_several(Host(), CASE, image, [inputs], 1))


@pytest.mark.parametrize(
    ("old", "new", "damage"),
    [
        ("row < m", "row <= m", "wrote 9 element(s) after C, the nearest 1 after its end"),
        ("c_row[col] = 0;", "c_row[col] = 0, ((scalar_t*)b)[1] = 99;", "changed its operand B: "),
    ],
)
def test_a_write_outside_the_result_is_seen(tmp_path: Path, old: str, new: str, damage: str) -> None:
    outcome = launched(planted(tmp_path, old, new), exact_inputs(CASE, 0))
    assert len(outcome.damage) == 1
    assert outcome.damage[0].startswith(damage)


def test_an_element_that_nobody_wrote_is_poison(tmp_path: Path) -> None:
    image = planted(tmp_path, "row = 0; row < m", "row = 1; row < m")
    outcome = launched(image, random_inputs(CASE, 0))
    assert np.isnan(outcome.first[0]).all()
    assert not np.isnan(outcome.first[1:]).any()


def test_inputs_that_do_not_fit_are_refused() -> None:
    inputs = random_inputs(CASE, 0)
    a, b = inputs["A"], inputs["B"]
    image = compile_build(CASE.build, None).path
    with pytest.raises(BadCase, match=r"B must be \(5, 9\) of float64, not \(9, 5\) of float64"):
        launched(image, {"A": a, "B": b.T})
    with pytest.raises(BadCase, match=r"A must be .* of float64, not .* of float32"):
        launched(image, {"A": a.astype(np.float32), "B": b})
    with pytest.raises(BadCase, match=r"takes 2 inputs \(A, B\), not 1"):
        launched(image, {"A": a})


def test_more_memory_than_there_is_is_refused_before_it_is_touched() -> None:
    with pytest.raises(DeviceError, match=r"not enough memory: 1,000,000,000.00 GB are needed"):
        Host().require(10**18)


def test_a_later_launch_that_is_wrong_is_returned_and_right_ones_are_not(tmp_path: Path) -> None:
    inputs, further = exact_inputs(CASE, 0), exact_inputs(CASE, 1)
    image = compile_build(CASE.build, None).path
    first, other = run_several(Host(), CASE, image, [inputs, further], 5)
    assert (first.launch, first.draw, other.launch, other.draw) == (1, 0, 6, 1)
    assert np.array_equal(other.first, expected(CASE, further)["C"].reference)
    body = "row = 0; row < m"
    late = planted(tmp_path, body, "row = [] { static int n; return n++ == 3; }(); row < m")
    outcomes = list(run_several(Host(), CASE, late, [inputs], 5))
    assert [outcome.launch for outcome in outcomes] == [1, 4]
    assert np.isnan(outcomes[1].first[0]).all()


def test_a_write_that_the_first_poison_hides_is_found_in_the_second_launch(tmp_path: Path) -> None:
    case = find_case((BYTES,), "bytes-plain-host-9-int8")
    file = tmp_path / "plain.cpp"
    file.write_text(
        'extern "C" void bytes_plain(const signed char* x, signed char* y, int n)'
        "{ for (int i = 0; i <= n; i++) y[i] = i < n ? x[i] : 127; }"
    )
    image = compile_written(file, case.build.all_macros, None).path
    outcomes = list(run_several(Host(), case, image, [random_inputs(case, 0)], 2))
    assert [outcome.damage for outcome in outcomes] == [
        (),
        ("wrote 1 element(s) after y, the nearest 1 after its end",),
    ]
