"""Tests textures and surfaces that a declaration passes, on each device, and what none can be made of."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
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
from warpwatch.devices.gpu import Device
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.kernel import Kernel
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.mismatch import compare
from warpwatch.devices.opening import Settings
from warpwatch.devices.references import expected
from warpwatch.devices.worker import Worker, describe_device
from warpwatch.revision.declared import own_identity
from warpwatch.timing import sampling
from warpwatch.timing.inputs import COPIES

GATHERS = find_case(FAMILIES, "gather-fetch-128-100-float32")
ADDS = find_case(FAMILIES, "in_place-doubled-128-1000-float32")
VOLUMES = find_case(FAMILIES, "volume-corners-8x4x4-8x9x10-float32")
SURFACES = find_case(FAMILIES, "surfaces-neighbours-16x8-5x33-float32")
SHRINKS = find_case(FAMILIES, "shrink-filtered-16x8-33x64-float32")


@pytest.fixture(scope="module")
def software() -> Iterator[Worker]:
    worker = Worker(load_project(ROOT, "tests.textured"), Settings(kind="software"))
    yield worker
    worker.stop()


@pytest.fixture(scope="module")
def on_gpu(device: DeviceInfo) -> Iterator[Worker]:
    if not device.has_gpu_clock:
        pytest.skip("needs a GPU, whose CUDA arrays are its own: run it where there is one, with --device=gpu")
    worker = Worker(load_project(ROOT, "tests.textured"), Settings(kind="gpu", ordinal=device.ordinal))
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
    return driver_calls.made_texture(described).handle


def wrong(case: Case, kernel: Kernel) -> str:
    inputs = random_inputs(case, 1)
    outcome = kernel.run(case.shape, inputs)
    assert outcome.damage == ()
    found = [
        compare(outcome.results[name], right.reference, right.bound) for name, right in expected(case, inputs).items()
    ]
    return "\n".join(str(each) for each in found if each)


@pytest.mark.parametrize("worker", ["software", "on_gpu"])
@pytest.mark.parametrize("case", tested_cases(FAMILIES), ids=lambda case: case.id)
def test_kernels_use_declared_arrays_through_textures_and_surfaces(
    request: pytest.FixtureRequest, case: Case, worker: str
) -> None:
    assert problems(FAMILIES) == ()
    runs: Worker = request.getfixturevalue(worker)
    image = compile_build(case.build, runs.call(describe_device).target)
    assert wrong(case, Kernel(runs, case.build, image)) == ""


@pytest.mark.parametrize("case", [SHRINKS, SURFACES], ids=lambda case: case.id)
def test_nvcc_compiles_them_too(case: Case) -> None:
    try:
        nvcc()
    except NoCompiler as error:
        pytest.skip(str(error))
    assert compile_build(case.build, Target("sm_90")).path.stat().st_size > 0


@pytest.mark.once
@pytest.mark.parametrize(
    ("case", "old", "new"),
    [
        (GATHERS, "pair.x + pair.y", "pair.x + pair.x"),
        (SHRINKS, "2 * column + 1, 2 * row + 1", "2 * column + 0.5f, 2 * row + 1"),
        (SURFACES, "row + 1, cudaBoundaryModeClamp", "row + 1, cudaBoundaryModeZero"),
        (SURFACES, "column < n && row < m", "column < n && row < m && column != 3"),
        (ADDS, "2 * pair.y), x", "pair.y), x"),
        (VOLUMES, "volume, x, y, z", "volume, x, y, z + 0.5f"),
    ],
    ids=["another channel", "no mean", "zeros outside", "not written", "in place", "another slice"],
)
def test_a_kernel_that_reads_others_is_wrong(software: Worker, tmp_path: Path, case: Case, old: str, new: str) -> None:
    image = planted(software, tmp_path, old, new)
    assert wrong(case, Kernel(software, case.build, image))


@pytest.mark.parametrize(
    ("case", "old", "said"),
    [(GATHERS, "cudaTextureObject_t x, const", "a texture"), (ADDS, "cudaSurfaceObject_t x,", "a surface")],
    ids=["texture", "surface"],
)
def test_a_texture_is_an_argument_of_eight_bytes(
    software: Worker, tmp_path: Path, case: Case, old: str, said: str
) -> None:
    image = planted(software, tmp_path, old, f"int x,{old.partition(',')[2]}")
    with pytest.raises(DeviceError, match=f"argument 1 is {said}, but the kernel.* takes int x "):
        wrong(case, Kernel(software, case.build, image))


@pytest.mark.once
@pytest.mark.parametrize("is_late", [False, True], ids=["", "late"])
def test_an_access_outside_a_surface_is_a_finding(software: Worker, tmp_path: Path, is_late: bool) -> None:
    """Also where the kernel has ended before the copy back is queued, as on a busy host."""
    if is_late:
        software.call(let_copies_back_be_late)
    image = planted(software, tmp_path, "row + 1, cudaBoundaryModeClamp", "row + 1")
    outside = r"out of bounds in neighbours\n.*textures.cu:24: thread .* reads 4 bytes of a surface at x = \d+ .*y = 5"
    with pytest.raises(DeviceError, match=outside):
        wrong(SURFACES, Kernel(software, SURFACES.build, image))


def let_copies_back_be_late() -> None:
    """Queue them when the kernel has ended, in the child, which ends with the fault."""
    usual = driver_calls.CudaArray.give_back

    def late(array: driver_calls.CudaArray) -> None:
        time.sleep(0.5)
        usual(array)

    driver_calls.CudaArray.give_back = late  # type: ignore[assignment,method-assign]


def timed(case: Case, image: Path) -> tuple[int, list[str], int]:
    """Time a case, in the child; return how many CUDA arrays were freed, what a sample did in order, and how often.

    A sample whose hold ran into its limit, on a busy host, is taken again.
    """
    order = list[str]()

    def noting(name: str, usual: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*given: Any, **named: Any) -> Any:
            order.append(name)
            return usual(*given, **named)

        return noted

    with pytest.MonkeyPatch.context() as patch:
        arrays = driver_calls.CudaArray
        for owner, name in (
            (arrays, "fill"), (arrays, "give_back"), (Device, "time"), (driver_calls, "free_array")
        ):  # fmt: skip
            patch.setattr(owner, name, noting(name, getattr(owner, name)))
        sampling.prepare(case, image, cold=True)
        order.clear()
        _, discarded = sampling.sample("cold")
        taken = [*order]
        sampling.finish("cold")
        sampling.observe(["host"])
        sampling.release()
        gc.collect()
    return order.count("free_array"), taken, 1 + discarded


def test_copies_are_no_part_of_a_time(software: Worker) -> None:
    case = find_case(FAMILIES, "surfaces-neighbours-16x8-64x128-float32")
    image = compile_build(case.build, software.call(describe_device).target)
    freed, order, times = software.call(timed, case, image.path)
    assert order == times * ["fill", "fill", "time", "give_back", "give_back"]
    assert freed == 2 * COPIES


@pytest.mark.parametrize("case", [GATHERS, SURFACES], ids=["texture", "surface"])
def test_another_revision_has_textures_made_of_its_own_arrays(case: Case) -> None:
    at = {array.name: (i + 7) << 40 for i, array in enumerate(case.arrays)}
    steps = own_identity(case).steps
    assert steps
    filled, own = steps[0].arguments[0].fill(at), case.arguments(case.steps[0], at)[0]
    assert (filled.item(), is_texture(filled)) == (own.item(), is_texture(own))
    assert filled.item()[0] == at[case.arrays[0].name]


@pytest.mark.parametrize("is_lost", [False, True], ids=["", "lost"])  # destroying waits for what may never end
def test_a_texture_ends_with_what_launches(monkeypatch: pytest.MonkeyPatch, is_lost: bool) -> None:
    freed = list[driver_calls.TextureObject]()
    monkeypatch.setattr(driver_calls, "free_textures", freed.extend)
    device = gpu.Device.__new__(gpu.Device)
    monkeypatch.setattr(device, "_lost", is_lost, raising=False)  # as after a kernel that does not end
    start: Any = device.owning(lambda: None, [driver_calls.TextureObject(7)])
    gc.collect()
    assert freed == []
    del start
    gc.collect()
    assert freed == [driver_calls.TextureObject(7)] * (not is_lost)


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
        ({"shape": (2, 4, 16)}, r"a texture has 1 or 2 axes, .*; those of 3 need cuda_array=True"),
        ({"shape": (1, 2, 4, 16), "cuda_array": True}, "a texture has 1 to 3 axes, and 1, 2 or 4 channels"),
        ({"row_bytes": 60, "cuda_array": True}, "rows of 60 bytes: a texture needs 64 at least"),
        ({"address": -4, "cuda_array": True}, "address -4: a texture needs"),
    ],
)
def test_what_no_texture_can_be_made_of_is_a_sentence(given: dict[str, Any], said: str) -> None:
    usual: dict[str, Any] = {"address": 512, "dtype": "float32", "shape": (4, 16)}
    with pytest.raises(ValueError, match=f"^{said}"):
        ww.texture(**usual | given)
