"""Tests that a mistake in a declaration gives one sentence with family, variant and field, and no other case fails."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels import FAMILIES
from tests.checkout import Bench
from tests.project import PROJECT
from warpwatch.catalogue.cases import find_case
from warpwatch.catalogue.corners import edge_cases
from warpwatch.catalogue.declaration import BadCase, Build, Case, Family, Owner, Work
from warpwatch.catalogue.selection import builds, omitted_cases, tested_cases, timed_cases
from warpwatch.catalogue.validation import problems, require, sound
from warpwatch.devices.compiler import Target, compile_build, compile_file
from warpwatch.devices.gpu import Settings
from warpwatch.devices.host import Host
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.runner import exact_operands, expected
from warpwatch.devices.symbols import entries
from warpwatch.devices.worker import Kernel, Worker, describe_device

BY_NAME = {family.name: family for family in FAMILIES}
MATMUL, COPY = BY_NAME["matmul"], BY_NAME["copy"]


def with_family(name: str = "matmul", /, **changes: Any) -> tuple[Family, ...]:
    """Return this repository's families with one of them changed."""
    return tuple(replace(family, **changes) if family.name == name else family for family in FAMILIES)


def with_variant(name: str = "tiled", /, **changes: Any) -> tuple[Family, ...]:
    """Return this repository's families with one variant of the matrix product changed."""
    changed = tuple(replace(v, **changes) if v.name == name else v for v in MATMUL.variants)
    return with_family(variants=changed)


def test_this_suite_is_declared_without_a_mistake() -> None:
    assert problems(FAMILIES) == ()
    assert len(sound(FAMILIES)) == sum(len(family.variants) for family in FAMILIES)


def work(operations: Callable[..., Any], moved: Callable[..., Any]) -> Callable[..., Work]:
    return lambda shape, itemsize: Work(operations(*shape), moved(*shape) * itemsize)


def right_bytes(m: int, n: int, k: int) -> int:
    return m * n + n * k + m * k


WORKS = [
    (work(lambda m, n, k: 2 * m * n * k, lambda m, n, k: m * n + n * k), "bytes = 16; its arrays hold 24"),
    (work(lambda m, n, k: 2 * m * n * k, lambda m, n, k: 0), "bytes = 0; its arrays hold 24"),
    (work(lambda m, n, k: 2 * m * n * k, lambda m, n, k: -1), "bytes = -8: give a whole number from 0 on"),
    (work(lambda m, n, k: 2 * m * n * k, lambda m, n, k: float("nan")), "bytes = nan: give a whole number"),
    (
        work(lambda m, n, k: 2 * m * n * k, lambda m, n, k: 2000 * right_bytes(m, n, k)),
        "bytes = 48,000, over 1,000 times the 24",
    ),
    (work(lambda m, n, k: 2000 * m * n * k, right_bytes), "operations = 2,000, over 1,000 times the plausible 1"),
    (work(lambda m, n, k: 2 * m * n * k * m, right_bytes), "a second for one core by serial_seconds; none does 1e+12"),
    (work(lambda m, n, k: 2e9 * m * n * k, right_bytes), "operations = 2000000000.0: give a whole number"),
    (work(lambda m, n, k: m * n * k / 3, right_bytes), "give a whole number from 0 on"),
    (work(lambda m, n, k: float("inf"), right_bytes), "operations = inf: give a whole number"),
    (work(lambda m, n, k: -2, right_bytes), "operations = -2: give a whole number"),
    (work(lambda m, n, k: True, right_bytes), "operations = True: give a whole number"),
    (lambda shape, itemsize: (2, 12), "is (2, 12): give Work(operations, bytes)"),
    (lambda shape, itemsize: Work(1, shape[3]), "cannot be used: IndexError"),
]


@pytest.mark.parametrize(("formula", "message"), WORKS, ids=[message for _, message in WORKS])
def test_work_that_cannot_be_is_a_mistake(formula: Callable[..., Work], message: str) -> None:
    (problem,) = problems(with_family(work=formula))
    assert str(problem).startswith("family matmul: work ")
    assert message in str(problem)


def test_no_operations_where_results_are_rounded_are_a_mistake() -> None:
    (problem,) = problems(with_family(work=work(lambda m, n, k: 0, right_bytes)))
    assert "bound at 17x33x65, float64, is above 0, though by `work` there are no operations" in str(problem)


