"""``--untrusted``: pytest's process is replaced by one that runs nothing that lies in the repository.

The first process may have imported what the repository wants, such as a plugin of its ``addopts``; `warpwatch judge`
starts the second one (devices/foreign/judging.py) without a first. It runs tests of ours (warpwatch/plugin/untrusted/)
in place of the repository's. Declarations are data there, and inputs are drawn by a seed that nobody knows before.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from warpwatch.catalogue.setting import SETTING

if TYPE_CHECKING:  # imported in every repository where pytest loads the plugin
    from warpwatch.devices.worker import Worker

OPTION = "untrusted"
NAME = "warpwatch-judge"  # the plugin that only the second process has
TESTS = Path(__file__).parent / "untrusted"


def is_judge(pluginmanager: pytest.PytestPluginManager) -> bool:
    """Tell whether this is the second process."""
    return pluginmanager.has_plugin(NAME)


def replace_process(config: pytest.Config) -> NoReturn:
    """Replace this process by the second one, with the same command line."""
    from warpwatch.devices.foreign import judging  # noqa: PLC0415  # where it is asked for

    given = [*map(str, config.invocation_params.args)]
    words = [*shlex.split(os.environ.get("PYTEST_ADDOPTS", "")), *given]
    judging.replace_process(config.rootpath, str(config.getini(SETTING) or ""), words, ["pytest", *given])


def command(config: pytest.Config) -> str:
    """Return the command line of this run as the user typed it, which is not that of the second process."""
    plugin = config.pluginmanager.get_plugin(NAME)
    return plugin.command if plugin else shlex.join(["pytest", *map(str, config.invocation_params.args)])


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
    config.args[:] = dict.fromkeys(_ours(argument, config.rootpath) for argument in given)


def _ours(argument: str, root: Path) -> str:
    path, colons, name = argument.partition("::")
    here = Path(path).relative_to(root) if Path(path).is_relative_to(root) else Path(path)
    is_timed = "bench" in re.split(r"[/_.]", str(here)) or name.startswith("bench_")
    file = "bench_kernels.py" if is_timed else "test_kernels.py"
    return f"{TESTS / file}{colons}{name}"


def written(nodeid: str) -> str:
    """Return how a test of ours is named on the command line."""
    name = nodeid.rpartition("::")[2]
    return f"{'bench' if name.startswith('bench_') else 'correctness'}::{name}"


def names_benchmark(config: pytest.Config) -> bool:
    """Tell whether this run is of the benchmark."""
    return any(str(argument).startswith(str(TESTS / "bench_kernels.py")) for argument in config.args)


def seed_of(given: int | None) -> int:
    """Return the seed of a run: a new one, unless an earlier one is given."""
    return int.from_bytes(os.urandom(8)) if given is None else given


def note_confinement(worker: Worker) -> None:
    """Note what the process of the call that was tested or timed last is not kept from, for ``notes``."""
    from warpwatch.timing.candidate_samples import missing  # noqa: PLC0415  # imports what opens a device

    if worker.settings.untrusted and worker.child:  # else it died, and the test says so
        others: set[str] = getattr(worker.project, "others", set())
        others.update(worker.call(missing))


def notes(worker: Worker, device: object) -> list[str]:
    """Say by which seed a run drew its inputs, which nobody could know before it ended, and what it could not see."""
    if not worker.settings.untrusted:
        return []
    lines = [f"untrusted: inputs and poison follow from --draw-seed={worker.settings.run_seed}"]
    missing: tuple[str, ...] = getattr(worker.project, "missing", ())
    lines += [f"untrusted: a process of the repository's Python is not kept apart: {each}" for each in missing]
    if getattr(device, "finds_faults", False):
        lines.append("untrusted: the software device runs kernels in the process that launches them, a GPU does not")
    return lines
