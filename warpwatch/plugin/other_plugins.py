"""Options of other pytest plugins that are refused: times would mean nothing, or they fail when all is measured."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

PARAMETERS = ("family", "variant", "block", "shape", "dtype")  # of a case, in pytest-benchmark's tables
GROUPS = ("group", "name", "func", "fullname", "fullfunc", "param", *(f"param:{name}" for name in PARAMETERS))


def objection(config: pytest.Config) -> str:
    """Return a sentence that refuses another plugin's option; empty where there is none to refuse."""
    if int(config.getoption("count", None) or 1) > 1:  # pytest-repeat
        return (
            "--count: a case is timed once in a run, and found again by its id, which pytest-repeat changes; "
            "run `pytest bench` several times instead"
        )
    if config.getoption("reruns", None):  # pytest-rerunfailures; None without it, or without its option
        return (
            "--reruns: a kernel that is wrong or slower must not be run again until it passes; "
            "leave the option out (undecided cases are measured again in any case)"
        )
    return _objection_to_benchmark(config)


def _objection_to_benchmark(config: pytest.Config) -> str:
    """Return a sentence that refuses an option with which pytest-benchmark would fail at the end; or an empty text."""
    options = config.option
    if options.benchmark_compare_fail:
        return (
            "--benchmark-compare-fail compares with one run and knows no noise: leave it out, because with "
            "--benchmark-compare a slower kernel fails anyway (--fail-on chooses what else does)"
        )
    unknown = [label for label in options.benchmark_group_by.split(",") if label not in GROUPS]
    if unknown:
        return f"--benchmark-group-by: {unknown[0]!r} is not a label; there are {', '.join(GROUPS)}"
    for prefix in options.benchmark_histogram:
        if not all(map(importlib.util.find_spec, ("pygal", "pygaljs"))):
            return "--benchmark-histogram needs pygal and pygaljs: pip install 'pytest-benchmark[histogram]'"
        folder = next(folder for folder in Path(prefix).absolute().parents if folder.exists())
        if not (folder.is_dir() and os.access(folder, os.W_OK)):
            return f"--benchmark-histogram={prefix}: {folder} is not a folder that can be written"
    return ""
