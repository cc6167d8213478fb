"""Tests what --toolchain makes of the device of a run, and when it is refused."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fake_gpu import INFO, TARGET
from warpwatch.devices.compile.compiler import Target
from warpwatch.devices.compile.toolchain import BadToolchain, Toolchain
from warpwatch.devices.info import DeviceInfo
from warpwatch.plugin import device
from warpwatch.plugin.device import INSTALLED_TARGET, TOOLCHAIN
from warpwatch.plugin.options import PREFIX

TEXT = "nvcc=13.2 -arch=sm_90a -O1"


def config_of(**options: str | None) -> Any:
    given = {PREFIX + name: value for name, value in options.items()}
    return SimpleNamespace(stash=pytest.Stash(), getoption=lambda name, default=None: given.get(name, default))


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are read as toolchains."""
    texts: list[str] = []

    def read_toolchain(text: str, say: object) -> Toolchain:
        texts.append(text)
        if "=" not in text:
            raise BadToolchain(f"{text!r} is not a toolchain: why")
        return Toolchain(
            text=text, program="/other/nvcc", arch=text.partition("-arch=")[2].partition(" ")[0], flags=("-O1",)
        )

    monkeypatch.setattr(device, "read_toolchain", read_toolchain)
    return texts


def test_this_side_is_compiled_by_the_toolchain_and_the_other_by_the_nvcc_that_is_here(read: list[str]) -> None:
    config = config_of(toolchain=TEXT, against="HEAD")
    made = device.with_toolchain(config, INFO)
    wanted = Target("sm_90a", "/other/nvcc", ("-O1",))
    assert isinstance(made, DeviceInfo)
    assert [made.target, made.timing_target, config.stash[INSTALLED_TARGET]] == [wanted, wanted, TARGET]
    assert config.stash[TOOLCHAIN].text == TEXT
    assert replace(made, target=TARGET, timing_target=TARGET) == INFO


def test_nothing_is_read_and_nothing_changes_without_the_option(read: list[str]) -> None:
    config = config_of(against="HEAD")
    assert device.with_toolchain(config, INFO) is INFO
    assert (read, config.stash[TOOLCHAIN]) == ([], None)


@pytest.mark.parametrize(
    ("text", "against", "changes", "said"),
    [
        (TEXT, None, {}, "--warpwatch-toolchain compares with another revision: give --warpwatch-against HEAD"),
        (
            TEXT,
            "HEAD",
            {"has_gpu_clock": False},
            "--warpwatch-toolchain needs a GPU, which machine code is for: `pyt",
        ),
        ("clang", "HEAD", {}, "--warpwatch-toolchain: 'clang' is not a toolchain: why"),
        ("nvcc -arch=sm_80", "HEAD", {}, "--warpwatch-toolchain: Fake GPU 1 runs code for sm_90, and none for sm_80"),
    ],
)
def test_it_is_refused_in_a_sentence(
    text: str, against: str | None, changes: dict[str, Any], said: str, read: list[str]
) -> None:
    refused = device.with_toolchain(config_of(toolchain=text, against=against), replace(INFO, **changes))
    assert isinstance(refused, pytest.UsageError)
    assert str(refused).startswith(said)
