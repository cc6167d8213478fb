"""Lists cases, and runs one by hand: ``warpwatch list``, ``warpwatch run CASE``."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from warpwatch.catalogue.arrays import Array
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import omitted_cases, timed_cases
from warpwatch.catalogue.validation import problems
from warpwatch.cli.keywords import selector
from warpwatch.devices import memory
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.evaluate import evaluate, faults
from warpwatch.devices.gpu import Device, Settings, open_device
from warpwatch.devices.host import Host
from warpwatch.devices.info import SOFTWARE_LAUNCHES, call_problem
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.references import LINE
from warpwatch.devices.runner import (
    Loaded,
    Outcome,
    damage,
    launch_once,
    load,
    require_memory,
    upload,
)
from warpwatch.timing.timer import kernel_seconds, measure_overhead

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
            loaded.restore()
            times.append(machine.time(loaded.start) or float("nan"))
        else:
            loaded.restore()
            begin = time.perf_counter()
            loaded.start()
            times.append(time.perf_counter() - begin)
    return statistics.median(times)


def again(case: Case, seed: int, settings: Settings, launches: int | None = None) -> str:
    """Command that runs this once more, with the options that change what the kernel does."""
    often = "" if launches is None else f" --launches {launches}"
    device = "" if settings.kind == "auto" else f" --device {settings.kind}"
    order = "" if settings.schedule_seed is None else f" --schedule-seed {settings.schedule_seed}"
    return f"python -m warpwatch run {case.id} --seed {seed}{device}{order}{often}"


def run_case(case: Case, *, seed: int, print_arrays: bool, settings: Settings, launches: int | None = None) -> bool:
    """Run one case in this process, so that cuda-gdb and ncu see it. True where the result is right.

    ``launches``: on the same inputs, before those that are timed; None for those of a test.
    """
    machine = Host() if case.variant.on_host else open_device(settings)
    if missing := isinstance(machine, Device) and call_problem(case.variant, machine.info):
        raise DeviceError(f"{case.id}: {missing}")
    refused = machine.info.limits.refusal(case.launch) if isinstance(machine, Device) else None
    if refused:
        raise DeviceError(f"{case.id}: {refused}")
    image = compile_build(case.build, machine.info.target if isinstance(machine, Device) else None)
    memory.require(case, memory.peak_bytes(case, copies=5 if case.variant.on_host or machine.finds_faults else 4))
    require_memory(machine, case)
    repeat = again(case, seed, settings, launches)
    evaluation = evaluate(machine, case, image.path, repeat, seed=seed, launches=launches or launches_of(machine))
    trial, problems = evaluation.trial, evaluation.faults
    print(f"{case.id}: {case.variant.note}")
    print(f"seed      {seed} (repeat with --seed)")
    print(f"launches  {trial.launches} on these inputs (--launches), {len(trial.draws) - 1} on others")
    _print_arrays(case, trial.inputs[0], evaluation.first.results, print_arrays)
    if not case.family.prints:
        loaded = load(machine, case, image.path, upload(machine, case, trial.inputs[0]))
        seconds = measure(loaded)
        if not problems:
            loaded.poison()  # so that only what this launch writes is compared
            last = Outcome(results=launch_once(loaded), damage=damage(loaded, trial.inputs[0]), notes=loaded.notes)
            problems = faults(replace(trial, launches=1, draws=trial.draws[:1]), [last], repeat)
            if problems:
                problems.insert(0, f"{case.id} was right before, and is wrong after the launches that were timed")
        note = machine.info.note if isinstance(machine, Device) else "the host's time"
        beside = measure_overhead(machine) if isinstance(machine, Device) else 0.0
        own = rates(case, kernel_seconds(seconds, beside))
        print(f"GPU time  {seconds * 1e6:,.2f} µs, {own} (median of {TIMED_LAUNCHES}, {note or 'warm'})")
    print("result    WRONG" if problems else "result    right", *problems, sep="\n")
    return not problems


def launches_of(machine: Device | Host) -> int:
    """Return how often a case is launched on the same inputs, as in its test."""
    return machine.info.launches if isinstance(machine, Device) else SOFTWARE_LAUNCHES


def _print_arrays(case: Case, inputs: Mapping[str, Array], got: Mapping[str, Array], wanted: bool) -> None:
    if case.family.prints:
        print("\n".join(map(str, got[LINE])))
        return
    if wanted:
        for name, array in (*inputs.items(), *got.items()):
            print(f"{name} {array.shape} {array.dtype}\n{np.array2string(array, precision=4)}")
