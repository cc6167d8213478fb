"""Figures that contracts limit: those of machine code, rates of a run, and which saved runs kept a limit."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.contracts import LEAST, RATES, RESOURCES, Contract
from warpwatch.catalogue.launches import Capability
from warpwatch.compare.code_difference import NO_CODE
from warpwatch.compare.doubts import disturbance
from warpwatch.devices.compile.builds import symbol_of
from warpwatch.devices.compile.compiler import CompileError, Image, read_image
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.machine import DeviceError
from warpwatch.machine_code.cubin import read_cubin
from warpwatch.runs.faults import one_line
from warpwatch.runs.record import LONG_AGO, CaseRecord, Facts, RunRecord, typed
from warpwatch.timing.measurement import Measured
from warpwatch.timing.roofs import peak_rate
from warpwatch.timing.timer import kernel_seconds
from warpwatch.verdict.contracts import Clause, Rate, Standing, exact, judge

UNITS = {
    "registers": "{:,.0f} registers a thread",
    "local_bytes": "{:,.0f} bytes of local memory a thread",
    "seconds": "{:,.2f} µs",
    "reference": "{:.3f} of the reference's rate",
    "roof": "{:.3f} of the roof",
}


def of_code(case: Case, contract: Contract, image: Image | CompileError, capability: Capability) -> list[Clause]:
    """Judge the machine code of a case: the largest figures of the kernels that it launches."""
    limits = contract.limits(RESOURCES)
    try:
        if isinstance(image, CompileError):
            raise image
        if not (cubin := read_cubin(read_image(image.path), capability)):
            return unknown(limits, NO_CODE)
        needs = [cubin.kernels[symbol_of(image.path, case, step.entry)] for step in case.steps]
    except (CompileError, DeviceError) as error:
        return unknown(limits, one_line(str(error).partition("\n")[0]))
    return [exact(name, limit, max(getattr(each, name) for each in needs)) for name, limit in limits.items()]


def unknown(limits: Mapping[str, float], why: str) -> list[Clause]:
    """Return that limits are not checked."""
    return [Clause(name=name, limit=limit, standing=Standing.UNKNOWN, reason=why) for name, limit in limits.items()]


def roof_seconds(case: Case, device: DeviceInfo) -> float | str:
    """Return the least time of a case in seconds: memory moves its bytes, a pipe does its operations.

    A sentence where one of the two rates is not known.
    """
    work, (peak, _) = case.work, peak_rate(case, device)
    if not device.peak_bytes_per_second:
        return "the driver does not say how much the memory moves in a second"
    if work.operations and not peak:
        cure = "name one by Work(operations, bytes, pipe=...), or limit seconds"
        return f"no rate of {device.name} is known for operations on {case.dtype}: {cure}"
    return max(work.bytes / device.peak_bytes_per_second, work.operations / peak if work.operations else 0.0)


@dataclass(frozen=True, kw_only=True)
class RunRates:
    """Rates of a run that are judged together.

    ``measured``: cases of the run, the references among them. ``contracts``: of those that have limits, by id.
    ``elsewhere``: limits that were taken from other GPUs of this model, by id and name. ``of_all``: why no time may be
    its kernel's. ``cases``: of the whole run, by id.
    """

    measured: Mapping[str, Measured]
    contracts: Mapping[str, Contract]
    device: DeviceInfo
    cases: Mapping[str, Case]
    elsewhere: Collection[tuple[str, str]] = ()
    of_all: str = ""

    def judge(self) -> dict[str, list[Clause]]:
        """Judge all of them."""
        clauses: dict[str, list[Clause]] = {name: [] for name in self.contracts}
        rates: list[Rate] = []
        for case, contract in self.contracts.items():
            for name, limit in contract.limits(RATES).items():
                rate = self._rate(case, name, limit)
                if isinstance(rate, str):
                    clauses[case] += unknown({name: limit}, rate)
                else:
                    rates.append(rate)
        for rate, clause in zip(rates, judge(rates), strict=True):
            clauses[rate.case].append(clause)
        return clauses

    def references(self, case: str) -> list[str]:
        """Return the case of a reference that is limited against, if this run measures it."""
        name = self.cases[case].reference_case if self.contracts[case].reference is not None else ""
        return [name] if name in self.measured else []

    def _rate(self, case: str, name: str, limit: float) -> Rate | str:
        """Return a rate to judge, or why it is not known."""
        if self.device.note or not self.device.has_gpu_clock:
            return "rates are checked on a GPU"
        if not (measured := self.measured.get(case)) or not (times := times_of(measured)):
            return "it was not measured: `pytest bench` without a comparison times each case"
        doubt = disturbance(typed(measured.facts, Facts)) or self.of_all
        elsewhere = (case, name) in self.elsewhere
        rate = Rate(case=case, name=name, limit=limit, times=times, doubt=doubt, elsewhere=elsewhere)
        if name == "roof":
            roof = roof_seconds(measured.case, self.device)
            return roof if isinstance(roof, str) else replace(rate, scale=roof)
        if name == "reference":
            reference = next(iter(self.references(case)), "")
            if not reference or not (others := times_of(self.measured[reference])):
                return f"its reference {self.cases[case].reference_case} was not measured in this run"
            mine, theirs = measured.case, self.measured[reference]
            same = mine.family is theirs.case.family and mine.shape == theirs.case.shape
            work = 1.0 if same else mine.work.bytes / theirs.case.work.bytes
            doubt = doubt or disturbance(typed(theirs.facts, Facts))
            return replace(rate, scale=work, references=others, doubt=doubt)
        return rate


def times_of(measured: Measured) -> list[float]:
    """Return the median time of the kernel alone in each process that measured it, in seconds."""
    sides = measured.facts.get("pairs")
    processes = sides["new"] if sides else measured.processes
    overhead = measured.facts.get("overhead", 0.0)
    return [kernel_seconds(median(samples), overhead) for samples in processes]


def sentence(clause: Clause) -> str:
    """Say how a case stands to a limit, by how much, and since when, as far as that is known."""
    factor = 1e6 if clause.name == "seconds" else 1.0
    unit = UNITS[clause.name]
    number, most = unit.split()[0], "least" if clause.name in LEAST else "most"
    if clause.figure is None:
        return f"at {most} {unit.format(factor * clause.limit)}: {clause.standing}: {clause.reason}"
    bound = f"at {most} {number.format(factor * clause.limit)}"
    text = unit.format(factor * clause.figure)
    if clause.low is not None and clause.high is not None:
        text += f" (95 %: {number.format(factor * clause.low)} to {number.format(factor * clause.high)})"
    more = (f"{text}, {bound}{_too_much(clause)}", clause.reason, clause.since)
    return "; ".join(filter(None, more))


def broken(clauses: Iterable[Clause]) -> list[str]:
    """Return a sentence on each limit that a case breaks."""
    return [f"contract: {sentence(each)}" for each in clauses if each.standing == Standing.BROKEN]


def _too_much(clause: Clause) -> str:
    if clause.standing != Standing.BROKEN or clause.figure is None:
        return ""
    if clause.name in RESOURCES:
        return f" ({clause.figure - clause.limit:,.0f} too many)"
    return f" ({100 * clause.excess:.1f} % {'too long' if clause.name == 'seconds' else 'too low'})"


def with_history(clause: Clause, case: Case, runs: Sequence[RunRecord]) -> Clause:
    """Add to a broken limit which saved runs kept it, and the command that finds the commit."""
    holds = operator.ge if clause.name in LEAST else operator.le
    known = [
        (run, holds(figure, clause.limit))
        for run in sorted(runs, key=lambda run: run.when or LONG_AGO)
        if case.id in run.cases and (figure := _figure_of(run.cases[case.id], clause.name)) is not None
    ]
    kept = max((i for i, (_, is_kept) in enumerate(known) if is_kept), default=-1)
    good, bad = "GOOD", "HEAD"
    since = "no saved run kept it" if known else ""
    if kept >= 0:
        run, after = known[kept][0], [run for run, _ in known[kept + 1 :]]
        good, since = run.commit.id[:12] or good, f"kept by {run.commit} of {run.day}"
        if after:
            bad, since = after[0].commit.id[:12] or bad, f"{since}, and not by {after[0].commit} of {after[0].day}"
    search = f"python -m warpwatch bisect {case.id} {good}..{bad}"
    search += ", with GOOD a commit that kept the limit" * (good == "GOOD")
    return replace(clause, since=since, next="" if case.variant.call else search)


def _figure_of(timed: CaseRecord, name: str) -> float | None:
    """Return a figure of a case in a saved run; None where it does not have it."""
    facts = timed.facts
    if name in RESOURCES:
        return getattr(facts, name) if facts.registers else None  # without any, nothing is known
    if name == "seconds":
        return kernel_seconds(median(timed.samples), facts.overhead)
    return facts.share if name == "reference" else None
