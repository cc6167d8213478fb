"""Tests of the digest of a function: it changes with all that the function reaches, and with nothing else."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warpwatch as ww
from warpwatch.catalogue.function_digest import digest

HELPER = """
import functools
import numpy as np
import math
FACTOR = {factor}
TABLE = np.arange({length})
{line}
def inner(x):
    return x * FACTOR + {added}
def reference(x, n):
    return [inner(each) + TABLE[0] for each in x]
"""


def made(source: str = HELPER, **values: Any) -> Callable[..., Any]:
    """Return the function ``reference`` of a module with this source."""
    given = {"factor": 2, "length": 4, "added": 1, "line": ""} | values
    names: dict[str, Any] = {"__name__": "project.kernels"}
    exec(source.format(**given), names)
    return names["reference"]  # type: ignore[no-any-return]


def test_the_same_source_has_the_same_digest_wherever_its_lines_are() -> None:
    assert digest(made()) == digest(made(line="\n# a comment\n\n")) is not None


@pytest.mark.parametrize("change", [{"factor": 3}, {"factor": 2.0}, {"length": 5}, {"added": 2}])
def test_a_changed_helper_or_constant_changes_the_digest(change: dict[str, Any]) -> None:
    assert digest(made(**change)) != digest(made())


def test_defaults_closures_and_nested_functions_count() -> None:
    def scaled(factor: int, default: int = 1) -> Callable[..., Any]:
        def reference(x: int, more: int = default) -> list[int]:
            return [each * factor + more for each in [x]]

        return reference

    assert digest(scaled(2)) == digest(scaled(2)) is not None
    assert len({digest(scaled(2)), digest(scaled(3)), digest(scaled(2, default=4))}) == 3


def test_of_a_module_of_the_project_only_the_used_function_is_followed() -> None:
    def using(value: int, other: int) -> str | None:
        helpers = types.ModuleType("project.helpers")
        exec(f"def scale(x):\n    return x * {value}\ndef other():\n    return {other}", vars(helpers))
        names = {"helpers": helpers, "__name__": "project"}
        exec("def reference(x):\n    return helpers.scale(x)", names)
        return digest(names["reference"])  # type: ignore[arg-type]

    assert using(1, 1) == using(1, 2) is not None
    assert using(1, 1) != using(2, 1)


@pytest.mark.parametrize(
    "body",
    [
        "open('table').read()",
        "np.load('table.npy')",
        "np.loadtxt('table')",
        "eval('x')",
        "globals()['inner'](x)",
        "getattr(np, 'load')('a')",
        "__import__('os').environ",
        "helper(x)",
        "rng.normal()",
        "vectorized(x)",
    ],
)
def test_what_cannot_be_followed_has_no_digest(body: str) -> None:
    class Helper:
        def __call__(self, x: int) -> int:
            return x

    names = {
        "np": np,
        "helper": Helper(),
        "rng": np.random.default_rng(1),
        "vectorized": np.frompyfunc(lambda x: x + 1, 1, 1),
    }
    exec(f"def reference(x):\n    return {body}", names)
    assert digest(names["reference"]) is None


def test_functions_of_numpy_and_of_the_engine_are_known_and_a_partial_is_followed() -> None:
    one, two = (functools.partial(lambda a, b, n: ww.product(a, b) + np.float32(n), n=n) for n in (1, 2))
    assert digest(one) != digest(two)
    assert digest(one) is not None
    assert digest(np.cumsum) is not None


def test_a_function_that_calls_itself_has_a_digest() -> None:
    assert digest(made("def reference(x):\n    return x and reference(x - 1)")) is not None
