"""Tests that a write beside scratch memory is noticed though the results are right to the bit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from warpwatch.devices.runner import Loaded
from warpwatch.timing.checks import are_right, state_of
from warpwatch.timing.inputs import Shared


@pytest.mark.parametrize("overrun", ["", "wrote past the end of parts"])
def test_results_that_are_known_are_right_where_scratch_is_unharmed(overrun: str) -> None:
    case = SimpleNamespace(family=SimpleNamespace(prints=None))
    parts = SimpleNamespace(overrun=lambda: overrun)
    loaded = cast("Loaded", SimpleNamespace(case=case, own={"parts": parts}, results=(), inputs=()))
    ((fingerprint, _),) = state_of([loaded])
    shared = Shared(key=(), copies=(), digests=(), rows=None)
    assert are_right([loaded], shared, [fingerprint]) is not bool(overrun)
