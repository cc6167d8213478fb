"""Tests which model the GPUs are of, as an imitated NVML tells it."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from warpwatch.devices.model import model_of_all, smallest_memory

BYTES = {"NVIDIA H200": 150 << 30, "NVIDIA TITAN V": 12 << 30, "NVIDIA L4": 24 << 30}


class NotSupported(Exception):
    """NVML's error of a GPU that cannot be divided."""


def nvml(names: list[str], split: list[bool | None]) -> SimpleNamespace:
    """Imitate NVML with these GPUs; ``split`` is None where a GPU cannot be divided."""

    def mode(index: int) -> list[bool | None]:
        if split[index] is None:
            raise NotSupported
        return [split[index], split[index]]

    def memory(index: int) -> SimpleNamespace:
        return SimpleNamespace(total=BYTES[names[index]])

    return SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: len(names),
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda index: names[index],
        nvmlDeviceGetMigMode=mode,
        nvmlDeviceGetMemoryInfo=memory,
        NVMLError_NotSupported=NotSupported,
    )


@pytest.mark.parametrize(
    ("names", "split", "shown", "model", "memory"),
    [
        (["NVIDIA H200"] * 2, [False, False], None, "nvidia-h200", 150 << 30),
        (["NVIDIA H200"] * 2, [False, False], "1", "nvidia-h200", 150 << 30),
        (["NVIDIA H200"] * 2, [False, False], "GPU-9b3eccac", "nvidia-h200", 150 << 30),
        (["NVIDIA TITAN V"], [None], None, "nvidia-titan-v", 12 << 30),
        (["NVIDIA H200", "NVIDIA L4"], [False, None], None, "", 24 << 30),
        (["NVIDIA H200"] * 2, [False, True], None, "", 0),
        (["NVIDIA H200"], [False], "", "", 0),
        (["NVIDIA H200"], [False], "-1", "", 0),
        (["NVIDIA H200"], [True], "MIG-9b3eccac", "", 0),
        ([], [], None, "", 0),
    ],
)
def test_model_and_memory_are_known_where_nvml_tells_them(
    names: list[str],
    split: list[bool | None],
    shown: str | None,
    model: str,
    memory: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml(names, split))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if shown is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    assert model_of_all() == model
    assert smallest_memory() == memory


def test_without_nvml_the_model_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert model_of_all() == ""
    assert smallest_memory() == 0
