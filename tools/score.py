"""Replays recorded samples through regression rules, ours and other tools': false alarms, and slowdowns found.

``python -m tools.score RUN... [--trials N] [--seed N]`` prints a table with a row for each rule and setting. A RUN is a
saved run, or a folder of them. All are for tuning the rule, or all for scoring it (purpose.py). Runs of --self-check,
which hold pairs, are replayed for the rows of pairs; runs in ``baselines/``, with later runs on other GPUs, for the row
of an unseen GPU. ``--frontier`` prints instead what other constants of the rule would bring (frontier.py).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tools.counts import margin, percent, share
from tools.frontier import frontier
from tools.other_rules import HELION
from tools.purpose import OWN, TUNING, purpose_of
from tools.recording import PairRecording, Recording, record, record_pairs
from tools.replay import OURS, PAIRED, SLOWDOWNS, UNSEEN, Score, play_pairs, play_saved, play_unseen, unseen
from warpwatch.__main__ import run_command
from warpwatch.compare.saved_self_check import CLASSES
from warpwatch.runs.files import chosen_files
from warpwatch.runs.record import BadRun, RunRecord, by_gpu, read_run

SAME_GPU = "same GPU within the hour"
SETTINGS = {PAIRED: "pairs", HELION: "pairs", UNSEEN: "unseen GPU, committed baseline"}


@dataclass(frozen=True)
class Runs:
    """Runs that are replayed, all for the same purpose: those of one side each, their variation, and that of pairs."""

    purpose: str
    alone: Sequence[RunRecord]
    recording: Recording
    side_by_side: Sequence[RunRecord]
    pairs: PairRecording

    @classmethod
    def read(cls, paths: Sequence[Path]) -> Runs:
        """Read runs. Raises BadRun."""
        purpose = purpose_of(paths)
        runs = [read_run(path) for path in paths]
        alone, side_by_side = ([run for run in runs if bool(run.against) == which] for which in (False, True))
        return cls(purpose, alone, record(alone), side_by_side, record_pairs(side_by_side))

    @property
    def baseline(self) -> list[RunRecord]:
        """The runs of a committed baseline."""
        return [run for run in self.alone if run.path.resolve().parent.parent.name == "baselines"]

    def notes(self, trials: int) -> list[str]:
        """Say of which runs each setting is, a line each."""
        recording, later = self.recording, unseen(self.baseline, self.alone)
        lines = [
            f"- {SAME_GPU}: {trials} runs of {len(recording.logs)} cases, resampled from {recording.runs} runs of "
            f"{recording.gpus} GPUs"
        ]
        if later:
            lines.append(
                f"- {SETTINGS[UNSEEN]}: {len(later)} recorded runs on {_gpus(later)} GPUs against {len(self.baseline)} "
                f"runs of {_gpus(self.baseline)} others, each case modified once a run"
            )
        if self.side_by_side:
            lines.append(
                f"- {SETTINGS[PAIRED]}: {trials} runs of {len(self.pairs.logs)} cases, resampled from "
                f"{len(self.side_by_side)} runs of {_gpus(self.side_by_side)} GPUs"
            )
        return lines


def _gpus(runs: Sequence[RunRecord]) -> int:
    return len({part.gpu_uuid for run in runs for part in by_gpu(run)})


def score_rules(runs: Runs, trials: int, seed: int) -> dict[str, Score]:
    """Score each rule, ours first."""
    scores = play_saved(runs.recording, trials, seed)
    ours = {OURS: scores.pop(OURS)}
    if unseen(runs.baseline, runs.alone):
        ours[UNSEEN] = play_unseen(runs.baseline, runs.alone, seed)
    return ours | (play_pairs(runs.pairs, trials, seed) if runs.side_by_side else {}) | scores


def table(scores: Mapping[str, Score], purpose: str, seconds: float) -> str:
    """Table of the scores in Markdown, a row for each rule. ``seconds``: of a whole run in one process."""
    head = ["rule", "setting", "tuned on", "alarms a run", "runs with any", "unsure", "minutes"]
    lines = [f"| {' | '.join([*head, *(f'found, {size}' for size in CLASSES)])} |"]
    lines.append("|---|---|---|---:|---|---:|---:|" + "---|" * len(CLASSES))
    for name, each in scores.items():
        setting = SETTINGS.get(name, SAME_GPU)
        # The recorded seconds are those of a whole run, not of pairs or of a run that is not measured again.
        minutes = f"{seconds / 60 * float(np.mean(each.processes)):.1f}" if setting == SAME_GPU else "–"
        cells = [
            name,
            setting,
            TUNING if name in (OURS, PAIRED, UNSEEN) else "–",
            f"{np.mean(each.alarms):.1f}",
            share(sum(map(bool, each.alarms)), len(each.alarms)),
            f"{100 * float(np.mean(each.unsure)):.1f} %" if each.unsure else "–",
            minutes,
            *(" ".join(percent(each.found.get((size, slowdown), {})) for slowdown in SLOWDOWNS) for size in CLASSES),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    listed = ", ".join(f"{100 * slowdown:g}" for slowdown in SLOWDOWNS)
    scored = "the user's own runs" if purpose == OWN else f"runs that are for {purpose}"
    return "\n".join(
        [*lines, "", f"Scored on {scored}. Found: per cent of slowdowns by {listed} %, {_margins(scores)}."]
    )


def _margins(scores: Mapping[str, Score]) -> str:
    """Say how far the shares of slowdowns found may be off, by size: the largest of all rules and slowdowns."""
    widest = {
        size: max(
            (margin(hits) for each in scores.values() for key, hits in each.found.items() if key[0] == size), default=0
        )
        for size in CLASSES
    }
    return "to ± " + ", ± ".join(f"{100 * width:.0f} ({size})" for size, width in widest.items()) + " at most"


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    about = "Replay saved runs of unchanged kernels through several tools' rules."
    parser = argparse.ArgumentParser(prog="python -m tools.score", description=about)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a saved run, or a folder of them")
    parser.add_argument("--trials", type=int, default=30, help="whole runs to play (30)")
    parser.add_argument("--seed", type=int, default=1, help="of the draws (1)")
    parser.add_argument("--frontier", action="store_true", help="this suite's rule alone, with other constants")
    return parser


def main() -> int:
    """Print the table; returns the exit status: 0, or 2 for runs that cannot be replayed."""
    options = make_parser().parse_args()
    try:
        runs = Runs.read(chosen_files(options.runs))
        if options.frontier:
            print(frontier(runs.recording, runs.side_by_side, runs.pairs, options.trials, options.seed))
        else:
            scores = score_rules(runs, options.trials, options.seed)
            print(table(scores, runs.purpose, runs.recording.seconds))
    except (BadRun, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("\n".join([f"Seed {options.seed}; runs for {runs.purpose}:", *runs.notes(options.trials)]))
    return 0


if __name__ == "__main__":
    run_command(main)
