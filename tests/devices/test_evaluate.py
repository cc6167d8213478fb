"""Tests of what is said of several launches, and that tests which show nothing are found."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwatch as ww
from kernels import FAMILIES
from tests.project import ROOT
from tests.stranger import run_pytest
from tests.written import compile_planted
from warpwatch.catalogue.cases import Build, Case, find_case
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.evaluate import Evaluation, evaluate, faults, nothing_shown, plan
from warpwatch.devices.host import Host
from warpwatch.devices.runner import Outcome

N = 40


def case(arrays: dict[str, Any], reference: Any, shape: int = N, **more: Any) -> Case:
    family = ww.Family(
        "own",
        sizes=("n",),
        arrays=lambda n: {name: make(n) for name, make in arrays.items()},
        reference=reference,
        tests=((1,), (N,)),
        variants=(ww.kernel("new", configurations=(32,), x=0, y=None),),
        **more,
    )
    (variant,) = family.variants
    return Case(Build(family, variant, variant.listed[0], "float32"), (shape,))


X, Y = {"x": lambda n: ww.In(n, "float32")}, {"y": lambda n: ww.InOut(n, "float32")}
SET: dict[str, Any] = {"y": lambda n: ww.Out(n, "float32", initial=0)}
UNSHOWN = {
    "initial": (case(X | SET, lambda x: 0 * x), "y equals its initial value 0 everywhere"),
    "identity": (case(Y, lambda y: np.maximum(y, 0) + np.minimum(y, 0)), "y equals its first value everywhere"),
    "drawn": (
        case(Y, lambda y: +np.abs(y), draw=lambda rng, n: {"y": rng.random(n, np.float32)}),
        "y equals its first value everywhere",
    ),
}
SHOWN = {
    "poison": case(X | {"y": lambda n: ww.Out(n, "float32")}, lambda x: 0 * x),
    "in part": case(X | SET, lambda x: np.where(np.arange(len(x)) < len(x) - 1, 0 * x, 1 + 0 * x)),
    "permutation": case(Y, lambda y: y[::-1], shape=1),  # one element is where it was; forty are not
    "large inputs": case(X | SET, lambda x: 1e-4 * x.astype(np.float64), tolerance=ww.relative(0.1, absolute=1e-3)),
    "other inputs": case(Y, lambda y: np.clip(y, -1, 1)),
    "another result": case(X | SET | {"z": lambda n: ww.Out(n, "float32")}, lambda x: (0 * x, x)),
}


@pytest.mark.parametrize("name", UNSHOWN)
def test_a_test_that_a_kernel_which_writes_nothing_would_pass_shows_nothing(name: str) -> None:
    made, said = UNSHOWN[name]
    trial = plan(made, launches=1)
    assert nothing_shown(made, trial.draws) == f"nothing was shown: {said} in the reference; draw other inputs"
    untouched = trial.inputs[0].get("y", np.zeros(made.shape, np.float32))
    (fault,) = faults(trial, [Outcome(results={"y": untouched}, damage=())], "again")
    assert "nothing was shown" in fault


@pytest.mark.parametrize("name", SHOWN)
def test_a_test_that_shows_something_is_not_accused(name: str) -> None:
    made = SHOWN[name]
    assert nothing_shown(made, plan(made, launches=1).draws) == ""


def test_a_fault_names_launch_and_inputs() -> None:
    made = case(X | {"y": lambda n: ww.Out(n, "float32")}, lambda x: 2 * x)
    trial = plan(made, launches=3)
    right = [Outcome(results={"y": 2 * draw["x"]}, damage=(), draw=i) for i, draw in enumerate(trial.inputs)]
    assert faults(trial, right, "again") == []
    late = Outcome(results={"y": np.zeros(N, np.float32)}, damage=(), launch=2)
    (fault,) = faults(trial, [right[0], late], "again")
    assert "\n  launch    right in launch 1, wrong in launch 2 of 7\n  again     again" in fault
    negative = Outcome(results={"y": np.abs(2 * trial.inputs[2]["x"])}, damage=(), launch=5, draw=2)
    (fault,) = faults(trial, [*right[:2], negative], "again")
    assert "right in launches 1 to 4, wrong in launch 5 of 7\n  inputs    negative numbers alone; `low=`" in fault
    (fault,) = faults(trial, [Outcome(results={"y": 2 * trial.inputs[0]["x"]}, damage=("wrote 1",))], "again")
    assert fault == f"{made.id} wrote 1\n  launch    wrong in launch 1 of 7\n  again     again"


DECLARATION = """
import numpy as np
import warpwatch as ww

