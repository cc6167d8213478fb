"""Runs the cheats and the honest kernels, as a project of its own in a temporary folder."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import CompletedProcess
from xml.etree import ElementTree

from tests.cheats import honest
from tests.cheats.expected import Cheat, case_id

RIGHT, TIME = "correctness/test_kernels.py", "bench/bench_kernels.py"
TEST = """import pytest


@pytest.mark.cases("{cases}")
def {name}({fixture}):
    {fixture}()
"""
# Honest kernels by family, variant and block.
HONEST = {f"{family.name}-{variant.name}-128": family for family in honest.FAMILIES for variant in family.variants}
PACKAGE = Path(__file__).parent
LATER_SECONDS = 0.5  # within which a process that a cheat leaves has changed what was saved


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a case. ``message``: of its failure, empty where it passed.

    ``figure``, ``least``: the median that was saved and the shortest sample, in seconds.
    """

    message: str
    figure: float | None
    least: float | None


def honest_cases(names: Iterable[str], on_gpu: bool) -> list[str]:
    """Return the ids of the timed cases of honest kernels, given their names in ``HONEST``."""
    shapes = {name: family.benchmarks[on_gpu] for name, family in HONEST.items()}  # type: ignore[index]
    return [f"{name}-{shapes[name][0]}-{HONEST[name].own_type}" for name in names]


def own_work(cheat: Cheat, on_gpu: bool) -> str:
    """Return the id of the honest case beside a cheat."""
    return case_id("turned", "in_turn", on_gpu) if cheat.family == "turned" else case_id("window", "honest", on_gpu)


def outcome_of(cheat: Cheat, outcomes: Mapping[str, Outcome], on_gpu: bool) -> Outcome:
    """Return what became of a cheat; where its family is refused, of that."""
    case = cheat.case(on_gpu)
    return outcomes[case] if case in outcomes else outcomes[cheat.family]


def write_project(folder: Path) -> Path:
    """Write a project with this package, a test and a benchmark; returns its folder."""
    shutil.copytree(PACKAGE, folder / "tests" / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "tests" / "__init__.py").touch()
    for path in (RIGHT, TIME):
        (folder / path).parent.mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[tool.warpwatch]\nkernels = "tests.cheats"\n')
    (folder / RIGHT).write_text(TEST.format(cases="tested", name="test_right", fixture="check"))
    (folder / TIME).write_text(TEST.format(cases="timed", name="bench_kernel", fixture="measure"))
    return folder


def run(
    pytest: Callable[..., CompletedProcess[str]], folder: Path, file: str, cases: Collection[str], *options: str
) -> dict[str, Outcome]:
    """Run a file of the project, and return the outcome of each test by the id of its case.

    ``pytest``: runs pytest in a folder with options. ``cases``: ids, or parts of them, that are chosen. Raises
    RuntimeError, with the output, where no test ran.
    """
    report, before = folder / "junit.xml", _saved(folder)
    report.unlink(missing_ok=True)
    done = pytest(folder, file, "-q", "--tb=short", f"--junitxml={report}", "-k", " or ".join(cases), *options)
    tests = [*ElementTree.parse(report).getroot().iter("testcase")] if report.is_file() else []
    if not tests:
        raise RuntimeError(done.stdout + done.stderr)
    entries = [entry for path in _saved(folder) - before for entry in json.loads(path.read_text())["benchmarks"]]
    figures = {entry["param"]: entry["stats"] for entry in entries}
    outcomes = dict[str, Outcome]()
    for test in tests:
        name = str(test.get("name")).partition("[")[2].removesuffix("]")
        failures = [f"{each.get('message')}\n{each.text}" for each in test if each.tag in ("failure", "error")]
        stats = figures.get(name, {})
        outcomes[name] = Outcome(message="\n".join(failures), figure=stats.get("median"), least=stats.get("min"))
    return outcomes


def run_alone(
    pytest: Callable[..., CompletedProcess[str]], folder: Path, cheat: Cheat, on_gpu: bool, *options: str
) -> dict[str, Outcome]:
    """Time a cheat that changes its process in an untrusted run of its own, and return as ``run``.

    What is left to a later run is looked at in one, and what a process changes later, later.
    """
    cases, before = [cheat.chosen(on_gpu), own_work(cheat, on_gpu)], _saved(folder)
    outcomes = run(pytest, folder, TIME, cases, *options, "--untrusted")
    if cheat.name == "writes_conftest":
        return outcomes | run(pytest, folder, TIME, cases[:1], *options, "--untrusted")
    if cheat.name in ("leaves_a_child", "at_exit"):
        time.sleep(LATER_SECONDS)
        for path in _saved(folder) - before:
            for entry in json.loads(path.read_text())["benchmarks"]:
                later = float(entry["stats"]["median"])
                outcomes[entry["param"]] = replace(outcomes[entry["param"]], figure=later)
    return outcomes


def _saved(folder: Path) -> set[Path]:
    return set((folder / ".benchmarks").rglob("*.json"))
