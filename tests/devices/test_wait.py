"""Tests how a device waits for a kernel: soon enough for its samples, and not on a core that others need."""

from __future__ import annotations

import time
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from warpwatch.devices.gpu import Device
from warpwatch.devices.machine import DeviceError

QUERY, WAKING = 1e-5, 5e-5  # seconds that a query takes here, and a pause beside what was asked for


def wait(kernel: float, *, has_gpu_clock: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[float, int]:
    """Wait for a kernel of so many seconds; return when its end was seen, and how often it was looked for."""
    now, looks = [0.0], [0]

    def query() -> bool:
        now[0] += QUERY
        looks[0] += 1
        return now[0] >= kernel

    def sleep(seconds: float) -> None:
        now[0] += seconds + WAKING

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", sleep)
    device: Any = Device.__new__(Device)
    device.info = SimpleNamespace(has_gpu_clock=has_gpu_clock)
    device._stop = SimpleNamespace(query=query, synchronize=lambda: None)
    device._patience, device.launch_timeout = 1.0, 1.0
    device._errors = lambda what: nullcontext()
    device._wait()
    return now[0], looks[0]


@pytest.mark.parametrize("kernel", [0.0005, 0.0019, *(0.0021 * 1.3**step for step in range(18))])
def test_the_end_of_a_kernel_is_seen_at_once_or_three_per_cent_late(
    kernel: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, looks = wait(kernel, has_gpu_clock=True, monkeypatch=monkeypatch)
    late = min(0.032 * kernel, 0.0005) + WAKING if kernel > 0.002 else 0.0
    assert seen <= kernel + late + 2 * QUERY
    assert looks * QUERY <= 0.0021 + 0.15 * kernel


@pytest.mark.parametrize("kernel", [0.0003, 0.002, 0.1])
def test_a_kernel_of_the_software_device_has_the_core(kernel: float, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, looks = wait(kernel, has_gpu_clock=False, monkeypatch=monkeypatch)
    assert seen <= kernel * 1.125 + 2 * WAKING + QUERY
    assert looks * QUERY <= 0.15 * kernel


def test_a_kernel_that_does_not_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeviceError, match="did not end within 1 s"):
        wait(2.0, has_gpu_clock=True, monkeypatch=monkeypatch)
