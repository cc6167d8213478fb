"""Tests of calls: a library or package that is missing, has another version, or refuses. On a GPU they run."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

import warpwatch as ww
from kernels import FAMILIES
from kernels.conv2d import cudnn
from kernels.conv2d.cudnn import CUDNN
from kernels.matmul.cublas import CUBLAS
from warpwatch.catalogue import calls, named_arguments
from warpwatch.catalogue.calls import CallError, DeviceArray, SharedLibrary
from warpwatch.catalogue.cases import find_case
from warpwatch.catalogue.launches import Capability
from warpwatch.catalogue.variants import OLDEST, Variant
from warpwatch.devices.info import DeviceInfo, call_problem

BY_NAME = {family.name: family for family in FAMILIES}
MEMCPY, GEMM = BY_NAME["copy"].variant("memcpy"), BY_NAME["matmul"].variant("cublas")


class Library:
    """An imitation of a library that records its calls. ``refuses``: the function that returns an error status."""

    def __init__(self, version: tuple[int, int, int], refuses: str = "") -> None:
        self.version, self.refuses, self.calls = version, refuses, dict[str, tuple[Any, ...]]()

    def __getattr__(self, name: str) -> Callable[..., int]:
        def call(*args: Any) -> int:
            self.calls[name] = args
            if name.endswith("GetProperty"):
                args[1]._obj.value = self.version[args[0]]
            return 3000 if name == self.refuses else 0

        return call


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Library], Library]]:
    kept = (cudnn._handle, cudnn._descriptor, cudnn.workspace)

    def forget() -> None:
        for cached in kept:
            cached.cache_clear()

    def install(library: Library) -> Library:
        forget()
        monkeypatch.setattr(calls, "_load", lambda name, majors: library)
        return library

    yield install
    forget()


@pytest.mark.parametrize(("library", "package"), [(CUBLAS, "nvidia-cublas"), (CUDNN, "nvidia-cudnn-cu13")])
def test_a_library_that_is_not_there_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch, library: SharedLibrary, package: str
) -> None:
    def load(name: str, majors: tuple[int, ...]) -> None:
        raise OSError(f"no {name}")

    monkeypatch.setattr(calls, "_load", load)
    assert f"is not installed: pip install {package} (extra 'vendor')" in library.missing()
    assert MEMCPY.call
    assert (MEMCPY.call.missing(), MEMCPY.call.version()) == ("", "driver")


def test_a_library_of_another_major_version_is_not_used(install: Callable[[Library], Library]) -> None:
    install(Library((11, 8, 0)))
    assert CUBLAS.missing() == "cuBLAS is of another major version than 13 or 12"
    assert CUDNN.missing() == "cuDNN is of another major version than 9"
    install(Library((9, 19, 0)))
    assert (CUDNN.missing(), CUDNN.version()) == ("", "9.19.0")


def test_a_library_that_is_installed_needs_a_gpu_all_the_same(
    install: Callable[[Library], Library], device: DeviceInfo
) -> None:
    install(Library((13, 0, 2)))
    software = replace(device, name="softcuda", runs_machine_code=False)
    said = "needs a GPU: cublas brings machine code, which softcuda cannot run"
    assert call_problem(GEMM, software) == said
    assert call_problem(GEMM, replace(device, runs_machine_code=True)) == ""
    assert call_problem(MEMCPY, software) == ""


CASE = find_case(FAMILIES, "conv2d-cudnn-vendor-129x257x7-float32")


def convolve() -> None:
    """Queue the convolution of a case whose arrays lie at the addresses 1, 2 and 3."""
    arrays = {
        array.name: DeviceArray(name=array.name, address=i, shape=array.shape, dtype=array.dtype)
        for i, array in enumerate(CASE.arrays, 1)
    }
    assert CASE.variant.call
    named_arguments.call(CASE.variant.call.prepare, CASE.given | arrays | {"stream": 4})()


def test_cudnn_is_asked_for_our_convolution(install: Callable[[Library], Library]) -> None:
    library = install(Library((9, 19, 0)))
    convolve()
    # No padding, no stride, no dilation, the filter not flipped.
    assert library.calls["cudnnSetConvolution2dDescriptor"][1:] == (0, 0, 1, 1, 1, 1, 1, 0)
    assert library.calls["cudnnSetFilter4dDescriptor"][3:] == (1, 1, 7, 7)
    assert library.calls["cudnnSetTensor4dDescriptor"][3:] == (1, 1, 123, 251)  # the result, after the image
    assert [library.calls["cudnnConvolutionForward"][i].value for i in (3, 5, -1)] == [1, 2, 3]


@pytest.mark.parametrize("function", ["cudnnCreate", "cudnnSetTensor4dDescriptor", "cudnnConvolutionForward"])
def test_a_library_that_refuses_is_an_error_that_names_the_call(
    install: Callable[[Library], Library], function: str
) -> None:
    install(Library((9, 19, 0), refuses=function))
    with pytest.raises(CallError, match=f"{function} failed with status 3000"):
        convolve()


def multiply(x: int, n: int, stream: int) -> list[int]:
    return [x, n, stream]


def test_a_call_that_queues_at_once_has_the_same_values_for_each_sample() -> None:
    variant = ww.call("own", function=multiply)
    assert variant.call
    queue = named_arguments.call(variant.call.prepare, {"x": 5, "n": 6, "stream": 7, "m": 8})
    assert queue() == queue() == [5, 6, 7]


@pytest.mark.parametrize("given", [{}, {"function": multiply, "prepare": lambda: multiply}])
def test_a_call_has_either_a_function_or_its_preparation(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="the call own needs either function= or prepare="):
        ww.call("own", **given)


def made(*needs: Any) -> Variant:
    return ww.call("own", function=multiply, needs=needs)


def test_what_a_call_needs_is_a_package_an_architecture_or_a_library(device: DeviceInfo) -> None:
    device = replace(device, runs_machine_code=True)
    assert made().capability == made("pytest").capability == OLDEST
    assert made("sm_90", "pytest").capability == Capability(9, 0)
    assert made("sm_80", "sm_90a").capability == Capability(9, 0)
    assert call_problem(made("sm_90", "pytest"), device) == ""
    said = "absent_package is not installed: pip install absent_package"
    assert call_problem(made("pytest", "absent_package"), device) == said
    one, many = made("pytest").call, made(ww.Driver(), "pytest").call
    assert one
    assert many
    assert (one.version(), many.version()) == (pytest.__version__, f"driver {pytest.__version__}")


def test_the_software_device_has_no_instructions_of_one_architecture(device: DeviceInfo) -> None:
    said = f"needs a GPU: own uses instructions of sm_90a, which {device.name} has not"
    assert call_problem(ww.kernel("own", needs="sm_90a"), device) == said
    assert call_problem(ww.kernel("own", needs="sm_90"), device) == ""
    assert call_problem(ww.kernel("own", needs="sm_90a"), replace(device, runs_machine_code=True)) == ""


def test_an_array_is_described_to_other_packages_as_it_lies_there() -> None:
    array = DeviceArray(name="x", address=4096, shape=(2, 3), dtype="float16", ordinal=1)
    interface = array.__cuda_array_interface__
    assert (interface["shape"], interface["typestr"], interface["data"]) == ((2, 3), "<f2", (4096, False))
    assert (array.size, array.nbytes, array.__dlpack_device__()) == (6, 12, (2, 1))
    with pytest.raises(AttributeError, match="has no name for bfloat16: take the array by DLPack"):
        _ = replace(array, dtype="bfloat16").__cuda_array_interface__


class Tensor(ctypes.Structure):
    """The first members of DLManagedTensor, from NVIDIA's and DLPack's headers."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
    )


@pytest.mark.parametrize(
    ("dtype", "code", "bits"),
    [("float32", 2, 32), ("int8", 0, 8), ("uint64", 1, 64), ("bfloat16", 4, 16), ("complex64", 5, 64), ("bool", 6, 8)],
)
def test_an_array_is_handed_on_by_dlpack(dtype: str, code: int, bits: int) -> None:
    array = DeviceArray(name="x", address=4096, shape=(2, 3), dtype=dtype)
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = Tensor.from_address(pointer(array.__dlpack__(stream=1), b"dltensor"))
    assert (tensor.data, list(tensor.device), list(tensor.shape[:2])) == (4096, [2, 0], [2, 3])
    assert (tensor.ndim, tensor.code, tensor.bits, tensor.lanes) == (2, code, bits, 1)
