"""Runs one case by hand, or every kernel once so that a tool can watch it: ``warpwatch run``.

For instance ``compute-sanitizer --tool racecheck python -m warpwatch run --all``. Each build runs on the shapes that
its family is tested on, as the tests of correctness do in processes of their own.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

from warpwatch.arguments import positive_integer, positive_seconds
from warpwatch.catalogue.arrays import Array
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.names import BadCase
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import tested_cases
from warpwatch.catalogue.validation import problems, require
from warpwatch.cli.json_file import JsonFile, add_json
from warpwatch.cli.options import add_device, add_keywords, case_ids, completed, selector
from warpwatch.devices import host_memory
from warpwatch.devices.accepting import accepted_of
from warpwatch.devices.compile.background import compile_all
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.compile.compiler import CompileError
from warpwatch.devices.evaluate import Evaluation, Trial, evaluate, faults, judge, plan
from warpwatch.devices.foreign_text import plain_lines
from warpwatch.devices.gpu import Device
from warpwatch.devices.host import Host
from warpwatch.devices.info import SOFTWARE_LAUNCHES, DeviceInfo, call_problem
from warpwatch.devices.machine import DeviceError, Machine, in_parts
from warpwatch.devices.mismatch import WrongResult
from warpwatch.devices.opening import Settings, open_device
from warpwatch.devices.references import LINE
from warpwatch.devices.runner import (
    Loaded,
    Outcome,
    damage,
    launch_once,
    load,
    require_memory,
    run_several,
    upload,
)
from warpwatch.runs.faults import Place, of_error
from warpwatch.runs.record import CaseRecord, Facts, Gpu, TestRecord, facts_of
from warpwatch.runs.record import Outcome as Tested
from warpwatch.timing.timer import kernel_seconds, measure_overhead

SECONDS = {False: 10.0, True: 300.0}  # limit of a launch: of one case, and under a sanitizer, which is slow
LAUNCHES = 2  # with --all: of a case, on either pattern of poison
TIMED_LAUNCHES = 11
UNPROVED = "only `pytest bench` proves that each launch does its work"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    completed(
        parser.add_argument("case", nargs="?", default="", help="such as matmul-tiled-16x16-512x256x512-float64"),
        case_ids,
    )
    parser.add_argument(
        "--all", dest="every", action="store_true", help="every tested case once, for a tool such as compute-sanitizer"
    )
    add_keywords(parser, "with --all: only cases that match, as pytest -k")
    add_device(parser)
    add_json(parser)
    parser.add_argument("--schedule-seed", type=int, metavar="N", help="seed of the software device's order of threads")
    parser.add_argument(
        "--print", dest="print_arrays", action="store_true", help="print operands and result, as NumPy shortens them"
    )
    parser.add_argument("--seed", type=_seed, help="seed of the random operands (drawn and printed)")
    parser.add_argument(
        "--launches", type=positive_integer, metavar="N", help="on the same inputs (30; on the software device 3)"
    )
    parser.add_argument(
        "--launch-timeout", type=positive_seconds, metavar="SECONDS", help="limit of a kernel (10; --all: 300)"
    )


def _seed(text: str) -> int:
    """Read a seed of NumPy's generators. Raises ValueError."""
    seed = int(text)
    if seed < 0:
        raise ValueError
    return seed


_seed.__name__ = "seed (0 or more)"  # argparse prints this name in its messages


def run(
    project: Project,
    *,
    case: str,
    every: bool,
    keywords: str,
    device: str,
    schedule_seed: int | None,
    print_arrays: bool,
    seed: int | None,
    launches: int | None,
    launch_timeout: float | None,
    json: JsonFile | None = None,
) -> int:
    """Run one case or all of them; returns the exit status. Raises BadCase, NoDevice, DeviceError or CompileError."""
    json = json or JsonFile()
    json.root, json.checks = project.root, True
    json.record = replace(json.record, settings={"device": device} if device != "auto" else {})
    if every == bool(case):
        raise BadCase("give the id of one case, or --all; `warpwatch list` shows the ids")
    limit = launch_timeout or SECONDS[every]
    settings = Settings(kind=device, launch_timeout=limit, schedule_seed=schedule_seed)
    if every:
        return _run_every_case(project, keywords, settings, json)
    require(project.families, case)
    chosen = find_case(project.families, case)
    seed = random.SystemRandom().randrange(2**32) if seed is None else seed
    again = _again(chosen, seed, settings, launches)
    try:
        return int(
            not run_case(chosen, seed=seed, print_arrays=print_arrays, settings=settings, launches=launches, json=json)
        )
    except DeviceError as error:
        json.add(_tested(chosen, again, error))
        raise DeviceError(f"{error}\n  again     {again}", error.lost) from None
    except CompileError as error:
        json.add(_tested(chosen, again, error))
        raise


