"""Replays histories of a GPU, with planted steps, memories and modes, through ``history`` and ``baseline promote``.

``python -m tools.histories RECORDING... [--seed S] [--trials N]`` prints two tables in Markdown. A RECORDING is a saved
run, or a folder of them; it takes two of a GPU at least to show how its nights differ.

A night is made of the recorded runs: each case's time, a deviation like those between the recorded processes, and what
a process does to all cases. Recorded processes ran minutes apart, so each night also has a common factor (COMMON). Of
every third case the code changes on three nights without any effect. Every fourth night of a history is replayed as the
nightly job sees it: what is counted is told by any of them.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import numpy as np

from tools.counts import share as share_of
from tools.recording import Recording, record
from warpwatch.__main__ import run_command
from warpwatch.catalogue.project import Project, find_project
from warpwatch.cli.baseline_promote import promote
from warpwatch.cli.history import unknown_before
from warpwatch.compare.anchors import beside_anchors
from warpwatch.compare.history import FEWEST, SHORTEST, Cause, Ints, Step, find_steps
from warpwatch.compare.processes import Processes, SampledCase
from warpwatch.runs.files import chosen_files, run_files
from warpwatch.runs.record import BadRun, CaseRecord, Commit, Facts, Gpu, RunRecord, read_run
from warpwatch.verdict.process_effects import LARGE
from warpwatch.verdict.rule import MIN_PROCESSES, Floats, Verdict

NIGHTS, CHANGED_AT = 100, (30, 60, 90)  # nights of a history, and those on which code changes without an effect
STEP_AT, AFTER = 40, 12  # night of a planted step, and how many nights follow it
EVERY = 4  # nights from one replay of the nightly job to the next
COMMON = 1e-3  # standard deviation of the factor of a night
NIGHT = 3e-3  # of a case from night to night, for lucky nights
LUCKY = 20  # cases that a lucky baseline has, and that change after it
MODES = (0.01, 0.10)  # how much slower the second mode of a case is
FIRST = datetime(2026, 1, 1, 2, tzinfo=UTC)
Noise = Callable[[np.random.Generator, "Kernels", int], Floats]


@dataclass(frozen=True)
class Kernels:
    """Cases of a recording: names, logarithms of their seconds, deviations of nights, and facts."""

    recording: Recording
    facts: Mapping[str, Facts]
    gpu: Gpu
    names: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, runs: Sequence[RunRecord]) -> Kernels:
        recording = record(runs)
        run = next(run for run in runs if recording.logs.keys() <= run.cases.keys())
        facts = {name: Facts(cache="cold", identity=run.cases[name].facts.identity) for name in recording.logs}
        return cls(recording, facts, replace(run.gpu, uuids=()), list(recording.logs))

    @property
    def seconds(self) -> Floats:
        return np.exp([self.recording.logs[name] for name in self.names])

    @property
    def sigmas(self) -> Floats:
        return np.array([np.sqrt(np.mean(np.square(self.recording.deviations[name]))) for name in self.names])

    def run(self, night: int, seconds: Floats, codes: Ints) -> RunRecord:
        """Make the run of a night, in which each case takes these seconds and has code of this number."""
        cases = {}
        for name, time, code in zip(self.names, seconds, codes, strict=True):
            facts = self.facts[name]
            if code and facts.identity:
                identity = msgspec.structs.replace(facts.identity, code=f"code {code}")
                facts = replace(facts, identity=identity)
            cases[name] = CaseRecord(samples=(float(time),), facts=facts)
        when, commit = FIRST + timedelta(days=night), Commit(id=f"{night + 1:040x}", dirty=False)
        return RunRecord(path=Path(f"{night:04}"), gpu=self.gpu, cases=cases, commit=commit, when=when, whole=True)

    def common(self, rng: np.random.Generator) -> tuple[float, float]:
        """Draw what a process does to all cases: a factor, and seconds."""
        return math.exp(rng.normal(0, COMMON)), float(rng.choice(self.recording.offsets) * rng.choice([-1, 1]))


def recorded(rng: np.random.Generator, kernels: Kernels, nights: int) -> Floats:
    """Draw deviations of every case in every night, as logarithms: those between recorded processes."""
    own = [kernels.recording.deviations[name] for name in kernels.names]
    return np.array([rng.choice(each, nights) * rng.choice([-1, 1], nights) for each in own])


def heavy_tailed(rng: np.random.Generator, kernels: Kernels, nights: int) -> Floats:
    """Draw deviations from Student's t of three degrees of freedom."""
    return rng.standard_t(3, (len(kernels.names), nights)) / math.sqrt(3) * kernels.sigmas[:, None]


