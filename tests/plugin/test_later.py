"""Tests which cases the worker process is told of beforehand, so that it prepares them while another is measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.checkout import Bench, lent_checkout

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


def ahead(names: Sequence[str], wanted: bool) -> list[tuple[str, bool]]:
    """Return what is announced before each of these cases but the first: it, and the one after it."""
    return [(",".join(names[i : i + 2]), wanted) for i in range(len(names))]


@pytest.mark.slow
def test_the_next_shapes_are_announced_at_each_case(checkout: Bench, told: Path) -> None:
    chosen = "copy-naive-256 and float32 or copy-serial and 16777216-float32"
    done = checkout.bench("-k", chosen, few=False, announced=str(told))
    assert done.returncode == 0, done.stdout + done.stderr
    # The serial variant comes first in its shape, and leaves what was made for it to the kernels.
    assert lines(told) == ahead(["copy-serial-host-16777216-float32", *NAIVE[2:]], wanted=True)


@pytest.mark.slow
def test_against_a_revision_only_what_is_measured_is_announced(checkout: Bench, told: Path) -> None:
    """The first process measures those whose code differs, and their results are compared with NumPy there alone.

    The second one takes them in the reversed order, after the control, which was the last of the first one.
    """
    done = checkout.bench("--against", "HEAD", few=False, changed=["copy-naive-256-float32"], announced=str(told))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 same, 43 identical" in done.stdout
    assert lines(told)[:3] == ahead(NAIVE[1:], wanted=True)
    first = [names.split(",")[0] for names, _ in lines(told)]
    assert first[3] in NAIVE[-2:]  # the control, which the commit's hash chooses, may have the inputs of the last
    assert first[4:10] == [*reversed(NAIVE[:-1]), *NAIVE[1:]]
    assert {wanted for _, wanted in lines(told)[3:]} == {False}


@pytest.mark.slow
def test_a_process_of_xdist_announces_its_next_case(checkout: Bench, told: Path) -> None:
    """One process measures all: long cases first, and each is announced by the one before it."""
    chosen = ("-k", "copy-naive-256 and float32", "-n", "1")
    done = checkout.bench(*chosen, few=False, announced=str(told))
    assert done.returncode == 0, done.stdout + done.stderr
    assert lines(told) == [(name, True) for name in reversed(NAIVE[:-1])]
