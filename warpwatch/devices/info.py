"""Properties of a device: name, capability, memory, and the limits of a launch."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from warpwatch.catalogue.launches import Capability, Launch
from warpwatch.catalogue.named_arguments import takes
from warpwatch.catalogue.names import size_name
from warpwatch.catalogue.variants import Variant
from warpwatch.devices.compile.builds import returns_text
from warpwatch.devices.compile.compiler import Target
from warpwatch.devices.gpus import slug_of
from warpwatch.devices.machine import Resources

NOTHING = Resources()
SOFTWARE_LAUNCHES = 3
QUICK = 0.1  # of the largest launch that a slow device may take: a benchmark launches each case hundreds of times
HALVED = 32  # a size below that is not one that work grows with, but a filter's or a head's
CLUSTER_BLOCKS = 8  # which every device with clusters takes
MACHINE_CODE = (".cubin", ".ptx", ".fatbin")
OF_SOFTWARE = Capability(9, 0)  # what softcuda/device/driver.cpp says that it is
SHARED = ("MAX_SHARED_MEMORY_PER_BLOCK", "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
# Properties of the software device that differ from a GPU's.
SOFTWARE: dict[str, Any] = {
    "largest_launch_cost": 2e7,  # about 0.05 s (Case.launch_cost)
    "has_gpu_clock": False,
    "runs_machine_code": False,
    "finds_faults": True,
    "launches": SOFTWARE_LAUNCHES,
    "cheap_launch_cost": 2e5,  # about 3 ms with all checks
    "note": "a device made of software: its times are the host's and no GPU's",
}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a launch. ``shared_bytes``: of one block, with opt-in."""

    threads: int
    block: tuple[int, int, int]
    grid: tuple[int, int, int]
    shared_bytes: int

    def refusal(self, launch: Launch, kernel: Resources = NOTHING) -> str | None:
        """Say why a launch exceeds a limit of the device or of the kernel; None where it does not."""
        return next(self._refusals(launch, kernel), None)

    def _refusals(self, launch: Launch, kernel: Resources) -> Iterator[str]:
        threads, blocks = (int(np.prod(sizes, dtype=np.int64)) for sizes in (launch.block, launch.cluster))
        few = "CUDA takes 1 or more: round up, or declare by `valid` which sizes the kernel takes"
        if threads > self.threads:
            yield f"a block of {size_name(launch.block)} has {threads:,} threads; this device allows {self.threads:,}"
        for what, sizes, most in (("block", launch.block, self.block), ("grid", launch.grid, self.grid)):
            for axis, size, limit in zip("xyz", sizes, most, strict=True):
                if not 1 <= size <= limit:
                    allowed = f"this device allows {limit:,}" if size > limit else few
                    yield f"{what}.{axis} would be {size:,}; {allowed}"
        if launch.shared_bytes + kernel.shared_bytes > self.shared_bytes:
            static = f" and {kernel.shared_bytes:,} of the kernel's own" if kernel.shared_bytes else ""
            yield (
                f"a block needs {launch.shared_bytes:,} bytes of dynamic shared memory{static}; "
                f"this device allows {self.shared_bytes:,}"
            )
        if 0 < kernel.threads < threads:
            registers = f" or its {kernel.registers} registers a thread" if kernel.registers else ""
            yield (
                f"a block of {size_name(launch.block)} has {threads:,} threads; the kernel allows "
                f"{kernel.threads:,}, by its __launch_bounds__{registers}"
            )
        if blocks > CLUSTER_BLOCKS:
            yield f"a cluster of {size_name(launch.cluster)} has {blocks:,} blocks; CUDA allows {CLUSTER_BLOCKS}"
        for axis, size, each in zip("xyz", launch.grid, launch.cluster, strict=True):
            if each < 1 or size % each:
                yield f"grid.{axis} is {size:,}, which clusters of {each} blocks along {axis} do not divide"


