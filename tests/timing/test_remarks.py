"""Tests that settings of a GPU that matter to times are told, by an imitation of NVML."""

from __future__ import annotations

from typing import Any

import pytest

from warpwatch.timing.nvml import host_remark, remarks


class NVMLError(Exception):
    """What the vendor's binding raises."""


class Nvml:
    """An imitation of NVML; ``settings`` are the answers to its questions, by name."""

    NVMLError = NVMLError
    QUIET: dict[str, Any] = {  # noqa: RUF012  # never changed
        "IsMigDeviceHandle": False,
        "GetMigMode": [0, 0],
        "GetMPSComputeRunningProcesses": [],
        "GetPersistenceMode": 1,
        "GetEccMode": [1, 1],
        "GetDisplayActive": 0,
    }

    def __init__(self, **settings: Any) -> None:
        self.settings = self.QUIET | settings

    def __getattr__(self, name: str) -> Any:
        answer = self.settings[name.removeprefix("nvmlDevice")]

        def tell(handle: object) -> Any:
            if isinstance(answer, type):
                raise answer
            return answer

        return tell


def test_a_gpu_set_up_for_times_has_no_remarks() -> None:
    assert remarks(Nvml(), None) == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"IsMigDeviceHandle": True}, "this is a slice of a GPU (MIG)"),
        ({"GetMigMode": [1, 1]}, "divided into slices (MIG)"),
        ({"GetMPSComputeRunningProcesses": [1]}, "through MPS"),
        ({"GetPersistenceMode": 0}, "persistence mode is off"),
        ({"GetEccMode": [0, 0]}, "ECC is off"),
        ({"GetDisplayActive": 1}, "a display is attached"),
    ],
)
def test_what_matters_is_one_sentence(settings: dict[str, Any], said: str) -> None:
    (sentence,) = remarks(Nvml(**settings), None)
    assert said in sentence


@pytest.mark.parametrize("name", sorted(Nvml.QUIET))
@pytest.mark.parametrize("error", [NVMLError, AttributeError])
def test_what_is_not_told_hides_nothing_else(name: str, error: type[Exception]) -> None:
    settings: dict[str, Any] = {"GetDisplayActive": 1, "GetPersistenceMode": 0, name: error}
    found = remarks(Nvml(**settings), None)
    assert len(found) == 2 - (name in ("GetDisplayActive", "GetPersistenceMode"))


def test_a_busy_host_is_told() -> None:
    assert host_remark(8.0, 8) == ""
    assert "load 8.4 on 8 cores" in host_remark(8.4, 8)
