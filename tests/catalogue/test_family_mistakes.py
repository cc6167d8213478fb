"""Tests that a mistake in a family gives one sentence with family and field, and leaves the others alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwatch as ww
from kernels import FAMILIES
from tests.catalogue.changed import own_family, with_family
from warpwatch.catalogue.arrays import Array, Shape
from warpwatch.catalogue.cases import case_of
from warpwatch.catalogue.corners import edge_cases
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.launches import Work
from warpwatch.catalogue.selection import omitted_cases, tested_cases, timed_cases
from warpwatch.catalogue.tolerance import product
from warpwatch.catalogue.validation import problems, sound


def work(operations: Callable[..., Any], elements: Callable[..., Any]) -> Callable[..., Work]:
    return lambda m, n, k, itemsize: Work(operations(m, n, k), elements(m, n, k) * itemsize)


def products(m: int, n: int, k: int) -> int:
    return 2 * m * n * k


def moved(m: int, n: int, k: int) -> int:
    return m * n + n * k + m * k


WORKS = [
    (work(products, lambda m, n, k: m * n + n * k), "bytes = 16; its arrays hold 24"),
    (work(products, lambda m, n, k: 0), "bytes = 0; its arrays hold 24"),
    (work(products, lambda m, n, k: -1), "bytes = -8: give a whole number from 0 on"),
    (work(products, lambda m, n, k: float("nan")), "bytes = nan: give a whole number"),
    (work(products, lambda m, n, k: 2000 * moved(m, n, k)), "bytes = 48,000, over 1,000 times the 24"),
    (work(lambda m, n, k: 2000 * m * n * k, moved), "operations = 2,000, over 1,000 times the plausible 1"),
    (work(lambda m, n, k: 2 * m * n * k * m, moved), "a second for one core by serial_seconds; none does 1e+12"),
    (work(lambda m, n, k: 2e9 * m * n * k, moved), "operations = 2000000000.0: give a whole number"),
    (work(lambda m, n, k: m * n * k / 3, moved), "give a whole number from 0 on"),
    (work(lambda m, n, k: float("inf"), moved), "operations = inf: give a whole number"),
    (work(lambda m, n, k: -2, moved), "operations = -2: give a whole number"),
    (work(lambda m, n, k: True, moved), "operations = True: give a whole number"),
    (lambda: (2, 12), "is (2, 12): give Work(operations, bytes)"),
    (lambda: Work(1, 2**30, "fp31"), "says pipe = 'fp31': give one of fp32, fp64, fp16, tensor fp16, "),
    (lambda shape: Work(1, shape[3]), "cannot be used: IndexError"),
    (lambda length: Work(1, length), "cannot be used: it asks for 'length'; it can be given shape, sizes"),
    (lambda *sizes: Work(1, 1), "cannot be used: it takes *sizes, which has no name: name what it needs"),
]


@pytest.mark.parametrize(("formula", "message"), WORKS, ids=[message for _, message in WORKS])
def test_work_that_cannot_be_is_a_mistake(formula: Callable[..., Work], message: str) -> None:
    (problem,) = problems(with_family(work=formula))
    assert str(problem).startswith("family matmul: work ")
    assert message in str(problem)


def test_no_operations_where_results_are_rounded_are_a_mistake() -> None:
    (problem,) = problems(with_family(work=work(lambda m, n, k: 0, moved)))
    assert "tolerance at 17x33x65, float64, is above 0, though by `work` there are no operations" in str(problem)


@pytest.mark.parametrize("family", [family for family in FAMILIES if not family.prints], ids=lambda family: family.name)
def test_a_byte_less_or_a_thousand_times_as_much_is_noticed_in_every_family(family: Family) -> None:
    def declared(shape: Shape, dtype: str) -> Work:
        return case_of(family, shape, dtype).work

    def altered(more: Callable[[Work], Work]) -> str:
        families = with_family(family.name, work=lambda shape, dtype: more(declared(shape, dtype)))
        return " ".join(str(problem) for problem in problems(families))

    assert altered(lambda work: work) == ""
    assert f"family {family.name}: work " in altered(lambda work: replace(work, bytes=work.bytes - 1))
    assert f"family {family.name}: work " in altered(lambda work: replace(work, bytes=work.bytes * 1001))
    if declared(family.tests[0], "float32").operations:
        assert f"family {family.name}: work " in altered(lambda work: replace(work, operations=work.operations * 1000))


def arrays(**changed: object) -> Callable[..., dict[str, object]]:
    """Return the arrays of the matrix product, with some of them changed or added."""
    return lambda m, n, k: {"A": ww.In((m, n)), "B": ww.In((n, k)), "C": ww.Out((m, k))} | changed


def rounded(A: Array, B: Array, magnitudes: bool = False) -> Array:
    """Compute a product whose magnitudes have the wrong shape."""
    return np.ones(3) if magnitudes else product(A, B)


FAMILY_MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"name": "mat-mul"}, "family mat-mul: name is 'mat-mul': a name has lower-case letters, digits and _ alone"),
    ({"name": "Matmul"}, "family Matmul: name is 'Matmul'"),
    ({"name": "matmül"}, "name is 'matmül'"),
    ({"folder": Path("absent")}, "folder is 'absent', which is not a folder: give Path(__file__).parent"),
    ({"sizes": ("m", "n", "m")}, "sizes is ('m', 'n', 'm'), which names a size twice"),
    ({"sizes": "mnk"}, "sizes is 'mnk': give a tuple of names"),
    (
        {"sizes": ("m", "n", "shape")},
        "sizes has 'shape', by which functions ask for something else: choose a name other ",
    ),
    (
        {"sizes": ("m", "n", "block")},
        "sizes has 'block', by which functions ask for something else: choose a name other ",
    ),
    ({"scalars": {"eps": 1e-5}}, "scalars has 'eps' = 1e-05: give a Scalar of a value and a type"),
    ({"scalars": {"eps": ww.Scalar(1e-5, "float23")}}, "scalars has 'eps' = Scalar(value=1e-05, dtype='float23')"),
    ({"scalars": {"m": ww.Scalar(1)}}, "scalars has 'm', which is not a name or stands for something else too"),
    ({"fits": lambda rows: None}, "fits cannot be used: it asks for 'rows'; it can be given shape, sizes, m, n, k"),
    ({"fits": lambda m: False}, "fits returns False: give a sentence, or None"),
    ({"variants": ()}, "variants is empty"),
    ({"variants": ("tiled",)}, "variants holds 'tiled', which is not a Variant"),
    ({"dtypes": ("float23",)}, "dtypes has 'float23', which is not an element type; there are float32, float64, int32"),
    ({"dtypes": "float32"}, "dtypes is 'float32': give a tuple of element types"),
    ({"tests": ()}, "tests is empty: nothing is tested"),
    ({"tests": ((17, 33),)}, "tests has (17, 33): a shape is a tuple of 3 (m, n, k) whole numbers"),
    ({"tests": ((17, 33, 0),)}, "tests has (17, 33, 0): a shape is"),
    ({"tests": ((17, 33, 1.5),)}, "tests has (17, 33, 1.5): a shape is"),
    ({"tests": (17, 33, 65)}, "tests has 17: a shape is"),
    ({"tests": ((1, 2, 3), (1, 2, 3))}, "tests has (1, 2, 3) twice"),
    ({"benchmarks": {"float32": ((1, 2),)}}, "benchmarks has (1, 2): a shape is"),
    ({"benchmarks": ((1, 2),)}, "benchmarks has (1, 2): a shape is"),
    ({"benchmarks": {"float23": ((1, 2, 3),)}}, "benchmarks has shapes for 'float23', which is none of the element"),
    ({"weights": (1, 2)}, "weights is (1, 2): give how often each shape runs, such as {(1024, 512): 24}"),
    ({"weights": {(9, 9, 9): 1}}, "weights has (9, 9, 9), which `benchmarks` does not: give weights of timed shapes"),
    *(
        ({"benchmarks": ((1, 2, 3),), "weights": {(1, 2, 3): bad}}, f"weights of (1, 2, 3) is {bad!r}: give a number")
        for bad in (0, -1, True, "24", float("nan"), float("inf"))
    ),
    ({"arrays": lambda m, n: {"A": ww.In((m, n))}}, "arrays has no Out or InOut, and prints is None"),
    ({"arrays": lambda rows: {}}, "arrays cannot be used: it asks for 'rows'; it can be given shape, sizes, dtype"),
    ({"arrays": lambda: 7}, "arrays of 1x1x1 is 7: give a name and In, Out, InOut or Scratch for each"),
    ({"arrays": arrays(C=ww.Out((0, 1)))}, "arrays of 1x1x1 has 'C' of shape (0, 1): a shape is one or more sizes"),
    ({"arrays": arrays(A=ww.In(()))}, "arrays of 1x1x1 has 'A' of shape (): a shape is"),
    ({"arrays": arrays(A=(7, 7))}, "arrays of 1x1x1 has 'A' = (7, 7): declare it by In, Out, InOut or Scratch"),
    ({"arrays": arrays(A=ww.In(None))}, "arrays of 1x1x1 has 'A' without a shape: give it one, or let `draw`"),
    (
        {"arrays": arrays(m=ww.In(3))},
        "arrays of 1x1x1 has 'm' as a name, which stands for something else too: choose",
    ),
    ({"arrays": arrays(part=ww.In(3))}, "arrays of 1x1x1 has 'part' as a name, which stands for something else too"),
    ({"arrays": arrays(**{"a b": ww.In(3)})}, "arrays of 1x1x1 has 'a b' as a name: functions ask for arrays by name"),
    ({"arrays": arrays(A=ww.In(3, "float23"))}, "arrays of 1x1x1 has 'A' of type 'float23', which does not exist"),
    ({"dtypes": ()}, "arrays of 1x1x1 has 'A' without an element type, and the family has no `dtypes`: give one"),
    (
        {"arrays": arrays(C=ww.Out((1, 1), initial=1.0))},
        "arrays of 1x1x1 has 'C' which has the initial value 1.0, which float64 repeats in no 4 bytes: declare it",
    ),
    (
        {"arrays": arrays(bins=ww.Out(256, "uint8", initial=300))},
        "arrays of 1x1x1 has 'bins' which has the initial value 300, which uint8 repeats in no 4 bytes",
    ),
    ({"draw": lambda rng: 3}, "draw at 17x33x65, float64, returns int: give arrays by name"),
    ({"draw": lambda rng: {"D": 3}}, "draw at 17x33x65, float64, returns 'D', which is not an input; there are A, B"),
    ({"draw": lambda rng, m: {"A": rng.random(m)}}, "draw at 17x33x65, float64, returns 'A' of shape (17,); it is"),
    ({"draw": lambda seed: {}}, "draw cannot be used: it asks for 'seed'; it can be given shape, sizes, dtype"),
    (
        {"draw": lambda rng: {}, "arrays": arrays(A=ww.In(None))},
        "draw at 17x33x65, float64, leaves out 'A', which is declared without a shape",
    ),
    ({"serial_seconds": lambda: float("nan")}, "serial_seconds of 1x1x1 is nan: give a time in seconds"),
    ({"reference": lambda A, B: (A @ B).T}, "reference at 17x33x65, float64, returns shape (65, 17); the result's is"),
    ({"reference": lambda: [1.0]}, "reference at 17x33x65, float64, returns list: give a NumPy array"),
    ({"reference": lambda A, B: None}, "reference at 17x33x65, float64, returns NoneType: give a NumPy array"),
    (
        {"reference": lambda A, B: (A @ B).astype(np.int64)},
        "reference at 17x33x65, float64, returns int64: give float64",
    ),
    (
        {"reference": lambda A, B: A @ B if A.dtype.kind == "f" else (A @ B).astype(np.int64) + 2**40},
        "reference at 17x33x65, int32, returns int64: some of its numbers are no int32",
    ),
    ({"reference": lambda A, B: A.astype(float) @ B}, "reference at 17x33x65, int32, returns float64: give int32"),
    ({"reference": lambda A: A[:, 999]}, "reference cannot be used: IndexError: index 999 is out of bounds for axis 1"),
    ({"reference": lambda X: X}, "reference cannot be used: it asks for 'X'; it can be given shape, sizes, dtype"),
    ({"reference": lambda: ()}, "reference returns 0 values; the results are C"),
    ({"reference": lambda A, B: (A, B)}, "reference returns 2 values; the results are C"),
    ({"reference": lambda A: {"D": A}}, "reference returns D; the results are C"),
    ({"arrays": arrays(D=ww.Out(4)), "work": None}, "reference returns 1 value; the results are C, D"),
    ({"tolerance": 1e-3}, "tolerance is 0.001: give a rule, such as relative(1e-6)"),
    ({"tolerance": None}, "tolerance is None: give a rule"),
    ({"tolerance": {"D": ww.exact}}, "tolerance names 'D', which is not a result; there are C"),
    ({"tolerance": {"C": 3}}, "tolerance of C is 3: give a rule"),
    ({"tolerance": lambda rows: ww.exact}, "tolerance cannot be used: it asks for 'rows'; it can be given shape"),
    ({"tolerance": ww.dot_error("q")}, "tolerance cannot be used: dot_error names 'q', which is not a size; there"),
    ({"tolerance": ww.error_of(lambda X: X)}, "tolerance cannot be used: it asks for 'X'; it can be given shape"),
    ({"reference": rounded}, "tolerance at 17x33x65, float64, gives shape (3,): give a number, or one for each"),
    (
        {"dtypes": ("float32",), "tolerance": ww.relative(1e-9)},
        "tolerance relative(1e-09) at 17x33x65, float32, allows less than float32 rounds by: C = ",
    ),
    (
        {"dtypes": ("float32",), "tolerance": ww.relative(1e-9)},
        "a correct kernel would fail; allow more, such as tolerance=ww.ulp(2)",
    ),
    (
        {"dtypes": ("float64", "float16"), "tolerance": ww.relative(1e-5)},
        "such as tolerance=lambda dtype: ww.ulp(2) if dtype == 'float16' else ...",
    ),
    ({"tolerance": ww.relative(-1.0)}, "tolerance at 17x33x65, float64, gives values that are not errors"),
    ({"tolerance": ww.relative(0.0, float("inf"))}, "gives values that are not errors: NaN, infinite or negative ones"),
    (
        {"reference_case": lambda: "copy-memcopy-vendor-4096-float32"},
        "reference_case names no case: no variant of copy",
    ),
    ({"reference_case": lambda rows: ""}, "reference_case names no case: it asks for 'rows'; it can be given shape"),
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


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ({"x": 3}, "arrays of 1 has 'x' = 3: declare it by In, Out, InOut or Scratch"),
        ({"x": ww.Out(3)}, "arrays of 1 has 'x' without an element type, and the family has no `dtypes`"),
        ({"x": ww.In(3, "int32")}, "arrays has no Out or InOut, and prints is None"),
        (7, "arrays of 1 is 7: give a name and In, Out, InOut or Scratch for each"),
    ],
)
def test_a_familys_mistake_is_told_where_arrays_alone_have_types(made: Any, message: str) -> None:
    (problem,) = problems((own_family(lambda: made, tests=((4,),)),))
    assert str(problem).startswith(f"family own: {message}")
