"""Compiles and runs snippets of CUDA C++ on the software device, and compares what each computes with what it must."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import softcuda
from tests.project import PROJECT
from tests.softcuda import calls
from tests.softcuda.snippets import (
    conversions,
    floats,
    half,
    integers,
    libraries,
    matrices,
    memory,
    names,
    ptx,
    ptx_memory,
    simd,
)
from tests.softcuda.snippets.snippet import WIDTH, Snippet, mistakes, of, source
from tests.written import compile_written
from warpwatch.devices.compile.compiler import CompileError, Target
from warpwatch.devices.gpu import Settings
from warpwatch.devices.worker import Worker, describe_device

SNIPPETS = {
    "integers": integers.INTEGERS,
    "simd": simd.SIMD,
    "floats": floats.FLOATS,
    "conversions": conversions.CONVERSIONS,
    "memory": memory.MEMORY,
    "ptx": ptx.PTX,
    "ptx_memory": ptx_memory.PTX_MEMORY,
    "half": half.HALF,
    "matrices": matrices.MATRICES,
    "names": names.NAMES,
    "libraries": libraries.LIBRARIES,
}
CHECKED = ("memory", "ptx_memory", "matrices", "names", "libraries")  # what the checker has to do with


def run(software: Worker, folder: Path, snippets: list[Snippet], checked: bool) -> list[str]:
    """What is wrong with snippets, each a sentence."""
    file = folder / "snippets.cu"
    file.write_text(source(snippets))
    info = software.call(describe_device)
    image = compile_written(file, {}, info.target if checked else info.timing_target)
    left = software.call(calls.run_snippets, image.path, len(snippets), WIDTH, 1024)
    said = []
    for snippet, each in zip(snippets, left, strict=False):
        said += [f"{snippet.code}: {each}"] if isinstance(each, str) else mistakes(snippet, each)
    return said


@pytest.mark.parametrize("group", SNIPPETS)
def test_snippets_compute_what_they_must(software: Worker, tmp_path: Path, group: str) -> None:
    assert run(software, tmp_path, SNIPPETS[group], group in CHECKED) == []


BARRIER = r"does not support a reduction at a barrier other than 0"
# What is refused, each on line 4 of its file, and what is said of it.
REFUSED = {
    'asm volatile("wgmma.fence.sync.aligned;");': r"wgmma\.fence\.sync\.aligned$",
    'asm("add.u32 %0, %0, %1;\\n\\tadd.cc.u32 %0, %0, 1;" : "+r"(r) : "r"(1));': r"add\.cc\.u32 %0, %0, 1$",
    'asm("mov.u32 %0, %%nosuch;" : "=r"(r));': r"mov\.u32 %0, %%nosuch \(it has no .* %%nosuch\)$",
    'asm("mov.u32 %0, %3;" : "=r"(r) : "r"(1));': r"mov\.u32 %0, %3 \(it has no .* %3\)$",
    'asm("{ .reg .v4 .b32 x; mov.u32 %0, 1; }" : "=r"(r));': r"\.reg \.v4 \.b32 x$",
    'asm("add.u32 %0, %1;" : "=r"(r) : "r"(1));': r"add\.u32 %0, %1$",
    'asm("mov.u32 %0, x;" : "=r"(r));': r"mov\.u32 %0, x \(it has no .* x\)$",
    'asm volatile("{ .reg .pred p; setp.lt.u32 p, %0, 7; bar.red.popc.u32 %0, 1, p; }" : "+r"(r));': BARRIER,
    "r = __vadd3(1, 2);": r"error: .__vadd3. was not declared",
}


# What nvcc takes, and would be refused in a kernel or by g++'s own rules.
TAKEN = {
    "PTX that no kernel uses": '__device__ inline void unused() { asm volatile("wgmma.fence.sync.aligned;"); }',
    "a name that changes its meaning": "template <class T> struct Box { T v; };\n"
    "template <class T> struct Uses { Box<T> b; typedef Box<int> Box; };\ntemplate struct Uses<int>;",
}


@pytest.mark.parametrize("declared", TAKEN.values(), ids=TAKEN)
def test_what_nvcc_takes_beside_a_kernel_is_taken(tmp_path: Path, declared: str) -> None:
    file = tmp_path / "sample.cu"
    file.write_text(f'{declared}\nextern "C" __global__ void sample(int* out) {{ *out = 1; }}\n')
    compile_written(file, {}, Target("sm_90", str(softcuda.stand_in(softcuda.cache_folder()))))


@pytest.mark.parametrize(("line", "said"), REFUSED.items())
def test_what_is_not_there_is_an_error_that_names_it(tmp_path: Path, line: str, said: str) -> None:
    file = tmp_path / "sample.cu"
    begin = 'extern "C" __global__ void sample(unsigned* out)\n{\n    unsigned r = out[0];\n'
    file.write_text(f"{begin}    {line}\n    out[1] = r;\n}}\n")
    with pytest.raises(CompileError) as caught:
        compile_written(file, {}, Target("sm_90", str(softcuda.stand_in(softcuda.cache_folder()))))
    lines = re.findall(r"^.*sample\.cu:4:\d+: (error: .*)", str(caught.value), re.MULTILINE)
    assert any(re.search(said, each) for each in lines), caught.value


def test_what_cannot_go_on_is_a_finding(tmp_path: Path) -> None:
    """An assumption that is false, a barrier for more threads than a block has, a trap of PTX, each with its line."""
    endings = {
        "__builtin_assume(t < 31);": "a false __builtin_assume",
        'asm volatile("bar.sync 0, 64;");': "barrier error",
        'if (t == 3) asm volatile("trap;");': "trap",
    }
    for line, said in endings.items():
        worker = Worker(PROJECT, Settings(kind="software"))
        (found,) = run(worker, tmp_path, [of("i", line, lambda t: t)], False)
        worker.stop()
        assert re.search(rf"softcuda: {said}.* in snippet_0\n  .*snippets\.cu:12: thread", found), found


# Words from the start of dynamic shared memory, to which the launch adds 256; as far as the image has room and beyond.
OUTSIDE = {
    -1: "4 bytes before the start of dynamic shared memory, 1,024 bytes",
    256: "just past the end of dynamic shared memory, 1,024 bytes",
    5000: "18,976 bytes past the end of dynamic shared memory, 1,024 bytes",
    100_000: "where there is no array",
}


@pytest.mark.once
@pytest.mark.parametrize(("place", "said"), OUTSIDE.items())
def test_dynamic_shared_memory_of_a_file_has_bounds(tmp_path: Path, place: int, said: str) -> None:
    worker = Worker(PROJECT, Settings(kind="software"))
    snippet = of("i", f"r = all[{place} + t];", lambda t: t, preamble="extern __shared__ int all[];")
    (found,) = run(worker, tmp_path, [snippet], True)
    worker.stop()
    assert re.search(
        rf"softcuda: out of bounds in snippet_0\n  .*snippets\.cu:12: thread.*, {said}$", found, re.MULTILINE
    ), found


def test_a_header_may_name_what_its_file_does_not(software: Worker, tmp_path: Path) -> None:
    (tmp_path / "sums.h").write_text("#define SUM(a, b) __v##add##4(a, b)\n#define ROOT(x) __fsqrt_ru(x)\n")
    snippets = [
        of("u", "SUM(0x01ff0000u + t, 0x01010000u)", lambda t: 0x02000000 + t, preamble='#include "sums.h"'),
        of("f", "ROOT(4.0f)", lambda t: 2),
    ]
    assert run(software, tmp_path, snippets, False) == []


def test_there_are_many_snippets() -> None:
    assert sum(map(len, SNIPPETS.values())) >= 200
    codes = [each.code for group in SNIPPETS.values() for each in group]
    assert len(set(codes)) == len(codes)


def test_a_wrong_snippet_is_found(software: Worker, tmp_path: Path) -> None:
    """One that is wrong in one thread, one in the last digit and one by the sign of zero."""
    snippets = [
        of("i", "t == 31 ? 5 : t", lambda t: t),
        of("f", "1.0f / 3 * (1 + 1.2e-7f)", lambda t: 1 / 3),
        of("d", "0.0 * t", lambda t: -0.0),
    ]
    said = run(software, tmp_path, snippets, False)
    assert [len([each for each in said if each.startswith(snippet.code)]) for snippet in snippets] == [1, 32, 32]
