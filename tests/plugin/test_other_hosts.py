"""Tests of `--tx ssh=HOST//chdir=CHECKOUT`: other machines run the tests of the checkout that they have.

The program that stands in for ssh runs the command on this machine.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.checkout import Bench

SSH = '#!/bin/sh\nfor last; do :; done\nexec sh -c "$last"\n'


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A checkout, beside one of the same state, ``there``, which the other machines have."""
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(SSH)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    checkout = Bench(tmp_path / "here")
    shutil.copytree(checkout.folder, tmp_path / "there")
    return checkout


def there(checkout: Bench) -> Path:
    return checkout.folder.with_name("there")


def hosts(checkout: Bench, *names: str) -> list[str]:
    """Return the options that let processes run on these machines."""
    each = [("--tx", f"ssh={name}//chdir={there(checkout)}//python={sys.executable}") for name in names]
    return ["--dist", "load", *(word for pair in each for word in pair)]


@pytest.mark.slow
def test_two_hosts_share_the_cases_and_one_run_is_saved_here(here: Bench) -> None:
    before = {path.name for path in there(here).iterdir()}
    done = here.bench(*hosts(here, "alpha", "beta"), gpus=2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "17 passed" in done.stdout
    (path,) = here.saved
    document = json.loads(Path(path).read_text())
    owners = Counter(entry["extra_info"]["gpu_uuid"] for entry in document["benchmarks"])
    assert len(owners) == 2
    assert sum(owners.values()) == 17
    assert document["warpwatch"]["failed"] == []
    after = {path.name for path in there(here).iterdir()}
    assert after - before <= {".benchmarks", ".pytest_cache", "__pycache__"}  # nothing was copied there


@pytest.mark.slow
def test_tests_are_found_there_by_their_place_in_the_checkout(here: Bench) -> None:
    file = there(here) / "correctness" / "test_kernels.py"
    assert file.is_file()
    options = ("../correctness/test_kernels.py", "-q", "--device=software", "-k", "hello")
    done = here.run_in(here.folder / "kernels", sys.executable, "-m", "pytest", *options, *hosts(here, "alpha"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("change", ["edited", "added", "committed"])
def test_a_checkout_in_another_state_is_refused(here: Bench, change: str) -> None:
    if change == "added":
        (there(here) / "kernels" / "more.cuh").write_text("// new\n")
    else:
        with (there(here) / "kernels" / "matmul" / "tiled.cu").open("a") as file:
            file.write("// other\n")
    if change == "committed":
        command = ("git", "-c", "user.name=A tester", "-c", "user.email=tester@example.org", "commit", "-qam", "other")
        assert here.run_in(there(here), *command).returncode == 0
    done = here.bench(*hosts(here, "alpha"), gpus=1)
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert f"the checkout in {there(here)} is commit " in said
    assert "one run tests one state of the code; bring both to the same, or leave this host out" in said
    assert not here.saved


@pytest.mark.slow
def test_tests_outside_the_checkout_are_refused(here: Bench, tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text("def test_own() -> None: ...\n")
    command = (sys.executable, "-m", "pytest", "-q", "--device=software", "../test_own.py", "correctness")
    done = here.run_in(here.folder, *command, "--rootdir=.", "-c", "pyproject.toml", *hosts(here, "alpha"))
    assert done.returncode == 4
    assert f"../test_own.py lies outside {here.folder}: other machines have a checkout of that alone" in done.stderr
