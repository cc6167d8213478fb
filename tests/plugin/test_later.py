"""Tests which cases the worker process is told of beforehand, so that it prepares them while another is measured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kernels import FAMILIES
from tests.checkout import Bench, lent_checkout
from warpwatch.catalogue.cases import find_case
from warpwatch.plugin import later
from warpwatch.plugin.cases import PARAMETER

SIZES = (1048576, 16777216, 67108864, 268435456)
NAIVE = [f"copy-naive-256-{size}-float32" for size in SIZES]


@pytest.fixture
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with lent_checkout(tmp_path_factory) as made:
        made.declare_two_families()
        made.commit()
        yield made


@pytest.fixture
def told(tmp_path: Path) -> Path:
    path = tmp_path / "announced"
    path.touch()
    return path


def lines(told: Path) -> list[tuple[str, bool]]:
    return [(name, wanted == "True") for name, wanted in map(str.split, told.read_text().splitlines())]


def test_the_next_shape_is_announced_at_each_case(checkout: Bench, told: Path) -> None:
    chosen = "copy-naive-256 and float32 or copy-serial and 16777216-float32"
    done = checkout.bench("-k", chosen, few=False, announced=str(told))
    assert done.returncode == 0, done.stdout + done.stderr
    assert lines(told) == [(name, True) for name in NAIVE[1:]]


def test_against_a_revision_only_what_is_measured_is_announced(checkout: Bench, told: Path) -> None:
    """The first process measures those whose code differs, and their results are compared with NumPy there alone."""
    done = checkout.bench("--against", "HEAD", few=False, changed=["copy-naive-256-float32"], announced=str(told))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 same, 40 identical" in done.stdout
    first, later = lines(told)[:3], lines(told)[3:]
    assert first == [(name, True) for name in NAIVE[1:]]
    assert later[:3] == [(name, False) for name in NAIVE[1:]]
    assert {wanted for _, wanted in later} == {False}


def test_processes_of_xdist_announce_what_they_measure_next(checkout: Bench, told: Path) -> None:
    done = checkout.bench("-k", "copy-naive-256 and float32", "-n", "2", few=False, gpus=2, announced=str(told))
    assert done.returncode == 0, done.stdout + done.stderr
    assert {name for name, _ in lines(told)} <= set(NAIVE)
    assert lines(told)


@pytest.mark.parametrize(
    ("first", "expected"),
    [(0, [1, 2]), (2, [2]), (3, [3]), (None, [])],
    ids=["serial", "kernel", "next_shape", "last"],
)
def test_a_process_of_xdist_runs_the_next_test_and_those_of_its_shape(first: int | None, expected: list[int]) -> None:
    """A serial variant comes first in its shape; the kernels after it need what is made ahead."""
    names = ["copy-serial-host-1048576-float32", NAIVE[0], "copy-vectorised-1024-1048576-float32", NAIVE[1]]
    config: Any = SimpleNamespace(stash=pytest.Stash(), workerinput={})
    session: Any = SimpleNamespace(items=[])
    for name in names:
        callspec = SimpleNamespace(params={PARAMETER: find_case(FAMILIES, name)})
        session.items.append(SimpleNamespace(callspec=callspec, config=config, session=session))
    config.stash[later.NEXT] = None if first is None else session.items[first]
    now = SimpleNamespace(config=config, session=session)
    found = [item.callspec.params[PARAMETER] for item in later._tests_after(cast("Any", now))]  # type: ignore[attr-defined]
    assert [case.id for case in found if not case.variant.on_host] == [names[number] for number in expected]
