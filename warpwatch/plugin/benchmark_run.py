"""Benchmark run that is asked for: its options, which are refused where they make no sense, and its comparison."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import timed_cases
from warpwatch.compare import compile_cost
from warpwatch.compare.apart import OtherProcess
from warpwatch.compare.comparison import Comparison
from warpwatch.compare.confirmation import Confirmation, run_to_build
from warpwatch.compare.pairs import PairComparison, open_spares, start_spares
from warpwatch.compare.reference import RECORD, Reference
from warpwatch.compare.saved_self_check import path_of, read_variances
from warpwatch.compare.self_check import SelfCheck
from warpwatch.compare.with_baseline import BaselineComparison
from warpwatch.compare.with_revision import RevisionComparison
from warpwatch.devices.compile.compiler import CompileError, private_folder
from warpwatch.devices.gpus import sees_gpu
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.opening import NoDevice
from warpwatch.devices.worker import Worker
from warpwatch.plugin.contracts import Contracts
from warpwatch.plugin.device import INSTALLED_TARGET, TOOLCHAIN, open_device
from warpwatch.plugin.options import asks_only, names_benchmark, spelled, value_of
from warpwatch.plugin.storage import Results
from warpwatch.plugin.xdist.processes import SLUG, handed, is_controller, is_part, number_of_parts
from warpwatch.revision.commit import OtherRevision, check_name, compile_other_kernels
from warpwatch.revision.declared import BadRevision
from warpwatch.revision.unpacked import missing_submodules
from warpwatch.runs.elsewhere import fetch_baselines
from warpwatch.runs.record import BadRun, RunRecord
from warpwatch.timing import observers

CHECK_BYTES = 2**18  # of a self-check's file: 144 kB for 831 cases
PARAMETERS = ("family", "variant", "block", "shape", "dtype")  # of a case, in pytest-benchmark's tables
GROUPS = ("group", "name", "func", "fullname", "fullfunc", "param", *(f"param:{name}" for name in PARAMETERS))
Progress = Callable[[str, int, int], None]


class Asked:
    """The comparison that a run is asked for.

    ``option``: --benchmark-compare, --against or --self-check, or empty. ``required``: True where comparing nothing is
    an error. ``nothing``: the reason why nothing can be compared, once that is known. ``advice``: lines on what to do
    then.
    """

    def __init__(self, config: pytest.Config) -> None:
        # Taken from pytest-benchmark, which would compare with a single run and without regard to GPU and noise.
        self.compare: str | bool = config.option.benchmark_compare
        config.option.benchmark_compare = []
        self.against: str | None = value_of(config, "against")
        self.nothing, self.advice = "", list[str]()
        chosen = {"--benchmark-compare": self.compare, spelled(config, "against"): self.against}
        chosen[spelled(config, "self-check")] = value_of(config, "self-check")
        if isinstance(self.compare, str) and not self.compare.strip():
            raise pytest.UsageError("--benchmark-compare= names no run: leave the `=` out to compare with the baseline")
        if self.against is not None:
            try:
                check_name(self.against)
            except BadRevision as error:
                raise pytest.UsageError(_worded(config, error)) from None
        named = [name for name, value in chosen.items() if value]
        if named[1:]:
            raise pytest.UsageError(f"{' and '.join(named)} are different things to do: choose one")
        self.option = "".join(named)
        self.required = bool(named) and (named != ["--benchmark-compare"] or value_of(config, "require-baseline"))

    def refuse(self) -> None:
        """Raise UsageError before anything is measured, where nothing can be compared and that is an error."""
        if self.required and self.nothing:
            reason = self.nothing if self.option == "--benchmark-compare" else f"{self.option}: {self.nothing}"
            raise pytest.UsageError("\n".join([f"{reason}, so nothing would be compared", *self.advice]))


def _worded(config: pytest.Config, error: Exception) -> str:
    """Return the message of an error on a revision behind the option that took it, as it is written here."""
    return f"{spelled(config, 'against')}={error}"


@dataclass(kw_only=True)
class Run:
    """Benchmark run, and what is known of it so far.

    ``named``: bench/ is named on the command line. If so, ``is_controller``: this process hands the cases to processes
    of xdist and measures none, or ``measures_part``: it is one of those.
    ``selected``: ids of its cases, and of mistakes in declarations; ``cases``: the cases by id. ``gpu``: what is
    recorded of the GPU. ``failed``: ids of cases; ``passed``: reports by them. ``concluded``: there are verdicts.
    """

    config: pytest.Config
    project: Project
    worker: Worker
    results: Results
    asked: Asked
    comparison: Comparison = field(default_factory=BaselineComparison)
    gpu: dict[str, Any] = field(default_factory=dict)
    selected: set[str] = field(default_factory=set)
    cases: dict[str, Case] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    passed: dict[str, pytest.TestReport] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    concluded: bool = False
    other: OtherRevision | None = None

    def __post_init__(self) -> None:
        self.named = names_benchmark(self.config, self.project.root)
        self.is_controller = self.named and is_controller(self.config)
        self.measures_part = self.named and is_part(self.config)
        self.cold = not value_of(self.config, "warm-cache")
        self.contracts = Contracts(self.config, self.results, trusted=not self.worker.settings.untrusted)

    @property
    def device(self) -> DeviceInfo | NoDevice:
        """Device of this run, which is opened by the first question."""
        return open_device(self.config)

    @property
    def whole(self) -> bool:
        """True where every case is selected."""
        return self.selected >= {case.id for case in timed_cases(self.project.families)}

    @property
    def missing(self) -> list[str]:
        """Cases that the other side has and this run, if it is a whole one, has not."""
        return self.comparison.missing(self.selected) if self.concluded and self.whole else []

    @property
    def check_path(self) -> Path:
        """File of the self-check: beside the baseline if it has all cases, else among saved runs."""
        good = self.whole and not self.gpu.get("note")
        return path_of(self.gpu["slug"], self.project.baselines if good else self.results.root)

    def objections_to_options(self) -> Iterator[str]:
        """Yield why options cannot be followed: times would mean nothing, or pytest-benchmark would fail at the end."""
        config, options, word = self.config, self.config.option, functools.partial(spelled, self.config)
        if int(config.getoption("count", None) or 1) > 1:  # pytest-repeat
            yield (
                "--count: a case is timed once in a run, and found again by its id, which pytest-repeat changes; "
                "run `pytest bench` several times instead"
            )
        if config.getoption("reruns", None):  # pytest-rerunfailures; None without it, or without its option
            yield (
                "--reruns: a kernel that is wrong or slower must not be run again until it passes; "
                "leave the option out (undecided cases are measured again in any case)"
            )
        if options.benchmark_compare_fail:
            yield (
                "--benchmark-compare-fail compares with one run and knows no noise: leave it out, because with "
                "--benchmark-compare a slower kernel fails anyway (--fail-on chooses what else does)"
            )
        for label in options.benchmark_group_by.split(","):
            if label not in GROUPS:
                yield f"--benchmark-group-by: {label!r} is not a label; there are {', '.join(GROUPS)}"
        for prefix in options.benchmark_histogram:
            if not all(map(importlib.util.find_spec, ("pygal", "pygaljs"))):
                yield "--benchmark-histogram needs pygal and pygaljs: pip install 'pytest-benchmark[histogram]'"
            folder = next(folder for folder in Path(prefix).absolute().parents if folder.exists())
            if not (folder.is_dir() and os.access(folder, os.W_OK)):
                yield f"--benchmark-histogram={prefix}: {folder} is not a folder that can be written"
        for name in observers.BY_OPTION:
            if value_of(config, name) and options.benchmark_disable and not options.benchmark_enable:
                yield f"{word(name)} measures what is timed, and --benchmark-disable times nothing: leave one out"
        named = dict.fromkeys(("baseline", "require-baseline", "no-confirm"), self.asked.compare)
        named |= {"fail-on": self.asked.option}
        for name, comparison in named.items():
            if value_of(config, name) and not comparison:
                others = "" if name != "fail-on" else f", {word('against')} or {word('self-check')}"
                yield f"{word(name)} compares nothing by itself: give --benchmark-compare{others} too"

    def objections_to_device(self) -> Iterator[str]:
        """Yield why the options cannot be followed on this device, in as many processes."""
        device, wanted, here = self.device, handed(self.config, SLUG) or "", self.gpu.get("slug", "")
        processes = int(self.config.getoption("numprocesses", None) or 0)
        # Each process of xdist gets a GPU of its own. The software device's times prove nothing.
        if isinstance(device, DeviceInfo) and device.has_gpu_clock and processes > device.count:
            cure = f"give -n {device.count}" if device.count > 1 else "leave -n out"
            gpus = "there is one GPU" if device.count == 1 else f"there are {device.count} GPUs"
            yield f"-n {processes}: {gpus} here, and processes that share a GPU would time each other: {cure}"
        if wanted not in ("", here):
            yield (
                f"{platform.node()} has {here or 'no GPU'} and the first process {wanted}: one run measures GPUs of "
                "one model; leave this host out, or run it by itself"
            )
        word, fail_on = functools.partial(spelled, self.config), value_of(self.config, "fail-on")
        costs = [each for each in compile_cost.GATES if each in fail_on and not self.asked.against]
        if costs:
            yield f"{word('fail-on')} {costs[0]} compares with another revision's builds: give {word('against')} REV"
        if value_of(self.config, "data") and (self.asked.against or value_of(self.config, "self-check")):
            yield f"{word('data')} times this code alone: leave {word('data')} or {self.asked.option} out"
        for option, measured, several in (("energy", "energy", "energies"), ("host", "host time", "host times")):
            if not value_of(self.config, option):
                if option in fail_on:
                    yield f"{word('fail-on')} {option} measures none by itself: give {word(option)} too"
                continue
            if value_of(self.config, "self-check"):
                yield f"{word('self-check')} measures no {measured}: leave {word(option)} out"
            if option in fail_on and not self.asked.against:
                cure = f"give {word('against')} REV, or leave {word('fail-on')} {option} out"
                yield f"{several} are compared with those of another revision: {cure}"
            if isinstance(device, NoDevice):
                yield f"{word(option)} needs a GPU: {device}"
            elif why := self.worker.call(observers.objection, [option]):
                yield f"{word(option)}: {why}"

    @property
    def may_differ(self) -> bool:
        """True where a file differs from the other revision, or the toolchain does."""
        return bool(self.other and (not self.other.same_files or value_of(self.config, "toolchain")))

    def begin(self) -> None:
        """Begin to read another revision, and start the worker processes that measure after the first one.

        None is started where no file differs or the revision is not found, because nothing is measured then.
        """
        if self.is_controller and value_of(self.config, "self-check"):
            raise pytest.UsageError(f"{self.asked.option} tests one GPU: leave -n out")
        if not self.asked.against or not self.named or asks_only(self.config):
            return
        with contextlib.suppress(BadRevision):  # told when its kernels are asked for: other mistakes come first
            self._read(self.asked.against)
        on_gpu = self.worker.settings.kind in ("auto", "gpu") and sees_gpu()
        if self.may_differ and not is_controller(self.config) and on_gpu:
            start_spares(self.worker, number_of_parts(self.config))

    def _read(self, revision: str) -> OtherRevision:
        self.other = OtherRevision(revision, self.project)
        self.config.add_cleanup(self.other.stop)
        return self.other

    def open_spares(self) -> None:
        """Have the processes that measure after the first one open the GPU, where anything may differ."""
        device = self.device if self.may_differ and not self.is_controller else None
        if isinstance(device, DeviceInfo) and device.has_gpu_clock:
            parts = number_of_parts(self.config)
            open_spares(self.worker, self.project.families, device, cold=self.cold, parts=parts)

    def find_comparison(self, progress: Progress) -> Comparison:
        """Find what to compare with, once the device is known. Raises UsageError."""
        if self.asked.compare:
            comparison: Comparison = self._baseline()
        elif not self.asked.option:
            return self.comparison
        elif not isinstance(self.device, DeviceInfo):
            raise pytest.UsageError(f"{self.asked.option} needs a device: {self.device}")
        elif self.asked.against:
            comparison = self._revision(self.asked.against, self.device, progress)
        else:
            comparison = self._itself(self.device, progress)
        self.asked.refuse()
        return comparison

    def _baseline(self) -> BaselineComparison:
        asked = self.asked
        if not self.gpu:
            asked.nothing = "there is no GPU to have a baseline"
            return BaselineComparison()
        try:
            reference = Reference.find(asked.compare, self.results.root, self._baselines(), self.gpu)
        except BadRun as error:
            raise pytest.UsageError(str(error)) from None
        self.notes += reference.notes
        confirmation = self._confirmation(reference.runs)
        has_pairs = not isinstance(confirmation, str)
        asked.nothing = reference.nothing(self.selected, has_pairs=has_pairs)
        asked.advice = reference.advice
        if reference.toolchain and has_pairs:
            how = "both sides of a pair are built and run with today's, and tell what the source changed"
            self.notes += [f"{reference.unusable}; {how}", *reference.advice]
        if reference.absent:
            cure = f"`{RECORD}` makes one"
            if asked.required:
                raise pytest.UsageError(f"{reference.absent}: {cure}")
            so = "what was saved here before takes its place" if reference.runs else "nothing is compared"
            self.notes.append(f"{reference.absent}, so {so}: {cure}")
        return BaselineComparison(
            runs=reference.runs,
            gpu_uuid=self.gpu["uuid"],
            incomparable_reason=reference.incomparable_reason,
            toolchain=reference.toolchain,
            doubt=self.gpu.get("note", ""),
            confirmation=confirmation,
            when=datetime.now(UTC),
            parts=number_of_parts(self.config),
        )

    def _confirmation(self, runs: Sequence[RunRecord]) -> Confirmation | str:
        """Return what measures pairs with the commit of a baseline, or why none are measured."""
        if value_of(self.config, "no-confirm"):
            return spelled(self.config, "no-confirm")
        if self.worker.settings.untrusted:
            return "--untrusted: both sides of a pair run in one process, which one of them may change"
        if not isinstance(self.device, DeviceInfo) or self.device.note:
            return getattr(self.device, "note", "") or str(self.device)
        try:
            run = run_to_build(runs, self.project.root)
            variances = read_variances(self.device.slug, self.project.baselines)
        except (BadRevision, BadRun) as error:
            return str(error)
        return Confirmation(run=run, project=self.project, device=self.device, recorded_variances=variances)

    def _baselines(self) -> Path:
        """Return the folder of baselines, with a folder for each GPU. Raises UsageError where it cannot be read."""
        where = value_of(self.config, "baseline")
        if not where:
            return self.project.baselines
        self.notes.append(f"baselines are taken from {where}")  # the folder may hold copies
        try:
            return fetch_baselines(where, self.gpu["slug"], private_folder("baselines"))
        except (BadRun, CompileError, OSError) as error:
            raise pytest.UsageError(f"{spelled(self.config, 'baseline')}: {error}") from None

    def _itself(self, device: DeviceInfo, progress: Progress) -> SelfCheck:
        if all(case.variant.on_host or case.variant.call for case in self.cases.values()):
            none = f"none of the {len(self.selected)} selected cases has GPU machine code of this suite"
            self.asked.nothing = none
        self.results.require_space(self.check_path, CHECK_BYTES, "the self-check is saved there; free some space")
        return SelfCheck(
            target=device.timing_target,
            side_by_side=PairComparison(self.gpu.get("note", "")),
            compiling=functools.partial(progress, "compiling kernels that wait"),
        )

    def _revision(self, revision: str, device: DeviceInfo, progress: Progress) -> RevisionComparison:
        toolchain = self.config.stash[TOOLCHAIN]
        target = self.config.stash[INSTALLED_TARGET] if toolchain else device.timing_target
        try:
            if not (other := self.other):  # it was not found, or the benchmarks are in other files than bench/'s
                other = self._read(revision)
                self.open_spares()
            others = other.kernels(target.arch)
            variances = read_variances(device.slug, self.project.baselines)
        except (BadRevision, BadRun) as error:
            raise pytest.UsageError(_worded(self.config, error)) from None
        wanted = [kernel for name, kernel in others.items() if name in self.selected]
        if not wanted:
            none = f"none of the {len(self.selected)} selected cases is in {revision}"
            self.asked.nothing = none if self.cases else "mistakes in declarations leave no case of this revision"
            if value_of(self.config, "sizes"):
                sizes = spelled(self.config, "sizes")
                self.asked.advice.append(f"{sizes} names shapes that {revision} does not time: leave it out")
        compiling = functools.partial(progress, f"compiling kernels of {revision}")
        apart = OtherProcess(other.tree, self.project.module, self.worker.settings)
        self.config.add_cleanup(apart.stop)
        return RevisionComparison(
            revision=revision,
            commit=other.commit,
            others=others,
            images={} if self.is_controller else compile_other_kernels(wanted, target, compiling),  # parts do
            side_by_side=PairComparison(self.gpu.get("note", ""), number_of_parts(self.config)),
            recorded_variances=variances,
            apart=apart,
            same_files=other.same_files,
            tree=other.tree,
            lacks=missing_submodules(other.tree),
            toolchain=(toolchain, device.capability) if toolchain else None,
        )


RUN = pytest.StashKey[Run]()


def refuse(objections: Iterator[str]) -> None:
    """Raise UsageError with the first of these sentences, if there is any."""
    if objection := next(objections, ""):
        raise pytest.UsageError(objection)


def asked_observers(config: pytest.Config) -> tuple[str, ...]:
    """Return the options of the observers that a run is asked for."""
    return tuple(option for option in observers.BY_OPTION if value_of(config, option))
