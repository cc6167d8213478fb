"""The fixture ``source_module``: a kernel as PyCUDA's SourceModule, with what its users know of it."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from warpwatch.catalogue.cases import Build
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.machine import DeviceError

MATMUL = "matmul-tiled-16x16-float32"
CONV2D = "conv2d-constant_filter-16x16-float32"
RANDOM = np.random.default_rng(7)


def only(build_id: str) -> pytest.MarkDecorator:
    """Mark a test to run for that build alone."""
    return pytest.mark.builds("all", where=lambda build: build.id == build_id)


@only(MATMUL)
def test_a_function_is_prepared_and_launched_as_any_of_pycudas(source_module: Any, build: Build) -> None:
    from pycuda import compiler, driver  # noqa: PLC0415  # there is a driver only once a device is open

    assert isinstance(source_module, compiler.SourceModule)
    m, n, k = 40, 33, 50
    a, b = RANDOM.random((m, n), np.float32), RANDOM.random((n, k), np.float32)
    c = np.empty((m, k), np.float32)
    product = source_module.get_function("matmul_tiled")
    on_device = driver.mem_alloc(c.nbytes)
    product.prepare("PPPiii")
    operands = driver.to_device(a), driver.to_device(b)
    product.prepared_call((-(-k // 16), -(-m // 16), 1), (16, 16, 1), *operands, on_device, m, n, k)
    driver.memcpy_dtoh(c, on_device)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


@only(CONV2D)
def test_a_filter_in_constant_memory_is_set_by_its_name(source_module: Any, build: Build) -> None:
    from pycuda import driver  # noqa: PLC0415

    rows, columns, size = 40, 33, 3
    image, kernel = RANDOM.random((rows, columns), np.float32), RANDOM.random((size, size), np.float32)
    out = np.empty((rows - size + 1, columns - size + 1), np.float32)
    address, room = source_module.get_global("constant_filter")
    assert room == 64 * 64 * 4
    driver.memcpy_htod(address, kernel)
    launch = source_module.get_function("conv2d_constant_filter")
    sizes = (np.int32(rows), np.int32(columns), np.int32(size))
    # No filter in global memory: where the kernel reads it there, this launch fails.
    launch(driver.In(image), np.uint64(0), driver.Out(out), *sizes, block=(16, 16, 1), grid=(2, 3, 1))
    windows = np.lib.stride_tricks.sliding_window_view(image, (size, size))
    np.testing.assert_allclose(out, np.einsum("ijkl,kl->ij", windows, kernel), rtol=1e-5)


@only(CONV2D)
def test_a_name_that_the_file_lacks_is_answered_by_those_that_it_has(source_module: Any, build: Build) -> None:
    with pytest.raises(DeviceError, match=r"no kernel is named conv2d_naive: the file has conv2d_constant_filter"):
        source_module.get_function("conv2d_naive")


@only(MATMUL)
def test_the_devices_variables_last_as_long_as_the_test(
    source_module: Any, build: Build, device: DeviceInfo, request: pytest.FixtureRequest
) -> None:
    _, variables = request.getfixturevalue("_warpwatch_device_of_pytest")
    assert {name: os.environ[name] for name in variables} == variables
    if device.finds_faults:  # the software device reads how long a launch may last
        assert "SOFTCUDA_LAUNCH_SECONDS" in variables


def test_afterwards_they_are_gone(device: DeviceInfo) -> None:
    assert "SOFTCUDA_LAUNCH_SECONDS" not in os.environ


@only("matmul-serial-host-float32")
def test_a_variant_of_the_host_has_none(build: Build, request: pytest.FixtureRequest) -> None:
    with pytest.raises(pytest.fail.Exception, match="matmul-serial-host-float32 is not a CUDA source"):
        request.getfixturevalue("source_module")
