"""Checkouts of their own for tests of `pytest bench` that compare."""

from __future__ import annotations

import pytest

from tests.checkout import Bench


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A checkout with a baseline. Tests that share it change neither."""
    made = Bench(tmp_path_factory.mktemp("recorded"))
    made.fill_baseline()
    return made
