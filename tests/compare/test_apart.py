"""Tests ``--against`` of calls: each side runs in a process of its own, with its own revision's code."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.checkout import COMMIT
from tests.project import ROOT
from tests.stranger import declare, run_pytest

CASE = "copy-memcpy-vendor-1048576-float32"
RUN = ("bench", "--device=software", "--benchmark-max-time=0.01", "-k", CASE, "--against", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a call that needs no library of a vendor, as it is committed."""
    package = declare(tmp_path)
    text = (package / "__init__.py").read_text()
    assert text.count("needs=ww.Driver(), ") == 1
    (package / "__init__.py").write_text(text.replace("needs=ww.Driver(), ", ""))
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "bench_kernels.py").write_text((ROOT / "bench" / "bench_kernels.py").read_text())
    (tmp_path / ".gitignore").write_text(".benchmarks\n__pycache__\n")
    commit(tmp_path)
    return tmp_path


def commit(folder: Path) -> None:
    for command in (("init", "-q"), ("add", "-A"), COMMIT):
        subprocess.run(["git", *command], cwd=folder, check=True)


def edit(folder: Path, old: str, new: str) -> None:
    path = folder / "mine" / "memcpy.py"
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def test_a_call_of_unchanged_files_is_identical_and_not_measured(repository: Path) -> None:
    done = run_pytest(repository, *RUN)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 identical" in done.stdout
    assert "process of its own" not in done.stdout


def test_a_call_of_changed_files_is_measured_with_both_revisions_code(repository: Path, tmp_path: Path) -> None:
    """Each side leaves a file that says whose code it is."""
    for side in ("old", "new"):
        note = f'    Path({str(tmp_path / side)!r}).touch()\n    cuda = ctypes.CDLL("libcuda.so.1")'
        edit(repository, '    cuda = ctypes.CDLL("libcuda.so.1")', note)
        edit(repository, "import ctypes\n", "import ctypes\nfrom pathlib import Path\n")
        if side == "old":
            commit(repository)
            for old, new in ((note, '    cuda = ctypes.CDLL("libcuda.so.1")'), ("from pathlib import Path\n", "")):
                edit(repository, old, new)
    done = run_pytest(repository, *RUN)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 call: each side ran in a process of its own, and the two processes took turns" in done.stdout
    # Times of the software device call nothing slower or faster; whether they agree depends on how busy the machine is.
    assert re.search("^1 (same|unsure)$", done.stdout, re.MULTILINE), done.stdout
    assert (tmp_path / "old").exists()
    assert (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (('cuda = ctypes.CDLL("libcuda.so.1")', 'raise RuntimeError("no wheel")'), "RuntimeError: no wheel"),
        (("ctypes.c_size_t(A.nbytes)", "ctypes.c_size_t(A.nbytes // 2)"), "is wrong in 524,288 of 1,048,576 elements"),
    ],
)
def test_a_call_that_fails_in_the_other_revision_is_incomparable(
    repository: Path, damage: tuple[str, str], said: str
) -> None:
    edit(repository, *damage)
    commit(repository)
    edit(repository, *damage[::-1])
    done = run_pytest(repository, *RUN, "--fail-on", "incomparable")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 incomparable: in HEAD: " in done.stdout
    assert said in done.stdout
