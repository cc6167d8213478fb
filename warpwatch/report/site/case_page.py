"""Makes the page of a case: verdict and figures, samples, history, resources, roofline, the command that repeats it."""

from __future__ import annotations

import math
import os
import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain, pairwise
from statistics import median
from typing import Any

import numpy as np

from warpwatch.compare.doubts import SAME_CODE, disturbance, same_code
from warpwatch.compare.energy import millijoules
from warpwatch.compare.history import Step
from warpwatch.report.site.figures import Chart, Roof, Spec, micro, percent, roofline, rounded
from warpwatch.report.site.material import Entry, Material
from warpwatch.runs.record import Facts
from warpwatch.verdict.rule import Decision

MOST_BINS = 24


class CasePages:
    """Makes the pages of all cases of one site."""

    def __init__(self, material: Material, entries: Sequence[Entry]) -> None:
        self.material, self.entries = material, entries
        self.steps: dict[str, list[Step]] = defaultdict(list)
        for step in material.steps:
            self.steps[step.case].append(step)
        self.numbers = {run.path: i for i, run in enumerate(material.nights)}

    def page(self, entry: Entry) -> dict[str, Any]:
        """Return what the page of one case shows.

        ``says``: sentences on its verdict. ``facts``: what was recorded, by name. ``steps``: lasting changes.
        ``commands``: what each does, and the command.
        """
        steps = sorted(self.steps[entry.id], key=lambda step: self.numbers[step.after.path])
        drawn = [self._distribution(entry), _change(entry), self._history(entry, steps), self._roofline(entry)]
        return {
            "entry": entry,
            "says": self._says(entry),
            "facts": self._facts(entry),
            "charts": [chart for chart in drawn if chart],
            "steps": steps,
            "commands": self._commands(entry),
        }

    @cached_property
    def roofs(self) -> Mapping[str, Roof]:
        """The roof of each element type: the memory's peak, and the highest rate that any case of it reached."""
        roofs: dict[str, Roof] = {}
        peak = self.material.today.gpu.peak_bytes_per_second
        for entry in self.entries:
            if peak and entry.operations and entry.bytes and entry.own_seconds and not entry.on_host:
                rate = entry.operations / entry.own_seconds
                if entry.dtype not in roofs or rate > roofs[entry.dtype].rate:
                    roofs[entry.dtype] = Roof(bytes_per_second=peak, rate=rate, of=entry.id)
        return roofs

    def _past(self, entry: Entry) -> list[Sequence[float]]:
        """Samples of the case in the runs that it was compared with, or of the other side in a pair."""
        if entry.timed and entry.timed.facts.pairs:
            return list(entry.timed.facts.pairs.old)
        return [run.cases[entry.id].samples for run in self.material.verdicts.past if entry.id in run.cases]

    def _says(self, entry: Entry) -> list[str]:
        decision, today = entry.decision, self.material.today
        if entry.verdict == "failed":
            return ["It failed in this run, before it could be timed; the log of the run says how."]
        if entry.verdict == "missing":
            return ["The baseline has it and this run, which is of every case, has not: it was renamed or taken away."]
        if entry.on_host:
            return ["It runs on the host, where it is the measure of gains. No GPU runs it, so it has no verdict."]
        if decision is None:
            return ["There was nothing to compare it with."]
        sentences = [_sentence(decision.reason)] if decision.reason else []
        if decision.explanation:
            sentences.append(_sentence(decision.explanation))
        if decision.suspect and decision.verdict == "unsure":
            sentences.append("Probably slower: of the cases that are listed so, at most one in twenty is not.")
        if entry.timed and not today.against and same_code(entry.timed.facts, self._past_facts(entry)):
            sentences += [] if SAME_CODE in decision.reason else ["Its work is the baseline's."]
        return sentences

    def _past_facts(self, entry: Entry) -> list[Facts]:
        return [run.cases[entry.id].facts for run in self.material.verdicts.past if entry.id in run.cases]

    def _facts(self, entry: Entry) -> dict[str, str]:
        if not entry.timed or not entry.seconds or not entry.own_seconds:
            return {}
        facts, peak = entry.timed.facts, self.material.today.gpu.peak_bytes_per_second
        shown = {"Median": f"{micro(entry.seconds)} µs of {len(entry.timed.samples)} samples"}
        if facts.overhead:
            shown["Kernel's own"] = f"{micro(entry.own_seconds)} µs; events with nothing between them read the rest"
        if entry.rate:
            shown["Rate"] = f"{entry.rate:,.0f} {entry.unit}"
        if entry.bytes and peak and not entry.on_host:
            moved = entry.bytes / entry.own_seconds
            shown["Memory"] = f"{moved / 1e9:,.0f} GB/s at least, {rounded(100 * moved / peak, 2)} % of its peak"
        if entry.share is not None and entry.case:
            shown["Share"] = f"{entry.share:.2f} of {entry.case.reference_case}"
        if facts.joules:
            shown["Energy"] = f"{millijoules(facts.joules)} mJ a launch, one after the other"
        if facts.again:
            shown["Measured again"] = f"in {len(facts.again)} more processes"
        return shown | _resources(facts)

    def _distribution(self, entry: Entry) -> Chart | None:
        if not entry.timed:
            return None
        past = self._past(entry)
        sides = entry.timed.facts.pairs
        new = list(chain(*(sides.new if sides else (entry.timed.samples, *entry.timed.facts.again))))
        spec = _samples(list(chain(*past)), new)
        other = f" new, {sum(map(len, past)):,} old of {len(past)} processes" if past else ""
        return Chart(title="Samples", says=f"{len(new):,}{other}; the outermost 1 % is left out", spec=spec)

    def _history(self, entry: Entry, steps: Sequence[Step]) -> Chart | None:
        nights = self.material.nights
        medians = [run.cases[entry.id].samples[0] if entry.id in run.cases else None for run in nights]
        known = [value for value in medians if value is not None]
        if len(known) < 2:
            return None
        starts = [0, *(self.numbers[step.after.path] for step in steps), len(nights)]
        levels = []
        for first, end in pairwise(starts):
            logs = [math.log(value) for value in medians[first:end] if value is not None]
            levels.append((first, end - 1, math.exp(median(logs))))
        changes = f"{len(steps) or 'no'} lasting change{'s' if len(steps) != 1 else ''}"
        says = f"Medians of {len(known)} nights, {micro(min(known))} to {micro(max(known))} µs, {changes}"
        return Chart(title="History", says=says, spec=_levels(medians, levels))

    def _roofline(self, entry: Entry) -> Chart | None:
        roof = self.roofs.get(entry.dtype)
        if not roof or not (entry.operations and entry.bytes and entry.own_seconds) or entry.on_host:
            return None
        x, y = entry.operations / entry.bytes, entry.operations / entry.own_seconds
        most = min(roof.rate, x * roof.bytes_per_second)
        says = f"{rounded(x, 3)} operations a byte, {rounded(100 * y / most, 2)} % of the roof there"
        return Chart(
            title="Roofline",
            says=says,
            spec=roofline(roof, {"this case": [(x, y)]}, entry.unit),
            note=f"Flat part: the highest rate of {entry.dtype} in this run, of {roof.of}.",
        )

    def _commands(self, entry: Entry) -> dict[str, str]:
        project, name = self.material.project, shlex.quote(entry.id)
        bench = shlex.quote(os.path.relpath(project.baselines.parent, project.root))
        how = f"--against {self.material.today.against[:12]}" if self.material.today.against else "--benchmark-compare"
        return {
            "Measure and compare": f"pytest {bench} {how} -k {name}",
            "Run once": f"python -m warpwatch run {name}",
        }


