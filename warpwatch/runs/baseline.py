"""Makes saved runs the baseline of their GPU.

A baseline is all the runs in a folder named after the GPU: one process says nothing of the noise between processes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from warpwatch.runs.files import run_files, write_run
from warpwatch.runs.saved import SETTINGS, BadRun, Run, read_document


def objections(runs: Sequence[Run], previous: Sequence[Run]) -> dict[str, list[str]]:
    """Objections to making these runs a baseline: sentences by the word that allows them all the same."""
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


def replace_baseline(folder: Path, runs: Sequence[Run]) -> Iterator[Path]:
    """Write copies of saved runs into a baseline's folder, then remove its earlier runs. Yields the paths written.

    An interruption leaves too many runs, never too few. Raises BadRun or OSError.
    """
    old = run_files(folder)
    for run in runs:
        yield _write_into(folder, run.path)
    for path in old:
        path.unlink()


def _write_into(folder: Path, path: Path) -> Path:
    """Write a copy of a saved run into a baseline's folder. Raises BadRun or OSError."""
    name = path.name.split(".", maxsplit=1)[0].split("_", 1)[-1]
    try:
        return write_run(folder, name, read_document(path), packed=True)
    except ValueError as error:
        raise BadRun(f"{path}: holds a number that JSON does not have ({error})") from None
