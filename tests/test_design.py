"""Tests of the rules of docs/design.md: imports, lengths of functions, docstrings, and listing without a GPU."""

from __future__ import annotations

import ast
import functools
import graphlib
import importlib
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

from tests.project import ROOT

FOLDERS = ("bench", "correctness", "kernels", "softcuda", "tests", "warpwatch")
SOURCES = [ROOT / "conftest.py", *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))]


def imports(path: Path) -> set[str]:
    """Return every module that a file imports, at its top or inside a function."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
    return found


def packages(path: Path) -> set[str]:
    return {name.split(".", maxsplit=1)[0] for name in imports(path)}


# The packages of the engine. Each may import those of later lines: one direction, no circle (docs/design.md).
LAYERS: tuple[tuple[str, ...], ...] = (
    ("__main__", "testing", "results"),
    ("cli", "plugin"),
    ("report",),
    ("explain",),
    ("compare",),
    ("revision",),
    ("timing", "runs", "machine_code"),
    ("devices", "arguments"),
    ("catalogue", "verdict"),
)
PACKAGES = ("warpwatch", "softcuda", "kernels", "correctness", "bench", "tests")


@functools.cache
def graph() -> dict[str, set[str]]:
    """Return every import in the repository by module, those inside functions and under TYPE_CHECKING too."""
    found = grimp.build_graph(*PACKAGES, include_external_packages=True)
    return {module: set(found.find_modules_directly_imported_by(module)) for module in found.modules}


def part_of(module: str) -> str:
    """Return the package of the engine that a module belongs to, or the module's own name."""
    return module.removeprefix("warpwatch.").partition(".")[0]


@pytest.mark.parametrize(("layer", "part"), [(i, part) for i, parts in enumerate(LAYERS) for part in parts])
def test_the_engines_packages_import_in_one_direction(layer: int, part: str) -> None:
    own = {module for module in graph() if module.startswith("warpwatch.") and part_of(module) == part}
    allowed = {part, *(each for parts in LAYERS[layer + 1 :] for each in parts)}
    assert own
    for module in own:
        for imported in graph()[module]:
            if imported.startswith("warpwatch."):
                assert part_of(imported) in allowed, f"{module} imports {imported}"


def test_every_part_of_the_engine_has_its_layer() -> None:
    parts = {part for parts in LAYERS for part in parts}
    assert {part_of(module) for module in graph() if module.startswith("warpwatch.")} == parts


def test_no_modules_import_each_other_in_a_circle() -> None:
    own = {module: {name for name in names if name in graph()} for module, names in graph().items()}
    graphlib.TopologicalSorter(own).prepare()  # raises CycleError, which names the circle


def test_the_engine_knows_nothing_of_its_users() -> None:
    for module, imported in graph().items():
        if module.startswith("warpwatch"):
            assert not {name.partition(".")[0] for name in imported} & {"kernels", "correctness", "bench", "tests"}, (
                module
            )


def test_kernels_import_the_catalogue_and_nothing_that_runs_them() -> None:
    allowed = {*sys.stdlib_module_names, "numpy", "kernels", "ml_dtypes"}
    for module, imported in graph().items():
        if module.startswith(("kernels", "warpwatch.catalogue")):
            called = {"torch"} if module == "kernels.attention.pytorch" else set[str]()  # imported where it is called
            assert {name.partition(".")[0] for name in imported} <= allowed | called | {"warpwatch"}, module
            ours = {name for name in imported if name.startswith("warpwatch")}
            # The package itself names what declarations need, each from the catalogue.
            rest = {name for name in ours if not name.startswith("warpwatch.catalogue")}
            assert rest <= ({"warpwatch"} if module.startswith("kernels") else set()), f"{module} imports {rest}"


FOR_TESTS = frozenset({"warpwatch", "warpwatch.testing", "warpwatch.results"})
PUBLIC = {"kernels": frozenset({"warpwatch"})} | dict.fromkeys(
    ("correctness", "bench", "conftest.py", "examples"), FOR_TESTS
)


