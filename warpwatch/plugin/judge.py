"""``--untrusted``: pytest's process is replaced by one that runs nothing that lies in the repository.

The first process may have imported what the repository wants: a plugin of its ``addopts``, a conftest.py. This one has
Python's own folders, those of packages, and the engine. It reads no pytest settings but the one that names kernels, no
conftest.py, and runs tests of ours (warpwatch/plugin/untrusted/) in place of the repository's. Declarations are data
there (devices/foreign/), and inputs are drawn by a seed that nobody knows before.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from warpwatch.catalogue.setting import SETTING

if TYPE_CHECKING:  # imported in every repository where pytest loads the plugin
    from warpwatch.devices.gpu import Settings

OPTION = "untrusted"
NAME = "warpwatch-judge"  # the plugin that only the second process has
TESTS = Path(__file__).parent / "untrusted"
# Variables that a process of pytest has besides those of isolated.KEPT. None of them names code.
KEPT = re.compile(
    r"HOME|USER|LOGNAME|TMPDIR|TERM|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|PY_COLORS|CI|GITHUB_ACTIONS|TZ"
    r"|XDG_CACHE_HOME|WARPWATCH_CACHE"
)
# What this repository's own settings say (pyproject.toml), for all.
USUAL = (
    "--benchmark-max-time=0.2",
    "--benchmark-min-rounds=3",
    "--warpwatch-serial-rounds=2",
    "--benchmark-warmup=on",
    "--benchmark-sort=min",
    "--benchmark-columns=median,iqr,min,rounds",
    "--benchmark-group-by=param:family,param:shape,param:dtype",
    "--benchmark-time-unit=us",
)
BOOT = """
import json, types
sys.path += json.loads(sys.argv[1])
import pytest
arguments = json.loads(sys.argv[2])
sys.argv[:] = ["pytest"]
sys.exit(pytest.main(arguments, [types.SimpleNamespace(__name__="warpwatch-judge")]))
"""


def is_judge(pluginmanager: pytest.PytestPluginManager) -> bool:
    """Tell whether this is the second process."""
    return pluginmanager.has_plugin(NAME)


def replace_process(config: pytest.Config) -> None:
    """Replace this process by the second one, with the same command line."""
    from warpwatch.devices.isolated import FIND_ENGINE, packages  # noqa: PLC0415  # where it is asked for

    root = config.rootpath
    named = str(config.getini(SETTING) or "")
    arguments = ["-p", "warpwatch.plugin", "-o", f"addopts={shlex.join(USUAL)}"]
    arguments += shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))
    arguments += [*map(str, config.invocation_params.args), *("-c", os.devnull, "--rootdir", str(root), "--noconftest")]
    arguments += ["--import-mode=importlib", "-o", f"{SETTING}={named}"]
    folders = [path for path in packages() if not _is_in(root, path) or _is_in(Path(sys.prefix), path)]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(
        sys.executable,
        [sys.executable, "-I", "-c", FIND_ENGINE + BOOT, json.dumps(folders), json.dumps(arguments)],
        _environment(root),
    )


def _environment(root: Path) -> dict[str, str]:
    """Return the environment of the second process, where programs are searched outside of the repository alone."""
    from warpwatch.devices import isolated  # noqa: PLC0415

    kept = {
        name: text
        for name, text in os.environ.items()
        if (isolated.KEPT.fullmatch(name) or KEPT.fullmatch(name)) and not isolated.SECRET.search(name)
    }
    for name in ("PATH", "LD_LIBRARY_PATH"):
        folders = [folder for folder in kept.get(name, "").split(os.pathsep) if os.path.isabs(folder)]
        outside = [folder for folder in folders if not _is_in(root, folder) or _is_in(Path(sys.prefix), folder)]
        kept |= {name: os.pathsep.join(outside)} if name in kept else {}
    return kept


def _is_in(folder: Path, path: str) -> bool:
    return Path(path).resolve().is_relative_to(folder.resolve())


def refuse(config: pytest.Config) -> None:
    """Raise UsageError where this run cannot be an untrusted one."""
    if objection := next(_objections(config), ""):
        raise pytest.UsageError(objection)


def _objections(config: pytest.Config) -> Iterator[str]:
    option = config.getoption
    if not is_judge(config.pluginmanager):
        yield "--untrusted: give it on the command line, which is read before anything of the repository is imported"
    if option("numprocesses", None) or option("dist", "no") != "no":
        yield "--untrusted: processes of xdist would import what lies in the repository: leave -n out"
    for name in ("against", "self_check"):
        if option(f"warpwatch_{name}", None):
            word = f"--{name.replace('_', '-')}"
            yield f"--untrusted: {word} measures two sides in one process, which one of them may change: leave it out"


def choose_tests(config: pytest.Config) -> None:
    """Put our tests in the place of those that the command line names: bench/ stands for the benchmark."""
    given = config.args if config.args_source is config.ArgsSource.ARGS else ["correctness"]
    config.args[:] = dict.fromkeys(map(_ours, given))


def _ours(argument: str) -> str:
    path, colons, name = argument.partition("::")
    file = "bench_kernels.py" if "bench" in re.split(r"[/_.]", path) else "test_kernels.py"
    return f"{TESTS / file}{colons}{name}"


def written(item: pytest.Item) -> str:
    """Return how a test of ours is named on the command line."""
    folder = "bench" if item.path.name.startswith("bench") else "correctness"
    return f"{folder}::{item.name}"


def names_benchmark(config: pytest.Config) -> bool:
    """Tell whether this run is of the benchmark."""
    return any(str(argument).startswith(str(TESTS / "bench_kernels.py")) for argument in config.args)


def seed_of(given: int | None) -> int:
    """Return the seed of a run: a new one, unless an earlier one is given."""
    return int.from_bytes(os.urandom(8)) if given is None else given


def notes(settings: Settings) -> list[str]:
    """Say by which seed a run drew its inputs, which nobody could know before it ended."""
    seed = settings.run_seed
    return [f"untrusted: inputs were drawn by --draw-seed={seed}"] if settings.untrusted else []
