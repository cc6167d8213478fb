"""Shows what is cold besides L2 when Nsight Compute measures a time, by making more cold before each sample.

``python -m tools.cold_parts`` times the kernels of cross_check.py by events, cold as always, and after a kernel
that also replaces what instruction caches hold (code), what TLBs hold (tlb: it reads from every page of 24 GB), or
both. Nsight Compute times the same kernels once. It prints a table of medians in µs, and needs 24 GB of the GPU's
memory.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from tools.by_hand import ROOT, leave
from tools.cross_check import loaded_cases, read_by_ncu
from warpwatch.catalogue.launches import Launch
from warpwatch.devices.compile.compiler import compile_text
from warpwatch.devices.gpu import Device
from warpwatch.devices.machine import nothing
from warpwatch.devices.opening import Settings, open_device
from warpwatch.timing.timer import GpuTimer, kernel_seconds, measure_overhead

SAMPLES, WARM_UP_SECONDS = 31, 0.05
BYTES, PAGE = 24 * 2**30, 2**16  # what is read from, and the smallest page that it may have
CODE = """
extern "C" __global__ void touch(const char* buffer, size_t step, size_t count, int* sink)
{
    int sum = 0;
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x)
        sum += __ldcg(reinterpret_cast<const int*>(buffer + i * step));
    if (sum == 1) // never: the buffer holds zeros
        *sink = sum;
}

template <int length> __device__ __forceinline__ float chain(float x, float y)
{
    if constexpr (length == 0)
        return x;
    else
        return chain<length - 1>(x * y + float(length), y + x);
}

#define TEN(code) code code code code code code code code code code

// 10,000 steps that the compiler cannot fold: more instructions than the caches of a multiprocessor hold.
extern "C" __global__ void long_code(float* sink, float y)
{
    float x = threadIdx.x;
    TEN(TEN(x = chain<100>(x, y); y += 1.5f;))
    if (x == 12345.678f)
        *sink = x;
}
"""


def kernels_before(device: Device) -> dict[str, Callable[[], None]]:
    """Return what is started before the scrub of a sample, by the name of its column."""
    image = compile_text(CODE, "cold.cu", device.info.timing_target).path
    buffer = device.allocate(BYTES)
    device.fill(buffer, BYTES, 0)
    launch = Launch((4 * device.info.multiprocessors, 1, 1), (128, 1, 1))
    pages = (np.uint64(buffer), np.uint64(PAGE), np.uint64(BYTES // PAGE), np.uint64(buffer))
    touch = device.launcher(device.load(image, "touch"), launch, pages)
    code = device.launcher(device.load(image, "long_code"), launch, (np.uint64(buffer), np.float32(1)))

    def both() -> None:
        touch()
        code()

    return {"L2": nothing, "code": code, "tlb": touch, "both": both}


def read_by_events() -> None:
    """Print, as JSON, the median in µs of each case and way, and the kernels' symbols."""
    device = open_device(Settings(kind="gpu"))
    timer, overhead, ways = GpuTimer(device, cold=True), measure_overhead(device), kernels_before(device)
    found, symbols = dict[str, dict[str, float]](), set[str]()
    for case, loaded in loaded_cases(device):
        symbols.add(loaded.function.name)
        begin = time.perf_counter()
        while time.perf_counter() - begin < WARM_UP_SECONDS:  # until the clock is up
            timer.sample(loaded.start)
        samples: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(SAMPLES):  # in turns, so that all drift alike
            for name, cool in ways.items():
                samples[name].append(timer.sample(loaded.start, cool))
        medians = {name: statistics.median(each) for name, each in samples.items()}
        found[case.id] = {name: 1e6 * kernel_seconds(each, overhead) for name, each in medians.items()}
    print(json.dumps({"gpu": device.info.name, "found": found, "symbols": sorted(symbols)}))


def main() -> None:
    if sys.argv[1:] == ["--events"]:
        read_by_events()
        leave()
    command = [sys.executable, "-m", "tools.cold_parts", "--events"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    said = next((line for line in done.stdout.splitlines() if line.startswith("{")), "")
    if not said:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    read = json.loads(said)
    ncu = read_by_ncu(read["symbols"])
    print(f"{read['gpu']}; medians in µs")
    heads = ["ncu", *next(iter(read["found"].values()))]
    print(f"{'case':<52}" + "".join(f"{head:>9}" for head in heads))
    for name, times in read["found"].items():
        print(f"{name:<52}" + "".join(f"{each:9.2f}" for each in (ncu[name].seconds * 1e6, *times.values())))


if __name__ == "__main__":
    main()
