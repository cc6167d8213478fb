"""Finds the lasting changes that only the last night shows, and writes them as the text of an issue."""

from __future__ import annotations

from collections.abc import Sequence

from warpwatch.compare.history import SHORTEST, Step, find_steps
from warpwatch.runs.record import RunRecord

MOST_LINES = 20
FEWEST = 2 * SHORTEST  # runs, in which two levels have room


def new_steps(runs: Sequence[RunRecord]) -> list[Step]:
    """Find the slowdowns that were not found without the newest run, the largest first.

    A level lasts SHORTEST nights at least, so a step is found some nights after it happened, and may then be placed a
    night or two earlier or later than before: the same case's step within SHORTEST nights is the same step.
    """
    known = find_steps(runs[:-1])
    number = {run.path: index for index, run in enumerate(runs)}
    found = []
    for step in find_steps(runs):
        same = (
            each
            for each in known
            if each.case == step.case
            and (each.ratio > 1) == (step.ratio > 1)
            and abs(number[each.after.path] - number[step.after.path]) <= SHORTEST
        )
        if step.ratio > 1 and not any(same):
            found.append(step)
    return found


def issue(steps: Sequence[Step], newest: RunRecord) -> str:
    """Write what became slower for good, the commits between which it did, and what finds the commit, in Markdown."""
    count = f"{len(steps)} case{'s' * (len(steps) != 1)}"
    when = f", night of {newest.when.date().isoformat()}" if newest.when else ""
    lines = [f"**{count} became slower for good** on {newest.gpu.name or newest.slug}{when}:", ""]
    lines += [f"- {step}" for step in steps[:MOST_LINES]]
    if len(steps) > MOST_LINES:
        lines.append(f"- ... and {len(steps) - MOST_LINES} more: `python -m warpwatch history` shows all")
    lines += ["", "Which commit it was:", "", "```sh"]
    for (before, after), cases in _by_range(steps).items():
        lines.append(f"python -m warpwatch bisect {' '.join(cases[:3])} {before}..{after}")
    return "\n".join([*lines, "```", ""])


def _by_range(steps: Sequence[Step]) -> dict[tuple[str, str], list[str]]:
    """Cases by the commits between which they changed: one search finds the commit for all of them."""
    ranges: dict[tuple[str, str], list[str]] = {}
    for step in steps[:MOST_LINES]:
        if step.before.commit.id and step.after.commit.id:
            ranges.setdefault((step.before.commit.id[:12], step.after.commit.id[:12]), []).append(step.case)
    return ranges
