"""Tests that what is read from a cubin is what ptxas says of it, and occupancy by figures worked out by hand."""

from __future__ import annotations

import re
import struct
import subprocess
from pathlib import Path

import pytest

from warpwatch.catalogue.launches import Capability
from warpwatch.devices.compile.compiler import Image, NoCompiler, nvcc
from warpwatch.devices.compile.symbols import EXECUTABLE, code_bytes, read_sections
from warpwatch.machine_code.cubin import LIMITS, code_digest, occupancy, read_cubin

KERNELS = """
extern "C" __global__ void tile(float* b)
{
    __shared__ float s[300];
    s[threadIdx.x] = b[threadIdx.x];
    __syncthreads();
    b[threadIdx.x] = s[255 - threadIdx.x];
}
extern "C" __global__ void local(float* b, int n)
{
    float s[30];
    for (int i = 0; i < 30; i++)
        s[i] = b[i * n];
    for (int i = 0; i < n; i++)
        b[i] = s[(i * i) % 30];
}
__device__ float factor = 2;
extern "C" __global__ void scale(float* b) { b[threadIdx.x] *= factor; }
"""
FOUND = re.compile(r"entry function '(\w+)'.*?(\d+) bytes stack frame.*?Used (\d+) registers([^\n]*)", re.DOTALL)


def compiled(folder: Path, arch: str, text: str = KERNELS) -> tuple[bytes, str]:
    """Return a cubin, and what ptxas says of it."""
    try:
        program = nvcc().program
    except NoCompiler as missing:
        pytest.skip(str(missing))
    (folder / "kernels.cu").write_text(text)
    command = [program, "-cubin", f"-arch={arch}", "-Xptxas", "-v", "kernels.cu", "-o", "made"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return (folder / "made").read_bytes(), done.stderr + done.stdout


@pytest.mark.parametrize(("arch", "capability"), [("sm_80", Capability(8, 0)), ("sm_90", Capability(9, 0))])
def test_needs_are_those_that_ptxas_tells(tmp_path: Path, arch: str, capability: Capability) -> None:
    image, said = compiled(tmp_path, arch)
    cubin = read_cubin(image, capability)
    assert cubin
    told = {}
    for name, frame, registers, rest in FOUND.findall(said):
        shared = re.search(r"(\d+) bytes smem", rest)
        told[name] = (int(registers), int(frame), int(shared[1]) if shared else 0)
    assert {name: (each.registers, each.local_bytes, each.shared_bytes) for name, each in cubin.kernels.items()} == told
    assert (told["tile"][2], told["local"][1]) == (1200, 120)


def test_local_memory_is_that_of_the_functions_which_a_kernel_calls_too(tmp_path: Path) -> None:
    text = """
__device__ __noinline__ float sum(const float* b, int n)
{
    float s[100];
    for (int i = 0; i < 100; i++)
        s[i] = b[i * n];
    return s[n % 100] + s[n % 7];
}
extern "C" __global__ void outer(float* b, int n) { b[0] = sum(b, n); }
"""
    cubin = read_cubin(compiled(tmp_path, "sm_90", text)[0], Capability(9, 0))
    assert cubin
    assert cubin.kernels["outer"].local_bytes >= 400


def test_what_a_compiler_writes_beside_machine_code_is_no_part_of_it(tmp_path: Path) -> None:
    image, _ = compiled(tmp_path, "sm_90")
    factor = image.index(struct.pack("<f", 2.0), image.index(b"factor"))
    own = [part for part in read_sections(image) if part.flags & EXECUTABLE]
    changed = {
        "note": image.replace(b"Build cuda_", b"Build CUDA_"),
        "code": image[: own[0].offset + 4] + bytes([image[own[0].offset + 4] ^ 1]) + image[own[0].offset + 5 :],
        "data": image[:factor] + struct.pack("<f", 3.0) + image[factor + 4 :],
    }

    def digest(contents: bytes) -> str:
        path = tmp_path / "image"
        path.write_bytes(contents)
        return code_digest(Image(path, "", "of the file"), Capability(9, 0))

    digests = {name: digest(contents) for name, contents in changed.items()}
    assert image not in changed.values()
    assert digest(image) == digests["note"]
    assert len({digest(image), *digests.values()}) == 3
    assert digest(b".version 8.0") == "of the file"
    assert code_bytes(image) == sum(part.length for part in own) > 0
    assert code_bytes(image[:100]) == code_bytes(b".version 8.0") == 0


def test_a_call_has_a_digest_and_no_file() -> None:
    assert code_digest(Image(Path(), "cublas", "cublas"), Capability(9, 0)) == "cublas"


@pytest.mark.slow
def test_an_initial_value_is_data_and_no_code(tmp_path: Path) -> None:
    cubins = [
        read_cubin(compiled(tmp_path, "sm_90", KERNELS.replace("factor = 2", f"factor = {value}"))[0], Capability(9, 0))
        for value in (2, 3)
    ]
    assert cubins[0]
    assert cubins[1]
    assert cubins[0].kernels == cubins[1].kernels
    assert cubins[0].data != cubins[1].data


@pytest.mark.parametrize("image", [b"", b".version 9.0\n.target sm_90\n", b"\x7fELF\x02\x01" + b"\0" * 58])
def test_what_is_no_cubin_is_not_read(image: bytes) -> None:
    assert read_cubin(image, Capability(9, 0)) is None


def test_a_cubin_that_is_cut_off_is_not_read(tmp_path: Path) -> None:
    image, _ = compiled(tmp_path, "sm_90")
    assert read_cubin(image[: len(image) // 2], Capability(9, 0)) is None


# By the limits in NVIDIA's guide


@pytest.mark.parametrize(
    ("capability", "threads", "registers", "shared_bytes", "share", "limited_by"),
    [
        ((9, 0), 256, 32, 0, 1.0, "threads"),
        ((9, 0), 256, 33, 0, 0.75, "registers"),  # 40 registers are given, of which 48 warps fit
        ((9, 0), 256, 128, 0, 0.25, "registers"),
        ((9, 0), 64, 129, 0, 0.1875, "registers"),  # 3 warps in each quarter of the multiprocessor
        ((9, 0), 32, 16, 0, 0.5, "blocks"),
        ((9, 0), 256, 32, 49_152, 0.5, "shared memory"),
        ((9, 0), 256, 32, 28_160, 1.0, "threads"),  # with 1 KiB for the system, eight blocks take all of 228 KiB
        ((9, 0), 256, 32, 28_161, 0.875, "shared memory"),
        ((9, 0), 1024, 65, 0, 0.0, "registers"),  # such a block cannot run
        ((8, 6), 256, 32, 0, 1.0, "threads"),
        ((8, 6), 1024, 32, 0, 32 / 48, "threads"),
        ((7, 5), 256, 64, 32_768, 0.5, "shared memory"),
        ((12, 0), 128, 40, 50_000, 8 / 48, "shared memory"),
    ],
)
def test_occupancy(
    capability: tuple[int, int], threads: int, registers: int, shared_bytes: int, share: float, limited_by: str
) -> None:
    found = occupancy(capability, threads=threads, registers=registers, shared_bytes=shared_bytes)
    assert found
    assert found.share == pytest.approx(share)
    assert found.limited_by == limited_by


def test_a_gpu_that_is_not_known_has_no_figure() -> None:
    assert (8, 8) not in LIMITS
    assert occupancy((8, 8), threads=128, registers=32, shared_bytes=0) is None