def run_case(
    case: Case,
    *,
    seed: int,
    print_arrays: bool,
    settings: Settings,
    launches: int | None = None,
    json: JsonFile | None = None,
) -> bool:
    """Run one case in this process, so that cuda-gdb and ncu see it. True where the result is right.

    ``launches``: on the same inputs, before those that are timed; None for those of a test. ``json``: takes the result.
    """
    json = json or JsonFile()
    machine = Host() if case.variant.on_host else open_device(settings)
    info = machine.info if isinstance(machine, Device) else None
    json.record = replace(json.record, gpu=Gpu(**facts_of(info)) if info else json.record.gpu)
    if info and (refused := call_problem(case.variant, info) or info.limits.refusal(case.launch)):
        raise DeviceError(f"{case.id}: {refused}")
    image = compile_build(case.build, info.target if info else None)
    copies = 5 if case.variant.on_host or machine.finds_faults else 4
    host_memory.require(case, host_memory.peak_bytes(case, copies=copies))
    require_memory(machine, case)
    repeat = _again(case, seed, settings, launches)
    trial = plan(case, seed=seed, launches=launches or (info.launches if info else SOFTWARE_LAUNCHES))
    tested, first = _evaluate(machine, trial, image.path, repeat)
    problems = tested.faults
    print(f"{case.id}: {case.variant.note}\nseed      {seed} (repeat with --seed)")
    print(f"launches  {trial.launches} on these inputs (--launches), {len(trial.draws) - 1} on others")
    _print_arrays(case, trial.inputs[0], first.results, print_arrays)
    if not case.family.prints:
        loaded = load(machine, case, image.path, upload(machine, case, trial.inputs[0]))
        json.record = replace(json.record, cases={case.id: _time(loaded, info)})
        problems = problems or _late_problems(loaded, trial, repeat)
    accepted = accepted_by(machine, case)
    _print_verdict(tested.remark.removeprefix(f"{case.id}: "), accepted, problems)
    launched = f"seed {seed}, {trial.launches} launches on these inputs, {len(trial.draws) - 1} on others"
    json.add(_tested(case, repeat, WrongResult.of(problems) if problems else None, launched, *accepted))
    return not problems


def _print_verdict(remark: str, accepted: Sequence[str], problems: Sequence[str]) -> None:
    lines = [f"remark    {remark}"] if remark else []
    lines += [f"accepted  {each}" for each in accepted]
    print(*lines, "result    WRONG" if problems else "result    right", *problems, sep="\n")


def accepted_by(machine: Machine, case: Case) -> list[str]:
    """Return the findings of a case that were accepted, each with its reason."""
    keys = (machine.accepted() if isinstance(machine, Device) else None) or ()
    return [str(each) for each in (accepted_of(case.build) if keys else ()) if each.key in keys]


def _evaluate(machine: Machine, trial: Trial, image: Path, repeat: str) -> tuple[Evaluation, Outcome]:
    """Launch a trial; return also the outcome of the first launch. What was uploaded is freed on return."""
    outcomes = run_several(machine, trial.case, image, trial.inputs, trial.launches)
    first = next(outcomes)
    return judge(trial, chain([first], outcomes), repeat), first


def _late_problems(loaded: Loaded, trial: Trial, repeat: str) -> list[str]:
    """Launch a case once more after it was timed, and describe what is wrong then."""
    loaded.poison()  # so that only what this launch writes is compared
    last = Outcome(results=launch_once(loaded), damage=damage(loaded, trial.inputs[0]), notes=loaded.notes)
    problems = faults(replace(trial, launches=1, draws=trial.draws[:1]), [last], repeat)
    late = f"{trial.case.id} was right before, and is wrong after the launches that were timed"
    return [late, *problems] if problems else []


def _tested(case: Case, again: str, error: Exception | None, *remarks: str) -> TestRecord:
    """Return the record of a case that was run; ``error``: what is wrong, or None."""
    place, reason = Place.of_kernel(case), plain_lines(str(error)) if error else ""
    return TestRecord(
        id=case.id,
        case=case.id,
        kernel=f"{case.family.name}-{case.variant.name}",
        outcome=Tested.FAILED if error else Tested.PASSED,
        reason=reason,
        launched=not isinstance(error, CompileError),
        place=place,
        declared=Place.of_declaration(case),
        faults=tuple(of_error(error, place)) if error else (),
        again=again,
        remarks=remarks,
    )


