"""Evaluates the arithmetic that declarations and imported files contain as text, and runs none of it as Python."""

from __future__ import annotations

import ast
import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

LONGEST = 1000  # characters of a text; Python's parser takes megabytes of memory for long ones
LARGEST_LIST = 10_000  # elements of a list
LARGEST_POWER = 64  # exponent
LARGEST_NUMBER = 2**64  # beyond it a chain of products would take any time

_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}


class BadExpression(ValueError):
    """Raised for a text that is not valid arithmetic, or has no value; the message says which part."""


def evaluate(text: str, names: Mapping[str, Any]) -> Any:
    """Return the value of a text such as ``"4096 // block_size_x"`` or ``"[2**i for i in range(6)]"``.

    It may have numbers, texts, lists, the names that are given, their elements (``ProblemSize[0]``), + - * / // % **
    << >> & | ^, comparisons, ``in``, ``and``, ``or``, ``not``, ``a if b else c``, list comprehensions over one list,
    and abs, ceil, float, floor, int, len, list, max, min, range, sqrt, sum. A name may have a dot (``x.size``).
    Raises BadExpression.
    """
    try:
        return _value(_parsed(text), names)
    except (ArithmeticError, IndexError, TypeError, ValueError, RecursionError) as error:
        if isinstance(error, BadExpression):
            raise
        raise BadExpression(f"{_shown(text)} has no value: {error}") from None


def names_of(text: str) -> frozenset[str]:
    """Return the names that a text mentions. Raises BadExpression."""
    return frozenset(node.id for node in ast.walk(_parsed(text)) if isinstance(node, ast.Name))


@functools.cache
def _parsed(text: str) -> ast.expr:
    if len(text) > LONGEST:
        raise BadExpression(f"{_shown(text)} has {len(text):,} characters; at most {LONGEST:,} are read")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise BadExpression(f"{_shown(text)} is not valid arithmetic, such as '4096 // block_size_x'") from None


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:  # noqa: PLR0911, PLR0912  # one for each kind of node
    """Return the value of a part of an expression. Raises BadExpression, and what arithmetic raises."""

    def value(part: ast.expr) -> Any:
        return _value(part, names)

    match node:
        case ast.Constant(value=bool() | int() | float() | str() as constant):
            return constant
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.Name(id=name):
            raise BadExpression(f"{name} is not known; there are {', '.join(names)}")
        case ast.Attribute(value=ast.Name(id=owner), attr=member) if f"{owner}.{member}" in names:
            return names[f"{owner}.{member}"]
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return [value(part) for part in parts]
        case ast.Subscript(value=whole, slice=index):
            return value(whole)[value(index)]
        case ast.IfExp(test=test, body=body, orelse=other):
            return value(body if value(test) else other)
        case ast.BoolOp(op=sign, values=parts):
            join = all if isinstance(sign, ast.And) else any
            return join(bool(value(part)) for part in parts)
        case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*map(value, parts))
        case ast.BinOp(left=left, op=operation, right=right):
            return numeric(operation, value(left), value(right))
        case ast.UnaryOp(op=negation, operand=operand):
            return numeric(negation, value(operand))
        case ast.Compare():
            return _compared(node, names)
        case ast.ListComp():
            return _comprehended(node, names)
    raise BadExpression(f"{_shown(ast.unparse(node))} is not arithmetic that is known here")


def numeric(sign: ast.AST, *values: Any) -> Any:
    """Apply an operator to numbers, or + to two lists. Raises BadExpression where the result would be too large."""
    if isinstance(sign, ast.Add) and all(isinstance(value, list) for value in values):
        return limited(values[0] + values[1])
    if type(sign) not in _OPERATORS or not all(isinstance(value, int | float) for value in values):
        shown = " and ".join(_shown(str(value)) for value in values)
        raise BadExpression(f"{type(sign).__name__} of {shown} is not arithmetic that is known here")
    if isinstance(sign, ast.Pow | ast.LShift) and abs(values[1]) > LARGEST_POWER:
        raise BadExpression(f"a power of {values[1]:,} is too large; exponents end at {LARGEST_POWER}")
    if any(isinstance(value, int) and abs(value) > LARGEST_NUMBER for value in values):
        raise BadExpression(f"{type(sign).__name__} of a number that is beyond 2^64")
    result = _OPERATORS[type(sign)](*values)
    if isinstance(result, complex) or abs(result) > LARGEST_NUMBER:
        raise BadExpression(f"{type(sign).__name__} gives a number that is beyond 2^64, or not real")
    return result


def _compared(node: ast.Compare, names: Mapping[str, Any]) -> bool:
    """Compare in a chain, as Python does: ``1 <= x <= 4``."""
    left = _value(node.left, names)
    for sign, part in zip(node.ops, node.comparators, strict=True):
        right = _value(part, names)
        if type(sign) not in _OPERATORS:
            raise BadExpression(f"{_shown(ast.unparse(node))} is not a comparison that is known here")
        if not _OPERATORS[type(sign)](left, right):
            return False
        left = right
    return True


def _comprehended(node: ast.ListComp, names: Mapping[str, Any]) -> list[Any]:
    if len(node.generators) > 1 or not isinstance(node.generators[0].target, ast.Name):
        raise BadExpression(f"{_shown(ast.unparse(node))} goes over more than one list")
    if sum(isinstance(part, ast.ListComp) for part in ast.walk(node)) > 1:  # each multiplies the time by LARGEST_LIST
        raise BadExpression(f"{_shown(ast.unparse(node))} has a list within a list")
    (each,), values = node.generators, []
    assert isinstance(each.target, ast.Name)
    for value in limited(_value(each.iter, names)):
        inner = {**names, each.target.id: value}
        if all(_value(test, inner) for test in each.ifs):
            values.append(_value(node.elt, inner))
    return values


def limited(values: Iterable[Any]) -> list[Any]:
    """Make a list. Raises BadExpression where it would be too long."""
    listed = [value for _, value in zip(range(LARGEST_LIST + 1), values, strict=False)]
    if len(listed) > LARGEST_LIST:
        raise BadExpression(f"a list has more than {LARGEST_LIST:,} elements")
    return listed


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "ceil": math.ceil,
    "float": float,
    "floor": math.floor,
    "int": int,
    "len": len,
    "list": limited,
    "max": max,
    "min": min,
    "range": lambda *ends: limited(range(*ends)),
    "sqrt": math.sqrt,
    "sum": sum,
}
