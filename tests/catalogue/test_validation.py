"""Tests that a mistake in a declaration gives one sentence with family, variant and field, and no other case fails."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kernels import FAMILIES
from tests.catalogue.changed import COPY, with_family, with_variant
from tests.checkout import Bench
from warpwatch.catalogue.cases import Build, Case, find_case
from warpwatch.catalogue.inputs import exact_inputs
from warpwatch.catalogue.names import BadCase
from warpwatch.catalogue.validation import problems, require, sound
from warpwatch.catalogue.variant_rules import PLAIN_FLAG
from warpwatch.catalogue.variants import Configuration
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.compile.compiler import Target, compile_file
from warpwatch.devices.compile.symbols import entries
from warpwatch.devices.host import Host
from warpwatch.devices.kernel import Kernel
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.references import expected
from warpwatch.devices.worker import Worker, describe_device


def test_this_suite_is_declared_without_a_mistake() -> None:
    assert problems(FAMILIES) == ()
    assert len(sound(FAMILIES)) == sum(len(family.variants) for family in FAMILIES)


def test_of_two_families_of_one_name_the_first_is_used() -> None:
    families = (*FAMILIES, replace(COPY))
    (problem,) = problems(families)
    assert str(problem) == (
        "family copy: name is that of another family too, which is used; give this one a name of its own"
    )
    assert len(sound(families)) == len(sound(FAMILIES))


def test_a_case_of_a_wrong_declaration_says_so_by_hand() -> None:
    with pytest.raises(BadCase, match="copy-naive-256-33-float32: family copy: tests is empty"):
        require(with_family("copy", tests=()), "copy-naive-256-33-float32")
    with pytest.raises(BadCase, match="family matmul, variant tiled: configurations is"):
        require(with_variant(configurations=()), "matmul-tiled-8x8-5x5x5-float32")
    require(with_variant(configurations=()), "matmul-naive-8x8-5x5x5-float32")


def test_a_reference_that_is_wrong_on_one_shape_alone_says_so_there() -> None:
    reference = lambda A: A[:100]  # noqa: E731
    (family,) = [f for f in with_family("copy", reference=reference) if f.name == "copy"]
    assert not problems([f for f in with_family("copy", reference=reference) if f.name in ("copy", "hello")])
    build = Build(family, family.variant("naive"), Configuration((256,)), "float32")
    case = Case(build, (4096,))
    with pytest.raises(BadCase) as caught:
        expected(case, exact_inputs(case, 0))
    said = "copy-naive-256-4096-float32: family copy: reference at 4096, float32, returns shape (100,)"
    assert str(caught.value) == f"{said}; the result's is (4096,)"


# Entries


@pytest.mark.slow
def test_a_missing_entry_lists_those_that_there_are(software: Worker) -> None:
    columns = find_case(FAMILIES, "conv2d-columns-512x8-17x33x3-int32")
    image = compile_build(columns.build, software.call(describe_device).target)
    case = find_case(FAMILIES, "conv2d-naive-16x16-17x33x3-int32")
    with pytest.raises(DeviceError) as caught:
        Kernel(software, case.build, image).run(case.shape, exact_inputs(case, 0))
    known, said = "conv2d_columns, conv2d_columns_3, conv2d_columns_5, conv2d_columns_7", str(caught.value)
    assert re.fullmatch(rf"{case.id}: columns-.*cubin has no kernel named conv2d_naive: the file has {known}", said)


def test_a_missing_entry_of_the_host_lists_those_that_there_are() -> None:
    image = compile_build(find_case(FAMILIES, "matmul-serial-host-5x5x5-float32").build, None)
    with pytest.raises(DeviceError, match="no kernel is named copy_serial: the file has matmul_serial; "):
        Host().load(image.path, "copy_serial")


SOURCE = """
__device__ __noinline__ int helper(int x) { return x * x + clock(); }
extern "C" __global__ void first(int* a) { a[threadIdx.x] = helper(a[0]); }
extern "C" __global__ void second(int* a) { a[threadIdx.x] = helper(a[1]); }
"""


@pytest.mark.slow
def test_the_entries_of_a_cubin_are_its_kernels_alone(tmp_path: Path) -> None:
    """A function that kernels call is no entry of a cubin from nvcc."""
    (tmp_path / "two.cu").write_text(SOURCE)
    made = compile_file(tmp_path / "two.cu", {}, Target("sm_90")).path.read_bytes()
    assert entries(made) == ["first", "second"]
    for cut in range(0, len(made), max(1, len(made) // 200)):
        entries(made[:cut])  # whatever is missing, it raises nothing
    assert entries(b"") == entries(b"\x7fELF\x02\x01") == entries(b"text") == []


# As a whole


class Checkout(Bench):
    """A checkout whose kernels run on the software device."""

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return self._run(sys.executable, "-m", *command)


NAIVE = 'ww.kernel("naive", "one thread an element", configurations=BLOCKS, x=0, y=None)'


@pytest.fixture
def broken(tmp_path: Path) -> Checkout:
    """A checkout with Python ints as arguments of one variant, and with too few bytes in one family."""
    checkout, with_ints = Checkout(tmp_path), NAIVE[:-1] + ", arguments=lambda at, n: (*at.values(), n))"
    few = ("(m * n + n + m) * itemsize", "(m * n) * itemsize")
    for family, (old, new) in {"copy": (NAIVE, with_ints), "matvec": few}.items():
        path = tmp_path / "kernels" / family / "__init__.py"
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new, 1))
    return checkout


SAID = (
    "family copy, variant naive: arguments has 33 of Python's type int as number 3",
    "family matvec: work at 1x1, float32, says bytes = 4; its arrays hold "
    "12 = 4 (A) + 4 (x) + 4 (y), and each is moved once at least",
)


@pytest.mark.slow
def test_one_mistake_costs_one_case_and_the_rest_runs(broken: Checkout) -> None:
    chosen = "(copy or matvec) and test_exact and not memcpy and not cublas and not 10007"
    done = broken.run("pytest", "correctness", "-q", "-k", chosen)
    assert done.returncode == 1, done.stdout + done.stderr
    assert all(done.stdout.count(said) >= 1 for said in SAID), done.stdout
    assert "ERROR correctness/test_kernels.py::test_exact[copy-naive]" in done.stdout
    assert "ERROR correctness/test_kernels.py::test_exact[matvec]" in done.stdout
    assert "12 passed, " in done.stdout
    assert "2 errors" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.slow
def test_the_benchmark_is_not_green_without_what_is_declared_wrong(broken: Checkout) -> None:
    done = broken.bench("-k", "copy-naive or copy-vectorised or matvec", few=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert all(said in done.stdout for said in SAID), done.stdout
    assert "2 errors" in done.stdout
    assert "too large" not in done.stdout
    (saved,) = broken.saved
    assert set(json.loads(Path(saved).read_text())["warpwatch"]["failed"]) == {"copy-naive", "matvec"}


@pytest.mark.slow
def test_what_a_selection_leaves_out_is_told_where_its_declaration_is_wrong(broken: Checkout) -> None:
    """A selection by shape cannot match a variant without cases, so the run reports such variants."""
    done = broken.bench("-k", "copy and 1048576", few=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"left out because of a mistake in the declaration: {said}" in done.stdout for said in SAID), done.stdout


@pytest.mark.slow
def test_the_command_lists_the_rest_and_refuses_the_one(broken: Checkout) -> None:
    listed = broken.run("warpwatch", "list", "-k", "copy or matvec")
    assert listed.returncode == 2
    assert "copy-vectorised-2048-1048576-float32" in listed.stdout
    assert "copy-naive" not in listed.stdout
    assert all(f"error: {said}" in listed.stderr for said in SAID)
    ran = broken.run("warpwatch", "run", "copy-naive-256-33-float32")
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert ran.stderr.startswith(f"error: copy-naive-256-33-float32: {SAID[0]}")
    assert broken.run("warpwatch", "run", "copy-serial-host-33-float32").returncode == 0


def test_options_that_another_revision_may_give_define_macros_or_undefine_them() -> None:
    """Of all that nvcc takes, what names a program or a file may come from nobody else."""
    assert all(map(PLAIN_FLAG.fullmatch, ("-DFAST=1", "-DFAST", "-UFAST", "-O3")))
    assert not any(map(PLAIN_FLAG.fullmatch, ("-UFAST;x", "-U", "-ccbin=.", "-ofile")))
