"""Plays whole runs of other nights, other GPUs and other kernels through the rule: false slower cases, and found ones.

``python -m tools.nights RECORDINGS... [--trials N] [--seed S]`` prints two tables. RECORDINGS are saved runs, or
folders of them: two of one GPU at least, and runs of --self-check or --against, which hold pairs.

A process is drawn as replay.py draws it, a GPU is one of those that were recorded. Processes of one night share a
deviation of each case, drawn from a normal distribution: no GPU was recorded on two days, so its size is assumed. Saved
times are judged by compare/processes.py, pairs as compare/pairs.py does.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import msgspec
import numpy as np

from tools.counts import share
from tools.recording import PairRecording
from tools.replay import BASELINE, draw_pairs, judge_pairs
from tools.score import Runs
from warpwatch.__main__ import run_command
from warpwatch.compare.processes import MAX_PROCESSES, Processes, SampledCase
from warpwatch.compare.saved_self_check import CLASSES
from warpwatch.runs.files import chosen_files
from warpwatch.runs.identity import VERSION, Identity, Step
from warpwatch.runs.record import BadRun, CaseRecord, Facts, Gpu, RunRecord, by_gpu
from warpwatch.verdict.process_effects import aligned, mean_of
from warpwatch.verdict.rule import MAX_PAIR_PROCESSES, Floats, Verdict

OTHER_GPUS, RUNS_EACH = 4, 2  # of a baseline that lacks the GPU at hand, about as that of the H200
OTHER_NIGHT = 0.003
RECORDED_AT = datetime(2026, 1, 1, tzinfo=UTC)
SLOWED = 1 / 3  # of the modified cases, where any is slower
# Of one launch of a kernel without arguments: these are quickly compared.
RECORDED = Identity(
    version=VERSION,
    code="recorded",
    steps=(Step(entry="kernel", grid=(1, 1, 1), block=(1, 1, 1)),),
    arrays=(),
    symbols={},
    draw="",
    call="",
    source="",
    library="",
)
NOTE = (
    "A third of the cases is modified unless it says all; a third of these is slower, where a slowdown is named. "
    f"Nights: standard deviation {100 * OTHER_NIGHT:g} % of each case. In brackets: 95 % intervals (Clopper-Pearson). "
    "Pairs judge all modified cases in their column; `decides` names what this suite asks by itself in such a run."
)
MODIFIED = msgspec.structs.replace(RECORDED, code="modified")


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Difference of a run from its baseline, which is of the same GPU and night unless this says otherwise.

    ``runs``: how many are played. ``modified``: the share of cases whose identity differs (another driver makes that of
    all differ); ``slowdown``: how much longer a third of these take. ``unseen``: the baseline has four other GPUs.
    ``night``: standard deviation of what a night does to each case by itself. ``factor`` and ``seconds`` hold for all
    cases, or for those of one ``family``, whether they were modified or not. ``audit``: the count of an audit of the
    rule at 6b78646, when saved times decided.
    """

    title: str
    runs: int = 60
    modified: float = 1 / 3
    slowdown: float = 0.0
    unseen: bool = False
    night: float = 0.0
    factor: float = 1.0
    seconds: float = 0.0
    family: str = ""
    audit: str = "–"


EXPERIMENTS = (
    Experiment(title="own GPU, same night", runs=300),
    Experiment(title="own GPU, another night", runs=200, night=OTHER_NIGHT, audit="86 % of runs"),
    Experiment(title="all modified, common +3 %", modified=1, factor=1.03, audit="264 of 301 cases"),
    Experiment(title="all modified, common +1 µs", modified=1, seconds=1e-6, audit="127 of 301 cases"),
    Experiment(title="all modified, matmul alone +3 %", modified=1, factor=1.03, family="matmul", audit="99 % of runs"),
    Experiment(title="matmul alone +3 %", factor=1.03, family="matmul"),
    Experiment(title="transpose alone +3 %", factor=1.03, family="transpose"),
    Experiment(title="another driver minor, another night", modified=1, night=OTHER_NIGHT),
    Experiment(title="unseen GPU", runs=100, unseen=True, audit="5 of 372 runs"),
    Experiment(title="own GPU, another night, +5 %", night=OTHER_NIGHT, slowdown=0.05),
    Experiment(title="unseen GPU, +1 %", unseen=True, slowdown=0.01, audit="0 % (H200)"),
    Experiment(title="unseen GPU, +3 %", unseen=True, slowdown=0.03, audit="0 % (H200), 46 % (H100)"),
)


@dataclass(frozen=True, kw_only=True)
class World:
    """Recorded kernels as arrays, a case a row: how they vary between processes, and between GPUs.

    ``deviations``: of each recorded process. ``gpus``: a row a GPU, the logarithm of its times over the mean of all.
    """

    names: Sequence[str]
    logs: Floats
    deviations: Floats
    offsets: Floats
    gpus: Floats
    facts: Sequence[Facts]
    pairs: PairRecording

    def process(self, rng: np.random.Generator, shift: Floats) -> Floats:
        """Draw the times of a process, in seconds. ``shift``: the logarithm of what its GPU and night do to a case."""
        rows = np.arange(len(self.names))
        drawn = self.deviations[rows, rng.integers(self.deviations.shape[1], size=len(rows))]
        signs = rng.choice([-1, 1], len(rows))
        offset = float(rng.choice(self.offsets) * rng.choice([-1, 1]))
        return np.asarray(np.exp(self.logs + shift + signs * drawn) + offset, np.float64)


