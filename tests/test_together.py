"""Several builds in one call of nvcc: the machine code is that of each by itself, and an error is one build's alone."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kernels import FAMILIES, compiler
from kernels.catalogue import Build, find_case
from kernels.compiler import ROOT, CompileError, NoCompiler, Target, check_builds, compile_build, compile_text, nvcc
from kernels.compiling import Compilation
from kernels.together import in_one_file

BUILDS = [
    find_case(FAMILIES, f"matmul-tiled-{block}-64x64x64-{dtype}").build
    for block, dtype in (("8x8", "float32"), ("16x16", "float64"), ("32x32", "int32"))
]
TARGET = Target("sm_80")
KERNEL = """\
#pragma once
#include <cstdint>
#include "part.h"
#ifndef STEPS
#define STEPS BLOCK_X
#endif
struct Pair { scalar_t a, b; };
__device__ scalar_t sum(Pair pair) { return pair.a + pair.b; }
extern "C" __global__ void matmul_tiled(scalar_t* out) { out[PART] = sum({scalar_t(STEPS), scalar_t(BLOCK_Y)}); }
"""


@pytest.fixture(autouse=True)
def _needs_nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWATCH_CACHE", str(tmp_path / "cache"))
    try:
        nvcc()
    except NoCompiler as missing:
        pytest.skip(str(missing))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that nvcc was called for."""
    called: list[str] = []
    compile_ = compiler._compile

    def count(using: compiler.Compiler, flags: list[str], source: Path, root: Path) -> bytes:
        called.append(source.name)
        return compile_(using, flags, source, root)

    monkeypatch.setattr(compiler, "_compile", count)
    return called


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that stands for matmul/tiled.cu, with a header of its own."""
    monkeypatch.setattr(compiler, "ROOT", tmp_path)
    file = tmp_path / "kernels" / "matmul" / "tiled.cu"
    file.parent.mkdir(parents=True)
    file.with_name("part.h").write_text("#pragma once\n#define PART 2\n")
    file.write_text(KERNEL)
    return file


def machine_code(cubin: bytes) -> dict[str, bytes]:
    """The functions in a cubin, by name."""
    (start,) = struct.unpack_from("<Q", cubin, 40)
    size, count, names = struct.unpack_from("<HHH", cubin, 58)
    headers = [struct.unpack_from("<IIQQQQ", cubin, start + size * index) for index in range(count)]
    strings = cubin[headers[names][4] :]
    named = ((strings[h[0] : strings.index(b"\0", h[0])].decode(), cubin[h[4] : h[4] + h[5]]) for h in headers)
    return {name.removeprefix(".text."): code for name, code in named if name.startswith(".text.")}


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_the_machine_code_is_that_of_each_build_by_itself(arch: str) -> None:
    source = ROOT / "kernels" / BUILDS[0].source
    image = compile_text(in_one_file(source, [build.macros for build in BUILDS]), "tiled.cu", Target(arch))
    together = machine_code(image.path.read_bytes())
    alone = [machine_code(compile_build(build, Target(arch)).path.read_bytes()) for build in BUILDS]
    assert [code["matmul_tiled"] for code in alone] == [
        code for number in range(len(BUILDS)) for name, code in together.items() if f"6build{number}" in name
    ]
    assert len(together) == len(BUILDS)


def test_builds_that_compile_take_one_call_and_are_not_checked_again(source: Path, calls: list[str]) -> None:
    assert check_builds(BUILDS, TARGET) == {}
    assert check_builds(BUILDS, TARGET) == {}
    assert calls == ["tiled-together.cu"]
    source.with_name("part.h").write_text("#define PART 3\n")
    assert check_builds(BUILDS, TARGET) == {}
    assert len(calls) == 2


def test_macros_of_one_build_do_not_reach_the_next(source: Path, calls: list[str]) -> None:
    small = "#if BLOCK_X == 8\n#define SMALL\n#endif\n#ifdef SMALL\nstatic_assert(BLOCK_X == 8);\n#endif\n"
    source.write_text(KERNEL + small)
    assert check_builds(BUILDS, TARGET) == {}
    assert calls == ["tiled-together.cu"]


def test_an_error_is_that_of_its_build_and_names_its_line(source: Path) -> None:
    source.write_text(f'{KERNEL}static_assert(BLOCK_X != 16, "not this one");\n')
    failed = check_builds(BUILDS, TARGET)
    assert list(failed) == [BUILDS[1].id]
    assert "matmul/tiled.cu(10): error" in str(failed[BUILDS[1].id])
    assert "not this one" in str(failed[BUILDS[1].id])


def test_what_does_not_compile_in_a_namespace_is_compiled_by_itself(source: Path, calls: list[str]) -> None:
    source.write_text(KERNEL.replace("sum({", "::sum({"))
    assert check_builds(BUILDS, TARGET) == {}
    assert calls == ["tiled-together.cu", "tiled.cu", "tiled.cu", "tiled.cu"]


def test_what_a_device_runs_is_not_compiled_twice(source: Path, calls: list[str]) -> None:
    compilation = Compilation(1)
    compilation.add(BUILDS[0], TARGET)
    compilation.add_check(BUILDS, TARGET)
    for build in BUILDS:
        compilation.check(build, TARGET)
    compilation.stop()
    assert calls == ["tiled.cu", "tiled-together.cu"]


def test_a_failed_check_fails_the_test_of_its_build_alone(source: Path) -> None:
    source.write_text(f'{KERNEL}static_assert(BLOCK_X != 16, "not this one");\n')
    compilation = Compilation(1)
    compilation.add_check(BUILDS, TARGET)
    passed: list[Build] = []
    for build in BUILDS:
        if build is BUILDS[1]:
            with pytest.raises(CompileError, match="not this one"):
                compilation.check(build, TARGET)
        else:
            compilation.check(build, TARGET)
            passed.append(build)
    compilation.stop()
    assert passed == [BUILDS[0], BUILDS[2]]
