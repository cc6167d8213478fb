"""Tests when the samples of a process are enough."""

from __future__ import annotations

import math

import numpy as np
import pytest

from warpwatch.timing.stopping import FEWEST, PRECISE, of_samples


def test_the_spread_is_that_of_the_logarithms() -> None:
    samples = [1e-3, 1.1e-3, 0.9e-3, 1.05e-3]
    rule, logs = of_samples(1, 100, samples), np.log(samples)
    assert rule.count == 4
    assert rule.mean == pytest.approx(logs.mean())
    assert math.sqrt(rule.squares / 3) == pytest.approx(logs.std(ddof=1))


@pytest.mark.parametrize(("scatter", "precise"), [(0.9, True), (1.2, False)])
def test_samples_are_precise_by_their_standard_error(scatter: float, precise: bool) -> None:
    step = scatter * PRECISE * math.sqrt(FEWEST - 1)  # of samples that alternate, the error is step / sqrt(count - 1)
    samples = [1e-3 * math.exp(step * (-1) ** i) for i in range(FEWEST)]
    assert of_samples(1, 100, samples).is_finished is precise
    assert not of_samples(1, 100, samples[:-1]).is_finished
