"""Runs every kernel in this process, so that a tool can watch it: ``warpwatch run --all``.

For instance ``compute-sanitizer --tool racecheck python -m warpwatch run --all``. Each build runs on the shapes that
its family is tested on, as the tests of correctness do in processes of their own.
"""

from __future__ import annotations

from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import tested_cases
from warpwatch.catalogue.validation import problems
from warpwatch.cli.keywords import selector
from warpwatch.devices import memory
from warpwatch.devices.compile.background import compile_all
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.evaluate import evaluate
from warpwatch.devices.gpu import Settings, open_device
from warpwatch.devices.info import call_problem
from warpwatch.devices.machine import DeviceError

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
            image = compile_build(case.build, machine.info.target).path
            again = f"python -m warpwatch run {case.id}"
            evaluation = evaluate(machine, case, image, again, launches=LAUNCHES, exact=True, further=False)
        except DeviceError as error:
            print(error)
            return 2
        if evaluation.faults:
            wrong += 1
            print(f"{case.id}: WRONG", *evaluation.faults, sep="\n")
    print(f"{len(cases)} cases of {len({case.build.id for case in cases})} builds, {wrong} wrong")
    return int(wrong > 0)
