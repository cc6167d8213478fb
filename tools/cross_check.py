"""Compares this suite's times with Nsight Compute's on a GPU, kernel by kernel, both with a cold L2.

``python -m tools.cross_check OUT`` measures each of CASES in PROCESSES processes by events, and as often under
ncu, twice: with the flush of all caches that ncu makes, and after the scrub of L2 that a sample makes. It prints a
table, which also goes to OUT/cross-check.txt: what events read, that without what two events with nothing between them
read (warpwatch/timing/timer.py), ncu's time, how far apart the two are, of both the highest over the lowest median
of a process, the SM clocks, and ncu's time after the scrub. Each process's own medians go to OUT/cross-check.json.
"""

from __future__ import annotations

import csv
import io
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from kernels import FAMILIES
from tools.by_hand import ROOT, leave, load_case
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.devices.gpu import Device
from warpwatch.devices.machine import nothing
from warpwatch.devices.opening import Settings, open_device
from warpwatch.devices.runner import Loaded
from warpwatch.explain.profile import find_ncu
from warpwatch.timing.timer import ClockStamps, GpuTimer, kernel_seconds, measure_overhead

# With twelve processes the standard error of a difference of two medians is 0.05 µs for most kernels below 60 µs, and
# 0.15 at most (an H100): with seven, kernels that are apart by nearly MOST_US fell on either side of it.
PROCESSES, SAMPLES, LAUNCHES = 12, 41, 20
TIME, CLOCK = "gpu__time_duration.sum", "smsp__cycles_elapsed.avg.per_second"  # metrics of ncu
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
        loaded = load_case(device, case)
        yield case, loaded
        for array in (*loaded.inputs, *loaded.own.values()):
            array.free()


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Medians of a process: seconds of a launch without the overhead, the same as it was read, and SM clock in MHz."""

    seconds: float
    read: float
    mhz: float


def read_by_events() -> None:
    """Print each case's readings, the overhead and the kernels' symbols as JSON."""
    device = open_device(Settings(kind="gpu"))
    timer, stamps = GpuTimer(device, cold=True), ClockStamps(device, 2 * SAMPLES)
    overhead, readings, symbols = measure_overhead(device), dict[str, object](), set[str]()
    for case, loaded in loaded_cases(device):
        symbols.add(loaded.function.name)
        begin = time.perf_counter()
        while time.perf_counter() - begin < CLOCK_SECONDS:  # until the clock is up
            timer.sample(loaded.start)
        stamps.clear()
        samples = []
        for _ in range(SAMPLES):
            stamps.stamp()
            samples.append(timer.sample(loaded.start))
            stamps.stamp()
        seconds, mhz = statistics.median(samples), statistics.median(stamps.megahertz())
        readings[case.id] = asdict(Reading(seconds=kernel_seconds(seconds, overhead), read=seconds, mhz=mhz))
    found = {"overhead": overhead, "readings": readings, "symbols": sorted(symbols)}
    print(json.dumps({"gpu": device.info.name, "count": device.info.count, **found}))


def launch_all() -> None:
    """Launch each case LAUNCHES times, for ncu, which takes the times and makes the caches cold."""
    _launch_all(open_device(Settings(kind="gpu")), nothing)


def scrub_and_launch_all() -> None:
    """Launch each case LAUNCHES times, each after the scrub of a sample, for ncu, which takes the times."""
    device = open_device(Settings(kind="gpu"))
    _launch_all(device, GpuTimer(device, cold=True).scrub)


def _launch_all(device: Device, before: Callable[[], None]) -> None:
    for _, loaded in loaded_cases(device):
        for _ in range(LAUNCHES):
            before()
            loaded.start()
            device.finish()


def read_by_ncu(symbols: Sequence[str], *, scrub: bool = False) -> dict[str, Reading]:
    """Return each case's reading by Nsight Compute. ``symbols``: of their kernels.

    ``scrub``: L2 is made cold as before a sample, in place of ncu's flush of all caches, those of instructions too.
    """
    names = "|".join(map(re.escape, symbols))
    command = [
        find_ncu(),
        *("--target-processes", "application-only", "--clock-control", "none"),
        *("--cache-control", "none" if scrub else "all"),
        *("--kernel-name-base", "mangled", "--kernel-name", f"regex:^({names})$"),
        *("--metrics", f"{TIME},{CLOCK}", "--csv", "--page", "raw", "--print-units", "base"),
    ]
    printed = _run([*command, *_itself("scrub" if scrub else "launch")], '"ID"')
    rows = list(csv.DictReader(io.StringIO(printed)))[1:]  # the first has units
    if len(rows) != LAUNCHES * len(CASES):
        raise SystemExit(f"ncu saw {len(rows)} launches of {LAUNCHES * len(CASES)}")
    found = {}
    for number, name in enumerate(CASES):
        own = rows[number * LAUNCHES : (number + 1) * LAUNCHES]
        seconds, hertz = (statistics.median(float(row[key].replace(",", "")) for row in own) for key in (TIME, CLOCK))
        found[name] = Reading(seconds=seconds * 1e-9, read=seconds * 1e-9, mhz=hertz * 1e-6)
    return found


def _itself(what: str) -> list[str]:
    return [sys.executable, "-m", "tools.cross_check", f"--{what}"]


def _run(command: Sequence[str], begin: str) -> str:
    """Return what a command prints from the first line on that begins with ``begin``."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith(begin)), None)
    if first is None:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return "\n".join(lines[first:])


