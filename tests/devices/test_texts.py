"""Kernels that are texts in Python, compiled: what compilers and the declaration's reader know of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import softcuda
import warpwatch as ww
from warpwatch.catalogue.cases import Build, Case
from warpwatch.catalogue.texts import Text
from warpwatch.catalogue.variants import Variant
from warpwatch.compare.self_check import delayed_side, own_side
from warpwatch.devices.compile.builds import compile_build, kernels_of
from warpwatch.devices.compile.compiler import CompileError, Target
from warpwatch.devices.compile.symbols import entries
from warpwatch.devices.info import DeviceInfo, call_problem
from warpwatch.devices.other_kernel import key
from warpwatch.revision import declarations, declared
from warpwatch.revision.commit import compile_other, other_kernel_of
from warpwatch.runs.faults import Place

CODE = '#include "eight.h"\n__global__ void eight(float* y, int n)\n{\n    y[threadIdx.x] = EIGHT;\n}\n'
MARKS = 40  # the line of the Python file that the text begins on


@pytest.fixture(params=["software", "nvcc"])
def target(request: pytest.FixtureRequest) -> Target:
    return Target("sm_90", str(softcuda.stand_in(softcuda.cache_folder())) if request.param == "software" else "")


def build_of(folder: Path, source: Any, **given: Any) -> Build:
    (folder / "eight.h").write_text("#pragma once\n#define EIGHT 8\n")
    usual = {"entry": "eight", "configurations": ((32,),), "grid": 1, "arguments": "y n", "include": (".",)}
    fields: dict[str, Any] = usual | given
    family = ww.Family(
        "eight",
        sizes=("n",),
        dtypes=("float32",),
        arrays=lambda n: {"y": ww.Out(n)},
        tests=((32,),),
        folder=folder,
        variants=(ww.kernel("theirs", source=source, **fields),),
    )
    (variant,) = family.variants
    return Build(family, variant, variant.listed[0], "float32")


def text_in(folder: Path, code: str = CODE) -> Text:
    return Text(code, ((0, str(folder / "theirs.py"), MARKS),))


@pytest.mark.once
def test_an_error_in_a_text_is_at_the_line_of_the_python_file(tmp_path: Path, target: Target) -> None:
    build = build_of(tmp_path, text_in(tmp_path, CODE.replace("= EIGHT", "= NINE")))
    with pytest.raises(CompileError, match=rf"theirs\.py does not compile[^!]*theirs\.py[(:]{MARKS + 3}\b.*NINE"):
        compile_build(build, target)
    with pytest.raises(CompileError, match=r"(?s)absent names no kernel of .*theirs\.py.*the file has eight\(float\*"):
        compile_build(build_of(tmp_path, text_in(tmp_path), entry="absent"), target)


@pytest.mark.slow
def test_a_text_is_compiled_as_a_file_of_its_words_would_be(tmp_path: Path) -> None:
    target = Target("sm_90")
    (tmp_path / "theirs.cu").write_text(CODE)
    image = compile_build(build_of(tmp_path, "theirs.cu", include=()), target)
    of_text = compile_build(build_of(tmp_path, text_in(tmp_path), include=()), target)
    assert entries(of_text.path.read_bytes()) == ["_Z5eightPfi"]
    assert of_text.path.read_bytes() == image.path.read_bytes()


COMPLEX = """#include <pycuda-complex.hpp>
__global__ void eight(pycuda::complex<float>* y, int n)
{
    y[threadIdx.x] = 8.0f;
}
"""


@pytest.mark.once
def test_headers_of_pycuda_are_found_where_it_is_installed(tmp_path: Path, target: Target) -> None:
    image = compile_build(build_of(tmp_path, text_in(tmp_path, COMPLEX)), target)
    assert entries(image.path.read_bytes()) == ["_Z5eightPN6pycuda7complexIfEEi"]


def scaled(block: tuple[int, ...], dtype: str) -> str:
    assert dtype == "float32"
    return CODE.replace("y[threadIdx.x]", f"if (threadIdx.x < {block[0]}) y[threadIdx.x]")


def for_architecture(arch: str) -> str:
    return f"{CODE} // {arch}"


def lacking(block: tuple[int, ...]) -> str:
    raise RuntimeError("there is no GPU")


def number() -> Any:
    return 5


def mistaken(block: tuple[int, ...]) -> str:
    return CODE % "too many"


@pytest.mark.once
def test_a_function_may_return_a_text(tmp_path: Path, target: Target) -> None:
    for source in (scaled, ww.text(scaled)):
        build = build_of(tmp_path, source)
        kernels = kernels_of(build)
        assert kernels.text
        assert (kernels.text.code, kernels.source) == (scaled((32,), "float32"), Path(__file__))
        assert kernels.text.file == Path(__file__)
        assert entries(compile_build(build, target).path.read_bytes()) == ["_Z5eightPfi"]


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (scaled, ""),
        (ww.text(lacking), ""),
        (mistaken, ""),
        (for_architecture, "needs a GPU: theirs brings machine code, which softcuda cannot run"),
        (lambda: b"", "needs a GPU: theirs brings machine code, which softcuda cannot run"),
        (lambda: ".version 9.0\n", "needs a GPU: theirs brings machine code, which softcuda cannot run"),
        (lacking, "or nothing where its source raises RuntimeError (there is no GPU), which softcuda cannot run"),
    ],
)
def test_a_function_that_returns_machine_code_needs_a_gpu(
    tmp_path: Path, device: DeviceInfo, source: Any, problem: str
) -> None:
    variant: Variant = build_of(tmp_path, source).variant
    said = call_problem(variant, device)
    assert said.endswith(problem)
    assert bool(said) == bool(problem)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (mistaken, "TypeError: not all arguments converted"),
        (ww.text(number), "TypeError: it returns int: give CUDA C\\+\\+ as a str"),
        (for_architecture, "TypeError: it returns CUDA C\\+\\+, for which it need not take `arch`"),
        (ww.text(lambda arch: arch), "BadFunction: it asks for 'arch'; it can be given block, c,"),
    ],
)
def test_a_function_without_a_text_is_a_sentence(tmp_path: Path, source: Any, why: str) -> None:
    with pytest.raises(CompileError, match=rf"eight-theirs-32-float32: its source returns no code: {why}"):
        compile_build(build_of(tmp_path, source), Target("sm_90"))


@pytest.mark.once
@pytest.mark.parametrize("source", [text_in, lambda folder: scaled])
def test_another_revision_tells_its_text(tmp_path: Path, source: Any, target: Target) -> None:
    """Its machine code is the same as here, and as that of another text is not."""
    build = build_of(tmp_path, source(tmp_path))
    tree = build.family.root
    said = declarations.declared(Case(build, (32,)), tree)
    assert (said["code"], Path(said["source"]).name) == ("", "theirs.py" if source is text_in else "theirs.cu")
    (case,) = declared.parse(json.dumps({"cases": {"a-case": said}}).encode(), "HEAD").cases.values()
    other = other_kernel_of(tree, case)
    assert compile_other(other, target).image_hash == compile_build(build, target).image_hash
    changed = other_kernel_of(tree, replace(case, text=case.text.replace("EIGHT", "9")))
    assert compile_other(changed, target).image_hash != compile_other(other, target).image_hash


@pytest.mark.once
def test_a_copy_of_a_text_that_waits_is_another_text(tmp_path: Path, target: Target) -> None:
    side = own_side(Case(build_of(tmp_path, text_in(tmp_path)), (32,)))
    waiting = delayed_side(side)
    assert entries(compile_other(waiting, target).path.read_bytes()) == ["_Z5eightPfi"]
    assert key(waiting) != key(side)


def test_a_kernel_of_a_text_has_its_place_in_the_python_file(tmp_path: Path) -> None:
    place = Place.of_kernel(Case(build_of(tmp_path, text_in(tmp_path)), (32,)))
    assert (place.file, place.line) == (str(tmp_path / "theirs.py"), MARKS + 1)
    place = Place.of_kernel(Case(build_of(tmp_path, scaled), (32,)))
    assert (Path(place.file), CODE.count("\n"), place.line) == (Path(__file__), 5, line_of("CODE = "))


def test_a_text_that_no_lines_show_is_a_file_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWATCH_CACHE", str(tmp_path / "cache"))
    build = build_of(tmp_path, lambda: "\n".join(["", *CODE.split("\n")]))
    place = Place.of_kernel(Case(build, (32,)))
    file = Path(place.file)
    assert (file.name, place.line, file.is_relative_to(tmp_path / "cache")) == ("eight_theirs.cu", 3, True)
    assert file.read_text() == f"\n{CODE}"
    assert kernels_of(build).source == file


def line_of(text: str) -> int:
    """The first line of this file that begins so."""
    return next(n for n, line in enumerate(Path(__file__).read_text().splitlines(), 1) if line.startswith(text))
