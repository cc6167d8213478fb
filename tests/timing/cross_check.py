"""Compares this suite's times with Nsight Compute's on a GPU, kernel by kernel, both with a cold L2.

``python -m tests.timing.cross_check OUT`` measures each of CASES in PROCESSES processes by events, and as often under
ncu. It prints a table, which also goes to OUT/cross-check.txt: what events read, that without what two events with
nothing between them read (warpwatch/timing/overhead.py), ncu's time, how far apart the two are, and of both the highest
over the lowest median of a process.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from kernels import FAMILIES
from tests.project import ROOT
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.inputs import random_inputs
from warpwatch.devices.builds import compile_build
from warpwatch.devices.gpu import Device, Settings, open_device
from warpwatch.devices.runner import Loaded, load, upload
from warpwatch.explain.profile import find_ncu
from warpwatch.timing.overhead import kernel_seconds, measure_overhead
from warpwatch.timing.timer import GpuTimer

PROCESSES, SAMPLES, WARM_UP = 7, 41, 10
CLOCK_SECONDS = 0.05
MOST_US, MOST_SHARE = 0.5, 0.01  # what the two may differ by: the larger of both counts
CASES = (
    "copy-naive-256-1048576-float32",
    "copy-vectorised-2048-16777216-float32",
    "copy-naive-1024-67108864-float64",
    "transpose-naive-16x16-1000x1000-float32",
    "transpose-padded-16x16-1024x1024-float32",
    "transpose-padded-32x32-2048x2048-float32",
    "transpose-swizzled-64x64-4096x4096-float32",
    "transpose-rows-64x64-8192x8192-float32",
    "matvec-warp-8-1000x10000-float32",
    "matvec-warp-8-4096x4096-float32",
    "matvec-vectorised-8-4096x4096-float64",
    "matvec-vectorised-8-16384x16384-float32",
    "matmul-naive-16x16-128x128x128-float32",
    "matmul-tiled-16x16-128x128x128-float64",
    "matmul-tiled-16x16-512x512x512-float32",
    "matmul-tiled-32x32-1024x1024x1024-float32",
    "matmul-register_tile-128x128-2048x2048x2048-float32",
    "matmul-tiled-32x32-2048x2048x2048-float32",
    "conv2d-naive-16x16-1000x1000x3-float32",
    "conv2d-shared_filter-16x16-1000x1000x5-float32",
    "separable-columns-512x8-8192x8192x5-float32",
)


def loaded_cases(device: Device) -> Iterable[tuple[Case, Loaded]]:
    """Yield each case, ready to be launched, one at a time."""
    for name in CASES:
        case = find_case(FAMILIES, name)
        image = compile_build(case.build, device.info.timing_target)
        loaded = load(device, case, image.path, upload(device, case, random_inputs(case, 0)))
        yield case, loaded
        for array in (*loaded.inputs, *loaded.own.values()):
            array.free()


def read_by_events() -> None:
    """Print each case's median in seconds and the overhead as JSON."""
    device = open_device(Settings(kind="gpu"))
    timer = GpuTimer(device, cold=True)
    overhead, times, symbols = measure_overhead(device), dict[str, float](), set[str]()
    for case, loaded in loaded_cases(device):
        symbols.add(loaded.function.name)
        begin = time.perf_counter()
        while time.perf_counter() - begin < CLOCK_SECONDS:  # until the clock is up
            timer.sample(loaded.start)
        times[case.id] = statistics.median(timer.sample(loaded.start) for _ in range(SAMPLES))
    found = {"overhead": overhead, "times": times, "symbols": sorted(symbols)}
    print(json.dumps({"gpu": device.info.name, "count": device.info.count, **found}))


def launch_all() -> None:
    """Launch each case WARM_UP times, for ncu, which takes the times."""
    device = open_device(Settings(kind="gpu"))
    for _, loaded in loaded_cases(device):
        for _ in range(WARM_UP):
            loaded.start()
            device.finish()


def read_by_ncu(symbols: Sequence[str]) -> dict[str, float]:
    """Return each case's median in seconds by Nsight Compute. ``symbols``: of their kernels."""
    names = "|".join(map(re.escape, symbols))
    command = [
        find_ncu(),
        *("--target-processes", "application-only", "--clock-control", "none", "--cache-control", "all"),
        *("--kernel-name-base", "mangled", "--kernel-name", f"regex:^({names})$"),
        *("--metrics", "gpu__time_duration.sum"),
        *("--csv", "--page", "raw", "--print-units", "base"),
    ]
    rows = list(csv.DictReader(io.StringIO(_run([*command, *_itself("launch")], '"ID"'))))[1:]  # the first has units
    times = [float(row["gpu__time_duration.sum"].replace(",", "")) * 1e-9 for row in rows]
    if len(times) != WARM_UP * len(CASES):
        raise SystemExit(f"ncu saw {len(times)} launches of {WARM_UP * len(CASES)}")
    return {name: statistics.median(times[i * WARM_UP : (i + 1) * WARM_UP]) for i, name in enumerate(CASES)}


def _itself(what: str) -> list[str]:
    return [sys.executable, "-m", "tests.timing.cross_check", f"--{what}"]


def _run(command: Sequence[str], begin: str) -> str:
    """Return what a command prints from the first line on that begins with ``begin``."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith(begin)), None)
    if first is None:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return "\n".join(lines[first:])


def table(read: Sequence[dict[str, Any]], counted: Sequence[dict[str, float]]) -> list[str]:
    """Lines of the comparison; the last one counts the kernels that agree."""
    overhead = statistics.median(each["overhead"] for each in read)
    hosts = f"{read[0]['gpu']}, {read[0]['count']} on its host"
    lines = [f"{hosts}; overhead {overhead * 1e6:.2f} µs, {PROCESSES} processes each, medians in µs"]
    lines.append(f"{'case':<52} {'read':>9} {'kernel':>9} {'ncu':>9} {'apart':>7} {'share':>7} {'spreads':>12}")
    agree = 0
    for name in CASES:
        seconds = statistics.median(each["times"][name] for each in read)
        ours = [kernel_seconds(each["times"][name], each["overhead"]) for each in read]
        theirs = [each[name] for each in counted]
        own, ncu = statistics.median(ours), statistics.median(theirs)
        spreads = " ".join(f"{100 * (max(each) / min(each) - 1):5.1f}%" for each in (ours, theirs))
        apart = own - ncu
        good = abs(apart) <= max(MOST_US * 1e-6, MOST_SHARE * ncu)
        agree += good
        times = " ".join(f"{each * 1e6:9.2f}" for each in (seconds, own, ncu))
        figures = f"{times} {apart * 1e6:+7.2f} {100 * apart / ncu:+6.1f}% {spreads}"
        lines.append(f"{name:<52} {figures}{'' if good else '  <--'}")
    lines.append(f"{agree} of {len(CASES)} within {MOST_US} µs or {100 * MOST_SHARE:g} %")
    return lines


def main(arguments: Sequence[str]) -> None:
    parts: dict[str, Callable[[], None]] = {"--events": read_by_events, "--launch": launch_all}
    if arguments[0] in parts:
        parts[arguments[0]]()
        sys.stdout.flush()
        os._exit(0)  # without the interpreter's own exit, where PyCUDA aborts if a context is left
    read, counted = [], []
    for _ in range(PROCESSES):  # in turns, so that both see the GPU as warm
        read.append(json.loads(_run(_itself("events"), "{")))
        counted.append(read_by_ncu(read[0]["symbols"]))
    lines = table(read, counted)
    print("\n".join(lines))
    Path(arguments[0], "cross-check.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
