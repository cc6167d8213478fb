"""Contracts in a run: which limits each case has here, checked as soon as the machine code and the times are known."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.contracts import RATES, RESOURCES, Contract
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.launches import Capability, read_capability
from warpwatch.catalogue.names import BadCase
from warpwatch.catalogue.selection import timed_cases
from warpwatch.compare.comparison import Comparison
from warpwatch.compare.contracts import RunRates, of_code, unknown, with_history
from warpwatch.compare.with_baseline import sample_again
from warpwatch.devices.compile.background import Compilation, Job
from warpwatch.devices.compile.compiler import ARCH, CompileError, Image, Target
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.kernel import Kernel
from warpwatch.plugin.device import PROJECT, open_device
from warpwatch.plugin.storage import Results
from warpwatch.runs import contracts as files
from warpwatch.runs.files import run_files
from warpwatch.runs.record import BadRun, RunRecord, read_usable
from warpwatch.timing.measurement import Again, Measured
from warpwatch.verdict.contracts import Clause, Standing
from warpwatch.verdict.rule import MIN_PROCESSES, Verdict

BROKEN = "broken contract"  # a property of a report


class Contracts:
    """Contracts of the cases of a run: what declarations say and, of each GPU model, the file beside its baseline.

    ``results``: where runs are saved. ``trusted``: thresholds count.
    """

    def __init__(self, config: pytest.Config, results: Results, *, trusted: bool) -> None:
        self._config, self._results, self._trusted = config, results, trusted
        self._kernels: dict[str, Kernel] = {}  # of cases that have a contract and were right, by id
        self._measured: dict[str, Measured] = {}
        self._checked: set[str] = set()  # ids of cases whose machine code a test has checked
        self.active = False  # any of the cases that are timed has a contract

    @functools.cached_property
    def _device(self) -> DeviceInfo:
        device = open_device(self._config)
        assert isinstance(device, DeviceInfo)  # nothing runs without one
        return device

    @functools.cached_property
    def _files(self) -> Sequence[tuple[Capability, files.Limits]]:
        """The committed limits with compute capabilities: of this GPU's model or, on a device that is none, of all."""
        folder = self._config.stash[PROJECT].baselines
        is_gpu = self._device.has_gpu_clock
        paths = [files.path_of(self._device.slug, folder)] if is_gpu else sorted(folder.glob(f"*{files.ENDING}"))
        try:
            read = [files.read(path) for path in paths if path.exists()]
        except BadRun as error:
            raise pytest.UsageError(str(error)) from None
        known = [(each.of_gpu, each) for each in read if each.of_gpu]
        if is_gpu and (other := next((each for own, each in known if own != self._device.capability), None)):
            why = f"has capability {other.capability}, and {self._device.name} {self._device.capability}"
            raise pytest.UsageError(f"{paths[0]}: {why}: nothing would be checked")
        return known

    @functools.cached_property
    def _gone(self) -> Sequence[str]:
        """Ids of cases that files limit and no declaration has, such as those of a variant with a new name."""
        families = self._config.stash[PROJECT].families
        named = {name for _, limits in self._files for name in limits.cases}
        others = named - {case.id for case in timed_cases(families)} if named else ()
        return [name for name in sorted(others) if not _is_case(families, name)]

    def _of(self, case: Case, capability: Capability) -> Contract:
        of_files = (Contract(**limits.of(case.id)) for own, limits in self._files if own == capability)
        return functools.reduce(Contract.tighter, of_files, case.contract)

    def _capabilities(self) -> set[Capability]:
        """Return what machine code is checked for: this GPU or, on a device that is none, the usual one and files'."""
        usual = read_capability(ARCH)
        assert usual
        return {self._device.capability} if self._device.has_gpu_clock else {usual, *(own for own, _ in self._files)}

    def _targets(self, case: Case) -> list[tuple[Capability, Contract]]:
        """Return for which GPUs machine code is limited, and how: this one or, where there is none, those of files."""
        if case.variant.on_host or case.variant.call:
            return []
        known = sorted(each for each in self._capabilities() if case.variant.runs_on(each))
        contracts = [(each, self._of(case, each)) for each in known]
        return [(each, contract) for each, contract in contracts if contract.limits(RESOURCES)]

    def jobs(self, case: Case) -> list[Job]:
        """Return what is compiled only to be checked: nothing on a GPU, which is given the same code."""
        if not isinstance(device := open_device(self._config), DeviceInfo) or device.has_gpu_clock:
            return []
        return [(case.build, Target(capability.arch)) for capability, _ in self._targets(case)]

    def once(self, kernel: Kernel, compilation: Compilation, case: Case) -> list[Clause]:
        """Check the machine code of a case for the first test that asks; no other fails for it too."""
        if case.id in self._checked:
            return []
        self._checked.add(case.id)
        return self.of_code(kernel, compilation, case)

    def of_code(self, kernel: Kernel, compilation: Compilation, case: Case) -> list[Clause]:
        """Check the machine code of a case."""
        return [clause for each in self._targets(case) for clause in self._of_code(kernel, case, *each, compilation)]

    def _of_code(
        self, kernel: Kernel, case: Case, capability: Capability, contract: Contract, compilation: Compilation
    ) -> Iterator[Clause]:
        image: Image | CompileError = kernel.image
        target = ""
        if not self._device.has_gpu_clock:
            target = f"as code for {capability.arch}"
            try:
                image = compilation.image(case.build, Target(capability.arch))
            except CompileError as error:
                image = error
        for each in of_code(case, contract, image, capability):
            clause = replace(each, reason="; ".join(filter(None, (each.reason, target))))
            broken = clause.standing == Standing.BROKEN
            runs = [run for run in self._runs if run.gpu.capability in ("", str(capability))] if broken else ()
            yield with_history(clause, case, runs) if broken else clause

    @functools.cached_property
    def _runs(self) -> Sequence[RunRecord]:
        """Baselines and saved runs of all GPUs, which show when a limit was kept."""
        roots = (self._config.stash[PROJECT].baselines, self._results.root)
        found = {path for root in roots for folder in root.glob("*") for path in run_files(folder)}
        try:
            return read_usable(sorted(found))[0]
        except BadRun:
            return ()

    # What a benchmark run has besides

    def select(self, cases: Iterable[Case]) -> None:
        """See whether any of these cases has a contract."""
        known = isinstance(open_device(self._config), DeviceInfo)
        self.active = known and bool(
            self._gone or any(self._of(case, each) != Contract() for case in cases for each in self._capabilities())
        )

    def add(self, kernel: Kernel, case: Case, measured: Measured | None = None, samples: Sequence[float] = ()) -> None:
        """Take note of a case that is right, and was measured unless nothing is to compare. ``samples``: in seconds."""
        if not self.active:
            return
        self._kernels[case.id] = kernel
        if measured is None or case.variant.on_host:
            return
        threshold = self._of(case, self._device.capability).threshold
        if threshold is not None and self._trusted:
            measured.facts["threshold"] = threshold
        self._measured[case.id] = measured
        if samples and not measured.processes:
            measured.processes.append(list(samples))

    def conclude(
        self, cases: Mapping[str, Case], comparison: Comparison, again: Again, compilation: Compilation, uuid: str
    ) -> dict[str, tuple[Clause, ...]]:
        """Judge all cases together. Rates that are not known to be kept are measured again in fresh processes.

        ``uuid``: of this GPU.
        """
        capability = self._device.capability
        contracts = {name: self._of(cases[name], capability) for name in self._kernels if name in cases}
        limited = {name: each for name, each in contracts.items() if each.limits(RATES)}
        slower = [name for name, each in comparison.controls.items() if each.verdict == Verdict.SLOWER]
        alarm = comparison.alarm or (f"{slower[0]} is slower too, and its machine code the same" if slower else "")
        rates = RunRates(
            measured=self._measured,
            contracts=limited,
            device=self._device,
            cases=cases,
            elsewhere=self._elsewhere(limited, cases, uuid),
            of_all=alarm,
        )
        judged = self._judge(rates, again)
        clauses: dict[str, tuple[Clause, ...]] = {}
        for name in contracts:
            of_rates = [self._since(each, cases[name]) for each in judged.get(name, ())]
            own = (*self.of_code(self._kernels[name], compilation, cases[name]), *of_rates)
            clauses |= {name: own} if own else {}
        for name in self._gone:
            files_say = functools.reduce(Contract.tighter, (Contract(**each.of(name)) for _, each in self._files))
            limits = files_say.limits((*RESOURCES, *RATES))
            clauses[name] = tuple(unknown(limits, f"no declaration has their case, such as {self._gone[0]}"))
        return clauses

    def _since(self, clause: Clause, case: Case) -> Clause:
        if clause.standing != Standing.BROKEN:
            return clause
        return with_history(clause, case, [run for run in self._runs if run.slug == self._device.slug])

    def _elsewhere(self, limited: Mapping[str, Contract], cases: Mapping[str, Case], uuid: str) -> set[tuple[str, str]]:
        """Return the case and name of limits that were taken from other GPUs of this model."""
        if all(uuid in limits.uuids for _, limits in self._files):
            return set()
        return {
            (name, rate)
            for name, contract in limited.items()
            for rate in RATES
            if getattr(contract, rate) != getattr(cases[name].contract, rate)
        }

    def _judge(self, rates: RunRates, again: Again) -> dict[str, list[Clause]]:
        clauses = rates.judge()
        for _ in range(MIN_PROCESSES - 1):
            open_ones = [name for name, own in clauses.items() if any(each.is_open for each in own)]
            names = dict.fromkeys(n for name in open_ones for n in (name, *rates.references(name)))
            chosen = [self._measured[name] for name in names if not self._measured[name].is_pair]
            if not chosen or len(chosen) < len(names):
                break
            sample_again(chosen, again)
            clauses = rates.judge()
        for measured in self._measured.values():
            if len(measured.processes) > 1:
                measured.facts["again"] = measured.processes[1:]
        return clauses


def _is_case(families: Sequence[Family], name: str) -> bool:
    try:
        return bool(find_case(families, name))
    except BadCase:
        return False


def next_steps(clauses: Iterable[Clause]) -> list[str]:
    """Say which command finds the commit that broke a limit, a line each."""
    return [f"  which commit: {step}" for step in dict.fromkeys(each.next for each in clauses if each.next)]
