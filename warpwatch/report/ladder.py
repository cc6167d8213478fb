"""Shows how far each kernel is from its reference: shares, and the tables by family.

A share is a case's rate over that of its family's reference (``Family.reference_case``): cuBLAS's on the same shape
where there is arithmetic to do, else the bandwidth of the driver's copy of about as many bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.selection import timed_cases
from warpwatch.report.numbers import fraction, significant
from warpwatch.report.tables import kernel_times, medians
from warpwatch.runs.identity import difference
from warpwatch.runs.record import BadRun, RunRecord
from warpwatch.timing.timer import kernel_seconds


def share(cases: Mapping[str, Case], case: Case, times: Mapping[str, float]) -> float | None:
    """Return the share that a case reaches of its reference's rate; None if ``times`` lacks either.

    ``cases``: by id, the reference among them. ``times``: of the kernels alone (timing/timer.py), in seconds by id.
    """
    reference = cases.get(case.reference_case)
    if reference is None or reference.id not in times or case.id not in times or case.variant.on_host:
        return None
    same = reference.family is case.family and reference.shape == case.shape
    work, most = (1.0, 1.0) if same else (case.work.bytes, reference.work.bytes)
    return (work / times[case.id]) / (most / times[reference.id])


def add_shares(cases: Mapping[str, Case], benchmarks: Sequence[dict[str, Any]]) -> None:
    """Add to each case of a run that is about to be saved the share that it reaches, under ``extra_info``."""
    times = {e["param"]: kernel_seconds(e["stats"]["median"], e["extra_info"].get("overhead", 0.0)) for e in benchmarks}
    for entry in benchmarks:
        entry["extra_info"]["share"] = share(cases, cases[entry["param"]], times)


def _table(cases: Mapping[str, Case], rungs: Sequence[Case], runs: Sequence[RunRecord]) -> str:
    """Return the table of the rungs on one shape, each with its best block. ``rungs``: at least one."""
    facts = {name: timed.facts for run in runs for name, timed in run.cases.items()}  # the last run's win
    times, kernels, before = medians(runs), kernel_times(runs), None
    unit = "GFLOP/s" if rungs[0].work.operations else "GB/s"
    lines = [
        f"| {_shape(rungs[0])} | time, µs | {unit} | share | gain | registers | shared, bytes |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for case in best(rungs, times):
        seconds, own, reached = times[case.id], facts[case.id], share(cases, case, kernels)
        name, gain, resources = case.variant.name, "", "|"
        if not case.variant.call:
            name += f", {case.build.block_name}"
            gain = f"{before / seconds:.2f}×" if before else ""
            resources = f"{own.registers} | {own.shared_bytes + (own.dynamic_shared_bytes or 0):,}"
            before = seconds
        name += f" ({own.fallback})" if own.fallback else ""
        rate = (case.work.operations or case.work.bytes) / kernels[case.id] / 1e9
        shown = "" if reached is None else fraction(reached)
        lines.append(f"| {name} | {seconds * 1e6:,.1f} | {significant(rate)} | {shown} | {gain} | {resources} |")
    return "\n".join(lines)


def _shape(case: Case) -> str:
    return f"{case.family.name} {'×'.join(map(str, case.shape))}, {case.dtype}"


def best(cases: Sequence[Case], times: Mapping[str, float]) -> Iterator[Case]:
    """Yield the fastest block of each variant, in the catalogue's order, without the host's."""
    for variant in dict.fromkeys(case.variant for case in cases if not case.variant.on_host):
        yield min((case for case in cases if case.variant is variant), key=lambda case: times[case.id])


def _reached(cases: Mapping[str, Case], on_shapes: Iterable[Sequence[Case]], runs: Sequence[RunRecord]) -> str:
    """Return the table of the best rung on each shape, by the median of all runs; empty where there is none.

    Beside each share stands its range over single runs.
    """
    times, *single = [kernel_times(runs), *(kernel_times([run]) for run in runs)]
    lines = ["| case | best rung | of a copy's bandwidth | of the vendor's library |", "|---|---|---:|---:|"]
    for rungs in on_shapes:
        ours = [case for case in best(rungs, times) if not case.variant.call]
        if not ours:
            continue
        case = min(ours, key=lambda case: times[case.id])
        vendor = next((other.id for other in rungs if other.variant.call), "")
        shares = [None if case.reference_case == vendor else share(cases, case, own) for own in (times, *single)]
        ratios = [own[vendor] / own[case.id] if {vendor, case.id} <= own.keys() else None for own in (times, *single)]
        rung = f"{case.variant.name}, {case.build.block_name}"
        lines.append(f"| {_shape(case)} | {rung} | {_range(shares)} | {_range(ratios)} |")
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


def listed(families: Iterable[Family], field: str) -> list[tuple[Family, str, tuple[int, ...]]]:
    """List family, element type and shape of all that ``ladder_shapes`` or ``reached_shapes`` name."""
    shapes = [(family, dtype, own) for family in families for dtype, own in getattr(family, field).items()]
    return [(family, dtype, shape) for family, dtype, own in shapes for shape in own]


def tables(runs: Sequence[RunRecord], families: Sequence[Family]) -> str:
    """Return Markdown tables: one for each of the families' ``ladder_shapes``, and one of their ``reached_shapes``.

    Only runs that did the work of the last one are used. Raises BadRun where they have none of these shapes.
    """
    chosen = same_work(runs)
    cases = {case.id: case for case in timed_cases(families)}
    timed = [case for case in cases.values() if any(case.id in run.cases for run in chosen)]

    def on_shapes(field: str) -> Iterator[list[Case]]:
        for family, dtype, shape in listed(families, field):
            own = (case for case in timed if case.family is family)
            if rungs := [case for case in own if (case.dtype, case.shape) == (dtype, shape)]:
                yield rungs

    parts = [_table(cases, rungs, chosen) for rungs in on_shapes("ladder_shapes")]
    if not any(parts := [*parts, _reached(cases, on_shapes("reached_shapes"), chosen)]):
        raise BadRun(f"{chosen[-1].path}: has none of the shapes that ladders are shown for")
    return "\n\n".join(filter(None, parts))
