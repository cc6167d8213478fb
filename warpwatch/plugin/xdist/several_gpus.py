"""Benchmark in processes of xdist (-n, --tx): each has a GPU of its own, and hands its results to the first.

Each process measures the cases that xdist gives it and judges them by itself, with the noise floors and the process
effect of its own GPU; pairs stay on one GPU. The first process joins the results (``BenchPlugin._join``,
``Comparison.join``) and writes one saved run.
"""

from __future__ import annotations

import pickle
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from warpwatch.compare.comparison import Part
from warpwatch.devices.gpu import NoDevice
from warpwatch.devices.info import DeviceInfo
from warpwatch.plugin.pytest_benchmark_bridge import take_over_measured
from warpwatch.plugin.xdist.processes import hand_back, handed, handed_back

SLUG = "warpwatch_slug"  # handed to the others: the model of the first process's GPU
PART = "warpwatch_part"  # handed back to the first one
NOT_SHARED = (
    "times are taken under -n only where bench/ is named, so that each process has a GPU of its own: leave -n out"
)


def objection_to_parts(config: pytest.Config, device: DeviceInfo | NoDevice) -> str:
    """Refuse more processes than GPUs; empty where each gets its own. The software device's times prove nothing."""
    asked = int(config.getoption("numprocesses", None) or 0)
    if not isinstance(device, DeviceInfo) or not device.has_gpu_clock or asked <= device.count:
        return ""
    cure = f"give -n {device.count}" if device.count > 1 else "leave -n out"
    gpus = "there is one GPU" if device.count == 1 else f"there are {device.count} GPUs"
    return f"-n {asked}: {gpus} here, and processes that share a GPU would time each other: {cure}"


def objection_to_model(config: pytest.Config, gpu: Mapping[str, Any]) -> str:
    """Refuse, in a process of xdist, a GPU of another model than the first process has; empty where they are alike."""
    wanted, here = handed(config, SLUG) or "", gpu.get("slug", "")
    if wanted in ("", here):
        return ""
    return (
        f"{platform.node()} has {here or 'no GPU'} and the first process {wanted}: one run measures GPUs of one model; "
        "leave this host out, or run it by itself"
    )


def show_all(config: pytest.Config, parts: Sequence[Part], order: Sequence[str]) -> None:
    """Give pytest-benchmark the cases of all parts, in the order of the list of cases."""
    place = {name: number for number, name in enumerate(order)}
    documents = [documents for part in parts for documents in part.benchmarks]
    documents.sort(key=lambda saved_and_shown: place.get(saved_and_shown[0]["param"], len(place)))
    take_over_measured(config, documents)


def send(config: pytest.Config, part: Part) -> None:
    """Hand a part to the first process when this one ends."""
    hand_back(config, PART, pickle.dumps(part))


def received(node: Any) -> Part | None:
    """Return the part of a process that has ended; None where it died before."""
    sent = handed_back(node, PART)
    part = pickle.loads(sent) if sent else None
    return part if isinstance(part, Part) else None
