"""Tests that a case whose time cannot be told is skipped, and says why."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kernels import FAMILIES
from warpwatch.catalogue.cases import find_case
from warpwatch.devices.machine import NoFigure
from warpwatch.plugin.fixtures import Measure
from warpwatch.timing.measurement import Budget


def test_a_case_without_a_figure_is_skipped_with_the_reason() -> None:
    def measure(*_: Any) -> None:
        raise NoFigure("copy: no figure: time a larger shape")

    comparison: Any = SimpleNamespace(measures=lambda *_: False, measure=measure)
    other: Any = SimpleNamespace(image=None)
    case, budget = find_case(FAMILIES, "copy-memcpy-vendor-33-float32"), Budget(seconds=1.0, rounds=1, warm_up=False)
    timed = Measure(benchmark=other, kernel=other, case=case, cold=True, budget=budget, comparison=comparison)
    with pytest.raises(pytest.skip.Exception, match="copy: no figure: time a larger shape"):
        timed()
