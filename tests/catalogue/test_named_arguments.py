"""Tests that functions of a declaration are given what they ask for by name, and nothing else."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from warpwatch.catalogue.named_arguments import BadFunction, asked_for, call, takes

GIVEN = {"m": 2, "n": 3, "shape": (2, 3), "c": "own"}


def only_by_name(*, m: int, n: int = 7) -> tuple[int, int]:
    return m, n


class Callable_:  # noqa: N801
    """Something that is called like a function."""

    def __call__(self, n: int) -> int:
        return n


@pytest.mark.parametrize(
    ("function", "result"),
    [
        (lambda: "nothing", "nothing"),
        (lambda n, m: (m, n), (2, 3)),
        (lambda shape, c: (shape, c), ((2, 3), "own")),
        (lambda n, other=5: (n, other), (3, 5)),
        (lambda m=9: m, 2),
        (only_by_name, (2, 3)),
        (functools.partial(only_by_name, n=8), (2, 3)),
        (Callable_(), 3),
    ],
)
def test_what_is_asked_for_is_given_in_any_order(function: Callable[..., Any], result: object) -> None:
    assert call(function, GIVEN) == result


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda rows: rows, "it asks for 'rows'; it can be given m, n, shape, c"),
        (lambda rows, m, columns: rows, "it asks for 'columns', 'rows'; it can be given"),
        (lambda *sizes: sizes, "it takes *sizes, which has no name: name what it needs, as in `lambda m, n: m * n`"),
        (lambda m, **rest: m, "it takes **rest, which has no name"),
        (lambda m, /: m, "it takes m, which has no name"),
        (max, "does not say what it takes: wrap it in a lambda that names it"),
        (7, "does not say what it takes"),
    ],
)
def test_what_cannot_be_given_is_named(function: Any, said: str) -> None:
    with pytest.raises(BadFunction) as caught:
        call(function, GIVEN)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_error_within_a_function_is_its_own() -> None:
    with pytest.raises(ZeroDivisionError):
        call(lambda m: m // 0, GIVEN)
    with pytest.raises(TypeError, match="unsupported operand") as caught:
        call(lambda m: m + "a", GIVEN)
    assert not isinstance(caught.value, BadFunction)


def test_what_a_function_asks_for_is_known_beforehand() -> None:
    assert asked_for(lambda m, part=None: m) == (frozenset({"m"}), frozenset({"part"}))
    assert takes(lambda m, part=None: m, "part")
    assert not takes(lambda m: m, "part")
