"""Tests what failed and skipped tests show: what a kernel, its compiler and its own code print, results, needs."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis.vendor.pretty import pretty

from kernels import FAMILIES
from tests.project import PROJECT
from tests.stranger import declare, run_pytest, run_python
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.launches import Capability
from warpwatch.catalogue.selection import tested_cases
from warpwatch.devices.compile.compiler import Image
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.kernel import Kernel
from warpwatch.devices.worker import Worker
from warpwatch.plugin.fixtures import Check

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")
TEST = "import pytest\n\n@pytest.mark.cases('tested')\ndef test_one(check):\n    check()\n"
PRINT = 'printf("\\n::stop-commands::x\\n\\033]0;title\\007 of %d\\n", threadIdx.x); '
SIZES = """
import pytest
from hypothesis import HealthCheck, given, settings, strategies
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.launches import Capability

@pytest.mark.builds("all", where=lambda build: build.variant.name == "naive" and build.dtype == "float32")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=5, database=None)
@given(n=strategies.integers(1, 300), seed=strategies.integers(0, 100))
def test_sizes(check, build, n, seed):
    check(Case(build, (n,)), seed=seed)
"""


def run(tmp_path: Path, old: str, new: str) -> str:
    """Run one test of a kernel that is changed so; return what pytest prints."""
    (source,) = declare(tmp_path).glob("naive.cu")
    text = source.read_text()
    assert old in text
    source.write_text(text.replace(old, new, 1))
    (tmp_path / "test_one.py").write_text(TEST)
    done = run_pytest(tmp_path, "--device=software", "-k", "naive-256 and 33 and float32", "--junitxml=junit.xml")
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_lines_of_a_kernel_are_shown_with_their_controls_and_are_no_commands(tmp_path: Path) -> None:
    shown = run(tmp_path, "{", f"{{ {PRINT} return;")
    assert re.search(r"^: :stop-commands::x\n\\x1b\]0;title\\x07 of \d+$", shown, re.M), shown
    assert "\x1b" not in shown
    assert not re.search(r"^\s*::", shown, re.M)


@pytest.mark.slow
def test_a_kernel_that_prints_without_end_does_not_fill_the_log(tmp_path: Path) -> None:
    shown = run(tmp_path, "{", '{ for (int i = 0; i < 2000; ++i) printf("line %d\\n", i); return;')
    assert re.search(
        r"^\.\.\. [\d,]+ lines \([\d,]+ characters\) are left out here; "
        r"`pytest -s 'test_one\.py::test_one\[copy-naive-256-\S+\]'` prints all of them$",
        shown,
        re.M,
    )
    assert len(shown) < 100_000


@pytest.mark.slow
def test_a_compilers_message_steers_no_terminal(tmp_path: Path) -> None:
    shown = run(tmp_path, "{", "{ \x1b]0;title\x07 \u202e no_such_name;")
    assert "no_such_name" in shown
    assert not set("\x1b\x07\u202e") & set(shown)


def test_junits_file_names_the_case_and_whether_it_launched(tmp_path: Path) -> None:
    run(tmp_path, "{", "{ return;")
    tests = list(ElementTree.parse(tmp_path / "junit.xml").iter("testcase"))
    assert tests
    for test in tests:
        found = {each.get("name"): each.get("value") for each in test.iter("property")}
        assert found == {"case": test.get("name", "").partition("[")[2].rstrip("]"), "launched": "yes"}


@pytest.fixture(params=["", "true"], ids=["at-hand", "in-CI"])
def _ci(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the variable with which pytest's short summary has whole messages."""
    monkeypatch.delenv("BUILD_NUMBER", raising=False)
    monkeypatch.setenv("CI", request.param)


