"""Asks for the processor's description while kernels run: pytest-benchmark saves it, and it can take over a second."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

SECONDS = 10.0  # that the answer may take


def ask_early(config: pytest.Config) -> None:
    """Start to describe the processor in a process of its own, and let pytest-benchmark wait for it only at the end."""
    from pytest_benchmark import plugin  # noqa: PLC0415  # only where something is timed

    asking = subprocess.Popen(
        [sys.executable, "-m", "cpuinfo", "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    before = plugin.get_cpu_info
    vars(plugin)["get_cpu_info"] = lambda: _answer(asking, before)
    config.add_cleanup(lambda: _end(asking, before))


def _answer(asking: subprocess.Popen[bytes], before: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the description, by ``before`` where the process did not give it."""
    try:
        output, _ = asking.communicate(timeout=SECONDS)
        found = json.loads(output)
    except (subprocess.TimeoutExpired, ValueError):
        return before()
    return found if isinstance(found, dict) else before()


def _end(asking: subprocess.Popen[bytes], before: Callable[[], dict[str, Any]]) -> None:
    from pytest_benchmark import plugin  # noqa: PLC0415

    vars(plugin)["get_cpu_info"] = before
    asking.kill()
    asking.communicate()
