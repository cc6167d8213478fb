"""Tests of what is known of a kernel's parameters, and of arguments and variables that do not fit."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.devices.named import kernels, software
from tests.stranger import run_pytest
from warpwatch.catalogue.arrays import CaseArray, Role
from warpwatch.devices.arguments import (
    Argument,
    argument_of,
    check_variable,
    declared_element,
    read_parameters,
    size_of,
    typed_by_source,
    unfit,
    with_names,
)
from warpwatch.devices.compile.compiler import Target, compile_file, nvcc
from warpwatch.devices.compile.entries import Kernels
from warpwatch.devices.host import Host
from warpwatch.devices.machine import DeviceError, GuardedArray, Parameter, pack

SOURCE = """
#include <cuda_fp16.h>
typedef double real;
#define number float
struct S { float* p; int n; };
struct Large { int values[2000]; };
enum class Mode { a, b };
namespace ns {
template <class T, int N>
__global__ void scale(const T* x, T* __restrict__ y, size_t n, bool b, Mode m, __half h, half2* hh, float** p, int2 i)
{
    y[n] = x[N] * T(i.x + b + int(m)) + T(__half2float(h));
}
}
__global__ void user(float* y, const __grid_constant__ S s, Large large) { y[0] = s.n + large.values[5]; }
__device__ const void* table[] = {(const void*)&ns::scale<float, 3>};
extern "C" __global__ void in_c(const number* x, real f, unsigned long long n, S s, const scalar_t* z) {}
extern "C" __global__ void nothing() {}
"""
SCALE = "_ZN2ns5scaleIfLi3EEEvPKT_PS1_mb4Mode6__halfP7__half2PPf4int2"
OF_SCALE = [(0, 8), (8, 8), (16, 8), (24, 1), (28, 4), (32, 2), (40, 8), (48, 8), (56, 8)]
TYPES = ["float const*", "float*", "unsigned long", "bool", "Mode", "__half", "__half2*", "float**", "int2"]
OF_C = ["const float *", "double", "unsigned long long", "S", "const int *"]
MACROS = {"scalar_t": "int"}


@pytest.mark.parametrize(
    ("kernel", "names"),
    [
        ("ns::scale<float, 3>", ["x", "y", "n", "b", "m", "h", "hh", "p", "i"]),
        ("user", ["y", "s", "large"]),
        ("in_c", ["x", "f", "n", "s", "z"]),
        ("nothing", []),
        ("other", [""] * 2),  # is no kernel of the source
    ],
)
def test_parameters_have_the_names_that_the_source_gives_them(tmp_path: Path, kernel: str, names: list[str]) -> None:
    (tmp_path / "kernel.cu").write_text(SOURCE)
    parameters = tuple(Parameter(offset=8 * i, size=8) for i in range(len(names)))
    named = with_names(parameters, Kernels(source=tmp_path / "kernel.cu", entries=(kernel,), macros={}), kernel)
    assert [each.name for each in named] == names


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The source as an image of the software device, a cubin and PTX."""
    folder = tmp_path_factory.mktemp("sources")
    source = folder / "kernel.cu"
    source.write_text(SOURCE)
    made = {
        kind: compile_file(source, MACROS, target).path
        for kind, target in {"software": software(), "cubin": Target("sm_90"), "old cubin": Target("sm_75")}.items()
    }
    made["ptx"] = folder / "kernel.ptx"
    command = [nvcc().program, "-ptx", "-arch=sm_90", "-Dscalar_t=int", str(source), "-o", str(made["ptx"])]
    subprocess.run(command, check=True, capture_output=True)
    return made


