"""Options of this repository's own tests. ``[tool.warpwatch]`` in pyproject.toml names its kernels for the plugin."""

from __future__ import annotations

import operator
import random

import pytest

pytest_plugins = ("pytester",)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the choice of `make quick`."""
    text = "Leave out tests marked slow, and of the tests of every kernel all but one small exact one a variant."
    parser.addoption("--quick", action="store_true", help=text)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Draw the seed of the random tests before the header is printed, which names it."""
    config.addinivalue_line("markers", "slow: takes seconds, and `make quick` leaves it out")
    if _only_times(config):  # Hypothesis would be imported for the seed, and at the end for its summary
        config.pluginmanager.set_blocked("hypothesispytest")
    elif config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = str(random.SystemRandom().randrange(10**6))


def _only_times(config: pytest.Config) -> bool:
    """Tell whether only benchmarks are asked for, none of which is random."""
    paths = [(config.invocation_params.dir / argument.split("::")[0]).resolve() for argument in config.args]
    return all(path.is_relative_to(config.rootpath / "bench") for path in paths)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Name the seed of the random tests."""
    seed = config.getoption("hypothesis_seed", None)
    return [] if seed is None else [f"hypothesis seed: {seed} (repeat with --hypothesis-seed)"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose what `make quick` runs."""
    if not config.getoption("--quick"):
        return
    from warpwatch.testing import Case, parameter_of  # noqa: PLC0415  # after the device's process was started

    smallest: dict[tuple[str, str], tuple[float, pytest.Item]] = {}
    chosen = set()
    for item in items:
        case = parameter_of(item)
        if not item.path.is_relative_to(config.rootpath / "correctness"):
            chosen |= {item} if item.get_closest_marker("slow") is None else set()
        elif item.name.startswith("test_exact["):
            # What is declared wrong has a problem in place of its case.
            key = (case.family.name, case.variant.name) if isinstance(case, Case) else (item.name, "")
            cost = case.launch_cost if isinstance(case, Case) else 0.0
            smallest[key] = min(smallest.get(key, (cost, item)), (cost, item), key=operator.itemgetter(0))
    chosen |= {item for _, item in smallest.values()}
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]
