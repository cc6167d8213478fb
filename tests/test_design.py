"""The rules of the house: which way the data runs, and that nobody needs a GPU to list the cases."""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernels import FAMILIES
from warpwatch.devices.compiler import ROOT

FOLDERS = ("bench", "correctness", "kernels", "softcuda", "tests", "warpwatch")
SOURCES = [ROOT / "conftest.py", *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))]


def imports(path: Path) -> set[str]:
    """Every module that a file imports, at its top or inside a function."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
    return found


def packages(path: Path) -> set[str]:
    return {name.split(".", maxsplit=1)[0] for name in imports(path)}


def test_kernels_know_nothing_of_those_who_use_them() -> None:
    for path in (ROOT / "kernels").rglob("*.py"):
        assert not packages(path) & {"pytest", "bench", "correctness", "tests", "conftest"}, path


def test_only_the_device_imports_pycuda() -> None:
    users = [str(path.relative_to(ROOT)) for path in SOURCES if "pycuda" in packages(path)]
    # What tests the software device's driver asks it as any program would: through PyCUDA.
    assert users == ["warpwatch/devices/gpu.py", "tests/softcuda_calls.py"]


def test_the_software_device_knows_nothing_of_the_rest_and_only_the_device_and_the_compiler_know_of_it() -> None:
    own = {path.stem for path in (ROOT / "softcuda").glob("*.py")}
    for path in (*(ROOT / "softcuda").glob("*.py"), ROOT / "softcuda" / "nvcc"):
        assert packages(path) <= sys.stdlib_module_names | own, path
    users = [path for path in SOURCES if "softcuda" in packages(path) and path.parent != ROOT / "tests"]
    # The compiler keeps its kernels as the software device keeps its driver: by softcuda.cache.
    assert sorted(users) == [ROOT / "warpwatch" / "devices" / f"{name}.py" for name in ("compiler", "gpu")]


def test_no_kernel_asks_whether_it_runs_on_the_software_device() -> None:
    files = [path for end in ("cu", "h", "cpp") for path in (ROOT / "kernels").rglob(f"*.{end}")]
    assert len(files) > 30
    assert not [path for path in files if "softcuda" in path.read_text().lower()]


def test_catalogue_and_families_need_the_standard_library_and_numpy_alone() -> None:
    allowed = {*sys.stdlib_module_names, "numpy", "kernels", "warpwatch"}
    names = ("__init__", "catalogue", "names", "alignment", "numerics", *(f"{f.name}/__init__" for f in FAMILIES))
    for path in [ROOT / "kernels" / f"{name}.py" for name in names]:
        assert packages(path) <= allowed, path
        ours = {name for name in imports(path) if name.startswith("kernels.")}
        known = (
            "warpwatch.catalogue.declaration",
            "warpwatch.catalogue.names",
            "warpwatch.catalogue.alignment",
            "warpwatch.catalogue.tolerance",
            *(f"kernels.{family.name}" for family in FAMILIES),
        )
        assert all(name.startswith(known) for name in ours), path


def test_the_verdict_is_pure_arithmetic() -> None:
    allowed = {"__future__", "collections", "dataclasses", "enum", "math", "numpy", "scipy"}
    assert packages(ROOT / "warpwatch/verdict/rule.py") <= allowed


def test_what_reads_another_revision_leans_on_nothing_of_this_one() -> None:
    assert packages(ROOT / "warpwatch/compare/declarations.py") <= {*sys.stdlib_module_names, "kernels"}


def test_correctness_and_bench_do_not_know_each_other() -> None:
    for path in (ROOT / "correctness").glob("*.py"):
        assert "bench" not in packages(path), path
    for path in (ROOT / "bench").glob("*.py"):
        assert "correctness" not in packages(path), path


def test_rooms_are_small() -> None:
    for path in SOURCES:
        text = path.read_text()
        assert text.count("\n") <= 400, f"{path} has more than 400 lines"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                assert length <= 40, f"{path}:{node.lineno} {node.name} has {length} lines"


WITHOUT_A_GPU = (
    "import sys; sys.modules |= {'pycuda': None, 'pynvml': None}\n"  # and without a compiler, by an empty PATH
)


def without_a_gpu(code: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in the checkout, where what only a GPU needs is not to be found."""
    command = [sys.executable, "-c", WITHOUT_A_GPU + code]
    return subprocess.run(command, cwd=ROOT, env={"PATH": ""}, capture_output=True, text=True, check=False)


@pytest.mark.alone
def test_every_case_is_listed_in_two_seconds_without_pycuda_or_compiler() -> None:
    code = "import runpy; sys.argv = ['warpwatch', 'list']; runpy.run_module('warpwatch', run_name='__main__')"
    times = []
    for _ in range(6):  # the first may have to compile Python files; what else the machine does comes and goes
        begin = time.perf_counter()
        done = without_a_gpu(code)
        times.append(time.perf_counter() - begin)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "matmul-tiled-16x16-1920x1024x1280-float32" in done.stdout
    assert min(times) < 2.0


def test_every_test_is_collected_without_pycuda_or_compiler() -> None:
    """How long that takes is mostly pytest's own work on thousands of tests, and not timed here."""
    done = without_a_gpu("import pytest; sys.exit(pytest.main(['--collect-only', '-q', '-p', 'no:cacheprovider']))")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "bench/bench_kernels.py::bench_kernel[matmul-tiled-16x16-1920x1024x1280-float32]" in done.stdout
