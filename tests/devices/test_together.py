"""Tests of several builds in one call of nvcc: each has the machine code of a call by itself, and its own errors."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from kernels import FAMILIES
from softcuda import cache
from warpwatch.catalogue.cases import Build, find_case
from warpwatch.devices.compile import compiler
from warpwatch.devices.compile.background import Compilation
from warpwatch.devices.compile.builds import check_builds, compile_build, in_one_file, unoptimized
from warpwatch.devices.compile.compiler import CompileError, NoCompiler, Target, compile_text, nvcc

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
    """A list of the files that nvcc was called for."""
    called: list[str] = []
    compile_ = compiler.compile_bytes

    def count(
        using: compiler.Compiler, flags: list[str], source: Path, root: Path, *, project: Path | None = None
    ) -> cache.Compiled:
        called.append(source.name)
        return compile_(using, flags, source, root, project=project)

    monkeypatch.setattr(compiler, "compile_bytes", count)
    return called


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file that stands for matmul/tiled.cu, with a header of its own."""
    file = tmp_path / "kernels" / "matmul" / "tiled.cu"
    file.parent.mkdir(parents=True)
    file.with_name("part.h").write_text("#pragma once\n#define PART 2\n")
    file.write_text(KERNEL)
    return file


@pytest.fixture
def changed(source: Path) -> list[Build]:
    """Return the builds of ``source``."""
    return [replace(build, family=replace(build.family, folder=source.parent)) for build in BUILDS]


def machine_code(cubin: bytes) -> dict[str, bytes]:
    """Return the machine code of the functions in a cubin, by name."""
    (start,) = struct.unpack_from("<Q", cubin, 40)
    size, count, names = struct.unpack_from("<HHH", cubin, 58)
    headers = [struct.unpack_from("<IIQQQQ", cubin, start + size * index) for index in range(count)]
    strings = cubin[headers[names][4] :]
    named = ((strings[h[0] : strings.index(b"\0", h[0])].decode(), cubin[h[4] : h[4] + h[5]]) for h in headers)
    return {name.removeprefix(".text."): code for name, code in named if name.startswith(".text.")}


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_the_machine_code_is_that_of_each_build_by_itself(arch: str) -> None:
    source = BUILDS[0].source
    image = compile_text(in_one_file(source, [build.all_macros for build in BUILDS]), "tiled.cu", Target(arch))
    together = machine_code(image.path.read_bytes())
    alone = [machine_code(compile_build(build, Target(arch)).path.read_bytes()) for build in BUILDS]
    assert [code["matmul_tiled"] for code in alone] == [
        code for number in range(len(BUILDS)) for name, code in together.items() if f"6build{number}" in name
    ]
    assert len(together) == len(BUILDS)


@pytest.mark.exclusive  # what this process compiles in the background would be counted too
def test_builds_that_compile_take_one_call_and_are_not_checked_again(
    source: Path, changed: list[Build], calls: list[str]
) -> None:
    assert check_builds(changed, TARGET) == {}
    assert check_builds(changed, TARGET) == {}
    assert calls == ["tiled-together.cu"]
    source.with_name("part.h").write_text("#define PART 3\n")
    assert check_builds(changed, TARGET) == {}
    assert len(calls) == 2


@pytest.mark.slow
@pytest.mark.exclusive  # what this process compiles in the background would be counted too
def test_macros_of_one_build_do_not_reach_the_next(source: Path, changed: list[Build], calls: list[str]) -> None:
    small = "#if BLOCK_X == 8\n#define SMALL\n#endif\n#ifdef SMALL\nstatic_assert(BLOCK_X == 8);\n#endif\n"
    source.write_text(KERNEL + small)
    assert check_builds(changed, TARGET) == {}
    assert calls == ["tiled-together.cu"]


LARGE = "__shared__ scalar_t many[BLOCK_X == 16 ? 20000 : 2]; many[threadIdx.x] = out[0]; __syncthreads();"
WRONG = {  # in a source, and what is said of it; the second by the assembler
    f'{KERNEL}static_assert(BLOCK_X != 16, "not this one");\n': r"matmul/tiled\.cu\(10\): error.*not this one",
    KERNEL.replace("{ out[PART]", f"{{ {LARGE} out[1] = many[threadIdx.x ^ 1]; out[PART]"): "uses too much shared data",
}


@pytest.mark.slow
@pytest.mark.parametrize("text", WRONG, ids=["a line", "too large"])
def test_an_error_is_that_of_its_build(source: Path, changed: list[Build], text: str) -> None:
    source.write_text(text)
    assert unoptimized()
    failed = check_builds(changed, TARGET)
    assert list(failed) == [changed[1].id]
    assert re.search(WRONG[text], str(failed[changed[1].id]))


def test_an_nvcc_that_always_optimizes_is_called_without_the_option(tmp_path: Path) -> None:
    program = tmp_path / "nvcc"
    program.write_text("#!/bin/sh\necho 'release 11.8, --optimize <level>'\n")
    program.chmod(0o755)
    assert unoptimized(str(program)) == ()


@pytest.mark.slow
@pytest.mark.exclusive  # what this process compiles in the background would be counted too
def test_what_does_not_compile_in_a_namespace_is_compiled_by_itself(
    source: Path, changed: list[Build], calls: list[str]
) -> None:
    source.write_text(KERNEL.replace("sum({", "::sum({"))
    assert check_builds(changed, TARGET) == {}
    assert calls == ["tiled-together.cu", "tiled.cu", "tiled.cu", "tiled.cu"]


@pytest.mark.slow
@pytest.mark.exclusive  # what this process compiles in the background would be counted too
def test_what_a_device_runs_is_not_compiled_twice(source: Path, changed: list[Build], calls: list[str]) -> None:
    compilation = Compilation(1)
    compilation.add(changed[0], TARGET)
    compilation.add_check(changed, TARGET)
    for build in changed:
        compilation.check(build, TARGET)
    compilation.stop()
    assert calls == ["tiled.cu", "tiled-together.cu"]


@pytest.mark.slow
def test_a_failed_check_fails_the_test_of_its_build_alone(source: Path, changed: list[Build]) -> None:
    source.write_text(f'{KERNEL}static_assert(BLOCK_X != 16, "not this one");\n')
    compilation = Compilation(1)
    compilation.add_check(changed, TARGET)
    passed: list[Build] = []
    for build in changed:
        if build is changed[1]:
            with pytest.raises(CompileError, match="not this one"):
                compilation.check(build, TARGET)
        else:
            compilation.check(build, TARGET)
            passed.append(build)
    compilation.stop()
    assert passed == [changed[0], changed[2]]
