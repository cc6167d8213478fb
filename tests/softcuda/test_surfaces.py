"""Surfaces, arrays and their copies on the software device, and what the checker says of textures and surfaces."""

from __future__ import annotations

import ctypes
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.project import ROOT
from tests.softcuda import calls
from tests.softcuda.device import Device
from tests.softcuda.textures import objects
from tests.softcuda.textures.objects import ARRAY, CUBEMAP, DEVICE, LAYERED, CudaError, Driver, Texture
from warpwatch.devices.compile.compiler import Image
from warpwatch.devices.worker import Worker

FOLDER = ROOT / "tests/softcuda/textures"
ZERO, EDGE, TRAP = range(3)


@pytest.fixture
def surfaces(checked: Device) -> Image:
    return checked.image(FOLDER / "surfaces.cu")


# Of each kernel of surfaces.cu: the shape of its array, and of its threads, the slowest axis first.
READS = {
    "read_1d": ((40, 1), (64,), 0),
    "read_2d": ((5, 6, 1), (8, 8), 0),
    "read_3d": ((3, 3, 2, 1), (4, 4, 4), 0),
    "read_layers": ((3, 3, 2, 1), (4, 4, 4), LAYERED),
    "read_faces": ((6, 3, 3, 1), (4, 4, 4), CUBEMAP),
}


@pytest.mark.once
@pytest.mark.parametrize("entry", READS)
@pytest.mark.parametrize("mode", [ZERO, EDGE], ids=["zero", "clamp"])
def test_a_surface_is_read_inside_and_outside(software: Worker, surfaces: Image, entry: str, mode: int) -> None:
    shape, threads, flags = READS[entry]
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 7
    places = np.indices(threads).reshape(len(threads), -1) - 1  # each thread is one before
    clipped = [np.clip(place, 0, n - 1) for place, n in zip(places, shape, strict=False)]
    inside = np.all([place == clip for place, clip in zip(places, clipped, strict=True)], axis=0)
    wanted = values[tuple(clipped)][:, 0] * (inside if mode == ZERO else 1)
    got, _ = software.call(objects.in_a_context, objects.surface_launch, surfaces.path, entry, values, -1, mode, flags)
    assert got.tolist() == wanted.tolist()


@pytest.mark.parametrize(("entry", "shape"), [("write_2d", (5, 6, 1)), ("write_3d", (3, 3, 2, 1))])
def test_a_surface_is_written_inside_alone(
    software: Worker, surfaces: Image, entry: str, shape: tuple[int, ...]
) -> None:
    values = np.zeros(shape, np.float32)
    threads = (8, 8) if entry == "write_2d" else (4, 4, 4)
    wanted = values.copy()
    for thread, place in enumerate(np.ndindex(threads)):
        if all(0 < index <= n for index, n in zip(place, shape, strict=False)):
            wanted[tuple(index - 1 for index in place)] = 100 + thread
    launch = (objects.surface_launch, surfaces.path, entry, values, -1)
    assert software.call(objects.in_a_context, *launch, ZERO)[1].tolist() == wanted.tolist()
    last = values.copy()
    last[(-1,) * values.ndim] = 163  # the one thread that writes, at the edge
    assert software.call(objects.in_a_context, *launch, EDGE)[1].tolist() == last.tolist()


def test_elements_of_every_type_are_moved_as_they_are(software: Worker, surfaces: Image) -> None:
    values = np.random.default_rng(3).integers(0, 256, (24, 4, 16)).astype(np.uint8).view(np.uint32)
    _, after = software.call(objects.in_a_context, objects.surface_launch, surfaces.path, "types", values, 0, TRAP)
    assert after[1::2].tolist() == values[0::2].tolist() == after[0::2].tolist()


def test_an_access_outside_is_a_finding_where_the_mode_is_trap(software: Worker, surfaces: Image) -> None:
    values = np.zeros((5, 6, 1), np.float32)
    for entry, doing in (("read_2d", "reads"), ("write_2d", "writes")):
        said = software.call(objects.in_a_context, objects.surface_launch, surfaces.path, entry, values, 0, TRAP)
        assert re.search(
            rf"700: .*\nsoftcuda: out of bounds in {entry}\n  \S*surfaces\.cu:\d+: thread \(6, 0\) of block \(0, 0\)"
            rf" {doing} 4 bytes of a surface at x = 24 \(in bytes\), y = 0.* outside its 6 x 5 x 1 elements of 4 bytes",
            said,
        ), said  # fmt: skip


