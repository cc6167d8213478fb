"""Chooses what a benchmark run prints at its end: little by default, everything with ``-v``."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from warpwatch.compare.comparison import Comparison
from warpwatch.compare.energy import lines as energy_lines
from warpwatch.compare.reference import RECORD
from warpwatch.plugin.options import spelled
from warpwatch.plugin.storage import Results
from warpwatch.report.tables import summary
from warpwatch.runs.files import run_files, write_whole
from warpwatch.verdict.rule import Decision, Verdict

SHOWN = 20  # lines of a verdict, and rows of pytest-benchmark's table
SHOWN_WITHOUT_CLOCK = 5  # lines of a verdict, where the times are the host's and judge no kernel
# Options of pytest-benchmark that are for its tables.
FOR_TABLES = ("columns", "sort", "group-by", "name", "histogram", "verbose", "time-unit", "cprofile")


def is_verbose(config: pytest.Config) -> bool:
    """Tell whether everything is to be printed."""
    return bool(config.get_verbosity() > 0)


def wants_tables(config: pytest.Config, cases: int) -> bool:
    """Tell whether pytest-benchmark's tables are printed: those that are asked for, and small ones.

    Options in a repository's settings say what tables look like, and ask for none.
    """
    words = (*config.invocation_params.args, *os.environ.get("PYTEST_ADDOPTS", "").split())
    named = {str(word).partition("=")[0] for word in words}
    asked = any(f"--benchmark-{name}" in named for name in FOR_TABLES)
    return asked or is_verbose(config) or cases <= SHOWN


def choose_tables(config: pytest.Config) -> None:
    """Keep pytest-benchmark from printing tables of more cases than anybody reads, unless they are asked for."""
    benchmark = config._benchmarksession  # type: ignore[attr-defined]
    if not wants_tables(config, len(benchmark.benchmarks)):
        benchmark.quiet = True


def how_times_are_read(gpu: Mapping[str, Any]) -> str:
    """Say in which state of L2 a GPU's times are read, and what of them is not the kernel's; empty if not measured."""
    if "coldness" not in gpu:
        return ""
    said = f"L2 {gpu['cache']}; after a scrub, reading half takes {gpu['coldness']} times as long"
    beside = 1e6 * gpu.get("overhead", 0.0)
    return f"{said}; {beside:.1f} µs of each time are not the kernel's, and rates are without them" if beside else said


def most_lines(config: pytest.Config, *, has_clock: bool) -> int | None:
    """Return how many lines of a verdict are printed; None for all of them."""
    if not has_clock:
        return SHOWN_WITHOUT_CLOCK
    return None if is_verbose(config) else SHOWN


def verdicts(
    config: pytest.Config, comparison: Comparison, missing: Sequence[str], *, has_clock: bool, results: Results
) -> list[str]:
    """Lines on what was found of times, then of energies, where they were measured.

    Where a list is cut, the whole of it is written beside the saved run, so that nothing is measured again to see it.
    """
    most, whole = most_lines(config, has_clock=has_clock), summary(comparison.decisions, missing)
    lines = summary(comparison.decisions, missing, most)
    if results.saved and len(lines) != len(whole):
        file = Path(results.saved).with_suffix(".verdicts.txt")
        with results.saving(f"the list of verdicts, as {file},"):
            write_whole(file, "\n".join(whole) + "\n")
            lines = summary(comparison.decisions, missing, most, f": {file} has all")
    return [*lines, *energy_lines(comparison.energy)]


def timeouts(config: pytest.Config) -> Iterator[str]:
    """Yield how many samples were thrown away, if any were."""
    benchmarks = config._benchmarksession.benchmarks  # type: ignore[attr-defined]
    thrown = sum(bench.extra_info.get("hold_timeouts", 0) for bench in benchmarks)
    if thrown:
        yield f"{thrown} samples were thrown away and taken again, because the hold ran into its limit"


def what_is_left_out(config: pytest.Config, lines: Collection[str], saved: str) -> Iterator[str]:
    """Yield where the times and verdicts are that are not printed.

    ``lines``: of the summary. ``saved``: the run's file, or an empty text.
    """
    cases = len(config._benchmarksession.benchmarks)  # type: ignore[attr-defined]
    report = f"python -m warpwatch report {shlex.quote(saved)}"
    if not wants_tables(config, cases):
        yield f"times of {cases} cases: {report if saved else '--benchmark-columns=median'}; -v prints them here"
    if saved and any(line.startswith("... and ") for line in lines):
        yield f"every verdict of this run: {report} --html FOLDER"


def next_step(
    config: pytest.Config, comparison: Comparison, decisions: Mapping[str, Decision], failed: Collection[str]
) -> Iterator[str]:
    """Yield a line on what to do after a run that found a kernel wrong or slower."""
    slower = [(each.ratio, name) for name, each in decisions.items() if each.verdict == Verdict.SLOWER]
    if wrong := sorted(set(failed) - {name for _, name in slower}):
        case = next((f"; python -m warpwatch run {name}" for name in wrong if name.count("-") == 4), "")
        yield f"next: mend what is wrong{case}"  # a mistake in a declaration has no case
    elif slower and (step := comparison.next_step(max(slower)[1], spelled(config, "against"))):
        yield f"next: {step}"


def first_baseline(baselines: Path, slug: str, *, has_clock: bool, compared: bool) -> Iterator[str]:
    """Yield the command that makes a GPU's baseline, where there is none and the run did not say so already."""
    if slug and has_clock and not compared and not run_files(baselines / slug):
        yield f"there is no baseline for {slug} yet; `{RECORD}` makes one"
