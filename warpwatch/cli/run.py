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
from warpwatch.catalogue.selection import omitted_cases, tested_cases, timed_cases
from warpwatch.catalogue.validation import problems
from warpwatch.cli.options import selector
from warpwatch.devices import memory
from warpwatch.devices.compile.background import compile_all
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.describe import SOFTWARE_LAUNCHES
from warpwatch.devices.gpu import Device, Settings, open_device
from warpwatch.devices.host import Host
from warpwatch.devices.info import call_problem
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.runner import (
    LINE,
    Loaded,
    Outcome,
    damage,
    launch_once,
    load,
    require_memory,
    run_several,
    upload,
)
from warpwatch.devices.trials import faults, plan
from warpwatch.timing.overhead import kernel_seconds, measure_overhead

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
    trial = plan(case, seed, launches=launches or launches_of(machine))
    outcomes = list(run_several(machine, case, image.path, trial.inputs, trial.launches))
    repeat = again(case, seed, settings, launches)
    problems = faults(trial, outcomes, repeat)
    print(f"{case.id}: {case.variant.note}")
    print(f"seed      {seed} (repeat with --seed)")
    print(f"launches  {trial.launches} on these inputs (--launches), {len(trial.draws) - 1} on others")
    _print_arrays(case, trial.inputs[0], outcomes[0].results, print_arrays)
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


LAUNCHES = 2  # of a case, on either pattern of poison


def run_every_case(project: Project, expression: str, settings: Settings) -> int:
    """Run each case whose id matches, and compare with NumPy; returns the exit status.

    Raises NoDevice, DeviceError, CompileError.
    """
    matches = selector(expression)
    machine = open_device(settings)
    cases = [case for case in tested_cases(project.families) if not case.variant.on_host and matches(case.id)]
    cases = [case for case in cases if case.variant.capability <= machine.info.capability]
    cases = [case for case in cases if not call_problem(case.variant, machine.info)]
    compile_all({case.build.id: (case.build, machine.info.target) for case in cases}.values(), lambda done, total: None)
    wrong = 0
    for problem in problems(project.families):
        if matches(problem.id):
            wrong += 1
            print(f"not run: {problem}")
    for case in cases:
        try:
            memory.require(case, memory.peak_bytes(case, copies=3))
            trial = plan(case, 0, launches=LAUNCHES, exact=True, further=False)
            image = compile_build(case.build, machine.info.target)
            outcomes = run_several(machine, case, image.path, trial.inputs, LAUNCHES)
        except DeviceError as error:
            print(error)
            return 2
        if found := faults(trial, outcomes, f"python -m warpwatch run {case.id}"):
            wrong += 1
            print(f"{case.id}: WRONG", *found, sep="\n")
    print(f"{len(cases)} cases of {len({case.build.id for case in cases})} builds, {wrong} wrong")
    return int(wrong > 0)
