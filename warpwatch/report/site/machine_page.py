"""Page of the machine: GPU, clocks, noise floors by size, the self-check, the baseline's runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from warpwatch.compare.doubts import disturbance
from warpwatch.compare.saved_self_check import CLASSES, SLOWDOWNS, CheckedCase, path_of
from warpwatch.report.family_tables import Cell, Table
from warpwatch.report.numbers import micro, rounded
from warpwatch.report.site.content import Content
from warpwatch.report.site.figures import Chart


@dataclass(frozen=True)
class MachinePage:
    content: Content

    @property
    def check(self) -> Path:
        return path_of(self.content.today.slug, self.content.project.baselines)

    @property
    def facts(self) -> dict[str, str]:
        gpu, timed = self.content.today.gpu, self.content.today.cases.values()
        clocks = [mhz for each in timed for mhz in each.facts.sm_clock_mhz if mhz] or [0]
        overheads = [each.facts.overhead for each in timed if each.facts.overhead] or [0.0]
        clock = f"{min(clocks):,} to {max(clocks):,} MHz, median {median(clocks):,.0f}"
        overhead = f"{micro(median(overheads))} µs of each time: events with nothing between them read that"
        shown = {
            "GPU": gpu.name or "none",
            "Compute capability": gpu.capability,
            "Multiprocessors": f"{gpu.multiprocessors or ''}",
            "Memory": f"{gpu.memory_bytes / 2**30:,.0f} GiB" if gpu.memory_bytes else "",
            "Memory moves at most": f"{gpu.peak_bytes_per_second / 1e9:,.0f} GB/s" if gpu.peak_bytes_per_second else "",
            "L2": f"{gpu.l2_bytes / 2**20:,.0f} MiB" if gpu.l2_bytes else "",
            "Timed with L2": gpu.cache,
            "Driver": gpu.driver,
            "CUDA toolkit": gpu.toolkit,
            "Note": gpu.note,
            "SM clock in this run": clock if any(clocks) else "",
            "Not the kernel's": overhead if any(overheads) else "",
        }
        return {name: text for name, text in shown.items() if text}

    @property
    def uuids(self) -> dict[str, tuple[int, int]]:
        """Number of runs of each GPU, in the baseline and in the history."""
        content = self.content
        past, nights = (Counter(run.gpu_uuid for run in runs) for runs in (content.baseline, content.nights))
        known = dict.fromkeys([content.today.gpu_uuid, *past, *nights])
        return {uuid: (past[uuid], nights[uuid]) for uuid in known}

    @property
    def disturbed(self) -> dict[str, str]:
        """Reasons why cases were disturbed, by their ids."""
        entries = self.content.entries
        why = {e.id: disturbance(e.timed.facts) for e in entries if e.timed and not e.on_host}
        return {name: sentence for name, sentence in why.items() if sentence}

    @property
    def charts(self) -> list[Chart]:
        """The noise floors over the times."""
        points = [(1e6 * seconds, 100 * floor) for seconds, floor in self._floors]
        if not points:
            return []
        says = f"Noise floor of {len(points)} cases over their median time; smaller changes cannot be told from none"
        by_time = sorted(dict(points).items())
        floors = [rounded(floor) for _, floor in by_time]
        spec = {
            "h": 260,
            "x": {"l": "median, µs", "k": "log", "v": [rounded(time) for time, _ in by_time]},
            "y": {"l": "noise floor, %", "k": "log"},
            "s": [{"l": "noise floor", "k": "dot", "c": 0, "w": 5, "v": floors}],
        }
        return [Chart(title="Noise floors", says=says, spec=spec)]

    @property
    def tables(self) -> list[Table]:
        """Noise floors and the self-check, by the size of the cases."""
        floors, checked = {}, {}
        cases = self.content.checked.cases.values() if self.content.checked else ()
        for name, (low, high) in CLASSES.items():
            floors[name] = sorted(100 * floor for seconds, floor in self._floors if low <= seconds < high)
            checked[name] = [case for case in cases if low <= case.median < high]
        tables = [
            Table(
                title="Noise floors by size",
                columns=["cases", "number", "median floor", "nine in ten below", "highest"],
                rows=[([name], _floor_cells(own)) for name, own in floors.items() if own],
            ),
            Table(
                title="Self-check",
                columns=["cases", "number", "false alarms", *(f"found of +{100 * share:g} %" for share in SLOWDOWNS)],
                rows=[([name], _check_cells(own)) for name, own in checked.items() if own],
                note="Unchanged kernels against themselves, then slowdowns of known size (pytest bench --self-check).",
            ),
        ]
        return [table for table in tables if table.rows]

    @property
    def _floors(self) -> list[tuple[float, float]]:
        """Median in seconds and noise floor of the compared cases."""
        decisions = [entry.decision for entry in self.content.entries if entry.decision]
        return [(each.before, each.floor) for each in decisions if not math.isnan(each.floor)]


def _floor_cells(floors: Sequence[float]) -> list[Cell]:
    tenth = quantiles(floors, n=10)[-1] if len(floors) > 1 else floors[0]
    shares = (f"{share:.1f} %" for share in (median(floors), tenth, floors[-1]))
    return [Cell(text=text) for text in (f"{len(floors)}", *shares)]


def _check_cells(cases: Sequence[CheckedCase]) -> list[Cell]:
    cells = [Cell(text=f"{len(cases)}"), Cell(text=f"{sum(case.verdict == 'slower' for case in cases)}")]
    for share in SLOWDOWNS:
        tried = [case.found for case in cases if case.slowdown == share]
        heat = round(sum(tried) / len(tried), 2) if tried else None
        cells.append(Cell(text=f"{sum(tried)} of {len(tried)}" if tried else "", heat=heat))
    return cells
