"""Shows how far each kernel is from its reference: shares, and the tables by family.

A share is a case's rate over that of its family's reference (``Family.reference_case``): cuBLAS's on the same shape
where there is arithmetic to do, else the bandwidth of the driver's copy of about as many bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.selection import timed_cases
from warpwatch.report.tables import kernel_times, medians
from warpwatch.runs.identity import difference
from warpwatch.runs.record import BadRun, Facts, RunRecord
from warpwatch.timing.timer import kernel_seconds


def share(families: Iterable[Family], case: Case, times: Mapping[str, float]) -> float | None:
    """Share that a case reaches of its reference's rate; None if ``times`` lacks either.

    ``times``: of the kernels alone (timing/timer.py), in seconds by case id.
    """
    reference_id = case.reference_case
    if not reference_id or reference_id not in times or case.id not in times or case.variant.on_host:
        return None
    reference = find_case(families, reference_id)
    same = reference.family is case.family and reference.shape == case.shape
    work, most = (1.0, 1.0) if same else (case.work.bytes, reference.work.bytes)
    return (work / times[case.id]) / (most / times[reference_id])


def add_shares(families: Sequence[Family], benchmarks: Iterable[dict[str, Any]]) -> None:
    """Add to each case of a run that is about to be saved the share that it reaches, under ``extra_info``."""
    entries = list(benchmarks)
    times = {
        entry["param"]: kernel_seconds(entry["stats"]["median"], entry["extra_info"].get("overhead", 0.0))
        for entry in entries
    }
    for entry in entries:
        entry["extra_info"]["share"] = share(families, find_case(families, entry["param"]), times)


@dataclass(frozen=True, kw_only=True)
class Timed:
    """Holds what saved runs say of their cases, by case id: recorded facts, and medians in seconds.

    ``own``: medians without what a reading holds beside the kernel, for rates and shares.
    """

    families: Sequence[Family]
    facts: Mapping[str, Facts]
    times: Mapping[str, float]
    own: Mapping[str, float]


def table(timed: Timed, family: Family, dtype: str, shape: tuple[int, ...]) -> str:
    """Table of a family's rungs on one shape, each with its best block; empty where none of them was timed."""
    facts, times = timed.facts, timed.times
    cases = [c for c in timed_cases([family]) if c.dtype == dtype and c.shape == shape and c.id in times]
    if not cases:
        return ""
    lines = [
        f"| {family.name} {'×'.join(map(str, shape))}, {dtype} | time, µs | {_unit(cases[0])} | share | gain | "
        "registers | shared, bytes |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    before = None
    for case in best(cases, times):
        seconds, own = times[case.id], facts[case.id]
        reached = share(timed.families, case, timed.own)
        shared = own.shared_bytes + (own.dynamic_shared_bytes or 0)
        resources = f"{own.registers} | {shared:,}" if not case.variant.call else "|"
        gain = f"{before / seconds:.2f}×" if before and not case.variant.call else ""
        name = case.variant.name if case.variant.call else f"{case.variant.name}, {case.build.block_name}"
        name += f" ({own.fallback})" if own.fallback else ""
        work = case.work.operations or case.work.bytes
        lines.append(
            f"| {name} | {seconds * 1e6:,.1f} | {work / timed.own[case.id] / 1e9:,.0f} | "
            f"{'' if reached is None else f'{reached:.2f}'} | {gain} | {resources} |"
        )
        before = before if case.variant.call else seconds
    return "\n".join(lines)


def _unit(case: Case) -> str:
    return "GFLOP/s" if case.work.operations else "GB/s"


def best(cases: Sequence[Case], times: Mapping[str, float]) -> Iterator[Case]:
    """Yield the fastest block of each variant, in the catalogue's order, without the host's."""
    for variant in dict.fromkeys(case.variant for case in cases if not case.variant.on_host):
        yield min((case for case in cases if case.variant is variant), key=lambda case: times[case.id])


def reached(families: Sequence[Family], runs: Sequence[RunRecord]) -> str:
    """Table of the best rung on each of the families' ``reached_shapes``, by the median of all runs.

    Beside each share stands its range over single runs.
    """
    times, each = kernel_times(runs), [kernel_times([run]) for run in runs]
    lines = ["| case | best rung | of a copy's bandwidth | of the vendor's library |", "|---|---|---:|---:|"]
    for family, dtype, shape in listed(families, "reached_shapes"):
        cases = [c for c in timed_cases([family]) if (c.dtype, c.shape) == (dtype, shape) and c.id in times]
        ours = [case for case in best(cases, times) if not case.variant.call]
        if not ours:
            continue
        case = min(ours, key=lambda case: times[case.id])
        vendor = next((other.id for other in cases if other.variant.call), "")
        shares = [None if case.reference_case == vendor else share(families, case, own) for own in (times, *each)]
        ratios = [own[vendor] / own[case.id] if {vendor, case.id} <= own.keys() else None for own in (times, *each)]
        columns = (_range(shares), _range(ratios))
        rung = f"{case.variant.name}, {case.build.block_name}"
        lines.append(f"| {family.name} {'×'.join(map(str, shape))}, {dtype} | {rung} | {' | '.join(columns)} |")
    return "\n".join(lines) if len(lines) > 2 else ""


def _range(values: Sequence[float | None]) -> str:
    """Text of the first value, which is that of all runs, and the range of the others; empty where one is unknown."""
    single = [value for value in values[1:] if value is not None]
    return f"{values[0]:.3f} ({min(single):.3f} to {max(single):.3f})" if values[0] is not None and single else ""


def same_work(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Runs whose cases on the GPU are all known to be the work that they are in the last run, which is among them."""
    last = runs[-1].cases
    return [
        run
        for run in runs
        if run is runs[-1]
        or not any(
            difference(timed.facts.identity, last[name].facts.identity)
            for name, timed in run.cases.items()
            if name in last and timed.facts.cache != "host"
        )
    ]


def listed(families: Iterable[Family], field: str) -> Iterator[tuple[Family, str, tuple[int, ...]]]:
    """Yield family, element type and shape of all that ``ladder_shapes`` or ``reached_shapes`` name."""
    for family in families:
        for dtype, shapes in getattr(family, field).items():
            for shape in shapes:
                yield family, dtype, shape


def tables(runs: Sequence[RunRecord], families: Sequence[Family]) -> str:
    """Markdown tables: one for each of the families' ``ladder_shapes``, and one of their ``reached_shapes``.

    Only runs that did the work of the last one are used.
    """
    chosen = same_work(runs)
    facts = {name: timed.facts for run in chosen for name, timed in run.cases.items()}  # the last run's win
    timed = Timed(families=families, facts=facts, times=medians(chosen), own=kernel_times(chosen))
    parts = [table(timed, family, dtype, shape) for family, dtype, shape in listed(families, "ladder_shapes")]
    if not any(parts := [*parts, reached(families, chosen)]):
        raise BadRun(f"{chosen[-1].path}: has none of the shapes that ladders are shown for")
    return "\n\n".join(filter(None, parts))
