"""What a device says of itself: name, capability, memory, and what a launch may ask for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from warpwatch.catalogue.declaration import Capability, Launch, size_name
from warpwatch.devices.compiler import Target


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a launch may ask for."""

    threads: int
    block: tuple[int, int, int]
    grid: tuple[int, int, int]
    shared_bytes: int  # of a block, with opt-in

    def refusal(self, launch: Launch) -> str | None:
        """Why a launch of this geometry cannot be, or None."""
        threads = int(np.prod(launch.block, dtype=np.int64))
        if threads > self.threads:
            return f"a block of {size_name(launch.block)} has {threads:,} threads; this device allows {self.threads:,}"
        for what, sizes, most in (("block", launch.block, self.block), ("grid", launch.grid, self.grid)):
            for axis, size, limit in zip("xyz", sizes, most, strict=True):
                if size > limit:
                    return f"{what}.{axis} would be {size:,}; this device allows {limit:,}"
        if launch.shared_bytes > self.shared_bytes:
            return (
                f"a block needs {launch.shared_bytes:,} bytes of dynamic shared memory; "
                f"this device allows {self.shared_bytes:,}"
            )
        return None


@dataclass(frozen=True, kw_only=True)
class DeviceInfo:
    """What a device says of itself."""

    name: str
    ordinal: int
    pci_bus_id: str
    capability: Capability
    driver: str  # version of the CUDA driver API, '13.0'
    multiprocessors: int
    memory_bytes: int
    l2_bytes: int
    clock_hz: float
    peak_bytes_per_second: float  # of memory, by its clock and bus width; 0 where the driver does not say
    limits: Limits
    target: Target  # to compile for
    timing_target: Target  # where time counts: without what a target may do to find faults
    largest_launch_cost: float = math.inf  # the most that a benchmark may ask of one launch (Case.launch_cost)
    has_gpu_clock: bool = True  # its times are a GPU's, not the host's
    finds_faults: bool = False  # it reports by itself what a kernel does outside its arrays
    note: str = ""  # what a reader of its times must know

    @property
    def slug(self) -> str:
        """The name as a folder's: 'NVIDIA H200' -> 'nvidia-h200'."""
        return "-".join(self.name.lower().split()).replace("/", "-")