@pytest.mark.once
@pytest.mark.parametrize("kind", ["software", "cubin", "old cubin", "ptx"])
def test_places_sizes_and_types_are_in_the_machine_code(
    images: dict[str, Path], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpwatch.devices.arguments.read_image", Path.read_bytes)
    found = read_parameters(images[kind], SCALE)
    assert found
    assert [(each.offset, each.size) for each in found] == OF_SCALE
    assert [each.type for each in found] == TYPES
    found = read_parameters(images[kind], "_Z4userPf1S5Large")
    assert found
    assert [(each.offset, each.size) for each in found] == [(0, 8), (8, 16), (24, 8000)]
    assert read_parameters(images[kind], "nothing") == ()
    assert read_parameters(images[kind], "absent") is None


@pytest.mark.parametrize("kind", ["software", "cubin", "ptx"])
def test_the_source_has_the_types_of_a_plain_name_where_its_machine_code_has_not(
    images: dict[str, Path], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpwatch.devices.arguments.read_image", Path.read_bytes)
    source = tmp_path / "kernel.cu"
    source.write_text(SOURCE)
    known = read_parameters(images[kind], "in_c")
    assert known
    assert [(each.offset, each.size) for each in known] == [(0, 8), (8, 8), (16, 8), (24, 16), (40, 8)]
    typed = typed_by_source(known, kernels(source, "in_c", macros=MACROS), "in_c")
    assert typed
    if kind == "cubin":
        assert [each.type for each in typed] == OF_C
    assert [size_of(each.type) for each in typed][:3] in ([8, 8, 8], [0, 8, 0])  # PTX tells what is a double alone


@pytest.mark.parametrize(
    "text",
    [
        'extern "C" __global__ void k(const float* x, int n);\nextern "C" __global__ void k(const double* x, int n) {}',
        "#define float double\n__global__ void k(float* x) {}",
        "#ifndef real\n#define real double\n#endif\n__global__ void k(real x) {}",
        "#ifdef A\ntypedef double real;\n#else\ntypedef float real;\n#endif\n__global__ void k(real x) {}",
        "// __global__ void k(double x) {}\n__global__ void k(PARAMETERS) {}",
    ],
)
def test_a_source_that_may_be_read_in_two_ways_says_nothing(tmp_path: Path, text: str) -> None:
    source = tmp_path / "kernel.cu"
    source.write_text(text)
    assert typed_by_source(None, kernels(source, "k"), "k") is None


def array(dtype: str, role: Role = Role.IN) -> CaseArray:
    return CaseArray(name="x", role=role, shape=(8,), dtype=dtype)


def pointer(dtype: str) -> Argument:
    return argument_of("x", 1, np.uint64(1 << 45), array(dtype), {})


def parameter(name: str, size: int = 0) -> Parameter:
    return Parameter(offset=0, size=size or size_of(name), type=name)


OTHER_NUMBERS = {
    "float64": ("float", "int"),
    "float32": ("double", "__half", "bool"),
    "float16": ("float",),
    "int64": ("int", "float"),
    "uint64": ("unsigned",),
    "int32": ("short",),
    "complex64": ("double",),
}
READ_IN_ANOTHER_WAY = {
    "float32": ("float4*", "unsigned char*", "void*", "std::byte*", "unsigned int*"),  # bits, as for atomics
    "float64": ("char const*", "S*", "float**", "unsigned long", ""),
    "float16": ("unsigned short*", "unsigned int*", "at::Half*"),  # also pairs
    "bfloat16": ("__half*", "__nv_bfloat16 const*"),
    "int8": ("int const*",),  # four of them, as for dp4a
    "uint32": ("int*",),
    "int64": ("long*", "long long const*"),
    "bool": ("unsigned char*",),
    "uint8": ("bool*",),
    "complex64": ("float*", "float2*"),
}


def pairs(types: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    return [(dtype, name) for dtype, names in types.items() for name in names]


@pytest.mark.parametrize(("dtype", "pointee"), pairs(OTHER_NUMBERS))
def test_an_array_of_other_numbers_is_refused(dtype: str, pointee: str) -> None:
    said = unfit("the kernel", [pointer(dtype)], [parameter(f"{pointee} const*")])
    assert said.startswith(f'"x" is an array of {dtype}, but the kernel takes const {pointee}* as its 1st parameter')
    assert "declare x as" in said


@pytest.mark.parametrize(("dtype", "name"), pairs(READ_IN_ANOTHER_WAY))
def test_an_array_that_may_be_read_in_another_way_is_not_accused(dtype: str, name: str) -> None:
    assert not unfit("the kernel", [pointer(dtype)], [parameter(name, 8)])


@pytest.mark.parametrize(
    ("word", "value", "name", "size", "said"),
    [
        ("m:int64", np.int64(5), "int", 4, '"m:int64" but the kernel takes int (4 bytes) as its 1st parameter; write'),
        ("m", np.int32(5), "unsigned long", 8, '"m" is int32, but the kernel takes unsigned long (8 bytes)'),
        ("m", np.int32(5), "", 8, '"m" is int32, but the kernel takes 8 bytes as its 1st parameter; write "m:int64"'),
        ("f:float64=2", np.float64(2), "float", 4, 'write "f:float32=2"'),
        ("eps", np.float64(2), "float", 4, 'declare eps as ww.Scalar(2.0, "float32")'),
        ("m:float32", np.float32(2), "int", 4, 'write "m:int32"'),
        ("m:int64", np.int64(2), "double", 8, 'write "m:float64"'),
        ("m:int64", np.int64(2), "float const*", 8, "give an array"),
        ("", np.float64(2), "float", 4, "argument 1 is float64 2.0, but the kernel takes float (4 bytes)"),
        ("m:int64", np.int64(2), "__half", 2, 'write "m:float16"'),
        ("m", np.int32(1), "bool", 1, 'write "m:bool"'),
    ],
)  # fmt: skip
def test_a_number_of_another_type_is_refused(word: str, value: np.generic, name: str, size: int, said: str) -> None:
    assert said in unfit("the kernel", [argument_of(word, 1, value, None, {"eps": 1})], [parameter(name, size)])


@pytest.mark.parametrize(
    ("value", "name", "size"),
    [
        (np.uint32(5), "int", 4),
        (np.int32(5), "Mode", 4),
        (np.uint64(0), "float*", 8),
        (np.uint64(1 << 46), "float*", 8),  # memory of somebody else's
        (np.float16(1), "__half", 2),
        (np.uint16(1), "__half", 2),
        (np.uint8(1), "bool", 1),
        (np.complex64(1), "float2", 8),
        (np.uint64(1 << 46), "unsigned long long", 8),
        (np.int64(1), "", 8),
        (np.void(8), "float*", 8),
        (np.void(4), "float", 4),
    ],
)
def test_a_number_that_may_be_meant_is_not_accused(value: np.generic, name: str, size: int) -> None:
    assert not unfit("the kernel", [argument_of("", 1, value, None, {})], [parameter(name, size)])


def test_the_number_of_arguments_is_said_with_what_the_kernel_takes() -> None:
    given = [pointer("float32"), argument_of("n", 2, np.int32(5), None, {})]
    said = unfit("the kernel", given, [parameter("float*")])
    assert said.startswith('2 are given ("x", "n"), but the kernel takes 1 (float*)')
    assert unfit("the kernel", [], [parameter("int")]).startswith(
        "none is given, but the kernel takes 1 (int (4 bytes))"
    )
    pair = [argument_of("n", number, np.int32(5), None, {}) for number in (1, 2)]
    assert not unfit("the kernel", pair, [parameter("int2", 8)])  # the same bytes


def test_arguments_lie_where_the_kernel_has_its_parameters() -> None:
    places = [Parameter(offset=0, size=4), Parameter(offset=8, size=8)]
    assert pack((np.int32(1), np.complex64(2)), places)[8:] == np.complex64(2).tobytes()  # float2, aligned to 8 bytes


def copied(dtype: str) -> GuardedArray:
    return GuardedArray(Host(), "f", (8,), dtype)


@pytest.mark.parametrize(
    ("dtype", "declared", "size", "said"),
    [
        ("float32", "double", 64, "w holds double (8 bytes) and f is float32; declare f as float64"),
        ("float64", "float", 32, "w holds float (4 bytes) and f is float64; declare f as float32"),
        ("int32", "long long", 64, "w holds long long (8 bytes) and f is int32"),
        ("float32", "float", 16, "w has 16 bytes and f has 32; make the variable as large"),
        ("float32", "", 16, "w has 16 bytes and f has 32"),
    ],
)
def test_a_variable_that_cannot_hold_its_input_is_refused(dtype: str, declared: str, size: int, said: str) -> None:
    with pytest.raises(DeviceError, match=f"^symbols: {re.escape(said)}"):
        check_variable("w", size, declared, copied(dtype), may_be_cut=False)


@pytest.mark.parametrize(
    ("dtype", "declared", "size", "note"),
    [
        ("float32", "float", 4096, "w has 4,096 bytes of float, and f, float32, fills 32 of them"),
        ("float32", "", 64, "w has 64 bytes, and f, float32, fills 32 of them"),
        ("int8", "int", 8, "w has 8 bytes of int, and f, int8, fills 8 of them"),
        ("float32", "float4", 32, ""),
        ("float32", "float", 32, ""),
        ("float32", "float", 16, ""),  # of what the kernel can read elsewhere
    ],
)
def test_a_variable_that_may_hold_its_input_is_not_refused(dtype: str, declared: str, size: int, note: str) -> None:
    assert check_variable("w", size, declared, copied(dtype), may_be_cut=size == 16) == note


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("__constant__ double w[8];", "double"),
        ("static __device__ const scalar_t w[8] = {1};", "int"),
        ("using real = double;\n__constant__ real w[8];", "double"),
        ("#ifdef A\n__constant__ double w[8];\n#else\n__constant__ float w[8];\n#endif", ""),
        ("__constant__ double v[8], w[8];", ""),
        ("// __constant__ double w[8];\n__constant__ float w[8];", "float"),
    ],
)
def test_the_elements_of_a_variable_are_those_that_the_source_spells(tmp_path: Path, text: str, found: str) -> None:
    source = tmp_path / "kernel.cu"
    source.write_text(text)
    assert declared_element(kernels(source, "k", macros=MACROS), "w") == found


DECLARED = """
import numpy as np
import warpwatch as ww

how = dict(entry="twice", configurations=((64,),), grid=lambda n, block: ww.blocks(n, block[0]))
FAMILY = ww.Family(
    "twice", sizes=("n",), scalars={"f": ww.Scalar(2.0, "float32")},
    arrays=lambda n: {"x": ww.In(n, "float32"), "y": ww.Out(n, "float32")},
    reference=lambda x, f: f * x, tests=((70,),), benchmarks=((70,),),
    variants=(
        ww.kernel("right", "as it is", arguments="x y n f", **how),
        ww.kernel("offset", "a part", source="right.cu", **how,
            arguments=lambda at, n: (np.uint64(at["x"]), np.uint64(at["y"]), np.int32(n), np.float32(2))),
        ww.kernel("wide", "n of 8 bytes", source="right.cu", arguments="x y n:int64 f", **how),
        ww.kernel("swapped", "the wrong way round", source="right.cu", arguments="y x n f", **how),
        ww.kernel("bound", "too many threads", arguments="x y n f", **how),
        ww.kernel("constant", "what is a result is a constant", arguments="x y n f", **how),
    ),
)
"""
KERNEL = """
__global__ void {bound} twice(const float* x, {out}float* y, int n, float f)
{{
    int i = blockIdx.x * BLOCK_X + threadIdx.x;
    if (i < n)
        {body}
}}
"""
SAID = {
    "wide": '"n:int64" but the kernel takes int n (4 bytes) as its 3rd parameter; write "n:int32"',
    "swapped": "y is a result, and the kernel takes const float* as its 1st parameter; x is an input",
    "bound": "a block of 64x1x1 has 64 threads; the kernel allows 32",
    "constant": "arguments y is a result, and the kernel takes const float* as its 2nd parameter",
}


@pytest.mark.slow
def test_what_does_not_fit_is_said_in_a_run_and_no_driver_speaks_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(DECLARED)
    (tmp_path / "right.cu").write_text(KERNEL.format(bound="", out="", body="y[i] = f * x[i];"))
    (tmp_path / "bound.cu").write_text(KERNEL.format(bound="__launch_bounds__(32)", out="", body="y[i] = f * x[i];"))
    (tmp_path / "constant.cu").write_text(KERNEL.format(bound="", out="const ", body="if (x[i] > 9) __trap();"))
    (tmp_path / "pyproject.toml").write_text('[tool.warpwatch]\nkernels = "mine"\n')
    (tmp_path / "test_mine.py").write_text(
        'import pytest\n@pytest.mark.cases("tested")\ndef test_right(check):\n    check()\n'
    )
    done = run_pytest(tmp_path, "-q", "--device", "software")
    assert f"{len(SAID)} failed, 2 passed" in done.stdout, done.stdout
    assert "invalid argument" not in done.stdout
    for said in SAID.values():
        assert said in done.stdout, done.stdout
