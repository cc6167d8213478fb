"""Tests of kernels in files that were written without this project: headers, and templates with any names."""

from __future__ import annotations

from pathlib import Path

import pytest

import softcuda
import warpwatch as ww
from warpwatch.catalogue.cases import Build
from warpwatch.devices.compile.builds import compile_build, kernels_of
from warpwatch.devices.compile.compiler import CompileError, Target
from warpwatch.devices.compile.symbols import entries

PLAIN = "#pragma once\n__global__ void twice(float* y, const float* x) { y[threadIdx.x] = 2 * x[threadIdx.x]; }\n"
TEMPLATE = """\
#pragma once
template <typename T, const unsigned BM, int BN = 1>
__global__ void scale(T* y, const T* x) { y[threadIdx.x] = BM * BN * FACTOR * x[threadIdx.x]; }
"""


@pytest.fixture(params=["nvcc", "software"])
def target(request: pytest.FixtureRequest) -> Target:
    return Target("sm_90", str(softcuda.stand_in(softcuda.cache_folder())) if request.param == "software" else "")


def build_in(folder: Path, source: str, entry: str, **macros: int) -> Build:
    family = ww.Family(
        "scaled",
        sizes=("n",),
        dtypes=("float32",),
        arrays=lambda n: {"y": ww.Out(n), "x": ww.In(n)},
        tests=((32,),),
        folder=folder,
        variants=(ww.kernel("theirs", source=source, entry=entry, configurations=({"block": 32, **macros},), grid=1),),
    )
    (variant,) = family.variants
    return Build(family, variant, variant.listed[0], "float32")


@pytest.mark.once
@pytest.mark.parametrize("name", ["twice.cuh", "twice.h", "twice.inc"])
@pytest.mark.parametrize("entry", ["twice", "::twice"])
def test_a_kernel_may_be_in_a_header(tmp_path: Path, name: str, entry: str, target: Target) -> None:
    (tmp_path / name).write_text(PLAIN)
    assert entries(compile_build(build_in(tmp_path, name, entry), target).path.read_bytes()) == ["_Z5twicePfPKf"]


def test_a_mistake_in_a_header_is_named(tmp_path: Path, target: Target) -> None:
    (tmp_path / "twice.cuh").write_text(PLAIN.replace("2 *", "two *"))
    with pytest.raises(CompileError, match=r"twice\.cuh[(:]2[):].*(two)"):
        compile_build(build_in(tmp_path, "twice.cuh", "twice"), target)


@pytest.mark.once
@pytest.mark.parametrize("source", ["scale.cuh", "all.cu"])
def test_macros_may_have_the_names_of_a_templates_parameters(tmp_path: Path, source: str, target: Target) -> None:
    """In the file itself or in one that it includes; the file's other macros are still there."""
    (tmp_path / "scale.cuh").write_text(TEMPLATE)
    (tmp_path / "all.cu").write_text('#include "scale.cuh"\n')
    build = build_in(tmp_path, source, "scale<scalar_t, BM, BN>", BM=8, BN=4, FACTOR=3)
    kernels = kernels_of(build)
    assert kernels.macros == {"FACTOR": "3"}
    assert kernels.own_macros == {"scalar_t": "float", "BLOCK_X": "32", "BLOCK_Y": "1", "BM": "8", "BN": "4"}
    assert entries(compile_build(build, target).path.read_bytes()) == ["_Z5scaleIfLj8ELi4EEvPT_PKS0_"]


GLOBAL = ("#define scalar_t double", "typedef double scalar_t;", "using scalar_t = double;")


@pytest.mark.once
@pytest.mark.parametrize(
    ("before", "instance"),
    [
        ("", "_Z4fillIfEvPT_"),
        ("template <typename scalar_t> struct acc { using type = scalar_t; };", "_Z4fillIfEvPT_"),
        ("struct S { typedef double scalar_t; }; inline void f() { using scalar_t = double; }", "_Z4fillIfEvPT_"),
        *((line, "_Z4fillIdEvPT_") for line in GLOBAL),  # whose entry means the file's own
    ],
)
def test_an_entry_may_name_the_element_type_by_a_word_of_the_files_templates(
    tmp_path: Path, before: str, instance: str, target: Target
) -> None:
    head = "" if before in GLOBAL else "<typename scalar_t>"
    kernel = f"template {head or '<typename T>'} __global__ void fill({'scalar_t' if head else 'T'}* x) {{ x[0] = 8; }}"
    (tmp_path / "fill.cu").write_text(f"{before}\n{kernel}\n")
    build = build_in(tmp_path, "fill.cu", "fill<scalar_t>")
    assert "scalar_t" not in kernels_of(build).macros
    assert entries(compile_build(build, target).path.read_bytes()) == [instance]


@pytest.mark.once
@pytest.mark.parametrize(
    ("use", "seen"),
    [
        ("x[BLOCK_X] = 1;", {"BLOCK_X"}),
        ("const int BLOCK_X = 3; x[BLOCK_X] = 1;", set()),
        ("using scalar_t = float; x[0] = scalar_t(1);", set()),
        ("typedef float scalar_t; x[0] = scalar_t(1);", set()),
    ],
)
def test_a_kernel_of_a_namespace_sees_macros_that_its_file_uses_and_lacks(
    tmp_path: Path, use: str, seen: set[str], target: Target
) -> None:
    (tmp_path / "inside.cu").write_text(f"namespace ns {{\n__global__ void inside(float* x) {{ {use} }}\n}}\n")
    build = build_in(tmp_path, "inside.cu", "ns::inside")
    assert kernels_of(build).macros.keys() == seen
    assert entries(compile_build(build, target).path.read_bytes()) == ["_ZN2ns6insideEPf"]
