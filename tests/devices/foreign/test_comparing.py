"""Tests that results of untrusted kernels are judged as others are, where the kernels cannot reach what is right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.project import PROJECT
from warpwatch.catalogue import declaration
from warpwatch.catalogue.arrays import ALL_ROWS
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.inputs import random_inputs
from warpwatch.catalogue.setting import Setting
from warpwatch.devices import references
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.foreign import comparing, shared_arrays
from warpwatch.devices.foreign.described import DescribedProject, load_described
from warpwatch.devices.kernel import Kernel
from warpwatch.devices.mismatch import RightElsewhere, WrongResult
from warpwatch.devices.opening import Settings
from warpwatch.devices.worker import Worker, describe_device
from warpwatch.timing import sampling
from warpwatch.timing.inputs import material

SETTINGS = Settings(kind="software", untrusted=True, run_seed=2**100 + 1)
DECLARED = """
import numpy as np
import warpwatch as ww

TWICE = ww.Family(
    "twice", sizes=("n",), dtypes=("float32",), arrays=lambda n: {"x": ww.In(n), "y": ww.Out(n)},
    reference=lambda x: 2.0 * x.astype(np.float64), tolerance=ww.ulp(1), tests=((1000,),), benchmarks=((1000,),),
    variants=tuple(ww.kernel(name, configurations=((256,),), x=0, y=None) for name in ("right", "late", "ends")),
)
"""
SOURCE = """
__device__ int launches;

extern "C" __global__ void twice_NAME(const float* x, float* y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n)
        return;
    y[i] = 2 * x[i];
    BESIDES
}
"""
BESIDES = {
    "right": "",
    "late": "if (i == n - 1) y[i] += 1e-3f;",
    "ends": "if (i == 0) { if (launches++) y[1 << 24] = 0; else y[i] += 1; }",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DescribedProject]:
    """Give a project of three kernels as data."""
    folder, known = tmp_path_factory.mktemp("project"), dict(declaration._families)
    (folder / "mine.py").write_text(DECLARED)
    for name, besides in BESIDES.items():
        (folder / f"{name}.cu").write_text(SOURCE.replace("NAME", name).replace("BESIDES", besides))
    project = load_described(Setting(root=folder, module="mine"))
    yield project
    project.stop()
    declaration._families.update(known)


@pytest.fixture(scope="module")
def worker(project: DescribedProject) -> Iterator[Worker]:
    """Give a process of the software device that has imported no declarations."""
    worker = Worker(project, SETTINGS)
    yield worker
    worker.stop()


def case_of(project: DescribedProject, name: str) -> Case:
    return find_case(project.families, f"twice-{name}-256-1000-float32")


@pytest.mark.parametrize(("name", "is_right"), [("right", True), ("late", False)])
def test_a_case_is_judged_after_launches_in_another_process(
    project: DescribedProject, worker: Worker, name: str, is_right: bool
) -> None:
    case, info = case_of(project, name), worker.call(describe_device)
    checked, timed = (compile_build(case.build, target) for target in (info.target, info.timing_target))
    faults = Kernel(worker, case.build, checked).evaluate(case, "again", launches=3).faults
    if is_right:
        assert not faults
        worker.call(sampling.prepare, case, timed.path, True, checked.path)
        assert worker.call(sampling.sample, "cold")[0] > 0
        worker.call(sampling.finish, "cold")
    else:
        assert "is wrong in 1 of 1,000 elements" in faults[0]
        with pytest.raises(WrongResult, match=r"is wrong in 1 of 1,000 elements(?s:.)*y\[999\]"):
            worker.call(sampling.prepare, case, timed.path, True, checked.path)


def test_a_launch_that_fails_later_does_not_hide_what_was_wrong(project: DescribedProject, worker: Worker) -> None:
    case, info = case_of(project, "ends"), worker.call(describe_device)
    kernel = Kernel(worker, case.build, compile_build(case.build, info.target))
    faults = kernel.evaluate(case, "again", launches=3).faults
    assert "is wrong in 1 of 1,000 elements" in faults[0]
    test_a_case_is_judged_after_launches_in_another_process(project, worker, "right", is_right=True)


def test_what_is_right_is_not_where_kernels_are_launched(project: DescribedProject) -> None:
    case = case_of(project, "right")
    end = comparing.begin(Setting(root=project.root, module=project.module), SETTINGS)
    try:
        right = material(case, reference=True).right
        assert isinstance(right, RightElsewhere)
        assert dict(right) == {"y": None}
        inputs = random_inputs(case, declaration.TIMED_SEED)
        exact = 2 * inputs["x"]
        assert right.compare({"y": exact}, None) == {}
        exact[3] += 1
        assert right.compare({"y": exact}, None)["y"].worst == (3,)
        assert right.nothing_shown() == ""
    finally:
        end()
        references.elsewhere.clear()


def test_inputs_stay_until_the_process_that_compares_has_forgotten_them(
    project: DescribedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_arrays, "LEAST_BYTES", 0)
    case, comparer, kept = case_of(project, "right"), comparing.Comparer(project, SETTINGS), list[object]()

    def address(value: float) -> int:
        kept.append(x := shared_arrays.empty((1000,), np.dtype("float32")))
        x[:] = value
        return int(x.ctypes.data)

    try:
        first = address(1.0)
        right = comparer.expected(case, {"x": kept.pop()}, ALL_ROWS, exact=False)  # type: ignore[dict-item]
        assert isinstance(right, RightElsewhere)
        assert right.compare({"y": np.full(1000, 2, np.float32)}, None) == {}
        del right
        assert address(3.0) != first
        comparer.call(comparing.forget, [])
        assert address(3.0) == first
    finally:
        comparer.stop()
        kept.clear()
        shared_arrays.free()


def test_the_seed_of_a_run_is_on_no_command_line(worker: Worker) -> None:
    worker.call(describe_device)
    assert worker.child
    command = Path(f"/proc/{worker.child.process.pid}/cmdline").read_bytes()
    assert b"software" in command
    assert str(SETTINGS.run_seed).encode() not in command


def test_a_run_draws_its_inputs_by_its_own_seed() -> None:
    case = find_case(PROJECT.families, "copy-naive-256-33-float32")
    usual = random_inputs(case, 0)["A"]
    try:
        drawn = []
        for run_seed in (1, 2, 1):
            declaration.draw_by(run_seed)
            drawn.append(random_inputs(case, 0)["A"])
    finally:
        declaration.draw_by(None)
    assert np.array_equal(drawn[0], drawn[2])
    assert not np.array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], usual)
    assert np.array_equal(random_inputs(case, 0)["A"], usual)
