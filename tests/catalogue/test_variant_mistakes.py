"""Tests that a mistake in a variant gives one sentence with its names and field, and leaves the others alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpwatch as ww
from kernels import FAMILIES
from tests.catalogue.changed import MATMUL, with_family, with_variant
from warpwatch.catalogue.cases import find_case
from warpwatch.catalogue.contracts import Contract
from warpwatch.catalogue.launches import Owner
from warpwatch.catalogue.selection import builds
from warpwatch.catalogue.texts import Text
from warpwatch.catalogue.validation import problems, sound


def step(entry: str = "first", grid: Any = 1, **fields: Any) -> dict[str, Any]:
    """Return a change of a variant: one launch, declared by these fields."""
    return {"launches": (ww.Step(entry, grid=grid, **fields),)}


def steps(**fields: Any) -> dict[str, Any]:
    """Return two steps, of which the second is programmatic."""
    return {"launches": (*step()["launches"], ww.Step("second", grid=1, programmatic=True, **fields))}


VARIANT_MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"name": "tiled-2"}, "variant tiled-2: name is 'tiled-2': a name has lower-case letters"),
    ({"name": "Tiled"}, "variant Tiled: name is 'Tiled'"),
    ({"name": "naive"}, "variant naive: name is that of another variant too, which is used; give this one a name"),
    ({"name": "missing"}, "variant missing: source is missing: there is no file kernels/matmul/missing.cu"),
    ({"source": "other.cu"}, "source is missing: there is no file kernels/matmul/other.cu"),
    ({"source": "__global__ void f() {}"}, "source is CUDA C++, not a file: write source=ww.text(...)"),
    ({"source": ww.text(" ")}, "source is an empty text: give ww.text the kernel's CUDA C++"),
    (
        {"source": ww.from_python("absent.py", "f")},
        'source cannot be read by from_python("absent.py", "f"): there is no',
    ),
    ({"source": Text("f", ((0, 1, "f"),))}, "source is not what ww.text or ww.from_python made"),  # type: ignore[arg-type]
    ({"include": "../include"}, "include is '../include': give a tuple of folders"),
    ({"include": ("absent",)}, "include names 'absent', which is not a folder in matmul"),
    ({"flags": "-O3"}, "flags is '-O3': give a tuple of options, such as ('--use_fast_math',)"),
    ({"configurations": ()}, "configurations is (): give a tuple of at least one"),
    ({"configurations": ((),)}, "configurations is left out: give at least one block, such as ((16, 16),)"),
    ({"configurations": ((8, 8, 8),)}, "configurations has (8, 8, 8): a block is one or two whole numbers, or three"),
    ({"on_host": True}, "configurations is ((8, 8), (16, 16), (32, 32)): on the host and of a call there is none"),
    ({"dtypes": ("float23",)}, "dtypes has 'float23', which is not an element type; there are float32, float64, int32"),
    ({"dtypes": ()}, "dtypes is empty: name at least one element type"),
    ({"dtypes": "float32"}, "dtypes is 'float32': give a tuple"),
    ({"dtypes": ("float32", "float32")}, "dtypes names an element type twice"),
    ({"dtypes": ("none",)}, "dtypes has 'none', which is not an element type"),
    ({"takes": lambda block, dtype: False}, "takes leaves no configuration for float64"),
    ({"takes": lambda m: True}, "takes cannot be used: it asks for 'm'; it can be given block, c, configuration"),
    ({"call": "cufft"}, "call is 'cufft': declare it by call(), which says how its work is queued"),
    ({"capability": (8, 0)}, "needs is (8, 0): give an architecture, such as 'sm_80'"),
    ({"requires": ww.kernel("a", needs="sm_8O").requires}, "needs has 'sm_8O': give an architecture, such as 'sm_80',"),
    ({"x": 2}, "x or y is 2: the result has the axes 0, 1"),
    ({"x": 0, "y": 0}, "x and y are both 0"),
    ({"benchmarks": {"float32": ((1, 2),)}}, "benchmarks has (1, 2): a shape is"),
    ({"benchmarks": {"float23": ((1, 2, 3),)}}, "benchmarks has shapes for 'float23', which is none of the element"),
    ({"threads": lambda block: (0, 1)}, "threads of 8x8 is (0, 1): give two whole numbers from 1 on"),
    ({"tile": lambda block: 8}, "tile of 8x8 is 8: give two whole numbers"),
    ({"shared_bytes": lambda: 1.5}, "shared_bytes of matmul-tiled-8x8-17x33x65-float64 is 1.5"),
    ({"shared_bytes": -1}, "shared_bytes of matmul-tiled-8x8-17x33x65-float64 is -1"),
    ({"macros": lambda block: {"A-B": 1}}, "macros of 8x8 has 'A-B' = 1: a macro is a name, and a whole number or a"),
    ({"macros": lambda block: {"A": 1.5}}, "macros of 8x8 has 'A' = 1.5"),
    ({"macros": lambda m: {"A": m}}, "macros cannot be used: it asks for 'm'; it can be given block, c, configuration"),
    ({"scratch": lambda: {"tmp": 3}}, "scratch of matmul-tiled-8x8-17x33x65-float64 has 'tmp' = 3: declare it by"),
    ({"scratch": lambda: {"tmp": ww.In(3)}}, "has 'tmp' = DeclaredArray(role=<Role.IN: 'in'>, shape=(3,), dtype='',"),
    ({"scratch": lambda: {"A": ww.Scratch(3)}}, "has 'A', which is not a name or stands for something else too"),
    ({"scratch": lambda: 3}, "scratch of matmul-tiled-8x8-17x33x65-float64 is 3: give a name and Scratch for each"),
    ({"launches": ("first",)}, "launches holds 'first', which is not a Step: give ww.Step for each launch"),
    (step(entry=""), "launches has a step of the kernel '': give the kernel's name"),
    (step(grid=0), "launches of first: grid of matmul-tiled-8x8-17x33x65-float64 is 0: give one to three whole"),
    (step(block=(8, 8, 8, 8)), "launches of first: block of matmul-tiled-8x8-17x33x65-float64 is (8, 8, 8, 8)"),
    (step(after="second"), "launches has first after 'second'; the steps before it are none"),
    (step(stream=2), "launches has a step of first on the stream 2: give it a name"),
    (step(programmatic=1), "launches has first with programmatic = 1: give True or False"),
    (step(cooperative="no"), "launches has first with cooperative = 'no': give True or False"),
    (step(programmatic=True), "launches has the programmatic step first first: give programmatic=True to a step that"),
    (steps(stream="b"), "launches has the programmatic step second beside streams, between which events are waited"),
    (
        steps(),
        "launches has the programmatic step second, which GPUs before compute capability 9.0 cannot: give needs=",
    ),
    (step() | {"cooperative": True}, "launches are steps, and cooperative=True is the variant's: give it to each ww.S"),
    ({"grid": "m/4"}, "grid cannot be used: m/4 is 4.25 (m = 17): a whole number is due: write ceil(m/4)"),
    ({"grid": ("m", "A")}, "grid cannot be used: A is not known; there are "),
    ({"grid": "m-17"}, "grid of matmul-tiled-8x8-17x33x65-float64 is (0,): give one to three whole numbers"),
    ({"valid": lambda m: m % 2}, "valid returns 1: give True or False, as `lambda n: n % 32 == 0` does"),
    ({"valid": lambda q: True}, "valid cannot be used: it asks for 'q'; it can be given shape, sizes, m, n, k"),
    ({"valid": lambda m: m > 10**6}, "valid takes none of the tested shapes: give a shape that it takes to `tests`"),
    ({"scratch": lambda: {"tmp": ww.Scratch(3, "int32", initial=0.5)}}, "has 'tmp' which "),
    (step(shared_bytes=1.5), "launches of first: shared_bytes of matmul-tiled-8x8-17x33x65-float64 is 1.5"),
    (
        step(arguments="C A Q"),
        "arguments cannot be used: Q is neither an array nor a size nor a scalar; there are A, B",
    ),
    (
        step() | {"configurations": ((),)},
        "launches of first: block is missing; give it to the step, or give the variant configurations",
    ),
    ({"entry": lambda: None}, "entry is None: give the kernel's name"),
    ({"entry": lambda q: "a"}, "entry cannot be used: it asks for 'q'; it can be given block, c, configuration"),
    ({"grid": lambda m: m // 99}, "grid of matmul-tiled-8x8-17x33x65-float64 is 0: give one to three whole numbers"),
    ({"grid": (1, 2, 3, 4)}, "grid of matmul-tiled-8x8-17x33x65-float64 is (1, 2, 3, 4): give one to three whole"),
    ({"grid": lambda q: 1}, "grid cannot be used: it asks for 'q'; it can be given block, c, configuration, shape"),
    ({"cluster": 2}, "cluster is given without `grid`: say how many blocks there are"),
    ({"cluster": 0, "grid": 1}, "cluster of matmul-tiled-8x8-17x33x65-float64 is 0: give one to three whole numbers"),
    ({"arguments": lambda at, m: (at["A"] + 8, m)}, "arguments has 17 of Python's type int as number 2"),
    ({"arguments": lambda at, m: (np.uint64(at["A"]), m)}, "arguments has 17 of Python's type int as number 2"),
    ({"arguments": lambda q: ()}, "arguments cannot be used: it asks for 'q'; it can be given block, c, configuration"),
    ({"arguments": "C A B Q"}, "arguments cannot be used: Q is neither an array nor a size nor a scalar; there are A"),
    (
        {"arguments": "A.size", "benchmarks": ((2**20, 2**12, 1),)},
        "arguments cannot be used: A = 4294967296 does not fit into int32: write A:int64",
    ),
    ({"symbols": {"constant_filter": "filter"}}, "symbols has 'filter', which is not an input; there are A, B"),
    ({"owner": lambda: Owner((9, 9), None)}, "owner of matmul-tiled-8x8-17x33x65-float64 says that block"),
    ({"order": lambda: 10**6}, "owner of matmul-tiled-8x8-17x33x65-float64 says that block"),
    ({"tile_of": lambda: (99, 99)}, "owner of matmul-tiled-8x8-17x33x65-float64 says that block"),
    ({"fallback": lambda: None}, "fallback of 17x33x65 is None: give words"),
    (
        {"at_least": 90},
        "at_least of matmul-tiled-8x8-17x33x65-float64 has reference = 90: give a share of the reference's rate, such",
    ),
    ({"at_least": {"reference": 0.9, "roof": 1.5}}, "has roof = 1.5: give a share of what the GPU can do, such as 0.6"),
    ({"at_least": {"rof": 0.5}}, "at_least of matmul-tiled-8x8-17x33x65-float64 has 'rof', which is not a limit; did"),
    ({"at_least": True}, "has reference = True: give a share"),
    ({"at_least": lambda q: 0.5}, "at_least cannot be used: it asks for 'q'"),
    ({"at_most": 64}, "at_most of matmul-tiled-8x8-17x33x65-float64 is 64: give dict(registers=..., local_bytes=...,"),
    ({"at_most": {"regs": 64}}, "has 'regs', which is not a limit; did you mean registers?"),
    ({"at_most": {"registers": 0}}, "has registers = 0: give a whole number from 1 to 255, of a thread"),
    ({"at_most": {"registers": 63.5}}, "has registers = 63.5: give a whole number"),
    ({"at_most": {"local_bytes": -1}}, "has local_bytes = -1: give a whole number from 0 to 524,288, of a thread"),
    ({"at_most": {"seconds": 50}}, "has seconds = 50: give a time of a launch in seconds, such as 50e-6"),
    ({"at_most": {"seconds": float("nan")}}, "has seconds = nan: give a time"),
    (
        {"at_most": lambda m: {"seconds": 1.0 if m < 2048 else 0}},
        "at_most of matmul-tiled-8x8-2048x2048x2048-float64 has",
    ),
    ({"threshold": 3}, "threshold of matmul-tiled-8x8-17x33x65-float64 has threshold = 3: give a share of the time"),
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


def test_a_call_that_asks_for_what_there_is_not_is_a_mistake() -> None:
    variant = ww.call("cublas", function=lambda A, B, C, stream, alpha: None)
    (problem,) = problems(with_family(variants=(*(v for v in MATMUL.variants if v.name != "cublas"), variant)))
    said = "function asks for 'alpha'; it can be given A, B, C, block, c, configuration, shape, sizes, dtype"
    assert str(problem).startswith(f"family matmul, variant cublas: {said}")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "cublas",
            {"at_least": 0.9},
            "at_least of matmul-cublas-vendor-17x33x65-float64 is a share of no other case's",
        ),
        ("cublas", {"at_most": {"registers": 64}}, "has registers, local_bytes, and it is a call, whose machine code"),
        ("serial", {"at_most": {"seconds": 1.0}}, "at_most limits what runs on the host, whose times are not judged"),
    ],
)
def test_a_limit_that_a_variant_cannot_have_is_a_mistake(name: str, change: dict[str, Any], message: str) -> None:
    (problem,) = problems(with_variant(name, **change))
    assert message in str(problem)


def test_limits_that_make_sense_are_a_contract() -> None:
    families = with_variant(
        at_least=lambda m, dtype: 0.9 if m > 1000 and dtype != "int32" else None,
        at_most={"registers": 64, "local_bytes": 0},
        threshold=0.03,
    )
    assert not problems(families)
    small, large = (
        find_case(families, f"matmul-tiled-8x8-{size}-float64").contract for size in ("17x33x65", "1024x1024x1024")
    )
    assert small == Contract(registers=64, local_bytes=0, threshold=0.03)
    assert large == Contract(reference=0.9, registers=64, local_bytes=0, threshold=0.03)
    assert large.tighter(Contract(reference=0.8, registers=40, seconds=1e-3)) == Contract(
        reference=0.9, registers=40, local_bytes=0, seconds=1e-3, threshold=0.03
    )
