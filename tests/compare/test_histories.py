"""Tests the replay of histories: planted steps are counted as found, and intervals are those of the textbook."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.project import EARLIER
from tools import histories
from tools.histories import Kernels, history, rate, recorded
from warpwatch.compare.history import Step
from warpwatch.runs.record import read_runs
from warpwatch.verdict.rule import Floats


def test_intervals() -> None:
    assert rate(0, 100) == "0 in 100 (0.0 to 3.7)"
    assert rate(3, 100) == "3 in 100 (0.6 to 8.8)"


@pytest.mark.slow
def test_a_planted_step_is_counted_as_found_and_another_one_as_false(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = Kernels.of(read_runs(EARLIER / "nvidia-h100-80gb-hbm3"))
    kernels = replace(kernels, names=sorted(kernels.names, key=lambda name: -kernels.recording.logs[name])[:60])
    counted = history(kernels, quiet, np.random.default_rng(1), step=0.02, share=0.2)
    assert (counted.planted, counted.soon, counted.later) == (12, 12, 12)
    assert (counted.kernels, counted.falls, counted.environment) == (0, 0, 0)

    def none_is_planted(step: Step, slower: set[str]) -> bool:
        return False

    monkeypatch.setattr(histories, "_is_planted", none_is_planted)
    counted = history(kernels, quiet, np.random.default_rng(1), step=0.02, share=0.2)
    assert (counted.soon, counted.kernels) == (0, 12)


def quiet(rng: np.random.Generator, kernels: Kernels, nights: int) -> Floats:
    return recorded(rng, kernels, nights) / 10
