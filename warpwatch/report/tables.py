"""Writes a run's summary of verdicts, and the tables of times by shape."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import timed_cases
from warpwatch.compare.doubts import disturbance
from warpwatch.compare.energy import millijoules
from warpwatch.compare.saved_self_check import path_of, read, table
from warpwatch.runs.record import CaseRecord, RunRecord
from warpwatch.timing.timer import kernel_seconds
from warpwatch.verdict.rule import Decision, Verdict

MORE = "; -v prints all"  # what a list ends with that is cut off, where no file has the rest


def figures_of(decision: Decision) -> str:
    """Say what a comparison measured: ``median 45.20 -> 47.90 µs, +6.0 % (95 %: +5.1 to +6.9), floor 1.2 %, ...``."""
    digits = 2 if decision.before < 100e-6 else 1
    times = f"median {decision.before * 1e6:,.{digits}f} -> {decision.after * 1e6:,.{digits}f} µs"
    count = f"{decision.processes} process{'es' if decision.processes > 1 else ''}"
    return f"{times}, {decision.change}, floor {100 * decision.floor:.1f} %, {count}"


def line(decision: Decision) -> str:
    """Say what a comparison concluded and measured: ``slower: median 45.20 -> 47.90 µs, +6.0 % (...), ...``."""
    verdict = str(decision.verdict)
    return verdict if math.isnan(decision.ratio) else f"{verdict}: {figures_of(decision)}"


def summary(
    decisions: Mapping[str, Decision], missing: Sequence[str], most: int | None = None, rest: str = MORE
) -> list[str]:
    """Counts by verdict, then a line for each case that is not the same, worst first; at most ``most`` a verdict.

    ``rest``: what a list ends with that is cut off.
    """
    counts = Counter(decision.verdict for decision in decisions.values())
    counts[Verdict.MISSING] = len(missing)
    total = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])
    lines = [total] if total else []
    lines += _first(
        [f"{name}: missing: the other side has it, this run has not" for name in missing], most, f"missing{rest}"
    )
    for verdict in (Verdict.SLOWER, Verdict.UNSURE, Verdict.FASTER):
        chosen = [(name, decision) for name, decision in decisions.items() if decision.verdict == verdict]
        chosen.sort(key=lambda pair: pair[1].ratio, reverse=verdict != Verdict.FASTER)
        for name, decision in chosen[:most]:
            lines += [f"{name}: {sentence(decision)}", *[f"    {decision.explanation}"] * bool(decision.explanation)]
        if most is not None and len(chosen) > most:
            lines.append(f"... and {len(chosen) - most} more {verdict}{rest}")
    new = [f"{name}: new" for name, decision in decisions.items() if decision.verdict == Verdict.NEW]
    lines += _first(new, most, f"new{rest}")
    reasons = Counter(decision.reason for decision in decisions.values() if decision.verdict == Verdict.INCOMPARABLE)
    lines += [f"{count} incomparable: {reason}" for reason, count in sorted(reasons.items())]
    return lines


def _first(lines: Sequence[str], most: int | None, what: str) -> list[str]:
    """Return the first lines and how many more there are."""
    rest = len(lines) - len(lines[:most])
    return [*lines[:most], *[f"... and {rest} more {what}"] * bool(rest)]


def sentence(decision: Decision, *, verdict: bool = True) -> str:
    """Say what a comparison concluded, measured and knows of the reasons. ``verdict``: begin with that word."""
    compared = not math.isnan(decision.ratio)
    parts = [figures_of(decision) if compared and not verdict else line(decision)]
    parts += [decision.reason] * bool(decision.reason)
    if decision.suspect and decision.verdict == Verdict.UNSURE:
        parts.append("probably slower (of those listed so, at most one in twenty is not)")
    return "; ".join(parts)


def _over_runs(runs: Sequence[RunRecord], value: Callable[[CaseRecord], float | None]) -> dict[str, float]:
    """Median over the runs of a figure of each case, by its id; cases without it are left out."""
    values: dict[str, list[float]] = {}
    for run in runs:
        for name, timed in run.cases.items():
            if (figure := value(timed)) is not None:
                values.setdefault(name, []).append(figure)
    return {name: statistics.median(figures) for name, figures in values.items()}


def medians(runs: Sequence[RunRecord]) -> dict[str, float]:
    """Median over the runs of each case's median, in seconds."""
    return _over_runs(runs, lambda timed: statistics.median(timed.samples))