MANY = ww.Family(
    "many", sizes=("n",),
    arrays=lambda n: {"x": ww.In(n, "int8"), "y": ww.Out(n, "int8"), "z": ww.Out(n, "bool")},
    reference=lambda x: (x, np.ones(len(x), bool)),
    tests=((33,), (1000,)), benchmarks=((4096,),),
    variants=tuple(
        ww.kernel(name, configurations=((64,),), grid=lambda n: ww.blocks(n, 64), arguments="x y z n", source="many.cu",
                  entry="many", macros=lambda name=name: {name.upper(): 1})
        for name in ("right", "tenth", "seven", "true")
    ),
)
"""
SOURCE = """
__device__ int launches;
extern "C" __global__ void many(const signed char* x, signed char* y, bool* z, int n)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    bool writes = i < n;
#ifdef TENTH
    writes = writes && launches % 10 != 9;
#endif
#ifdef SEVEN
    writes = writes && x[i] != 127 && x[i] != -83; // both poison, by type and of fresh memory
#endif
    if (writes)
        y[i] = x[i];
#ifdef TRUE
    writes = false;
#endif
    if (writes)
        z[i] = true;
    __syncthreads();
    if (i == 0)
        atomicAdd(&launches, 1);
}
"""


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")
def test_what_only_a_later_launch_or_other_poison_shows_is_found(tmp_path: Path) -> None:
    package = tmp_path / "mine"
    package.mkdir()
    (tmp_path / "pyproject.toml").write_text('[tool.warpwatch]\nkernels = "mine"\n')
    (package / "__init__.py").write_text(DECLARATION)
    (package / "many.cu").write_text(SOURCE)
    test = "import pytest\n\n@pytest.mark.cases('tested')\ndef test_right(check):\n    check()\n"
    (tmp_path / "test_kernels.py").write_text(test)
    done = run_pytest(tmp_path, "-q", "--device=software", "test_kernels.py")
    assert "many-right" not in done.stdout, done.stdout
    assert "many-tenth-64-33-int8 is wrong in 33 of 33 elements of y" in done.stdout
    assert "right in launches 1 to 9, wrong in launch 10 of 31" in done.stdout
    assert "many-seven-64-1000-int8 is wrong in" in done.stdout
    assert "neither true nor false, expected True" in done.stdout
    assert done.stdout.count("FAILED") >= 4
    once = run_pytest(tmp_path, "-q", "--device=software", "--launches=8", "-k", "tenth and 33", "test_kernels.py")
    assert "1 passed" in once.stdout, once.stdout


LATE = "{ static int sums = 0; c_row[col] = sums++ < 63 ? 0 : 1; }"  # in the second launch of 7 x 9 sums
SERIAL = find_case(FAMILIES, "matmul-serial-host-7x5x9-float64")


def test_an_evaluation_says_what_was_launched_and_that_it_is_right() -> None:
    trial = plan(SERIAL, launches=3)
    tested = evaluate(Host(), trial, compile_build(SERIAL.build, None).path, "again")
    assert tested == Evaluation(faults=[], remark="", left_out="")
    assert len(trial.draws) > 1


def test_an_evaluation_describes_the_first_wrong_launch(tmp_path: Path) -> None:
    source = ROOT / "kernels/matmul/serial.cpp"
    image = compile_planted(tmp_path, source, "c_row[col] = 0;", LATE, SERIAL.build.all_macros)
    (fault,) = evaluate(Host(), plan(SERIAL, launches=3, further=False), image.path, "again").faults
    assert fault.startswith(f"{SERIAL.id} is wrong in ")
    assert "right in launch 1, wrong in launch 2 of 3" in fault
    assert fault.endswith("again     again")
