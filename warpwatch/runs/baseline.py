"""Saved runs: written whole, read with care, and made a baseline by one command alone.

    python -m warpwatch.runs.baseline promote RUN [RUN ...]  RUN: files that `pytest bench` saved in .benchmarks/<gpu>/
    python -m warpwatch.runs.baseline history [CASE]  what the runs saved there say of a case, and where cases changed

A baseline is all the runs in bench/baselines/<gpu>/: one process says nothing of the noise between processes.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from warpwatch.compare.history import show
from warpwatch.devices.compiler import ROOT
from warpwatch.report.tables import changes
from warpwatch.report.terminal import run_command
from warpwatch.runs.saved import BASELINES, SETTINGS, BadRun, Run, read_document, read_run, write_new


def objections(runs: Sequence[Run], previous: Sequence[Run]) -> dict[str, list[str]]:
    """Why these runs should not become a baseline: a word to allow it by, and what is wrong."""
    found: dict[str, list[str]] = {word: [] for word in ("failed", "partial", "dirty", "mixed", "gpu", "against")}
    settings = [(run, {name: run.setting(name) for name in SETTINGS}) for run in runs]
    for run, setting in settings:
        if run.failed:
            found["failed"].append(f"{run.path}: {len(run.failed)} cases failed: {', '.join(run.failed[:3])} ...")
        if not run.whole or run.cases.keys() != runs[0].cases.keys():
            found["partial"].append(f"{run.path}: does not hold every case")
        if run.commit.dirty is not False:
            found["dirty"].append(f"{run.path}: was measured on uncommitted changes")
        elif not re.fullmatch("[0-9a-f]{40}", run.commit.id):
            found["dirty"].append(f"{run.path}: was measured outside a git checkout")
        if run.against:
            found["against"].append(f"{run.path}: was measured side by side with {run.against[:12]}, in fewer samples")
        if not run.gpu.slug:
            found["gpu"].append(f"{run.path}: was measured without a GPU")
        for name, word in SETTINGS.items():
            if setting[name] != settings[0][1][name]:
                found["mixed"].append(f"{run.path}: another {word} ({setting[name]}, not {settings[0][1][name]})")
            elif previous and setting[name] != previous[0].setting(name):
                found["mixed"].append(f"{run.path}: another {word} than the baseline ({previous[0].setting(name)})")
    return {word: what for word, what in found.items() if what}


def promote(paths: Iterable[Path], allowed: Iterable[str], dry: bool) -> int:
    """Make saved runs the baseline of their GPU, after showing what changes. Exit status."""
    runs = [read_run(path) for path in paths]
    folder = BASELINES / runs[0].slug
    old = sorted(folder.glob("*.json"))
    previous = [read_run(path) for path in old]
    print(f"{len(runs)} runs become the baseline of {runs[0].slug}; it has {len(previous)} now")
    print(changes(previous, runs))
    refused = {word: what for word, what in objections(runs, previous).items() if word not in set(allowed)}
    for word, what in refused.items():
        print("\n".join(what) + f"\n  refused; to do it all the same: --allow {word}", file=sys.stderr)
    if refused or dry:
        return 1 if refused else 0
    for run in runs:
        print(f"wrote {_write_into(folder, run.path)}")
    # The old ones go last: an interruption leaves too many runs, never too few.
    for path in old:
        path.unlink()
    return 0


def _write_into(folder: Path, path: Path) -> Path:
    """Write a copy of a saved run into a baseline's folder. Raises BadRun or OSError."""
    name = path.name.split(".", maxsplit=1)[0].split("_", 1)[-1]
    try:
        return write_new(folder, name, read_document(path))
    except ValueError as error:
        raise BadRun(f"{path}: holds a number that JSON does not have ({error})") from None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m warpwatch.runs.baseline", description="The baseline of a GPU.")
    commands = parser.add_subparsers(required=True, dest="command")
    promotion = commands.add_parser("promote", help="make saved runs the baseline of their GPU, in place of the old")
    promotion.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a file in .benchmarks/<gpu>/")
    promotion.add_argument("--allow", nargs="+", default=[], metavar="WORD", help="failed, partial, dirty, mixed")
    promotion.add_argument("--dry-run", action="store_true", help="show what would change, and write nothing")
    past = commands.add_parser("history", help="what the saved runs say of a case, and where cases changed for good")
    past.add_argument("case", nargs="?", default="", help="a case's id; without one, every step of every case")
    past.add_argument("--runs", type=Path, default=ROOT / ".benchmarks", metavar="FOLDER", help="of one GPU")
    options = parser.parse_args()
    try:
        if options.command == "promote":
            return promote(options.runs, options.allow, options.dry_run)
        return show(options.runs, options.case)
    except BrokenPipeError:  # run_command ends the command as others end then
        raise
    except (BadRun, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    run_command(main)
