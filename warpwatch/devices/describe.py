"""Asks the CUDA driver for the properties of a device."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from warpwatch.catalogue.launches import Capability
from warpwatch.devices.compile.compiler import Target
from warpwatch.devices.info import DeviceInfo, Limits

SOFTWARE_LAUNCH_COST = 2e7  # about 0.05 s (Case.launch_cost)
SOFTWARE_LAUNCHES, SOFTWARE_CHEAP_COST = 3, 2e5  # about 3 ms with all checks
SOFTWARE_NOTE = "a device made of software: its times are the host's and no GPU's"


def _attribute(driver: Any, device: Any, name: str) -> int:
    return int(device.get_attribute(getattr(driver.device_attribute, name)))


def _limits(driver: Any, device: Any) -> Limits:
    def axes(name: str) -> tuple[int, int, int]:
        x, y, z = (_attribute(driver, device, f"MAX_{name}_DIM_{axis}") for axis in "XYZ")
        return x, y, z

    shared = ("MAX_SHARED_MEMORY_PER_BLOCK", "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
    return Limits(
        threads=_attribute(driver, device, "MAX_THREADS_PER_BLOCK"),
        block=axes("BLOCK"),
        grid=axes("GRID"),
        shared_bytes=max(_attribute(driver, device, name) for name in shared),
    )


def describe(driver: Any, device: Any, ordinal: int, compiler: Path | None) -> DeviceInfo:
    """Return the properties of a device of PyCUDA. ``compiler``: given where the driver is the software device's."""
    version = driver.get_driver_version()
    capability = Capability(*device.compute_capability())
    target = timing = Target(capability.arch)
    if compiler:
        target = Target(capability.arch, str(compiler), ("--checks",))
        timing = Target(capability.arch, str(compiler))
    # Memory transfers twice in a clock; the clock is in kHz, the width in bits.
    width = _attribute(driver, device, "GLOBAL_MEMORY_BUS_WIDTH")
    peak = 2e3 * _attribute(driver, device, "MEMORY_CLOCK_RATE") * width / 8
    return DeviceInfo(
        name=device.name(),
        ordinal=ordinal,
        pci_bus_id=device.pci_bus_id(),
        capability=capability,
        driver=f"{version // 1000}.{version % 1000 // 10}",
        multiprocessors=_attribute(driver, device, "MULTIPROCESSOR_COUNT"),
        memory_bytes=int(device.total_memory()),
        l2_bytes=_attribute(driver, device, "L2_CACHE_SIZE"),
        clock_hz=_attribute(driver, device, "CLOCK_RATE") * 1e3,
        peak_bytes_per_second=peak,
        limits=_limits(driver, device),
        target=target,
        timing_target=timing,
        largest_launch_cost=SOFTWARE_LAUNCH_COST if compiler else math.inf,
        has_gpu_clock=compiler is None,
        runs_machine_code=compiler is None,
        finds_faults=compiler is not None,
        launches=SOFTWARE_LAUNCHES if compiler else DeviceInfo.launches,
        cheap_launch_cost=SOFTWARE_CHEAP_COST if compiler else math.inf,
        note=SOFTWARE_NOTE if compiler else "",
        count=driver.Device.count(),
    )
