"""Limits that a baseline of several runs keeps, with room for the noise between processes, days and GPUs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean, median, variance

import numpy as np

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.contracts import LEAST, NAMES, RESOURCES, Contract
from warpwatch.compare.doubts import disturbance
from warpwatch.runs.record import CaseRecord, RunRecord
from warpwatch.timing.timer import kernel_seconds
from warpwatch.verdict.rule import BETWEEN_DAYS, MAX_FLOOR, MEASURED, RELEVANT, learned_floors, moderated

FEWEST = 3  # runs: fewer do not show how far processes, or GPUs, differ
DIGITS = 4
RATCHETED = ("registers", "local_bytes", "seconds", "reference")


def limits_of(
    case: Case, runs: Sequence[RunRecord], names: Sequence[str], others: Sequence[RunRecord] = ()
) -> dict[str, float]:
    """Return the limits that a case keeps in these runs. Runs that something disturbed do not count for its rates.

    ``others``: runs of other GPUs at the same work, for which the limit on time leaves room as well.
    """
    limits: dict[str, float] = {}
    facts_of_runs = [run.cases[case.id].facts for run in runs if case.id in run.cases]
    needs = [facts for facts in facts_of_runs if facts.registers]
    if needs and not (case.variant.call or case.variant.launches):  # of several, runs record the first launch
        limits |= {name: max(getattr(facts, name) for facts in needs) for name in RESOURCES}
    steady, elsewhere = _steady(case, runs), _steady(case, others)
    limits |= _of("seconds", steady, lambda t: kernel_seconds(median(t.samples), t.facts.overhead), elsewhere)
    if case.reference_case not in ("", case.id):
        limits |= _of("reference", steady, lambda t: t.facts.share)
    return {name: limit for name, limit in limits.items() if name in names}


def _steady(case: Case, runs: Sequence[RunRecord]) -> list[tuple[str, CaseRecord]]:
    """Return the records of a case that nothing disturbed, each with the UUID of its GPU."""
    timed = [(run.gpu_uuid, run.cases[case.id]) for run in runs if case.id in run.cases]
    return [(uuid, record) for uuid, record in timed if not disturbance(record.facts)]


def _of(
    name: str,
    timed: Sequence[tuple[str, CaseRecord]],
    figure: Callable[[CaseRecord], float | None],
    elsewhere: Sequence[tuple[str, CaseRecord]] = (),
) -> dict[str, float]:
    """Return the limit of a rate: the worst GPU's mean, and as far beyond as its noise floor; nothing of few runs."""
    logs: dict[str, list[float]] = {}
    if sum(bool(figure(each)) for _, each in timed) < FEWEST:
        return {}
    for uuid, each in (*timed, *elsewhere):
        if value := figure(each):
            logs.setdefault(uuid, []).append(math.log(value))
    sign = -1 if name in LEAST else 1
    middle = np.array([median(median(each.samples) for _, each in timed)])
    bounds = []
    for own in logs.values():
        spread, _ = moderated(middle, MEASURED, [(variance(own) if len(own) > 1 else 0.0, len(own) - 1)])
        floor = float(learned_floors(middle, spread)[0])
        if floor >= MAX_FLOOR:
            return {}
        bounds.append(sign * fmean(own) + math.log1p(floor) + math.log1p(BETWEEN_DAYS))
    return {name: _rounded(math.exp(sign * max(bounds)), sign)}


def _rounded(value: float, sign: int) -> float:
    """Return a limit in DIGITS digits, rounded away from what keeps it."""
    unit = 10.0 ** (math.floor(math.log10(value)) + 1 - DIGITS)
    return float(f"{sign * math.ceil(sign * value / unit) * unit:.{DIGITS}g}")


def tightened(old: Mapping[str, float], new: Mapping[str, float]) -> dict[str, float]:
    """Return the old limits, those of ``new`` in their place that are tighter by more than RELEVANT, and new ones."""
    both = asdict(Contract(**old).tighter(Contract(**new)))
    kept = {name for name in old if abs(both[name] - old[name]) <= RELEVANT * old[name]}
    return {name: old[name] if name in kept else value for name in NAMES if (value := both[name]) is not None}
