"""Options of this repository's own tests. ``[tool.warpwatch]`` in pyproject.toml names its kernels for the plugin."""

from __future__ import annotations

import argparse
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from warpwatch.testing import Build

pytest_plugins = ("pytester",)

Kind = tuple[str, ...]
REPEATED: Kind = ("repeated",)  # of a test that others of `make test` repeat
HALVES = ("float16", "bfloat16")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part",
        type=_part,
        metavar="K/N",
        help="of slow tests, those of each N-th file alone, from the K-th one on, files with most of them first: all "
        "N parts together are everything",
    )


def _part(text: str) -> tuple[int, int]:
    """Return K and N of ``K/N``."""
    k, slash, n = text.partition("/")
    if not (slash and k.isdecimal() and n.isdecimal() and 1 <= int(k) <= int(n)):
        raise argparse.ArgumentTypeError(f"{text} is not K/N, such as 1/3: the first of three parts")
    return int(k), int(n)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Draw the seed of the random tests before the header is printed, which names it."""
    if _only_times(config):  # Hypothesis would be imported for the seed, and at the end for its summary
        config.pluginmanager.set_blocked("hypothesispytest")
    elif config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = str(random.SystemRandom().randrange(10**6))


def _only_times(config: pytest.Config) -> bool:
    """Tell whether only benchmarks are asked for, none of which is random."""
    paths = [(config.invocation_params.dir / argument.split("::")[0]).resolve() for argument in config.args]
    return all(path.is_relative_to(config.rootpath / "bench") for path in paths)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Name the seed of the random tests, and which slow tests are left out."""
    seed, part = config.getoption("hypothesis_seed", None), config.getoption("part")
    lines = [] if seed is None else [f"hypothesis seed: {seed} (repeat with --hypothesis-seed)"]
    return lines if part is None else [*lines, f"slow tests: part {part[0]} of {part[1]} (others with --part=K/N)"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark slow tests, and leave out those that belong to other parts."""
    _mark_slow(items)
    if part := config.getoption("part"):
        k, n = part
        slow = [item for item in items if item.get_closest_marker("slow")]
        most_first = sorted(Counter(item.path for item in slow).items(), key=lambda file: (-file[1], file[0]))
        files = {path for path, _ in most_first[k - 1 :: n]}
        left_out = {item for item in slow if item.path not in files}
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=[*left_out])


def _mark_slow(items: list[pytest.Item]) -> None:
    """Mark as slow what repeats another test: `make test` runs each kind once, and `make test-all` everything."""
    from warpwatch.testing import Case, least_builds, parameter_of  # noqa: PLC0415  # the device's process has started

    families = dict.fromkeys(build.family for item in items if (build := _build(item)))
    least: set[Build | None] = {*least_builds(families)}

    def order(item: pytest.Item) -> tuple[bool, float]:
        case = parameter_of(item)
        return _build(item) not in least, case.launch_cost if isinstance(case, Case) else 0.0

    kinds = [(item, _kinds_of(item, least)) for item in sorted(items, key=order)]
    seen: set[Kind] = {REPEATED}
    kept: set[pytest.Item] = set()
    built: set[Build | None] = set()
    # Those first that bring both a block size and an element type, and then builds that are tested anyhow.
    for news, are_known in ((2, False), (1, True), (1, False)):
        for item, shown in kinds:
            build = _build(item)
            if len(shown - seen) >= news and (not are_known or build in built):
                seen |= shown
                kept.add(item)
                built.add(build)
    for item, shown in kinds:
        if shown and item not in kept:
            item.add_marker(pytest.mark.slow)


def _build(item: pytest.Item) -> Build | None:
    from warpwatch.testing import Build, Case, parameter_of  # noqa: PLC0415

    value = parameter_of(item)
    build = value.build if isinstance(value, Case) else value
    return build if isinstance(build, Build) else None


def _kinds_of(item: pytest.Item, least: set[Build | None]) -> set[Kind]:
    """Return what a test is the first to show, or nothing if it is never left out.

    Each kernel is tested once with each block size, each element type and its longest axis, and compiled once for a
    GPU; of the types of 16 bits, which take the same way, with one. On edges and corners it is tested in its least
    build alone.
    """
    test, file = item.nodeid.partition("[")[0], item.path.stem
    if not item.path.is_relative_to(item.config.rootpath / "correctness"):
        return {(test,)} if item.get_closest_marker("once") else set()
    build, is_edge = _build(item), test.endswith("::test_edge")
    if build is None or file == "test_large" or (build in least and (is_edge or file == "test_corners")):
        return set()
    kernel = (file if file == "test_compile" else test, build.family.name, build.variant.name)
    if file != "test_kernels":
        return {REPEATED} if is_edge else {kernel}
    types: set[Kind] = {(*kernel, "half" if build.dtype in HALVES else build.dtype)}
    return types if test.endswith("::test_random") else {*types, (*kernel, build.block_name), *_longest(item, kernel)}


def _longest(item: pytest.Item, kernel: Kind) -> set[Kind]:
    """Return the kind of a case whose shape has the longest axis of its family's: there every thread has work."""
    from warpwatch.testing import Case, parameter_of  # noqa: PLC0415

    case = parameter_of(item)
    assert isinstance(case, Case)
    return {(*kernel, "longest")} if max(case.shape) == max(map(max, case.family.tests)) else set()
