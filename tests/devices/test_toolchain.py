"""Tests how toolchains are named and fetched. What nvcc makes of them is tested in tests/cli/test_toolchains.py."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from warpwatch.catalogue.launches import Capability
from warpwatch.devices.compile import toolchain
from warpwatch.devices.compile.compiler import Compiler, Target
from warpwatch.devices.compile.toolchain import BadToolchain, Toolchain, of_release, read_toolchain

BANNER = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 13.0, V13.0.88\n"


@pytest.fixture(autouse=True)
def _no_compiler_is_called(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(toolchain, "nvcc", lambda program="": Compiler(program or "nvcc", "13.0", BANNER))
    monkeypatch.setattr(toolchain, "architectures", lambda program="": [Capability(8, 0), Capability(9, 0)])
    monkeypatch.setenv("WARPWATCH_CACHE", str(tmp_path / "cache"))


def named(text: str) -> Toolchain:
    return read_toolchain(text, lambda said: None)


@pytest.mark.parametrize(
    ("text", "arch", "flags"),
    [
        ("nvcc", "", ()),
        ("nvcc -use_fast_math", "", ("-use_fast_math",)),
        ("-use_fast_math -O1", "", ("-use_fast_math", "-O1")),
        ("nvcc -arch=sm_90a -O3", "sm_90a", ("-O3",)),
        ("nvcc --gpu-architecture=sm_80", "sm_80", ()),
        ("nvcc -maxrregcount 24 -arch sm_80 -Xptxas '-O1 -v'", "sm_80", ("-maxrregcount", "24", "-Xptxas", "-O1 -v")),
    ],
)
def test_words_are_those_of_nvcc(text: str, arch: str, flags: tuple[str, ...]) -> None:
    assert named(text) == Toolchain(text=text, arch=arch, flags=flags)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' is not a toolchain: write it as nvcc calls it"),
        ("nvcc=", "'nvcc=' is not a toolchain"),
        ("clang=18", "'clang=18' is not a toolchain"),
        ("13.2", "'13.2' is not a toolchain"),
        ("nvcc 'a", "is not a toolchain: No closing quotation"),
        ("nvcc -arch=native", "-arch=native native names no architecture of machine code, such as sm_90a"),
        ("nvcc -arch", "-arch names no architecture"),
        ("nvcc -arch=sm_75", "nvcc 13.0 does not compile for sm_75; it knows sm_80, sm_90"),
        ("nvcc=/no/such/folder", "there is no nvcc in /no/such/folder: give a version, an nvcc, or a toolkit's folder"),
    ],
)
def test_what_is_wrong_is_a_sentence_that_names_the_toolchain(text: str, said: str) -> None:
    with pytest.raises(BadToolchain) as wrong:
        named(text)
    assert said in str(wrong.value)
    assert str(wrong.value).startswith(repr(text))


def test_a_folder_names_the_nvcc_in_it(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "nvcc"
    program.touch()
    assert [named(f"nvcc={path}").program for path in (tmp_path, program)] == [str(program)] * 2


def test_a_target_takes_what_a_toolchain_names_and_keeps_the_rest() -> None:
    base = Target("sm_90", "/own/nvcc", ("-g",))
    assert Toolchain().target(base) == base
    other = Toolchain(program="/old/nvcc", arch="sm_90a", flags=("-O1",))
    assert other.target(base) == Target("sm_90a", "/old/nvcc", ("-g", "-O1"))
    assert other.title == "nvcc 13.0.88 -arch=sm_90a -O1"


@pytest.mark.parametrize("arch", ["", "sm_89", "sm_89a", "sm_86", "sm_80"])
def test_a_gpu_runs_code_of_its_own_major_version_that_is_no_newer(arch: str) -> None:
    assert Toolchain(arch=arch).runs_on(Capability(8, 9))


@pytest.mark.parametrize("arch", ["sm_90", "sm_75", "sm_86a", "sm_120"])
def test_a_gpu_runs_no_other_code(arch: str) -> None:
    assert not Toolchain(arch=arch).runs_on(Capability(8, 9))


class FakePip:
    """Stands for pip: keeps its commands, and installs an nvcc unless it is told to fail."""

    def __init__(self, error: str = "") -> None:
        self.commands: list[Sequence[str]] = []
        self._error = error

    def __call__(self, command: Sequence[str], **_: Any) -> subprocess.CompletedProcess[str]:
        self.commands.append(command)
        if self._error:
            return subprocess.CompletedProcess(command, 1, "", f"WARNING: slow\n{self._error}\n")
        program = Path(command[command.index("--target") + 1], "nvidia", "cu13", "bin", "nvcc")
        program.parent.mkdir(parents=True)
        program.touch()
        return subprocess.CompletedProcess(command, 0, "", "")


@pytest.mark.parametrize(
    ("version", "nvcc"), [("13.2", "nvidia-cuda-nvcc==13.2.*"), ("13.2.86", "nvidia-cuda-nvcc==13.2.86")]
)
def test_a_version_is_fetched_once_and_into_the_cache_alone(
    version: str, nvcc: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = FakePip()
    monkeypatch.setattr(subprocess, "run", pip)
    found = [named(f"nvcc={version} -O1").program for _ in range(2)]
    folder = tmp_path / "cache" / "toolchains"
    assert found == [str(folder / f"nvcc-{version}" / "nvidia" / "cu13" / "bin" / "nvcc")] * 2
    (command,) = pip.commands
    target = Path(command[command.index("--target") + 1])
    assert target.is_relative_to(folder)
    assert target.parent != folder  # which has whole ones alone
    assert {nvcc, "nvidia-nvvm==13.2.*", "nvidia-cuda-crt==13.2.*"} <= {*command}
    assert [path.name for path in folder.iterdir()] == [f"nvcc-{version}"]


def test_a_version_that_cannot_be_fetched_leaves_nothing_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "ERROR: No matching distribution found for nvidia-cuda-nvcc==12.8.*"
    monkeypatch.setattr(subprocess, "run", FakePip(said))
    with pytest.raises(BadToolchain) as wrong:
        named("nvcc=12.8")
    assert str(wrong.value) == f"'nvcc=12.8' cannot be used: nvcc 12.8 cannot be fetched ({said}): {toolchain.OLDEST}"
    assert [*(tmp_path / "cache" / "toolchains").iterdir()] == []


def test_an_earlier_toolkit_is_that_of_its_usual_folder_else_fetched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(toolchain, "USUAL", tmp_path)
    monkeypatch.setattr(toolchain, "_fetch", lambda version, release, say: Path("/fetched") / version)
    monkeypatch.setattr(toolchain, "nvcc", lambda program: Compiler(program, "13.0", BANNER))
    assert of_release("13.0", print).program == "/fetched/13.0"
    program = tmp_path / "cuda-13.0" / "bin" / "nvcc"
    program.parent.mkdir(parents=True)
    program.touch()
    assert of_release("13.0", print).program == str(program)


def test_an_earlier_toolkit_that_nobody_has_is_not_asked_for_and_another_is_not_taken_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(toolchain, "USUAL", tmp_path)
    monkeypatch.setattr(toolchain, "_fetch", lambda version, release, say: pytest.fail("PyPI was asked"))
    monkeypatch.setattr(toolchain, "nvcc", lambda program: Compiler(program, "12.4", BANNER))
    folder = tmp_path / "cuda-12.9"
    with pytest.raises(BadToolchain, match=f"there is no nvcc in {folder}: PyPI has whole ones from 13.0 on"):
        of_release("12.9", print)
    program = folder / "bin" / "nvcc"
    program.parent.mkdir(parents=True)
    program.touch()
    with pytest.raises(BadToolchain, match=f"^{program} is of CUDA 12.4$"):
        of_release("12.9", print)
