"""Tests matrix products of random sizes."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from warpwatch.testing import Build, Case, Check, DeviceInfo

SIZES = st.integers(128, 2048)


def is_product(build: Build) -> bool:
    """Tell whether a build is a matrix product on the device."""
    return build.family.name == "matmul" and not build.variant.has_no_block


# No shrinking: a failure names its shape, and each further try would cost a launch and a NumPy product.
# The fixtures hold no state, so that examples may share them.
@settings(
    max_examples=3,
    deadline=None,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=(HealthCheck.function_scoped_fixture, HealthCheck.too_slow),
)
@given(m=SIZES, n=SIZES, k=SIZES, seed=st.integers(0, 2**32 - 1))
@pytest.mark.builds("all", where=is_product)
def test_random_shape(check: Check, build: Build, device: DeviceInfo, m: int, n: int, k: int, seed: int) -> None:
    """Check the bound on random numbers at any m, n and k from 128 to 2048; smaller ones where the device is slow."""
    case = Case(build, (m, n, k))
    # Checked launches take some six times as long as those that the limit is for.
    while case.launch_cost > device.largest_launch_cost / 6:
        case = Case(build, tuple(1 + 3 * size // 4 for size in case.shape))
    check(case, seed=seed)
