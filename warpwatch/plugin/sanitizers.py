"""``--sanitizer``: what a test has launched is launched once more, under tools of NVIDIA's compute-sanitizer.

It is launched when the test has ended, under all tools at the same time, and what they find fails that test. Each
process of xdist has tools of its own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from warpwatch.catalogue.names import BadCase
from warpwatch.catalogue.project import Project
from warpwatch.devices.accepting import accepted_of
from warpwatch.devices.kernel import NotedLaunch
from warpwatch.devices.machine import LATE, DeviceError
from warpwatch.devices.opening import NoDevice, Settings
from warpwatch.devices.sanitizer import MOST_BYTES, Sanitizer, find_program, refusals, watch_all
from warpwatch.plugin.cases import LAUNCHED, build_of
from warpwatch.plugin.fixtures import NOTED
from warpwatch.plugin.options import asks_only, names_benchmark, spelled, value_of
from warpwatch.plugin.reports import ACCEPTED, FOUND
from warpwatch.plugin.xdist.processes import is_controller, is_part

# Properties of a test: how many of its launches the tools watched, and why they did not watch others.
WATCHED, NOT_WATCHED = "launches under compute-sanitizer", "not under compute-sanitizer"
SHOWN = 3  # tests that a line names


class Sanitizers:
    """The tools of a run, and what it tells of them."""

    NAME = "warpwatch-sanitizers"

    def __init__(self, config: pytest.Config, project: Project, settings: Settings) -> None:
        """Find the tools. Raises UsageError where they cannot be used."""
        self._config, self._known = config, dict[object, str]()  # by which test a launch was watched first
        self._tools, self._option = value_of(config, "sanitizer"), spelled(config, "sanitizer")
        self._launches = self._tests = 0
        self._left_out: dict[str, list[str]] = {}  # tests, by the reason
        if settings.untrusted:
            raise pytest.UsageError(f"{self._option} watches launches of one's own tests: leave --untrusted out")
        if names_benchmark(config, project.root):
            raise pytest.UsageError(f"{self._option} watches tests, and slows kernels down: leave bench/ out")
        self._sanitizers: list[Sanitizer] = []
        if asks_only(config):
            return
        try:
            program = find_program()
        except NoDevice as missing:
            raise pytest.UsageError(f"{self._option}: {missing}") from None
        folder = tempfile.TemporaryDirectory(prefix="warpwatch-", ignore_cleanup_errors=True)
        config.add_cleanup(folder.cleanup)
        for tool in self._tools:
            self._sanitizers.append(Sanitizer(tool, program, project, settings, Path(folder.name)))
            config.add_cleanup(self._sanitizers[-1].stop)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Let each tool find a planted fault before the tests. Raises UsageError where one does not."""
        if session.items and not is_controller(self._config) and (refused := refusals(self._sanitizers)):
            text = f"{self._option}: {'; '.join(refused)}"
            if not is_part(self._config):
                raise pytest.UsageError(text)
            session.shouldfail = text

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        item.stash[NOTED] = []

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        item.stash[FOUND] = ""
        item.stash[NOTED].clear()  # of an earlier run of this test
        try:
            result = yield
        except pytest.skip.Exception:
            raise
        except (Exception, pytest.fail.Exception) as error:
            if getattr(error, "lost", False) != LATE:  # it would not end under a tool either
                item.stash[FOUND] = self._watch(item)
            raise
        if found := self._watch(item):
            raise DeviceError(found)
        return result

    def _watch(self, item: pytest.Item) -> str:
        """Launch under the tools what a test has launched, and return their findings."""
        launches = dict[object, NotedLaunch]()
        if not item.stash[NOTED]:
            return ""
        for each in item.stash[NOTED]:
            if each.case.variant.on_host or self._known.setdefault(each.key, item.nodeid) != item.nodeid:
                continue
            if each.case.variant.call:
                item.user_properties.append((NOT_WATCHED, "a call runs as it is"))
            elif each.case.array_bytes > MOST_BYTES:
                item.user_properties.append((NOT_WATCHED, f"arrays of more than {MOST_BYTES / 2**20:.0f} MiB"))
            else:
                launches.setdefault(each.key, each)
        item.user_properties.append((WATCHED, len(launches)))
        if not launches:
            return ""
        try:
            accepted = {each.key: each for each in accepted_of(build)} if (build := build_of(item)) else {}
        except BadCase:  # for which the test fails by itself
            accepted = {}
        said, taken = watch_all(self._sanitizers, [*launches.values()], accepted)
        item.user_properties += [(ACCEPTED, str(accepted[key])) for key in dict.fromkeys(taken)]
        return "\n".join(said)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call":
            return
        properties = dict(report.user_properties)
        watched = int(str(properties.get(WATCHED, 0)))
        self._launches += watched
        self._tests += watched > 0
        if NOT_WATCHED in properties:
            self._left_out.setdefault(str(properties[NOT_WATCHED]), []).append(report.nodeid)
        elif LAUNCHED in properties and WATCHED not in properties and not report.skipped:
            why = "launched otherwise than by check() and kernel"
            self._left_out.setdefault(why, []).append(report.nodeid)

    def lines(self) -> list[str]:
        """Return what is printed and recorded of the tools."""
        if not self._sanitizers:  # a run that only asks
            return []
        tools = ", ".join(self._tools)
        lines = [f"compute-sanitizer ({tools}): {self._launches:,} launches of {self._tests:,} tests"]
        for why, tests in self._left_out.items():
            more = f" and {len(tests) - SHOWN:,} more" if len(tests) > SHOWN else ""
            lines.append(f"not under compute-sanitizer: {why}: {', '.join(tests[:SHOWN])}{more}")
        return lines

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Fail a run in which the tools have watched nothing."""
        if not self._launches and not is_part(self._config) and not session.config.option.collectonly:
            session.exitstatus = exitstatus or pytest.ExitCode.TESTS_FAILED
