"""Runs every kernel once in this process, so that a tool can watch it: ``warpwatch run --all``.

For instance ``compute-sanitizer --tool racecheck python -m warpwatch run --all``. Each build runs on the shapes that
its family is tested on, as the tests of correctness do in processes of their own.
"""

from __future__ import annotations

from warpwatch.catalogue.inputs import exact_inputs, random_inputs
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import tested_cases
from warpwatch.catalogue.validation import problems
from warpwatch.commands.keywords import selector
from warpwatch.devices import memory
from warpwatch.devices.builds import compile_build
from warpwatch.devices.check import compare
from warpwatch.devices.compiling import compile_all
from warpwatch.devices.gpu import Settings, open_device
from warpwatch.devices.info import call_problem
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.runner import expected, run


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
            inputs = (exact_inputs if case.family.exact else random_inputs)(case, seed=0)
            outcome = run(machine, case, compile_build(case.build, machine.info.target).path, inputs)
        except DeviceError as error:
            print(error)
            return 2
        right = expected(case, inputs)
        found = [compare(outcome.results[name], each.reference, each.bound) for name, each in right.items()]
        mismatches = [mismatch for mismatch in found if mismatch]
        wrong += bool(mismatches or outcome.damage)
        if mismatches or outcome.damage:
            print(f"{case.id}: WRONG {' '.join(map(str, mismatches))} {' '.join(outcome.damage)}")
    print(f"{len(cases)} cases of {len({case.build.id for case in cases})} builds, {wrong} wrong")
    return int(wrong > 0)
