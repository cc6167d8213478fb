"""Hooks of pytest and pytest-benchmark in a benchmark run, which compares, saves and reports."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import omitted_cases, timed_cases
from warpwatch.compare.apart import OtherProcess
from warpwatch.compare.comparison import Comparison, Part
from warpwatch.compare.pairs import PairComparison, open_spares, start_spares
from warpwatch.compare.reference import RECORD, Reference
from warpwatch.compare.saved_self_check import path_of, read_variances, save
from warpwatch.compare.self_check import SelfCheck
from warpwatch.compare.with_baseline import BaselineComparison
from warpwatch.compare.with_revision import RevisionComparison
from warpwatch.devices.compile.compiler import CompileError, nvcc, private_folder
from warpwatch.devices.gpu import NoDevice
from warpwatch.devices.gpus import sees_gpu
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.other_kernel import OtherKernel
from warpwatch.devices.worker import Worker
from warpwatch.plugin import explanations, locks, outcome
from warpwatch.plugin import pytest_benchmark_bridge as bridge
from warpwatch.plugin.cases import id_of, is_timed, parameter_in, parameter_of
from warpwatch.plugin.device import MODEL
from warpwatch.plugin.options import BENCHMARK, asks_only, named_options, names_benchmark, spelled, value_of
from warpwatch.plugin.other_plugins import objection
from warpwatch.plugin.outcome import Postponed, Progress
from warpwatch.plugin.record import TESTS, Tests
from warpwatch.plugin.storage import Results
from warpwatch.plugin.xdist import scheduling, several_gpus
from warpwatch.plugin.xdist.processes import hand, is_first, is_part, name_of, number_of_parts
from warpwatch.report.ladder import add_shares
from warpwatch.revision.commit import checkout, compile_other_kernels, find_commit, other_kernels_of, same_files
from warpwatch.revision.declared import BadRevision, Reading
from warpwatch.revision.unpacked import missing_submodules, naming_missing_submodules
from warpwatch.runs.elsewhere import fetch_baselines
from warpwatch.runs.record import NO_GPU, BadRun, Outcome, recorded
from warpwatch.timing import sampling
from warpwatch.timing.measurement import Again

CHECK_BYTES = 2**18  # of its file: 144 kB for 831 cases
BENCH = pytest.StashKey["BenchPlugin"]()


def baselines_of(config: pytest.Config, project: Project, slug: str, say: Callable[[str], None]) -> Path:
    """Return the folder of baselines, with a folder for each GPU. Raises UsageError where it cannot be read.

    ``say``: is told where they come from, since the folder may hold copies.
    """
    where = value_of(config, "baseline")
    if not where:
        return project.baselines
    say(f"baselines are taken from {where}")
    try:
        return fetch_baselines(where, slug, private_folder("baselines"))
    except (BadRun, CompileError, OSError) as error:
        raise pytest.UsageError(f"{spelled(config, 'baseline')}: {error}") from None


class OtherRevision:
    """Reads another revision in the background, until ``kernels`` needs it.

    ``commit``, ``tree``: of that revision, and the folder that it is unpacked in. ``same_files``: no file of the
    repository differs from it.
    """

    def __init__(self, revision: str, project: Project) -> None:
        self.revision, self.commit, self.tree, self.same_files = revision, "", Path(), False
        self._reading: Reading | None = None
        self._error: BadRevision | None = None
        try:
            self.commit = find_commit(revision, project.root)
            self.tree = checkout(self.commit, revision, project)
            self._reading = Reading(self.tree, project.module, revision)
            self.same_files = same_files(self.commit, revision, project.root)
        except BadRevision as error:  # told when the kernels are asked for: other mistakes come first
            self._error = error

    @property
    def may_differ(self) -> bool:
        """Tell whether kernels may have to be measured: the revision was found, and a file differs from it."""
        return self._error is None and not self.same_files

    def kernels(self, arch: str) -> dict[str, OtherKernel]:
        """Return every GPU case that the revision times, by its id. ``arch``: of this GPU. Raises BadRevision."""
        if self._reading is None:
            assert self._error
            raise self._error
        with naming_missing_submodules(self.tree):
            document = self._reading.declared(arch)
        return other_kernels_of(document.cases, self.tree, self.revision)

    def stop(self) -> None:
        """End the process that reads, if it still runs."""
        if self._reading:
            self._reading.stop()


def begin(config: pytest.Config, project: Project, worker: Worker, revision: str) -> OtherRevision:
    """Begin to read a revision, and start the worker processes that measure after the first one.

    None is started where no file differs or the revision is not found, because nothing is measured then.
    """
    other = OtherRevision(revision, project)
    config.add_cleanup(other.stop)
    if not is_first(config) and other.may_differ and worker.settings.kind in ("auto", "gpu") and sees_gpu():
        start_spares(worker, number_of_parts(config))
    return other


def keep_storage_in_root(config: pytest.Config, project: Project) -> None:
    """Save runs where the repository wants them, wherever pytest was started, unless the user names a storage.

    pytest-benchmark takes its own default, like what the user names, from the current folder.
    """
    if "--benchmark-storage" not in named_options(config):
        config.option.benchmark_storage = f"file://{project.saved_runs}"


def collect_benchmark(config: pytest.Config, root: Path) -> None:
    """Let pytest collect bench/bench_kernels.py, which its own patterns leave out, where bench/ is named.

    So a run of all tests, which may be in several processes, times nothing, and a repository need not change its own
    patterns.
    """
    if names_benchmark(config, root):
        config.addinivalue_line("python_files", BENCHMARK)
        config.addinivalue_line("python_functions", "bench_kernel")


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
        self._cases: dict[str, Case] = {}  # those that are selected; one that is declared with a mistake is none
        self.failed: dict[str, str] = {}
        self.passed: dict[str, pytest.TestReport] = {}
        self.broken: dict[str, str] = {}  # cases that were right and failed when they were measured again
        self.concluded = False
        self._done, self._ended = 0, 0  # cases that were measured, processes of xdist that have ended
        self._postponed = Postponed()
        self._notes: list[str] = []
        self._when = ""  # the moment by which saved runs are told apart
        self._last_words: list[str] = []
        # Taken from pytest-benchmark, which would compare with a single run and without regard to GPU and noise.
        self.compare: str | bool = config.option.benchmark_compare
        config.option.benchmark_compare = []
        self.against: str | None = value_of(config, "against")
        self.asked = outcome.asked_for(config, self.compare, self.against)
        keep_storage_in_root(config, project)
        here = names_benchmark(config, project.root)
        self._first, self.measures_part = here and is_first(config), here and is_part(config)
        self._parts: dict[str, Part] = {}  # by the name of its process, gw0 first
        if self._first and value_of(config, "self-check"):
            raise pytest.UsageError(f"{spelled(config, 'self-check')} tests one GPU: leave -n out")
        self._other: OtherRevision | None = None
        if self.against and here and not asks_only(config):
            self._other = begin(config, project, worker, self.against)
        if self._first:  # a process that replaced one which died would take the GPU of another
            config.option.maxworkerrestart = "0"

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.measures_part:
            scheduling.longest_first(items, number_of_parts(self.config))

    def pytest_sessionstart(self) -> None:
        """Find what is wrong before processes are started, or at once; have spare processes open the GPU."""
        if self._other:
            self._open_spares(self._other)
        if self._first and not self.config.option.collectonly:
            if not self.config.stash[MODEL]:
                self._prepare_for_parts()
            # Two runs that each held one GPU and wanted the other's would wait for one another.
            self._notes += locks.hold_gpu(self.config, "several GPUs", "several-gpus")

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Find the rest of what is wrong while processes of xdist start; they collect the tests, this one does not."""
        if self._first and self.config.stash[MODEL] and not self.config.option.collectonly:
            self._prepare_for_parts()

    def _prepare_for_parts(self) -> None:
        if wrong := several_gpus.objection_to_parts(self.config, self._device()):
            raise pytest.UsageError(wrong)
        self._cases = {case.id: case for case in timed_cases(self.project.families)}
        self._prepare(set(self._cases))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        items = list(filter(is_timed, session.items))
        if self._first or self.measures_part:
            bridge.measure_here(self.config, save=self._first)
        if not items or self.config.option.collectonly or (is_part(self.config) and not self.measures_part):
            return
        try:
            self._cases = {case.id: case for item in items if isinstance(case := parameter_of(item), Case)}
            self._prepare({id_of(item) for item in items})
        except pytest.UsageError as error:
            if not self.measures_part:
                raise
            session.shouldfail = str(error)  # in a process of xdist the error itself would be an internal one

    def _prepare(self, selected: set[str]) -> None:
        """Describe the device, make sure that results can be saved, and find what to compare with."""
        if wrong := objection(self.config):
            raise pytest.UsageError(wrong)
        self.selected = selected
        self._progress = Progress(self.config.pluginmanager.get_plugin("terminalreporter"))
        device = self._device()
        if isinstance(device, DeviceInfo):
            toolkit = {"toolkit": nvcc(device.timing_target.program).version}
            self.gpu = self.worker.call(sampling.describe_gpu, self.cold, not self._first) | toolkit
            note = f"{device.name}: {device.note}" if device.note else outcome.how_times_are_read(self.gpu)
            self._notes += [*filter(None, [note]), *self.gpu.get("remarks", ())]
            uuid = self.gpu["uuid"]
            if device.has_gpu_clock and not self._first:  # the software device's times judge nothing
                self._notes += locks.hold_gpu(self.config, f"GPU {uuid}", uuid)
        wrong = several_gpus.objection_to_model(self.config, self.gpu)
        if wrong := wrong or outcome.objection_to_energy(self.config, device, self.worker):
            raise pytest.UsageError(wrong)
        self._take_over_storage()
        outcome.refuse_rules_without_comparison(self.config, self.compare, self.asked)
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
        """Let pytest-benchmark save this run with all samples, in the folder of this GPU."""
        if self.measures_part or self._first:
            bridge.measure_here(self.config, save=self._first)
        bridge.save_samples(self.config, always=bool(self.gpu) and not self.measures_part)
        self.results.take_over(self.gpu.get("slug", NO_GPU), len(self.selected), self._notes.append)

    def _find_baseline(self) -> BaselineComparison:
        if not self.gpu:
            self.asked.nothing = "there is no GPU to have a baseline"
            return BaselineComparison()
        try:
            where = baselines_of(self.config, self.project, self.gpu["slug"], self._notes.append)
            reference = Reference.find(self.compare, self.results.root, where, self.gpu)
        except BadRun as error:
            raise pytest.UsageError(str(error)) from None
        self._notes += reference.notes
        self.asked.nothing = reference.nothing(self.selected)
        self.asked.advice = reference.advice
        if reference.absent:
            cure = f"`{RECORD}` makes one"
            if self.asked.required:
                raise pytest.UsageError(f"{reference.absent}: {cure}")
            so = "what was saved here before takes its place" if reference.runs else "nothing is compared"
            self._notes.append(f"{reference.absent}, so {so}: {cure}")
        return BaselineComparison(
            runs=reference.runs,
            gpu_uuid=self.gpu["uuid"],
            incomparable_reason=reference.incomparable_reason,
            doubt=self.gpu.get("note", ""),
            parts=number_of_parts(self.config),
        )

    def _check_itself(self, device: DeviceInfo) -> SelfCheck:
        if all(case.variant.on_host or case.variant.call for case in self._cases.values()):
            self.asked.nothing = f"none of the {len(self.selected)} selected cases has GPU machine code of this suite"
        self.results.require_space(self._check_path(), CHECK_BYTES, "the self-check is saved there; free some space")
        progress = functools.partial(self._progress, "compiling kernels that wait")
        return SelfCheck(
            target=device.timing_target,
            side_by_side=PairComparison(self.gpu.get("note", "")),
            compiling=progress,
        )

    def _find_revision(self, revision: str, device: DeviceInfo) -> RevisionComparison:
        progress = functools.partial(self._progress, f"compiling kernels of {revision}")
        other = self._other or OtherRevision(revision, self.project)
        if not self._other:  # the benchmarks are in other files than bench/'s
            self._open_spares(other)
        try:
            others = other.kernels(device.timing_target.arch)
            variances = read_variances(device.slug, self.project.baselines)
        except (BadRevision, BadRun) as error:
            raise pytest.UsageError(outcome.worded(self.config, error)) from None
        wanted = [other for name, other in others.items() if name in self.selected]
        if not wanted:
            self.asked.nothing = f"none of the {len(self.selected)} selected cases is in {revision}"
            self.asked.refuse()
        images = {} if self._first else compile_other_kernels(wanted, device.timing_target, progress)  # parts do
        side_by_side = PairComparison(self.gpu.get("note", ""), number_of_parts(self.config))
        return RevisionComparison(
            revision=revision,
            commit=other.commit,
            others=others,
            images=images,
            side_by_side=side_by_side,
            recorded_variances=variances,
            apart=self._process_of(other),
            same_files=other.same_files,
            tree=other.tree,
            lacks=missing_submodules(other.tree),
        )

    def _process_of(self, other: OtherRevision) -> OtherProcess:
        process = OtherProcess(other.tree, self.project.module, self.worker.settings)
        self.config.add_cleanup(process.stop)
        return process

    def _open_spares(self, other: OtherRevision) -> None:
        """Have the processes that measure after the first one open the GPU, where a file differs from the revision."""
        device = None if self._first or not other.may_differ else self._device()
        if isinstance(device, DeviceInfo) and device.has_gpu_clock:
            open_spares(self.worker, self.project.families, device, cold=self.cold)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if not is_timed(item) or not self.selected:
            return None
        if active := self.comparison.active:
            self._postponed.run(item, nextitem)
        self._done += 1
        (self._progress if active else self._progress.between_dots)("timing", self._done, len(self.selected))
        return active or None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Give all cases their verdicts together when all are measured; an interrupted run gives none."""
        slower: dict[str, str] = {}
        verdicts: dict[str, dict[str, str]] = {}
        try:
            result = yield
            if self.comparison.active and not self._first:
                progress = functools.partial(self._progress, "measuring again")
                self.comparison.conclude(Again(self.cold, progress, self.broken))
                self.concluded = True
                self.worker.leave()  # it ends while verdicts are explained and reported
                if document := self.comparison.document():
                    self._keep(document)
                progress = functools.partial(self._progress, "explaining")
                explanations.explain_cases(self.comparison, self.project, self._device(), progress)
                slower, verdicts = explanations.reports(self.comparison.decisions)
            return result
        finally:
            self._postponed.release(slower | self.broken, verdicts)

    @property
    def _tests(self) -> Tests:
        return self.config.stash[TESTS]

    def _check_path(self) -> Path:
        """Return the file of the self-check: beside the baseline if it has all cases, else among saved runs."""
        good = self._whole() and not self.gpu.get("note")
        folder = self.project.baselines if good else self.results.root
        return path_of(self.gpu["slug"], folder)

    def _keep(self, document: dict[str, Any]) -> None:
        path = self._check_path()
        with self.results.saving(f"this self-check, as {path},"):
            save(document | {"gpu": self.gpu}, path)
            self._notes.append(f"saved {path}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = parameter_in(report.nodeid)
        if report.failed and name in self.selected:
            self.failed[name] = report.longreprtext
        if report.passed and report.when == "call" and name in self.selected:
            self.passed[name] = report
        explanation = dict(report.user_properties).get(explanations.PROPERTY)
        if explanation and report.when == "call":
            bridge.add_to_junit(self.config, report, str(explanation))

    def pytest_benchmark_update_machine_info(self, machine_info: dict[str, Any]) -> None:
        machine_info["gpu"] = self.gpu

    def pytest_benchmark_update_json(self, output_json: dict[str, Any]) -> None:
        output_json["datetime"] = self._when = self._when or output_json["datetime"]  # in both files of one run
        unusual = [test for test in self._tests.tests if test.outcome != Outcome.PASSED]
        output_json["warpwatch"] = recorded(self._about(output_json["benchmarks"]) | {"tests": unusual})

    def _about(self, benchmarks: list[dict[str, Any]]) -> dict[str, Any]:
        """Add shares to the cases of a run that is to be saved, and return what it records of itself."""
        add_shares(self._cases, benchmarks)
        whole = self._whole() and len(benchmarks) == len(self.selected)
        about = outcome.facts_of_run(self.comparison, self.failed.keys(), whole=whole)
        return about | {"missing": self._missing(), "nothing": self._last_words}

    def _record(self) -> None:
        """Hand what is known of a run that measures to its record, where that has a file of its own."""
        if self.selected and self._tests.is_written:
            benchmarks = [saved for saved, _ in bridge.measured(self.config)]
            self._tests.about = self._about(benchmarks)
            self._tests.document = {"benchmarks": benchmarks, "machine_info": {"gpu": self.gpu}}
        self._tests.about["nothing"] = self._last_words

    def _whole(self) -> bool:
        return self.selected >= {case.id for case in timed_cases(self.project.families)}

    def _missing(self) -> list[str]:
        return self.comparison.missing(self.selected) if self.concluded and self._whole() else []

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Generator[None, object, object]:
        """Fail a run that compared too little, and say so below everything else that pytest prints."""
        if self.measures_part and self.selected:
            several_gpus.send(self.config, self._as_part())
        if self._first and self.selected:
            self._join()
        outcome.choose_tables(self.config)
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        words: list[str] = []
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and not self.config.option.collectonly:
            words = [outcome.nothing_ran(self.config)]
        elif self.selected and exitstatus in outcome.ENDED:
            words = self._conclude(session, reporter)
        if reporter and not words:
            words = outcome.nothing_tested(reporter)
        self._last_words = words
        self._record()
        result = yield
        colour = "yellow" if session.exitstatus == pytest.ExitCode.OK else "red"
        for text in words:
            if reporter:
                reporter.write_line(text, bold=True, **{colour: True})
        return result

    def _as_part(self) -> Part:
        """Return the results of this process of xdist, for the first process."""
        comparison = self.comparison
        return Part(
            gpu=self.gpu,
            selected=frozenset(self.selected),
            benchmarks=bridge.measured(self.config, gpu_uuid=self.gpu.get("uuid", "")),
            decisions=comparison.decisions,
            controls=comparison.controls,
            energy=comparison.energy,
            lines=tuple(comparison.describe()) if comparison.active else (),
            notes=tuple(self._notes),
            alarm=comparison.alarm,
            concluded=self.concluded,
        )

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._ended += 1
        if part := several_gpus.received(node):
            self._parts[name_of(node)] = part

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        hand(node, several_gpus.SLUG, self.gpu.get("slug", "") or self.config.stash[MODEL])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        progress = functools.partial(self._progress, "timing") if self._first and self.comparison.active else None
        return scheduling.scheduler_of_times(config, log, self.project, progress) if self._first else None

    def _join(self) -> None:
        """Take over the results of the processes of xdist, as if they were those of this process."""
        parts = [self._parts[name] for name in sorted(self._parts, key=lambda name: (len(name), name))]
        self.selected = set().union(*(part.selected for part in parts))
        self._notes[:] = dict.fromkeys([*self._notes, *(note for part in parts for note in part.notes)])
        self.concluded = len(parts) == self._ended and all(part.concluded for part in parts)
        if parts:
            self.comparison.join(parts)
            # With what the first process leaves to those that measure.
            self.gpu = {**parts[0].gpu, "uuids": [part.gpu.get("uuid", "") for part in parts]}
        several_gpus.show_all(self.config, parts, [case.id for case in timed_cases(self.project.families)])

    def _conclude(self, session: pytest.Session, reporter: pytest.TerminalReporter | None) -> list[str]:
        """Set the exit status that follows from the comparison, and return the last lines of the run."""
        comparison, reasons = self.comparison, value_of(self.config, "fail-on")
        silent = outcome.nothing_measured(self.config, self._cases)
        if self._missing() or outcome.fails(self.asked, comparison, reasons) or (silent and "energy" in reasons):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        left = outcome.uncompared(self.asked, comparison.decisions, self.passed, comparison.compared)
        if left and reporter:  # whole reports, because other plugins read them
            reporter.stats[outcome.NOT_COMPARED] = [self.passed[name] for name in left if name in self.passed]
        return [*silent, *self.asked.last_words(comparison.decisions, comparison.compared)]

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.selected:
            return
        lines, has_clock = [*self._notes, *outcome.timeouts(self.config)], bool(self.gpu) and not self.gpu.get("note")
        if self.comparison.active:
            lines += self.comparison.describe()
            if self.concluded:
                lines += outcome.verdicts(
                    self.config, self.comparison, self._missing(), has_clock=has_clock, results=self.results
                )
            else:
                lines.append("interrupted: no case has a verdict")
        lines += outcome.left_out_lines(self.config, self._cases)
        lines += outcome.what_is_left_out(self.config, lines, self.results.saved)
        lines += outcome.next_step(self.config, self.comparison, self.comparison.decisions, self.failed.keys())
        slug, asked = self.gpu.get("slug", ""), bool(self.asked.option)
        lines += outcome.first_baseline(self.project.baselines, slug, has_clock=has_clock, compared=asked)
        terminalreporter.section("kernels")
        for text in lines:
            terminalreporter.line(text)
