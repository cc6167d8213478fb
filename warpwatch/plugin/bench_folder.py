"""Finds bench/ on the command line, lets pytest collect it, and keeps saved runs in the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from warpwatch.catalogue.project import Project

STORAGE = "--benchmark-storage"
BENCHMARK = "bench/bench_kernels.py"


def keep_storage_in_root(config: pytest.Config, project: Project) -> None:
    """Save runs where the repository wants them, wherever pytest was started, unless the user names a storage.

    pytest-benchmark takes its own default, like what the user names, from the current folder.
    """
    words = (*config.invocation_params.args, *config.getini("addopts"), *os.environ.get("PYTEST_ADDOPTS", "").split())
    given = any(str(word).partition("=")[0] == STORAGE for word in words)
    if not given:
        config.option.benchmark_storage = f"file://{project.saved_runs}"


def collect_benchmark(config: pytest.Config, root: Path) -> None:
    """Let pytest collect bench/bench_kernels.py, which its own patterns leave out, where bench/ is named.

    So a run of all tests, which may be in several processes, times nothing, and a repository need not change its own
    patterns.
    """
    if names_benchmark(config, root):
        config.addinivalue_line("python_files", BENCHMARK)
        config.addinivalue_line("python_functions", "bench_kernel")


def names_benchmark(config: pytest.Config, root: Path) -> bool:
    """Tell whether the command line, or testpaths, name bench/ or what lies in it."""
    file = root / BENCHMARK
    paths = [(config.invocation_params.dir / argument.split("::")[0]).resolve() for argument in config.args]
    return file.is_file() and any(path.is_relative_to(file.parent.resolve()) for path in paths)
