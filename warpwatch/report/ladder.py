"""Shows how far each kernel is from its reference: shares, and the tables by family.

A share is a case's rate over that of its family's reference (``Family.reference_case``): cuBLAS's on the same shape
where there is arithmetic to do, else the bandwidth of the driver's copy of about as many bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.selection import timed_cases
from warpwatch.report.entries import Results, share
from warpwatch.report.family_tables import ladders, shape_of
from warpwatch.report.tables import kernel_times
from warpwatch.runs.identity import difference
from warpwatch.runs.record import BadRun, RunRecord
from warpwatch.timing.timer import kernel_seconds


def add_shares(cases: Mapping[str, Case], benchmarks: Sequence[dict[str, Any]]) -> None:
    """Add to each case of a run that is about to be saved the share that it reaches, under ``extra_info``."""
    times = {e["param"]: kernel_seconds(e["stats"]["median"], e["extra_info"].get("overhead", 0.0)) for e in benchmarks}
    for entry in benchmarks:
        entry["extra_info"]["share"] = share(cases, cases[entry["param"]], times)


def _reached(families: Sequence[Family], runs: Sequence[RunRecord]) -> str:
    """Return the table of the best rung on each shape, by the median of all runs; empty where there is none.

    Beside each share stands its range over single runs.
    """
    cases = {case.id: case for case in timed_cases(families)}
    times, *single = [kernel_times(runs), *(kernel_times([run]) for run in runs)]
    lines = ["| case | best rung | of a copy's bandwidth | of the vendor's library |", "|---|---|---:|---:|"]
    for family, dtype, shape in listed(families, "reached_shapes"):
        timed = [c for c in cases.values() if (c.family, c.dtype, c.shape) == (family, dtype, shape) and c.id in times]
        ours = [case for case in timed if not (case.variant.on_host or case.variant.call)]
        if not ours:
            continue
        case = min(ours, key=lambda case: times[case.id])
        vendor = next((other.id for other in timed if other.variant.call), "")
        shares = [None if case.reference_case == vendor else share(cases, case, own) for own in (times, *single)]
        ratios = [own[vendor] / own[case.id] if {vendor, case.id} <= own.keys() else None for own in (times, *single)]
        rung = f"{case.variant.name}, {case.build.block_name}"
        lines.append(f"| {shape_of(case)} | {rung} | {_range(shares)} | {_range(ratios)} |")
    return "\n".join(lines) if len(lines) > 2 else ""


def _range(values: Sequence[float | None]) -> str:
    """Text of the first value, which is that of all runs, and the range of the others; empty where one is unknown."""
    single = [value for value in values[1:] if value is not None]
    return f"{values[0]:.3f} ({min(single):.3f} to {max(single):.3f})" if values[0] is not None and single else ""


def runs_of_same_work(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Return the runs whose cases on the GPU are all known to do the work of the last run, which is among them."""
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


def _cure(timed: Sequence[Case]) -> str:
    """Say what a declaration would name for the timed case with the most work; empty where there is none."""
    own = [case for case in timed if not (case.variant.on_host or case.family.prints)]
    if not own:
        return ""
    case = max(own, key=lambda case: (case.work.operations, case.work.bytes))
    cure = f'give {case.family.name} ladder_shapes={{"{case.dtype}": ({case.shape},)}}'
    return f": {cure}, or see all times by `warpwatch report RUN`"


def listed(families: Iterable[Family], field: str) -> list[tuple[Family, str, tuple[int, ...]]]:
    """List family, element type and shape of all that ``ladder_shapes`` or ``reached_shapes`` name."""
    shapes = [(family, dtype, own) for family in families for dtype, own in getattr(family, field).items()]
    return [(family, dtype, shape) for family, dtype, own in shapes for shape in own]


def tables(runs: Sequence[RunRecord], families: Sequence[Family]) -> str:
    """Return Markdown tables: one for each of the families' ``ladder_shapes``, and one of their ``reached_shapes``.

    Only runs that did the work of the last one are used. Raises BadRun where they have none of these shapes.
    """
    results = Results(families=families, runs=runs_of_same_work(runs))
    parts = [
        table.markdown()
        for family in families
        for dtype in family.ladder_shapes
        for table in ladders(results.by_type(family.name).get(dtype, ()))
    ]
    if not any(parts := [*parts, _reached(families, results.runs)]):
        timed = [case for case in timed_cases(families) if case.id in results.today.cases]
        raise BadRun(f"{results.today.path}: has no shape that a family names in ladder_shapes{_cure(timed)}")
    gpu = results.today.gpu
    return "\n\n".join(filter(None, [f"**{gpu.name}: {gpu.note}.**" if gpu.note else "", *parts]))