@pytest.mark.once
@pytest.mark.usefixtures("_ci")
def test_an_error_of_the_compiler_is_printed_in_full_once(tmp_path: Path) -> None:
    source = declare(tmp_path) / "naive.cu"
    source.write_text(source.read_text().replace("if (i < n)", "if (i < nn)"))
    (tmp_path / "test_one.py").write_text(TEST)
    done = run_pytest(tmp_path, "-q", "--device=software", "-k", "naive", "--junitxml=all.xml")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    failed = int(re.findall(r"(\d+) error", done.stdout)[-1])
    assert failed > 3
    assert "During handling of the above exception" not in done.stdout
    assert done.stdout.count("'nn' was not declared") == 1
    first = re.findall(r"ERROR at setup of (\S+)", done.stdout)[0]
    assert done.stdout.count(f"naive.cu does not compile: see test_one.py::{first} above") == failed - 1
    assert len(done.stdout.splitlines()) < 3 * failed + 20
    errors = ElementTree.parse(tmp_path / "all.xml").getroot().findall(".//error")
    assert all("was not declared" in str(error.text) for error in errors)
    assert len(errors) == failed


def test_what_tests_are_given_is_one_short_line_for_hypothesis() -> None:
    build = tested_cases(FAMILIES)[0].build
    kernel = Kernel(Worker(PROJECT), build, Image(Path("a.cubin"), "1", "2"))
    case = Case(build, build.family.tests[0])
    for each in (build, case, build.family, build.variant, kernel, Check(kernel=kernel, case=case, again="")):
        assert len(pretty(each)) < 100
        assert len(repr(each)) < 100


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.usefixtures("_ci")
def test_hypothesis_shows_the_wrong_element_and_the_command_that_repeats_it(tmp_path: Path) -> None:
    source = declare(tmp_path) / "naive.cu"
    source.write_text(source.read_text().replace("if (i < n)", "if (i < n - 1)"))
    (tmp_path / "test_sizes.py").write_text(SIZES)
    done = run_python(tmp_path, "-m", "pytest", "-p", "warpwatch.plugin", "-q", "--device=software", "-Werror", "-x")
    assert "HypothesisWarning" not in done.stdout
    assert re.search(r"worst +\w+\[\d+\] = ", done.stdout), done.stdout
    (again,) = re.findall(r"again +python -m (warpwatch run \S+ --seed \d+ --device software)", done.stdout)
    repeated = run_python(tmp_path, "-m", *again.split())
    assert "result    WRONG" in repeated.stdout


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("caught", ["BaseException", "Exception, pytest.fail.Exception"])
def test_a_test_that_catches_what_check_raises_fails_all_the_same(tmp_path: Path, caught: str) -> None:
    (source,) = declare(tmp_path).glob("naive.cu")
    source.write_text(source.read_text().replace("if (i < n)", "if (i < n - 1)"))
    hiding = f"    try:\n        check()\n    except ({caught}):\n        pass\n"
    (tmp_path / "test_one.py").write_text(TEST.replace("    check()\n", hiding))
    done = run_pytest(tmp_path, "-q", "--device=software", "-k", "naive-256 and 33 and float32")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "the test passes although check() failed; mark it xfail if that is meant:\ncopy-naive-256" in done.stdout


TENSOR = find_case(FAMILIES, "matmul-tensor-128x128-2048x2048x2048-float64").variant
NOTHING = "NOTHING WAS TESTED: all 3 tests were skipped; the lines above say what each of them needs"
NEW = 'needs="sm_100", configurations=BLOCKS'


@pytest.mark.slow
def test_a_kernel_of_newer_gpus_is_skipped_with_what_it_needs(tmp_path: Path) -> None:
    package = declare(tmp_path)
    text = (package / "__init__.py").read_text()
    (package / "__init__.py").write_text(text.replace("configurations=BLOCKS", NEW))
    (tmp_path / "test_one.py").write_text(TEST)
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


def test_a_test_without_cases_says_that_a_declaration_is_wrong(tmp_path: Path) -> None:
    declared = declare(tmp_path) / "__init__.py"
    declared.write_text(declared.read_text().replace("sizes=(", "tolerance=1, sizes=(", 1))
    (tmp_path / "test_one.py").write_text(TEST + TEST.replace("tested", "edges").replace("_one", "_edge"))
    done = run_pytest(tmp_path, "--device=software", "-q")
    assert "1 skipped: needs a declaration without mistakes: there is no case for this test\n" in done.stdout
    assert "1 skipped, 1 error in " in done.stdout, done.stdout + done.stderr
