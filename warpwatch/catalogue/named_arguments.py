"""Calls the functions of a declaration, which take by name what they need: ``lambda m, n: m * n``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from warpwatch.catalogue.leaving import LeftProcess

NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class BadFunction(TypeError):
    """A function of a declaration that asks for something that it cannot be given; the message lists what it can."""


@functools.cache
def asked_for(function: Callable[..., Any]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of a function's parameters, first those that it must be given, then those with a default.

    Raises BadFunction where the function does not say them, or has parameters that cannot be given by name.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise BadFunction(f"{function!r} does not say what it takes: wrap it in a lambda that names it") from None
    if other := [each for each in parameters if each.kind not in NAMED]:
        raise BadFunction(f"it takes {other[0]}, which has no name: name what it needs, as in `lambda m, n: m * n`")
    needed = frozenset(each.name for each in parameters if each.default is each.empty)
    return needed, frozenset(each.name for each in parameters) - needed


def takes(function: Callable[..., Any], name: str) -> bool:
    return any(name in names for names in asked_for(function))


def call(function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """Call a function with those of the given values that it asks for by name.

    Raises BadFunction, also where the function leaves by SystemExit: what it belongs to fails then, not the run.
    """
    needed, optional = asked_for(function)
    if missing := needed - given.keys():
        names = ", ".join(repr(name) for name in sorted(missing))
        raise BadFunction(f"it asks for {names}; it can be given {', '.join(given)}")
    try:
        return function(**{name: given[name] for name in (*needed, *optional) if name in given})
    except SystemExit as leaving:
        if type(leaving) is not SystemExit:  # it comes from a signal's handler, which ends this process
            raise
        raise BadFunction(_leaving(f"SystemExit({leaving.code!r})")) from None
    except LeftProcess:
        raise BadFunction(_leaving("os._exit(0)")) from None


def _leaving(how: str) -> str:
    return f"it would end the process, by {how}: let it return, or raise an error"
