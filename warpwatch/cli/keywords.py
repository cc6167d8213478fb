"""Understands the expressions of -k, which choose cases by words in their ids."""

from __future__ import annotations

from collections.abc import Callable

from warpwatch.catalogue.names import BadCase

SHOWN = 60  # characters of an expression that a message repeats


def selector(expression: str) -> Callable[[str], bool]:
    """Make a function that is true for case ids that match an expression, as ``pytest -k`` understands it.

    The expression is compiled by pytest itself: words that occur in the id, in upper or lower case, with and, or, not
    and brackets. An empty one matches everything. Raises BadCase where it is no expression.
    """
    from _pytest.mark import expression as language  # noqa: PLC0415  # takes a fifth of a second, and few commands need it

    if not expression.strip():
        return lambda name: True
    malformed = getattr(language, "ParseError", SyntaxError)  # pytest 8 has its own class
    shown = repr(expression if len(expression) <= SHOWN else expression[:SHOWN] + "...")
    try:
        compiled = language.Expression.compile(expression)

        def matches(name: str) -> bool:
            def occurs(word: str, /, **parameters: object) -> bool:
                if parameters:
                    raise BadCase(f"-k {shown}: {word}(...) is for pytest's -m; -k takes words without brackets")
                return word.lower() in name.lower()

            return compiled.evaluate(occurs)

        matches("")  # an expression that is nested too deeply fails here or above
    except (malformed, SyntaxError) as error:
        why = getattr(error, "msg", None) or str(error)
        raise BadCase(f"-k {shown} is not an expression of words, and, or, not and brackets: {why}") from None
    except (RecursionError, MemoryError):
        raise BadCase(f"-k {shown} is nested too deeply: write it with fewer brackets or nots") from None
    return matches
