"""Tests that a write beside scratch memory is noticed though the results are right to the bit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from warpwatch.devices.runner import Loaded
from warpwatch.timing.checks import damage
from warpwatch.timing.inputs import InputSet


@pytest.mark.parametrize("overrun", [None, "wrote past the end of parts"])
def test_scratch_is_unharmed_where_nothing_was_written_beside_it(overrun: str | None) -> None:
    parts = SimpleNamespace(overrun=lambda: overrun)
    loaded = cast("Loaded", SimpleNamespace(case=SimpleNamespace(id="sum-parts"), own={"parts": parts}, inputs=()))
    said = damage(loaded, InputSet(seed=1, digests=(), rows=None))
    assert said == ([f"sum-parts {overrun}"] if overrun else [])
