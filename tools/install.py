"""Installs the packages of this repository into the environment of its Python: ``.venv/bin/python tools/install.py``.

``--engine PACKAGE...`` installs Warpwatch itself there, and these packages, for a repository that uses it: the action
in .github/actions/warpwatch calls it so. ``--docs`` installs what `make docs` needs beside these.

``warpwatch setup`` installs nvcc and builds PyCUDA. This file uses the standard library alone, because nothing else is
installed yet.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WHEELS = Path.home() / ".cache" / "warpwatch-wheels"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
BUILD = "import softcuda; softcuda.build(softcuda.cache_folder())"
SETUP = [sys.executable, "-m", "warpwatch", "setup"]


def main() -> None:
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = document["dependency-groups"]
    if sys.argv[1:2] == ["--engine"]:
        install_engine(sys.argv[2:])
    elif sys.argv[1:2] == ["--docs"]:
        say("installing Sphinx")
        install_beside("docs", groups["docs"])
    else:
        say("installing Python packages")
        # By name, because an old pip knows no groups.
        run([*PIP, "install", *document["project"]["dependencies"], *groups["dev"]])
        # Not in the environment, where pytest would load them; and so without what they depend on.
        install_beside("plugins", ["--no-deps", *groups["plugins"]])
        # Part of PyCUDA's build takes one core. What is wrong with that of the software device, its first user is told.
        softcuda = subprocess.Popen([sys.executable, "-c", BUILD], cwd=ROOT, stderr=subprocess.DEVNULL)
        run(SETUP, ROOT)
        softcuda.wait()


def install_beside(folder: str, packages: list[str]) -> None:
    """Install packages into a folder of the environment, from which Python imports nothing by itself."""
    run([*PIP, "install", "--upgrade", "--target", str(Path(sys.prefix, folder)), *packages])


def install_engine(packages: list[str]) -> None:
    """Install Warpwatch as a package, with what its reports and differences need, and the user's own packages.

    The wheel of PyCUDA is kept in WHEELS, so that only the first job builds it.
    """
    say("installing Warpwatch")
    with tempfile.TemporaryDirectory() as name:
        source = Path(name, "warpwatch")  # a copy, because setuptools builds in the folder of the source
        left_out = shutil.ignore_patterns(".*", "build", "bench", "tests", "__pycache__", "*.egg-info")
        shutil.copytree(ROOT, source, ignore=left_out)
        run([*PIP, "install", f"{source}[report,disassembly]", *packages])
    run([*SETUP, "--wheels", str(WHEELS)])


def run(command: list[str], folder: Path | None = None) -> None:
    done = subprocess.run(command, cwd=folder, check=False)
    if done.returncode:
        sys.exit(f"failed: {' '.join(command)}")


def say(text: str) -> None:
    print(f"set-up: {text}", flush=True)


if __name__ == "__main__":
    main()