def modules_of_ours(path: Path) -> set[str]:
    """Return the modules of the engine that a file imports names of."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return {name for name in names if name.partition(".")[0] == "warpwatch"}


@pytest.mark.parametrize("part", PUBLIC)
def test_users_import_public_modules_alone(part: str) -> None:
    paths = [ROOT / part] if part.endswith(".py") else list((ROOT / part).rglob("*.py"))
    assert paths
    used = {path: modules_of_ours(path) for path in paths}
    assert not {path: names for path, names in used.items() if names - PUBLIC[part]}
    assert any(used.values())


@pytest.mark.parametrize("module", sorted(FOR_TESTS))
def test_public_modules_have_the_names_that_they_list(module: str) -> None:
    public = importlib.import_module(module)
    assert len(set(public.__all__)) == len(public.__all__) > 5
    assert all(hasattr(public, name) for name in public.__all__)


def test_only_the_device_imports_pycuda() -> None:
    users = {module for module, imported in graph().items() if "pycuda" in imported}
    # What tests the software device's driver asks it as any program would: through PyCUDA. So do users of SourceModule.
    programs = {
        "tests.softcuda.calls",
        "tests.softcuda.sharing",
        "tests.softcuda.streams",
        "tests.plugin.test_source_module",
    }
    assert users == {"warpwatch.devices.gpu", "warpwatch.devices.opening", *programs}


def test_only_the_device_and_the_compiler_know_of_the_software_device() -> None:
    modules = list((ROOT / "softcuda").rglob("*.py"))
    own = {path.stem for path in modules}
    for path in (*modules, ROOT / "softcuda" / "compiling" / "nvcc"):
        assert packages(path) <= sys.stdlib_module_names | own, path
    # The compiler keeps its kernels as the software device keeps its driver: by softcuda.cache.
    for module, imported in graph().items():
        if not module.startswith(("softcuda", "tests", "warpwatch.devices")):
            assert not any(name.startswith("softcuda") for name in imported), module


def test_no_kernel_asks_whether_it_runs_on_the_software_device() -> None:
    files = [path for end in ("cu", "h", "cpp") for path in (ROOT / "kernels").rglob(f"*.{end}")]
    assert len(files) > 30
    assert not [path for path in files if "softcuda" in path.read_text().lower()]


def test_the_verdict_is_pure_arithmetic() -> None:
    allowed = {*sys.stdlib_module_names, "numpy", "scipy", "warpwatch"}
    for module, imported in graph().items():
        if module.startswith("warpwatch.verdict"):
            assert {name.partition(".")[0] for name in imported} <= allowed, module


def test_what_reads_another_revision_leans_on_nothing_of_this_one() -> None:
    own = ("warpwatch.catalogue.function_digest", "function_digest")  # which it takes along
    others = {name for name in imports(ROOT / "warpwatch/revision/declarations.py") if not name.startswith(own)}
    assert {name.partition(".")[0] for name in others} <= {*sys.stdlib_module_names}
    assert packages(ROOT / "warpwatch/catalogue/function_digest.py") <= {*sys.stdlib_module_names}


def test_correctness_and_bench_do_not_know_each_other() -> None:
    for path in (ROOT / "correctness").glob("*.py"):
        assert "bench" not in packages(path), path
    for path in (ROOT / "bench").glob("*.py"):
        assert "correctness" not in packages(path), path


# Module that adds to JUnit's file what pytest offers no hook for; functions that say a decision in words.
WRITES_JUNIT = {"warpwatch.plugin.pytest_benchmark_bridge"}
SAY_DECISIONS = {"figures_of", "line", "sentence", "summary", "describe"}


def parses_a_decision(path: Path) -> list[str]:
    """Return the places in a file where what is said of a decision is searched, cut or compared as a text."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner, method = node.func.value, node.func.attr
        by_pattern = method in ("match", "search", "fullmatch", "findall", "finditer", "split")
        by_hand = method in ("startswith", "endswith", "removeprefix", "removesuffix", "rpartition", "splitlines")
        searched = [*node.args] if by_pattern else [owner] if by_hand else []
        for each in searched:
            calls = (part.func for part in ast.walk(each) if isinstance(part, ast.Call))
            if SAY_DECISIONS & {getattr(call, "id", getattr(call, "attr", "")) for call in calls}:
                found.append(f"{path}:{node.lineno}")
    return found


def test_nothing_that_is_printed_for_people_is_parsed() -> None:
    """Verdicts and faults are read from the record of a run (runs/record.py), and from nothing else."""
    readers = {module for module, imported in graph().items() if any(name.startswith("xml") for name in imported)}
    assert {module for module in readers if module.startswith("warpwatch")} <= WRITES_JUNIT
    for path in (ROOT / "warpwatch").rglob("*.py"):
        assert not parses_a_decision(path), path


@pytest.mark.parametrize(
    "code",
    [
        "import re\nre.search('slower: (.*) µs', sentence(decision))\n",
        "change = line(decision).removeprefix('slower: ')\n",
        "PATTERN.match(report.tables.figures_of(decision))\n",
    ],
)
def test_a_text_that_is_parsed_is_found(tmp_path: Path, code: str) -> None:
    (tmp_path / "planted.py").write_text(code)
    assert len(parses_a_decision(tmp_path / "planted.py")) == 1


def test_functions_are_small() -> None:
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                assert length <= 40, f"{path}:{node.lineno} {node.name} has {length} lines"


# Folders and files whose docstrings follow docs/design.md, "Words": a first sentence that stands alone.
PLAIN = ("warpwatch", "kernels", "correctness", "bench", "tools", "conftest.py")
FRAGMENT = re.compile(r"(What|Why|How|By|Such as|Whether|Of|As|Where|Which|Who|The same)\b")


def docstrings(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the place and the text of every docstring in a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if text := ast.get_docstring(node):
            yield f"{path}:{getattr(node, 'lineno', 1)}", text


@pytest.mark.parametrize("part", PLAIN)
def test_docstrings_begin_with_a_sentence_that_stands_alone(part: str) -> None:
    paths = [ROOT / part] if part.endswith(".py") else list((ROOT / part).rglob("*.py"))
    found = [each for path in paths for each in docstrings(path)]
    assert found
    assert not [f"{place}: {text}" for place, text in found if FRAGMENT.match(text)]


WITHOUT_A_GPU = (
    "import sys; sys.modules |= {'pycuda': None, 'pynvml': None}\n"  # and without a compiler, by an empty PATH
)


def without_a_gpu(code: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in the checkout, without the packages that only a GPU needs."""
    command = [sys.executable, "-c", WITHOUT_A_GPU + code]
    return subprocess.run(command, cwd=ROOT, env={"PATH": ""}, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.exclusive
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


@pytest.mark.slow
def test_every_test_is_collected_without_pycuda_or_compiler() -> None:
    """Its time is not measured here, because most of it is pytest's own work on thousands of tests."""
    done = without_a_gpu("import pytest; sys.exit(pytest.main(['--collect-only', '-q', '-p', 'no:cacheprovider']))")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "bench/bench_kernels.py::bench_kernel[matmul-tiled-16x16-1920x1024x1280-float32]" in done.stdout
