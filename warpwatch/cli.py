"""One case by hand: ``python -m warpwatch list [-k EXPR]``, ``python -m warpwatch run CASE [--print]``."""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time

import numpy as np

from kernels import FAMILIES
from warpwatch.catalogue.declaration import Array, BadCase, Case, find_case
from warpwatch.catalogue.keywords import selector
from warpwatch.catalogue.selection import omitted_cases, timed_cases
from warpwatch.catalogue.validation import problems, require
from warpwatch.devices import memory, vendor
from warpwatch.devices.check import compare, explain
from warpwatch.devices.compiler import CompileError, compile_build
from warpwatch.devices.gpu import Device, NoDevice, Settings, open_device
from warpwatch.devices.host import Host
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.runner import (
    Loaded,
    damage,
    expected,
    launch_once,
    load,
    random_operands,
    require_memory,
    upload,
)
from warpwatch.plugin.options import positive_seconds

TIMED_LAUNCHES = 11


def list_cases(expression: str) -> int:
    """Every case that the benchmark times, then those that it leaves out, and why. Exit status."""
    matches = selector(expression)
    shown = [case for case in timed_cases(FAMILIES) if matches(case.id)]
    omitted = [case for case in omitted_cases(FAMILIES) if matches(case.id)]
    width = max((len(case.id) for case in (*shown, *omitted)), default=0)
    for case in shown:
        print(f"{case.id:<{width}}  {case.variant.note}")
    for case in omitted:
        print(f"{case.id:<{width}}  left out: {case.omitted}")
    print(f"{len(shown)} cases, {len(omitted)} left out", file=sys.stderr)
    wrong = [problem for problem in problems(FAMILIES) if matches(problem.id)]
    for problem in wrong:
        print(f"error: {problem}", file=sys.stderr)
    return 2 if wrong else 0


def rates(case: Case, seconds: float) -> str:
    """GFLOP/s (of integers: Gop/s) and GB/s that the declared work makes of a time."""
    operations, moved = case.work.operations / seconds / 1e9, case.work.bytes / seconds / 1e9
    unit = "Gop/s" if case.dtype == "int32" else "GFLOP/s"
    return ", ".join(f"{rate:,.1f} {name}" for rate, name in ((operations, unit), (moved, "GB/s")) if rate)


def measure(loaded: Loaded) -> float:
    """Median seconds of a few launches: the GPU's own time, L2 warm; on the host the wall clock's."""
    machine, times = loaded.machine, []
    for _ in range(TIMED_LAUNCHES):
        if isinstance(machine, Device):
            times.append(machine.time(loaded.start) or float("nan"))
        else:
            begin = time.perf_counter()
            loaded.start()
            times.append(time.perf_counter() - begin)
    return statistics.median(times)


def command(case: Case, seed: int, settings: Settings) -> str:
    """The command that runs this once more, with the options that change what the kernel does."""
    device = "" if settings.kind == "auto" else f" --device {settings.kind}"
    order = "" if settings.schedule_seed is None else f" --schedule-seed {settings.schedule_seed}"
    return f"python -m warpwatch run {case.id} --seed {seed}{device}{order}"


def run_case(case: Case, seed: int, print_arrays: bool, settings: Settings) -> bool:
    """Run one case in this process, so that cuda-gdb and ncu see it. True where the result is right."""
    machine = Host() if case.variant.on_host else open_device(settings)
    if missing := case.variant.library and vendor.missing(case.variant.library):
        raise DeviceError(f"{case.id}: {missing}")
    refused = machine.info.limits.refusal(case.launch) if isinstance(machine, Device) else None
    if refused:
        raise DeviceError(f"{case.id}: {refused}")
    image = compile_build(case.build, machine.info.target if isinstance(machine, Device) else None)
    memory.require(case, memory.peak_bytes(case, copies=3 if case.variant.on_host or machine.watches else 2))
    require_memory(machine, case)
    operands = random_operands(case, seed)
    loaded = load(machine, case, image.path, upload(machine, case, operands))
    got = launch_once(loaded)
    reference, bound = expected(case, operands)
    again = command(case, seed, settings)
    mismatch, late = compare(got, reference, bound), None

    print(f"{case.id}: {case.variant.note}")
    print(f"seed      {seed} (repeat with --seed)")
    _print_arrays(case, operands, got, print_arrays)
    if loaded.result:
        seconds = measure(loaded)
        if not mismatch:
            loaded.result.poison()  # what is compared is what this launch writes, and no earlier one
            late = compare(launch_once(loaded), reference, bound)
        note = machine.info.note if isinstance(machine, Device) else "the host's time"
        print(
            f"GPU time  {seconds * 1e6:,.2f} µs, {rates(case, seconds)} (median of {TIMED_LAUNCHES}, {note or 'warm'})"
        )
    problems = [f"{case.id} {sentence}" for sentence in damage(loaded, operands)]
    if late:
        problems.append(f"{case.id} was right at its first launch, and is wrong after those that were timed")
    if wrong := mismatch or late:
        problems.append(explain(case, wrong, again))
    print("result    WRONG" if problems else "result    right", *problems, sep="\n")
    return not problems


def _print_arrays(case: Case, operands: tuple[Array, ...], got: Array, wanted: bool) -> None:
    if case.family.result is None:
        print("\n".join(map(str, got)))
        return
    if wanted:
        names = (*case.family.operands(case.shape), case.family.result(case.shape)[0])
        for name, array in zip(names, (*operands, got), strict=True):
            print(f"{name} {array.shape} {array.dtype}\n{np.array2string(array, precision=4)}")


def seed_of(text: str) -> int:
    """A seed of NumPy's generators from the command line; ValueError where it cannot be one."""
    seed = int(text)
    if seed < 0:
        raise ValueError
    return seed


seed_of.__name__ = "seed (0 or more)"  # as argparse calls it


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m warpwatch", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="list the cases that the benchmark times")
    listing.add_argument("-k", default="", metavar="EXPR", help="only cases that match, as pytest -k")
    running = commands.add_parser("run", help="run one case on random data; any shape will do")
    running.add_argument("case", help="such as matmul-tiled-16x16-512x256x512-float64")
    running.add_argument(
        "--device", choices=("auto", "gpu", "software"), default="auto", help="auto: GPU, else software"
    )
    running.add_argument("--schedule-seed", type=int, metavar="N", help="of the software device's order of threads")
    running.add_argument("--print", action="store_true", help="print operands and result, as NumPy shortens them")
    running.add_argument("--seed", type=seed_of, default=None, help="of the random operands; printed when drawn")
    running.add_argument(
        "--launch-timeout", type=positive_seconds, default=10.0, metavar="SECONDS", help="stop a kernel (10)"
    )
    options = parser.parse_args()
    try:
        if options.command == "list":
            return list_cases(options.k)
        seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
        require(FAMILIES, options.case)
        case = find_case(FAMILIES, options.case)
        settings = Settings(options.device, launch_timeout=options.launch_timeout, schedule_seed=options.schedule_seed)
        try:
            return 0 if run_case(case, seed, options.print, settings) else 1
        except DeviceError as error:
            raise DeviceError(f"{error}\n  again     {command(case, seed, settings)}", error.lost) from None
    except (BadCase, CompileError, DeviceError, NoDevice) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
