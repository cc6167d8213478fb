"""Implements the hooks of pytest and pytest-benchmark in a benchmark run, by comparison, runs and report."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from warpwatch.catalogue.cases import find_case
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import omitted_cases, timed_cases
from warpwatch.compare.apart import OtherProcess
from warpwatch.compare.comparison import Comparison
from warpwatch.compare.declared import BadRevision
from warpwatch.compare.pairs import PairComparison
from warpwatch.compare.reference import find_reference, how_to_record
from warpwatch.compare.revision import (
    check_name,
    checkout,
    compile_other_kernels,
    find_commit,
    read_other_kernels,
    same_files,
)
from warpwatch.compare.saved_self_check import path_of, read_variances, save
from warpwatch.compare.self_check import SelfCheck
from warpwatch.compare.with_baseline import BaselineComparison
from warpwatch.compare.with_revision import RevisionComparison
from warpwatch.devices.compiler import nvcc
from warpwatch.devices.gpu import NoDevice
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.worker import Worker
from warpwatch.plugin.cases import is_timed
from warpwatch.plugin.options import spelled, value_of
from warpwatch.plugin.other_plugins import objection
from warpwatch.plugin.outcome import ENDED, NOT_COMPARED, Asked, fails, nothing_ran, nothing_tested, uncompared
from warpwatch.plugin.postponed import Postponed, Progress
from warpwatch.plugin.storage import Results
from warpwatch.report.ladder import share
from warpwatch.report.tables import line, summary
from warpwatch.runs.saved import NO_GPU, BadRun
from warpwatch.timing import worker_samples as sampling
from warpwatch.timing.parent_samples import Again
from warpwatch.verdict.rule import Verdict

CHECK, STORAGE = "--self-check", "--benchmark-storage"
BENCHMARK = "bench/bench_kernels.py"
CHECK_BYTES = 2**18  # of its file: 144 kB for 831 cases
NOT_SHARED = "pytest bench does not run under -n: processes that share a GPU would time each other; leave -n out"
SHOWN_WITHOUT_CLOCK = 5  # lines of a verdict, where the times are the host's and judge no kernel


class BenchPlugin:
    """One run of the benchmark. ``device`` opens the device at the first call."""

    def __init__(
        self, config: pytest.Config, project: Project, worker: Worker, device: Callable[[], DeviceInfo | NoDevice]
    ) -> None:
        self.config, self.project, self.worker, self._device = config, project, worker, device
        self.cold = not value_of(config, "warm-cache")
        self.comparison: Comparison = BaselineComparison()
        self.results = Results(config)
        self.gpu: dict[str, Any] = {}
        self.selected: set[str] = set()
        self.failed: dict[str, str] = {}
        self.passed: dict[str, pytest.TestReport] = {}
        self.broken: dict[str, str] = {}  # cases that were right and failed when they were measured again
        self.concluded = False
        self._done = 0
        self._postponed = Postponed()
        self._notes: list[str] = []
        # Taken from pytest-benchmark, which would compare with a single run and without regard to GPU and noise.
        self.compare: str | bool = config.option.benchmark_compare
        config.option.benchmark_compare = []
        self.against: str | None = value_of(config, "against")
        self.asked = _asked(config, self.compare, self.against)
        _keep_storage_in_root(config, project)
        if config.getoption("numprocesses", None) and _names_benchmark(config, project.root):
            raise pytest.UsageError(NOT_SHARED)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        items = list(filter(is_timed, session.items))
        if not items or self.config.option.collectonly or hasattr(self.config, "workerinput"):
            return
        if wrong := objection(self.config):
            raise pytest.UsageError(wrong)
        self.selected = {item.callspec.id for item in items}  # type: ignore[attr-defined]
        self._progress = Progress(self.config.pluginmanager.get_plugin("terminalreporter"))
        device = self._device()
        if isinstance(device, DeviceInfo):
            toolkit = {"toolkit": nvcc(device.timing_target.program).version}
            self.gpu = self.worker.call(sampling.describe_gpu, self.cold) | toolkit
            said = f"L2 {self.gpu['cache']}; after a scrub, reading half takes {self.gpu['coldness']} times as long"
            self._notes.append(f"{device.name}: {device.note}" if device.note else said)
        self._take_over_storage()
        self._refuse_rules_without_comparison()
        if self.compare:
            self.comparison = self._find_baseline()
        if self.against or value_of(self.config, "self-check"):
            if not isinstance(device, DeviceInfo):
                asked = spelled(self.config, "against" if self.against else "self-check")
                raise pytest.UsageError(f"{asked} needs a device: {device}")
            self.comparison = self._find_revision(self.against, device) if self.against else self._check_itself(device)
        self.asked.refuse()
        if left_out := omitted_cases(self.project.families):
            self._notes.append(f"{len(left_out)} serial cases are left out: over a second each")

    def _take_over_storage(self) -> None:
        """Set private attributes of pytest-benchmark's session, which no other code does."""
        benchmark = self.config._benchmarksession  # type: ignore[attr-defined]
        benchmark.save_data = True
        if self.gpu and not (benchmark.save or benchmark.disabled):
            from pytest_benchmark.utils import get_tag  # noqa: PLC0415  # asks git

            benchmark.autosave = benchmark.autosave or get_tag()
        self.results.take_over(self.gpu.get("slug", NO_GPU), len(self.selected), self._notes.append)

    def _refuse_rules_without_comparison(self) -> None:
        """Refuse options that say when a comparison fails the run, where there is no comparison."""
        word = functools.partial(spelled, self.config)
        named = {"require-baseline": self.compare, "fail-on": self.asked.option}
        for name, comparison in named.items():
            if value_of(self.config, name) and not comparison:
                others = "" if name == "require-baseline" else f", {word('against')} or {word('self-check')}"
                said = f"{word(name)} compares nothing by itself: give --benchmark-compare{others} too"
                raise pytest.UsageError(said)

    def _find_baseline(self) -> BaselineComparison:
        if not self.gpu:
            self.asked.nothing = "there is no GPU to have a baseline"
            return BaselineComparison()
        slug, storage = self.gpu["slug"], self.config._benchmarksession.storage.root  # type: ignore[attr-defined]
        try:
            found = find_reference(self.compare, storage, self.project.baselines, self.gpu)
        except BadRun as error:
            raise pytest.UsageError(str(error)) from None
        self._notes += found.notes
        self.asked.nothing = found.nothing(self.selected)
        if found.void:
            self.asked.advice = how_to_record(self.gpu, storage, self.project.saved_runs, self.project.root)
        if found.absent:
            folder = os.path.relpath(storage / slug, self.project.root)
            promote = f"python -m warpwatch baseline promote {folder}/*.json"
            cure = f"run `pytest bench` five times, then `{promote}`"
            if self.asked.required:
                raise pytest.UsageError(f"{found.absent}: {cure}")
            so = "what was saved here before takes its place" if found.runs else "nothing is compared"
            self._notes.append(f"{found.absent}, so {so}: {cure}")
        return BaselineComparison(
            runs=found.runs,
            gpu_uuid=self.gpu["uuid"],
            incomparable_reason=found.incomparable_reason,
            doubt=self.gpu.get("note", ""),
        )

    def _check_itself(self, device: DeviceInfo) -> SelfCheck:
        cases = map(functools.partial(find_case, self.project.families), self.selected)
        if all(case.variant.on_host or case.variant.call for case in cases):
            self.asked.nothing = f"none of the {len(self.selected)} selected cases has GPU machine code of this suite"
        self.results.require_space(self._check_path(), CHECK_BYTES, "the self-check is saved there; free some space")
        progress = functools.partial(self._progress, "compiling kernels that wait")
        return SelfCheck(
            root=self.project.root,
            target=device.timing_target,
            side_by_side=PairComparison(self.gpu.get("note", "")),
            compiling=progress,
        )

    def _find_revision(self, revision: str, device: DeviceInfo) -> RevisionComparison:
        progress = functools.partial(self._progress, f"compiling kernels of {revision}")
        try:
            commit = find_commit(revision, self.project.root)
            tree = checkout(commit, revision, self.project)
            others = read_other_kernels(tree, self.project.module, revision, device.timing_target.arch)
            variances = read_variances(device.slug, self.project.baselines)
        except (BadRevision, BadRun) as error:
            raise pytest.UsageError(_worded(self.config, error)) from None
        wanted = [other for name, other in others.items() if name in self.selected]
        if not wanted:
            self.asked.nothing = f"none of the {len(self.selected)} selected cases is in {revision}"
            self.asked.refuse()
        images = compile_other_kernels(wanted, device.timing_target, progress)
        side_by_side = PairComparison(self.gpu.get("note", ""))
        return RevisionComparison(
            revision=revision,
            commit=commit,
            others=others,
            images=images,
            side_by_side=side_by_side,
            recorded_variances=variances,
            apart=OtherProcess(worker=Worker(replace(self.project, root=tree), self.worker.settings)),
            same_files=same_files(commit, revision, self.project.root),
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if not self.comparison.active or not is_timed(item):
            return None
        self._postponed.run(item, nextitem)
        self._done += 1
        self._progress("timing", self._done, len(self.selected))
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Give all cases their verdicts together when all are measured; an interrupted run gives none."""
        slower: dict[str, str] = {}
        try:
            result = yield
            if self.comparison.active:
                progress = functools.partial(self._progress, "measuring again")
                self.comparison.conclude(Again(self.cold, progress, self.broken))
                self.concluded = True
                if isinstance(self.comparison, SelfCheck):
                    self._keep(self.comparison)
                slower = {
                    name: line(decision)
                    for name, decision in self.comparison.decisions.items()
                    if decision.verdict == Verdict.SLOWER
                }
            return result
        finally:
            self._postponed.release(slower | self.broken)

    def _check_path(self) -> Path:
        """Return the file of the self-check: beside the baseline if it has all cases, else among saved runs."""
        good = self._whole() and not self.gpu.get("note")
        folder = self.project.baselines if good else self.config._benchmarksession.storage.root  # type: ignore[attr-defined]
        return path_of(self.gpu["slug"], folder)

    def _keep(self, check: SelfCheck) -> None:
        path = self._check_path()
        with self.results.saving(f"this self-check, as {path},"):
            save(check.document() | {"gpu": self.gpu}, path)
            self._notes.append(f"saved {path}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.rpartition("[")[2].removesuffix("]")
        if report.failed and name in self.selected:
            self.failed[name] = report.longreprtext
        if report.passed and report.when == "call" and name in self.selected:
            self.passed[name] = report

    def pytest_benchmark_update_machine_info(self, machine_info: dict[str, Any]) -> None:
        machine_info["gpu"] = self.gpu

    def pytest_benchmark_update_json(self, output_json: dict[str, Any]) -> None:
        families = self.project.families
        times = {entry["param"]: entry["stats"]["median"] for entry in output_json["benchmarks"]}
        for entry in output_json["benchmarks"]:
            entry["extra_info"]["share"] = share(families, find_case(families, entry["param"]), times)
        slower = {name for name, decision in self.comparison.decisions.items() if decision.verdict == Verdict.SLOWER}
        commit = self.comparison.commit if isinstance(self.comparison, RevisionComparison) else ""
        output_json["warpwatch"] = {
            "failed": sorted(self.failed.keys() - slower),
            "slower": sorted(slower),
            "whole": self._whole() and len(output_json["benchmarks"]) == len(self.selected),
            "controls": {
                name: str(decision.verdict) for name, decision in getattr(self.comparison, "controls", {}).items()
            },
            "against": CHECK if isinstance(self.comparison, SelfCheck) else commit,
        }

    def _whole(self) -> bool:
        return self.selected >= {case.id for case in timed_cases(self.project.families)}

    def _missing(self) -> list[str]:
        return self.comparison.missing(self.selected) if self.concluded and self._whole() else []

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Generator[None, object, object]:
        """Fail a run that compared too little, and say so below everything else that pytest prints."""
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        words: list[str] = []
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and not self.config.option.collectonly:
            words = [nothing_ran(self.config)]
        elif self.selected and exitstatus in ENDED:
            words = self._conclude(session, reporter)
        if reporter and not words:
            words = nothing_tested(reporter)
        result = yield
        colour = "yellow" if session.exitstatus == pytest.ExitCode.OK else "red"
        for text in words:
            if reporter:
                reporter.write_line(text, bold=True, **{colour: True})
        return result

    def _conclude(self, session: pytest.Session, reporter: pytest.TerminalReporter | None) -> list[str]:
        """Set the exit status that follows from the comparison, and return the last lines of the run."""
        comparison, reasons = self.comparison, value_of(self.config, "fail-on")
        by_all = "common" in reasons and comparison.alarm
        if self._missing() or by_all or fails(self.asked, comparison.decisions, reasons, comparison.compared):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        left = uncompared(self.asked, comparison.decisions, self.passed, comparison.compared)
        if left and reporter:  # whole reports, because other plugins read them
            reporter.stats[NOT_COMPARED] = [self.passed[name] for name in left if name in self.passed]
        return self.asked.last_words(comparison.decisions, comparison.compared)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.selected:
            return
        lines = [*self._notes, *self._timeouts()]
        if self.comparison.active:
            lines += self.comparison.describe()
            most = SHOWN_WITHOUT_CLOCK if self.gpu.get("note") else None
            if self.concluded:
                lines += summary(self.comparison.decisions, self._missing(), most)
            else:
                lines.append("interrupted: no case has a verdict")
        terminalreporter.section("kernels")
        for text in lines:
            terminalreporter.line(text)

    def _timeouts(self) -> Iterable[str]:
        benchmarks = self.config._benchmarksession.benchmarks  # type: ignore[attr-defined]
        thrown = sum(bench.extra_info.get("hold_timeouts", 0) for bench in benchmarks)
        if thrown:
            yield f"{thrown} samples were thrown away and taken again, because the hold ran into its limit"


def _asked(config: pytest.Config, compare: str | bool, against: str | None) -> Asked:
    """Return the comparison that the options ask for. Raises UsageError for two, or for an empty name."""
    words = {name: spelled(config, name) for name in ("against", "self-check")}
    chosen = {
        "--benchmark-compare": compare,
        words["against"]: against,
        words["self-check"]: value_of(config, "self-check"),
    }
    if isinstance(compare, str) and not compare.strip():
        raise pytest.UsageError("--benchmark-compare= names no run: leave the `=` out to compare with the baseline")
    if against is not None:
        try:
            check_name(against)
        except BadRevision as error:
            raise pytest.UsageError(_worded(config, error)) from None
    if len(named := [name for name, value in chosen.items() if value]) > 1:
        raise pytest.UsageError(f"{' and '.join(named)} are different things to do: choose one")
    option = next(iter(named), "")
    required = option != "--benchmark-compare" or bool(value_of(config, "require-baseline"))
    return Asked(option, required=bool(option) and required)


def _worded(config: pytest.Config, error: Exception) -> str:
    """Return the message of an error, with the option that takes a revision as it is written in this repository."""
    return str(error).replace("--against", spelled(config, "against"))


def _keep_storage_in_root(config: pytest.Config, project: Project) -> None:
    """Save runs where the repository wants them, wherever pytest was started, unless the user names a storage.

    pytest-benchmark takes its own default, like what the user names, from the current folder.
    """
    words = (*config.invocation_params.args, *config.getini("addopts"), *os.environ.get("PYTEST_ADDOPTS", "").split())
    given = any(str(word).partition("=")[0] == STORAGE for word in words)
    if not given:
        config.option.benchmark_storage = f"file://{project.saved_runs}"


def collect_benchmark(config: pytest.Config, root: Path) -> None:
    """Let pytest collect bench/bench_kernels.py, which its own patterns leave out, where bench/ is named.

    So a run of all tests, which may be in several processes, times nothing, and a repository need not change its own
    patterns.
    """
    if _names_benchmark(config, root):
        config.addinivalue_line("python_files", BENCHMARK)
        config.addinivalue_line("python_functions", "bench_kernel")


def _names_benchmark(config: pytest.Config, root: Path) -> bool:
    """Tell whether the command line, or testpaths, name bench/ or what lies in it."""
    file = root / BENCHMARK
    paths = [(config.invocation_params.dir / argument.split("::")[0]).resolve() for argument in config.args]
    return file.is_file() and any(path.is_relative_to(file.parent.resolve()) for path in paths)
