"""The pages on PyCUDA, CuPy, Numba, Triton and Kernel Tuner: their code is run, and says what they show, without a GPU.

``python -m tests.test_client_pages FOLDER`` writes what each of them shows to a folder, to run it on a GPU.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkout import COMMIT
from tests.project import ROOT
from tests.stranger import run_command, run_pytest, run_python
from tests.test_docs import blocks

pytestmark = pytest.mark.slow

PYCUDA, TUNER = ROOT / "docs" / "pycuda.md", ROOT / "docs" / "kernel-tuner.md"
BESIDE = Path(sys.prefix, "plugins")
needs_kernel_tuner = pytest.mark.skipif(
    not (BESIDE / "kernel_tuner").is_dir(),
    reason=f"needs Kernel Tuner in {BESIDE}: `python tools/install.py` puts it there, as `make test` does",
)
MORE = """
import dataclasses

READ = ww.kernel("read", source=source, entry="scale", configurations=((128,),),
                 grid=lambda n: ww.blocks(n, 128), arguments="y x n factor")
FAMILIES = (dataclasses.replace(SCALE, variants=(*SCALE.variants, READ)),)
"""
TESTS = 'import pytest\n\n\n@pytest.mark.cases("tested")\ndef test_right(check):\n    check()\n'
LACKING = "needs a GPU: {} brings machine code, which softcuda cannot run"


def repository(folder: Path, page: str) -> Path:
    """Write the files that a page shows, each a block whose first line names it, with a test; returns the folder."""
    document = ROOT / "docs" / f"{page}.md"
    for block in (*blocks(document, "python"), *blocks(document, "cuda")):
        if name := re.match(r"(?:#|//) (\S+\.(?:py|cu))", block):
            path = folder / name[1]
            path.parent.mkdir(exist_ok=True)
            path.write_text(block)
    (folder / "pyproject.toml").write_text('[tool.warpwatch]\nkernels = "perf"\n')
    (folder / "test_kernels.py").write_text(TESTS)
    return folder


def plain(text: str) -> str:
    """A report without addresses, which differ, and without what the kernel is called."""
    return re.sub(r"(?m)(?<=^softcuda: out of bounds in ).*$", "", re.sub(r"0x[0-9a-f]+", "0x", text))


def test_kernels_in_strings_are_declared_as_the_page_on_pycuda_does(tmp_path: Path) -> None:
    declared = repository(tmp_path, "pycuda") / "perf" / "__init__.py"
    *_, source = (block for block in blocks(PYCUDA, "python") if block.startswith("# in perf/__init__.py"))
    declared.write_text(declared.read_text() + source + MORE)
    (tmp_path / "conftest.py").unlink()
    done = run_pytest(tmp_path, "-q", "--device=software", "test_kernels.py")
    assert (done.returncode, "6 passed" in done.stdout) == (0, True), done.stdout + done.stderr


def test_a_fault_in_a_string_has_the_line_that_the_page_shows(tmp_path: Path) -> None:
    declared = repository(tmp_path, "pycuda") / "perf" / "__init__.py"
    declared.write_text(declared.read_text().replace("(i < n)", "(i <= n)"))
    done = run_pytest(tmp_path, "-qx", "--device=software", "test_kernels.py")
    (shown,) = (block for block in blocks(PYCUDA, "text") if block.startswith("scale-plain"))
    assert plain(shown) in plain(done.stdout), done.stdout + done.stderr


def test_a_text_is_compared_with_that_of_another_commit(tmp_path: Path) -> None:
    """It counts what is compiled, and not on which line it stands."""
    declared = repository(tmp_path, "pycuda") / "perf" / "__init__.py"
    for command in (["init", "-q"], ["add", "-A"], COMMIT):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    for old, new, said in (
        ("# perf", "# moved\n# perf", "2 builds: 2 identical"),
        ("factor * x[i]", "factor * x[i] + 1", "2 builds: 2 different"),
    ):
        declared.write_text(declared.read_text().replace(old, new))
        done = run_command(tmp_path, "diff", "HEAD")
        assert said in done.stdout, done.stdout + done.stderr


def test_a_program_of_pycuda_is_checked_as_it_is(tmp_path: Path) -> None:
    repository(tmp_path, "pycuda")
    done = run_python(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_filters.py")
    (shown,) = (block for block in blocks(PYCUDA, "text") if block.startswith("pycuda."))
    printed = re.sub(r"(?m)^E +(?=pycuda|softcuda)|^E {3}", "", plain(done.stdout))
    for line in plain(shown).splitlines():
        assert line.strip() in printed, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("page", "counts", "lacking"),
    [
        ("cupy", "6 passed, 2 skipped", ["cupy"]),
        ("numba", "4 skipped", ["ptx", "numba"]),
        ("triton", "4 skipped", ["triton", "cubin"]),
    ],
)
def test_code_of_the_other_pages_runs_or_says_that_it_needs_a_gpu(
    tmp_path: Path, page: str, counts: str, lacking: list[str]
) -> None:
    done = run_pytest(repository(tmp_path, page), "-q", "--device=software", "test_kernels.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert counts in done.stdout
    for variant in lacking:
        assert LACKING.format(variant) in done.stdout


def search_rows(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the search of the page on the software device, in a smaller space of the same kernel."""
    search = (
        (folder / "tune.py").read_text().replace("8192, 1024", "100, 64").replace("[32, 64, 128, 256, 512]", "[32, 64]")
    )
    (on_softcuda,) = (block for block in blocks(TUNER, "python") if block.startswith("import softcuda"))
    (folder / "tune.py").write_text(f"import sys\n\nsys.path.append({str(BESIDE)!r})\n{on_softcuda}{search}")
    return run_python(folder, "tune.py")


