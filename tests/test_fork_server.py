"""Tests that a command which runs in a fork of a server has its own folder, environment, arguments and output."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkout import Bench
from tests.fork_server import KEPT, Preparation, run_module

TELL = """
import os, pathlib, sys
print(os.getcwd(), sys.argv[1:], os.environ["WORD"], "tests" in sys.modules, sys.stdin.read(), sep="|")
print(pathlib.Path(__file__).name, __name__, file=sys.stderr)
sys.exit(7)
"""


def run(folder: Path, *arguments: str, seconds: float = 60, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_module(arguments, folder, os.environ | environment, seconds)


def test_a_run_has_its_own_folder_environment_arguments_and_output(tmp_path: Path) -> None:
    (tmp_path / "tell.py").write_text(TELL)
    for word in ("one", "two"):
        done = run(tmp_path, "tell", "a", "b c", WORD=word)
        assert done.stdout == f"{tmp_path}|['a', 'b c']|{word}|False|\n"
        assert done.stderr == "tell.py __main__\n"
        assert done.returncode == 7


def test_a_run_imports_from_its_folder_what_others_imported_from_theirs(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "kernels.py").write_text(f"NAME = {name!r}\n")
        (tmp_path / name / "tell.py").write_text("import atexit, kernels\natexit.register(print, kernels.NAME)\n")
        assert run(tmp_path / name, "tell").stdout == f"{name}\n"


def test_a_run_may_leave_its_folder_out_and_searches_pythonpath_of_its_own(tmp_path: Path) -> None:
    for name in ("one", "two", "here"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "place.py").write_text(f"print({name!r})\n")
    here = tmp_path / "here"
    for name in ("one", "two"):
        environment = os.environ | {"PYTHONPATH": f"../{name}"}
        assert run_module(("place",), here, environment, 60, imports_from_folder=False).stdout == f"{name}\n"
        assert run_module(("place",), here, environment, 60).stdout == "here\n"
    said = run_module(("place",), here, os.environ, 60, imports_from_folder=False).stderr
    assert said.endswith("No module named place\n")


@pytest.mark.slow
def test_what_python_reads_when_it_starts_is_heeded(tmp_path: Path) -> None:
    (tmp_path / "tell.py").write_text("import sys\nprint(sys.flags.hash_randomization, sys.stdout.encoding)\n")
    assert run(tmp_path, "tell", PYTHONHASHSEED="0", PYTHONIOENCODING="ascii").stdout == "0 ascii\n"
    assert run(tmp_path, "tell").stdout == f"{sys.flags.hash_randomization} utf-8\n"


def test_a_run_that_raises_or_is_killed_says_so_as_a_process_does(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise ValueError('bad')\n")
    done = run(tmp_path, "broken")
    assert done.returncode == 1
    assert done.stderr.endswith("ValueError: bad\n")
    (tmp_path / "killed.py").write_text("import os\nos.kill(os.getpid(), 11)\n")
    assert run(tmp_path, "killed").returncode == -11


def test_a_limit_of_files_does_not_limit_what_is_said(tmp_path: Path) -> None:
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
    (tmp_path / "full.py").write_text(f"{limit}print('x' * 200_000)\nopen('kept', 'wb', 0).write(b'x')\n")
    done = run(tmp_path, "full")
    assert done.stdout == "x" * 200_000 + "\n"
    assert "File too large" in done.stderr


def test_a_run_that_takes_too_long_is_killed_and_the_next_is_not(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(60)\n")
    (tmp_path / "quick.py").write_text("print('done')\n")
    with pytest.raises(subprocess.TimeoutExpired):
        run(tmp_path, "slow", seconds=0.2)
    assert run(tmp_path, "quick").stdout == "done\n"


def test_the_server_has_imported_nothing_that_a_run_must_import_itself(tmp_path: Path) -> None:
    (tmp_path / "tell.py").write_text("import sys\nprint(*{name.partition('.')[0] for name in sys.modules})\n")
    imported = set(run(tmp_path, "tell").stdout.split())
    assert {"numpy", "scipy", "pytest"} <= imported
    assert not {"warpwatch", "kernels", "softcuda", "tests", "conftest", "pytest_benchmark", "xdist"} & imported


PART_TEXT = """
import pathlib
with pathlib.Path(__file__).parent.with_name("log").open("a") as log:
    log.write("imported ")
NAME = {!r}
"""


def make_part(folder: Path, name: str) -> None:
    (folder / "part").mkdir(parents=True, exist_ok=True)
    (folder / "part" / "__init__.py").write_text(PART_TEXT.format(name))
    shutil.rmtree(folder / "part" / "__pycache__", ignore_errors=True)  # Python takes it for that of a file as long
    (folder / "tell.py").write_text("import part\nprint(part.NAME)\n")


def part(folder: Path) -> Preparation:
    return Preparation(folder=folder, packages=("part",), code="import part")


def tell(folder: Path) -> str:
    done = run_module(("tell",), folder, os.environ, 60, preparation=part(folder))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_prepared_run_shares_what_is_imported_until_a_file_changes(tmp_path: Path) -> None:
    make_part(tmp_path, "first")
    assert [tell(tmp_path) for _ in range(3)] == ["first"] * 3
    assert (tmp_path / "log").read_text() == "imported "
    make_part(tmp_path, "other")  # as long as before
    assert [tell(tmp_path) for _ in range(2)] == ["other"] * 2
    assert (tmp_path / "log").read_text() == "imported " * 2
    (tmp_path / "part" / "new.py").write_text("")
    assert tell(tmp_path) == "other"
    assert (tmp_path / "log").read_text() == "imported " * 3


def test_a_prepared_run_in_another_folder_imports_from_there(tmp_path: Path) -> None:
    names = [f"folder{i}" for i in range(KEPT + 1)]
    for name in names:
        make_part(tmp_path / name, name)
    for _ in range(2):
        assert [tell(tmp_path / name) for name in names] == names


def test_what_goes_wrong_in_a_preparation_goes_wrong_in_the_run(tmp_path: Path) -> None:
    make_part(tmp_path, "right")
    (tmp_path / "part" / "__init__.py").write_text("raise ValueError('bad')\n")
    done = run_module(("tell",), tmp_path, os.environ, 60, preparation=part(tmp_path))
    assert done.returncode == 1
    assert done.stderr.endswith("ValueError: bad\n")
    make_part(tmp_path, "right")
    assert tell(tmp_path) == "right"


def test_a_run_of_a_checkout_has_the_engine_imported_before(tmp_path: Path) -> None:
    """A preparation that fails, because a module has another name now, costs each run of each test half a second."""
    bench = Bench(tmp_path / "checkout")
    (bench.folder / "tell.py").write_text("import sys\nprint(*sys.modules)\n")
    imported = bench._run(sys.executable, "-m", "tell").stdout.split()
    assert {"kernels", "warpwatch.plugin", "warpwatch.compare", "pytest_benchmark.plugin"} <= {*imported}