@dataclass(frozen=True, kw_only=True)
class Readings:
    """Readings of each process by case: by events, by ncu with its own flush, and by ncu after the scrub of samples."""

    events: Sequence[dict[str, Reading]]
    ncu: Sequence[dict[str, Reading]]
    scrubbed: Sequence[dict[str, Reading]]


def table(gpu: str, overhead: float, readings: Readings) -> str:
    """Lines of the comparison; the last ones count the kernels that agree."""
    lines = [f"{gpu}; overhead {overhead * 1e6:.2f} µs, {PROCESSES} processes each, medians in µs"]
    heads = ("read", "kernel", "ncu", "apart", "share", "spread", "ncu's", "MHz", "ncu's", "scrubbed", "apart")
    lines.append(f"{'case':<52}" + "".join(f"{head:>9}" for head in heads))
    agree, at_one_clock, agree_scrubbed = 0, 0, 0
    for name in CASES:
        own, ncu, after = ([each[name] for each in side] for side in (readings.events, readings.ncu, readings.scrubbed))
        read, kernel, other = (statistics.median(each) for each in (_all(own, "read"), _all(own), _all(ncu)))
        clocks = [statistics.median(_all(side, "mhz")) for side in (own, ncu)]
        spreads = (f"{100 * (max(_all(side)) / min(_all(side)) - 1):8.1f}%" for side in (own, ncu))
        scrubbed = statistics.median(_all(after))
        agree += _is_near(kernel, other)
        at_one_clock += abs(kernel - other * clocks[1] / clocks[0]) <= _most(other)
        agree_scrubbed += _is_near(kernel, scrubbed)
        apart = kernel - other
        times = "".join(f"{each * 1e6:9.2f}" for each in (read, kernel, other))
        figures = f"{times}{apart * 1e6:+9.2f}{100 * apart / other:+8.1f}%{''.join(spreads)}"
        figures += f"{clocks[0]:9,.0f}{clocks[1]:9,.0f}{scrubbed * 1e6:9.2f}{(kernel - scrubbed) * 1e6:+9.2f}"
        lines.append(f"{name:<52}{figures}{'' if _is_near(kernel, other) else '  <--'}")
    within = f"of {len(CASES)} within {MOST_US} µs or {100 * MOST_SHARE:g} %"
    lines.append(f"{agree} {within} of ncu with its own flush; {at_one_clock} where ncu's time is taken at our clock")
    lines.append(f"{agree_scrubbed} {within} of ncu after the scrub of samples")
    return "\n".join(lines)


def _most(seconds: float) -> float:
    return max(MOST_US * 1e-6, MOST_SHARE * seconds)


def _is_near(kernel: float, other: float) -> bool:
    return abs(kernel - other) <= _most(other)


def _all(readings: Sequence[Reading], name: str = "seconds") -> list[float]:
    return [getattr(reading, name) for reading in readings]


def main(arguments: Sequence[str]) -> None:
    parts: dict[str, Callable[[], None]] = {
        "--events": read_by_events,
        "--launch": launch_all,
        "--scrub": scrub_and_launch_all,
    }
    if len(arguments) != 1:
        raise SystemExit("say in which folder the table is to be kept: python -m tools.cross_check OUT")
    if arguments[0] in parts:
        parts[arguments[0]]()
        leave()
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)  # before minutes of measuring
    read, ours, theirs, scrubbed = [], [], [], []
    for _ in range(PROCESSES):  # in turns, so that both see the GPU as warm
        read.append(json.loads(_run(_itself("events"), "{")))
        ours.append({name: Reading(**each) for name, each in read[-1]["readings"].items()})
        theirs.append(read_by_ncu(read[0]["symbols"]))
        scrubbed.append(read_by_ncu(read[0]["symbols"], scrub=True))
    overhead = statistics.median(each["overhead"] for each in read)
    readings = Readings(events=ours, ncu=theirs, scrubbed=scrubbed)
    text = table(f"{read[0]['gpu']}, {read[0]['count']} on its host", overhead, readings)
    print(text)
    (folder / "cross-check.txt").write_text(text + "\n")
    about = {"gpu": read[0]["gpu"], "overheads": [each["overhead"] for each in read]}
    (folder / "cross-check.json").write_text(json.dumps(about | asdict(readings)))


if __name__ == "__main__":
    main(sys.argv[1:])
