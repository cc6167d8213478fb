"""Tests of vendors' libraries: one that is missing, has another version, or refuses. On a GPU they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from warpwatch.catalogue.library import LibraryCall, LibraryError, SharedLibrary

from kernels import FAMILIES
from kernels.conv2d import cudnn
from kernels.conv2d.cudnn import CUDNN
from kernels.copy.memcpy import MEMCPY
from kernels.matmul.cublas import CUBLAS, GEMM
from warpwatch.catalogue import library as catalogue_library
from warpwatch.catalogue.cases import find_case
from warpwatch.devices.info import DeviceInfo, library_problem


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
    kept = (cudnn._handle, cudnn._descriptor, cudnn._workspace)

    def forget() -> None:
        for cached in kept:
            cached.cache_clear()

    def install(library: Library) -> Library:
        forget()
        monkeypatch.setattr(catalogue_library, "_load", lambda name, majors: library)
        return library

    yield install
    forget()


@pytest.mark.parametrize(("library", "package"), [(CUBLAS, "nvidia-cublas"), (CUDNN, "nvidia-cudnn-cu13")])
def test_a_library_that_is_not_there_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch, library: SharedLibrary, package: str
) -> None:
    def load(name: str, majors: tuple[int, ...]) -> None:
        raise OSError(f"no {name}")

    monkeypatch.setattr(catalogue_library, "_load", load)
    assert f"is not installed: pip install {package} (extra 'vendor')" in library.missing()
    assert MEMCPY.missing() == ""


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
    assert library_problem(GEMM, software) == said
    assert library_problem(GEMM, replace(device, runs_machine_code=True)) == ""
    assert library_problem(MEMCPY, software) == ""


CASE = find_case(FAMILIES, "conv2d-cudnn-vendor-129x257x7-float32")


def convolve() -> None:
    """Queue the convolution of a case whose arrays lie at the addresses 1, 2 and 3."""
    call = LibraryCall(shape=CASE.shape, dtype=CASE.dtype, pointers=(1, 2, 3), stream=4, array_bytes=CASE.array_bytes)
    cudnn.CONVOLUTION.prepare(call)()


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
    with pytest.raises(LibraryError, match=f"{function} failed with status 3000"):
        convolve()
