"""Options of this repository's own tests. ``warpwatch_kernels`` in pyproject.toml names its kernels for the plugin."""

from __future__ import annotations

import random

import pytest

pytest_plugins = ("pytester",)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Draw the seed of the random tests before the header is printed, which names it."""
    if config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = str(random.SystemRandom().randrange(10**6))


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Name the seed of the random tests."""
    return [f"hypothesis seed: {config.option.hypothesis_seed} (repeat with --hypothesis-seed)"]