@pytest.mark.parametrize("family", [family for family in FAMILIES if family.result], ids=lambda family: family.name)
def test_a_byte_less_or_a_thousand_times_as_much_is_noticed_in_every_family(family: Family) -> None:
    def altered(more: Callable[[Work], Work]) -> str:
        families = with_family(family.name, work=lambda shape, itemsize: more(family.work(shape, itemsize)))
        return " ".join(str(problem) for problem in problems(families))

    assert altered(lambda work: work) == ""
    assert f"family {family.name}: work " in altered(lambda work: replace(work, bytes=work.bytes - 1))
    assert f"family {family.name}: work " in altered(lambda work: replace(work, bytes=work.bytes * 1001))
    if family.work(family.test_shapes[0], 4).operations:
        assert f"family {family.name}: work " in altered(lambda work: replace(work, operations=work.operations * 1000))


FAMILY_MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"name": "mat-mul"}, "family mat-mul: name is 'mat-mul': a name has lower-case letters, digits and _ alone"),
    ({"name": "Matmul"}, "family Matmul: name is 'Matmul'"),
    ({"name": "matmül"}, "name is 'matmül'"),
    ({"sizes": ("m", "n", "m")}, "sizes is ('m', 'n', 'm'), which names a size twice"),
    ({"sizes": "mnk"}, "sizes is 'mnk': give a tuple of names"),
    ({"variants": ()}, "variants is empty"),
    ({"variants": ("tiled",)}, "variants holds 'tiled', which is no Variant"),
    ({"test_shapes": ()}, "test_shapes is empty: nothing is tested"),
    ({"test_shapes": ((17, 33),)}, "test_shapes has (17, 33): a shape is a tuple of 3 (m, n, k) whole numbers"),
    ({"test_shapes": ((17, 33, 0),)}, "test_shapes has (17, 33, 0): a shape is"),
    ({"test_shapes": ((17, 33, 1.5),)}, "test_shapes has (17, 33, 1.5): a shape is"),
    ({"test_shapes": (17, 33, 65)}, "test_shapes has 17: a shape is"),
    ({"test_shapes": ((1, 2, 3), (1, 2, 3))}, "test_shapes has (1, 2, 3) twice"),
    ({"bench_shapes": {"float32": ((1, 2),)}}, "bench_shapes has (1, 2): a shape is"),
    ({"bench_shapes": {"float23": ((1, 2, 3),)}}, "bench_shapes has shapes for 'float23', and no variant has that"),
    ({"result": None}, "result is None, and so is prints"),
    ({"result": lambda shape: ("C", (0, 1))}, "result of 1x1x1 is ('C', (0, 1))"),
    ({"result": lambda shape: ("A", (shape[0], shape[2]))}, "operands has 'A', which is the result's name too"),
    ({"operands": lambda shape: {"A": 7}}, "operands of 1x1x1 has 'A' of shape 7"),
    ({"operands": lambda shape: {"A": shape[7:9]}}, "operands of 1x1x1 has 'A' of shape ()"),
    ({"serial_seconds": lambda shape: float("nan")}, "serial_seconds of 1x1x1 is nan: give a time in seconds"),
    ({"reference": lambda ops, rows: (ops[0] @ ops[1]).T}, "reference at 17x33x65, float64, returns shape (65, 17)"),
    ({"reference": lambda ops, rows: [1.0]}, "reference at 17x33x65, float64, returns list: give a NumPy array"),
    (
        {"reference": lambda ops, rows: (ops[0] @ ops[1]).astype(np.int64)},
        "reference at 17x33x65, float64, returns int64: give float64",
    ),
    (
        {"reference": lambda ops, rows: ops[0].astype(float) @ ops[1]},
        "reference at 17x33x65, int32, returns float64: give int32",
    ),
    ({"reference": lambda ops, rows: ops[7]}, "reference cannot be used: IndexError: tuple index out of range"),
    ({"bound": lambda ops, rows: None}, "bound at 17x33x65, float64, returns None: give a number, or one for each"),
    ({"bound": lambda ops, rows: np.ones(3)}, "bound at 17x33x65, float64, returns shape (3,)"),
    ({"bound": lambda ops, rows: -1.0}, "bound at 17x33x65, float64, holds values that are no errors"),
    ({"bound": lambda ops, rows: float("inf")}, "holds values that are no errors: NaN, infinite or negative ones"),
    (
        {"reference_case": lambda shape, dtype: "copy-memcopy-vendor-4096-float32"},
        "reference_case names no case: no variant of copy",
    ),
]


