"""Makes repositories of other people, whose kernels are copies of some of this repository's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.checkout import ENGINE
from tests.fork_server import Preparation, run_module
from tests.project import ROOT

TABLE = '[tool.warpwatch]\nkernels = "mine"\n'
PYTEST = ("pytest", "-p", "warpwatch.plugin", "-p", "no:cacheprovider")
SETTING = '[tool.pytest.ini_options]\nwarpwatch_kernels = "mine"\n'


def declare(folder: Path, settings: str = TABLE) -> Path:
    """Write a package ``mine``, which declares the family copy, and a pyproject.toml; returns the package's folder."""
    package = folder / "mine"
    shutil.copytree(ROOT / "kernels" / "copy", package, ignore=shutil.ignore_patterns("__pycache__"))
    text = (package / "__init__.py").read_text().replace("from kernels.copy.", "from mine.")
    (package / "__init__.py").write_text(text)
    (folder / "pyproject.toml").write_text(settings)
    return package


def made_by_init(folder: Path, *options: str) -> Path:
    """Make a git repository with what ``warpwatch init`` writes, on the branch main and not committed; returns it."""
    folder.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=folder, check=True)
    done = run_command(folder, "init", *options)
    assert done.returncode == 0, done.stderr
    return folder


def environment() -> dict[str, str]:
    """Return the environment of a program that finds the engine, as if it were installed, and nothing of xdist."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return own | {"PYTHONPATH": str(ROOT)}


def run_pytest(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in another repository, with the plugin loaded as an installed one is."""
    # Hypothesis takes as long to be imported as the rest of a short run takes.
    return _run_module(folder, *PYTEST, "-p", "no:hypothesispytest", *args)


def start_pytest(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run pytest as run_pytest does, in a Python that has imported nothing before."""
    return run_python(folder, "-m", *PYTEST, *args)


def run_command(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run the command ``warpwatch`` in another repository."""
    return _run_module(folder, "warpwatch", *args)


def _run_module(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    engine = Preparation(folder=ROOT, packages=("softcuda", "warpwatch"), code=ENGINE)
    return run_module(args, folder, environment(), seconds=100, imports_from_folder=False, preparation=engine)


def run_python(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run Python in another repository."""
    return subprocess.run(
        [sys.executable, "-P", *args],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
