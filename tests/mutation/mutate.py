"""Makes mistakes in the suite's own kernels and asks who notices: ``make mutate``.

Mutation testing is a test of the tests. mutants/*.toml lists the mistakes, each a change of one place in one
file of kernels/, and controls, which are changes that compute the same. Every mistake is made in a copy of the kernels
and held against the cases of correctness/ on the software device, judged by the tests themselves, until one fails.
The exit status is 1 where fewer than 97 % of the mistakes are noticed, or a control is.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import pytest

from kernels import FAMILIES
from tests.mutation.mistakes import FOLDER, BadList, Change, Mistake, change, read_mistakes
from tests.mutation.score import Verdict, judge, report
from tests.project import PROJECT, ROOT
from warpwatch.catalogue.cases import Build, Case
from warpwatch.catalogue.corners import tile
from warpwatch.catalogue.selection import builds
from warpwatch.catalogue.variants import Variant
from warpwatch.devices.compile.compiler import CompileError, Image, cache_folder, compile_file
from warpwatch.devices.kernel import Kernel
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.opening import Settings
from warpwatch.devices.worker import Worker, describe_device
from warpwatch.plugin.cases import builds_of, cases_of
from warpwatch.plugin.fixtures import Check

MODULES = ("test_kernels", "test_edges", "test_corners", "test_large")  # of correctness/, in the order of asking
FIXTURES = {"kernel", "build", "case", "check"}  # what a test may ask for, to be called from here
SECONDS = 20.0  # that a launch may take, on a busy machine


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One test of correctness/ with its parameters."""

    name: str  # as pytest names it
    test: Callable[..., None]
    build: Build
    case: Case | None

    def run(self, kernel: Kernel) -> None:
        """Call the test, which raises pytest.fail.Exception, or DeviceError, where something is wrong."""
        again = f'pytest "{self.name}" --device software'
        check = Check(kernel=kernel, case=self.case, again=again)
        given = {"kernel": kernel, "build": self.build, "case": self.case, "check": check}
        self.test(**{name: given[name] for name in inspect.signature(self.test).parameters})


def trials(variant: Variant, everything: bool = True, among: frozenset[str] = frozenset()) -> list[Trial]:
    """List the tests of a variant, those of its smallest build first; without ``everything``, of that build alone.

    ``among``: names of the tests to choose from, if not all.
    """
    found = []
    for module in MODULES:
        for name, test in inspect.getmembers(importlib.import_module(f"correctness.{module}"), inspect.isfunction):
            if not name.startswith("test_") or not set(inspect.signature(test).parameters) <= FIXTURES:
                continue
            for build, case in _parameters(test):
                if build.variant is variant:
                    nodeid = f"correctness/{module}.py::{name}[{(case or build).id}]"
                    if not among or nodeid in among:
                        found.append(Trial(name=nodeid, test=test, build=build, case=case))
    listed = [build.id for build in builds(FAMILIES)]
    found.sort(key=lambda trial: (trial.build.id not in listed, *_size(trial.build)))
    return [trial for trial in found if everything or trial.build == found[0].build]


def _parameters(test: Callable[..., None]) -> Iterator[tuple[Build, Case | None]]:
    for mark in getattr(test, "pytestmark", ()):
        if mark.name == "cases":
            listed = cases_of(FAMILIES, *mark.args, **mark.kwargs)
            yield from ((case.build, case) for case in listed if isinstance(case, Case))
        elif mark.name == "builds":
            yield from ((build, None) for build in builds_of(FAMILIES, *mark.args, **mark.kwargs))


def _size(build: Build) -> tuple[int, str, str]:
    x, y = tile(build)
    return x * y, build.dtype, build.id


def variants_of(file: str) -> list[Variant]:
    """List the variants whose source is, or includes, a file of kernels/, of those that the software device runs."""
    found = {b.variant: b.source for b in builds(FAMILIES) if not (b.variant.has_no_block or b.variant.own_arch)}
    return [variant for variant, source in found.items() if file in _files(source)]


def _files(source: Path) -> set[str]:
    """A source and what it includes by "name", as names from kernels/ on."""
    names = re.findall(r'^\s*#\s*include\s*"([^"]+)"', source.read_text(), re.MULTILINE)
    inner = [_files((source.parent / name).resolve()) for name in names]
    return {str(source.relative_to(ROOT / "kernels"))}.union(*inner)


