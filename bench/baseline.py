"""Saved runs: written whole, read with care, and made a baseline by one command alone.

    python -m bench.baseline promote RUN [RUN ...]     RUN: files that `pytest bench` saved in .benchmarks/<gpu>/
    python -m bench.baseline history [CASE]            what the runs saved there say of a case, and where cases changed

A baseline is all the runs in bench/baselines/<gpu>/: one process says nothing of the noise between processes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import lzma
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernels.compiler import ROOT
from kernels.terminal import run_command

BASELINES = ROOT / "bench" / "baselines"
NO_GPU = "no-gpu"
# A run that differs from its baseline in one of these cannot be compared with it.
SETTINGS: Mapping[str, str] = {"slug": "GPU", "driver": "driver", "cache": "cache mode", "toolkit": "CUDA toolkit"}


class BadRun(ValueError):
    """A file that is not a usable run; the message names it and says what is wrong."""


@dataclass(frozen=True)
class Timed:
    """One case of a saved run."""

    samples: tuple[float, ...]
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """A saved run of the benchmark. ``gpu`` is empty where there was none."""

    path: Path
    gpu: Mapping[str, Any]
    cases: Mapping[str, Timed]
    whole: bool
    commit: Mapping[str, Any]
    failed: tuple[str, ...] = ()
    slower: tuple[str, ...] = ()  # than the baseline of its day
    against: str = ""  # the commit that it was measured side by side with, if it was
    when: str = ""  # as the file says, in UTC
    problems: Mapping[str, str] = field(default_factory=dict)  # cases that were left out, and what is wrong with them

    @property
    def slug(self) -> str:
        return str(self.gpu.get("slug", NO_GPU))

    @property
    def unit(self) -> str:
        """The very GPU, by its UUID; empty where that is unknown."""
        return str(self.gpu.get("uuid", ""))

    def setting(self, name: str) -> str:
        """A setting as it is compared: of driver and toolkit, the major version alone."""
        value = str(self.gpu.get(name, ""))
        return value.split(".", maxsplit=1)[0] if name in ("driver", "toolkit") else value


def read_run(path: Path, tolerant: bool = False) -> Run:
    """A run that pytest-benchmark saved, or such a file made smaller by xz.

    Raises BadRun; if ``tolerant``, a bad case costs only that case.
    """
    try:
        content = path.read_bytes()
        document = json.loads((lzma.decompress(content) if path.suffix == ".xz" else content).decode())
    except (OSError, UnicodeDecodeError, lzma.LZMAError) as error:
        raise BadRun(f"{path}: cannot be read ({error})") from None
    except json.JSONDecodeError as error:
        raise BadRun(f"{path}: is not whole JSON ({error})") from None
    if not isinstance(document, dict) or not isinstance(document.get("benchmarks"), list):
        raise BadRun(f"{path}: is not a run of pytest-benchmark (it has no list of benchmarks)")
    cases, problems = _read_cases(path, document["benchmarks"])
    if problems and not tolerant:
        raise BadRun(next(iter(problems.values())))
    about = document.get("warpwatch", {})
    gpu = document.get("machine_info", {}).get("gpu", {})
    commit = document.get("commit_info", {})
    failed, slower = (tuple(about.get(name, ())) for name in ("failed", "slower"))
    against = str(about.get("against", ""))
    when = str(document.get("datetime", ""))
    return Run(path, gpu, cases, bool(about.get("whole", False)), commit, failed, slower, against, when, problems)


def _read_cases(path: Path, entries: Sequence[Any]) -> tuple[dict[str, Timed], dict[str, str]]:
    """The cases of a run, and those that cannot be used, with a sentence each."""
    cases: dict[str, Timed] = {}
    problems: dict[str, str] = {}
    for entry in entries:
        name = str(entry.get("param", entry.get("name"))) if isinstance(entry, dict) else "a benchmark"
        try:
            timed = _read_case(path, name, entry)
            if name in cases:
                raise BadRun(f"{path}: lists {name} twice")
            cases[name] = timed
        except BadRun as error:
            problems[name] = str(error)
    return {name: timed for name, timed in cases.items() if name not in problems}, problems


def _read_case(path: Path, name: str, entry: Any) -> Timed:
    try:
        samples = tuple(map(float, entry["stats"]["data"]))
        facts = entry["extra_info"]
    except (KeyError, TypeError, ValueError) as error:
        raise BadRun(f"{path}: {name} has no samples ({error!r}); save with --benchmark-save-data") from None
    if not samples or not all(0 < sample < float("inf") for sample in samples):
        raise BadRun(f"{path}: {name} has samples that are no times (NaN, infinite, zero or negative, or none)")
    return Timed(samples, facts)


def read_runs(folder: Path) -> list[Run]:
    """Every run in a folder, in the order of their names."""
    return [read_run(path) for path in sorted(folder.glob("*.json"))]


def write_new(folder: Path, name: str, document: Mapping[str, Any]) -> Path:
    """Save as the next NNNN_<name>.json of the folder, whole or not at all; of two at once both are kept."""
    # json would write a NaN that other readers do not take; there is none in a run.
    text = json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".tmp") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
        Path(file.name).chmod(0o644)
        while True:
            numbers = [int(path.name[:4]) for path in folder.glob("[0-9][0-9][0-9][0-9]_*.json")]
            path = folder / f"{max(numbers, default=0) + 1:04}_{name}.json"
            with contextlib.suppress(FileExistsError):  # another run was quicker
                os.link(file.name, path)
                return path


def objections(runs: Sequence[Run], previous: Sequence[Run]) -> dict[str, list[str]]:
    """Why these runs should not become a baseline: a word to allow it by, and what is wrong."""
    found: dict[str, list[str]] = {word: [] for word in ("failed", "partial", "dirty", "mixed", "gpu", "against")}
    settings = [(run, {name: run.setting(name) for name in SETTINGS}) for run in runs]
    for run, setting in settings:
        if run.failed:
            found["failed"].append(f"{run.path}: {len(run.failed)} cases failed: {', '.join(run.failed[:3])} ...")
        if not run.whole or run.cases.keys() != runs[0].cases.keys():
            found["partial"].append(f"{run.path}: does not hold every case")
        if run.commit.get("dirty", True):
            found["dirty"].append(f"{run.path}: was measured on uncommitted changes")
        elif not re.fullmatch("[0-9a-f]{40}", str(run.commit.get("id"))):
            found["dirty"].append(f"{run.path}: was measured outside a git checkout")
        if run.against:
            found["against"].append(f"{run.path}: was measured side by side with {run.against[:12]}, in fewer samples")
        if not run.gpu:
            found["gpu"].append(f"{run.path}: was measured without a GPU")
        for name, word in SETTINGS.items():
            if setting[name] != settings[0][1][name]:
                found["mixed"].append(f"{run.path}: another {word} ({setting[name]}, not {settings[0][1][name]})")
            elif previous and setting[name] != previous[0].setting(name):
                found["mixed"].append(f"{run.path}: another {word} than the baseline ({previous[0].setting(name)})")
    return {word: what for word, what in found.items() if what}


def promote(paths: Iterable[Path], allowed: Iterable[str], dry: bool) -> int:
    """Make saved runs the baseline of their GPU, after showing what changes. Exit status."""
    from bench.report import changes  # noqa: PLC0415  # the report reads runs, so it imports this module

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
        print(f"wrote {write_new(folder, run.path.stem.split('_', 1)[-1], json.loads(run.path.read_text()))}")
    # The old ones go last: an interruption leaves too many runs, never too few.
    for path in old:
        path.unlink()
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.baseline", description="The baseline of a GPU.")
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
        from bench.history import show  # noqa: PLC0415  # history reads runs, so it imports this module

        return show(options.runs, options.case)
    except BadRun as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    run_command(main)
