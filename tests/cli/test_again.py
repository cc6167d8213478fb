"""Tests that every finding ends with the command that shows it again."""

from __future__ import annotations

import os
import re

import pytest

from kernels import FAMILIES
from tests.fork_server import run_module
from tests.project import PROJECT, ROOT
from warpwatch.catalogue.cases import find_case
from warpwatch.devices.compile.compiler import compile_file
from warpwatch.devices.kernel import Kernel
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.opening import Settings
from warpwatch.devices.worker import Worker, describe_device
from warpwatch.plugin.fixtures import assert_right

CASE = find_case(FAMILIES, "matmul-naive-16x16-33x37x41-float32")
BAD = ROOT / "tests" / "softcuda" / "bad_kernels" / "null_pointer.cu"


@pytest.mark.slow
def test_a_finding_ends_with_the_command_of_its_test() -> None:
    worker = Worker(PROJECT, Settings(kind="software"))
    try:
        image = compile_file(BAD, CASE.build.all_macros, worker.call(describe_device).target)
        with pytest.raises(DeviceError, match=r"\n  again     pytest x$") as caught:
            assert_right(Kernel(worker, CASE.build, image), CASE, "pytest x", exact=True)
    finally:
        worker.stop()
    assert "out of bounds in matmul_naive" in str(caught.value)
    assert caught.value.lost


TEST = """
import pytest
from warpwatch.devices.machine import DeviceError

def test_that_finds_something():
    raise DeviceError("race in a kernel")
"""


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("options", [["--device", "none"], ["--device", "none", "--schedule-seed", "7"]])
def test_it_names_the_options_of_the_run(pytester: pytest.Pytester, options: list[str]) -> None:
    path = pytester.makepyfile(TEST)
    plugins = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "conftest")
    command = ("pytest", *plugins, "-c", "pyproject.toml", *options, str(path))
    done = run_module(command, ROOT, os.environ | {"PYTHONPATH": str(ROOT)}, seconds=100)
    again = rf'race in a kernel\n  again     pytest "\S*::test_that_finds_something" {" ".join(options)}\n'
    assert re.search(again, done.stdout), done.stdout


def test_the_command_that_runs_one_case_names_itself() -> None:
    case = "copy-naive-256-100-float32"
    command = ["warpwatch", "run", case, "--seed", "3", "--device", "software", "--schedule-seed", "5"]
    command += ["--launch-timeout", "1e-9"]  # a limit that is over at once
    done = run_module(command, ROOT, os.environ, seconds=100)
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"\n  again     python -m warpwatch run {case} --seed 3 --device software --schedule-seed 5\n" in done.stderr