def copy_kernels(to: Path) -> None:
    """Copy every kernel and header to a folder that stands for the checkout's root."""
    for path in (ROOT / "kernels").rglob("*"):
        if path.suffix in (".cu", ".h"):
            copied = to / path.relative_to(ROOT)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copied)


_worker: list[Worker] = []
_among: set[str] = set()


def start_worker(cache: str, among: frozenset[str]) -> None:
    """In a process of the pool: the software device that it asks, and the tests to choose from, if not all."""
    os.environ["WARPWATCH_CACHE"] = cache
    _among.update(among)
    _worker.append(Worker(PROJECT, Settings(kind="software", launch_timeout=SECONDS)))


def attempt(mistake: Mistake) -> Verdict:
    """Make one mistake and run the tests of every variant that has the file, until one fails. Raises BadList."""
    text = (ROOT / "kernels" / mistake.file).read_text()
    changed = change(text, mistake)
    with tempfile.TemporaryDirectory(prefix="warpwatch-mutant-") as name:
        root = Path(name)
        copy_kernels(root)
        (root / "kernels" / mistake.file).write_text(changed.text)
        for variant in variants_of(mistake.file):
            verdict = _first_failure(mistake, changed, variant, root)
            if verdict:
                return verdict
    return Verdict(mistake, changed)


def _first_failure(mistake: Mistake, changed: Change, variant: Variant, root: Path) -> Verdict | None:
    images: dict[str, Image] = {}
    for trial in trials(variant, not mistake.same, frozenset(_among)):
        build = trial.build
        try:
            if build.id not in images:
                images[build.id] = _compile(build, root)
            trial.run(Kernel(_worker[0], build, images[build.id]))
        except (DeviceError, pytest.fail.Exception) as failure:
            return judge(mistake, changed, trial.name, str(failure))
        except CompileError as error:
            raise BadList(f"{mistake.name}: the changed kernel does not compile\n{error}") from None
    return None


def _compile(build: Build, root: Path) -> Image:
    target = _worker[0].call(describe_device).target
    return compile_file(root / build.source.relative_to(ROOT), build.all_macros, target, root=root)


def fast_tests() -> frozenset[str]:
    """Return the names of the tests of correctness/ that `make test` runs."""
    command = [sys.executable, "-m", "pytest", "correctness", "-m", "not slow", "--collect-only", "-q"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return frozenset(line for line in listed.splitlines() if "::" in line)


def run_all(mistakes: Sequence[Mistake], jobs: int, among: frozenset[str] = frozenset()) -> list[Verdict]:
    """Try all mistakes, some side by side, and print each as it is done. Raises BadList."""
    verdicts = []
    cache = str(cache_folder() / "mutants")
    longest_last = sorted(mistakes, key=lambda mistake: bool(mistake.same))  # those that nobody notices see every test
    with ProcessPoolExecutor(jobs, get_context("spawn"), start_worker, (cache, among)) as pool:
        running = [pool.submit(attempt, mistake) for mistake in longest_last]
        try:
            for done, future in enumerate(as_completed(running), 1):
                verdicts.append(future.result())
                print(f"{done:4} of {len(running)}  {verdicts[-1].line}", flush=True)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    order = {mistake: i for i, mistake in enumerate(mistakes)}
    return sorted(verdicts, key=lambda verdict: order[verdict.mistake])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation.mutate", description=__doc__)
    parser.add_argument(
        "--only", default="", metavar="PATTERN", help="mistakes whose name matches this regular expression"
    )
    parser.add_argument(
        "-j", "--jobs", type=int, default=len(os.sched_getaffinity(0)), metavar="N", help="processes (all cores)"
    )
    parser.add_argument("--fast", action="store_true", help="ask only the tests that `make test` runs")
    parser.add_argument("--said", action="store_true", help="also print what was said of each mistake")
    options = parser.parse_args(arguments)
    try:
        chosen = [m for m in read_mistakes(FOLDER, ROOT / "kernels") if re.search(options.only, m.name)]
        if not chosen:
            raise BadList(f"--only {options.only!r} matches no mistake of {FOLDER.relative_to(ROOT)}")
        verdicts = run_all(chosen, options.jobs, fast_tests() if options.fast else frozenset())
    except BadList as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    text, good = report(verdicts, options.said)
    print(text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
