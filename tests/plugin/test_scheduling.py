"""Tests which process of xdist runs what: units of tests, their order, and libraries, which one process loads."""

from __future__ import annotations

import re
from collections import OrderedDict
from types import SimpleNamespace
from typing import Any, cast

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from kernels import FAMILIES
from tests.project import PROJECT, ROOT
from tests.stranger import run_pytest
from warpwatch.catalogue.selection import builds, tested_cases, timed_cases
from warpwatch.plugin.benchmark import BenchPlugin
from warpwatch.plugin.cases import pytest_collection_modifyitems
from warpwatch.plugin.device import MODEL
from warpwatch.plugin.xdist.scheduling import UNITS_A_PART, TimedUnits, Units

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
    config.stash[MODEL] = "nvidia-h200"
    return config


def run_all(nodes: list[Node]) -> None:
    """Let processes run all tests, each one test after the other, as xdist does."""
    made = Units(config_with(), None, FAMILIES)
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
    for name in ("cublas", "conv2d-cudnn", r"attention\w*-(flash|cudnn)"):  # the last by PyTorch
        there = [node for node in nodes if any(re.search(rf"\b{name}-", test) for test in node.tests)]
        assert len(there) == 1, name
    assert min(len(node.tests) for node in nodes) > len(TESTS) / 5


def test_units_are_the_variants_of_a_file() -> None:
    made = Units(config_with(), None, FAMILIES)
    units = {test: made._split_scope(test) for test in TESTS}
    assert units[f"{FILES[0]}::test_edge[matmul-tiled-16x16-float32]"] == f"{FILES[0]}::matmul-tiled-"
    assert {unit for unit in units.values() if unit in TESTS} == set(TESTS[-2:])
    needs: Any = made.libraries.values()
    assert {library.name for libraries in needs for library in libraries} == {"cublas", "cudnn", "torch"}


@pytest.mark.parametrize(
    ("change", "scheduler"),
    [
        ("none", Units),
        ("another --dist", type(None)),
        ("no GPU", type(None)),
        ("times are taken", TimedUnits),
        ("no library", type(None)),
    ],
)
def test_tests_of_results_on_a_gpu_and_benchmarks_have_schedulers_of_their_own(change: str, scheduler: type) -> None:
    config = config_with(dist="loadfile" if change == "another --dist" else "load")
    config.stash[MODEL] = "" if change == "no GPU" else "nvidia-h200"
    families = tuple(family for family in FAMILIES if family.name == "hello" or change != "no library")
    run = SimpleNamespace(
        device=None, is_controller=change == "times are taken", comparison=SimpleNamespace(active=False)
    )
    run.project = SimpleNamespace(families=families)
    plugin = cast("BenchPlugin", SimpleNamespace(run=run))
    assert type(BenchPlugin.pytest_xdist_make_scheduler(plugin, config, None)) is scheduler


@pytest.mark.parametrize("enough", [True, False])
def test_units_are_shapes_where_there_are_enough_and_else_cases(enough: bool) -> None:
    cases = [case for case in timed_cases(FAMILIES) if case.family.name == "transpose" and not case.variant.on_host]
    shapes = {(case.dtype, case.shape) for case in cases}
    made = TimedUnits(config_with(), None, FAMILIES, None)
    made.numnodes = len(shapes) // UNITS_A_PART + (not enough)
    made.collection = [f"bench/bench_kernels.py::bench_kernel[{case.id}]" for case in cases]
    units = {
        (case.dtype, case.shape, made._split_scope(test)) for case, test in zip(cases, made.collection, strict=True)
    }
    assert len(units) == len({unit for _, _, unit in units}) == len(shapes if enough else cases)


def test_a_library_is_loaded_by_one_process_while_the_others_have_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    needs = {"a": {"blas"}, "b": {"blas"}, "c": set[str](), "d": {"blas", "dnn"}, "e": {"dnn"}, "f": {"blas"}}
    given: list[tuple[str, str]] = []

    def assign(made: Any, node: str) -> None:
        given.append((node, made.workqueue.popitem(last=False)[0]))

    monkeypatch.setattr(LoadScopeScheduling, "_assign_work_unit", assign)
    made = Units(config_with(), None, PROJECT.families)
    made.workqueue = OrderedDict((name, {f"test_one[x-{name}-1]": False}) for name in needs)
    made.libraries = {f"x-{name}-": cast("Any", libraries) for name, libraries in needs.items()}
    for node in ("one", "two", "two", "two", "one", "two"):
        made._assign_work_unit(node)
    assert given == [("one", "a"), ("two", "e"), ("two", "c"), ("two", "b"), ("one", "f"), ("two", "d")]


def test_units_of_a_benchmark_are_told_when_they_are_done() -> None:
    progress: list[tuple[int, int]] = []
    made = TimedUnits(config_with(), None, FAMILIES, lambda done, total: progress.append((done, total)))
    node = Node("gw0")
    names = [case.id for case in timed_cases(FAMILIES)][:2]
    made.numnodes = 1
    made.add_node(node)
    made.add_node_collection(node, [f"bench/bench_kernels.py::bench[{name}]" for name in names])
    made.schedule()
    for number in (0, 1):
        made.mark_test_complete(node, number)
    assert progress == [(1, 2), (2, 2)]


def test_what_compiles_comes_late_and_what_is_exclusive_last() -> None:
    items: list[Any] = [
        SimpleNamespace(mark=mark, get_closest_marker=lambda name, own=mark: True if name == own else None)
        for mark in ("exclusive", "compiles_for", "", "cases")
    ]
    pytest_collection_modifyitems(items)
    assert [item.mark for item in items] == ["", "cases", "compiles_for", "exclusive"]


def test_nothing_waits_for_exclusive_tests_that_are_left_out() -> None:
    ran = run_pytest(ROOT, "correctness/test_large.py", "-k", "past_two_to_the_31", "-rs", "--setup-show")
    assert "14 skipped" in ran.stdout
    assert "--large was not given: it needs a GPU with 19 GB" in ran.stdout
    assert "_warpwatch_machine_lock" not in ran.stdout
