"""Every kernel on sparse arrays of more than 2^31 elements, on the software device: only the last blocks run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernels import FAMILIES
from kernels.catalogue import Case, Shape, find_case
from kernels.compiler import ROOT, compile_build, compile_file
from kernels.device import Settings
from kernels.machine import DeviceError
from kernels.selection import builds
from kernels.worker import Worker, describe_device
from tests import past_32_bits

LONG = 65_075_263  # 33 rows or columns of it are more than 2^31 elements
SHAPES: dict[str, tuple[Shape, ...]] = {
    "matmul": ((LONG, 33, 33), (33, 33, LONG)),
    "matvec": ((LONG, 33), (33, LONG)),
    "transpose": ((LONG, 33), (33, LONG)),
    "conv2d": ((LONG, 33, 3), (33, LONG, 3)),
    "separable": ((LONG, 33, 3), (33, LONG, 3)),
}
SLOW = {("matvec", SHAPES["matvec"][1])}  # sums of 65 million: the loop is the whole array


def cases() -> list[Case]:
    """One block of every variant in float32, or where it has none in float64, on every shape of its family."""
    found = [b for b in builds(FAMILIES) if not b.variant.has_no_block and b.dtype in ("float32", "float64")]
    found.sort(key=lambda build: build.dtype == "float32")  # the last of a name stays
    first = {(b.family.name, b.variant.name): b for b in found}
    return [
        Case(build, shape)
        for (family, _), build in sorted(first.items())
        for shape in SHAPES.get(family, ())
        if (family, shape) not in SLOW
    ]


@pytest.fixture(scope="module")
def software() -> Iterator[Worker]:
    worker = Worker(Settings("software", launch_timeout=30.0))
    yield worker
    worker.stop()


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.id)
def test_no_index_overflows(software: Worker, case: Case) -> None:
    """The end of the result is right, and nothing that the last blocks wrote near it is wrong."""
    image = compile_build(case.build, software.call(describe_device).target)
    last, right, wrong = software.call(past_32_bits.run_the_end, case.id, image.path)
    assert last
    assert right > 0
    assert wrong == 0


MUTANTS = [
    ("matmul-naive-16x16-65075263x33x33-float32", "a[size_t(row) * n + i]", "a[row * n + i]"),
    ("matmul-naive-16x16-65075263x33x33-float32", "c[size_t(row) * k + col]", "c[row * k + col]"),
    ("matmul-naive-16x16-33x33x65075263-float32", "b[size_t(i) * k + col]", "b[i * k + col]"),
    ("matvec-naive-256-65075263x33-float32", "a[size_t(row) * n + col]", "a[row * n + col]"),
    ("transpose-naive-16x16-65075263x33-float32", "b[size_t(col) * m + row]", "b[col * m + row]"),
    ("transpose-naive-16x16-65075263x33-float32", "a[size_t(row) * n + col]", "a[row * n + col]"),
]


@pytest.mark.parametrize(("case_id", "right", "wrong"), MUTANTS)
def test_an_index_of_32_bits_is_found(tmp_path: Path, case_id: str, right: str, wrong: str) -> None:
    case = find_case(FAMILIES, case_id)
    text = (ROOT / "kernels" / case.family.name / f"{case.variant.name}.cu").read_text()
    assert right in text
    source = tmp_path / "kernel.cu"
    source.write_text(text.replace(right, wrong))
    worker = Worker(Settings("software", launch_timeout=30.0))
    try:
        image = compile_file(source, case.build.macros, worker.call(describe_device).target)
        with pytest.raises(DeviceError) as caught:
            worker.call(past_32_bits.run_the_end, case.id, image.path)
    finally:
        worker.stop()
    line = text[: text.index(right)].count("\n") + 1
    assert re.search(
        rf"softcuda: signed overflow in \w+\n  \S*kernel\.cu:{line}: .* computes \d+ [*+] ", str(caught.value)
    )