def remembering(memory: float) -> Noise:
    """Return deviations of which each night keeps a share of the one before: AR(1)."""

    def draw(rng: np.random.Generator, kernels: Kernels, nights: int) -> Floats:
        values = rng.normal(size=(len(kernels.names), nights))
        for night in range(1, nights):
            values[:, night] = memory * values[:, night - 1] + math.sqrt(1 - memory**2) * values[:, night]
        return np.asarray(values * kernels.sigmas[:, None])

    return draw


def bimodal(rng: np.random.Generator, kernels: Kernels, nights: int) -> Floats:
    """Draw recorded deviations, and of one case in twenty a second mode in half of the nights."""
    values, count = recorded(rng, kernels, nights), len(kernels.names)
    sizes = np.log1p(rng.uniform(*MODES, count)) * (rng.random(count) < 0.05)
    return np.asarray(values + sizes[:, None] * rng.integers(0, 2, values.shape))


NOISES: Mapping[str, Noise] = {
    "as recorded": recorded,
    "t3 tails": heavy_tailed,
    "AR(0.5)": remembering(0.5),
    "AR(0.9)": remembering(0.9),
    "5 % bimodal": bimodal,
}


@dataclass(kw_only=True)
class Count:
    """Counts of a row: steps planted above 100 µs, those found in three nights and later, and what is false."""

    nights: int = 0
    planted: int = 0
    soon: int = 0
    later: int = 0
    kernels: int = 0
    falls: int = 0
    environment: int = 0


def history(kernels: Kernels, noise: Noise, rng: np.random.Generator, step: float = 0.0, share: float = 0.0) -> Count:
    """Replay a history night by night; with a step it ends soon after."""
    nights, count = (STEP_AT + AFTER if step else NIGHTS), len(kernels.names)
    logs, codes = np.log(kernels.seconds)[:, None] + noise(rng, kernels, nights), np.zeros((count, nights), int)
    for night in CHANGED_AT:
        codes[rng.random(count) < 1 / 3, night:] += 1
    slower = rng.permutation(count) < round(share * count)
    logs[slower, STEP_AT:] += math.log1p(step)
    codes[slower, STEP_AT:] += 10
    runs = []
    for night in range(nights):
        factor, offset = kernels.common(rng)
        runs.append(kernels.run(night, np.exp(logs[:, night]) * factor + offset, codes[:, night]))
    return _counted(kernels, runs, {name for name, each in zip(kernels.names, slower, strict=True) if each and step})


def _counted(kernels: Kernels, runs: Sequence[RunRecord], slower: set[str]) -> Count:
    """Count what is told by each night, and when."""
    large = slower & {name for name, each in zip(kernels.names, kernels.seconds, strict=True) if each >= LARGE}
    result, told, soon = Count(nights=len(runs), planted=len(large)), list[Step](), set[str]()
    for night in sorted({*range(FEWEST, len(runs) + 1, EVERY), STEP_AT + SHORTEST, len(runs)}):
        told += unknown_before(told, find_steps(runs[:night]), runs)
        if night == STEP_AT + SHORTEST:
            soon = {each.case for each in told if _is_planted(each, slower)}
    right = {each.case for each in told if _is_planted(each, slower)}
    false = [each for each in told if not _is_planted(each, slower)]
    result.soon, result.later = len(soon & large), len(right & large)
    result.falls = sum(each.ratio < 1 and each.cause != Cause.ENVIRONMENT for each in false)
    result.kernels = sum(each.ratio > 1 and each.cause != Cause.ENVIRONMENT for each in false)
    result.environment = sum(each.cause == Cause.ENVIRONMENT for each in false)
    return result


def _is_planted(step: Step, slower: set[str]) -> bool:
    at = int(step.after.path.name) == STEP_AT
    return at and step.case in slower and step.ratio > 1 and step.cause == Cause.KERNEL


