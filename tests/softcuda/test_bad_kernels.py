"""Every planted fault is found by the suite's own check on the software device, and no good kernel is accused."""

from __future__ import annotations

import json
import re
from typing import cast

import pytest

from kernels import FAMILIES
from tests.project import ROOT
from tests.softcuda.faults_of_others import PUBLIC_FAULTS
from tests.softcuda.find_faults import (
    BAD_KERNELS,
    RECORD,
    TOOLS,
    BadKernel,
    found,
    options_of_the_tools,
    table,
    together,
)
from tests.softcuda.renewed import RenewedDevice
from warpwatch.catalogue.cases import Build, Case
from warpwatch.catalogue.selection import builds
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.evaluate import plan
from warpwatch.devices.kernel import Kernel
from warpwatch.devices.mismatch import compare_all
from warpwatch.devices.worker import Worker, describe_device

LAUNCH_SECONDS = 1.0  # a kernel may run so long

SEEDS = (1, 2, 3)
# One of each kind of place and of message: `make test` runs these.
FAST = {
    "atomic_and_plain", "barrier_inside_if", "bounds_less_or_equal", "constant_past_the_end",
    "dynamic_shared_too_small",
    "edge_of_the_tile_not_filled", "endless", "grid_rounded_down", "histogram_without_atomics", "lanes_that_returned",
    "mask_without_own_lane", "null_pointer", "one_byte_before_the_start", "one_byte_past_the_end", "output_read_back",
    "shared_row_past_the_end", "stack_overrun", "stride_too_short", "sum_over_blocks_without_atomics",
    "unsigned_underflow", "vector_load_unaligned",
}  # fmt: skip
PARAMS = [pytest.param(bad, marks=[] if bad.name in FAST else pytest.mark.slow, id=bad.name) for bad in BAD_KERNELS]
GOOD = [b for b in builds(FAMILIES) if not b.variant.has_no_block and not b.variant.own_arch]


def in_order(worker: Worker, seed: int | None = None) -> Worker:
    """That worker with an order of threads and blocks, which keeps its process when a kernel breaks the device."""
    return cast(Worker, RenewedDevice(worker, seed))


@pytest.mark.once
@pytest.mark.parametrize("bad", PARAMS)
def test_a_planted_fault_is_found_and_named(software: Worker, bad: BadKernel) -> None:
    """With its place: file and line, thread and block; for a wrong result, the element and its owner."""
    said = found(bad, in_order(software))
    assert re.search(bad.wanted, said, re.DOTALL), f"{bad.what}\nsaid: {said or 'nothing'}"
    assert bad.case.id in said
    if "is wrong in" not in said:
        assert re.search(rf"tests/softcuda/bad_kernels/{bad.name}\.cu:\d+: ", said), said
        assert re.search(r"thread|block|depends on a value that nothing has set", said), said


@pytest.mark.once
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("bad", [bad for bad in BAD_KERNELS if "race" in bad.wanted], ids=lambda bad: bad.name)
def test_a_race_is_found_in_every_order(software: Worker, bad: BadKernel, seed: int) -> None:
    assert re.search(bad.wanted, found(bad, in_order(software, seed)), re.DOTALL)


@pytest.mark.once
@pytest.mark.parametrize("good", GOOD, ids=lambda build: build.id)
def test_a_good_kernel_is_accused_of_nothing_in_any_order(software: Worker, good: Build) -> None:
    shape = good.family.tests[1]
    case = Case(good, shape)
    device = software.call(describe_device)
    if case.launch.shared_bytes > device.limits.shared_bytes:
        shape = good.family.tests[0]
    draw = plan(case, seed=3, exact=True, further=False).draws[0]
    image = compile_build(good, device.target)
    for seed in SEEDS:
        outcome = Kernel(in_order(software, seed), good, image).run(shape, draw.inputs)
        assert outcome.damage == ()
        assert not compare_all(outcome.results, draw.right)


def test_every_class_of_fault_is_planted_several_times() -> None:
    assert len(BAD_KERNELS) >= 30
    assert {bad.name for bad in BAD_KERNELS} >= FAST
    for kind in ("out of bounds", "misaligned", "race", "barrier error", "uninitialised", "endless", "is wrong"):
        assert sum(kind in kernel.wanted for kernel in BAD_KERNELS) >= 2, kind


def test_the_published_table_is_that_of_the_record() -> None:
    assert set(json.loads(RECORD.read_text())["found"]) == {kernel.name for kernel in BAD_KERNELS}
    assert table(RECORD) in (ROOT / "softcuda" / "README.md").read_text()


def test_the_published_table_of_public_faults_is_that_of_the_record() -> None:
    rows = json.loads(RECORD.read_text())["public"]
    assert set(rows) == {fault.name for fault in PUBLIC_FAULTS}
    assert table(RECORD, "public") in (ROOT / "docs" / "softcuda.md").read_text()
    single = ", ".join(f"{tool} {together(rows, [tool]) or 'none'}" for tool in ("racecheck", "initcheck", "memcheck"))
    page = " ".join((ROOT / "softcuda" / "README.md").read_text().split())
    assert f"result finds {together(rows, ['comparison'])} of them and the four tools" in page
    assert f"find {together(rows, TOOLS)}: {single}, synccheck {together(rows, ['synccheck']) or 'none'};" in page
    assert f"with the comparison {together(rows, ['comparison', *TOOLS])} (" in page


def test_the_page_for_work_without_a_gpu_has_the_figures_of_the_record() -> None:
    rows = json.loads(RECORD.read_text())["found"]
    single = [together(rows, [tool]) for tool in TOOLS]
    page = " ".join((ROOT / "docs" / "no-gpu.md").read_text().split())
    assert f"Of {len(rows)} kernels with a planted fault it finds {together(rows, ['softcuda'])}." in page
    assert f"comparing results finds {together(rows, ['comparison'])} of them" in page
    assert f"find between {min(single)} and {max(single)} each: {together(rows, TOOLS)} together" in page
    assert f"and {together(rows, ['comparison', *TOOLS])} together with the comparison" in page


def test_a_tool_is_given_the_options_that_its_release_has() -> None:
    older = "Initcheck-specific options:\n  --track-unused-memory     Check for unused memory.\n"
    newer = older + "  --initcheck-address-space arg (=global)\n                Select the address space.\n"
    assert options_of_the_tools(older) == {}
    assert options_of_the_tools(newer) == {"initcheck": ("--initcheck-address-space", "all")}
