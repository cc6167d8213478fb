"""Tests how many processes ``-n auto`` is: as many as GPUs where times are taken, and xdist's own number elsewhere."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from warpwatch.devices import model
from warpwatch.plugin import auto_number, bench_folder, worker_process


@pytest.mark.parametrize(
    ("device", "named", "gpus", "set_by_user", "wanted"),
    [
        ("auto", True, 4, False, 4),
        ("gpu", True, 2, False, 2),
        ("auto", True, 1, False, 0),
        ("auto", True, 0, False, None),
        ("auto", False, 4, False, None),
        ("software", True, 4, False, None),
        ("none", True, 4, False, None),
        ("auto", True, 4, True, None),
    ],
)
def test_auto_is_the_number_of_gpus_where_times_are_taken(
    device: str, named: bool, gpus: int, set_by_user: bool, wanted: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto_number, "value_of", lambda config, name: device)
    monkeypatch.setattr(worker_process, "setting_of", lambda config: SimpleNamespace(root=None))
    monkeypatch.setattr(bench_folder, "names_benchmark", lambda config, root: named)
    monkeypatch.setattr(model, "number_of_gpus", lambda: gpus)
    monkeypatch.delenv(auto_number.SET_BY_USER, raising=False)
    if set_by_user:
        monkeypatch.setenv(auto_number.SET_BY_USER, "3")
    assert auto_number.pytest_xdist_auto_num_workers(cast("Any", None)) == wanted
