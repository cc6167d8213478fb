"""Faults that public repositories had are found at their lines, and their corrected twins are accused of nothing."""

from __future__ import annotations

import re

import pytest

from tests.softcuda import calls
from tests.softcuda.faults_of_others import PUBLIC_FAULTS, PublicFault
from warpwatch.devices.compile.compiler import compile_file
from warpwatch.devices.worker import Worker, describe_device

ORDERS = (None, 1, 2)


def answers(worker: Worker, fault: PublicFault, *, fixed: bool) -> list[bytes | str]:
    image = compile_file(fault.path, {"FIXED": "1"} if fixed else {}, worker.call(describe_device).target)
    block, grid = (fault.threads, 1, 1), (fault.blocks, 1)
    return worker.call(calls.run_in_orders, ORDERS, image.path, fault.name, block, grid, 4 * fault.ints, 0)


def findings(said: str, fault: PublicFault) -> list[tuple[str, frozenset[int]]]:
    """Return the kind of each finding of a launch, and the lines of its places."""
    place = re.compile(rf"^  tests/softcuda/public_faults/{fault.name}\.cu:(\d+): ", re.MULTILINE)
    parts = [part for part in said.split("\nsoftcuda: ")[1:] if place.search(part)]
    return [(part.partition(" in ")[0], frozenset(map(int, place.findall(part)))) for part in parts]


@pytest.mark.once
@pytest.mark.parametrize("fault", PUBLIC_FAULTS, ids=lambda fault: fault.name)
def test_a_fault_of_others_is_found_at_its_lines_in_every_order(software: Worker, fault: PublicFault) -> None:
    for order, said in zip(ORDERS, answers(software, fault, fixed=False), strict=True):
        assert isinstance(said, str), f"order {order}: nothing"
        found = findings(said, fault)
        assert any(kind in fault.kinds and lines == fault.lines for kind, lines in found), f"order {order}: {said}"
        assert all(lines & fault.lines for _, lines in found), f"order {order}: {said}"


@pytest.mark.once
@pytest.mark.parametrize("fault", PUBLIC_FAULTS, ids=lambda fault: fault.name)
def test_its_corrected_twin_is_accused_of_nothing(software: Worker, fault: PublicFault) -> None:
    for order, left in zip(ORDERS, answers(software, fault, fixed=True), strict=True):
        assert isinstance(left, bytes), f"order {order}: {left}"


def test_there_are_fifteen_of_ten_repositories() -> None:
    assert len(PUBLIC_FAULTS) >= 15
    assert len({fault.repository for fault in PUBLIC_FAULTS}) >= 10
    assert all(fault.lines for fault in PUBLIC_FAULTS)
