"""Tests that nvcc and softcuda take the same part of a file: device code, with host code and its headers set aside."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import strangers
from tests.project import ROOT, importing_apart
from tests.stranger import run_pytest
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.inputs import random_inputs
from warpwatch.catalogue.project import load_project
from warpwatch.catalogue.selection import tested_cases
from warpwatch.devices.compile import compiler
from warpwatch.devices.compile.builds import check_builds, compile_build
from warpwatch.devices.compile.compiler import CompileError, Image, NoCompiler, Target, compile_file, nvcc
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.kernel import Kernel
from warpwatch.devices.mismatch import compare
from warpwatch.devices.opening import Settings
from warpwatch.devices.references import expected
from warpwatch.devices.worker import Worker, describe_device

GPU = Target("sm_90")
PAGE = ROOT / "docs" / "torch-extensions.md"
DEVICE = """\
namespace { __device__ float twice(float x) { return 2 * x; } }
template <int N> __global__ void scale(float* x) { x[threadIdx.x] = N * twice(x[threadIdx.x]); }
"""
HOST = """\
#include <ATen/ATen.h>
#include <nowhere/server.h>
{}at::Tensor scaled(at::Tensor x) {{ scale<3><<<1, 32>>>(x.data_ptr<float>()); nowhere::log("scaled"); return x; }}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def("scaled", &scaled); }}
"""
INSTANCE = "template __global__ void scale<3>(float*);\n"
STRANGERS = tested_cases(strangers.FAMILIES)


@pytest.fixture(autouse=True)
def _needs_nvcc() -> None:
    try:
        nvcc()
    except NoCompiler as error:
        pytest.skip(str(error))


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WARPWATCH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "nowhere").mkdir()
    return tmp_path / "k.cu"


def image_of(file: Path, text: str, *include: Path) -> Image:
    file.write_text(text)
    return compile_file(file, {}, GPU, root=file.parent, include=include)


def test_a_file_with_host_code_has_the_machine_code_of_its_device_code(file: Path) -> None:
    whole = image_of(file, HOST.format(DEVICE))
    [needed] = compiler.kernel_cache().dependencies("k")
    alone = compiler.PATH_HASH.sub(rb"\g<1>00000000", image_of(file, DEVICE + INSTANCE).path.read_bytes())
    assert whole.path.read_bytes() == alone
    assert b"_Z5scaleILi3EEvPf" in alone
    assert {str(compiler.PART), str(compiler.PART.parent / "host_code.py")} <= set(needed.scripts)
    assert needed.files == ["k.cu"]


def test_a_kernel_may_call_what_a_build_by_pytorch_lets_it_call(file: Path) -> None:
    kernel = "template <int N> __global__ void scale(float* x) { *x = std::numeric_limits<float>::max() * N; }\n"
    assert b"scaleILi3EEvPf" in image_of(file, "#include <limits>\n" + HOST.format(kernel)).path.read_bytes()


DISPATCH = """\
#include <torch/extension.h>
template <typename T> __global__ void scale(T* x) { x[threadIdx.x] = T(2.0f) * x[threadIdx.x]; }
void scaled(at::Tensor x) {
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(
        x.scalar_type(), "f", [&] { scale<scalar_t><<<1, 32>>>(x.data_ptr<scalar_t>()); });
}
"""


def test_a_dispatch_makes_the_instances_of_pytorchs_own_types(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONSAFEPATH", "1")  # by which a script does not find the modules beside it
    contents = image_of(file, DISPATCH).path.read_bytes()
    assert {b"_Z5scaleIfEvPT_", b"_Z5scaleIN3c104HalfEEvPT_"} <= {*re.findall(rb"_Z5scale\w+", contents)}


def test_where_nothing_reads_host_code_nvccs_own_error_is_told_too(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "without" / "clang").mkdir(parents=True)
    (tmp_path / "without" / "clang" / "__init__.py").touch()  # and no cindex
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "without"))
    with pytest.raises(CompileError, match=r"(?s)ATen/ATen\.h.*host code cannot be set aside: .*pip install libclang"):
        image_of(file, HOST.format(DEVICE))


@pytest.mark.slow
def test_a_file_that_nvcc_takes_whole_is_left_whole(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "PART", Path("absent"))
    text = DEVICE + "#include <vector>\nvoid run(std::vector<float*> x) { scale<3><<<1, 32>>>(x.at(0)); }\n"
    assert b"_Z5scaleILi3EEvPf" in image_of(file, text).path.read_bytes()


@pytest.mark.parametrize(
    ("wrong", "said"),
    {
        "in device code, among host code": (
            "__global__ void wrong(int* x) { *x = y; }\n",
            ['k.cu(5): error: identifier "y" is undefined', "k.cu:2:10: note: nowhere/server.h is missing, and"],
        ),
        "a call of host code": (
            "float plain(float x) { return x; }\n__global__ void wrong(float* x) { *x = plain(1); }\n",
            ["k.cu(6): error: ", "k.cu(6): note: plain is host code, which is set aside: mark it __device__"],
        ),
        "a macro that the missing header may define": (
            "#if LANES > 32\n#endif\n",
            ["k.cu:2:10: error: nowhere/server.h is missing, and may define LANES, which k.cu:5 asks for: give"],
        ),
    }.values(),
    ids=["device code", "a call of host code", "a macro"],
)  # fmt: skip
@pytest.mark.once
def test_an_error_has_the_files_own_line(file: Path, wrong: str, said: list[str]) -> None:
    with pytest.raises(CompileError) as caught:
        image_of(file, HOST.format(DEVICE + wrong))
    for sentence in said:
        assert sentence in str(caught.value)
    assert "Tensor" not in str(caught.value)
    assert "__attribute__" not in str(caught.value)
    assert "warpwatch-device-part" not in str(caught.value)


@pytest.mark.slow
def test_a_macro_that_the_command_line_undefines_is_of_no_missing_header(file: Path) -> None:
    file.write_text(HOST.format("#ifdef LANES\n#error wide\n#endif\n" + DEVICE))
    assert compile_file(file, {}, GPU, (*compiler.NVCC_FLAGS, "-ULANES"), root=file.parent).path.is_file()


@pytest.mark.slow
def test_an_error_in_a_file_without_host_code_is_that_of_the_whole_file(file: Path) -> None:
    with pytest.raises(CompileError) as caught:
        image_of(file, "float plain(float x) { return x; }\n__global__ void wrong(float* x) { *x = plain(1); }\n")
    assert 'calling a __host__ function("plain(float)") from a __global__ function("wrong") is not' in str(caught.value)


@pytest.mark.slow
def test_a_header_that_appears_makes_another_image(file: Path) -> None:
    first = image_of(file, HOST.format(DEVICE), file.parent)
    assert image_of(file, HOST.format(DEVICE), file.parent) == first
    (file.parent / "nowhere" / "server.h").write_text("#define threadIdx blockIdx\n")
    assert image_of(file, HOST.format(DEVICE), file.parent).image_hash != first.image_hash


@pytest.mark.slow
def test_clang_reads_the_headers_of_a_file_once_and_keeps_few(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "kept"))
    folder = tmp_path / "kept" / "softcuda"
    folder.mkdir(parents=True)
    for number in range(9):
        (folder / f"beginning-{number}.pch").touch()
        os.utime(folder / f"beginning-{number}.pch", (number, number))
    for text in (DEVICE, DEVICE.replace("2 *", "3 *")):
        image_of(file, HOST.format(text))
    kept = {path.name: path.stat().st_mtime for path in folder.iterdir()}
    assert len(kept) == 8
    assert "beginning-1.pch" not in kept
    assert len([seconds for seconds in kept.values() if seconds > 9]) == 1


# From an empty cache these and the examples take 40 s of processor time, and 3 s from a full one.
@pytest.mark.once
@pytest.mark.parametrize("case", STRANGERS, ids=lambda case: case.id)
def test_nvcc_compiles_what_others_have(case: Case) -> None:
    assert compile_build(case.build, GPU).path.stat().st_size > 0


@pytest.fixture
def _apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hide a package ``perf`` of other tests from one that imports that of the examples, and the reverse."""
    with importing_apart("perf"):
        monkeypatch.syspath_prepend(ROOT / "examples" / "cuda")
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("_apart")
def test_nvcc_compiles_every_kernel_of_the_examples() -> None:
    project = load_project(ROOT / "examples" / "cuda", "perf")
    builds = {case.build.id: case.build for case in tested_cases(project.families) if not case.variant.on_host}
    assert len(builds) > len(project.families)
    sources = {build.source for build in builds.values()}
    files = [[each for each in builds.values() if each.source == source] for source in sources]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        assert not any(pool.map(lambda own: check_builds(own, GPU), files))


