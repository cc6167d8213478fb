"""A driver is there for declarations that import PyCUDA: a GPU's, or else the software device."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from multiprocessing import Pipe
from pathlib import Path

import pytest

import softcuda
from tests.project import ROOT
from tests.stranger import run_pytest
from warpwatch.devices import opening, transfer
from warpwatch.devices.compile.compiler import nvcc
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.opening import NoDevice, Settings, open_device, ready_to_import
from warpwatch.devices.worker import CALL_SECONDS

SOFTLY = Settings(kind="software")


@pytest.fixture
def activated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was missing each time when the software device was activated, which sets a variable."""
    calls: list[str] = []

    def activate(limit: float, seed: int | None, missing: str) -> Path:
        calls.append(missing)
        os.environ["SOFTCUDA_SEED"] = "7"
        os.environ["SOFTCUDA_NVCC"] = "nvcc"
        return Path()

    monkeypatch.setenv("SOFTCUDA_SEED", "3")
    monkeypatch.setattr(opening, "_activate", activate)
    return calls


def imports(name: str) -> None:
    """Ask the finders for a module, as an import does."""
    for finder in [*sys.meta_path]:
        finder.find_spec(name, None)


def test_the_software_device_is_there_when_pycuda_is_first_imported(
    activated: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [*sys.meta_path]
    with ready_to_import(SOFTLY):
        imports("numpy")
        assert not activated
        imports("pycuda")
        assert os.environ["SOFTCUDA_SEED"] == "7"
        monkeypatch.setenv("OF_A_DECLARATION", "kept")
        imports("pycuda")
    assert (activated, sys.meta_path) == ([""], before)
    assert (os.environ["SOFTCUDA_SEED"], os.environ.get("SOFTCUDA_NVCC")) == ("3", None)
    assert os.environ["OF_A_DECLARATION"] == "kept"


@pytest.mark.parametrize(("missing", "expected"), [("no GPU", ["no GPU", "no GPU"]), ("", [])])
def test_it_is_not_where_there_is_a_gpu(
    monkeypatch: pytest.MonkeyPatch, activated: list[str], missing: str, expected: list[str]
) -> None:
    @contextlib.contextmanager
    def asked() -> Iterator[tuple[str, int]]:
        yield missing, 0

    monkeypatch.setattr(opening, "asked", asked)
    for settings in (Settings(), Settings(kind="none"), Settings(gpu_seen=True)):
        with ready_to_import(settings):
            imports("pycuda")
    assert activated == expected
    with ready_to_import(Settings(kind="gpu")), pytest.raises(NoDevice, match="no GPU") if missing else nullcontext():
        imports("pycuda")
    assert activated == expected


def test_a_declaration_cannot_hide_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(softcuda, "_active", [True])
    with pytest.raises(DeviceError, match=r"the declarations call softcuda\.activate\(\), which hides the GPU"):
        open_device(Settings(gpu_seen=True))


def test_what_softcuda_puts_on_the_path_is_not_taken_for_nvcc(monkeypatch: pytest.MonkeyPatch) -> None:
    own = softcuda.stand_in(softcuda.cache_folder())
    before = nvcc.__wrapped__()
    monkeypatch.setenv("PATH", os.pathsep.join([str(own.parent), os.environ["PATH"]]))
    assert nvcc.__wrapped__() == before
    assert nvcc.__wrapped__(str(own)).is_softcuda
    monkeypatch.setenv("NVCC", str(own))
    assert nvcc.__wrapped__().is_softcuda


TWICE = """
import softcuda
first = softcuda.activate(seed=3)
import pycuda.autoinit
from pycuda import driver
assert softcuda.activate(checks=True) == first
import os
print(driver.Device(0).name(), os.environ["SOFTCUDA_SEED"], os.environ["SOFTCUDA_CHECKS"])
"""


@pytest.mark.slow
def test_a_second_activate_changes_settings_alone() -> None:
    done = subprocess.run([sys.executable, "-c", TWICE], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "softcuda 3 1\n", done.stderr


DECLARED = """
import numpy as np
import warpwatch as ww
{first}
from pkg.code import CODE

FILL = ww.Family(
    "fill", sizes=("n",), arrays=lambda n: {{"x": ww.Out(n, "float32")}}, reference=lambda n: np.full(n, 8.0),
    tests=((5,),),
    variants=(ww.kernel("k", source=ww.text(CODE), entry="fill", configurations=((32,),), grid=1, arguments="x n"),),
)
"""
PKG = """
import pycuda.autoinit
from pycuda.compiler import SourceModule

CODE = "__global__ void fill(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] = 8; }"
MODULE = SourceModule(CODE)
"""
ACTIVATE = "import softcuda\nsoftcuda.activate(checks=True)\n"


@pytest.mark.slow
@pytest.mark.parametrize(("conftest", "first"), [("", ""), (ACTIVATE, ""), ("", ACTIVATE)])
def test_a_declaration_may_import_modules_of_pycudas_users(tmp_path: Path, conftest: str, first: str) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "code.py").write_text(PKG)
    (tmp_path / "mine.py").write_text(DECLARED.format(first=first))
    (tmp_path / "pyproject.toml").write_text('[tool.warpwatch]\nkernels = "mine"\n')
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "test_it.py").write_text(
        'import pytest\n\n@pytest.mark.cases("tested")\ndef test_right(check):\n    check()\n'
    )
    done = run_pytest(tmp_path, "-q", "--device=software", "test_it.py")
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_the_build_of_the_software_device_is_a_stage_that_a_parent_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = Pipe()
    monkeypatch.setattr(transfer, "_parents", [theirs])
    monkeypatch.setattr(softcuda, "activate", lambda **given: Path())
    assert opening._activate(10, None, "") == Path()
    assert ours.poll()
    (_, text, share), _ = transfer.receive(ours)
    assert text == "the software device, which g++ builds once"
    assert share * Settings().reference_timeout > CALL_SECONDS
    assert transfer.receive(ours)[0][1] == ""
