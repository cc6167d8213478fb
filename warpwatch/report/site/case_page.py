"""Page of a case: verdict and figures, samples, history, resources, roofline, the command that repeats it."""

from __future__ import annotations

import math
import os
import shlex
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from statistics import median

import numpy as np

from warpwatch.compare.beside import microseconds, millijoules
from warpwatch.compare.doubts import UNCHANGED, disturbance, is_unchanged
from warpwatch.compare.history import Step
from warpwatch.report.entries import FAILED, HOST, MISSING, NOT_COMPARED, Entry
from warpwatch.report.numbers import fraction, micro, percent, rounded, significant
from warpwatch.report.site.content import Content
from warpwatch.report.site.figures import Chart, roofline
from warpwatch.runs.record import CaseRecord, Facts
from warpwatch.verdict.rule import PAIRS

MOST_BINS = 24
WITHOUT_VERDICT = {
    FAILED: "It failed in this run, before it could be timed; the log of the run says how.",
    MISSING: "The baseline has it and this run, which is of every case, has not: it was renamed or taken away.",
    HOST: "It runs on the host, and speed-ups are relative to it. No GPU runs it, so it has no verdict.",
    NOT_COMPARED: "There was nothing to compare it with.",
}


@dataclass(frozen=True)
class CasePage:
    content: Content
    entry: Entry

    @cached_property
    def steps(self) -> list[Step]:
        """Lasting changes of the case, oldest first."""
        numbers = self.content.numbers
        steps = (step for step in self.content.steps if step.case == self.entry.id)
        own = [step for step in steps if step.after.gpu_uuid == self._gpu]
        return sorted(own, key=lambda step: numbers[step.after.path])

    @property
    def _gpu(self) -> str:
        """UUID of the GPU that measured it today: a case has a history of its own on each."""
        return (self.entry.timed and self.entry.timed.facts.gpu_uuid) or self.content.today.gpu_uuid

    @property
    def says(self) -> list[str]:
        """Sentences on its verdict."""
        entry, decision = self.entry, self.entry.decision
        if decision is None or entry.verdict in WITHOUT_VERDICT:
            return [WITHOUT_VERDICT[entry.verdict]]
        sentences = [f"{text[:1].upper()}{text[1:]}." for text in (decision.reason, decision.explanation) if text]
        if decision.suspect and decision.verdict == "unsure":
            sentences.append("Probably slower: of the cases that are listed so, at most one in twenty is not.")
        past = [timed.facts for timed in self._past]
        if entry.timed and not self.content.today.against and UNCHANGED not in decision.reason:
            sentences += ["Its work is the baseline's."] * is_unchanged(entry.timed.facts, past)
        return sentences

    @property
    def facts(self) -> dict[str, str]:
        entry, peak = self.entry, self.content.today.gpu.peak_bytes_per_second
        if not entry.timed:
            return {}
        facts, moved = entry.timed.facts, 0.0 if entry.on_host else entry.bytes / entry.own_seconds
        own = f"{micro(entry.own_seconds)} µs; events with nothing between them read the rest"
        reference = entry.case.reference_case if entry.case else ""
        share = "" if entry.share is None else f"{fraction(entry.share)} of {reference}"
        of_peak = f", {rounded(100 * moved / peak, 2)} % of its peak" if peak else ""
        shown = {
            "Median": f"{micro(entry.seconds)} µs of {len(entry.timed.samples)} samples",
            "Kernel's own": own if facts.overhead else "",
            "Rate": f"{significant(entry.rate)} {entry.unit}" if entry.rate else "",
            "Memory": f"{significant(moved / 1e9)} GB/s at least{of_peak}" if moved else "",
            "Share": share,
            "Energy": f"{millijoules(facts.joules)} mJ a launch, one after the other" if facts.joules else "",
            "Host": _host(facts),
            "Measured again": f"in {len(facts.again)} more processes" if facts.again else "",
        }
        return {name: text for name, text in (shown | _resources(facts)).items() if text}

    @property
    def commands(self) -> dict[str, str]:
        """Commands by what they do."""
        project, name, against = self.content.project, shlex.quote(self.entry.id), self.content.today.against
        bench = shlex.quote(os.path.relpath(project.baselines.parent, project.root))
        how = f"--against {against[:12]}" if against else "--benchmark-compare"
        return {
            "Measure and compare": f"pytest {bench} {how} -k {name}",
            "Run once": f"python -m warpwatch run {name}",
        }

    @property
    def charts(self) -> list[Chart]:
        """Samples, change, history and roofline, as far as they are known."""
        return [chart for chart in (self._samples(), self._change(), self._history(), self._roofline()) if chart]

    @property
    def _past(self) -> list[CaseRecord]:
        """The case in the runs that it was compared with."""
        return [run.cases[self.entry.id] for run in self.content.verdicts.past if self.entry.id in run.cases]

    def _samples(self) -> Chart | None:
        """Histograms of both sides' samples on the same bins; the farthest 1 % at each end is left out."""
        if not self.entry.timed:
            return None
        timed, sides = self.entry.timed, self.entry.timed.facts.pairs
        old = sides.old if sides else [each.samples for each in self._past]
        new = sides.new if sides else (timed.samples, *timed.facts.again)
        before, now = (1e6 * np.array(list(chain(*side))) for side in (old, new))
        both = np.concatenate([before, now])
        low, high = np.percentile(both, [1, 99])
        edges = np.histogram_bin_edges(both[(both >= low) & (both <= high)], bins="auto")
        if len(edges) - 1 > MOST_BINS:
            edges = np.linspace(low, high, MOST_BINS + 1)
        if len(edges) < 3:
            edges = np.linspace(0.98 * low, 1.02 * high, 6)
        step = float(edges[1] - edges[0])
        shares = [
            [rounded(100 * count / len(side), 2) for count in np.histogram(side, bins=edges)[0]] if len(side) else []
            for side in (before, now)
        ]
        other = f" new, {len(before):,} old of {len(old)} processes" if old else ""
        return Chart(
            title="Samples",
            says=f"{len(now):,}{other}; the outermost 1 % is left out",
            spec={"k": "samples", "e": [rounded(float(edges[0]) + step / 2, 7), rounded(step, 5)], "v": shares},
        )

    def _change(self) -> Chart | None:
        """The change in per cent with its 95 % interval, and the noise floor."""
        decision = self.entry.decision
        if decision is None or self.entry.ratio is None or math.isnan(decision.floor):
            return None
        changes = (decision.low, decision.ratio, decision.high, 1 / (1 + decision.floor))
        values = [*(100 * (value - 1) for value in changes), 100 * decision.floor]
        how = "in pairs" if decision.decided_by == PAIRS else "without what a process does to every case"
        change = f"{percent(decision.ratio)} with its 95 % interval, {how}"
        spec = {"k": "change", "v": [rounded(value) for value in values]}
        return Chart(title="Old against new", says=f"{change}; noise floor", spec=spec)

    def _history(self) -> Chart | None:
        """Medians night by night, and the levels between lasting changes: first night, last night, µs.

        Medians are written as whole numbers of a unit, above the least of them.
        """
        content, count = self.content, len(self.steps)
        timed = [(run.cases.get(self.entry.id), run.gpu_uuid) for run in content.nights]
        own = [each if each and (each.facts.gpu_uuid or uuid) == self._gpu else None for each, uuid in timed]
        medians = [each.samples[0] if each else None for each in own]
        known = [value for value in medians if value is not None]
        if len(known) < 2:
            return None
        levels = []
        for first, end in pairwise([0, *(content.numbers[step.after.path] for step in self.steps), len(medians)]):
            logs = [math.log(value) for value in medians[first:end] if value is not None]
            levels.append([first, end - 1, rounded(1e6 * math.exp(median(logs)))])
        unit = 10.0 ** (math.floor(math.log10(1e6 * min(known))) - 3)  # four digits
        least = round(1e6 * min(known) / unit)
        values = [None if value is None else round(1e6 * value / unit) - least for value in medians]
        changes = f"{count or 'no'} lasting change{'s' if count != 1 else ''}"
        return Chart(
            title="History",
            says=f"Medians of {len(known)} nights, {micro(min(known))} to {micro(max(known))} µs, {changes}",
            spec={"k": "history", "u": [rounded(unit), least], "v": values} | ({"levels": levels} if count else {}),
        )

    def _roofline(self) -> Chart | None:
        roof, point = self.content.roofs.get(self.entry.dtype), self.entry.intensity_and_rate
        if not roof or not point:
            return None
        most = min(roof.rate, point[0] * roof.bytes_per_second)
        says = f"{rounded(point[0], 3)} operations a byte, {rounded(100 * point[1] / most, 2)} % of the roof there"
        return roofline(roof, {"this case": [point]}, self.entry, says)