@pytest.mark.parametrize(("change", "message"), FAMILY_MISTAKES, ids=[message[:50] for _, message in FAMILY_MISTAKES])
def test_a_familys_mistake_names_its_field_and_leaves_the_others_alone(change: dict[str, Any], message: str) -> None:
    families = with_family(**change)
    (problem,) = problems(families)
    name = change.get("name", "matmul")
    assert problem.family == name
    assert message in str(problem)
    assert "\n" not in str(problem)
    left = {family.name for family, _ in sound(families)}
    assert left == {family.name for family in FAMILIES} - (set() if "reference_case" in change else {"matmul"})
    for cases in (tested_cases, edge_cases, timed_cases, omitted_cases):
        assert {case.family.name for case in cases(families)} <= left


VARIANT_MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"name": "tiled-2"}, "variant tiled-2: name is 'tiled-2': a name has lower-case letters"),
    ({"name": "Tiled"}, "variant Tiled: name is 'Tiled'"),
    ({"name": "naive"}, "variant naive: name is that of another variant too, which is used; give this one a name"),
    ({"name": "missing"}, "variant missing: source is missing: there is no file kernels/matmul/missing.cu"),
    ({"blocks": ()}, "blocks is (): give a tuple of at least one block"),
    ({"blocks": ((8, 8), (16,))}, "blocks has blocks of one size and of two: (8, 8) and (16,)"),
    ({"blocks": ((8, 8), (8, 8))}, "blocks has a block twice: 8x8, 8x8"),
    ({"blocks": ((8, 0),)}, "blocks has (8, 0): a block is one or two whole numbers from 1 on"),
    ({"blocks": (8, 8)}, "blocks has 8: a block is"),
    ({"blocks": ((8, 8, 8),)}, "blocks has (8, 8, 8): a block is one or two"),
    ({"dtypes": ("float16",)}, "dtypes has 'float16', which is no element type; there are float32, float64, int32"),
    ({"dtypes": ()}, "dtypes is (): give a tuple"),
    ({"dtypes": "float32"}, "dtypes is 'float32': give a tuple"),
    ({"dtypes": ("float32", "float32")}, "dtypes names an element type twice"),
    ({"dtypes": ("none",)}, "dtypes has 'none': 'none' is for kernels that print"),
    ({"takes": lambda block, dtype: False}, "takes leaves no block for float64"),
    ({"library": "cufft"}, "library is 'cufft': give a Library, which says how its call is queued"),
    ({"needs": (8, 0)}, "needs is (8, 0): give a Capability"),
    ({"x": 2}, "x or y is 2: the result has the axes 0, 1"),
    ({"x": 0, "y": 0}, "x and y are both 0"),
    ({"bench_shapes": {"float32": ((1, 2),)}}, "bench_shapes has (1, 2): a shape is"),
    ({"bench_shapes": {"float23": ((1, 2, 3),)}}, "bench_shapes has shapes for 'float23', which is no element type"),
    ({"threads": lambda block: (0, 1)}, "threads of 8x8 is (0, 1): give two whole numbers from 1 on"),
    ({"tile": lambda block: 8}, "tile of 8x8 is 8: give two whole numbers"),
    ({"shared_bytes": lambda shape, block, itemsize: 1.5}, "shared_bytes of matmul-tiled-8x8-17x33x65-float64 is 1.5"),
    ({"macros": lambda block: {"A-B": 1}}, "macros of 8x8 has 'A-B' = 1: a macro is a name and a whole number"),
    ({"macros": lambda block: {"A": "1"}}, "macros of 8x8 has 'A' = '1'"),
    ({"entry": lambda shape: None}, "entry is None: give what follows the kernel's name"),
    ({"arguments": lambda p, s: (*p, *s)}, "arguments has 17592186044416 of Python's type int as number 1"),
    ({"arguments": lambda p, s: (np.uint64(p[0]), s[0])}, "arguments has 17 of Python's type int as number 2"),
    ({"constant": "filter"}, "constant is 'filter', which is no operand; there are A, B"),
    ({"owner": lambda block, index: Owner((9, 9), None)}, "owner of matmul-tiled-8x8-17x33x65-float64 says that block"),
    ({"order": lambda tile, tiles: 10**6}, "owner of matmul-tiled-8x8-17x33x65-float64 says that block"),
    ({"fallback": lambda shape, itemsize: None}, "fallback of 17x33x65 is None: give words"),
]


