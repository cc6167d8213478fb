"""Checkouts of their own for tests of `pytest bench` that compare."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.checkout import Bench, lent_checkout


@pytest.fixture
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A checkout without a baseline."""
    with lent_checkout(tmp_path_factory) as made:
        yield made


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A checkout with a baseline. Tests that share it change neither."""
    made = Bench(tmp_path_factory.mktemp("recorded"))
    made.fill_baseline()
    return made