@dataclass(frozen=True, kw_only=True)
class DeviceInfo:
    """Properties of a device.

    ``count``: how many such devices this process could open. ``driver``: version of the CUDA driver API, such as
    '13.0'. ``peak_bytes_per_second``: of memory, from its clock and bus width; 0 where the driver does not say.
    ``target``: to compile for. ``timing_target``: to compile for where time counts, without the checks that ``target``
    may have. ``largest_launch_cost``: the largest Case.launch_cost that a benchmark runs. ``has_gpu_clock``: its times
    are a GPU's, not the host's. ``runs_machine_code``: it runs what was compiled for GPUs, as a vendor's library is.
    ``finds_faults``: it reports by itself what a kernel does outside its arrays. ``launches``: of a tested case, unless
    an option says otherwise; of 30, one in ten that is wrong is found in 96 of 100 tests. ``cheap_launch_cost``: the
    largest Case.launch_cost of cases that are launched so often. ``note``: a warning for readers of its times.
    """

    name: str
    ordinal: int
    pci_bus_id: str
    capability: Capability
    driver: str
    multiprocessors: int
    memory_bytes: int
    l2_bytes: int
    clock_hz: float
    peak_bytes_per_second: float
    limits: Limits
    target: Target
    timing_target: Target
    largest_launch_cost: float = math.inf
    has_gpu_clock: bool = True
    runs_machine_code: bool = True
    finds_faults: bool = False
    launches: int = 30
    cheap_launch_cost: float = math.inf
    note: str = ""
    count: int = 1

    @property
    def slug(self) -> str:
        """Name of the device's folder, such as 'nvidia-h200' for 'NVIDIA H200'."""
        return slug_of(self.name)

    def capability_problem(self, variant: Variant) -> str:
        """Say which compute capability a variant needs that this device does not have; empty if it runs the variant."""
        if variant.runs_on(self.capability):
            return ""
        newer = "" if variant.own_arch else " or newer"
        needed = f"needs a GPU of compute capability {variant.capability}{newer}"
        return f"{needed}; {self.name} has {self.capability}: run it on such a GPU"

    def is_replaced_by_software(self, variant: Variant) -> bool:
        """Return whether the software device runs a variant that this device does not."""
        return variant.runs_on(OF_SOFTWARE) and not call_problem(variant, replace(self, runs_machine_code=False))


@functools.cache
def _brings(variant: Variant) -> str:
    """Say what a variant brings that only a GPU runs; empty where it has a source."""
    if variant.call:
        return "machine code" if variant.call.needs_gpu else ""
    if not callable(variant.source):
        return "machine code" if str(variant.source).endswith(MACHINE_CODE) else ""
    if not takes(variant.source, "arch") and variant.missing:
        return ""
    try:
        return "" if returns_text(variant) else "machine code"
    except Exception as error:  # a declaration's own function may raise anything
        return f"machine code, or nothing where its source raises {type(error).__name__} ({error})"


def call_problem(variant: Variant, device: DeviceInfo) -> str:
    """Say why a variant cannot run on a device, and what helps; empty where it can."""
    if not device.runs_machine_code and (brings := _brings(variant)):
        return f"needs a GPU: {variant.name} brings {brings}, which {device.name} cannot run"
    if variant.own_arch and not device.runs_machine_code:
        return f"needs a GPU: {variant.name} uses instructions of {variant.own_arch}, which {device.name} has not"
    clusters = variant.cluster != 1 or any(step.cluster != 1 for step in variant.launches)
    if clusters and not device.runs_machine_code:
        return f"needs a GPU of compute capability 9.0 or newer: {device.name} has no thread block clusters"
    return variant.missing


def read_info(driver: Any, device: Any, ordinal: int, compiler: Path | None) -> DeviceInfo:
    """Return the properties of a device of PyCUDA, by its driver. ``compiler``: the software device's."""

    def attribute(name: str) -> int:
        return int(device.get_attribute(getattr(driver.device_attribute, name)))

    version, capability = driver.get_driver_version(), Capability(*device.compute_capability())
    block, grid = ([attribute(f"MAX_{name}_DIM_{axis}") for axis in "XYZ"] for name in ("BLOCK", "GRID"))
    return DeviceInfo(
        name=device.name(),
        ordinal=ordinal,
        pci_bus_id=device.pci_bus_id(),
        capability=capability,
        driver=f"{version // 1000}.{version % 1000 // 10}",
        multiprocessors=attribute("MULTIPROCESSOR_COUNT"),
        memory_bytes=int(device.total_memory()),
        l2_bytes=attribute("L2_CACHE_SIZE"),
        clock_hz=attribute("CLOCK_RATE") * 1e3,
        # Memory transfers twice in a clock; the clock is in kHz, the width in bits.
        peak_bytes_per_second=2e3 * attribute("MEMORY_CLOCK_RATE") * attribute("GLOBAL_MEMORY_BUS_WIDTH") / 8,
        limits=Limits(
            threads=attribute("MAX_THREADS_PER_BLOCK"),
            block=(block[0], block[1], block[2]),
            grid=(grid[0], grid[1], grid[2]),
            shared_bytes=max(map(attribute, SHARED)),
        ),
        target=Target(capability.arch, str(compiler), ("--checks",)) if compiler else Target(capability.arch),
        timing_target=Target(capability.arch, str(compiler)) if compiler else Target(capability.arch),
        count=driver.Device.count(),
        **(SOFTWARE if compiler else {}),
    )
