"""Values of Python expressions that nobody vouches for: they compute with numbers, texts and lists, and do no more.

An expression is compiled with its operators, calls and loops replaced by functions of this module, which allow what is
listed here alone and as much as an ``Allowance`` has left.
"""

from __future__ import annotations

import ast
import copy
import re
import string
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from warpwatch.catalogue.expressions import BadExpression, limited, numeric

LARGEST = 20_000_000  # characters that reading a text may take
STEP = 200  # characters that a step counts as
WIDEST = 1000  # width or precision of a number in a text
NESTED = re.compile(r"%\([^()]*\(")
PERCENT = re.compile(r"%(?:%|(?:\([^()]*\))?[#0 +-]*(?:\d+|\*)?(?:\.\d+)?[a-zA-Z])")
PURE: Mapping[str, Any] = {
    **{each.__name__: each for each in (str, int, float, len, min, max, dict, zip)},
    "range": lambda *ends: limited(range(*ends)),
    "Template": string.Template,
    "dedent": textwrap.dedent,
    "indent": textwrap.indent,
    "string": SimpleNamespace(Template=string.Template),
    "textwrap": SimpleNamespace(dedent=textwrap.dedent, indent=textwrap.indent),
}
METHODS = re.compile(
    r"dedent|decode|encode|endswith|format|get|indent|items|join|keys|lower|[lr]?strip|removeprefix|removesuffix|replace"
    r"|(safe_)?substitute|split|splitlines|startswith|Template|title|upper|values"
)
NODES = (
    *(ast.Constant, ast.Name, ast.JoinedStr, ast.FormattedValue, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare),
    *(ast.IfExp, ast.Subscript, ast.Slice, ast.List, ast.Tuple, ast.Dict, ast.Call, ast.keyword, ast.Attribute),
    *(ast.Starred, ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.comprehension, ast.expr_context),
    *(ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
)


class NotRead(ValueError):
    """Raised where a file, or a text in it, cannot be read; the message says why."""


class Allowance:
    """Number of characters that reading a text may still take."""

    def __init__(self) -> None:
        self._left = LARGEST

    def take(self, amount: int) -> None:
        """Take so many of them. Raises NotRead where that is more than there are."""
        self._left -= amount
        if self._left < 0:
            raise NotRead(f"it takes more than {LARGEST:,} characters to read")

    def value(self, node: ast.expr, known: Mapping[str, Any]) -> Any:
        """Return the value of an expression whose names have these values. Raises NotRead."""
        try:
            tree = ast.fix_missing_locations(ast.Expression(_Replaced().visit(copy.deepcopy(node))))
            code = compile(tree, "<text>", "eval")
            own = {"@binary": self._binary, "@call": self._call, "@each": self._each, "@text": self._text}
            value = eval(code, {"__builtins__": {}, **known, **own})  # of NODES and these functions alone
            self.take(_size(value))
        except NotRead:
            raise
        except (Exception, RecursionError) as error:
            raise NotRead(f"{type(error).__name__}: {error}") from None
        return value

    def _each(self, values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            self.take(STEP + _size(value))
            yield value

    def _text(self, value: Any, conversion: int, spec: str = "") -> str:
        """Return a value as an f-string has it."""
        convert: Mapping[int, Callable[[Any], str]] = {ord("r"): repr, ord("s"): str, ord("a"): ascii}
        text = _format(convert[conversion](value) if conversion in convert else value, spec)
        self.take(len(text))
        return text

    def _binary(self, sign: str, left: Any, right: Any) -> Any:
        numbers = [each for each in (left, right) if isinstance(each, int | float)]
        if len(numbers) == 2:
            return numeric(getattr(ast, sign)(), left, right)
        if sign == "Mod":
            return self._taken(percent(left, right, self.take))
        if sign == "Add":
            return self._taken(left + right)
        if sign == "Mult" and len(numbers) == 1:
            self.take(max(0, _size(left) * int(right) if numbers[0] is right else _size(right) * int(left)))
            return left * right
        if sign == "BitOr" and isinstance(left, dict):
            return self._taken(left | right)
        raise BadExpression(f"{sign} is not arithmetic that is known here")

    def _call(self, function: Any, method: str, *given: Any, **named: Any) -> Any:
        """Call a function of PURE or, where one is named, a method. Raises NotRead."""
        if not method:
            self.take(_size([*given, *named.values()]))
            return self._taken(function(*given, **named))
        if method == "format":
            return formatted(function, *given, take=self.take, **named)
        if method == "join":
            given = ([*self._each(given[0])],)
            self.take(_size(function) * len(given[0]))
        elif method == "replace":
            self.take(function.count(given[0]) * _size(given[1]))
        elif method == "indent":
            self.take(given[0].count("\n") * _size(given[1]))
        elif method in ("substitute", "safe_substitute"):
            given, named = (_Values(self.take, **dict(*given), **named),), {}
        return self._taken(getattr(function, method)(*given, **named))

    def _taken(self, value: Any) -> Any:
        self.take(_size(value))
        return value


class _Replaced(ast.NodeTransformer):
    """An expression with its operators, calls, loops and f-strings replaced by functions of an Allowance."""

    def visit(self, node: ast.AST) -> Any:
        if not isinstance(node, NODES):
            raise NotRead(f"{type(node).__name__} has a value only when the file runs")
        return super().visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        return _called("@binary", ast.Constant(type(node.op).__name__), self.visit(node.left), self.visit(node.right))

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        raise NotRead(f"{ast.unparse(node)} has a value only when the file runs")

    def visit_Call(self, node: ast.Call) -> ast.expr:
        match node.func:
            case ast.Attribute(value=owner, attr=method) if METHODS.fullmatch(method):
                function = self.visit(owner)
            case ast.Name():
                function, method = node.func, ""
            case _:
                raise NotRead(f"{ast.unparse(node.func)} has a value only when the file runs")
        given = [self.visit(each) for each in node.args]
        named = [ast.keyword(each.arg, self.visit(each.value)) for each in node.keywords]
        return ast.Call(ast.Name("@call", ast.Load()), [function, ast.Constant(method), *given], named)

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        node.iter = _called("@each", node.iter)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        parts = ast.Tuple([self.visit(each) for each in node.values], ast.Load())
        return ast.Call(ast.Attribute(ast.Constant(""), "join", ast.Load()), [parts], [])

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.expr:
        spec = [self.visit(node.format_spec)] if node.format_spec else []
        return _called("@text", self.visit(node.value), ast.Constant(node.conversion), *spec)


def _called(name: str, *given: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(name, ast.Load()), [*given], [])


def _size(value: Any) -> int:
    """Return about how many characters a value has."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, dict):
        return sum(_size(key) + _size(each) for key, each in value.items())
    if isinstance(value, list | tuple):
        return sum(map(_size, value)) + STEP * len(value)
    return len(value) if isinstance(value, range) else 1


def _format(value: Any, spec: str) -> str:
    if any(int(number) > WIDEST for number in re.findall(r"\d{1,99}", spec)):
        raise NotRead(f"a format of {spec[:20]!r} is too wide; widths end at {WIDEST:,}")
    return format(value, spec)


class _Formatter(string.Formatter):
    """``str.format`` without attributes of values."""

    def __init__(self, take: Callable[[int], None]) -> None:
        self._take = take

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        if "." in field_name:
            raise NotRead(f"{field_name} has a value only when the file runs")
        return super().get_field(field_name, args, kwargs)

    def format_field(self, value: Any, format_spec: str) -> str:
        text = _format(value, format_spec)
        self._take(len(text))
        return text


class _Values(dict[str, Any]):
    """Values by name, each of which takes what it has whenever a template asks for it."""

    def __init__(self, take: Callable[[int], None], /, **values: Any) -> None:
        super().__init__(values)
        self._take = take

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        self._take(_size(value))
        return value


def formatted(template: str, /, *values: Any, take: Callable[[int], None] = lambda _: None, **named: Any) -> str:
    """Fill in a template as ``str.format`` does. Raises NotRead, and what that raises."""
    return _Formatter(take).vformat(template, values, named)


def percent(template: Any, values: Any, take: Callable[[int], None] = lambda _: None) -> Any:
    """Fill in a template as the operator % does. Raises NotRead, and what that raises."""
    if not isinstance(template, str):
        raise NotRead(f"% of {type(template).__name__} is not known here")
    if nested := NESTED.search(template):
        raise NotRead(f"{nested[0]!r} is not a place that is known here")
    for place in (match[0] for match in PERCENT.finditer(template)):
        if "*" in place or any(
            int(number) > WIDEST for number in re.findall(r"\d{1,99}", re.sub(r"\(.*\)", "", place))
        ):
            raise NotRead(f"a format of {place[:20]!r} is too wide; widths end at {WIDEST:,}")
    take(len(template) + (0 if isinstance(values, dict) else _size(values)))
    return template % (_Values(take, **values) if isinstance(values, dict) else values)