def _host(facts: Facts) -> str:
    """Say what a launch takes of the host, and what it takes in a CUDA graph; empty where nothing was measured."""
    figures = [
        (facts.host_seconds, "µs a launch"),
        (facts.host_iqr, "µs between its quartiles"),
        (facts.graph_of_one_seconds, "µs as the only one of a CUDA graph"),
        (facts.graph_seconds, "µs each in a graph of a hundred"),
    ]
    return ", ".join(f"{microseconds(seconds)} {words}" for seconds, words in figures if seconds)


def _resources(facts: Facts) -> dict[str, str]:
    shared = facts.shared_bytes + (facts.dynamic_shared_bytes or 0)
    clocks = [mhz for mhz in facts.sm_clock_mhz if mhz]
    return {
        "Registers": f"{facts.registers}" if facts.registers else "",
        "Shared memory": f"{shared:,} B" if shared else "",
        "Local memory": f"{facts.local_bytes:,} B (spills, or arrays of a thread)" if facts.local_bytes else "",
        "Occupancy": f"{100 * facts.occupancy:.0f} % at most" if facts.occupancy else "",
        "Grid": "×".join(map(str, facts.grid or ())),
        "L2 cache": facts.cache if facts.cache != "host" else "",
        "SM clock": f"{' and '.join(f'{mhz:,}' for mhz in dict.fromkeys(clocks))} MHz" if clocks else "",
        "Disturbed": disturbance(facts),
        "Fallback": facts.fallback,
        "Library": facts.library or "",
        "Machine code": facts.image_hash or "",
        "Size of code": f"{facts.code_bytes:,} B" if facts.code_bytes else "",
        "Compile time": "" if facts.compile_seconds is None else f"{facts.compile_seconds:.2f} s of processor time",
    }