@pytest.fixture(scope="module")
def worker(device: DeviceInfo, pytestconfig: pytest.Config) -> Iterator[Worker]:
    settings = Settings(kind=pytestconfig.getoption("--device"), ordinal=device.ordinal)
    worker = Worker(load_project(ROOT, "tests.strangers"), settings)
    yield worker
    worker.stop()


@pytest.mark.slow
@pytest.mark.parametrize("case", STRANGERS, ids=lambda case: case.id)
def test_what_others_have_is_right_on_the_device_of_the_run(worker: Worker, case: Case) -> None:
    image = compile_build(case.build, worker.call(describe_device).target)
    inputs = random_inputs(case, 1)
    outcome = Kernel(worker, case.build, image).run(case.shape, inputs)
    for name, right in expected(case, inputs).items():
        assert compare(outcome.results[name], right.reference, right.bound) is None, name


@pytest.mark.slow
@pytest.mark.usefixtures("_apart")
def test_the_page_on_extensions_is_true(tmp_path: Path) -> None:
    declaration, recipe = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    told: dict[str, Any] = {"np": np}
    exec(recipe, told)
    assert told["accessor"](9, 4, 2, 3).tobytes() == np.array([9, 4, 2, 3, 6, 3, 1], np.int64).tobytes()
    (tmp_path / "perf").mkdir()
    (tmp_path / "perf" / "__init__.py").write_text(declaration)
    (tmp_path / "csrc").mkdir()
    shutil.copy(ROOT / "tests" / "strangers" / "csrc" / "rms_norm.cu", tmp_path / "csrc")
    (tmp_path / "pyproject.toml").write_text('[tool.warpwatch]\nkernels = "perf"\n')
    test = 'import pytest\n\n\n@pytest.mark.cases("tested")\ndef test_right(check):\n    check()\n'
    (tmp_path / "test_kernels.py").write_text(test)
    done = run_pytest(tmp_path, "-q", "-rs", "--device=software")
    assert re.search(r"^6 passed, 3 skipped", done.stdout, re.MULTILINE), done.stdout
    assert "op brings machine code" in done.stdout
    for build in {case.build.id: case.build for case in tested_cases(load_project(tmp_path, "perf").families)}.values():
        if not build.variant.call:
            assert compile_build(build, GPU).path.stat().st_size > 0


TENSOR = """\
#include <ATen/cuda/detail/IndexUtils.cuh>
namespace detail = at::cuda::detail;
__global__ void gather(const detail::TensorInfo<float, int> x, float* y) {
    y[threadIdx.x] = x.data[detail::IndexToOffset<float, int, -1>::get(threadIdx.x, x)];
}
static_assert(sizeof(detail::TensorInfo<float, int>) == 216, "as PyTorch lays it out");
"""


def test_a_tensor_that_is_passed_with_its_sizes_and_strides_compiles(file: Path) -> None:
    assert b"_Z6gatherN2at4cuda6detail10TensorInfoIfiEEPf" in image_of(file, TENSOR).path.read_bytes()
