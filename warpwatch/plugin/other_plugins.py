"""Refuses options of other pytest plugins with which times would mean nothing."""

from __future__ import annotations

import pytest


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
    return ""
