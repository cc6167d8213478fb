"""Tests textures that a declaration passes: on the software device, and what no texture can be made of."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwatch as ww
from tests.project import ROOT
from tests.textured import FAMILIES
from tests.written import compile_written
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.inputs import random_inputs
from warpwatch.catalogue.project import load_project
from warpwatch.catalogue.selection import tested_cases
from warpwatch.catalogue.textures import is_texture
from warpwatch.catalogue.validation import problems
from warpwatch.devices import driver_calls, gpu, worker
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.compile.compiler import Image, NoCompiler, Target, nvcc
from warpwatch.devices.kernel import Kernel
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.mismatch import compare
from warpwatch.devices.opening import Settings
from warpwatch.devices.references import expected
from warpwatch.devices.worker import Worker, describe_device
from warpwatch.revision.declared import own_identity

GATHERS = find_case(FAMILIES, "gather-fetch-128-100-float32")
SHRINKS = find_case(FAMILIES, "shrink-filtered-16x8-33x64-float32")


@pytest.fixture(scope="module")
def software() -> Iterator[Worker]:
    worker = Worker(load_project(ROOT, "tests.textured"), Settings(kind="software"))
    yield worker
    worker.stop()


def planted(software: Worker, folder: Path, old: str, new: str) -> Image:
    """Compile the kernels with ``new`` in the place of ``old``."""
    text = (ROOT / "tests/textured/textures.cu").read_text()
    assert old in text
    (folder / "textures.cu").write_text(text.replace(old, new))
    return compile_written(folder / "textures.cu", {}, software.call(describe_device).target)


def made(described: Any) -> int:
    """Make a texture, in the child."""
    worker.gpu()
    return int(driver_calls.made_texture(described))


def wrong(case: Case, kernel: Kernel) -> str:
    inputs = random_inputs(case, 1)
    outcome = kernel.run(case.shape, inputs)
    assert outcome.damage == ()
    (found,) = (
        compare(outcome.results[name], right.reference, right.bound) for name, right in expected(case, inputs).items()
    )
    return str(found or "")


@pytest.mark.parametrize("case", tested_cases(FAMILIES), ids=lambda case: case.id)
def test_kernels_read_declared_arrays_through_textures(software: Worker, case: Case) -> None:
    assert problems(FAMILIES) == ()
    image = compile_build(case.build, software.call(describe_device).target)
    assert wrong(case, Kernel(software, case.build, image)) == ""


def test_nvcc_compiles_them_too() -> None:
    try:
        nvcc()
    except NoCompiler as error:
        pytest.skip(str(error))
    assert compile_build(SHRINKS.build, Target("sm_90")).path.stat().st_size > 0


@pytest.mark.parametrize(
    ("case", "old", "new"),
    [
        (GATHERS, "pair.x + pair.y", "pair.x + pair.x"),
        (SHRINKS, "2 * column + 1, 2 * row + 1", "2 * column + 0.5f, 2 * row + 1"),
    ],
    ids=["another channel", "no mean"],
)
def test_a_kernel_that_reads_others_is_wrong(software: Worker, tmp_path: Path, case: Case, old: str, new: str) -> None:
    image = planted(software, tmp_path, old, new)
    assert wrong(case, Kernel(software, case.build, image))


def test_a_texture_is_an_argument_of_eight_bytes(software: Worker, tmp_path: Path) -> None:
    image = planted(software, tmp_path, "cudaTextureObject_t x, ", "int x, ")
    with pytest.raises(DeviceError, match="argument 1 is a texture, but the kernel takes int x "):
        wrong(GATHERS, Kernel(software, GATHERS.build, image))


def test_another_revision_has_textures_made_of_its_own_arrays() -> None:
    at = {array.name: (i + 7) << 40 for i, array in enumerate(GATHERS.arrays)}
    steps = own_identity(GATHERS).steps
    assert steps
    filled, own = steps[0].arguments[0].fill(at), GATHERS.arguments(GATHERS.steps[0], at)[0]
    assert (filled.item(), is_texture(filled)) == (own.item(), is_texture(own))
    assert filled.item()[0] == at["x"]


@pytest.mark.parametrize("is_lost", [False, True], ids=["", "lost"])  # destroying waits for what may never end
def test_a_texture_ends_with_what_launches(monkeypatch: pytest.MonkeyPatch, is_lost: bool) -> None:
    freed = list[int]()
    monkeypatch.setattr(driver_calls, "free_textures", freed.extend)
    device = gpu.Device.__new__(gpu.Device)
    monkeypatch.setattr(device, "_lost", is_lost, raising=False)  # as after a kernel that does not end
    start: Any = device.owning(lambda: None, [7])
    gc.collect()
    assert freed == []
    del start
    gc.collect()
    assert freed == [7] * (not is_lost)


@pytest.mark.parametrize("part", ["format", "channels", "filter", "flags"])
def test_numbers_that_the_driver_does_not_have_are_its_error(software: Worker, part: str) -> None:
    described = np.array(GATHERS.arguments(GATHERS.steps[0], {"x": 512, "places": 0, "y": 0})[0])
    described[part] = -1
    with pytest.raises(DeviceError, match="no texture can be made of 800 bytes at 0x200"):
        software.call(made, described[()])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"dtype": "float64"}, "a texture has no type 'float64': it may be uint8, "),
        ({"filter": "cubic"}, "a texture has no filter 'cubic': it may be point, linear"),
        ({"beyond": "zeros"}, "a texture has no beyond 'zeros': it may be wrap, "),
        ({"channels": 3}, r"a texture has 1 or 2 axes, and 1, 2 or 4 channels, not \(4, 16\) and 3"),
        ({"address": 256}, "address 256: a texture needs multiples of 512, so declare aligned=512"),
        ({"shape": (4, 9)}, "rows of 36 bytes: a texture needs multiples of 32 that hold a row, so pad them"),
        ({"row_bytes": 32}, "rows of 32 bytes: a texture needs multiples of 32 that hold a row"),
        ({"shape": (64,), "filter": "linear"}, "tex1Dfetch takes whole coordinates alone"),
        ({"shape": (64,), "row_bytes": 32}, "row_bytes is of matrices"),
        ({"shape": 64}, "a texture has 1 or 2 axes, and 1, 2 or 4 channels, not 64 and 1"),
        ({"shape": (0, 16)}, r"a texture of \(0, 16\): its shape has whole numbers from 1 on"),
        ({"shape": (-4,)}, r"a texture of \(-4,\): its shape"),
        ({"shape": (4.5, 16)}, r"a texture of \(4.5, 16\): its shape"),
        ({"address": None}, "address None: a texture needs multiples of 512"),
        ({"address": -512}, "address -512: a texture needs multiples of 512"),
        ({"beyond": "wrap"}, "beyond='wrap' needs normalized=True"),
        ({"dtype": "int32", "as_float": True}, "as_float is of integers of 8 and 16 bits alone, not of int32"),
        ({"dtype": "uint16", "filter": "linear"}, "integers are not filtered, but for those of 8 and 16 bits"),
    ],
)
def test_what_no_texture_can_be_made_of_is_a_sentence(given: dict[str, Any], said: str) -> None:
    usual: dict[str, Any] = {"address": 512, "dtype": "float32", "shape": (4, 16)}
    with pytest.raises(ValueError, match=f"^{said}"):
        ww.texture(**usual | given)