@pytest.mark.parametrize(("change", "message"), VARIANT_MISTAKES, ids=[message[:50] for _, message in VARIANT_MISTAKES])
def test_a_variants_mistake_names_its_field_and_leaves_the_others_alone(change: dict[str, Any], message: str) -> None:
    families = with_variant(**change)
    (problem,) = problems(families)
    assert str(problem).startswith(f"family matmul, variant {change.get('name', 'tiled')}: ")
    assert message in str(problem)
    assert "\n" not in str(problem)
    assert len(sound(families)) == len(sound(FAMILIES)) - 1
    assert len(builds(families)) == len(builds(FAMILIES)) - len(builds([MATMUL])) + len(
        [b for b in builds([MATMUL]) if b.variant.name != "tiled"]
    )


def test_of_two_families_of_one_name_the_first_is_used() -> None:
    families = (*FAMILIES, replace(COPY))
    (problem,) = problems(families)
    assert str(problem) == (
        "family copy: name is that of another family too, which is used; give this one a name of its own"
    )
    assert len(sound(families)) == len(sound(FAMILIES))


def test_a_case_of_a_wrong_declaration_says_so_by_hand() -> None:
    with pytest.raises(BadCase, match="copy-naive-256-33-float32: family copy: test_shapes is empty"):
        require(with_family("copy", test_shapes=()), "copy-naive-256-33-float32")
    with pytest.raises(BadCase, match="family matmul, variant tiled: blocks is"):
        require(with_variant(blocks=()), "matmul-tiled-8x8-5x5x5-float32")
    require(with_variant(blocks=()), "matmul-naive-8x8-5x5x5-float32")


def test_a_reference_that_is_wrong_on_one_shape_alone_says_so_there() -> None:
    reference = lambda operands, rows: operands[0][:100]  # noqa: E731
    (family,) = [f for f in with_family("copy", reference=reference) if f.name == "copy"]
    assert not problems([f for f in with_family("copy", reference=reference) if f.name in ("copy", "hello")])
    build = Build(family, family.variant("naive"), (256,), "float32")
    case = Case(build, (4096,))
    with pytest.raises(BadCase) as caught:
        expected(case, exact_operands(case, 0))
    said = "copy-naive-256-4096-float32: family copy: reference at 4096, float32, returns shape (100,)"
    assert str(caught.value) == f"{said}; the result's is (4096,)"


# Entries


@pytest.fixture(scope="module")
def software() -> Iterator[Worker]:
    worker = Worker(PROJECT, Settings(kind="software"))
    yield worker
    worker.stop()


def test_a_missing_entry_lists_those_that_there_are(software: Worker) -> None:
    columns = find_case(FAMILIES, "conv2d-columns-512x8-17x33x3-int32")
    image = compile_build(columns.build, software.call(describe_device).target)
    case = find_case(FAMILIES, "conv2d-naive-16x16-17x33x3-int32")
    with pytest.raises(DeviceError) as caught:
        Kernel(software, case.build, image).run(case.shape, exact_operands(case, 0))
    known = "conv2d_columns, conv2d_columns_3, conv2d_columns_5, conv2d_columns_7"
    assert f"{case.id}: no kernel is named conv2d_naive: the file has {known}; " in str(caught.value)


def test_a_missing_entry_of_the_host_lists_those_that_there_are() -> None:
    image = compile_build(find_case(FAMILIES, "matmul-serial-host-5x5x5-float32").build, None)
    with pytest.raises(DeviceError, match="no kernel is named copy_serial: the file has matmul_serial; "):
        Host().load(image.path, "copy_serial")


SOURCE = """
__device__ __noinline__ int helper(int x) { return x * x + clock(); }
extern "C" __global__ void first(int* a) { a[threadIdx.x] = helper(a[0]); }
extern "C" __global__ void second(int* a) { a[threadIdx.x] = helper(a[1]); }
"""


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

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.folder / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new, 1))

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return self._run(sys.executable, "-m", *command)


NAIVE = 'Variant("naive", "one thread an element", blocks=BLOCKS, dtypes=FLOATS, x=0, y=None)'


@pytest.fixture
def broken(tmp_path: Path) -> Checkout:
    """A checkout with Python ints as arguments of one variant, and with too few bytes in one family."""
    checkout = Checkout(tmp_path)
    checkout.edit("kernels/copy/__init__.py", NAIVE, NAIVE[:-1] + ", arguments=lambda p, s: (*p, *s))")
    checkout.edit("kernels/matvec/__init__.py", "(m * n + n + m) * itemsize", "(m * n) * itemsize")
    return checkout


SAID = (
    "family copy, variant naive: arguments has 17592186044416 of Python's type int as number 1",
    "family matvec: work at 1x1, float32, says bytes = 4; its arrays hold 12, and each is moved once at least",
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