KERNEL = """
extern "C" __global__ void kernel({parameters}, float* out)
{{
    const int t = threadIdx.x;
    {body}
}}
"""
TEXTURE, SURFACE_ = "cudaTextureObject_t tex, float* in", "cudaSurfaceObject_t surf, float* in"
LINEAR = Texture(values=np.ones((64, 1), np.float32), memory="linear")


def run_linear(driver: Driver, image: Path, launches: int, destroyed: bool) -> np.ndarray:
    """A kernel that has a texture of 64 floats, all 1, their address, and a result."""
    resource = driver.resource(LINEAR)
    texture = driver.texture(LINEAR, resource)
    (address,) = struct.unpack_from("Q", resource, 8)
    left = driver.upload(np.zeros(64, np.float32))
    function = driver.function(image, "kernel")
    if destroyed:
        driver.cuTexObjectDestroy(texture)
    for _ in range(launches):
        driver.launch(function, 64, texture, ctypes.c_uint64(address), left)
    return driver.download(left, np.zeros(64, np.float32))


def run_plane(driver: Driver, image: Path, filled: bool) -> np.ndarray:
    """A kernel that has a surface of 8 by 8 floats, its texture's handle, and a result."""
    values = np.ones((8, 8, 1), np.float32)
    array = driver.array(values) if filled else driver.empty_array(values)
    surface, left = driver.surface(array), driver.upload(np.zeros(64, np.float32))
    texture = driver.texture(LINEAR, struct.pack("I4xP", 0, array.value).ljust(144, b"\0"))
    driver.launch(driver.function(image, "kernel"), 64, surface, texture, left)
    return driver.download(left, np.zeros(64, np.float32))


def said_of(checked: Device, parameters: str, body: str, *arguments: Any) -> str:
    """What is found in a kernel of that body; "" where its launch ends well."""
    image = checked.image(KERNEL.format(parameters=parameters, body=body))
    runs = run_linear if parameters == TEXTURE else run_plane
    left = checked.worker.call(objects.in_a_context, runs, image.path, *arguments)
    return left.replace(f"{checked.folder}/", "") if isinstance(left, str) else ""


STALE = r"stale texture read in kernel\n  kernel\.cu:5: thread .* reads 4 bytes of .* through a texture or surface"
WROTE = r"\n  kernel\.cu:5: thread \(\d+, 0\) of block \(0, 0\) wrote them in the same launch"
FINDINGS = {
    "a thread reads what it wrote": (
        TEXTURE, "in[t] = 2; out[t] = tex1Dfetch<float>(tex, t);", (1, False), STALE + WROTE,
    ),
    "behind a barrier": (
        TEXTURE, "in[t] = 2; __syncthreads(); out[t] = tex1Dfetch<float>(tex, 63 - t);", (1, False), STALE + WROTE,
    ),
    "read, and then written by another": (
        TEXTURE, "if (t == 0) out[t] = tex1Dfetch<float>(tex, 63); if (t == 63) in[t] = 2;", (1, False),
        r"race in kernel\n  kernel\.cu:5: thread \(63, 0\) .* writes 4 bytes .*thread \(0, 0\) .* read them",
    ),
    "destroyed": (
        TEXTURE, "out[t] = tex1Dfetch<float>(tex, t);", (1, True),
        r"700: .*\nsoftcuda: texture error in kernel\n  kernel\.cu:5: .* uses 0x\w+, which is no texture object",
    ),
    "not linear": (
        TEXTURE, "out[t] = tex2D<float>(tex, t, 0);", (1, False),
        r"texture error .* asks a texture of another kind for two dim",
    ),
    "a surface's own write": (
        SURFACE_, "surf2Dwrite(2.f, surf, t % 8 * 4, t / 8); out[t] = surf2Dread<float>(surf, t % 8 * 4, t / 8);",
        (True,), STALE + WROTE,
    ),
    "two threads write": (
        SURFACE_, "surf2Dwrite(2.f, surf, t % 4 * 4, t / 8);", (True,), r"race in kernel\n  kernel\.cu:5",
    ),
    "not filled": (
        SURFACE_, "out[t] = surf2Dread<float>(surf, t % 8 * 4, t / 8);", (False,),
        r"uninitialised memory in kernel\n  kernel\.cu:5",
    ),
    "x that is not in bytes": (
        SURFACE_, "out[t] = surf2Dread<float>(surf, t % 8, t / 8);", (True,),
        r"716: .*misaligned access in kernel\n  kernel\.cu:5: .* at x = 1, which is no multiple of 4: x is in bytes",
    ),
}  # fmt: skip


