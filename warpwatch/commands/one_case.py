"""Lists cases, and runs one by hand: ``warpwatch list``, ``warpwatch run CASE``."""

from __future__ import annotations

import statistics
import sys
import time

import numpy as np

from warpwatch.catalogue.declaration import Array, Case
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import omitted_cases, timed_cases
from warpwatch.catalogue.validation import problems
from warpwatch.commands.keywords import selector
from warpwatch.devices import memory
from warpwatch.devices.check import compare, explain
from warpwatch.devices.compiler import compile_build
from warpwatch.devices.gpu import Device, Settings, open_device
from warpwatch.devices.host import Host
from warpwatch.devices.info import library_problem
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

TIMED_LAUNCHES = 11


def list_cases(project: Project, expression: str) -> int:
    """Print every case that the benchmark times, then those that it leaves out, and why; returns the exit status."""
    matches = selector(expression)
    shown = [case for case in timed_cases(project.families) if matches(case.id)]
    omitted = [case for case in omitted_cases(project.families) if matches(case.id)]
    width = max((len(case.id) for case in (*shown, *omitted)), default=0)
    for case in shown:
        print(f"{case.id:<{width}}  {case.variant.note}")
    for case in omitted:
        print(f"{case.id:<{width}}  left out: {case.omitted}")
    print(f"{len(shown)} cases, {len(omitted)} left out", file=sys.stderr)
    wrong = [problem for problem in problems(project.families) if matches(problem.id)]
    for problem in wrong:
        print(f"error: {problem}", file=sys.stderr)
    return 2 if wrong else 0


def rates(case: Case, seconds: float) -> str:
    """Rates of the declared work in a time: GFLOP/s (of integers: Gop/s) and GB/s."""
    operations, moved = case.work.operations / seconds / 1e9, case.work.bytes / seconds / 1e9
    unit = "Gop/s" if case.dtype == "int32" else "GFLOP/s"
    return ", ".join(f"{rate:,.1f} {name}" for rate, name in ((operations, unit), (moved, "GB/s")) if rate)


def measure(loaded: Loaded) -> float:
    """Median seconds of a few launches: the GPU's own time with L2 warm, or on the host the wall clock's."""
    machine, times = loaded.machine, []
    for _ in range(TIMED_LAUNCHES):
        if isinstance(machine, Device):
            times.append(machine.time(loaded.start) or float("nan"))
        else:
            begin = time.perf_counter()
            loaded.start()
            times.append(time.perf_counter() - begin)
    return statistics.median(times)


def again(case: Case, seed: int, settings: Settings) -> str:
    """Command that runs this once more, with the options that change what the kernel does."""
    device = "" if settings.kind == "auto" else f" --device {settings.kind}"
    order = "" if settings.schedule_seed is None else f" --schedule-seed {settings.schedule_seed}"
    return f"python -m warpwatch run {case.id} --seed {seed}{device}{order}"


def run_case(case: Case, *, seed: int, print_arrays: bool, settings: Settings) -> bool:
    """Run one case in this process, so that cuda-gdb and ncu see it. True where the result is right."""
    machine = Host() if case.variant.on_host else open_device(settings)
    library = case.variant.library
    if missing := isinstance(machine, Device) and library and library_problem(library, machine.info):
        raise DeviceError(f"{case.id}: {missing}")
    refused = machine.info.limits.refusal(case.launch) if isinstance(machine, Device) else None
    if refused:
        raise DeviceError(f"{case.id}: {refused}")
    image = compile_build(case.build, machine.info.target if isinstance(machine, Device) else None)
    memory.require(case, memory.peak_bytes(case, copies=3 if case.variant.on_host or machine.finds_faults else 2))
    require_memory(machine, case)
    operands = random_operands(case, seed)
    loaded = load(machine, case, image.path, upload(machine, case, operands))
    got = launch_once(loaded)
    reference, bound = expected(case, operands)
    repeat = again(case, seed, settings)
    mismatch, late = compare(got, reference, bound), None

    print(f"{case.id}: {case.variant.note}")
    print(f"seed      {seed} (repeat with --seed)")
    _print_arrays(case, operands, got, print_arrays)
    if loaded.result:
        seconds = measure(loaded)
        if not mismatch:
            loaded.result.poison()  # so that only what this launch writes is compared
            late = compare(launch_once(loaded), reference, bound)
        note = machine.info.note if isinstance(machine, Device) else "the host's time"
        print(
            f"GPU time  {seconds * 1e6:,.2f} µs, {rates(case, seconds)} (median of {TIMED_LAUNCHES}, {note or 'warm'})"
        )
    problems = [f"{case.id} {sentence}" for sentence in damage(loaded, operands)]
    if late:
        problems.append(f"{case.id} was right at its first launch, and is wrong after those that were timed")
    if wrong := mismatch or late:
        problems.append(explain(case, wrong, repeat))
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
