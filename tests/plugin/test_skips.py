"""Tests what a run says of skipped tests: what each needs, and that nothing was tested where all are skipped."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from kernels import FAMILIES
from tests.stranger import declare, run_pytest
from warpwatch.catalogue.cases import find_case
from warpwatch.catalogue.launches import Capability
from warpwatch.devices.info import DeviceInfo

TENSOR = find_case(FAMILIES, "matmul-tensor-128x128-2048x2048x2048-float64").variant
NOTHING = "NOTHING WAS TESTED: all 3 tests were skipped; the lines above say what each of them needs"
NEW = 'needs="sm_100", configurations=BLOCKS'


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")
def test_a_kernel_of_newer_gpus_is_skipped_with_what_it_needs(tmp_path: Path) -> None:
    package = declare(tmp_path)
    text = (package / "__init__.py").read_text()
    (package / "__init__.py").write_text(text.replace("configurations=BLOCKS", NEW))
    (tmp_path / "test_one.py").write_text(
        "import pytest\n\n@pytest.mark.cases('tested')\ndef test_one(check):\n    check()\n"
    )
    done = run_pytest(tmp_path, "--device=software", "-k", "naive-256 and float32")
    assert done.returncode == 0, done.stdout + done.stderr
    needed = "needs a GPU of compute capability 10.0 or newer; softcuda has 9.0: run it on such a GPU\n"
    assert f"3 skipped: {needed}" in done.stdout
    assert done.stdout.splitlines()[-1] == NOTHING
    mixed = run_pytest(tmp_path, "--device=software", "-k", "33 and float32")
    assert needed in mixed.stdout
    assert "NOTHING WAS TESTED" not in mixed.stdout


def test_the_software_device_is_a_cure_where_it_runs_the_kernel(device: DeviceInfo) -> None:
    old = replace(device, name="NVIDIA T4", capability=Capability(7, 5), runs_machine_code=True)
    assert old.is_replaced_by_software(TENSOR)
    assert not old.is_replaced_by_software(replace(TENSOR, capability=Capability(10, 0)))
    assert not old.is_replaced_by_software(replace(TENSOR, cluster=2))