@pytest.mark.once
@pytest.mark.parametrize(("parameters", "body", "arguments", "said"), FINDINGS.values(), ids=FINDINGS)
def test_a_finding_says(checked: Device, parameters: str, body: str, arguments: Any, said: str) -> None:
    heard = said_of(checked, parameters, body, *arguments)
    assert re.search(said, heard, re.DOTALL), heard


RIGHT = {
    "each its own, then the next launch": (TEXTURE, "out[t] = tex1Dfetch<float>(tex, t); in[t] = 2;", (2, False)),
    "what others wrote in an earlier launch": (
        TEXTURE, "out[t] += tex1Dfetch<float>(tex, 63 - t); __syncthreads(); in[t] = out[t];", (3, False),
    ),
    "outside": (TEXTURE, "out[t] = tex1Dfetch<float>(tex, t - 70) + tex1Dfetch<float>(tex, t + 64);", (1, False)),
    "read and written in place": (
        SURFACE_, "surf2Dwrite(surf2Dread<float>(surf, t % 8 * 4, t / 8) + 1, surf, t % 8 * 4, t / 8);", (True,),
    ),
    "elements beside one another": (
        SURFACE_, "surf2Dwrite((unsigned char)t, surf, t, 0, cudaBoundaryModeZero); __syncthreads(); in += 0;", (True,),
    ),
}  # fmt: skip


@pytest.mark.once
@pytest.mark.parametrize(("parameters", "body", "arguments"), RIGHT.values(), ids=RIGHT)
def test_what_is_right_is_not_accused(checked: Device, parameters: str, body: str, arguments: Any) -> None:
    assert said_of(checked, parameters, body, *arguments) == ""


def copies(driver: Driver) -> list[bool]:
    """Whether copies between the host, arrays and memory bring what was sent, each by another call."""
    values = np.arange(6 * 8, dtype=np.uint16).reshape(6, 8, 1)
    array, other = driver.array(values), driver.empty_array(values)
    memory, back = driver.allocate(96), np.zeros_like(values)
    host, size, zero = back.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(96), ctypes.c_size_t(0)
    driver.cuMemcpyAtoD_v2(memory, array, zero, size)
    driver.cuMemcpyDtoA_v2(other, zero, memory, size)
    driver.cuMemcpyAtoH_v2(host, other, zero, size)
    right = [bool((back == values).all())]
    row = np.array([91, 92, 93], np.uint16)
    driver.cuMemcpyHtoA_v2(array, ctypes.c_size_t(16), row.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(6))
    driver.cuMemcpyAtoA_v2(other, zero, array, zero, size)
    driver.cuMemcpyAtoH_v2(host, other, zero, size)
    right.append(back[1, :, 0].tolist() == [91, 92, 93, 11, 12, 13, 14, 15])
    # A part of 2 rows of 3 elements, from the array at (2, 3) to the memory at (1, 1) of rows of 10 bytes.
    driver.cuMemsetD8_v2(memory, ctypes.c_ubyte(0), size)
    side = "QQI4xQQQQ"
    source = struct.pack(side, 4, 3, ARRAY, 0, 0, array.value, 0)
    driver.cuMemcpy2D_v2(source + struct.pack(side + "QQ", 2, 1, DEVICE, 0, memory.value, 0, 10, 6, 2))
    part = driver.download(memory, np.zeros(15, np.uint16)).reshape(3, 5)
    right.append(part.tolist() == [[0] * 5, [0, 26, 27, 28, 0], [0, 34, 35, 36, 0]])
    return right


def test_arrays_are_copied(software: Worker) -> None:
    assert software.call(objects.in_a_context, copies) == [True, True, True]


