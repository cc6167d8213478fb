"""The hooks of pytest and pytest-benchmark: thin, each hands over to gate, baseline or report."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

from bench import sampling
from bench.against import Against
from bench.gate import Gate, difference, find_runs
from bench.judge import Judge
from bench.ladder import share
from bench.match import Match
from bench.measure import Again
from bench.postponed import Postponed, Progress
from bench.report import line, summary
from bench.revision import BadRevision, checkout, compile_rivals, find_commit, read_rivals
from bench.runs import BASELINES, NO_GPU, BadRun
from bench.selfcheck import SelfCheck, known_spreads, path_of, save
from bench.storage import Results
from bench.verdict import Verdict
from kernels import FAMILIES
from kernels.catalogue import find_case
from kernels.compiler import nvcc
from kernels.device import DeviceInfo, NoDevice
from kernels.selection import omitted_cases, timed_cases
from kernels.worker import Worker

CHECK = "--self-check"
CHECK_BYTES = 2**18  # of its file: 144 kB for 831 cases
SHOWN_WITHOUT_CLOCK = 5  # lines of a verdict, where the times are the host's and prove nothing


class BenchPlugin:
    """One run of the benchmark. ``device`` opens the GPU at the first call."""

    def __init__(self, config: pytest.Config, worker: Worker, device: Callable[[], DeviceInfo | NoDevice]) -> None:
        self.config, self.worker, self._device = config, worker, device
        self.cold = not config.getoption("--warm-cache")
        self.gate: Judge = Gate()
        self.results = Results(config)
        self.gpu: dict[str, Any] = {}
        self.selected: set[str] = set()
        self.failed: dict[str, str] = {}
        self.broken: dict[str, str] = {}  # what was right, and failed when it was measured again
        self.judged = False
        self._done = 0
        self._postponed = Postponed()
        self._notes: list[str] = []
        # Ours: pytest-benchmark would compare with one run, and know neither GPU nor noise.
        self.compare: str | bool = config.option.benchmark_compare
        config.option.benchmark_compare = []
        self.against: str | None = config.getoption("--against")
        chosen = {
            "--benchmark-compare": self.compare,
            "--against": self.against,
            "--self-check": config.getoption(CHECK),
        }
        if len(named := [name for name, value in chosen.items() if value]) > 1:
            raise pytest.UsageError(f"{' and '.join(named)} are different things to do: choose one")
        if config.getoption("numprocesses", None) and _reaches_bench(config):
            raise pytest.UsageError(
                "pytest bench does not run under -n: processes that share a GPU time each other; leave -n away"
            )

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        items = [item for item in session.items if "gate" in getattr(item, "fixturenames", ())]
        if not items or self.config.option.collectonly:
            return
        self.selected = {item.callspec.id for item in items}  # type: ignore[attr-defined]
        self._progress = Progress(self.config.pluginmanager.get_plugin("terminalreporter"))
        device = self._device()
        if isinstance(device, DeviceInfo):
            toolkit = {"toolkit": nvcc(device.timing_target.program).version}
            self.gpu = self.worker.call(sampling.describe_gpu, self.cold) | toolkit
            said = f"L2 {self.gpu['cache']}; after a scrub, reading half takes {self.gpu['coldness']} times as long"
            self._notes.append(f"{device.name}: {device.note}" if device.note else said)
        self._take_over_storage()
        if self.compare:
            self.gate = self._find_baseline()
        if self.against or self.config.getoption(CHECK):
            if not isinstance(device, DeviceInfo):
                raise pytest.UsageError(f"{'--against' if self.against else CHECK} needs a device: {device}")
            self.gate = self._find_revision(self.against, device) if self.against else self._check_itself(device)
        left_out = omitted_cases(FAMILIES)
        self._notes.append(f"{len(left_out)} serial cases are left out: over a second each")

    def _take_over_storage(self) -> None:
        """The one place that touches what pytest-benchmark keeps to itself (tests/test_plugin.py watches it)."""
        benchmark = self.config._benchmarksession  # type: ignore[attr-defined]
        benchmark.save_data = True
        if self.gpu and not (benchmark.save or benchmark.disabled):
            from pytest_benchmark.utils import get_tag  # noqa: PLC0415  # asks git

            benchmark.autosave = benchmark.autosave or get_tag()
        self.results.take_over(self.gpu.get("slug", NO_GPU), len(self.selected), self._notes.append)

    def _find_baseline(self) -> Gate:
        require, gate = self.config.getoption("--require-baseline"), Gate()
        if not self.gpu:
            if require:
                raise pytest.UsageError("--require-baseline: there is no GPU to have a baseline")
            self._notes.append("no GPU, so nothing is compared with a baseline")
            return gate
        slug, storage = self.gpu["slug"], self.config._benchmarksession.storage.root  # type: ignore[attr-defined]
        gate.unit, gate.doubt = self.gpu["uuid"], self.gpu.get("note", "")
        try:
            gate.runs, problems = find_runs(self.compare, storage, slug, gate.unit)
            self._notes += problems
        except BadRun as error:
            raise pytest.UsageError(str(error)) from None
        if self.compare is True and not (BASELINES / slug).is_dir():
            cure = f"run `pytest bench` five times, then `python -m bench.baseline promote .benchmarks/{slug}/*.json`"
            if require:
                raise pytest.UsageError(f"there is no baseline for {slug}: {cure}")
            so = "what was saved here before takes its place" if gate.runs else "nothing is judged"
            self._notes.append(f"there is no baseline for {slug}, so {so}: {cure}")
        gate.apart = difference(gate.runs, self.gpu)
        return gate

    def _check_itself(self, device: DeviceInfo) -> SelfCheck:
        self.results.require_room(self._check_path(), CHECK_BYTES, "the self-check is saved there; make room")
        progress = functools.partial(self._progress, "compiling kernels that wait")
        return SelfCheck(device.timing_target, Match(self.gpu.get("note", "")), progress)

    def _find_revision(self, revision: str, device: DeviceInfo) -> Against:
        progress = functools.partial(self._progress, f"compiling kernels of {revision}")
        try:
            commit = find_commit(revision)
            tree = checkout(commit, revision)
            rivals = read_rivals(tree, revision)
            known = known_spreads(device.slug)
        except (BadRevision, BadRun) as error:
            raise pytest.UsageError(str(error)) from None
        wanted = [rival for name, rival in rivals.items() if name in self.selected]
        images = compile_rivals(wanted, tree, device.timing_target, progress)
        match = Match(self.gpu.get("note", ""))
        return Against(revision, commit, rivals, images, match, known)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if not self.gate.active or "gate" not in getattr(item, "fixturenames", ()):
            return None
        self._postponed.run(item, nextitem)
        self._done += 1
        self._progress("timing", self._done, len(self.selected))
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """When all is measured, judge it all together; what is interrupted is not judged."""
        slower: dict[str, str] = {}
        try:
            result = yield
            if self.gate.active:
                progress = functools.partial(self._progress, "measuring again")
                self.gate.conclude(Again(self.cold, progress, self.broken))
                self.judged = True
                if isinstance(self.gate, SelfCheck):
                    self._keep(self.gate)
                slower = {name: line(j) for name, j in self.gate.judgements.items() if j.verdict == Verdict.SLOWER}
            return result
        finally:
            self._postponed.release(slower | self.broken)

    def _check_path(self) -> Path:
        """Of the self-check: beside the baseline, if it is of all cases on a GPU; else where runs are saved."""
        good = self._whole() and not self.gpu.get("note")
        folder = BASELINES if good else self.config._benchmarksession.storage.root  # type: ignore[attr-defined]
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

    def pytest_benchmark_update_machine_info(self, machine_info: dict[str, Any]) -> None:
        machine_info["gpu"] = self.gpu

    def pytest_benchmark_update_json(self, output_json: dict[str, Any]) -> None:
        times = {entry["param"]: entry["stats"]["median"] for entry in output_json["benchmarks"]}
        for entry in output_json["benchmarks"]:
            entry["extra_info"]["share"] = share(find_case(FAMILIES, entry["param"]), times)
        slower = {name for name, judgement in self.gate.judgements.items() if judgement.verdict == Verdict.SLOWER}
        output_json["warpwatch"] = {
            "failed": sorted(self.failed.keys() - slower),
            "slower": sorted(slower),
            "whole": self._whole() and len(output_json["benchmarks"]) == len(self.selected),
            "controls": {name: str(j.verdict) for name, j in getattr(self.gate, "controls", {}).items()},
            "against": self.gate.commit if isinstance(self.gate, Against) else CHECK * isinstance(self.gate, SelfCheck),
        }

    def _whole(self) -> bool:
        return self.selected >= {case.id for case in timed_cases(FAMILIES)}

    def _missing(self) -> list[str]:
        return self.gate.missing(self.selected) if self.judged and self._whole() else []

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        reasons = self.config.getoption("--fail-on")
        unsure = any(judgement.verdict == Verdict.UNSURE for judgement in self.gate.judgements.values())
        failed = self._missing() or ("unsure" in reasons and unsure) or ("common" in reasons and self.gate.alarm)
        if failed and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.selected:
            return
        lines = [*self._notes, *self._timeouts()]
        if self.gate.active:
            lines += self.gate.describe()
            most = SHOWN_WITHOUT_CLOCK if self.gpu.get("note") else None
            lines += (
                summary(self.gate.judgements, self._missing(), most) if self.judged else ["interrupted: not judged"]
            )
        terminalreporter.section("kernels")
        for text in lines:
            terminalreporter.line(text)

    def _timeouts(self) -> Iterable[str]:
        benchmarks = self.config._benchmarksession.benchmarks  # type: ignore[attr-defined]
        thrown = sum(bench.extra_info.get("hold_timeouts", 0) for bench in benchmarks)
        if thrown:
            yield f"{thrown} samples were thrown away and taken again, because the hold ran into its limit"


def _reaches_bench(config: pytest.Config) -> bool:
    bench = config.rootpath / "bench"
    paths = [(config.invocation_params.dir / argument.split("::")[0]).resolve() for argument in config.args]
    return any(bench.is_relative_to(path) or path.is_relative_to(bench) for path in paths)
