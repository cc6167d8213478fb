"""Tests what a process that runs another revision's Python can reach of this user's other processes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from warpwatch.devices import isolated
from warpwatch.devices.isolated import Isolated, environment

LOOK = """
import os, signal, subprocess, sys
parent = int(sys.argv[1])
for name in ("environ", "maps", "mem"):
    try:
        with open(f"/proc/{parent}/{name}", "rb") as file:
            print(name, "is open" if name == "mem" else b"a secret" in file.read() or "was read")
    except OSError:
        print(name, "is closed")
try:
    os.kill(parent, 0)
    print("signals pass")
except PermissionError:
    print("no signals")
os.mkdir("sub")
open("file", "w").close()
os.rename("file", "sub/file")
print(subprocess.run(["sh", "-c", f"cat /proc/{parent}/environ"], capture_output=True).returncode)
print(sorted(name for name in os.environ if "SECRET" in name or "TOKEN" in name))
"""


def run(program: Path, tmp_path: Path, *arguments: str) -> list[str]:
    """Run a program in an isolated process to its end; return the lines that it prints."""
    with tempfile.TemporaryFile() as output:
        process = Isolated(program, arguments, tmp_path, output)
        process.process.wait(30)
        process.end()
        output.seek(0)
        return output.read().decode().splitlines()


def has_landlock() -> bool:
    code = "import ctypes; print(ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1))"
    return int(subprocess.check_output([sys.executable, "-c", code])) >= 6


def test_it_reads_nothing_of_its_parent_and_sends_it_no_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_landlock() and os.geteuid():
        pytest.skip("needs Landlock, which protects a user's processes from each other: run it on Linux 6.12 or newer")
    monkeypatch.setenv("GITHUB_TOKEN", "a secret")
    program = tmp_path / "look.py"
    program.write_text(LOOK)
    code = (
        "import sys, os, tempfile; from pathlib import Path; from tests.devices.test_isolated import run\n"
        "print(*run(Path(sys.argv[1]), Path(sys.argv[2]), str(os.getpid())), sep='\\n')"
    )
    # By a process whose environment has held the token since its start, which is what /proc shows.
    done = subprocess.run(
        [sys.executable, "-c", code, str(program), str(tmp_path)], capture_output=True, text=True, check=True
    )
    closed = ["environ is closed", "maps is closed", "mem is closed"]
    signals = "no signals" if has_landlock() else "signals pass"
    assert done.stdout.splitlines() == [*closed, signals, "1", "[]"]


@pytest.mark.parametrize(
    ("name", "is_kept"),
    [
        *((name, True) for name in ("PATH", "LD_LIBRARY_PATH", "LC_ALL", "CUDA_VISIBLE_DEVICES", "CUDA_HOME")),
        *((name, True) for name in ("NVIDIA_TF32_OVERRIDE", "TRITON_F32_DEFAULT", "OMP_NUM_THREADS", "SOFTCUDA_SEED")),
        *((name, False) for name in ("GITHUB_TOKEN", "ACTIONS_RUNTIME_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE")),
        *((name, False) for name in ("SSH_AUTH_SOCK", "MYPATH", "PYTHONPATH", "PYTHONSTARTUP", "LD_PRELOAD")),
        *((name, False) for name in ("CUDA_REGISTRY_TOKEN", "TORCH_HUB_PASSWORD", "cuda_api_key", "DATABASE_URL")),
    ],
)
def test_a_variable_is_kept_where_gpu_programs_read_it_and_it_names_no_secret(
    monkeypatch: pytest.MonkeyPatch, name: str, is_kept: bool
) -> None:
    monkeypatch.setenv(name, "of the user")
    assert (environment("/home").get(name) == "of the user") == is_kept
    assert environment("/home")["HOME"] == "/home"


def test_no_code_of_the_tree_runs_before_the_process_is_kept_apart(tmp_path: Path) -> None:
    for name in ("sitecustomize", "usercustomize", "runpy", "ctypes"):
        (tmp_path / f"{name}.py").write_text("print('the tree runs')\n")
    program = tmp_path / "elsewhere" / "program.py"
    program.parent.mkdir()
    program.write_text("print('the program runs')\n")
    assert run(program, tmp_path) == ["the program runs"]


def test_folders_of_pythonpath_count_unless_they_may_be_of_this_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("checkout/inside", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "checkout")
    given = [tmp_path / "checkout", tmp_path / "checkout" / "inside", tmp_path, tmp_path / "elsewhere", "relative"]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, given)))
    found = [path for path in isolated.packages() if path in map(str, given)]
    assert found == [str(tmp_path / "elsewhere")]