def kernel_times(runs: Sequence[RunRecord]) -> dict[str, float]:
    """Median over the runs of each case's median, in seconds, without what a reading holds beside the kernel."""
    return _over_runs(runs, lambda timed: kernel_seconds(statistics.median(timed.samples), timed.facts.overhead))


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Figures of cases by id: median seconds as they were read, those of the kernel alone, and joules of a launch."""

    times: Mapping[str, float]
    own: Mapping[str, float]
    joules: Mapping[str, float]


def figures(runs: Sequence[RunRecord]) -> Figures:
    """Return the medians over runs."""
    joules = _over_runs(runs, lambda timed: timed.facts.joules)
    return Figures(times=medians(runs), own=kernel_times(runs), joules=joules)


def changes(old: Sequence[RunRecord], new: Sequence[RunRecord]) -> str:
    """List what a new baseline changes: cases that come and go, and the ten that change most."""
    before, after = medians(old), medians(new)
    lines = [f"cases: {len(after)}, {len(after.keys() - before)} of them new, {len(before.keys() - after)} gone"]
    moved = sorted(
        ((after[name] / before[name] - 1, name) for name in before.keys() & after), key=lambda pair: -abs(pair[0])
    )
    if moved:
        lines.append(f"median change: {100 * statistics.median(share for share, _ in moved):+.2f} %; the largest:")
        lines += [
            f"  {100 * share:+7.2f} %  {before[name] * 1e6:,.2f} -> {after[name] * 1e6:,.2f} µs  {name}"
            for share, name in moved[:10]
        ]
    return "\n".join(lines)


def spreads(runs: Sequence[RunRecord]) -> list[str]:
    """List median and spread between processes of each case, those that are unsure first, then the widest spread.

    The spread is that of the processes' medians: the highest over the lowest. The first line sums up.
    """
    rows = []
    for name, middle in medians(runs).items():
        timed = [run.cases[name] for run in runs if name in run.cases]
        times = [statistics.median(each.samples) for each in timed]
        doubts = list(filter(None, (disturbance(each.facts) for each in timed)))
        why = f"; unsure: {doubts[-1]}, in {len(doubts)} of {len(timed)} runs" if doubts else ""
        rows.append((not doubts, -(max(times) / min(times) - 1), name, middle, why))
    rows.sort()
    widths, unsure = [-row[1] for row in rows] or [0.0], sum(not row[0] for row in rows)
    head = f"{len(rows)} cases in {len(runs)} processes, {unsure} of them unsure; spread between processes: "
    head += f"median {100 * statistics.median(widths):.2f} %, widest {100 * max(widths):.2f} %"
    shown = (f"{1e6 * row[3]:12,.2f} µs, spread {-100 * row[1]:6.2f} %  {row[2]}{row[4]}" for row in rows)
    return [head, *shown]


def tables(runs: Sequence[RunRecord], project: Project) -> str:
    """Markdown tables by family and element type: a row for each variant and block, a column for each shape."""
    known = figures(runs)
    gpu = runs[0].gpu
    parts = [f"GPU: {gpu.name or 'none'}, L2 {gpu.cache or '-'}, medians of {len(runs)} runs"]
    if gpu.peak_bytes_per_second:
        parts[0] += f"; its memory moves at most {gpu.peak_bytes_per_second / 1e9:,.0f} GB/s, by clock and width"
    if gpu.note:
        parts[0] += f"; {gpu.note}"
    check = path_of(runs[0].slug, project.baselines)
    if check.exists():
        title = "A/A test and injected slowdowns on this GPU (`pytest bench --self-check`):"
        parts.append("\n".join([title, *table(read(check))]))
    for family in project.families:
        timed = timed_cases([family])
        for dtype in dict.fromkeys(case.dtype for case in timed):
            cases = [case for case in timed if case.dtype == dtype and case.id in known.times]
            if cases:
                parts.append(_table(family, dtype, cases, known))
    return "\n\n".join(parts)


def _table(family: Family, dtype: str, cases: Sequence[Case], known: Figures) -> str:
    shapes = list(dict.fromkeys(case.shape_name for case in cases))
    serial = {case.shape_name: known.times[case.id] for case in cases if case.variant.on_host}
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for case in cases:
        row = rows.setdefault((case.variant.name, case.build.block_name), {})
        row[case.shape_name] = _cell(case, known, serial.get(case.shape_name))
    lines = [
        f"### {family.name}, {dtype}: time in µs, rate, gain over serial",
        "",
        "| variant | block | " + " | ".join(shapes) + " |",
        "|---|---|" + "---:|" * len(shapes),
    ]
    lines += [
        f"| {variant} | {block} | " + " | ".join(row.get(shape, "–") for shape in shapes) + " |"
        for (variant, block), row in rows.items()
    ]
    return "\n".join(lines)


def _cell(case: Case, known: Figures, serial: float | None) -> str:
    work, seconds, joules = case.work, known.times[case.id], known.joules.get(case.id)
    arithmetic = "Gop/s" if case.dtype == "int32" else "GFLOP/s"
    amount, unit = (work.operations, arithmetic) if work.operations else (work.bytes, "GB/s")
    parts = [f"{seconds * 1e6:,.2f}"]
    if work.bytes:
        parts.append(f"{amount / known.own[case.id] / 1e9:,.0f} {unit}")
    if serial and not case.variant.on_host:
        parts.append(f"{serial / seconds:,.0f}×")
    if joules:
        parts.append(f"{millijoules(joules)} mJ")
    return ", ".join(parts)
