"""Tests that a write beside scratch memory is noticed though the results are right to the bit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from warpwatch.devices.runner import Loaded
from warpwatch.timing.checks import wrote_nothing_else
from warpwatch.timing.inputs import InputSet


@pytest.mark.parametrize("overrun", ["", "wrote past the end of parts"])
def test_scratch_is_unharmed_where_nothing_was_written_beside_it(overrun: str) -> None:
    parts = SimpleNamespace(overrun=lambda: overrun)
    loaded = cast("Loaded", SimpleNamespace(own={"parts": parts}, results=()))
    given = InputSet(seed=1, digests=(7,), rows=None)
    assert wrote_nothing_else(loaded, [7], given) is not bool(overrun)
    assert not wrote_nothing_else(loaded, [8], given)
