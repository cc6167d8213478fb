"""Foretells how many cases more runs in a baseline would leave unsure."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from warpwatch.verdict.rule import MAX_FLOOR, Effect, Prior, learned_floors, moderated

DRAWS = 40  # of each case: the number of unsure ones among 872 is then known to 2


def expected_unsure(effects: Collection[Effect], prior: Prior, runs: int, processes: int) -> float:
    """Return how many of these cases would be unsure if none had changed, by simulation.

    ``runs``: in the baseline. ``processes``: of the run that is compared with it. The true variance of a case is drawn
    from what its own spread and the prior say of it (a scaled inverse chi-squared distribution); medians are drawn
    with that variance, and judged as ``rule.decide`` does.
    """
    from scipy import special  # noqa: PLC0415  # half a second that listing cases need not wait

    rng = np.random.default_rng(0)
    medians = np.tile([e.before for e in effects], DRAWS)
    spread, df = moderated(medians, prior, [(e.variance, e.df) for e in effects] * DRAWS)
    deviations = np.sqrt(spread * df / rng.chisquare(df))[:, None]
    old, new = (rng.standard_normal((len(medians), count)) * deviations for count in (runs, processes))
    squares_old, squares_new = (((side - side.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) for side in (old, new))
    pooled = (squares_old + squares_new) / max(1, runs + processes - 2)
    variance, freedom = moderated(medians, prior, [(each, runs + processes - 2) for each in pooled])
    own, _ = moderated(medians, prior, [(each, runs - 1) for each in squares_old / max(1, runs - 1)])
    floors = learned_floors(medians, np.minimum(own, 1.0))  # beyond MAX_FLOOR by far; the largest drawn overflow
    half = special.stdtrit(freedom, 0.975) * np.sqrt(variance * (1 / runs + 1 / processes))
    change = np.abs(new.mean(axis=1) - old.mean(axis=1))
    same = (change + half < np.log1p(floors)) & (floors < MAX_FLOOR)
    return float(np.count_nonzero(~same)) / DRAWS
