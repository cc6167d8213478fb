"""Writes a run's summary of verdicts, and lists of times and their changes."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from warpwatch.compare.contracts import sentence as clause_sentence
from warpwatch.compare.doubts import disturbance
from warpwatch.report.numbers import micro
from warpwatch.runs.record import CaseRecord, RunRecord
from warpwatch.timing.timer import kernel_seconds
from warpwatch.verdict.contracts import Clause, Standing
from warpwatch.verdict.rule import Decision, Verdict
from warpwatch.verdict.totals import Total

MORE = "; a run with -v prints all"  # what a list ends with that is cut off, where no file has the rest


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
    lists = {Verdict.MISSING: [[f"{name}: missing: the other side has it, this run has not"] for name in missing]}
    for verdict in (Verdict.SLOWER, Verdict.UNSURE, Verdict.FASTER):
        chosen = [(name, decision) for name, decision in decisions.items() if decision.verdict == verdict]
        chosen.sort(key=lambda pair: pair[1].ratio, reverse=verdict != Verdict.FASTER)
        lists[verdict] = [
            [f"{name}: {sentence(each)}", *([f"    {each.explanation}"] if each.explanation else [])]
            for name, each in chosen
        ]
    lists[Verdict.NEW] = [[f"{name}: new"] for name, decision in decisions.items() if decision.verdict == Verdict.NEW]
    lines = [total] if total else []
    for verdict, cases in lists.items():
        lines += chain(*cases[:most])
        if most is not None and cases[most:]:
            lines.append(f"... and {len(cases[most:])} more {verdict}{rest}")
    reasons = Counter(decision.reason for decision in decisions.values() if decision.verdict == Verdict.INCOMPARABLE)
    return [*lines, *(f"{count} incomparable: {reason}" for reason, count in sorted(reasons.items()))]


def contract_lines(contracts: Mapping[str, Sequence[Clause]], most: int | None) -> list[str]:
    """Count the limits of contracts by how they are kept, then say more of the worst; at most ``most`` lines each."""
    every = [(name, clause) for name, clauses in contracts.items() for clause in clauses]
    counts = Counter(clause.standing for _, clause in every)
    lines = [f"contracts: {', '.join(f'{counts[each]} {each}' for each in Standing if counts[each])}"] * bool(every)
    for standing in (Standing.BROKEN, Standing.UNSURE):
        own = [(name, clause) for name, clause in every if clause.standing == standing]
        lines += [f"{name}: {standing}: {clause_sentence(clause)}" for name, clause in own[:most]]
        lines += [f"... and {len(own) - most} more {standing}{MORE}"] if most is not None and own[most:] else []
    reasons = Counter(clause.reason for _, clause in every if clause.standing == Standing.UNKNOWN)
    return [
        *lines,
        *(f"{count} limit{'s' * (count != 1)} not checked: {reason}" for reason, count in reasons.most_common()),
    ]


def total_lines(totals: Mapping[str, Total], most: int | None = None) -> list[str]:
    """Say what the weighted total of each build is, the slowest first; at most ``most`` lines."""
    worst_first = sorted(totals.items(), key=lambda named: -(named[1].ratio or math.inf))
    lines = [f"total of {name}: {_total(each)}" for name, each in worst_first]
    more = [f"... and {len(lines[most:])} more totals{MORE}"] * bool(most is not None and lines[most:])
    return [*lines[:most], *more]


def _total(each: Total) -> str:
    if each.before is None or each.after is None:
        return f"unknown, because {each.reason}"
    name, share = max(each.shares.items(), key=lambda named: named[1])
    times = f"{micro(each.before)} -> {micro(each.after)} µs, {_change(each.ratio, each.low, each.high)}"
    mean = f"geometric mean {_change(each.mean, each.mean_low, each.mean_high)}"
    largest = f"{100 * share:.1f} % of the time is {name.split('-')[3]}"
    return "; ".join(filter(None, (f"{times}, {mean}", largest, each.reason)))


def _change(*figures: float | None) -> str:
    change, low, high = (f"{100 * (value - 1):+.1f}" for value in figures if value is not None)
    return f"{change} % (95 %: {low} to {high})"


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
    names = dict.fromkeys(name for run in runs for name in run.cases)
    figures = {name: [value(run.cases[name]) for run in runs if name in run.cases] for name in names}
    known = {name: [figure for figure in own if figure is not None] for name, own in figures.items()}
    return {name: statistics.median(own) for name, own in known.items() if own}


def medians(runs: Sequence[RunRecord]) -> dict[str, float]:
    """Median over the runs of each case's median, in seconds."""
    return _over_runs(runs, lambda timed: statistics.median(timed.samples))


def kernel_times(runs: Sequence[RunRecord]) -> dict[str, float]:
    """Median over the runs of each case's median, in seconds, without what a reading holds beside the kernel."""
    return _over_runs(runs, lambda timed: kernel_seconds(statistics.median(timed.samples), timed.facts.overhead))


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
        rows.append((not doubts, 100 * (max(times) / min(times) - 1), name, middle, why))
    rows.sort(key=lambda row: (row[0], -row[1], *row[2:]))
    widths, unsure = [width for _, width, *_ in rows] or [0.0], sum(not certain for certain, *_ in rows)
    head = f"{len(rows)} cases in {len(runs)} processes, {unsure} of them unsure; spread between processes: "
    head += f"median {statistics.median(widths):.2f} %, widest {max(widths):.2f} %"
    return [
        head,
        *(f"{1e6 * time:12,.2f} µs, spread {width:6.2f} %  {name}{why}" for _, width, name, time, why in rows),
    ]
