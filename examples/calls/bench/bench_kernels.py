"""Is any kernel slower? Each listed benchmark shape, on a GPU."""

import pytest


@pytest.mark.cases("timed")
def bench_kernel(measure):
    measure()
