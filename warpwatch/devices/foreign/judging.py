"""Starts the process that judges kernels which somebody else wrote: pytest, without anything of the repository.

It has Python's own folders, those of packages, and the engine. It reads no pytest settings of the repository but the
one that names kernels, no conftest.py, and runs tests of ours (warpwatch/plugin/judge.py).
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from warpwatch.catalogue.setting import SETTING
from warpwatch.devices import isolated

# Variables that a process of pytest has besides those of isolated.KEPT. None of them names code.
KEPT = re.compile(
    r"HOME|USER|LOGNAME|TMPDIR|TERM|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|PY_COLORS|CI|GITHUB_ACTIONS|TZ"
    r"|XDG_CACHE_HOME|WARPWATCH_CACHE"
)
# What this repository's own settings say (pyproject.toml), for all.
USUAL = (
    "--benchmark-max-time=0.2",
    "--benchmark-min-rounds=3",
    "--warpwatch-serial-rounds=1",
    "--benchmark-warmup=on",
)
BOOT = """
import json, types
packages = json.loads(sys.argv[1])
sys.path[:] = [*(path for path in sys.path if path not in packages), *packages]
import pytest
arguments = json.loads(sys.argv[2])
judge = types.ModuleType("warpwatch-judge")
judge.command = sys.argv[3]
sys.argv[:] = ["pytest"]
sys.exit(pytest.main(arguments, [judge]))
"""


def replace_process(root: Path, named: str, arguments: Sequence[str], command: Sequence[str]) -> NoReturn:
    """Replace this process by the one that judges.

    ``root``: the repository's folder. ``named``: what pytest's own setting says of its kernels. ``arguments``: for
    pytest. ``command``: as the user typed it.
    """
    words = ["-p", "warpwatch.plugin", "-o", f"addopts={shlex.join(USUAL)}", *arguments]
    words += ["-c", os.devnull, "--rootdir", str(root), "--noconftest", "--import-mode=importlib"]
    words += ["-o", f"{SETTING}={named}"]
    folders = [path for path in isolated.packages() if _is_apart(root, path)]
    boot = [sys.executable, "-I", "-c", isolated.FIND_ENGINE + BOOT]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(
        sys.executable,
        [*boot, *map(json.dumps, (folders, words)), shlex.join(command)],
        # Isolated Python does not read PYTHONPATH; `isolated.packages` does, for the processes that this one starts.
        _environment(root) | {"PYTHONPATH": os.pathsep.join(folders)},
    )


def _environment(root: Path) -> dict[str, str]:
    """Return the environment of that process, where programs are searched outside of the repository alone."""
    kept = {
        name: text
        for name, text in os.environ.items()
        if (isolated.KEPT.fullmatch(name) or KEPT.fullmatch(name)) and not isolated.SECRET.search(name)
    }
    for name in {"PATH", "LD_LIBRARY_PATH"} & kept.keys():
        folders = (folder for folder in kept[name].split(os.pathsep) if os.path.isabs(folder))
        kept[name] = os.pathsep.join(folder for folder in folders if _is_apart(root, folder))
    return kept


def _is_apart(root: Path, path: str) -> bool:
    """Tell whether a folder is not the repository's, or that of the environment which this Python belongs to."""
    own = Path(path).resolve()
    return not own.is_relative_to(root.resolve()) or own.is_relative_to(Path(sys.prefix).resolve())