def _time(loaded: Loaded, info: DeviceInfo | None) -> CaseRecord:
    """Time a few launches and print the median, with the rates of the declared work; return them as a record."""
    case, machine, times = loaded.case, loaded.machine, _measure(loaded)
    beside = measure_overhead(machine) if isinstance(machine, Device) else 0.0
    median = statistics.median(times)
    own = kernel_seconds(median, beside)
    operations, moved = case.work.operations / own / 1e9, case.work.bytes / own / 1e9
    unit = "Gop/s" if case.dtype == "int32" else "GFLOP/s"
    rates = ", ".join(f"{rate:,.1f} {name}" for rate, name in ((operations, unit), (moved, "GB/s")) if rate)
    note = (info.note or "warm") if info else "the host's time"
    print(f"GPU time  {median * 1e6:,.2f} µs, {rates} (median of {TIMED_LAUNCHES}, {note}; {UNPROVED})")
    cache = "host" if case.variant.on_host else "warm"
    facts = Facts(cache=cache, gflops=operations, gbs=moved, overhead=beside, remarks=(UNPROVED,))
    return CaseRecord(samples=tuple(times), facts=facts)


def _measure(loaded: Loaded) -> list[float]:
    """Return the seconds of a few launches: the GPU's own time with L2 warm, or on the host the wall clock's."""
    machine, times = loaded.machine, []
    before, launch, _ = in_parts(loaded.start)
    for _ in range(TIMED_LAUNCHES):
        loaded.restore()
        if isinstance(machine, Device):
            before()
            times.append(machine.time(launch) or float("nan"))
        else:
            begin = time.perf_counter()
            loaded.start()
            times.append(time.perf_counter() - begin)
    return times


def _again(case: Case, seed: int, settings: Settings, launches: int | None = None) -> str:
    """Return the command that runs this once more, with the options that change what the kernel does."""
    often = "" if launches is None else f" --launches {launches}"
    device = "" if settings.kind == "auto" else f" --device {settings.kind}"
    order = "" if settings.schedule_seed is None else f" --schedule-seed {settings.schedule_seed}"
    return f"python -m warpwatch run {case.id} --seed {seed}{device}{order}{often}"


def _print_arrays(case: Case, inputs: Mapping[str, Array], got: Mapping[str, Array], wanted: bool) -> None:
    if case.family.prints:
        print("\n".join(map(str, got[LINE])))
    elif wanted:
        for name, array in (*inputs.items(), *got.items()):
            print(f"{name} {array.shape} {array.dtype}\n{np.array2string(array, precision=4)}")


def _run_every_case(project: Project, expression: str, settings: Settings, json: JsonFile) -> int:
    """Run each case whose id matches, and compare with NumPy; returns the exit status.

    Raises NoDevice, DeviceError, CompileError.
    """
    matches = selector(expression)
    machine = open_device(settings)
    info = machine.info
    cases = [
        case
        for case in tested_cases(project.families)
        if not case.variant.on_host and matches(case.id)
        if case.variant.runs_on(info.capability) and not call_problem(case.variant, info)
    ]
    compile_all({case.build.id: (case.build, info.target) for case in cases}.values(), lambda done, total: None)
    mistakes = [problem for problem in problems(project.families) if matches(problem.id)]
    json.record = replace(json.record, gpu=Gpu(**facts_of(info)), nothing=[] if cases else ["no case was run"])
    json.messages += [f"not run: {problem}" for problem in mistakes]
    for problem in mistakes:
        print(f"not run: {problem}")
    wrong = len(mistakes)
    for case in cases:
        try:
            host_memory.require(case, host_memory.peak_bytes(case, copies=3))
            image = compile_build(case.build, info.target).path
            again = f"python -m warpwatch run {case.id}"
            tested = evaluate(machine, plan(case, launches=LAUNCHES, exact=True, further=False), image, again)
        except DeviceError as error:
            json.add(_tested(case, again, error))
            print(error)
            return 2
        accepted = accepted_by(machine, case)
        json.add(_tested(case, again, WrongResult.of(tested.faults) if tested.faults else None, *accepted))
        for each in accepted:
            print(f"{case.id}: accepted {each}")
        if tested.faults:
            wrong += 1
            print(f"{case.id}: WRONG", *tested.faults, sep="\n")
    print(f"{len(cases)} cases of {len({case.build.id for case in cases})} builds, {wrong} wrong")
    return int(wrong > 0)
