"""What Clang has read of headers is kept, and read again only where nobody else could have written it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project import ROOT

KERNEL = "#include <vector>\n__global__ void k(int* p) { *p = 1; }\nstd::vector<int> numbers;\n"

MODES = """
import pathlib, precompiled, sys
for mode in 0o644, 0o664, 0o646:
    pathlib.Path(sys.argv[1]).chmod(mode)
    print(precompiled.is_trusted(pathlib.Path(sys.argv[1])))
"""

BEGINNINGS = """
import pathlib, precompiled
class Read:
    def save(self, path):
        pathlib.Path(path).touch()
def kept(text):
    return precompiled.beginning(text, lambda text: Read(), [], precompiled.__file__)
print(kept('# 1 "/a/k.cu"\\nint i;\\n') == kept('# 1 "/b/k.cu"\\nint i;\\n') != kept("int j;\\n"))
paths = [kept(f"int i{number};") for number in range(2 * precompiled.KEPT)]
print(len(list(paths[0].parent.iterdir())) == precompiled.KEPT)
"""


def kept_by(home: Path, first: str = "") -> dict[str, float]:
    """Compile a kernel, and return the kept files with the times at which they were written.

    ``first``: a folder in front of the PATH.
    """
    source = home / "k.cu"
    source.write_text(KERNEL)
    command = [sys.executable, str(ROOT / "softcuda/compiling/nvcc"), "-cubin", "-o", str(home / "k.o"), str(source)]
    path = f"{first}{os.pathsep if first else ''}{os.environ['PATH']}"
    environment = {**os.environ, "XDG_CACHE_HOME": str(home / "cache"), "PATH": path}
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return {path.name: path.stat().st_mtime for path in (home / "cache/softcuda").iterdir()}


@pytest.mark.slow
def test_headers_are_read_once_unless_others_could_have_written_what_is_kept(tmp_path: Path) -> None:
    first = kept_by(tmp_path)
    assert sorted(Path(name).suffix for name in first) == [".files", ".pch"]
    assert kept_by(tmp_path) == first
    kept = next((tmp_path / "cache/softcuda").glob("*.pch"))
    kept.chmod(0o666)
    again = kept_by(tmp_path)
    assert set(again) == set(first)
    assert again[kept.name] > first[kept.name]
    assert not kept.stat().st_mode & 0o022


def test_a_file_that_others_can_write_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    command = [sys.executable, "-c", MODES, str(tmp_path / "kept")]
    trusted = subprocess.run(command, cwd=ROOT / "softcuda/compiling", check=True, capture_output=True, text=True)
    assert trusted.stdout.split() == ["True", "False", "False"]


def test_what_is_kept_of_texts_serves_in_every_folder_and_stays_small(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-c", BEGINNINGS]
    said = subprocess.run(
        command, cwd=ROOT / "softcuda/compiling", env=environment, check=True, capture_output=True, text=True
    )
    assert said.stdout.split() == ["True", "True"]


@pytest.mark.slow
def test_what_is_kept_serves_where_cuda_is_installed_later(tmp_path: Path) -> None:
    """It fails where there is no CUDA if Clang looks for one: it finds ptxas on the PATH."""
    first = kept_by(tmp_path)
    for name in ("bin/ptxas", "include/cuda.h", "nvvm/libdevice/libdevice.10.bc"):
        (tmp_path / "cuda" / name).parent.mkdir(parents=True)
        (tmp_path / "cuda" / name).write_text("#define CUDA_VERSION 11080\n")
    (tmp_path / "cuda/bin/ptxas").chmod(0o755)
    assert kept_by(tmp_path, str(tmp_path / "cuda/bin")) == first


def test_a_place_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("not a folder")
    source = tmp_path / "k.cu"
    source.write_text(KERNEL)
    command = [
        sys.executable,
        str(ROOT / "softcuda/compiling/nvcc"),
        "-cubin",
        "-o",
        str(tmp_path / "k.o"),
        str(source),
    ]
    subprocess.run(command, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}, check=True)
    assert (tmp_path / "k.o").stat().st_size > 1000
