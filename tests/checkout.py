"""Copies the checkout to a folder, for tests of `pytest bench` as a whole."""

from __future__ import annotations

import atexit
import compileall
import contextlib
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fork_server import Preparation, run_module
from tests.project import ROOT

COMMIT = ("-c", "user.name=A tester", "-c", "user.email=tester@example.org", "commit", "-q", "-m", "a state")
# Commits of the same files have the same hash each time that the tests run: --against finds them unpacked in the cache.
DATES = {"GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z"}
# What most runs import of the engine. The plugin is not among it, because pytest rewrites its assertions.
ENGINE = """
import importlib, pkgutil
for room in ("catalogue", "compare", "explain", "report", "runs", "timing", "verdict"):
    package = importlib.import_module(f"warpwatch.{room}")
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
"""
CHECK = """
from kernels import FAMILIES
from warpwatch.catalogue.validation import problems
problems(FAMILIES)
"""
# What runs of pytest without rewritten assertions import besides.
PLUGINS = """
import pytest_benchmark.plugin, xdist.plugin
import warpwatch.plugin, warpwatch.plugin.benchmark, warpwatch.plugin.start
"""
FEW = "matmul and 128x128x128 and float32 and not host and not vendor"  # 17 cases


def without_rights(command: list[str]) -> list[str]:
    """Return the command for a process that obeys file permissions, even where this one is root."""
    if os.geteuid():
        return command
    return ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override", "--", *command]


@functools.cache
def _template() -> Path:
    """A copy of the checkout without recorded runs, committed in a repository of its own: what every Bench copies."""
    folder = Path(tempfile.mkdtemp(prefix="warpwatch-template-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    ignored = shutil.ignore_patterns("baselines", "recordings")
    for name in ("kernels", "bench", "correctness", "softcuda", "warpwatch"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    (folder / "tests").mkdir()
    for name in ("conftest.py", "pyproject.toml", ".gitignore", "tests/__init__.py", "tests/fake_gpu.py"):
        shutil.copy2(ROOT / name, folder / name)
    for command in (("init", "-q"), ("add", "-A"), COMMIT, ("repack", "-adq")):  # one file for git's, and not 500
        subprocess.run(["git", *command], cwd=folder, env=os.environ | DATES, check=True)
    compileall.compile_dir(folder, quiet=1)  # a third of the time of a short run is for compiling Python
    return folder


class Bench:
    """A copy of the checkout, in which pytest bench runs in other processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        _make_same(_template(), folder)
        self.baseline = folder / "bench" / "baselines" / "fake-gpu-1"

    def _run(self, *command: str, **play: Any) -> subprocess.CompletedProcess[str]:
        environment = os.environ | DATES | {"FAKE_GPU": json.dumps(play)}
        environment.pop("PYTEST_XDIST_WORKER", None)  # these tests may run under xdist; what they run does not
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # which is for folders that stay
        if command[:3] == (sys.executable, "-m", "pytest"):
            command = (
                *command,
                "--assert=plain",
            )  # so that the plugins may be imported before; no assertion fails there
        preparation = Preparation(
            folder=self.folder, packages=("kernels", "softcuda", "warpwatch"), code=ENGINE + PLUGINS + CHECK
        )
        return _run_in(self.folder, command, environment, preparation)

    def run_in(self, folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command in another folder, with these environment variables added."""
        own = {name: value for name, value in os.environ.items() if name != "PYTEST_XDIST_WORKER"}
        return _run_in(folder, command, own | environment)

    def declare_two_families(self) -> None:
        """Leave hello and copy: a run of every case then takes a second, and not eight."""
        declared = self.folder / "kernels" / "__init__.py"
        declared.write_text(declared.read_text() + "\nFAMILIES = FAMILIES[:2]\n")

    def commit(self) -> None:
        self._run("git", "add", "-A")
        self._run("git", *COMMIT)

    @property
    def saved(self) -> list[str]:
        return [str(path) for path in sorted((self.folder / ".benchmarks").rglob("*.json"))]

    def bench(self, *args: str, few: bool = True, **play: Any) -> subprocess.CompletedProcess[str]:
        """Run pytest bench. ``play``: settings of the fake GPU. ``few``: the 17 products of 128 cubed alone."""
        chosen = ("-k", FEW) if few else ()
        # Hypothesis takes as long to be imported as the rest of such a run takes.
        fake = ("-p", "tests.fake_gpu", "-p", "no:hypothesispytest")
        command = (sys.executable, "-m", "pytest", "bench", *fake, "-q", *chosen)
        # As many samples on a busy machine as on an idle one: with other samples some verdict differs.
        rounds = ("--benchmark-min-rounds=20", "--benchmark-max-time=0.000001")
        return self._run(*command, *rounds, *args, **play)

    def promote(self, *args: str) -> subprocess.CompletedProcess[str]:
        return self._run(sys.executable, "-m", "warpwatch", "baseline", "promote", *args)

    def fill_baseline(self) -> None:
        """Take over a baseline of a few cases and the saved runs that it was made from."""
        for name in (".benchmarks", "bench/baselines"):
            shutil.copytree(_recorded() / name, self.folder / name)
        self.commit()


_free: list[Path] = []  # folders of checkouts that no test has now


@contextlib.contextmanager
def lent_checkout(factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Lend a checkout whose folder an earlier test may have had: what that one left is put right first.

    That takes a tenth of the time of a copy, and what was imported from the folder is imported no second time.
    """
    folder = _free.pop() if _free else factory.mktemp("lent")
    yield Bench(folder)
    _free.append(folder)


def _make_same(wanted: Path, folder: Path) -> None:
    """Make a folder the same as another: delete what is more in it, and copy what is missing or has changed."""
    folder.chmod(0o700)
    there = {entry.name: entry for entry in os.scandir(folder)}
    for entry in os.scandir(wanted):
        found = there.pop(entry.name, None)
        if found and entry.name == "__pycache__":
            continue  # Python and pytest see by themselves whether a file there is still right
        if entry.is_dir():
            if found and not found.is_dir(follow_symlinks=False):
                os.unlink(found)
            (folder / entry.name).mkdir(exist_ok=True)
            _make_same(wanted / entry.name, folder / entry.name)
        elif found is None or _state(entry) != _state(found):
            if found:
                _delete(found)
            shutil.copy2(entry, folder / entry.name)
    for found in there.values():
        _delete(found)
    shutil.copystat(wanted, folder)


def _state(entry: os.DirEntry[str]) -> tuple[int, int, int]:
    about = entry.stat(follow_symlinks=False)
    return about.st_mode, about.st_size, about.st_mtime_ns


def _delete(entry: os.DirEntry[str]) -> None:
    if entry.is_dir(follow_symlinks=False):
        shutil.rmtree(entry)
    else:
        os.unlink(entry)


def _run_in(
    folder: Path, command: tuple[str, ...], environment: dict[str, str], preparation: Preparation | None = None
) -> subprocess.CompletedProcess[str]:
    if command[:2] == (sys.executable, "-m"):
        return run_module(command[2:], folder, environment, seconds=200, preparation=preparation)
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=200
    )


@functools.cache
def _recorded() -> Path:
    """A checkout with three saved runs and the baseline that `promote` made of them."""
    folder = Path(tempfile.mkdtemp(prefix="warpwatch-recorded-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    bench = Bench(folder)
    for seed in range(3):
        assert bench.bench(seed=seed).returncode == 0
    done = bench.promote(*bench.saved, "--allow", "partial")
    assert done.returncode == 0, done.stderr
    return folder
