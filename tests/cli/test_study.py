"""Tests ``warpwatch study``: what it measures on the software device, takes from saved runs, and refuses."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

import pytest

from tests.cli.command import arguments
from tests.project import PROJECT, ROOT
from tests.report.site_runs import Night, case_ids, save
from tests.stranger import made_by_init, run_command
from warpwatch.arguments import shapes
from warpwatch.catalogue.names import BadCase
from warpwatch.catalogue.selection import timed_cases
from warpwatch.cli.options import BadArgument, family_names
from warpwatch.cli.study import _small, run
from warpwatch.report.numbers import micro
from warpwatch.runs.files import run_files
from warpwatch.runs.record import BadRun, read_run

KINDS = ("c[+][+]", "python")  # of blocks of code
COPIES = [name for name in case_ids(900) if name.startswith("copy-") and name.endswith("-float32")]
MATMULS = ("matmul", "matmul_3xtf32", "matmul_half")


def study(*words: str) -> int:
    return run(PROJECT, **arguments("study", *words))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["matmull"], "no family is named 'matmull'; did you mean matmul?"),
        (["matmul", "--sizes", "64x64"], "--sizes=64x64: a shape of matmul is mxnxk"),
        (["conv2d", "--sizes", "8x8x9"], "--sizes=8x8x9: a 9x9 filter does not fit"),
        (["copy", "-k", "nonsense", "--device=software"], "-k 'nonsense': no case of copy has these words"),
        (["copy", "-k", "(", "--from", "."], "-k '(' is not an expression"),
    ],
)
def test_what_cannot_be_studied_is_refused_before_anything_is_measured(words: list[str], message: str) -> None:
    with pytest.raises(BadCase, match=re.escape(message)):
        study(*words)


def test_a_file_is_not_replaced_and_a_run_without_the_family_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path, COPIES, Night(day=1))
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(BadArgument, match="taken: is a file: name a folder"):
        study("copy", "--from", str(path), "--to", str(tmp_path / "taken"))
    with pytest.raises(BadRun, match=r": no such case of matvec was timed; it has cases of copy$"):
        study("matvec", "--from", str(path), "--to", str(tmp_path / "study"))
    with pytest.raises(BadRun, match=r"^-k 'nothing': no case of copy in these runs has these words$"):
        study("copy", "-k", "nothing", "--from", str(path), "--to", str(tmp_path / "study"))
    with pytest.raises(BadArgument, match=r"^--sizes=64: chooses what is measured, and --from measures nothing"):
        study("copy", "--sizes", "64", "--from", str(path), "--to", str(tmp_path / "study"))
    assert not (tmp_path / "study").exists()
    assert (tmp_path / "taken").read_text() == "mine"


def test_other_sizes_are_timed_in_place_of_the_declared_ones_where_a_family_takes_them() -> None:
    chosen = timed_cases(PROJECT.families, shapes("64x64,32x32x3,8x8x9"))
    assert {(case.family.name, case.shape_name) for case in chosen} == {
        *((name, "64x64") for name in ("histogram", "layernorm", "matvec", "softmax", "transpose")),
        *((name, each) for name in ("conv2d", "separable", *MATMULS) for each in ("32x32x3", "8x8x9")),
    } - {("conv2d", "8x8x9"), ("separable", "8x8x9")}
    assert {case.variant.name for case in chosen if case.family.name == "transpose"} >= {"serial", "vectorised"}


@pytest.mark.parametrize("text", ["", "64x", "0x4", "64,", "64x64 ", "-1", "8X8", "99999999999"])
def test_a_list_of_sizes_is_of_numbers_above_0(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a list of shapes such as 64x64,128x128"):
        shapes(text)


def test_the_tab_key_completes_families(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROJECT.root)
    assert family_names("mat") == [*MATMULS, "matvec"]


def test_a_slow_device_is_given_small_sizes_of_which_each_is_half_of_the_next() -> None:
    families = {family.name: family for family in PROJECT.families}
    assert _small(PROJECT, families["transpose"], "software") == ((32, 32), (64, 64), (128, 128), (256, 256))
    assert [shape[2] for shape in _small(PROJECT, families["conv2d"], "software")] == [3, 3, 3, 3]  # the filter's


@pytest.mark.slow
def test_a_saved_run_is_studied_without_measuring(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [save(tmp_path, COPIES, Night(day=day)) for day in (1, 2)]
    assert study("copy", "-k", "naive or memcpy", "--from", *map(str, runs), "--to", str(tmp_path / "study")) == 0
    text = (tmp_path / "study" / "study.md").read_text()
    assert "medians of 2 runs" in text
    assert "naive" in text
    assert "vectorised" not in text
    assert "study.md, study.tex" in capsys.readouterr().out
    assert not [path for path in (tmp_path / "study").iterdir() if path.name.startswith(".")]


@pytest.mark.slow
def test_a_family_is_measured_on_the_software_device_and_said_to_be(tmp_path: Path) -> None:
    """The example of docs/study.md, with its serial version."""
    repository = made_by_init(tmp_path / "own")
    page, declared = ROOT / "docs" / "study.md", repository / "perf" / "__init__.py"
    (serial,), (lines,) = (
        re.findall(rf"```{kind}\n(.*?)```", page.read_text(), re.DOTALL) for kind in ("c[+][+]", "python")
    )
    (repository / "perf" / "serial.cpp").write_text(serial)
    declared.write_text(declared.read_text().replace("    variants=(\n", lines))
    done = run_command(repository, "study", "softmax", "--sizes", "4x64,8x64", "-k", "not 256", "--device=software")
    assert done.returncode == 0, done.stderr
    assert "sizes: 4x64, 8x64" in done.stderr
    assert "[100%]" in done.stderr  # how far it was
    assert "its times are the host's" in done.stdout
    (saved,) = run_files(repository / ".benchmarks" / "softcuda")
    cases = read_run(saved).cases
    kinds = ("serial-host", "block_per_row-128")
    assert {*cases} == {f"softmax-{kind}-{shape}-float32" for kind in kinds for shape in ("4x64", "8x64")}
    text = (repository / "study-softmax" / "study.md").read_text()
    middle = sorted(cases["softmax-block_per_row-128-8x64-float32"].samples)
    assert micro((middle[(len(middle) - 1) // 2] + middle[len(middle) // 2]) / 2) in text
    assert done.stdout.splitlines()[-1].endswith(f"warpwatch study softmax --from {os.path.relpath(saved, repository)}")
    kernel = repository / "perf" / "block_per_row.cu"
    kernel.write_text(kernel.read_text().replace("/ sum;", "/ sum + 1;"))
    done = run_command(repository, "study", "softmax", "--sizes", "4x64", "-k", "block", "--device=software")
    assert done.returncode == 2
    assert "is wrong in" in done.stderr
    assert done.stderr.splitlines()[-1].endswith("ended with exit status 1 and timed nothing, see above")
