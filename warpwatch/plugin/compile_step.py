"""Compilation of the kernels of a run: before anything is timed, or else in the background while tests run."""

from __future__ import annotations

import contextlib
import functools
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from warpwatch.catalogue.cases import Build, Case
from warpwatch.devices.compile.background import Check, Compilation, Job
from warpwatch.devices.compile.compiler import NoCompiler, Target, architectures, cache_notes
from warpwatch.devices.info import DeviceInfo
from warpwatch.plugin.benchmark_run import RUN
from warpwatch.plugin.cases import build_of, is_timed, parameter_of
from warpwatch.plugin.device import CACHE_NOTES, WORKER, open_device
from warpwatch.plugin.locks import is_locked, permit_to_compile
from warpwatch.plugin.xdist.processes import hand_back, handed_back, is_part, number_of_parts

NOTES = "warpwatch_cache_notes"  # handed back to the first process of xdist
BUILDS_TOGETHER = 5  # heavy kernels gain little by it, and more would leave cores idle at the end
COMPILATION = pytest.StashKey[Compilation]()
COMPILED = {"warpwatch_kernel", "warpwatch_source_module"}  # fixtures that need a build's machine code


def pytest_collection_finish(session: pytest.Session) -> None:
    """Compile the kernels of this run on all cores: before anything is timed, or else in the order of the tests."""
    config = session.config
    workers = number_of_parts(config)
    threads = max(1, len(os.sched_getaffinity(0)) // workers)
    config.stash[COMPILATION] = compilation = Compilation(threads, functools.partial(permit_to_compile, config))
    if config.option.collectonly or not session.items:
        return
    try:
        open_device(config)
    except pytest.UsageError as broken:
        if not is_part(config):
            raise
        # In a worker process of xdist this would be an internal error. So the next test fails and ends the run.
        session.shouldfail = str(broken)
        return
    # Workers of xdist share the cache; each begins with the tests that are likely to be its own.
    items = session.items
    start = config.stash[WORKER].settings.ordinal * len(items) // (4 * workers)
    jobs = [job for item in (*items[start:], *items[:start]) for job in _jobs(item)]
    for build, target in jobs:
        compilation.add(build, target)
    checks = _checks(items)
    first = config.stash[WORKER].settings.ordinal * len(checks) // workers
    for builds, target in (*checks[first:], *checks[:first]):
        compilation.add_check(builds, target)
    if jobs:
        timed = any(map(is_timed, items))
        _show_compiling(config, compilation, None if timed else jobs[0])


def _jobs(item: pytest.Item) -> list[Job]:
    """List the builds that a test needs: for a timed kernel also the one that finds more faults, if there is one."""
    if not COMPILED & set(getattr(item, "fixturenames", ())) or (build := build_of(item)) is None:
        return []
    if build.variant.on_host:
        return [(build, None)]
    if not build.variant.call and isinstance(device := open_device(item.config), DeviceInfo):
        targets = (device.target, device.timing_target) if is_timed(item) else (device.target,)
        jobs: list[Job] = [(build, target) for target in dict.fromkeys(targets)]
        limited = parameter if isinstance(parameter := parameter_of(item), Case) else None
        return [*jobs, *item.config.stash[RUN].contracts.jobs(limited)] if limited else jobs
    return []


def _check(item: pytest.Item) -> tuple[Build, Target] | None:
    """Return the build and target of a test that only compiles; None for other tests."""
    only = item.get_closest_marker("compiles_for")
    if only and (build := build_of(item)):
        with contextlib.suppress(NoCompiler):  # the test reports it
            arch = architectures()[-1].arch if only.args[0] == "newest" else only.args[0]
            return build, Target(arch)
    return None


def _checks(items: Sequence[pytest.Item]) -> list[Check]:
    """Group the builds that are only compiled, by source and architecture, at most BUILDS_TOGETHER in a group."""
    groups: dict[tuple[Path, Target], list[Build]] = {}
    for item in items:
        if check := _check(item):
            build, target = check
            groups.setdefault((build.source, target), []).append(build)
    return [
        (tuple(builds[part :: math.ceil(len(builds) / BUILDS_TOGETHER)]), target)
        for (_, target), builds in groups.items()
        for part in range(math.ceil(len(builds) / BUILDS_TOGETHER))
    ]


def _show_compiling(config: pytest.Config, compilation: Compilation, first: Job | None) -> None:
    """Wait for all builds, or for the job ``first``, with a line of progress on terminals."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if not (reporter and reporter.isatty):
        compilation.wait(lambda done, total: None, first)
        return
    compilation.wait(lambda done, total: reporter.rewrite(f"compiling kernels: {done} of {total} "), first)
    reporter.rewrite("", erase=True)
    reporter.write("\r")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Wait for the builds of a test before it locks the machine, because others may wait for that lock."""
    # In a process of xdist's the machine lock keeps compilers from starting meanwhile: nothing need be finished.
    if item.get_closest_marker("exclusive") and not is_locked(item.config):
        item.config.stash[COMPILATION].finish_all()
    for job in _jobs(item):
        item.config.stash[COMPILATION].finish(*job)
    if check := _check(item):
        item.config.stash[COMPILATION].finish_check(*check)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if COMPILATION in session.config.stash:
        session.config.stash[COMPILATION].stop()
    if is_part(session.config):
        hand_back(session.config, NOTES, [*session.config.stash[CACHE_NOTES], *cache_notes()])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[CACHE_NOTES].update(dict.fromkeys(handed_back(node, NOTES) or ()))


@pytest.fixture(scope="session")
def warpwatch_compilation(pytestconfig: pytest.Config) -> Compilation:
    """The compilation of the builds of this run."""
    return pytestconfig.stash[COMPILATION]
