"""Makes the page of the machine: GPU, clocks, noise floors by size, the self-check, the baseline's runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median, quantiles
from typing import Any

from warpwatch.compare.doubts import disturbance
from warpwatch.compare.saved_self_check import CLASSES, SLOWDOWNS, CheckedCase, path_of
from warpwatch.report.site.figures import Cell, Chart, Spec, Table, micro, rounded
from warpwatch.report.site.material import Entry, Material
from warpwatch.runs.record import Gpu

Row = tuple[Sequence[str], Sequence[Cell | None]]


def machine_page(material: Material, entries: Sequence[Entry]) -> dict[str, Any]:
    """Return what the page of the machine shows.

    ``uuids``: runs of each GPU, in the baseline and in the history. ``check``: the file of the self-check, and
    ``checked``: the GPU that it was made on.
    """
    today = material.today
    slow = {e.id: disturbance(e.timed.facts) for e in entries if e.timed and not e.on_host}
    past, nights = (Counter(run.gpu_uuid for run in runs) for runs in (material.baseline, material.nights))
    tables = [_floors(entries), _self_check(material.checked.cases if material.checked else {})]
    return {
        "facts": _facts(today.gpu) | _clocks(entries) | _overhead(entries),
        "uuids": {uuid: (past[uuid], nights[uuid]) for uuid in dict.fromkeys([today.gpu_uuid, *past, *nights])},
        "baseline": material.baseline,
        "charts": _charts(entries),
        "tables": [table for table in tables if table.rows],
        "throttled": {name: why for name, why in slow.items() if why},
        "check": path_of(today.slug, material.project.baselines) if material.checked else None,
        "checked": material.checked.gpu.uuid if material.checked else "",
    }


def _facts(gpu: Gpu) -> dict[str, str]:
    shown = {
        "GPU": gpu.name or "none",
        "Compute capability": gpu.capability,
        "Multiprocessors": f"{gpu.multiprocessors}" if gpu.multiprocessors else "",
        "Memory": f"{gpu.memory_bytes / 2**30:,.0f} GiB" if gpu.memory_bytes else "",
        "Memory moves at most": f"{gpu.peak_bytes_per_second / 1e9:,.0f} GB/s" if gpu.peak_bytes_per_second else "",
        "L2": f"{gpu.l2_bytes / 2**20:,.0f} MiB" if gpu.l2_bytes else "",
        "Timed with L2": gpu.cache,
        "Driver": gpu.driver,
        "CUDA toolkit": gpu.toolkit,
        "Note": gpu.note,
    }
    return {name: text for name, text in shown.items() if text}


def _clocks(entries: Sequence[Entry]) -> dict[str, str]:
    clocks = [mhz for e in entries if e.timed for mhz in e.timed.facts.sm_clock_mhz if mhz]
    if not clocks:
        return {}
    return {"SM clock in this run": f"{min(clocks):,} to {max(clocks):,} MHz, median {median(clocks):,.0f}"}


def _overhead(entries: Sequence[Entry]) -> dict[str, str]:
    known = [e.timed.facts.overhead for e in entries if e.timed and e.timed.facts.overhead]
    if not known:
        return {}
    return {"Not the kernel's": f"{micro(median(known))} µs of each time: events with nothing between them read that"}


def _sized(entries: Sequence[Entry]) -> dict[str, list[tuple[float, float]]]:
    """Median in seconds and noise floor of the compared cases, by the class of their size."""
    found: dict[str, list[tuple[float, float]]] = {}
    for name, (low, high) in CLASSES.items():
        found[name] = [
            (e.decision.before, e.decision.floor)
            for e in entries
            if e.decision and not math.isnan(e.decision.floor) and low <= e.decision.before < high
        ]
    return {name: points for name, points in found.items() if points}


def _charts(entries: Sequence[Entry]) -> list[Chart]:
    points = [(1e6 * t, 100 * floor) for own in _sized(entries).values() for t, floor in own]
    if not points:
        return []
    says = f"Noise floor of {len(points)} cases over their median time; smaller changes cannot be told from none"
    spec = _scatter({"noise floor": points}, "median, µs", "noise floor, %")
    return [Chart(title="Noise floors", says=says, spec=spec)]


def _floors(entries: Sequence[Entry]) -> Table:
    rows: list[Row] = []
    for name, points in _sized(entries).items():
        floors = sorted(100 * floor for _, floor in points)
        tenth = quantiles(floors, n=10)[-1] if len(floors) > 1 else floors[0]
        texts = [f"{len(points)}", f"{median(floors):.1f} %", f"{tenth:.1f} %", f"{floors[-1]:.1f} %"]
        rows.append(([name], [Cell(text=text) for text in texts]))
    columns = ["cases", "number", "median floor", "nine in ten below", "highest"]
    return Table(title="Noise floors by size", columns=columns, rows=rows)


def _self_check(cases: Mapping[str, CheckedCase]) -> Table:
    rows: list[Row] = []
    for name, (low, high) in CLASSES.items():
        own = [case for case in cases.values() if low <= case.median < high]
        if not own:
            continue
        alarms = sum(case.verdict == "slower" for case in own)
        cells = [Cell(text=f"{len(own)}"), Cell(text=f"{alarms}")]
        for share in SLOWDOWNS:
            tried = [case.found for case in own if case.slowdown == share]
            heat = round(sum(tried) / len(tried), 2) if tried else None
            cells.append(Cell(text=f"{sum(tried)} of {len(tried)}" if tried else "", heat=heat))
        rows.append(([name], cells))
    columns = ["cases", "number", "false alarms", *(f"found of +{100 * share:g} %" for share in SLOWDOWNS)]
    return Table(
        title="Self-check",
        columns=columns,
        rows=rows,
        note="Unchanged kernels against themselves, then slowdowns of known size (pytest bench --self-check).",
    )


def _scatter(series: Mapping[str, Sequence[tuple[float, float]]], x: str, y: str) -> Spec:
    """Points over a logarithmic axis, of several colours."""
    xs = sorted({a for points in series.values() for a, _ in points})
    place = {a: i for i, a in enumerate(xs)}
    drawn = []
    for i, (name, points) in enumerate(series.items()):
        values: list[float | None] = [None] * len(xs)
        for a, b in points:
            values[place[a]] = rounded(b)
        drawn.append({"l": name, "k": "dot", "c": i, "w": 5, "v": values})
    return {
        "h": 260,
        "x": {"l": x, "k": "log", "v": [rounded(a) for a in xs]},
        "y": {"l": y, "k": "log"},
        "s": drawn,
    }