@needs_kernel_tuner
def test_kernel_tuner_finds_configurations_which_the_declaration_takes_as_they_are(tmp_path: Path) -> None:
    declared = repository(tmp_path, "kernel-tuner") / "perf" / "__init__.py"
    kernel = declared.with_name("row_sums.cu")
    too_much = (
        "float sums[ROWS] = {};\n    __shared__ volatile float unused[ROWS == 8 ? 100'000 : 1];\n    unused[0] = 0;"
    )
    kernel.write_text(kernel.read_text().replace("float sums[ROWS] = {};", too_much))
    done = search_rows(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    winners = done.stdout.splitlines()[-3:]
    assert len(set(winners)) == 3
    assert all(re.fullmatch(r"dict\(block=\((32|64),\), ROWS=[124]\),", winner) for winner in winners), done.stdout
    (shown,) = (block for block in blocks(TUNER, "python") if block.startswith("QUICKEST"))
    first, *_ = re.findall("dict.*", shown)
    quickest = "\n".join(["QUICKEST = (", first, *winners, ")", ""])
    assert len(quickest.splitlines()) == len(shown.splitlines())
    in_declaration = re.compile(rf"configurations=\(\s*{re.escape(first)}\s*\)")
    text, count = in_declaration.subn("configurations=QUICKEST", declared.read_text())
    assert count == 1
    declared.write_text(text.replace("ROW_SUMS =", f"{quickest}\nROW_SUMS ="))
    done = run_pytest(tmp_path, "-q", "--device=software", "test_kernels.py")
    assert (done.returncode, "8 passed" in done.stdout) == (0, True), done.stdout + done.stderr


@needs_kernel_tuner
def test_a_search_on_softcuda_ends_where_a_configuration_leaves_its_arrays(tmp_path: Path) -> None:
    kernel = repository(tmp_path, "kernel-tuner") / "perf" / "row_sums.cu"
    kernel.write_text(kernel.read_text().replace("if (first + r < rows)", "if (first < rows)"))
    done = search_rows(tmp_path)
    assert done.returncode == 1
    assert "softcuda: out of bounds in row_sums" in done.stderr, done.stdout + done.stderr


def main() -> None:
    for page in ("pycuda", "cupy", "numba", "triton"):
        folder = Path(sys.argv[1], page)
        folder.mkdir(parents=True)
        repository(folder, page)
        (folder / "conftest.py").unlink(missing_ok=True)  # which is for programs without a GPU


if __name__ == "__main__":
    main()
