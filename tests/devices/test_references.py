"""Tests that right results are computed once: of the cases of a shape, and of a slow reference in all runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwatch as ww
from tests.catalogue.changed import own_case, own_family
from warpwatch.catalogue.arrays import Array
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.draws import Draw, Kept
from warpwatch.devices import references
from warpwatch.devices.evaluate import plan

N = 40


def cases(reference: Callable[..., Any], **more: Any) -> tuple[Case, Case]:
    """Make a case, and one of another variant on the same shape."""
    family = own_family(
        lambda n: {"x": ww.In(n, "float32"), "y": ww.Out(n, "float32")}, reference=reference, tests=((N,),), **more
    )
    made = own_case(family, "float32")
    return made, replace(made, build=replace(made.build, variant=replace(made.variant, name="other")))


def counted(calls: list[int]) -> Callable[[Array], Array]:
    def reference(x: Array) -> Array:
        calls.append(1)
        return 2 * x

    return reference


@pytest.mark.parametrize("options", [{"exact": True}, {"further": False}, {}], ids=["exact", "usual", "further"])
def test_cases_of_a_shape_share_inputs_and_right_results(options: dict[str, bool]) -> None:
    calls: list[int] = []
    made, other = cases(counted(calls), exact=True)
    first = plan(made, **options)
    count = len(calls)
    again = plan(other, **options)
    assert count
    assert len(calls) == count
    for one, two in zip(first.draws, again.draws, strict=True):
        assert one.words == two.words
        assert np.array_equal(one.inputs["x"], two.inputs["x"])
        assert np.array_equal(one.right["y"].reference, two.right["y"].reference)


def test_another_shape_seed_kind_or_family_has_its_own() -> None:
    calls: list[int] = []
    made, _ = cases(counted(calls), exact=True)
    another, _ = cases(counted(calls), exact=True)
    shorter = replace(made, shape=(N - 1,))
    for case, options in [(made, {}), (made, {"seed": 1}), (made, {"exact": True}), (another, {}), (shorter, {})]:
        before = len(calls)
        plan(case, further=False, **options)  # type: ignore[arg-type]
        assert len(calls) > before, (case, options)


def test_what_is_kept_stays_as_it_was_where_a_declaration_writes_its_array_again() -> None:
    buffer = np.zeros(N, np.float32)

    def reference(x: Array) -> Array:
        buffer[:] = 2 * x
        return buffer

    made, other = cases(reference)
    right = plan(made, further=False).draws[0].right["y"].reference.copy()
    plan(made, seed=1, further=False)
    assert np.array_equal(plan(other, further=False).draws[0].right["y"].reference, right)


def test_the_draws_that_were_used_last_are_kept_as_far_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = cases(lambda x: 2 * x)
    draw, seeds, kept = plan(made, further=False).draws[0], list[int](), Kept()
    monkeypatch.setattr("warpwatch.catalogue.draws.KEPT_BYTES", 2 * draw.nbytes)

    def make(case: Case, seed: int) -> Draw:
        seeds.append(seed)
        return draw

    for seed in (0, 1, 0, 2, 0, 1):
        kept.get(make, made, seed)
    assert seeds == [0, 1, 2, 1]


# Digests of a function before it is called and after that, and whether its results are kept.
DIGESTS = {"followed": ("a", "a", True), "changed": ("a", "b", False), "not followed": ("", "", False)}


@pytest.mark.parametrize("digests", DIGESTS)
def test_a_slow_result_is_kept_where_its_function_is_what_it_was(
    digests: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after, is_kept = DIGESTS[digests]
    calls, begin, inputs = list[int](), 0, {"x": np.arange(N, dtype=np.float32)}
    made, _ = cases(counted(calls))
    monkeypatch.setenv("WARPWATCH_CACHE", str(tmp_path))
    monkeypatch.setattr(references, "digest_of_source", lambda *_, **__: after if len(calls) > begin else before)
    monkeypatch.setattr(references, "SLOW", -1.0)
    for _ in range(3):
        begin = len(calls)
        assert np.array_equal(references.computed(made, made.family.reference, inputs)["y"], 2 * inputs["x"])
    assert len(calls) == (1 if is_kept else 3)
    assert references.is_slow(made)
    begin = len(calls)
    references.computed(made, made.family.reference, {"x": inputs["x"] + 1})  # of which nothing is kept
    assert len(calls) == begin + 1


def test_a_reference_that_is_not_slow_is_followed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    followed: list[object] = []
    made, _ = cases(lambda x: 2 * x)
    monkeypatch.setenv("WARPWATCH_CACHE", str(tmp_path))

    def digest(function: object, *_: object, **__: object) -> str:
        followed.append(function)
        return "a"

    monkeypatch.setattr(references, "digest_of_source", digest)
    for seed in range(3):
        plan(made, seed=seed)
    assert followed == [made.family.reference]
    assert not references.is_slow(made)
