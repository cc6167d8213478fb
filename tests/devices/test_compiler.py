"""Tests of the compiler's cache and messages, with g++, which every machine that runs this has."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project import ROOT
from warpwatch.devices.compile import compiler
from warpwatch.devices.compile.compiler import CompileError, NoCompiler, cache_folder, compile_file

SOURCE = """\
// a kernel
#include "part.h"
extern "C" scalar_t twice(scalar_t x) { return PART * x; }
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WARPWATCH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "part.h").write_text("#define PART 2\n")
    file = tmp_path / "twice.cpp"
    file.write_text(SOURCE)
    return file


def test_what_is_compiled_once_is_found_again(source: Path) -> None:
    first = compile_file(source, {"scalar_t": "int"}, None)
    when = first.path.stat().st_mtime_ns
    assert compile_file(source, {"scalar_t": "int"}, None) == first
    assert first.path.stat().st_mtime_ns == when


def test_macros_source_and_headers_make_another_image_and_comments_the_same_code(source: Path) -> None:
    first = compile_file(source, {"scalar_t": "int"}, None)
    assert compile_file(source, {"scalar_t": "float"}, None).image_hash != first.image_hash
    source.write_text(SOURCE.replace("// a kernel", "// the kernel"))
    commented = compile_file(source, {"scalar_t": "int"}, None)
    assert commented.source_hash != first.source_hash
    assert commented.image_hash == first.image_hash
    (source.parent / "part.h").write_text("#define PART 3\n")
    assert compile_file(source, {"scalar_t": "int"}, None).image_hash != first.image_hash


def test_an_error_names_the_kernels_own_file_and_line_and_leaves_nothing(source: Path) -> None:
    source.write_text(SOURCE + "int broken( { }\n")
    with pytest.raises(CompileError) as caught:
        compile_file(source, {"scalar_t": "int"}, None)
    assert f"{source}:4:" in str(caught.value)
    assert not list((source.parent / "cache").iterdir())


def test_a_kernel_of_the_project_is_named_from_its_root() -> None:
    with pytest.raises(CompileError) as caught:
        compile_file(ROOT / "kernels" / "matmul" / "serial.cpp", {"scalar_t": "no_type"}, None)
    assert "kernels/matmul/serial.cpp:6:" in str(caught.value)
    assert "kernels/matmul/serial.cpp does not compile" in str(caught.value)


def test_processes_that_share_the_cache_read_whole_files(source: Path) -> None:
    code = (
        "import ctypes, pathlib, sys; from warpwatch.devices.compile.compiler import compile_file\n"
        "image = compile_file(pathlib.Path(sys.argv[1]), {'scalar_t': 'int'}, None)\n"
        "assert ctypes.CDLL(str(image.path)).twice(21) == 42\n"
    )
    command = [sys.executable, "-c", code, str(source)]
    crowd = [subprocess.Popen(command, env=os.environ, cwd=ROOT) for _ in range(6)]
    assert [process.wait() for process in crowd] == [0] * 6
    assert sorted(path.suffix for path in (source.parent / "cache").iterdir()) == [".reads", ".so"]


def test_no_compiler_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    compiler.gxx.cache_clear()
    with pytest.raises(NoCompiler, match="apt install"):
        compiler.gxx()
    monkeypatch.delenv("CXX")
    compiler.gxx.cache_clear()
    assert compiler.gxx().program == shutil.which("g++")
    compiler.gxx.cache_clear()


def test_architectures_are_in_order_and_hold_the_oldest_that_we_support() -> None:
    known = compiler.architectures()
    assert known == sorted(known)
    assert {"sm_75", "sm_80", "sm_90"} <= {capability.arch for capability in known}


def test_an_empty_variable_is_no_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty variable counts as missing by the XDG specification; otherwise caches would be in the working folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WARPWATCH_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert cache_folder() == tmp_path / ".cache" / "warpwatch"
