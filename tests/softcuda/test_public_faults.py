"""Faults that public repositories had are found at their lines, and their corrected twins are accused of nothing."""

from __future__ import annotations

import re

import pytest

from tests.softcuda.device import Device
from tests.softcuda.faults_of_others import PUBLIC_FAULTS, PublicFault


def answers(device: Device, fault: PublicFault, *, fixed: bool) -> list[bytes | str]:
    image = device.image(fault.path, {"FIXED": 1} if fixed else {})
    return device.left(image, fault.name, 4 * fault.ints, fault.threads, fault.blocks)


def findings(said: str, fault: PublicFault) -> list[tuple[str, frozenset[int]]]:
    """Return the kind of each finding of a launch, and the lines of its places."""
    place = re.compile(rf"^  tests/softcuda/public_faults/{fault.name}\.cu:(\d+): ", re.MULTILINE)
    parts = [part for part in said.split("\nsoftcuda: ")[1:] if place.search(part)]
    return [(part.partition(" in ")[0], frozenset(map(int, place.findall(part)))) for part in parts]


@pytest.mark.once
@pytest.mark.parametrize("fault", PUBLIC_FAULTS, ids=lambda fault: fault.name)
def test_a_fault_of_others_is_found_at_its_lines_in_every_order(checked: Device, fault: PublicFault) -> None:
    for said in answers(checked, fault, fixed=False):
        assert isinstance(said, str), "nothing"
        found = findings(said, fault)
        assert any(kind in fault.kinds and lines == fault.lines for kind, lines in found), said
        assert all(lines & fault.lines for _, lines in found), said


@pytest.mark.once
@pytest.mark.parametrize("fault", PUBLIC_FAULTS, ids=lambda fault: fault.name)
def test_its_corrected_twin_is_accused_of_nothing(checked: Device, fault: PublicFault) -> None:
    for left in answers(checked, fault, fixed=True):
        assert isinstance(left, bytes), left


def test_there_are_fifteen_of_ten_repositories() -> None:
    assert len(PUBLIC_FAULTS) >= 15
    assert len({fault.repository for fault in PUBLIC_FAULTS}) >= 10
    assert all(fault.lines for fault in PUBLIC_FAULTS)
