"""Prints which cases recorded runs were most often unsure about, and why: ``python -m tools.unsure RUN... [--most N]``.

A RUN is a saved run, or a folder of them, all of one GPU model. Of each case the table says how often it was unsure,
how far the middle half of a process's samples lies apart (median over processes), and the standard deviation of medians
between processes of a GPU and between GPUs, after what a process does to all cases is taken out. ``× offset``: by how
many microseconds its time is longer on a GPU where every kernel takes one longer. ``throttled``: in how many processes.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from warpwatch.__main__ import run_command
from warpwatch.compare.reference import on_gpu
from warpwatch.runs.files import chosen_files
from warpwatch.runs.record import BadRun, CaseRecord, RunRecord, by_gpu, read_run
from warpwatch.verdict.process_effects import ProcessEffect, mean_of, process_effect
from warpwatch.verdict.rule import Floats, Verdict


@dataclass(frozen=True)
class Process:
    """A process of a run on one GPU: samples of its cases, and what it does to all of them."""

    gpu_uuid: str
    cases: Mapping[str, Floats]
    throttled: frozenset[str]
    effect: ProcessEffect

    def alone(self, name: str) -> float:
        """Logarithm of a case's median without what this process does to all."""
        return math.log(self.effect.remove(float(np.median(self.cases[name]))))


def processes_of(runs: Sequence[RunRecord]) -> list[Process]:
    """Return the processes of runs, those in which cases were measured again too. Runs of pairs are left out."""
    parts = [part for run in runs if not run.against for part in by_gpu(run)]
    reference = mean_of([{name: median(timed.samples) for name, timed in on_gpu(part).items()} for part in parts])
    processes = []
    for part in parts:
        timed = on_gpu(part)
        for number in range(1 + max((len(each.facts.again) for each in timed.values()), default=0)):
            cases = dict(_of_process(timed, number))
            effect = process_effect(reference, {name: float(np.median(samples)) for name, samples in cases.items()})
            throttled = frozenset(name for name in cases if any(timed[name].facts.throttle))
            processes.append(Process(part.gpu_uuid, cases, throttled, effect))
    return processes


def _of_process(timed: Mapping[str, CaseRecord], number: int) -> Iterator[tuple[str, Floats]]:
    for name, each in timed.items():
        taken = (each.samples, *each.facts.again)
        if number < len(taken):
            yield name, np.array(taken[number])


def unsure_in(runs: Sequence[RunRecord]) -> Counter[str]:
    """Count how often each case was unsure. Runs of version 0 recorded the words of their verdicts."""
    names = Counter[str]()
    for run in runs:
        words = {name: timed.facts.verdict for name, timed in run.cases.items()}
        words |= {name: decision.verdict for name, decision in run.decisions.items()}
        names.update(name for name, word in words.items() if word == Verdict.UNSURE)
    return names


def figures(name: str, processes: Sequence[Process]) -> list[str]:
    """Return the cells of a case: its median, its spreads, how it moves with the offset, and how often throttled."""
    having = [process for process in processes if name in process.cases]
    logs, offsets = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    raw = defaultdict[str, list[float]](list)
    for process in having:
        logs[process.gpu_uuid].append(process.alone(name))
        offsets[process.gpu_uuid].append(process.effect.offset)
        raw[process.gpu_uuid].append(float(np.median(process.cases[name])))
    inside = [np.subtract(*np.percentile(each.cases[name], [75, 25])) / np.median(each.cases[name]) for each in having]
    within = np.concatenate([np.array(each) - np.mean(each) for each in logs.values()])
    degrees = max(1, len(within) - len(logs))
    x, y = (np.array([np.mean(each) for each in by.values()]) for by in (offsets, raw))
    slope = float(np.polyfit(x, y, 1)[0]) if len(x) > 1 and np.ptp(x) > 0 else math.nan
    return [
        f"{1e6 * float(np.median(y)):.1f} µs",
        f"{100 * float(np.median(inside)):.1f} %",
        f"{100 * math.sqrt(float(within @ within) / degrees):.2f} %",
        f"{100 * float(np.std([np.mean(each) for each in logs.values()], ddof=min(1, len(logs) - 1))):.2f} %",
        f"{slope:.1f}",
        f"{sum(name in process.throttled for process in having)} of {len(having)}",
    ]


def table(runs: Sequence[RunRecord], most: int) -> str:
    """Table in Markdown of the cases that were most often unsure. Raises BadRun for runs of several models."""
    if len(slugs := sorted({run.slug for run in runs})) > 1:
        raise BadRun(f"these runs are of several models ({', '.join(slugs)}): give those of one")
    processes, counts = processes_of(runs), unsure_in(runs)
    names = {name for process in processes for name in process.cases}
    listed = [(name, count) for name, count in counts.most_common() if name in names][:most]
    head = ["case", "unsure", "median", "in a process", "processes", "GPUs", "× offset", "throttled"]
    rows = [head, ["---"] * len(head), *([name, str(count), *figures(name, processes)] for name, count in listed)]
    gpus = len({process.gpu_uuid for process in processes})
    share = sum(count for _, count in listed) / max(1, counts.total())
    about = f"{counts.total()} unsure verdicts, {100 * share:.0f} % of them listed; {len(processes)} processes"
    return "\n".join([*(f"| {' | '.join(row)} |" for row in rows), "", f"{about} of {gpus} GPUs."])


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.unsure", description="Cases most often unsure, and why.")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a saved run, or a folder of them")
    parser.add_argument("--most", type=int, default=21, help="cases that are listed (21)")
    return parser


def main() -> int:
    """Print the table; returns the exit status: 0, or 2 for runs that have none."""
    options = make_parser().parse_args()
    try:
        print(table([read_run(path) for path in chosen_files(options.runs)], options.most))
    except (BadRun, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    run_command(main)
