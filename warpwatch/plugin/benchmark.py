"""Hooks of pytest and pytest-benchmark in a benchmark run, which compares, saves and reports."""

from __future__ import annotations

import functools
import pickle
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any

import pytest

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import omitted_cases, timed_cases
from warpwatch.compare.comparison import Part
from warpwatch.compare.saved_self_check import save
from warpwatch.devices.compile.compiler import nvcc
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.worker import Worker
from warpwatch.plugin import locks
from warpwatch.plugin.benchmark_run import RUN, Asked, Run, refuse
from warpwatch.plugin.cases import is_timed, parameter_in, parameter_of
from warpwatch.plugin.compile_step import COMPILATION
from warpwatch.plugin.device import MODEL
from warpwatch.plugin.ending import EXPLANATION, Ending
from warpwatch.plugin.options import BENCHMARK, named_options
from warpwatch.plugin.pytest_benchmark_bridge import Benchmarks, Postponed, add_to_junit
from warpwatch.plugin.reports import TESTS
from warpwatch.plugin.storage import Results
from warpwatch.plugin.xdist.processes import SLUG, hand, hand_back, handed_back, is_controller, is_part, number_of_parts
from warpwatch.runs.record import NO_GPU, Outcome, recorded
from warpwatch.timing import sampling
from warpwatch.timing.measurement import Again
from warpwatch.verdict import rule

PART = "warpwatch_part"  # handed back to the first process of xdist: the results of another one
SECONDS = 10  # between two lines of progress
# What pytest-benchmark's tables look like, unless options say otherwise: they fit into 100 columns.
TABLES: Mapping[str, Any] = {"columns": ["median", "iqr", "rounds"], "sort": "name", "time-unit": "us"}
TABLE_OF = ("family", "shape", "dtype")  # parameters that all cases of a table share


