"""Compiles every kernel of this repository for the GPU here: ``python -m tools.compile_all``, before runs are timed."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from kernels import FAMILIES
from warpwatch.catalogue.project import load_project
from warpwatch.catalogue.selection import tested_cases, timed_cases
from warpwatch.devices.compile.background import compile_all
from warpwatch.devices.opening import Settings
from warpwatch.devices.worker import Worker, describe_device


def main() -> None:
    worker = Worker(load_project(Path.cwd(), "kernels"), Settings(kind="gpu"))
    info = worker.call(describe_device)
    worker.stop()
    begin = time.perf_counter()
    builds = dict.fromkeys(case.build for case in (*timed_cases(FAMILIES), *tested_cases(FAMILIES)))
    jobs = [
        (build, None if build.variant.on_host else target)
        for build in builds
        if not build.variant.call
        for target in dict.fromkeys((info.target, info.timing_target))
    ]
    failed = compile_all(jobs, lambda done, total: None)
    for name, error in failed.items():
        print(f"{name}: {error}")
    print(f"compiled {len(jobs) - len(failed)} of {len(jobs)} kernels in {time.perf_counter() - begin:.0f} s")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
