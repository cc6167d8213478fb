"""Tests how many processes ``-n auto`` is: as many as GPUs where times are taken, some for each where tests are run.

Without a GPU it is xdist's own number."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from warpwatch.devices import gpus as gpus_module
from warpwatch.devices.machine import DeviceError
from warpwatch.plugin.xdist import processes


@pytest.mark.parametrize(
    ("options", "named", "gpus", "set_by_user", "wanted"),
    [
        ({}, True, 4, None, 4),
        ({"models": "differ"}, True, 4, None, 0),
        ({"device": "gpu"}, True, 2, None, 2),
        ({}, True, 4, "", 4),
        ({}, True, 1, None, 0),
        ({"self-check": True}, True, 4, None, 0),
        ({}, True, 0, None, None),
        ({}, True, DeviceError("the NVIDIA driver does not work"), None, None),  # which the run says by itself
        ({}, False, 1, None, 4),
        ({}, False, 4, None, 8),
        ({}, False, 16, None, 16),
        ({}, False, 64, None, 24),
        ({}, False, 0, None, None),
        ({"device": "software"}, False, 4, None, None),
        ({"device": "software"}, True, 4, None, None),
        ({"device": "none"}, True, 4, None, None),
        ({}, True, 4, "3", None),
    ],
)
def test_auto_is_the_number_of_gpus_where_times_are_taken_and_eight_share_them_elsewhere(
    options: dict[str, Any],
    named: bool,
    gpus: int | DeviceError,
    set_by_user: str | None,
    wanted: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = {"device": "auto", "self-check": False, "models": "alike"} | options
    monkeypatch.setattr(processes, "value_of", lambda config, name: given[name])
    monkeypatch.setattr(processes, "setting_of", lambda config: SimpleNamespace(root=None))
    monkeypatch.setattr(processes, "names_benchmark", lambda config, root: named)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(24))
    monkeypatch.setattr(gpus_module, "number_of_gpus", Mock(side_effect=[gpus]))
    monkeypatch.setattr(gpus_module, "model_of_all", lambda: "nvidia-h200" if given["models"] == "alike" else "")
    monkeypatch.delenv(processes.SET_BY_USER, raising=False)
    if set_by_user is not None:
        monkeypatch.setenv(processes.SET_BY_USER, set_by_user)
    assert processes.pytest_xdist_auto_num_workers(cast("Any", None)) == wanted
