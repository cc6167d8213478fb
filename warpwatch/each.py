"""Every kernel once, in this process, so that a tool can watch: ``compute-sanitizer --tool racecheck python -m
warpwatch.each``.

Each build runs on the shapes that its family is tested on, as correctness/ does in processes of its own. ``-k EXPR``
chooses among the case ids.
"""

from __future__ import annotations

import argparse
import sys

from kernels import FAMILIES
from warpwatch.catalogue.declaration import BadCase
from warpwatch.catalogue.keywords import selector
from warpwatch.catalogue.selection import tested_cases
from warpwatch.catalogue.validation import problems
from warpwatch.devices import memory, vendor
from warpwatch.devices.check import compare
from warpwatch.devices.compiler import CompileError, compile_build
from warpwatch.devices.compiling import compile_all
from warpwatch.devices.gpu import NoDevice, Settings, open_device
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.runner import exact_operands, expected, run
from warpwatch.report.terminal import run_command


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m warpwatch.each", description=__doc__)
    parser.add_argument("-k", default="", metavar="EXPR", help="only cases that match, as pytest -k")
    parser.add_argument("--device", choices=("gpu", "software"), default="gpu", help="where to run them (gpu)")
    options = parser.parse_args()
    try:
        matches = selector(options.k)
        machine = open_device(Settings(options.device, launch_timeout=300.0))  # a sanitizer takes its time
    except (BadCase, NoDevice, DeviceError, CompileError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    cases = [case for case in tested_cases(FAMILIES) if not case.variant.on_host and matches(case.id)]
    cases = [case for case in cases if case.variant.needs <= machine.info.capability]
    cases = [case for case in cases if not case.variant.library or not vendor.missing(case.variant.library)]
    compile_all({case.build.id: (case.build, machine.info.target) for case in cases}.values(), lambda done, total: None)
    wrong = 0
    for problem in problems(FAMILIES):
        if matches(problem.id):
            wrong += 1
            print(f"not run: {problem}")
    for case in cases:
        try:
            memory.require(case, memory.peak_bytes(case, copies=3))
            operands = exact_operands(case, seed=0)
            outcome = run(machine, case, compile_build(case.build, machine.info.target).path, operands)
        except DeviceError as error:
            print(error)
            return 2
        mismatch = compare(outcome.result, expected(case, operands)[0], 0.0)
        wrong += bool(mismatch or outcome.damage)
        if mismatch or outcome.damage:
            print(f"{case.id}: WRONG {mismatch or ''} {' '.join(outcome.damage)}")
    print(f"{len(cases)} cases of {len({case.build.id for case in cases})} builds, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    run_command(main, abruptly=True)
