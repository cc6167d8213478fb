"""Tests ``--against`` in a repository whose declarations are a single file, beside the kernels."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.checkout import COMMIT
from tests.project import ROOT
from tests.stranger import TABLE, declare, run_pytest

FEW = ("bench", "--device=software", "--benchmark-max-time=0.01", "-k", "naive-256-1048576-float32")


def git(folder: Path, *args: str) -> None:
    subprocess.run(["git", *args], cwd=folder, check=True)


@pytest.mark.once
@pytest.mark.parametrize("module", ["perf.bandwidth", "bandwidth"])
def test_a_module_is_found_in_another_revision_with_the_kernels_beside_it(tmp_path: Path, module: str) -> None:
    package = declare(tmp_path, TABLE.replace("mine", module))
    to = tmp_path / Path(*module.split(".")).with_suffix(".py")
    to.parent.mkdir(exist_ok=True)
    beside = module.rpartition("bandwidth")[0]
    to.write_text((package / "__init__.py").read_text().replace("from mine.", f"from {beside}"))
    for other in ("memcpy.py", "naive.cu", "vectorised.cu", "serial.cpp"):
        shutil.move(package / other, to.parent)
    shutil.rmtree(package)
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "bench_kernels.py").write_text((ROOT / "bench" / "bench_kernels.py").read_text())
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, *COMMIT)
    done = run_pytest(tmp_path, *FEW, "--against", "HEAD")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 identical" in done.stdout
