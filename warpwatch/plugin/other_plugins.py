"""What other plugins of pytest can ask for that makes no sense of a time."""

from __future__ import annotations

import pytest


def objection(config: pytest.Config) -> str:
    """Why kernels cannot be timed as another plugin's option says, in a sentence; empty where nothing is wrong."""
    if int(config.getoption("count", None) or 1) > 1:  # pytest-repeat
        return (
            "--count: a case is timed once in a run, and found again by its id, which pytest-repeat changes; "
            "run `pytest bench` several times instead"
        )
    if config.getoption("reruns", None):  # pytest-rerunfailures; None without it, and where it is not asked for
        return (
            "--reruns: a kernel that is wrong or slower the first time is not to be asked until it is right; "
            "leave it away (undecided cases are measured again in any case)"
        )
    return ""
