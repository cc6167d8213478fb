"""Learns from saved runs how unchanged kernels vary, so that ``score`` can replay whole runs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from statistics import median

import numpy as np

from tools.other_rules import Samples
from warpwatch.runs.identity import difference
from warpwatch.runs.record import BadRun, RunRecord, by_gpu
from warpwatch.timing.pair_samples import log_ratio
from warpwatch.verdict.process_effects import aligned, mean_of, process_effect

Process = Mapping[str, Samples]
LEAST_SAMPLES = 20  # of the most in a run: `warpwatch thin` leaves nine


@dataclass(frozen=True, kw_only=True)
class Recording:
    """Variation of unchanged kernels, by case: the mean's logarithm, and each process's deviation and samples.

    ``offsets``: the seconds that each process added to every case. ``seconds``: how long a whole run took. ``gpus``:
    the number of GPUs that the recorded runs are of.
    """

    logs: Mapping[str, float]
    deviations: Mapping[str, Sequence[float]]
    shapes: Mapping[str, Sequence[Samples]]
    offsets: Sequence[float]
    seconds: float
    gpus: int

    @property
    def runs(self) -> int:
        """Number of the recorded runs."""
        return len(self.offsets)

    def process(self, rng: np.random.Generator) -> dict[str, Samples]:
        """Draw a process like the recorded ones: samples by case, in seconds."""
        offset = float(rng.choice(self.offsets)) * rng.choice([-1, 1])
        process = {}
        for name, log in self.logs.items():
            which = int(rng.integers(len(self.shapes[name])))
            deviation = self.deviations[name][which] * rng.choice([-1, 1])
            process[name] = math.exp(log + deviation) * self.shapes[name][which] + offset
        return process


def record(runs: Sequence[RunRecord]) -> Recording:
    """Make a recording of saved runs: the cases that all have as the same work, GPU by GPU.

    Runs of several GPUs are left out, and those that are thinned, whose samples are too few for other tools' rules.
    Raises BadRun where no GPU has two others: one process does not show a spread.
    """
    runs, names = _of_the_same_work(runs)
    deviations: dict[str, list[float]] = defaultdict(list)
    shapes: dict[str, list[Samples]] = defaultdict(list)
    offsets: list[float] = []
    for gpu_uuid in dict.fromkeys(run.gpu_uuid for run in runs):
        own = [run for run in runs if run.gpu_uuid == gpu_uuid]
        medians = [{name: median(run.cases[name].samples) for name in names} for run in own]
        centre = mean_of(medians)
        offsets += [process_effect(centre, times).offset for times in medians]
        grown = math.sqrt(len(own) / (len(own) - 1))  # deviations from an estimated mean are too small
        for run, times in zip(own, aligned(medians), strict=True):
            for name in names:
                deviations[name].append(grown * math.log(times[name] / centre[name]))
                samples = np.array(run.cases[name].samples)
                shapes[name].append(samples / np.median(samples))
    logs = {name: math.log(median(runs[0].cases[name].samples)) for name in names}
    starts = sorted(_start(run) for run in runs if run.gpu_uuid == runs[0].gpu_uuid)
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(starts)]
    return Recording(
        logs=logs,
        deviations=deviations,
        shapes=shapes,
        offsets=offsets,
        seconds=min(gaps),  # in longer gaps something else ran
        gpus=len({run.gpu_uuid for run in runs}),
    )


def _of_the_same_work(runs: Sequence[RunRecord]) -> tuple[list[RunRecord], list[str]]:
    """Return the whole runs that have another one of their GPU, and the cases that all of them have. Raises BadRun."""
    whole = [run for run in runs if len(by_gpu(run)) == 1 and not _is_thinned(run)]
    usable = [run for run in whole if sum(other.gpu_uuid == run.gpu_uuid for other in whole) > 1]
    if not usable:
        raise BadRun(
            "no two of these runs are whole runs of the same GPU alone, and a single one does not show the spread "
            "between processes: give at least two runs of a GPU that are not thinned"
        )
    if len(slugs := sorted({run.slug for run in usable})) > 1:
        raise BadRun(f"these runs are of several models ({', '.join(slugs)}): give those of one")
    names = [name for name in usable[0].cases if all(same_work(name, run, usable[0]) for run in usable)]
    if not names:
        raise BadRun(
            "these runs have no case in common that is known to be the same work in all of them: `python -m warpwatch "
            "baseline migrate` adds what earlier runs do not record of it"
        )
    return usable, names


def _is_thinned(run: RunRecord) -> bool:
    return max((len(timed.samples) for timed in run.cases.values()), default=0) < LEAST_SAMPLES


def _start(run: RunRecord) -> datetime:
    if run.when is None:
        raise BadRun(f"{run.path}: does not say when it was measured (datetime)")
    return run.when


@dataclass(frozen=True)
class PairRecording:
    """Variation of unchanged kernels side by side, by case: its median, and of each process the log of new over old.

    ``samples``: those of both sides in each process, in turns.
    """

    medians: Mapping[str, float]
    logs: Mapping[str, Sequence[float]]
    samples: Mapping[str, Sequence[tuple[Samples, Samples]]]


def record_pairs(runs: Sequence[RunRecord]) -> PairRecording:
    """Make a recording of runs of --self-check."""
    samples: dict[str, list[tuple[Samples, Samples]]] = defaultdict(list)
    medians = {}
    for run in runs:
        for name, timed in run.cases.items():
            if sides := timed.facts.pairs:
                samples[name] += [(np.array(old), np.array(new)) for old, new in zip(sides.old, sides.new, strict=True)]
            medians[name] = median(timed.samples)
    logs = {name: [log_ratio(list(old), list(new)) for old, new in taken] for name, taken in samples.items() if taken}
    return PairRecording(medians, logs, samples)


def same_work(name: str, run: RunRecord, other: RunRecord) -> bool:
    """True where a GPU case is known to have done the same work in both runs."""
    if name not in run.cases or run.cases[name].facts.cache == "host":
        return False
    return not difference(other.cases[name].facts.identity, run.cases[name].facts.identity)
