"""Times every kernel of this repository on the shapes that its family is timed on; the only benchmark."""

from __future__ import annotations

import pytest

from warpwatch.testing import Measure


@pytest.mark.cases("timed")
def bench_kernel(measure: Measure) -> None:
    """Check, time, and check again."""
    measure()