def _change(entry: Entry) -> Chart | None:
    decision = entry.decision
    if decision is None or entry.ratio is None or math.isnan(decision.floor):
        return None
    says = f"{percent(decision.ratio)} with its 95 % interval, without what a process does to every case; noise floor"
    return Chart(title="Old against new", says=says, spec=_interval(decision))


def _resources(facts: Facts) -> dict[str, str]:
    """Resources of a launch by name, as far as they were recorded."""
    shared = facts.shared_bytes + (facts.dynamic_shared_bytes or 0)
    clocks = [mhz for mhz in facts.sm_clock_mhz if mhz]
    shown = {
        "Registers": f"{facts.registers}" if facts.registers else "",
        "Shared memory": f"{shared:,} B" if shared else "",
        "Local memory": f"{facts.local_bytes:,} B (spills, or arrays of a thread)" if facts.local_bytes else "",
        "Occupancy": f"{100 * facts.occupancy:.0f} % at most" if facts.occupancy else "",
        "Grid": "×".join(map(str, facts.grid)) if facts.grid else "",
        "L2 cache": facts.cache if facts.cache != "host" else "",
        "SM clock": f"{' and '.join(f'{mhz:,}' for mhz in dict.fromkeys(clocks))} MHz" if clocks else "",
        "Disturbed": disturbance(facts),
        "Fallback": facts.fallback,
        "Library": facts.library or "",
        "Machine code": facts.image_hash or "",
    }
    return {name: text for name, text in shown.items() if text}


def _sentence(text: str) -> str:
    """Return a sentence of a text that begins with a small letter."""
    return f"{text[:1].upper()}{text[1:]}."


def _samples(old: Sequence[float], new: Sequence[float]) -> Spec:
    """Histograms of samples in seconds, of both sides on the same bins; the farthest 1 % at each end is left out."""
    both = 1e6 * np.array([*old, *new])
    low, high = np.percentile(both, [1, 99])
    inside = both[(both >= low) & (both <= high)]
    edges = np.histogram_bin_edges(inside, bins="auto")
    if len(edges) - 1 > MOST_BINS:
        edges = np.linspace(low, high, MOST_BINS + 1)
    if len(edges) < 3:
        edges = np.linspace(low - 0.02 * low, high + 0.02 * high, 6)
    step = float(edges[1] - edges[0])
    shares = [
        [rounded(100 * count / len(side), 2) for count in np.histogram(1e6 * np.array(side), bins=edges)[0]]
        if len(side)
        else []
        for side in (old, new)
    ]
    first = rounded(float(edges[0]) + step / 2, 7)
    return {"k": "samples", "e": [first, rounded(step, 5)], "v": shares}


def _interval(decision: Decision) -> Spec:
    """The change in per cent with its 95 % interval, and the noise floor."""
    low, middle, high = (rounded(100 * (value - 1)) for value in (decision.low, decision.ratio, decision.high))
    floor = 100 * decision.floor
    under = rounded(100 * (1 / (1 + decision.floor) - 1))
    return {"k": "change", "v": [low, middle, high, under, rounded(floor)]}


def _levels(medians: Sequence[float | None], levels: Sequence[tuple[int, int, float]]) -> Spec:
    """Medians in seconds, night by night, and the levels between change points: first night, last night, seconds.

    Medians are written as whole numbers of a unit, above the least of them.
    """
    known = [1e6 * value for value in medians if value is not None]
    unit = 10.0 ** (math.floor(math.log10(min(known))) - 3)  # four digits
    least = round(min(known) / unit)
    values = [None if value is None else round(1e6 * value / unit) - least for value in medians]
    lines = [[first, last, rounded(1e6 * seconds)] for first, last, seconds in levels] if len(levels) > 1 else []
    return {"k": "history", "u": [rounded(unit), least], "v": values, "levels": lines}