def rate(events: int, nights: int) -> str:
    """Return events in 100 nights with the 95 % interval of a Poisson distribution (Garwood 1936)."""
    from scipy import special  # noqa: PLC0415

    low = special.gammaincinv(events, 0.025) if events else 0.0
    high = special.gammaincinv(events + 1, 0.975)
    return f"{events} in {nights} ({100 * low / nights:.1f} to {100 * high / nights:.1f})"


def histories(kernels: Kernels, rng: np.random.Generator, trials: int) -> Iterator[str]:
    """Yield the table of ``history``."""
    head = ["nights", "planted", "found in 3 nights, above 100 µs", "in 12", "false rises of kernels (in 100 nights)"]
    yield f"| {' | '.join([*head, 'false falls of kernels', 'false steps of the environment'])} |"
    yield "|---|---|---|---|---|---|---|"
    steps = [(step, share) for step in (0.01, 0.02) for share in (0.01, 0.6, 1.0)]
    rows = [*((name, 0.0, 0.0) for name in NOISES), *(("as recorded", *each) for each in steps)]
    for name, step, share in [*rows, ("AR(0.9)", 0.01, 0.6), ("5 % bimodal", 0.01, 0.6)]:
        counts = [history(kernels, NOISES[name], rng, step, share) for _ in range(trials)]
        total = {each.name: sum(getattr(count, each.name) for count in counts) for each in fields(Count)}
        planted = f"+{100 * step:.0f} % in {100 * share:.0f} % of the cases" if step else "nothing"
        found = [share_of(total[key], total["planted"]) for key in ("soon", "later")]
        false = [rate(total[key], total["nights"]) for key in ("kernels", "falls", "environment")]
        yield f"| {name} | {planted} | {' | '.join(found)} | {' | '.join(false)} |"


def _saved(kernels: Kernels, folder: Path, night: int, seconds: Floats, rng: np.random.Generator) -> list[Path]:
    """Save the five runs of a night, minutes apart."""
    paths, noise = [], recorded(rng, kernels, 5)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(5):
        factor, offset = kernels.common(rng)
        run = kernels.run(
            night, seconds * np.exp(noise[:, number]) * factor + offset, np.zeros(len(kernels.names), int)
        )
        entries = [
            {"param": n, "stats": {"data": t.samples}, "extra_info": {"cache": "cold", "identity": t.facts.identity}}
            for n, t in run.cases.items()
        ]
        document = {
            "machine_info": {"gpu": kernels.gpu},
            "commit_info": run.commit,
            "datetime": (FIRST + timedelta(days=night, minutes=2 * number)).isoformat(),
            "warpwatch": {"whole": True},
            "benchmarks": entries,
        }
        paths.append(folder / f"{5 * night + number + 1:04}_night.json")
        paths[-1].write_text(json.dumps(msgspec.to_builtins(document)))
    return paths


def creep(project: Project, kernels: Kernels, rng: np.random.Generator, share: float) -> int:
    """Promote every night's runs, 0.5 % slower each in some cases above 100 µs; return the night that is refused."""
    slower = (kernels.seconds >= LARGE) & (rng.random(len(kernels.names)) < share)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        own = replace(project, root=Path(folder))
        for night in range(20):
            paths = _saved(kernels, Path(folder) / "saved", night, kernels.seconds * 1.005 ** (night * slower), rng)
            with contextlib.redirect_stderr(io.StringIO()):
                if promote(own, paths, allowed=[], dry_run=False):
                    return night
    return 20


