"""Tests that no shell reads a name: a checkout may be in a folder whose name is a command, with blanks and quotes."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import softcuda
from tests.project import ROOT
from warpwatch.devices.compile.compiler import CompileError, NoCompiler, Target, compile_file, nvcc

NAME = "d$(touch X) `touch X` ; touch X & 'q\" \\ -x\nend"
SHELLS = {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the checkout in a folder of such a name."""
    folder = tmp_path / NAME
    for name in ("kernels", "softcuda", "warpwatch"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


@pytest.fixture
def program() -> str:
    """NVIDIA's nvcc."""
    try:
        return nvcc().program
    except NoCompiler as missing:
        pytest.skip(str(missing))


def run(folder: Path, *arguments: str) -> str:
    """Run Python there, with the caches of kernels in that folder too."""
    environment = os.environ | {"WARPWATCH_CACHE": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(folder.parent.rglob("X")), "a shell has read the folder's name"
    return done.stdout


@pytest.mark.slow
def test_the_software_device_runs_kernels_of_any_folder(checkout: Path) -> None:
    assert "result    right" in run(
        checkout, "-m", "warpwatch", "run", "transpose-naive-16x16-17x33-float32", "--device=software"
    )


@pytest.mark.slow
def test_the_host_runs_kernels_of_any_folder(checkout: Path) -> None:
    assert "result    right" in run(checkout, "-m", "warpwatch", "run", "transpose-serial-host-17x33-float32")


@pytest.mark.usefixtures("program")
def test_nvcc_compiles_kernels_of_any_folder_to_the_same_code(checkout: Path) -> None:
    """NVIDIA's nvcc gives paths to a shell, so it must not be given this one."""
    code = (
        "from warpwatch.devices.compile.compiler import *\n"
        "macros = dict(scalar_t='float', BLOCK_X='16', BLOCK_Y='16')\n"
        "print(compile_file(ENGINE / 'kernels/matmul/tiled.cu', macros, Target('sm_90')).image_hash)"
    )
    macros = {"scalar_t": "float", "BLOCK_X": "16", "BLOCK_Y": "16"}
    here = compile_file(ROOT / "kernels/matmul/tiled.cu", macros, Target("sm_90"))
    assert run(checkout, "-c", code).strip() == here.image_hash


@pytest.mark.slow
@pytest.mark.usefixtures("program")
def test_nvcc_finds_headers_in_other_folders_of_any_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWATCH_CACHE", str(tmp_path / "cache"))
    root = tmp_path / "a project of $(touch X)"
    for name, text in {"k/scale.cu": '#include "part.h"\n', "inc/part.h": "__global__ void scale() {}\n"}.items():
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(text)
    image = compile_file(root / "k" / "scale.cu", {}, Target("sm_90"), root=root, include=[root / "inc"])
    (root / "inc" / "part.h").write_text("__global__ void scale(int*) {}\n")
    again = compile_file(root / "k" / "scale.cu", {}, Target("sm_90"), root=root, include=[root / "inc"])
    assert again.image_hash != image.image_hash


def test_an_nvcc_of_any_folder_is_called_by_a_plain_name(
    tmp_path: Path, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPWATCH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "tool$(touch X)" / "bin").mkdir(parents=True)
    there = tmp_path / "tool$(touch X)" / "bin" / "nvcc"
    refusal = 'case "$0$1" in *--version) ;; *touch*) echo "called as $0" >&2; exit 1; esac'
    there.write_text(f'#!/bin/sh\n{refusal}\nexec "{program}" "$@"\n')
    there.chmod(0o755)
    image = compile_file(ROOT / "warpwatch" / "devices" / "hold.cu", {}, Target("sm_90", str(there)))
    assert image.path.read_bytes()[:4] == b"\x7fELF"


@pytest.mark.usefixtures("program")
def test_a_source_outside_the_checkout_whose_name_a_shell_would_read_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "k$(touch X).cu"
    source.write_text('extern "C" __global__ void k() {}\n')
    with pytest.raises(CompileError, match="to a shell"):
        compile_file(source, {}, Target("sm_90"))


@pytest.mark.parametrize("name", ["-o.cpp", "@list.cpp", "-x $(touch X).cpp"])
def test_a_source_whose_name_begins_like_an_option_is_a_file(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPWATCH_CACHE", str(tmp_path / "cache"))
    (tmp_path / name).write_text('extern "C" int one() { return 1; }\n')
    assert compile_file(tmp_path / name, {}, None, root=tmp_path).path.exists()
    assert not list(tmp_path.rglob("X"))


def test_the_stand_in_passes_its_arguments_on_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / NAME / "compiling").mkdir(parents=True)
    (tmp_path / NAME / "compiling" / "nvcc").write_text("import sys\nprint(sys.argv[1:])\n")
    monkeypatch.setattr(softcuda, "HERE", tmp_path / NAME)
    program = softcuda.stand_in(tmp_path / "cache of mine")
    arguments = ["$(touch X)", "a b", "", "'", '"', "\n", "*", "-S"]
    done = subprocess.run([program, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ast.literal_eval(done.stdout) == arguments
    assert not list(tmp_path.rglob("X"))


def python_sources() -> list[Path]:
    folders = ("bench", "correctness", "kernels", "softcuda", "tests", "warpwatch")
    found = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return [ROOT / "conftest.py", ROOT / "softcuda" / "compiling" / "nvcc", *found]


@pytest.mark.slow
def test_no_python_file_starts_a_shell() -> None:
    for path in python_sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                assert ast.unparse(node.func) not in SHELLS, f"{path}:{node.lineno}"
                shell = [word for word in node.keywords if word.arg == "shell"]
                assert not shell, f"{path}:{node.lineno}"


def test_no_file_of_the_software_device_starts_a_shell() -> None:
    for path in (ROOT / "softcuda").rglob("*.cpp"):
        assert not re.search(r"\b(popen|system)\s*\(", path.read_text()), path
