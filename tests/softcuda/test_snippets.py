"""Compiles and runs snippets of CUDA C++ on the software device, and compares what each computes with what it must."""

from __future__ import annotations

import re

import pytest

from tests.softcuda import calls
from tests.softcuda.device import Device
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


def run(device: Device, snippets: list[Snippet]) -> list[str]:
    """What is wrong with snippets, each a sentence."""
    left = device.once(calls.run_snippets, device.image(source(snippets)), len(snippets), WIDTH, 1024)
    said = []
    for snippet, each in zip(snippets, left, strict=False):
        said += [f"{snippet.code}: {each}"] if isinstance(each, str) else mistakes(snippet, each)
    return said


# Those whose headers take seconds to compile.
SLOW = [pytest.param(group, marks=pytest.mark.slow) for group in ("half", "libraries")]


@pytest.mark.once
@pytest.mark.parametrize("group", [*(group for group in SNIPPETS if group not in ("half", "libraries")), *SLOW])
def test_snippets_compute_what_they_must(checked: Device, group: str) -> None:
    assert run(checked if group in CHECKED else checked.unchecked, SNIPPETS[group]) == []


# What cannot go on, with its line: a false assumption, a barrier for more threads than a block has, a trap of PTX.
ENDINGS = {
    "__builtin_assume(t < 31);": "a false __builtin_assume",
    'asm volatile("bar.sync 0, 64;");': "barrier error",
    'if (t == 3) asm volatile("trap;");': "trap",
}


@pytest.mark.parametrize(("line", "said"), ENDINGS.items())
def test_what_cannot_go_on_is_a_finding(checked: Device, line: str, said: str) -> None:
    (found,) = run(checked.unchecked, [of("i", line, lambda t: t)])
    assert re.search(rf"softcuda: {said}.* in snippet_0\n  .*kernel\.cu:12: thread", found), found


# Words from the start of dynamic shared memory, to which the launch adds 256; as far as the image has room and beyond.
OUTSIDE = {
    -1: "4 bytes before the start of dynamic shared memory, 1,024 bytes",
    256: "just past the end of dynamic shared memory, 1,024 bytes",
    5000: "18,976 bytes past the end of dynamic shared memory, 1,024 bytes",
    100_000: "where there is no array",
}


@pytest.mark.parametrize(("place", "said"), OUTSIDE.items())
def test_dynamic_shared_memory_of_a_file_has_bounds(checked: Device, place: int, said: str) -> None:
    shared = "extern __shared__ int all[];"
    (found,) = run(checked, [of("i", f"r = all[{place} + t];", lambda t: t, preamble=shared)])
    place_and_end = rf"softcuda: out of bounds in snippet_0\n  .*kernel\.cu:12: thread.*, {said}$"
    assert re.search(place_and_end, found, re.MULTILINE), found


def test_a_header_may_name_what_its_file_does_not(checked: Device) -> None:
    sums = "#define SUM(a, b) __v##add##4(a, b)\n#define ROOT(x) __fsqrt_ru(x)\n"
    (checked.folder / "sums.h").write_text(sums)
    snippets = [
        of("u", "SUM(0x01ff0000u + t, 0x01010000u)", lambda t: 0x02000000 + t, preamble='#include "sums.h"'),
        of("f", "ROOT(4.0f)", lambda t: 2),
    ]
    assert run(checked.unchecked, snippets) == []


def test_there_are_many_snippets() -> None:
    assert sum(map(len, SNIPPETS.values())) >= 200
    codes = [each.code for group in SNIPPETS.values() for each in group]
    assert len(set(codes)) == len(codes)


def test_a_wrong_snippet_is_found(checked: Device) -> None:
    """One that is wrong in one thread, one in the last digit and one by the sign of zero."""
    snippets = [
        of("i", "t == 31 ? 5 : t", lambda t: t),
        of("f", "1.0f / 3 * (1 + 1.2e-7f)", lambda t: 1 / 3),
        of("d", "0.0 * t", lambda t: -0.0),
    ]
    said = run(checked.unchecked, snippets)
    assert [len([each for each in said if each.startswith(snippet.code)]) for snippet in snippets] == [1, 32, 32]
