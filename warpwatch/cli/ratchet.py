"""Takes the limits of contracts from a baseline of several runs, and only tightens them: ``warpwatch ratchet``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import timed_cases
from warpwatch.cli.options import BadArgument, add_keywords, few, selector, words
from warpwatch.compare.ratchet import FEWEST, RATCHETED, limits_of, tightened
from warpwatch.compare.reference import RECORD
from warpwatch.runs.anchors import of_other_gpus
from warpwatch.runs.baseline import ANCHORS
from warpwatch.runs.contracts import Limits, path_of, read, write
from warpwatch.runs.files import chosen_files, run_files
from warpwatch.runs.record import NO_GPU, BadRun, RunRecord, read_usable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "saved runs, or a folder of them (the committed baseline of each GPU)"
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help=text)
    add_keywords(parser)
    named = ",".join(RATCHETED)
    parser.add_argument("--limits", type=words, default=named, metavar="LIST", help=f"which limits ({named})")
    parser.add_argument("--dry-run", action="store_true", help="show what would change, and write nothing")


def run(project: Project, *, runs: Sequence[Path], keywords: str, limits: Sequence[str], dry_run: bool) -> int:
    """Write the limits of each GPU that the runs are of; returns the exit status.

    Raises BadArgument, BadCase, BadRun or OSError.
    """
    other = [name for name in limits if name not in RATCHETED]
    if other or not limits:
        wrong = other[0] if other else "names none"
        raise BadArgument(f"--limits {wrong}: it takes {', '.join(RATCHETED)}, with commas between them")
    matches = selector(keywords)
    by_slug, anchors = _read(project, runs)
    for slug, own in by_slug.items():
        _require_several(slug, own)
    cases = [case for case in timed_cases(project.families) if not case.variant.on_host and matches(case.id)]
    if not cases:
        raise BadArgument(f"-k {keywords!r} matches no timed kernel: `warpwatch list` shows the ids")
    for slug, own in by_slug.items():
        path = path_of(slug, project.baselines)
        old, others = read(path), of_other_gpus(anchors, own)
        new = {case.id: tightened(old.of(case.id), limits_of(case, own, limits, others)) for case in cases}
        _say(slug, old, new)
        if not dry_run:
            known = {name: each for name, each in (*old.cases.items(), *new.items()) if each}
            uuids = dict.fromkeys((*old.uuids, *(each.gpu_uuid for each in (*own, *others))))
            write(replace(old, capability=own[-1].gpu.capability, uuids=tuple(uuids), cases=known), path)
            print(f"wrote {path}")
    return 0


def _read(project: Project, runs: Sequence[Path]) -> tuple[dict[str, list[RunRecord]], list[RunRecord]]:
    """Read the runs of each GPU model and, unless runs are named, the anchors of the committed baselines.

    Raises BadArgument or BadRun.
    """
    folders = [] if runs else sorted(project.baselines.glob("*"))
    files = [*chosen_files(runs), *(file for folder in folders for file in run_files(folder))]
    if not files:
        raise BadArgument(f"{project.baselines} contains no baseline; record one with `{RECORD}`")
    anchors = {file for folder in folders for file in run_files(folder / ANCHORS)}
    records, problems = read_usable([*files, *sorted(anchors)])
    for problem in problems:
        print(f"left out: {problem}", file=sys.stderr)
    by_slug: dict[str, list[RunRecord]] = {}
    for record in records:
        if record.path not in anchors:
            by_slug.setdefault(record.slug, []).append(record)
    return by_slug, [record for record in records if record.path in anchors]


def _require_several(slug: str, runs: Sequence[RunRecord]) -> None:
    """Raise BadRun unless runs show the noise between processes, and what they ran on."""
    if slug == NO_GPU or any(each.gpu.note for each in runs):
        raise BadRun(f"{runs[0].path}: was measured without a GPU, and times of the host limit no kernel")
    if len(runs) < FEWEST:
        why = f"limits take {FEWEST} runs, of which fewer do not show how far processes differ"
        cure = f"`{RECORD}` measures five"
        raise BadRun(f"{slug}: {len(runs)} run{'s' * (len(runs) != 1)}: {why}; {cure}")
    if not runs[-1].gpu.capability:
        raise BadRun(f"{runs[-1].path}: does not say which compute capability its GPU has: record it anew")


def _say(slug: str, old: Limits, new: dict[str, dict[str, float]]) -> None:
    """Print how many limits are new and tighter."""
    added = sum(name not in old.of(case) for case, own in new.items() for name in own)
    tighter = [
        f"{case}: {name} {before[name]:g} -> {own[name]:g}"
        for case, own in new.items()
        for name in own
        if name in (before := old.of(case)) and before[name] != own[name]
    ]
    print(f"{slug}: {added} new limits, {len(tighter)} tighter, of {sum(map(bool, new.values()))} cases")
    if tighter:
        print("  " + few(tighter, 10))
