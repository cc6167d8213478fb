"""Tests how material of two later shapes is made ahead: in which order, and what is waited for or dropped."""

from __future__ import annotations

import threading

import pytest

from tests.timing.test_prefetch import LARGE, OTHER, SMALL, Made, ahead_of
from warpwatch.catalogue.cases import Case
from warpwatch.devices import host_memory
from warpwatch.devices.host import Host
from warpwatch.timing.checks import Material, host_bytes
from warpwatch.timing.prefetch import Ahead


def test_two_shapes_are_made_ahead_in_their_order_and_no_third_one() -> None:
    made = Made()
    ahead = ahead_of(made)
    ahead.announce([LARGE, OTHER, SMALL], reference=True)
    ahead.begin(Host())
    assert len(ahead._jobs) == 2
    ahead.take(LARGE, reference=True)
    ahead.begin(Host())
    for case in (OTHER, SMALL):
        ahead.take(case, reference=True)
    assert made.calls == [(case.id, True, True) for case in (LARGE, OTHER, SMALL)]


def test_a_shape_is_not_waited_for_longer_than_itself_takes() -> None:
    made, go = Made(), threading.Event()

    def slowly(case: Case, reference: bool) -> Material:
        if case is OTHER:
            assert go.wait(10)
        return made(case, reference)

    ahead = Ahead(make=slowly, families={"transpose", "matvec"})
    ahead.announce([LARGE, OTHER], reference=True)
    ahead.begin(Host())
    ahead.make_room(LARGE, True, needed=1)
    ahead.take(LARGE, reference=True)
    assert made.calls == [(LARGE.id, True, True)]
    go.set()


def held_back(made: Made) -> tuple[Ahead, threading.Event]:
    """Something that makes ahead, two shapes announced, and waits with the first until the event."""
    go = threading.Event()

    def make(case: Case, reference: bool) -> Material:
        assert go.wait(10)
        return made(case, reference)

    ahead = Ahead(make=make, families={"transpose", "matvec"})
    ahead.announce([LARGE, OTHER], reference=True)
    ahead.begin(Host())
    return ahead, go


def test_who_waits_does_so_for_what_has_begun_and_the_rest_begins_again() -> None:
    made = Made()
    ahead, go = held_back(made)
    threading.Timer(0.1, go.set).start()
    ahead.wait()
    assert made.calls == [(LARGE.id, True, True)]
    ahead.begin(Host())
    ahead.take(OTHER, reference=True)
    assert made.calls == [(LARGE.id, True, True), (OTHER.id, True, True)]


def test_what_is_dropped_for_want_of_memory_is_not_made_first(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made()
    ahead, go = held_back(made)
    monkeypatch.setattr(host_memory, "available", lambda: 0)
    threading.Timer(0.1, go.set).start()
    ahead.make_room(SMALL, True, needed=1)
    assert made.calls == [(LARGE.id, True, True)]
    assert ahead._jobs == {}


def test_a_case_that_takes_nothing_leaves_nothing() -> None:
    made = Made()
    ahead = ahead_of(made)
    ahead.announce([LARGE], reference=True)
    ahead.begin(Host())
    ahead.forget(LARGE, reference=True)
    ahead.begin(Host())
    assert ahead._jobs == {}
    assert len(made.calls) <= 1


def test_what_cannot_be_made_is_not_held_until_its_turn() -> None:
    made = Made(MemoryError())
    ahead = ahead_of(made)
    ahead.announce([LARGE], reference=True)
    ahead.begin(Host())
    ahead.wait()
    ahead.begin(Host())
    assert ahead._jobs == {}
    assert len(made.calls) == 1


@pytest.mark.parametrize(("beside", "kept"), [(1, True), (0, False)])
def test_a_later_shape_gives_way_where_the_case_needs_the_memory(
    beside: int, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory for this case, and for what is still being made, or for this case alone."""
    made, go = Made(), threading.Event()

    def slowly(case: Case, reference: bool) -> Material:
        assert go.wait(10)
        return made(case, reference)

    ahead = Ahead(make=slowly, families={"transpose", "matvec"})
    ahead.announce([LARGE], reference=True)
    ahead.begin(Host())
    free = 1000 + beside * host_bytes(Host(), LARGE)
    monkeypatch.setattr(host_memory, "available", lambda: free)
    threading.Timer(0.1, go.set).start()
    ahead.make_room(OTHER, True, needed=1000)
    ahead.take(LARGE, reference=True)
    assert len(made.calls) == (1 if kept else 2)