def world_of(runs: Runs) -> World:
    """Make a world of saved runs. Raises BadRun where they hold too little for that."""
    recording, pairs = runs.recording, runs.pairs
    names = [name for name in recording.logs if name in pairs.logs]
    if not names:
        raise BadRun("these runs hold no pairs of the recorded cases: give one of --self-check or --against as well")
    parts = [part for run in runs.alone for part in by_gpu(run)]
    whole = [part for part in parts if all(name in part.cases for name in names)]
    gpus = _gpus(whole, names)
    if len(gpus) <= OTHER_GPUS:
        raise BadRun(f"these runs are of {len(gpus)} GPUs: it takes {OTHER_GPUS + 1} to play one that the others lack")
    return World(
        names=names,
        logs=np.array([recording.logs[name] for name in names]),
        deviations=np.array([recording.deviations[name] for name in names]),
        offsets=np.array(recording.offsets),
        gpus=gpus,
        facts=[_facts(whole[0], name) for name in names],
        pairs=pairs,
    )


def _gpus(runs: Sequence[RunRecord], names: Sequence[str]) -> Floats:
    """Return how far each GPU lies from the mean of all, by case, as logarithms."""
    times = {run.path: {name: median(run.cases[name].samples) for name in names} for run in runs}
    of_gpu = [
        mean_of(aligned(times[run.path] for run in runs if run.gpu_uuid == gpu_uuid))
        for gpu_uuid in dict.fromkeys(run.gpu_uuid for run in runs)
    ]
    logs = np.log([[gpu[name] for name in names] for gpu in aligned(of_gpu)])
    return np.asarray(logs - logs.mean(axis=0), np.float64)


def _facts(run: RunRecord, name: str) -> Facts:
    """Return the facts by which controls are chosen, and an identity."""
    facts = run.cases[name].facts
    return Facts(identity=RECORDED, bytes=facts.bytes, library=facts.library)


@dataclass(frozen=True, kw_only=True)
class Night:
    """A run and its baseline, before anything is decided.

    ``slow``: logarithms of slowdowns. ``process`` measures all cases of the run once more, in seconds.
    """

    past: Sequence[RunRecord]
    gpu_uuid: str
    when: datetime
    facts: Mapping[str, Facts]
    slow: Mapping[str, float]
    process: Callable[[], dict[str, float]]


def draw_night(world: World, experiment: Experiment, rng: np.random.Generator) -> Night:
    """Draw the baseline of a run, what was modified since, and what a process of the run does."""
    count = len(world.names)
    own, *others = (int(gpu) for gpu in rng.permutation(len(world.gpus))[: 1 + OTHER_GPUS])
    then, now = (rng.normal(0, experiment.night, count) for _ in range(2))
    base = sorted(others * RUNS_EACH) if experiment.unseen else [own] * BASELINE
    modified = rng.random(count) < experiment.modified
    slow = modified & (rng.random(count) < SLOWED) & (experiment.slowdown > 0)
    hit = np.array([name.startswith(experiment.family) for name in world.names])
    shift = world.gpus[own] + now + np.log1p(experiment.slowdown * slow) + math.log(experiment.factor) * hit

    def process() -> dict[str, float]:
        times = world.process(rng, shift) + experiment.seconds * hit
        return dict(zip(world.names, times.tolist(), strict=True))

    return Night(
        past=[_saved(world, gpu, world.process(rng, world.gpus[gpu] + then)) for gpu in base],
        gpu_uuid=str(own),
        when=RECORDED_AT + timedelta(days=7 * bool(experiment.night)),
        facts={
            name: replace(facts, identity=MODIFIED) if changed else facts
            for name, facts, changed in zip(world.names, world.facts, modified, strict=True)
        },
        slow={world.names[i]: math.log1p(experiment.slowdown) for i in np.flatnonzero(slow).tolist()},
        process=process,
    )


def _saved(world: World, gpu: int, seconds: Floats) -> RunRecord:
    """Return a run of one process as it is read from a baseline."""
    samples = ((time,) for time in seconds.tolist())
    cases = {
        name: CaseRecord(samples=each, facts=facts)
        for name, each, facts in zip(world.names, samples, world.facts, strict=True)
    }
    return RunRecord(path=Path(f"{gpu}.json"), gpu=Gpu(uuid=str(gpu)), when=RECORDED_AT, cases=cases)


@dataclass(frozen=True)
class Called:
    """Cases that are called slower, by saved times alone and where pairs decide about modified cases.

    ``asks_pairs``: pairs are what decides in such a run.
    """

    saved: set[str]
    pairs: set[str]
    asks_pairs: bool


