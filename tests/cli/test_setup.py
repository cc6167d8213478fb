"""Tests `warpwatch setup`: what it installs and builds, by an imitated pip, and what PyCUDA links with."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from warpwatch.cli import setup
from warpwatch.devices.compile.toolchain import requirements_of

HEADER = """
typedef int CUresult;
extern "C" CUresult cuInit(unsigned flags);
extern "C" CUresult  cuCtxCreate_v4 (void** context);
extern "C" int other();
"""


class Pip:
    """Stands in for pip: has PyCUDA's source for `download`, makes a wheel of it, and installs only what is there."""

    def __init__(self, top: Path) -> None:
        self.calls: list[list[str]] = []
        self.settings = ""
        (top / "pycuda-2026.1").mkdir()
        self.archive = top / "pycuda-2026.1.tar.gz"
        with tarfile.open(self.archive, "w:gz") as archive:
            archive.add(top / "pycuda-2026.1", "pycuda-2026.1")

    def run(self, command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        verb, *words = command[len(setup.PIP) :]
        self.calls.append([verb, *words])
        if verb == "download":
            shutil.copy(self.archive, words[-1])
        elif verb == "wheel":
            self.settings = Path(words[-1], "siteconf.py").read_text()
            Path(words[words.index("--wheel-dir") + 1], "pycuda-2026.1-cp311.whl").write_text("")
        missing = "--find-links" in words and not list(Path(words[words.index("--find-links") + 1]).glob("*.whl"))
        return subprocess.CompletedProcess(command, int(missing))


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pip:
    pip = Pip(tmp_path)
    monkeypatch.setattr(subprocess, "run", pip.run)
    monkeypatch.setattr(setup, "find_nvcc", lambda: "/cuda/bin/nvcc")
    monkeypatch.setattr(setup, "cuda_root", lambda: Path("/cuda"))
    monkeypatch.setattr(setup, "make_stub", lambda include, folder: None)
    return pip


def test_pycuda_is_built_once_against_the_headers_of_nvcc_and_its_wheel_is_kept(pip: Pip, tmp_path: Path) -> None:
    assert setup.run(wheels=tmp_path / "wheels") == 0
    assert [call[0] for call in pip.calls] == ["install", "install", "download", "wheel", "install"]
    assert "CUDA_INC_DIR = ['/cuda/include']" in pip.settings
    pip.calls.clear()
    assert setup.run(wheels=tmp_path / "wheels") == 0
    assert [call[0] for call in pip.calls] == ["install"]


def test_nvcc_comes_from_pypi_where_the_machine_has_none(pip: Pip, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "find_nvcc", lambda: "")
    assert setup.run(wheels=None) == 0
    verb, *packages = pip.calls[0]
    assert verb == "install"
    assert any(name.startswith("nvidia-cuda-nvcc~=") for name in packages)


def test_a_step_that_fails_is_one_sentence(
    pip: Pip, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise subprocess.CalledProcessError(1, ["pip", "wheel", Path("pycuda")])

    monkeypatch.setattr(setup, "build_wheel", fails)
    assert setup.run(wheels=None) == 2
    assert capsys.readouterr().err == "error: failed with status 1: pip wheel pycuda\n"


def test_extras_are_those_of_the_metadata_or_of_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["numpy>=1", 'pycuda>=2026.1; extra == "pycuda"', 'jinja2>=3.1; extra == "report"']
    monkeypatch.setattr(metadata, "requires", lambda name: lines)
    assert requirements_of("pycuda") == ["pycuda>=2026.1"]

    def missing(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", missing)
    assert [name.partition(">")[0] for name in requirements_of("pycuda")] == ["pycuda"]


@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")
def test_the_stub_defines_the_drivers_functions_under_its_name(tmp_path: Path) -> None:
    (tmp_path / "cuda.h").write_text(HEADER)
    (tmp_path / "cudaProfiler.h").write_text('extern "C" CUresult cuProfilerStart();\n')
    setup.make_stub(tmp_path, tmp_path)
    command = ["nm", "-D", "--defined-only", str(tmp_path / "libcuda.so")]
    names = {line.split()[-1] for line in subprocess.check_output(command, text=True).splitlines()}
    assert {name for name in names if name.startswith("cu")} == {"cuInit", "cuCtxCreate_v4", "cuProfilerStart"}
    assert "other" not in names
    assert b"libcuda.so.1\0" in (tmp_path / "libcuda.so").read_bytes()
