"""Tests that a repository's own options and fixtures live beside ours, whatever their names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.stranger import declare, run_pytest
from warpwatch.plugin.options import OPTIONS

OWN_OPTIONS = """
def pytest_addoption(parser):
    parser.addoption("--device", default="tpu", help="own device")
    parser.addoption("--large", type=int, default=7)
"""
SEE_OPTIONS = """
def test_options(pytestconfig):
    assert pytestconfig.getoption("--device") == "tpu"
    assert pytestconfig.getoption("--large") == 7
    assert pytestconfig.getoption("--warpwatch-device") == "none"
    assert pytestconfig.getoption("--warpwatch-schedule-seed") == 3
    assert pytestconfig.getoption("--warpwatch-fail-on") == ["unsure", "common"]
"""
FINDING = """
from warpwatch.devices.machine import DeviceError

def test_finding():
    raise DeviceError("race in a kernel")
"""
NAMES: tuple[str, ...] = ("device", "project", "case", "build", "kernel", "compilation", "check", "measure")
NAMES += ("source_module", "parameter")
OWN_FIXTURES = "import pytest\n" + "".join(
    f"""
@pytest.fixture(scope="session")
def {name}():
    return "own {name}"
"""
    for name in NAMES
)
USE_OWN = f"""
import pytest

def test_own({", ".join(NAMES)}):
    assert {{{", ".join(NAMES)}}} == {{{", ".join(repr(f"own {name}") for name in NAMES)}}}

@pytest.mark.cases("tested", where=lambda case: case.variant.on_host)
def test_right(warpwatch_check, warpwatch_project, device):
    assert device == "own device"
    warpwatch_check(exact=True)

@pytest.mark.cases("timed", where=lambda case: case.variant.on_host and case.shape[0] == 2**20)
def test_speed(warpwatch_measure, case):
    assert case == "own case"
    warpwatch_measure()
