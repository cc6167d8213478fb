"""Tests which model the GPUs are of, as an imitated NVML tells it."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from warpwatch.devices.gpus import model_of_all, sees_gpu


class NotSupported(Exception):
    """NVML's error of a GPU that cannot be divided."""


def nvml(names: list[str], split: list[bool | None]) -> SimpleNamespace:
    """Imitate NVML with these GPUs; ``split`` is None where a GPU cannot be divided."""

    def mode(index: int) -> list[bool | None]:
        if split[index] is None:
            raise NotSupported
        return [split[index], split[index]]

    return SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: len(names),
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda index: names[index],
        nvmlDeviceGetMigMode=mode,
        NVMLError_NotSupported=NotSupported,
    )


@pytest.mark.parametrize(
    ("names", "split", "shown", "model", "seen"),
    [
        (["NVIDIA H200"] * 2, [False, False], None, "nvidia-h200", True),
        (["NVIDIA H200"] * 2, [False, False], "1", "nvidia-h200", True),
        (["NVIDIA H200"] * 2, [False, False], "GPU-9b3eccac", "nvidia-h200", True),
        (["NVIDIA TITAN V"], [None], None, "nvidia-titan-v", True),
        (["NVIDIA H200", "NVIDIA L4"], [False, None], None, "", True),
        (["NVIDIA H200"] * 2, [False, True], None, "", False),
        (["NVIDIA H200"], [False], "", "", False),
        (["NVIDIA H200"], [False], "-1", "", False),
        (["NVIDIA H200"], [True], "MIG-9b3eccac", "", False),
        ([], [], None, "", False),
        (None, [], None, "", False),  # no NVML
    ],
)
def test_the_model_is_known_where_all_gpus_are_alike(
    names: list[str] | None,
    split: list[bool | None],
    shown: str | None,
    model: str,
    seen: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None if names is None else nvml(names, split))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if shown is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    assert model_of_all() == model
    assert sees_gpu() is seen