def lucky(project: Project, kernels: Kernels, rng: np.random.Generator, slowdown: float) -> list[tuple[bool, bool]]:
    """Promote two nights, in the second of which some cases are as fast as in the best of ten, and compare a later run.

    Their code has changed since then, and they are slower by ``slowdown``. Returns which of them the later run calls
    slower, by the baseline's runs alone and beside their anchors.
    """
    count = len(kernels.names)
    changed = rng.choice(np.flatnonzero(kernels.seconds >= LARGE), LUCKY, replace=False)
    with tempfile.TemporaryDirectory() as temporary, contextlib.redirect_stdout(io.StringIO()):
        folder, own = Path(temporary), replace(project, root=Path(temporary))
        for night in range(2):
            nights = rng.normal(0, NIGHT, count)
            if night:
                nights[changed] = rng.normal(0, NIGHT, (LUCKY, 10)).min(axis=1)
            paths = _saved(kernels, folder / "saved", night, kernels.seconds * np.exp(nights), rng)
            promote(own, paths, allowed=["drift"], dry_run=False)
        past = [read_run(path) for path in run_files(own.baselines / kernels.gpu.slug)]
        nights = rng.normal(0, NIGHT, count)
        nights[changed] += math.log1p(slowdown)
        processes = _processes(kernels, past, kernels.seconds * np.exp(nights), changed, rng)
        alone = processes.decide()
        beside = beside_anchors(alone, processes.reference, past, kernels.gpu.uuid)
    names = [kernels.names[case] for case in changed]
    return [(alone[name].verdict == Verdict.SLOWER, beside[name].verdict == Verdict.SLOWER) for name in names]


def _processes(
    kernels: Kernels, past: Sequence[RunRecord], seconds: Floats, changed: Ints, rng: np.random.Generator
) -> Processes:
    """Compare five processes of a run, in which the code of some cases is another, with a baseline."""
    noise, runs, codes = recorded(rng, kernels, MIN_PROCESSES), [], np.zeros(len(kernels.names), int)
    codes[changed] = 1
    for number in range(MIN_PROCESSES):
        factor, offset = kernels.common(rng)
        runs.append(kernels.run(30, seconds * np.exp(noise[:, number]) * factor + offset, codes))
    cases = {name: SampledCase(timed.facts, [timed.samples]) for name, timed in runs[0].cases.items()}
    processes = Processes(past, cases, kernels.gpu.uuid, "")
    for run in runs[1:]:
        processes.absorb({name: timed.samples for name, timed in run.cases.items()})
    return processes


def anchors(project: Project, kernels: Kernels, rng: np.random.Generator, trials: int) -> Iterator[str]:
    """Yield the table of ``baseline promote`` and of verdicts beside anchors."""
    yield "| what | result |"
    yield "|---|---|"
    for share in (0.01, 0.6, 1.0):
        nights = [creep(project, kernels, rng, share) for _ in range(trials)]
        soon = share_of(sum(night <= 6 for night in nights), trials)
        what = f"0.5 % slower each night in {100 * share:.0f} % of the cases above 100 µs, each night promoted"
        yield f"| {what} | refused by night 6 in {soon}; in night {min(nights)} to {max(nights)} |"
    for slowdown in (0.0, 0.02, 0.03):
        called = [each for _ in range(10 * trials) for each in lucky(project, kernels, rng, slowdown)]
        alone, beside = (share_of(sum(side), len(called)) for side in zip(*called, strict=True))
        what = f"changed cases above 100 µs, {100 * slowdown:+.0f} %, whose baseline is the fastest of ten nights"
        yield f"| {what} | slower in {beside}; without an anchor {alone} |"


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    about = "Replay histories of a GPU with planted steps through `history` and `baseline promote`."
    parser = argparse.ArgumentParser(prog="python -m tools.histories", description=about)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RECORDING", help="a saved run, or a folder of them")
    parser.add_argument("--seed", type=int, default=1, help="of all that is drawn (1)")
    parser.add_argument("--trials", type=int, default=1, help="histories a row (1), of lucky baselines ten")
    return parser


def main() -> int:
    """Print the tables; returns the exit status: 0, or 2 for runs that cannot be replayed."""
    options = make_parser().parse_args()
    try:
        runs = [run for run in map(read_run, chosen_files(options.runs)) if not run.against]
        kernels = Kernels.of(runs)
        print(f"{len(kernels.names)} cases of {kernels.gpu.name}, seed {options.seed}, trials {options.trials}\n")
        rng = np.random.default_rng(options.seed)
        for line in histories(kernels, rng, options.trials):
            print(line, flush=True)
        rng = np.random.default_rng(options.seed)
        print(f"\nNights differ by {100 * NIGHT:.1f} % (standard deviation) where a baseline is lucky.\n")
        for line in anchors(find_project(Path.cwd()), kernels, rng, options.trials):
            print(line, flush=True)
    except (BadRun, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    run_command(main)