"""


def passed(folder: Path, *args: str) -> str:
    done = run_pytest(folder, *args)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("where", ["conftest.py", "tests/conftest.py"])
@pytest.mark.parametrize("workers", ["-n0", "-n1"])
def test_a_repository_keeps_its_own_options(tmp_path: Path, where: str, workers: str) -> None:
    declare(tmp_path)
    (tmp_path / "tests").mkdir()
    (tmp_path / where).write_text(OWN_OPTIONS)
    (tmp_path / "tests" / "test_options.py").write_text(SEE_OPTIONS)
    ours = ("--warpwatch-device=none", "--schedule-seed", "3", "--fail-on=unsure", "--warpwatch-fail-on", "common")
    passed(tmp_path, workers, *ours, "--benchmark-compare")
    said = passed(tmp_path, "--help")
    assert "own device" in said
    assert "Same as --warpwatch-schedule-seed" in said
    assert "Same as --warpwatch-device" not in said


@pytest.mark.slow
def test_every_option_has_its_short_name_where_it_is_free(tmp_path: Path) -> None:
    declare(tmp_path)
    said = passed(tmp_path, "--help")
    for name in OPTIONS.keys() - {"record"}:  # which is for programs
        assert f"Same as --warpwatch-{name}." in " ".join(said.split()), name


@pytest.mark.slow
def test_the_value_of_a_short_option_is_not_taken_for_a_path(tmp_path: Path) -> None:
    """An option that conftest.py files of testpaths define is known too, as it is where ours has its long name."""
    declare(tmp_path, '[tool.warpwatch]\nkernels = "mine"\n[tool.pytest.ini_options]\ntestpaths = ["its/own/place"]\n')
    (tmp_path / "its" / "own" / "place").mkdir(parents=True)
    (tmp_path / "its" / "own" / "place" / "conftest.py").write_text(OWN_OPTIONS.replace("--device", "--chip"))
    (tmp_path / "its" / "own" / "place" / "test_one.py").write_text("def test_one(): pass\n")
    for name in ("--device", "--warpwatch-device"):
        assert "1 passed" in passed(tmp_path, name, "none", "--chip=cpu")


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("free", [True, False])
def test_a_printed_command_names_options_that_work_there(tmp_path: Path, free: bool) -> None:
    declare(tmp_path)
    if not free:
        (tmp_path / "conftest.py").write_text(OWN_OPTIONS)
    (tmp_path / "test_finding.py").write_text(FINDING)
    done = run_pytest(tmp_path, "--warpwatch-device=none", "--warpwatch-schedule-seed=3")
    device = "--device" if free else "--warpwatch-device"
    assert f'again     pytest "test_finding.py::test_finding" {device} none --schedule-seed 3\n' in done.stdout
    refused = run_pytest(tmp_path, f"{device}=gpu")
    if refused.returncode == pytest.ExitCode.USAGE_ERROR:  # where there is no GPU
        assert f"ERROR: {device}=gpu: " in refused.stderr


@pytest.mark.slow
def test_a_repositorys_own_fixtures_and_ours_do_not_meet(tmp_path: Path) -> None:
    declare(tmp_path)
    (tmp_path / "conftest.py").write_text(OWN_FIXTURES)
    (tmp_path / "test_own.py").write_text(USE_OWN)
    said = passed(tmp_path, "--device=none", "--benchmark-max-time=0.01")
    assert re.search(r"\d+ passed in ", said)  # and none was skipped


@pytest.mark.once
@pytest.mark.parametrize(
    ("mark", "fixtures", "said"),
    [
        ("cases('fast')", "check", "there is no list 'fast'; there are tested, edges, unaligned, tall, timed"),
        ("cases()", "check", "give the name of a list (tested, edges, unaligned, tall, timed), or shapes=[...]"),
        ("cases(['a'])", "check", "give the name of a list, not list: tested, "),
        ("cases('tested', were=3)", "check", "unexpected keyword argument 'were'"),
        ("cases('tested', where=lambda case: False)", "check", "stands for nothing here"),
        ("builds('oblong', where=lambda build: False)", "check", "stands for nothing here"),
        ("builds('tested')", "check", "there is no list 'tested'; there are all, kernels, least, oblong"),
        ("builds('least')", "tmp_path", "asks for none of the fixtures check, measure, kernel, case and build"),
    ],
)
def test_a_wrong_mark_is_a_sentence(tmp_path: Path, mark: str, fixtures: str, said: str) -> None:
    declare(tmp_path)
    (tmp_path / "test_one.py").write_text(
        f"import pytest\n\n@pytest.mark.{mark}\ndef test_one({fixtures}):\n    pass\n"
    )
    done = run_pytest(tmp_path, "--device=none")
    assert done.returncode == pytest.ExitCode.INTERRUPTED
    (sentence,) = (line for line in done.stdout.splitlines() if line.startswith("test_one.py::test_one, marked "))
    assert said in sentence


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize(("fixture", "said"), [("check", "needs cases or builds"), ("case", "needs cases or builds")])
def test_a_mark_that_is_missing_is_a_sentence(tmp_path: Path, fixture: str, said: str) -> None:
    declare(tmp_path)
    (tmp_path / "test_one.py").write_text(f"def test_one({fixture}):\n    pass\n")
    done = run_pytest(tmp_path, "--device=none")
    assert done.returncode == 1
    assert said in done.stdout


@pytest.mark.slow
def test_the_benchmark_is_collected_where_it_is_named_and_nowhere_else(tmp_path: Path) -> None:
    declare(tmp_path)
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "bench_kernels.py").write_text(
        "import pytest\n\n@pytest.mark.cases('timed')\ndef bench_kernel(measure):\n    measure()\n"
    )
    (tmp_path / "bench" / "bench_other.py").write_text("raise AssertionError('not a benchmark of ours')\n")
    (tmp_path / "test_one.py").write_text("def bench_helper(): 1 / 0\n\ndef test_one(): bench_helper.__name__\n")
    assert "1 passed" in passed(tmp_path, "--device=none", "-n1")
    few = ("--device=none", "--benchmark-max-time=0.01", "-k", "serial and 1048576 and float32")
    for named in ("bench", "bench/bench_kernels.py", "bench/bench_kernels.py::bench_kernel"):
        assert "1 passed" in passed(tmp_path, named, *few)
    assert "1 passed" in passed(tmp_path, "bench", *few, "-n1")  # without a GPU nothing is shared
