"""Tests what is taken from a reading because it is not the kernel's, and where rates are worked out without it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kernels import FAMILIES
from tests.project import EARLIER
from warpwatch.catalogue.cases import find_case
from warpwatch.devices.gpu import Device
from warpwatch.devices.kernel import Kernel
from warpwatch.plugin.benchmark import how_times_are_read
from warpwatch.report.ladder import add_shares, tables
from warpwatch.report.tables import kernel_times, medians
from warpwatch.runs.record import read_runs
from warpwatch.timing.measurement import Measured
from warpwatch.timing.timer import SHORTEST, kernel_seconds, measure_overhead

CASE = find_case(FAMILIES, "copy-naive-256-1048576-float32")


def device(readings: list[float | None], *, has_gpu_clock: bool = True) -> Device:
    """Make a device whose readings are given, the last one for ever."""

    def read(start: Any) -> float | None:
        start()
        return readings.pop(0) if len(readings) > 1 else readings[0]

    return cast("Device", SimpleNamespace(info=SimpleNamespace(has_gpu_clock=has_gpu_clock), time=read))


def test_the_overhead_is_the_median_of_readings_with_nothing_between_the_events() -> None:
    assert measure_overhead(device([15e-6, None, 1.28e-6])) == 1.28e-6  # a late one and a lost one do not matter


def test_nothing_is_known_where_every_hold_is_lost_and_without_a_gpus_clock() -> None:
    assert measure_overhead(device([None])) == 0
    assert measure_overhead(device([5e-6], has_gpu_clock=False)) == 0


def test_no_kernel_takes_no_time() -> None:
    assert kernel_seconds(3.26e-6, 1.28e-6) == pytest.approx(1.98e-6)
    assert kernel_seconds(1.2e-6, 1.28e-6) == SHORTEST
    assert kernel_seconds(1e-9, 0.0) == 1e-9  # as it was read where nothing is known


@pytest.mark.parametrize(("overhead", "gbs"), [({}, 2000.0), ({"overhead": 1e-6}, 4000.0)])
def test_a_recorded_rate_is_the_kernels(overhead: dict[str, float], gbs: float) -> None:
    measured = Measured(kernel=cast("Kernel", None), case=CASE, kind="host", facts=overhead)
    seconds = CASE.work.bytes / (gbs * 1e9)
    measured.finish(seconds + overhead.get("overhead", 0.0))
    assert measured.facts["gbs"] == pytest.approx(gbs, rel=1e-3)


def test_a_saved_share_is_the_kernels() -> None:
    def entry(name: str, microseconds: float) -> dict[str, Any]:
        extra = {"overhead": 3e-6} if name == CASE.id else {}
        return {"param": name, "stats": {"median": microseconds * 1e-6}, "extra_info": extra}

    assert CASE.reference_case
    entries = [entry(CASE.id, 7.0), entry(CASE.reference_case, 4.0)]
    reference = find_case(FAMILIES, CASE.reference_case)
    add_shares({CASE.id: CASE, reference.id: reference}, entries)
    ratio = CASE.work.bytes / reference.work.bytes
    assert entries[0]["extra_info"]["share"] == pytest.approx(ratio)


@pytest.mark.slow
def test_tables_show_times_as_they_were_read_and_rates_of_the_kernels() -> None:
    run = read_runs(EARLIER / "nvidia-h200")[-1]
    assert kernel_times([run]) == medians([run])  # a run of before the overhead was recorded
    later = replace(
        run, cases={name: replace(t, facts=replace(t.facts, overhead=1e-3)) for name, t in run.cases.items()}
    )
    name = "matmul-naive-32x32-4096x4096x4096-float32"
    assert kernel_times([later])[name] == pytest.approx(medians([run])[name] - 1e-3)
    old, new = (
        next(line for line in tables([each], FAMILIES).splitlines() if line.startswith("| naive, 32x32")).split("|")
        for each in (run, later)
    )
    assert old[2] == new[2]
    assert float(old[3].replace(",", "")) < float(new[3].replace(",", ""))


@pytest.mark.parametrize(("overhead", "said"), [({}, False), ({"overhead": 0.0}, False), ({"overhead": 2.9e-6}, True)])
def test_a_run_says_what_of_its_times_is_not_the_kernels(overhead: dict[str, float], said: bool) -> None:
    text = how_times_are_read({"cache": "cold", "coldness": 2.1, **overhead})
    assert ("2.9 µs of each time are not the kernel's" in text) is said
