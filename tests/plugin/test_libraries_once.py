"""Tests that the tests of a vendor's library run in one process of xdist, where kernels run on a GPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kernels import FAMILIES
from tests.project import PROJECT
from warpwatch.catalogue.selection import builds, tested_cases
from warpwatch.plugin.device import MODEL
from warpwatch.plugin.device import PROJECT as PROJECT_KEY
from warpwatch.plugin.xdist import scheduling
from warpwatch.plugin.xdist.scheduling import (
    libraries_of_variants,
    pytest_xdist_make_scheduler,
    scheduler_of_results,
    unit_of,
)

FILES = ("correctness/test_edges.py", "correctness/test_kernels.py")
TESTS = [
    *(f"{FILES[0]}::test_edge[{build.id}]" for build in builds(FAMILIES)),
    *(f"{FILES[1]}::test_exact[{case.id}]" for case in tested_cases(FAMILIES)),
    "tests/test_other.py::test_one",
    "tests/test_other.py::test_two[3-x]",
]


class Node:
    """Plays a process of xdist, and keeps the tests that it is given."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.tests: list[str] = []
        self.shutting_down = False

    def send_runtest_some(self, numbers: list[int]) -> None:
        self.tests += [TESTS[number] for number in numbers]

    def shutdown(self) -> None:
        self.shutting_down = True


def config_with(**options: object) -> Any:
    given = {"dist": "load", "tx": ["popen"] * 3, "loadscopereorder": True, "maxfail": 0} | options
    option = SimpleNamespace(**given)
    config = SimpleNamespace(option=option, stash=pytest.Stash(), getvalue=lambda name: getattr(option, name))
    config.getoption = lambda name, default=None: getattr(option, name, default)
    config.stash[PROJECT_KEY], config.stash[MODEL] = PROJECT, "nvidia-h200"
    return config


def run_all(nodes: list[Node]) -> None:
    """Let processes run all tests, each one test after the other, as xdist does."""
    made = scheduler_of_results(config_with(), None, FAMILIES)
    for node in nodes:
        made.add_node(node)
        made.add_node_collection(node, TESTS)
    made.schedule()
    done = dict.fromkeys(nodes, 0)
    while not made.tests_finished:
        for node in nodes:
            if done[node] < len(node.tests):
                made.mark_test_complete(node, TESTS.index(node.tests[done[node]]))
                done[node] += 1


def test_every_test_runs_once_and_those_of_a_library_in_one_process() -> None:
    nodes = [Node(name) for name in ("gw0", "gw1", "gw2")]
    run_all(nodes)
    assert sorted(test for node in nodes for test in node.tests) == sorted(TESTS)
    for name in ("cublas", "cudnn"):
        there = [node for node in nodes if any(f"-{name}-" in test for test in node.tests)]
        assert len(there) == 1, name
    assert min(len(node.tests) for node in nodes) > len(TESTS) / 5


def test_units_are_the_variants_of_a_file() -> None:
    libraries = libraries_of_variants(FAMILIES)
    units = {test: unit_of(test, libraries) for test in TESTS}
    assert units[f"{FILES[0]}::test_edge[matmul-tiled-16x16-float32]"] == f"{FILES[0]}::matmul-tiled-"
    assert {unit for unit in units.values() if unit in TESTS} == set(TESTS[-2:])
    titles = {each.title for needs in libraries.values() for each in needs}  # type: ignore[attr-defined]
    assert titles == {"cuBLAS", "cuDNN"}


def test_where_nothing_calls_a_library_xdist_chooses() -> None:
    plain = tuple(family for family in FAMILIES if family.name == "hello")
    assert scheduler_of_results(config_with(), None, plain) is None


@pytest.mark.parametrize(
    ("change", "ours"),
    [("none", True), ("another --dist", False), ("no GPU", False), ("times are taken", False), ("no kernels", False)],
)
def test_it_is_for_tests_on_a_gpu(change: str, ours: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_with(dist="loadfile" if change == "another --dist" else "load")
    monkeypatch.setattr(scheduling, "names_benchmark", lambda config, root: change == "times are taken")
    monkeypatch.setattr(scheduling, "open_device", lambda config: SimpleNamespace(has_gpu_clock=False))
    if change == "no GPU":
        config.stash[MODEL] = ""
    if change == "no kernels":
        del config.stash[PROJECT_KEY]
    assert (pytest_xdist_make_scheduler(cast("Any", config), None) is not None) == ours
