"""Tests CUDA C++ as kernels use it, on the device of the run: the software device must agree with a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import softcuda
from tests.project import PROJECT, ROOT
from tests.softcuda import calls
from tests.written import compile_written
from warpwatch.devices.compile.compiler import CompileError, Target, compile_file
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.opening import Settings
from warpwatch.devices.worker import Worker, describe_device
from warpwatch.plugin.options import value_of

LANES = np.arange(32)
I32 = (LANES * 0x01234567).astype(np.uint32).view(np.int32)


def reversed_bits(value: int) -> int:
    return int(np.uint32(int(f"{value & 0xFFFFFFFF:032b}"[::-1], 2)).view(np.int32))


def integer_functions(value: int) -> list[int]:
    """Compute popc, clz, ffs, mulhi, umulhi by 77 and brev with Python's unlimited integers."""
    bits = value & 0xFFFFFFFF
    halves = [value * value >> 32, bits * 77 >> 32]
    return [bits.bit_count(), 32 - bits.bit_length(), (bits & -bits).bit_length(), *halves, reversed_bits(value)]


# What each kernel of dialect.cu leaves; a launch is of one block with a thread for each number, unless GEOMETRY says.
EXPECTED: dict[str, list[int]] = {
    "indices": [332] * 96,
    "shuffle": [5] * 16 + [21] * 16,
    "shuffle_up": [0, 1, 2, *range(29)],
    "shuffle_down": [8 * i + j for i in range(4) for j in (3, 4, 5, 6, 7, 5, 6, 7)],
    "shuffle_xor": [lane ^ 7 for lane in range(32)],
    "shuffle_double": [31] * 32,
    "ballot": [sum(1 << lane for lane in range(0, 32, 3))] * 32,
    "votes": [1] * 32,
    "half_a_warp": [0xAAAA] * 16 + [0] * 16,
    "early_return": [255] * 8 + [0] * 24,
    "counting_barriers": [1040] * 64,
    "shared": list(range(63, -1, -1)),
    "dynamic_shared": list(range(63, -1, -1)),
    "asynchronous_copies": [100 * i + i + 1 for i in range(63, 0, -2)] + list(range(63, 0, -2)),
    "asynchronous_ptx": [100 * (2 * i + 1) + i for i in range(63, 0, -2)] + [0] * 32,
    "atomics": [96, 31, 255, 7, 6, int(np.float32(48).view(np.int32)), 3],
    "vectors": [1, 2, 3, 4] * 32,
    "integers": [number for value in I32 for number in integer_functions(int(value))],
    "bits_of_floats": [0x40000000 + lane for lane in range(32)],
    "math": [527] * 32,
    "load_hints": [lane ^ 1 for lane in range(32)],
    "cooperative_loop": [499500] * 64,
    "templates": [6 * lane for lane in range(32)],
    "module_variables": [37 * 10 ** (lane % 4) for lane in range(32)],
    "by_macro": [9] * 32,
    "local_arrays": [28 * lane for lane in range(32)],
}
# Threads of a block, blocks.
GEOMETRY = dict.fromkeys(("asynchronous_copies", "asynchronous_ptx", "vectors", "integers"), (32, 1))
GEOMETRY |= {"indices": (32, 3), "atomics": (32, 3)}


@pytest.fixture(scope="module")
def child(device: DeviceInfo, pytestconfig: pytest.Config) -> Iterator[Worker]:
    worker = Worker(PROJECT, Settings(kind=value_of(pytestconfig, "device"), ordinal=device.ordinal))
    yield worker
    worker.stop()


@pytest.mark.once
@pytest.mark.parametrize("checked", [True, False], ids=["checked", "plain"])
@pytest.mark.parametrize("name", EXPECTED)
def test_a_kernel_does_what_cuda_says(child: Worker, name: str, checked: bool) -> None:
    info = child.call(describe_device)
    image = compile_file(ROOT / "tests/devices/dialect.cu", {}, info.target if checked else info.timing_target)
    expected = EXPECTED[name]
    block, grid = GEOMETRY.get(name, (len(expected), 1))
    shared = 256 if name in ("dynamic_shared", "asynchronous_ptx") else 0
    got = child.call(calls.run_on_bytes, image.path, name, (block, 1, 1), (grid, 1), 4 * len(expected), shared)
    assert np.frombuffer(got, np.int32).tolist() == expected


def test_constant_memory_is_filled_from_the_host(child: Worker) -> None:
    image = compile_file(ROOT / "tests/devices/dialect.cu", {}, child.call(describe_device).target)
    values = LANES.astype(np.int32)
    got = child.call(calls.set_constant, image.path, "filled_constant", "weights", values.tobytes(), 128)
    assert np.frombuffer(got, np.int32).tolist() == (2 * values).tolist()


def compile_line(folder: Path, line: str) -> None:
    source = folder / "sample.cu"
    source.write_text(f'extern "C" __global__ void kernel(int* out)\n{{\n    {line}\n}}\n')
    compile_written(source, {}, Target("sm_75", str(softcuda.stand_in(softcuda.cache_folder()))))


@pytest.mark.once
@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('asm volatile("wgmma.fence.sync.aligned;");', r"asm \(inline PTX\): wgmma\.fence"),
        ('asm volatile("cp.async.commit_group; cp.async.bulk.wait_group 0;");', r"asm \(inline PTX\): cp\.async\.bulk"),
        ('asm("cp.async.wait_group %later;" :: [later] "n"(0));', r"asm \(inline PTX\)"),
        ("asm(PTX);", r"asm \(inline PTX\): PTX"),
        ('asm volatile("cp.async.wait_group %1;" :: "n"(0));', r"asm \(inline PTX\): cp\.async\.wait_group %1"),
        ('asm goto("bra %l0;" :::: done); done:;', r"asm \(inline PTX\): with other words than volatile"),
        ("cub::BlockMergeSort<int, 32> sort;", r"BlockMergeSort \(collectives of cub beyond reductions, .*\)"),
        ("out[0] = __shfl(out[0], 0);", r"__shfl \(warp functions without a mask\)"),
        ("texture<float, 1> t;", r"texture<\.\.\.> \(texture references, .*: give the kernel a cudaTextureObject_t"),
        ("other<<<1, 1>>>(out);", r"<<<\.\.\.>>> \(launches from kernels\)"),
    ],
)
def test_what_is_not_supported_is_named_with_its_line(tmp_path: Path, line: str, named: str) -> None:
    with pytest.raises(CompileError, match=named) as caught:
        compile_line(tmp_path, line)
    assert "sample.cu:3:" in str(caught.value)


def test_too_much_shared_memory_is_refused_as_ptxas_refuses_it(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"kernel uses too much shared data \(49,160 bytes, 49,152 max\)"):
        compile_line(tmp_path, "__shared__ double all[6145]; all[threadIdx.x] = 0; __syncthreads(); out[0] = all[5];")


def test_an_error_of_c_is_told_as_the_compiler_tells_it(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"sample\.cu:3:\d+: error: .*undeclared"):
        compile_line(tmp_path, "out[0] = undeclared;")
