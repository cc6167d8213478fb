"""Tests matrix products of random sizes."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kernels import FAMILIES
from warpwatch.catalogue.declaration import Build, Case
from warpwatch.catalogue.selection import builds
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.worker import Kernel
from warpwatch.plugin.verify import assert_right, chosen_options

SIZES = st.integers(128, 2048)


PRODUCTS = [build for build in builds(FAMILIES) if build.family.name == "matmul" and not build.variant.has_no_block]


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
@pytest.mark.builds(PRODUCTS)
def test_random_shape(
    kernel: Kernel, build: Build, device: DeviceInfo, pytestconfig: pytest.Config, m: int, n: int, k: int, seed: int
) -> None:
    """Check the bound on random numbers at any m, n and k from 128 to 2048; smaller ones where the device is slow."""
    case = Case(build, (m, n, k))
    # Checked launches take some six times as long as those that the limit is for.
    while case.launch_cost > device.largest_launch_cost / 6:
        case = Case(build, tuple(1 + 3 * size // 4 for size in case.shape))
    again = f"python -m warpwatch run {case.id} --seed {seed}{chosen_options(pytestconfig)}"
    assert_right(kernel, case, again, exact=False, seed=seed)