class Progress:
    """Line of progress, which is overwritten on a terminal and repeated every ten seconds elsewhere."""

    def __init__(self, reporter: pytest.TerminalReporter | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._reporter, self._clock = reporter, clock
        self._begin, self._step, self._printed = clock(), "", clock()

    def __call__(self, step: str, done: int, total: int, *, between_dots: bool = False) -> None:
        """Report progress. ``step``, such as 'timing', starts a new estimate of the time left where it changes.

        ``between_dots``: pytest prints a dot for each test, so it is a line of its own everywhere.
        """
        now, reporter = self._clock(), self._reporter
        if step != self._step:
            self._begin, self._step, self._printed = now, step, now
        if reporter is None or reporter.verbosity < 0:
            return
        left = (now - self._begin) / max(done, 1) * (total - done)
        text = f"{step}: {done} of {total}, {int(left) // 60}:{int(left) % 60:02} left"
        if reporter.isatty and not between_dots:
            reporter.rewrite(text + " ", erase=True)
            if done == total:
                reporter.line("")
        elif now - self._printed > SECONDS:
            self._printed = now
            if between_dots:
                reporter.ensure_newline()
            reporter.write_line(text)

    def say(self, text: str) -> None:
        """Print a line of its own."""
        if self._reporter and self._reporter.verbosity >= 0:
            self._reporter.ensure_newline()
            self._reporter.write_line(text)


def how_times_are_read(gpu: Mapping[str, Any]) -> str:
    """Say in which state of L2 a GPU's times are read, and what of them is not the kernel's; empty if not measured."""
    if "coldness" not in gpu:
        return ""
    state = f"L2 {gpu['cache']}; after a scrub, reading half takes {gpu['coldness']} times as long"
    beside = 1e6 * gpu.get("overhead", 0.0)
    return (
        f"{state}; {beside:.1f} µs of each time are not the kernel's, and rates are without them" if beside else state
    )


class BenchPlugin:
    """One run of the benchmark, in this process.

    Where it hands its cases to processes of xdist (-n, --tx), each has a GPU of its own, and judges its cases by
    itself, with the noise floors and the process effect of that GPU; pairs stay on one GPU. This process joins the
    results (``Comparison.join``) and writes one saved run.
    """

    def __init__(self, config: pytest.Config, project: Project, worker: Worker) -> None:
        self.config, self.results = config, Results(config)
        self.run = config.stash[RUN] = Run(
            config=config, project=project, worker=worker, results=self.results, asked=Asked(config)
        )
        self._ending, self._postponed = Ending(self.run), Postponed()
        self._done, self._ended = 0, 0  # cases that were measured, processes of xdist that have ended
        self._broken: dict[str, str] = {}  # cases that were right and failed when they were measured again
        self._when = ""  # the moment by which saved runs are told apart
        self._last_words: list[str] = []
        self._parts: dict[str, Part] = {}  # by the name of its process, gw0 first
        # pytest-benchmark takes its own default, like what the user names, from the current folder.
        if "--benchmark-storage" not in named_options(config):
            config.option.benchmark_storage = f"file://{project.saved_runs}"
        if self.run.named:  # pytest's own patterns leave it out, so that a run of all tests times nothing
            given = named_options(config)
            for name, value in TABLES.items():
                if f"--benchmark-{name}" not in given:
                    setattr(config.option, f"benchmark_{name.replace('-', '_')}", value)
            config.addinivalue_line("python_files", BENCHMARK)
            config.addinivalue_line("python_functions", "bench_kernel")
        self.run.begin()
        if self.run.is_controller:  # a process that replaced one which died would take the GPU of another
            config.option.maxworkerrestart = "0"

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.run.measures_part:
            from warpwatch.plugin.xdist.scheduling import longest_first  # noqa: PLC0415  # which imports xdist's own

            longest_first(items, number_of_parts(self.config))

    def pytest_sessionstart(self) -> None:
        """Find what is wrong before processes are started, or at once; have spare processes open the GPU."""
        self.run.open_spares()
        if self.run.is_controller and not self.config.option.collectonly:
            if not self.config.stash[MODEL]:
                self._prepare(timed_cases(self.run.project.families))
            # Two runs that each held one GPU and wanted the other's would wait for one another.
            self.run.notes += locks.hold_gpu(self.config, "several GPUs", "several-gpus")

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Find the rest of what is wrong while processes of xdist start; they collect the tests, this one does not."""
        if self.run.is_controller and self.config.stash[MODEL] and not self.config.option.collectonly:
            self._prepare(timed_cases(self.run.project.families))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        items = list(filter(is_timed, session.items))
        if self.run.is_controller or self.run.measures_part:
            Benchmarks(self.config).measure_here(save=self.run.is_controller)
        if not items or self.config.option.collectonly or (is_part(self.config) and not self.run.measures_part):
            return
        try:
            cases = [case for item in items if isinstance(case := parameter_of(item), Case)]
            self._prepare(cases, [parameter_in(item.name) for item in items])
        except pytest.UsageError as error:
            if not self.run.measures_part:
                raise
            session.shouldfail = str(error)  # in a process of xdist the error itself would be an internal one

    def _prepare(self, cases: Iterable[Case], names: Iterable[str] = ()) -> None:
        """Describe the device, make sure that results can be saved, and find what to compare with.

        ``names``: ids of the tests, also of those that have no case because their declaration has a mistake.
        """
        run, config = self.run, self.config
        run.cases = {case.id: case for case in cases}
        run.selected = {*run.cases, *names}
        refuse(run.objections_to_options())
        self._progress = Progress(config.pluginmanager.get_plugin("terminalreporter"))
        if isinstance(run.device, DeviceInfo):
            toolkit = {"toolkit": nvcc(run.device.timing_target.program).version}
            run.gpu = run.worker.call(sampling.describe_gpu, run.cold, not run.is_controller) | toolkit
            note = f"{run.device.name}: {run.device.note}" if run.device.note else how_times_are_read(run.gpu)
            run.notes += [*filter(None, [note]), *run.gpu.get("remarks", ())]
            if run.device.has_gpu_clock and not run.is_controller:  # the software device's times judge nothing
                run.notes += locks.hold_gpu(config, f"GPU {run.gpu['uuid']}", run.gpu["uuid"])
        refuse(run.objections_to_device())
        benchmarks = Benchmarks(config)
        if run.measures_part or run.is_controller:
            benchmarks.measure_here(save=run.is_controller)
        benchmarks.save_samples(always=bool(run.gpu) and not run.measures_part)
        self.results.take_over(run.gpu.get("slug", NO_GPU), len(run.selected), run.notes)
        run.comparison = run.find_comparison(self._progress)
        run.contracts.select(run.cases.values())
        if left_out := omitted_cases(run.project.families):
            run.notes.append(f"{len(left_out)} serial cases are left out: over a second each")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if not is_timed(item) or not self.run.selected:
            return None
        if active := self.run.comparison.active or self.run.contracts.active:
            self._postponed.run(item, nextitem)
        self._done += 1
        self._progress("timing", self._done, len(self.run.selected), between_dots=not active)
        return active or None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Give all cases their verdicts together when all are measured; an interrupted run gives none."""
        run, slower = self.run, dict[str, str]()
        verdicts: dict[str, dict[str, str]] = {}
        if run.comparison.active and not run.is_controller:
            threading.Thread(target=rule.get_ready).start()  # while kernels run, a second or less
        try:
            result = yield
            if (run.comparison.active or run.contracts.active) and not run.is_controller:
                self._conclude(Again(run.cold, self._measuring, self._broken, self._progress.say))
                run.worker.leave()  # it ends while verdicts are explained and reported
                if document := run.comparison.document():
                    with self.results.saving(f"this self-check, as {run.check_path},"):
                        save(document | {"gpu": run.gpu}, run.check_path)
                        run.notes.append(f"saved {run.check_path}")
                self._ending.explain(functools.partial(self._progress, "explaining"))
                slower, verdicts = self._ending.reports()
            return result
        finally:
            self._postponed.release(slower | self._broken, verdicts)

    def _measuring(self, done: int, total: int) -> None:
        self._progress("measuring again", done, total)

    def _conclude(self, again: Again) -> None:
        """Decide about all cases, then about the limits of their contracts."""
        run = self.run
        if run.comparison.active:
            run.comparison.conclude(again)
            run.concluded = True
        if run.contracts.active:
            compilation, uuid = self.config.stash[COMPILATION], run.gpu.get("uuid", "")
            run.comparison.contracts |= run.contracts.conclude(run.cases, run.comparison, again, compilation, uuid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = parameter_in(report.nodeid)
        if report.failed and name in self.run.selected:
            self.run.failed.add(name)
        if report.passed and report.when == "call" and name in self.run.selected:
            self.run.passed[name] = report
        explanation = dict(report.user_properties).get(EXPLANATION)
        if explanation and report.when == "call":
            add_to_junit(self.config, report, str(explanation))

    @pytest.hookimpl(tryfirst=True)
    def pytest_benchmark_group_stats(
        self, config: pytest.Config, benchmarks: list[dict[str, Any]]
    ) -> list[tuple[str | None, list[dict[str, Any]]]] | None:
        """Make a table for each family, shape and element type, whose rows are cases, unless an option says how."""
        if not self.run.named or "--benchmark-group-by" in named_options(config):
            return None
        tables: dict[str | None, list[dict[str, Any]]] = {}
        for each in benchmarks:
            is_case = each["param"] in self.run.selected
            title = ", ".join(each["params"][name] for name in TABLE_OF) if is_case else each["group"]
            tables.setdefault(title, []).append(each | {"name": each["param"]} if is_case else each)
        return [*tables.items()]

    def pytest_benchmark_update_machine_info(self, machine_info: dict[str, Any]) -> None:
        machine_info["gpu"] = self.run.gpu

    def pytest_benchmark_update_json(self, output_json: dict[str, Any]) -> None:
        output_json["datetime"] = self._when = self._when or output_json["datetime"]  # in both files of one run
        unusual = [test for test in self.config.stash[TESTS].tests.values() if test.outcome != Outcome.PASSED]
        about = self._ending.about(output_json["benchmarks"])
        output_json["warpwatch"] = recorded(about | {"nothing": self._last_words, "tests": unusual})

    def _record(self) -> None:
        """Hand what is known of a run that measures to its record, where that has a file of its own."""
        tests = self.config.stash[TESTS]
        if self.run.selected and tests.is_recorded:
            benchmarks = [saved for saved, _ in Benchmarks(self.config).documents()]
            steps = {"next": list(self._ending.next_step()), "next_steps": self._ending.next_steps()}
            tests.about = self._ending.about(benchmarks) | steps
            tests.about["explained"] = self.run.comparison.explained
            tests.about["remarks"] = self.run.notes  # among them is the saved run's file, once it is written
            tests.left_out["serial, and over a second"] = [case.id for case in omitted_cases(self.run.project.families)]
            tests.document = {"benchmarks": benchmarks, "machine_info": {"gpu": self.run.gpu}}
        tests.about["nothing"] = self._last_words

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Generator[None, object, object]:
        """Fail a run that compared too little, and say so below everything else that pytest prints."""
        if self.run.measures_part and self.run.selected:
            hand_back(self.config, PART, pickle.dumps(self._part()))
        if self.run.is_controller and self.run.selected:
            self._join()
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        self._last_words = words = self._ending.conclude(session, exitstatus, reporter)
        self._record()
        result = yield
        colour = "yellow" if session.exitstatus == pytest.ExitCode.OK else "red"
        for text in words:
            if reporter:
                reporter.write_line(text, bold=True, **{colour: True})
        return result

    def _part(self) -> Part:
        """Return the results of this process of xdist, for the first process."""
        run, comparison = self.run, self.run.comparison
        return Part(
            gpu=run.gpu,
            selected=frozenset(run.selected),
            benchmarks=Benchmarks(self.config).documents(gpu_uuid=run.gpu.get("uuid", "")),
            decisions=comparison.decisions,
            controls=comparison.controls,
            energy=comparison.energy,
            host=comparison.host,
            explained=comparison.explained,
            contracts=comparison.contracts,
            costs=comparison.costs,
            lines=tuple(comparison.describe()) if comparison.active else (),
            notes=tuple(run.notes),
            alarm=comparison.alarm,
            concluded=run.concluded,
        )

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._ended += 1
        if part := handed_back(node, PART):  # None where it died before
            self._parts[node.gateway.id] = pickle.loads(part)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        hand(node, SLUG, self.run.gpu.get("slug", "") or self.config.stash[MODEL])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        """Return the scheduler of a benchmark; or of tests of results, several of which may run on one GPU."""
        if not is_controller(config) or config.option.dist != "load":
            return None
        from warpwatch.plugin.xdist.scheduling import TimedUnits, Units  # noqa: PLC0415  # which imports xdist's own

        run, families = self.run, self.run.project.families
        if run.is_controller:
            progress = functools.partial(self._progress, "timing") if run.comparison.active else None
            return TimedUnits(config, log, families, progress)
        # The software device runs no library, and skips such tests.
        on_gpu = config.stash[MODEL] or (isinstance(run.device, DeviceInfo) and run.device.has_gpu_clock)
        scheduler = Units(config, log, families) if on_gpu else None
        return scheduler if scheduler and any(scheduler.libraries.values()) else None

    def _join(self) -> None:
        """Take over the results of the processes of xdist, as if they were those of this process."""
        run = self.run
        parts = [self._parts[name] for name in sorted(self._parts, key=lambda name: (len(name), name))]
        run.selected = set().union(*(part.selected for part in parts))
        run.notes[:] = dict.fromkeys([*run.notes, *(note for part in parts for note in part.notes)])
        run.concluded = len(parts) == self._ended and all(part.concluded for part in parts)
        if parts:
            run.comparison.join(parts)
            # With what the first process leaves to those that measure.
            run.gpu = {**parts[0].gpu, "uuids": [part.gpu.get("uuid", "") for part in parts]}
        place = {case.id: number for number, case in enumerate(timed_cases(run.project.families))}
        documents = [documents for part in parts for documents in part.benchmarks]
        documents.sort(key=lambda saved_and_shown: place.get(saved_and_shown[0]["param"], len(place)))
        Benchmarks(self.config).take_over(documents)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.run.selected:
            terminalreporter.section("kernels")
            for text in self._ending.summary():
                terminalreporter.line(text)
