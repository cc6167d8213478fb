"""Tests that arithmetic of imported files has Python's value, and that nothing else in them is run."""

from __future__ import annotations

from typing import Any

import pytest

from warpwatch.catalogue.expressions import BadExpression, evaluate, names_of

NAMES = {"a": 3, "b": 4, "widths": [3, 15], "ProblemSize": [4096, 100], "kind": "row"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4096 // b + 2**3 - -a", 1035),
        ("7 / 2 % 2 * a", 4.5),
        ("(ProblemSize[0] + b - 1) // b", 1024),
        ("ProblemSize[1]+max(widths)-1", 114),
        ("[1, 2] + list(range(32, 128+1, 32))", [1, 2, 32, 64, 96, 128]),
        ("[2**i for i in range(0, 6) if i != 3]", [1, 2, 4, 16, 32]),
        ("(1, 'x', 2.5, True)", [1, "x", 2.5, True]),
        ("1 <= a < b <= 4", True),
        ("1 <= a > b", False),
        ("a in [1, 2] or b not in (5, 6) and not a == 4", True),
        ("a == 4 or b == 5", False),
        ("a if kind == 'row' else b", 3),
        ("sum(widths) + len(widths) + abs(-1) + int(2.5) + min(a, b)", 26),
        (" 12 ", 12),
    ],
)
def test_a_text_has_the_value_that_python_gives_it(text: str, value: Any) -> None:
    assert evaluate(text, NAMES) == value
    assert type(evaluate(text, NAMES)) is type(value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("__import__('os').getcwd()", "\"__import__('os').getcwd()\" is not arithmetic that is known here"),
        ("eval('1')", "is not arithmetic that is known here"),
        ("a.real", "'a.real' is not arithmetic that is known here"),
        ("(lambda: 1)()", "is not arithmetic that is known here"),
        ("max(*[1, 2])", "is not arithmetic that is known here"),
        ("max(widths, key=abs)", "is not arithmetic that is known here"),
        ("f'{a}'", "is not arithmetic that is known here"),
        ("None", "'None' is not arithmetic that is known here"),
        ("a is b", "'a is b' is not a comparison that is known here"),
        ("[i + j for i in widths for j in widths]", "goes over more than one list"),
        ("[sum([i * j for j in range(10000)]) for i in range(10000)]", "has a list within a list"),
        ("a && b", "'a && b' is not valid arithmetic, such as '4096 // block_size_x'"),
        ("a = 3", "'a = 3' is not valid arithmetic"),
        ("", "'' is not valid arithmetic"),
        ("(" * 500, "is not valid arithmetic"),
        ("-" * 990 + "1", "has no value: "),
        ("1 + " * 500 + "1", "has 2,001 characters; at most 1,000 are read"),
        ("c + 1", "c is not known; there are a, b, widths, ProblemSize, kind"),
        ("a // 0", "'a // 0' has no value: "),
        ("ProblemSize[2]", "has no value: list index out of range"),
        ("a < kind", "has no value: '<' not supported"),
        ("int('x')", "has no value: invalid literal"),
        ("kind * 3", "Mult of 'row' and '3' is not arithmetic that is known here"),
        ("9**9**9", "a power of 387,420,489 is too large; exponents end at 64"),
        ("3**64 * 3**64", "Pow gives a number that is beyond 2^64, or not real"),
        ("(-8)**0.5", "Pow gives a number that is beyond 2^64, or not real"),
        ("sum(range(10**12))", "a list has more than 10,000 elements"),
        ("list(range(9000)) + list(range(9000))", "a list has more than 10,000 elements"),
    ],
)
def test_what_is_no_arithmetic_is_said_in_a_sentence(text: str, said: str) -> None:
    with pytest.raises(BadExpression) as caught:
        evaluate(text, NAMES)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_names_of_a_text_are_found_without_their_values() -> None:
    assert names_of("(x + max(y)) // z[0]") == {"x", "y", "z", "max"}