def judge(world: World, night: Night, rng: np.random.Generator) -> Called:
    """Decide about a run in both ways."""
    cases = {name: SampledCase(night.facts[name], [[time]]) for name, time in night.process().items()}
    processes = Processes(night.past, cases, night.gpu_uuid, "", when=night.when)
    asks_pairs = bool(processes.by_pairs)
    processes.by_pairs.clear()
    decisions = processes.decide()
    for _ in range(MAX_PROCESSES - 1):
        if not (chosen := processes.wanted(decisions)):
            break
        times = night.process()
        processes.absorb({name: [times[name]] for name in chosen})
        decisions = processes.decide()
    saved = {name for name, decision in decisions.items() if decision.verdict == Verdict.SLOWER}
    paired = {name: night.slow.get(name, 0.0) for name, changed in processes.changed.items() if changed}
    drawn = draw_pairs(world.pairs, MAX_PAIR_PROCESSES, rng)
    logs = {name: drawn[name] + by for name, by in paired.items()}
    by_pairs = judge_pairs(world.pairs.medians, logs).called if logs else set()
    return Called(saved, saved - paired.keys() | by_pairs, asks_pairs)


@dataclass(kw_only=True)
class Count:
    """Counts of one way to decide: false slower cases of each run, and of slowdowns, by size, which were found."""

    false: list[int] = field(default_factory=list)
    found: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))

    def add(self, called: set[str], slow: Iterable[str], medians: Mapping[str, float]) -> None:
        """Count a run."""
        self.false.append(len(called.difference(slow)))
        for name in slow:
            size = next(size for size, (low, high) in CLASSES.items() if low <= medians[name] < high)
            self.found[size].append(name in called)


@dataclass(kw_only=True)
class Counts:
    """Counts of both ways to decide in one experiment, and the number of runs in which pairs do."""

    saved: Count = field(default_factory=Count)
    pairs: Count = field(default_factory=Count)
    asks_pairs: int = 0

    @property
    def decided_by(self) -> str:
        """Way in which this suite decides about the modified cases of such a run."""
        return "pairs" if self.asks_pairs else "saved times"


def count_all(world: World, experiments: Sequence[Experiment], trials: int, seed: int) -> dict[str, Counts]:
    """Play all experiments; return their counts by title.

    ``trials``: runs of each experiment, unless it is 0: then as many as each asks for.
    """
    medians = dict(zip(world.names, np.exp(world.logs).tolist(), strict=True))
    counts = {}
    for number, experiment in enumerate(experiments):
        rng, counted = np.random.default_rng([seed, number]), Counts()
        for _ in range(trials or experiment.runs):
            night = draw_night(world, experiment, rng)
            called = judge(world, night, rng)
            counted.saved.add(called.saved, night.slow, medians)
            counted.pairs.add(called.pairs, night.slow, medians)
            counted.asks_pairs += called.asks_pairs
        counts[experiment.title] = counted
    return counts


def tables(experiments: Sequence[Experiment], counts: Mapping[str, Counts]) -> str:
    """Tables in Markdown of runs with a false slower case, and of slowdowns found: a row for each experiment."""
    rows = [["runs with a false slower case", "by saved times alone", "by pairs", "decides", "audit, 6b78646"]]
    power = [["found", "by", *CLASSES, "audit, 6b78646, above 100 µs"]]
    for each in experiments:
        ways = {"saved times": counts[each.title].saved, "pairs": counts[each.title].pairs}
        false, decided_by = [_false(count.false) for count in ways.values()], counts[each.title].decided_by
        rows.append([each.title, *false, decided_by, "–" if each.slowdown else each.audit])
        for way, count in ways.items() if each.slowdown else ():
            found = [share(sum(count.found[size]), len(count.found[size])) for size in CLASSES]
            power.append([each.title, way, *found, each.audit])
    return f"{_markdown(rows)}\n\n{_markdown(power)}"


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *rest = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "|---" * len(rows[0]) + "|", *rest])


def _false(counts: Sequence[int]) -> str:
    total = sum(counts)
    return share(sum(map(bool, counts)), len(counts)) + f", {total / len(counts):.1f} cases a run" * bool(total)


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    about = "Play whole runs of other nights and GPUs from recordings: false slower cases, and slowdowns found."
    parser = argparse.ArgumentParser(prog="python -m tools.nights", description=about)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RECORDING", help="a saved run, or a folder of them")
    parser.add_argument("--trials", type=int, default=0, help="runs of each experiment (60 to 300)")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers (1)")
    return parser


def main() -> int:
    """Print the tables; returns the exit status: 0, or 2 for runs that nothing can be played from."""
    options = make_parser().parse_args()
    try:
        runs = Runs.read(chosen_files(options.runs))
        world = world_of(runs)
    except (BadRun, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    counts = count_all(world, EXPERIMENTS, options.trials, options.seed)
    print(tables(EXPERIMENTS, counts))
    cases, gpus = len(world.names), len(world.gpus)
    print(f"\n{cases} cases of {gpus} GPUs, recorded for {runs.purpose}; --seed {options.seed}. {NOTE}")
    return 0


if __name__ == "__main__":
    run_command(main)
