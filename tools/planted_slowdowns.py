"""Plants the faults of tests/explain/planted into a repository, and compares both revisions on a GPU.

``python -m tools.planted_slowdowns OUT`` runs `pytest bench --against HEAD~1` there and prints for each fault the
verdict, the sentence that explains it, and whether that is the cause. Then `warpwatch explain` shows one of them in
full. The same goes to OUT/planted.txt.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from tests.explain import planted
from tests.explain.planted import EXPECTED
from tests.project import ROOT

IN_FULL = ("padding-tile-32x8-4096x4096-float32", "loads-squares-256-256x65536-float32")
IDENTITY = ("-c", "user.name=A tester", "-c", "user.email=tester@example.org")
PYPROJECT = '[tool.warpwatch]\nkernels = "planted"\n\n[tool.pytest.ini_options]\naddopts = "-p warpwatch.plugin"\n'
# What the sentence of a rule begins with.
BEGINS = {
    "flags": "nvcc's flags changed",
    "launch": "it is launched differently",
    "double precision": "float64 arithmetic came",
    "division": "more integer divisions",
    "coalescing": "global stores are less coalesced",
    "spills": "registers are spilled",
    "bank conflicts": "bank conflicts, as where",
    "tile": "tiles are smaller",
    "barriers": "more barriers",
    "restrict": "the compiler cannot tell any more",
    "width": "global loads are narrower",
    "unrolling": "the main loop is unrolled less",
    "occupancy": "occupancy fell",
    "more accesses": "more accesses",
}


def make_repository(folder: Path) -> None:
    """Make a repository of two commits: without the faults, and with them."""
    shutil.copytree(planted.FOLDER, folder / "planted", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "pyproject.toml").write_text(PYPROJECT)
    (folder / "bench").mkdir()
    shutil.copy2(ROOT / "warpwatch" / "templates" / "bench_kernels.py.txt", folder / "bench" / "bench_kernels.py")
    _git(folder, "init", "-q", "-b", "main")
    _commit(folder, "The kernels")
    planted.plant(folder / "planted")
    _commit(folder, "A fault in each of them")


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *IDENTITY, *arguments], cwd=folder, check=True)


def _commit(folder: Path, subject: str) -> None:
    _git(folder, "add", "-A")
    _git(folder, "commit", "-q", "-m", subject)


def _run(folder: Path, *arguments: str) -> str:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    environment = os.environ | {"PYTHONPATH": path}
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)
    return done.stdout + done.stderr


def lines_of(junit: Path) -> list[str]:
    """Describe each fault by the run's JUnit file, and count those whose cause is named."""
    lines, named, slower = [], 0, 0
    for case in ElementTree.parse(junit).getroot().iter("testcase"):
        properties = {each.get("name"): each.get("value") or "" for each in case.iter("property")}
        name = str(case.get("name")).partition("[")[2].partition("-")[0]
        sentence = properties.get("explanation", "")
        right = sentence.startswith(f"likely cause: {BEGINS[EXPECTED[name]]}")
        slower += properties.get("verdict") == "slower"
        named += right and properties.get("verdict") == "slower"
        state = "named" if right else "NOT NAMED"
        lines.append(f"{name:<11} {properties.get('comparison', '')}\n            {state}: {sentence}")
    return [*lines, f"{len(EXPECTED)} planted, {slower} slower, {named} of these with the cause that was planted"]


def main(arguments: Sequence[str]) -> int:
    out = Path(arguments[0])
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "repository"
        folder.mkdir()
        make_repository(folder)
        said = _run(folder, "pytest", "bench", "--warpwatch-against=HEAD~1", f"--junitxml={out / 'planted.xml'}")
        lines = [said, *lines_of(out / "planted.xml")]
        for case in IN_FULL:
            lines.append(_run(folder, "warpwatch", "explain", case, "--against", "HEAD~1"))
    (out / "planted.txt").write_text("\n".join(lines))
    print("\n".join(lines[1:]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
