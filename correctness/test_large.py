"""Tests arrays of more than 2^31 elements, which no 32-bit index reaches: whole on a GPU, else their last block."""

from __future__ import annotations

import pytest

from warpwatch.testing import (
    Build,
    Case,
    Check,
    DeviceInfo,
    Kernel,
    Project,
    Settings,
    Shape,
    Worker,
    beyond_32_bits,
    builds,
    compile_build,
    describe_device,
    problem_of_the_last_block,
    problems_of_large_arrays,
    spelled,
    value_of,
)

LIMIT = 2**31
SIDES = (46_349, 46_351)  # primes, whose product is just above it
SHAPES: tuple[tuple[str, str, Shape], ...] = (
    ("matmul", "float32", (*SIDES, 3)),
    ("matmul", "float32", (SIDES[0], 3, SIDES[1])),
    ("matmul", "float64", (*SIDES, 3)),
    ("matmul", "float64", (SIDES[0], 3, SIDES[1])),
    ("matmul_3xtf32", "float32", (*SIDES, 3)),
    ("matmul_3xtf32", "float32", (SIDES[0], 3, SIDES[1])),
    ("matmul_half", "float16", (*SIDES, 3)),
    ("matmul_half", "float16", (SIDES[0], 3, SIDES[1])),
    ("matvec", "float32", SIDES),
    ("transpose", "float32", SIDES),
    ("conv2d", "float32", (*SIDES, 3)),
    ("separable", "float32", (*SIDES, 3)),
    ("softmax", "float32", SIDES),
    ("layernorm", "float32", SIDES),
)


@pytest.fixture(scope="module")
def large(pytestconfig: pytest.Config) -> None:
    """Skip where it was not asked for: before a test waits to be exclusive, and lets all others of the run wait."""
    if not value_of(pytestconfig, "large"):
        option = spelled(pytestconfig, "large")
        pytest.skip(f"{option} was not given: it needs a GPU with 19 GB, a host with 76 GB, and two minutes")


@pytest.mark.exclusive
@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(("family", "dtype", "shape"), SHAPES, ids=lambda value: str(value).replace(", ", "x"))
def test_past_two_to_the_31(
    device: DeviceInfo, project: Project, family: str, dtype: str, shape: Shape, pytestconfig: pytest.Config
) -> None:
    """Check every variant on some rows of the result: the first and last ones, and those around element 2^31."""
    chosen = {b.variant: b for b in reversed(builds(project.families)) if b.family.name == family and b.dtype == dtype}
    cases = [Case(b, shape) for b in chosen.values() if not b.variant.has_no_block]
    problems = [f"{c.variant.name} {text}" for c in cases if (text := device.capability_problem(c.variant))]
    cases = [case for case in cases if not device.capability_problem(case.variant)]
    if not cases:
        pytest.skip("; ".join(problems))
    need = 1.1 * cases[0].array_bytes
    if device.memory_bytes < need:  # it was asked for, so that no skip may hide that it was not done
        has = f"{device.name} has {device.memory_bytes / 1e9:.0f}"
        pytest.fail(f"needs a GPU of {need / 1e9:.0f} GB; {has}: leave {spelled(pytestconfig, 'large')} out", False)
    images = [compile_build(case.build, device.target).path for case in cases]
    worker = Worker(project, Settings(kind=value_of(pytestconfig, "device"), ordinal=device.ordinal))
    try:
        found = worker.call(problems_of_large_arrays, cases, images, 1, LIMIT)
    finally:
        worker.stop()
    if found:
        pytest.fail("\n".join(found), pytrace=False)
    if problems:
        pytest.skip(f"all other variants passed; {'; '.join(problems)}")


@pytest.mark.builds("least", where=beyond_32_bits)
def test_the_last_block_past_two_to_the_32(kernel: Kernel, check: Check, build: Build) -> None:
    """Check the result on arrays of which memory holds only the corner that the last block accesses."""
    if not kernel.worker.call(describe_device).finds_faults:
        pytest.skip("only the software device runs a single block of a grid; on a GPU, --large tests whole arrays")
    for large, small in beyond_32_bits(build):
        again = f"again     {check.again}"
        found = kernel.worker.call(problem_of_the_last_block, large, small, kernel.image.path, again)
        if found:
            pytest.fail(found, pytrace=False)