def answers(driver: Driver) -> list[int]:
    """The codes of calls that must be refused: a copy beyond an array, and objects and arrays that are not there."""
    values = np.zeros((6, 8, 1), np.uint16)
    array, size = driver.array(values), ctypes.c_size_t(98)
    memory, library = driver.allocate(98), driver.library
    side = "QQI4xQQQQ"
    beyond = struct.pack(side, 0, 5, ARRAY, 0, 0, array.value, 0) + struct.pack(
        side + "QQ", 0, 0, DEVICE, 0, memory.value, 0, 16, 16, 2)  # fmt: skip
    codes = [library.cuMemcpyAtoD_v2(memory, array, ctypes.c_size_t(0), size), library.cuMemcpy2D_v2(beyond)]
    driver.cuArrayDestroy(array)
    handle, made = ctypes.c_void_p(), ctypes.c_uint64()
    of_array = struct.pack("I4xP", 0, array.value).ljust(144, b"\0")
    codes += [library.cuArrayDestroy(array), library.cuSurfObjectCreate(ctypes.byref(made), of_array),
              library.cuArray3DCreate_v2(ctypes.byref(handle), struct.pack("3Q3I4x", 8, 0, 0, 32, 3, 0)),
              library.cuArray3DCreate_v2(ctypes.byref(handle), struct.pack("3Q3I4x", 0, 0, 0, 32, 1, 0))]  # fmt: skip
    unaligned = struct.pack("I4xQIIQ", 2, memory.value + 16, 32, 1, 16).ljust(144, b"\0")
    filtered = Texture(values=np.zeros((4, 4, 1), np.uint8), flags=objects.READ_AS_INTEGER, linear=True)
    for texture, resource in ((LINEAR, unaligned), (filtered, b"")):
        try:
            driver.texture(texture, resource)
            codes.append(0)
        except CudaError as error:
            codes.append(int(re.findall(r": (\d+):", str(error))[0]))
    codes += [library.cuTexObjectDestroy(ctypes.c_uint64(12345))]
    return codes


def test_what_is_not_there_or_does_not_fit_is_refused(software: Worker) -> None:
    assert software.call(objects.in_a_context, answers) == [1, 1, 400, 400, 1, 1, 1, 1, 1]


def described(driver: Driver) -> list[Any]:
    """What the driver says of an array and a texture: extents, format, channels, flags; and both descriptions again."""
    array = driver.array(np.zeros((2, 5, 7, 4), np.int16), LAYERED)
    told = ctypes.create_string_buffer(40)
    driver.cuArray3DGetDescriptor_v2(told, array)
    resource = driver.resource(LINEAR)
    texture = driver.texture(Texture(values=LINEAR.values, border=(1, 2, 3, 4)), resource)
    again, sampling = ctypes.create_string_buffer(144), ctypes.create_string_buffer(104)
    driver.cuTexObjectGetResourceDesc(again, texture)
    driver.cuTexObjectGetTextureDesc(sampling, texture)
    return [*struct.unpack_from("3Q3I", told.raw), again.raw == resource, struct.unpack_from("4f", sampling.raw, 40)]


def test_descriptions_are_given_back(software: Worker) -> None:
    assert software.call(objects.in_a_context, described) == [7, 5, 2, 9, 4, LAYERED, True, (1.0, 2.0, 3.0, 4.0)]


def test_arrays_of_pycuda_hold_what_was_put_into_them(software: Worker) -> None:
    assert software.call(calls.through_an_array, np.arange(30, dtype=np.float32).reshape(5, 6)) == "the same, 6 by 5"


WHOLE = """#include <cuda_runtime.h>
#include <cuda_texture_types.h>
#include <cstdio>
static const cudaTextureReadMode mode = cudaReadModeElementType;
struct Image { cudaArray_t memory; cudaTextureObject_t texture; cudaExtent size; };
cudaTextureObject_t of_the_host;
__device__ float (*chosen)(float, float) = NULL;
__device__ float at(Image image, float x) { return tex1D<float>(image.texture, x); }
__global__ void kernel(Image image, CUsurfObject to) { surf1Dwrite(at(image, threadIdx.x), to, 4 * threadIdx.x); }
int main()
{
    cudaResourceDesc resource = {};
    cudaTextureDesc texture = {};
    texture.readMode = mode;
    cudaCreateTextureObject(&of_the_host, &resource, &texture, nullptr);
    kernel<<<1, 32>>>(Image {nullptr, of_the_host}, 0);
    printf("%d\\n", int(cudaDestroyTextureObject(of_the_host)));
}
"""


def test_whole_files_with_textures_load(either: Device) -> None:
    assert either.image(WHOLE).path.stat().st_size > 1000
