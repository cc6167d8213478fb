"""Is any kernel slower?"""

from __future__ import annotations

import pytest

from warpwatch.plugin.fixtures import Measure


@pytest.mark.cases("timed")
def bench_kernel(measure: Measure) -> None:
    measure()
