"""Compiles and runs snippets of CUDA C++ on the software device, and compares what each computes with what it must."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project import PROJECT
from tests.softcuda import calls
from tests.softcuda.snippets import conversions, floats, integers, memory, names, ptx, ptx_memory, simd
from tests.softcuda.snippets.snippet import WIDTH, Snippet, mistakes, of, source
from warpwatch.devices.compiler import compile_file
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
    "names": names.NAMES,
}
CHECKED = ("memory", "ptx_memory", "names")  # what the checker has to do with


@pytest.fixture(scope="module")
def software() -> Iterator[Worker]:
    worker = Worker(PROJECT, Settings(kind="software"))
    yield worker
    worker.stop()


def run(software: Worker, folder: Path, snippets: list[Snippet], checked: bool) -> list[str]:
    """What is wrong with snippets, each a sentence."""
    file = folder / "snippets.cu"
    file.write_text(source(snippets))
    info = software.call(describe_device)
    image = compile_file(file, {}, info.target if checked else info.timing_target)
    left = software.call(calls.run_snippets, image.path, len(snippets), WIDTH, 1024)
    said = []
    for snippet, each in zip(snippets, left, strict=False):
        said += [f"{snippet.code}: {each}"] if isinstance(each, str) else mistakes(snippet, each)
    return said


@pytest.mark.parametrize("group", SNIPPETS)
def test_snippets_compute_what_they_must(software: Worker, tmp_path: Path, group: str) -> None:
    assert run(software, tmp_path, SNIPPETS[group], group in CHECKED) == []


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
