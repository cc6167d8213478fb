"""Reads strings of CUDA C++ out of Python files without running them, with the line that each of their lines is on.

An expression has a value where it consists of literals, of names that the file gives such values, and of functions that
do no more than compute. It also has a shape: its literals with their lines, and open places for everything else. The
shape tells which lines of the file a text came from, whether the text is the value or was made by running the file.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from warpwatch.catalogue.safe_values import PERCENT, PURE, STEP, Allowance, NotRead

T = TypeVar("T")
OPEN = "\0"  # stands for an open place
LITERAL = re.compile(r"""([A-Za-z]*)(\"\"\"|'''|"|')""")
BETWEEN = re.compile(r"(?:\s|#[^\n]*|\\\n)+")  # literals that Python joins
ESCAPE = re.compile(r"\\(?:\n|.)|\n", re.DOTALL)
BRACES = re.compile(r"\{\{|\}\}|\{[^{}]*\}")
TWICE = ("%%", "{{", "}}", "$$")
DOLLAR = re.compile(r"\$(?:\$|[_a-zA-Z]\w*|\{[_a-zA-Z]\w*\})")
# What is made of CUDA C++, by PyCUDA, CuPy and cuda.core, and what its first parameter is called.
MODULES = frozenset({"SourceModule", "DynamicSourceModule", "RawKernel", "RawModule", "Program"})
CODE = ("source", "code")
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
BRANCHES = (ast.If, ast.For, ast.While, ast.Match, ast.ExceptHandler)


@dataclass(frozen=True)
class Place:
    """A line of a Python file."""

    file: Path
    line: int


@dataclass(frozen=True)
class Traced:
    """A text, and the place of each of its lines."""

    text: str
    places: tuple[Place, ...]

    def __add__(self, other: Traced) -> Traced:
        begins = self.text == "" or self.text.endswith("\n")
        middle = other.places[0] if begins else self.places[-1]
        return Traced(self.text + other.text, (*self.places[:-1], middle, *other.places[1:]))

    def cut(self, start: int, end: int) -> Traced:
        first, part = self.text.count("\n", 0, start), self.text[start:end]
        return Traced(part, self.places[first : first + part.count("\n") + 1])

    def filled(self, pattern: re.Pattern[str], value: Callable[[re.Match[str]], str]) -> Traced:
        """Return this text with others where a pattern matches, whose lines are all the line that they stand on."""
        done, position = self.cut(0, 0), 0
        for match in pattern.finditer(self.text):
            text, place = value(match), self.cut(match.start(), match.start()).places
            done = done + self.cut(position, match.start()) + Traced(text, place * (text.count("\n") + 1))
            position = match.end()
        return done + self.cut(position, len(self.text))

    def opened(self, pattern: re.Pattern[str]) -> Traced:
        """Return this template with open places; a sign that is written twice stands for itself."""
        return self.filled(pattern, lambda match: match[0][0] if match[0] in TWICE else OPEN)

    def matched(self, text: str) -> Traced | None:
        """Return a text with its places, if it is this one with something in each open place."""
        first, *others = self.text.split(OPEN)
        if not others or not text.startswith(first):
            return self if text == self.text else None
        values, position = list[str](), len(first)
        for piece in others[:-1]:
            if (start := text.find(piece, position)) < 0:
                return None
            values.append(text[position:start])
            position = start + len(piece)
        end = len(text) - len(others[-1])
        if end < position or not text.endswith(others[-1]):
            return None
        given = iter([*values, text[position:end]])
        return self.filled(re.compile(OPEN), lambda _: next(given))


@dataclass(frozen=True)
class Binding:
    """A statement that gives a name its value. ``branches``: it may not be executed."""

    value: ast.expr
    branches: bool


@dataclass(eq=False)
class Scope:
    """The names of a module, a function or a class. ``parameters``: names whose values callers give."""

    name: str = ""
    outer: Scope | None = None
    node: ast.expr | ast.stmt | None = None
    parameters: frozenset[str] = frozenset()
    names: dict[str, list[Binding]] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)  # name -> module, and its name there
    returned: list[ast.expr] = field(default_factory=list)

    @property
    def path(self) -> str:
        """Its name and those of the scopes around it, such as ``Filter.build``."""
        return ".".join(filter(None, [self.outer.path, self.name])) if self.outer else self.name

    def home(self, name: str) -> Scope | None:
        """Return the scope that gives a name its value, if there is one."""
        if name in self.names or name in self.parameters or name in self.imports:
            return self
        return self.outer.home(name) if self.outer else None


class PythonFile:
    """A Python file: its scopes, and its calls. Raises NotRead."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.text = path.read_text(encoding="utf-8-sig")
            tree = ast.parse(self.text)
        except OSError as error:
            raise NotRead(f"{path} cannot be read: {error.strerror}") from None
        except (SyntaxError, ValueError) as error:
            raise NotRead(f"{path} is not Python: {error}") from None
        except (RecursionError, MemoryError):
            raise NotRead(f"{path} is nested too deeply") from None
        self.module = Scope()
        self.scopes = [self.module]
        self.calls: list[tuple[ast.Call, Scope]] = []
        self.literals: list[ast.expr] = []  # of several lines
        try:
            self._read(tree.body, self.module, branches=False)
        except RecursionError:
            raise NotRead(f"{path} is nested too deeply") from None

    def _read(self, nodes: Sequence[ast.AST], scope: Scope, *, branches: bool) -> None:
        for node in nodes:
            if isinstance(node, SCOPES):
                self._enter(node, scope)
                continue
            self._bind(node, scope, branches=branches)
            self._read([*ast.iter_child_nodes(node)], scope, branches=branches or isinstance(node, BRANCHES))

    def _enter(self, node: ast.expr | ast.stmt, outer: Scope) -> None:
        given = getattr(node, "args", None)
        names = (*given.posonlyargs, *given.args, *given.kwonlyargs) if given else ()
        scope = Scope(getattr(node, "name", ""), outer, node, frozenset(each.arg for each in names))
        self.scopes.append(scope)
        if isinstance(node, ast.Lambda):
            scope.returned.append(node.body)
        self._read([*ast.iter_child_nodes(node)], scope, branches=False)

    def _bind(self, node: ast.AST, scope: Scope, *, branches: bool) -> None:
        """Take note of what a statement gives a name, or of a call."""
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._give(scope, target, value, branches=branches)
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
                self._give(scope, target, value, branches=branches)
            case ast.AugAssign(target=ast.Name(id=name) as target, op=operator, value=value):
                whole = ast.BinOp(ast.copy_location(ast.Name(name, ast.Load()), value), operator, value)
                self._give(scope, target, ast.copy_location(whole, value), branches=branches)
            case ast.Return(value=ast.expr() as value):
                scope.returned.append(value)
            case ast.ImportFrom(module=str(module), level=0, names=names):
                scope.imports |= {each.asname or each.name: (module, each.name) for each in names}
            case ast.Call():
                self.calls.append((node, scope))
            case ast.Constant(value=str()) | ast.JoinedStr() if node.lineno != node.end_lineno:
                self.literals.append(node)

    def _give(self, scope: Scope, target: ast.AST, value: ast.expr, *, branches: bool) -> None:
        match target, value:
            case ((ast.Name(id=name) | ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name)), _):
                scope.names.setdefault(name, []).append(Binding(value, branches))
            case ast.Tuple(elts=targets), ast.Tuple(elts=values):
                for each, own in zip(targets, values, strict=False):
                    self._give(scope, each, own, branches=branches)


@functools.lru_cache(maxsize=64)
def _read_once(path: Path, changed: int, size: int) -> PythonFile:
    return PythonFile(path)


def python_file(path: Path) -> PythonFile:
    """Return a Python file as it is now. Raises NotRead."""
    try:
        about = path.stat()
    except OSError as error:
        raise NotRead(f"{path} cannot be read: {error.strerror}") from None
    return _read_once(path, about.st_mtime_ns, about.st_size)


class Reading:
    """Values and shapes of expressions of a Python file.

    ``named``: values of names that the file leaves to others. ``allowance``: what reading may still take.
    """

    def __init__(
        self, file: PythonFile, named: Mapping[str, Any] | None = None, allowance: Allowance | None = None
    ) -> None:
        self.file, self.named, self.allowance = file, named or {}, allowance or Allowance()
        self.used: set[str] = set()  # of the names
        self._until: dict[tuple[Scope, str], int] = {}  # the statements that count while a later one is looked at

    def value(self, node: ast.expr, scope: Scope) -> Any:
        """Return the value of an expression. Raises NotRead where only running the file would give it."""
        if isinstance(node, ast.Call) and (code := code_of(node)):
            return self.value(code, scope)
        stored = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} - stored
        known = {name: self._named(name, scope) for name in sorted(names)}
        try:
            return self.allowance.value(node, known)
        except NotRead as error:
            raise NotRead(f"line {node.lineno}: {error}") from None

    def _named(self, name: str, scope: Scope) -> Any:
        if name in self.named:
            self.used.add(name)
            return self.named[name]
        home = scope.home(name)
        if home is None and name in PURE:
            return PURE[name]
        if home is None or name in home.parameters:
            cure = "" if name in ("self", "cls") else f": give it, as {name}=..."
            raise NotRead(f"{name} has a value only when the file runs{cure}")
        if name in home.imports:
            module, own = home.imports[name]
            if own in PURE and module in ("string", "textwrap"):
                return PURE[own]
            return self._elsewhere(module, own, lambda reading, node, there: reading.value(node, there))
        return self.bound(name, home, self.value)

    def bound(self, name: str, home: Scope, read: Callable[[ast.expr, Scope], T]) -> T:
        """Read what the last statement gives a name; a name in it means what the statements before gave it."""
        bindings = home.names[name][: self._until.get((home, name))]
        if not bindings or (len(bindings) > 1 and any(each.branches for each in bindings)):
            raise NotRead(f"{name} has a value only when the file runs" if bindings else f"{name} stands for itself")
        self.allowance.take(STEP)
        before = self._until.get((home, name))
        self._until[home, name] = len(bindings) - 1
        try:
            return read(bindings[-1].value, home)
        finally:
            self._until.pop((home, name))
            if before is not None:
                self._until[home, name] = before

    def _elsewhere(self, module: str, name: str, read: Callable[[Reading, ast.expr, Scope], T]) -> T:
        """Read a name of another module, which is loaded. Raises NotRead."""
        file = getattr(sys.modules.get(module), "__file__", None) or ""
        if not file.endswith(".py"):
            raise NotRead(
                f"{name} comes from {module}, which is not run: give {name}=..., or write a function of the "
                "declaration that returns the text"
            )
        other = python_file(Path(file))
        if name not in other.module.names:
            raise NotRead(f"{name} of {module} has a value only when that runs: give it, as {name}=...")
        reading = Reading(other, allowance=self.allowance)
        return reading.bound(name, other.module, lambda node, there: read(reading, node, there))

    # Shapes

    def shape(self, node: ast.expr, scope: Scope) -> Traced:
        """Return the text of an expression as far as the file shows its lines, with open places for the rest."""
        try:
            shape = self._shape(node, scope) or self._open(node)
            self.allowance.take(len(shape.text))
            return shape  # what it takes is part of reading it
        except (NotRead, RecursionError):
            return self._open(node)

    def _open(self, node: ast.expr) -> Traced:
        return Traced(OPEN, (Place(self.file.path, node.lineno),))

    def _shape(self, node: ast.expr, scope: Scope) -> Traced | None:  # noqa: PLR0911  # a line a kind
        match node:
            case ast.Constant(value=str()) | ast.JoinedStr():
                return self._literal(node)
            case ast.Name(id=name):
                home = scope.home(name)
                if home and name in home.names:
                    return self.bound(name, home, self.shape)
                if home and name in home.imports:
                    return self._elsewhere(
                        *home.imports[name], lambda reading, value, there: reading.shape(value, there)
                    )
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self.shape(left, scope) + self.shape(right, scope)
            case ast.BinOp(left=left, op=ast.Mod()):
                return self.shape(left, scope).opened(PERCENT)
            case ast.Call() if code := code_of(node):
                return self.shape(code, scope)
            case ast.Call(func=ast.Attribute(value=owner, attr=name)):
                return self._method(name, owner, node.args, scope)
            case ast.Call(func=ast.Name(id="dedent" | "str" | "Template" as name), args=[text, *_]):
                return self._method(name, ast.Name("", ast.Load()), [text], scope)
        return None

    def _method(self, name: str, owner: ast.expr, given: Sequence[ast.expr], scope: Scope) -> Traced | None:
        match name, given:
            case "format", _:
                return self.shape(owner, scope).opened(BRACES)
            case (("substitute" | "safe_substitute"), _):
                return self.shape(owner, scope).opened(DOLLAR)
            case (("dedent" | "str" | "Template"), [text]):
                own = self.shape(text, scope)
                return Traced(textwrap.dedent(own.text), own.places) if name == "dedent" else own
            case (("encode" | "strip" | "lstrip" | "rstrip"), _):
                own = self.shape(owner, scope)
                start = 0 if name in ("encode", "rstrip") else len(own.text) - len(own.text.lstrip())
                end = len(own.text) if name in ("encode", "lstrip") else len(own.text.rstrip())
                return own.cut(start, max(start, end))
            case "replace", [ast.Constant(value=str(old)), _]:
                return self.shape(owner, scope).filled(re.compile(re.escape(old)), lambda _: OPEN)
        return None

    def _literal(self, node: ast.Constant | ast.JoinedStr) -> Traced | None:
        segment = ast.get_source_segment(self.file.text, node) or ""
        with_lines = Traced("", (Place(self.file.path, node.lineno),))
        try:
            for text, lines in _parts(segment, node.lineno):
                with_lines += Traced(text, tuple(Place(self.file.path, line) for line in lines))
        except (SyntaxError, ValueError):  # such as an f-string in an f-string
            return None
        is_right = not isinstance(node, ast.Constant) or with_lines.text == node.value
        return with_lines if is_right else None


def code_of(call: ast.Call) -> ast.expr | None:
    """Return the code that SourceModule, RawKernel and their like are given, also for a kernel of such a module."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if name == "get_function" and isinstance(call.func, ast.Attribute):
        return call.func.value
    given = [*call.args[:1], *(each.value for each in call.keywords if each.arg in CODE)]
    return given[0] if name in MODULES and given else None


def _parts(segment: str, line: int) -> Iterator[tuple[str, list[int]]]:
    """Yield the texts of literals that stand behind each other, with the lines on which their lines begin."""
    position = 0
    while position < len(segment):
        if between := BETWEEN.match(segment, position):
            line, position = line + between[0].count("\n"), between.end()
            continue
        if not (opening := LITERAL.match(segment, position)):
            raise ValueError("not a literal")
        prefix, quote = opening[1].lower(), opening[2]
        body = re.compile(rf"(?:\\.|(?!{quote}).)*", re.DOTALL).match(segment, opening.end())
        assert body
        if "f" in prefix:
            yield from _f_string(body[0], prefix.replace("f", ""), quote, line)
        else:
            yield _text_of(body[0], prefix, quote, line)
        line, position = line + body[0].count("\n"), body.end() + len(quote)


def _text_of(body: str, prefix: str, quote: str, line: int) -> tuple[str, list[int]]:
    text, lines = ast.literal_eval(f"{prefix}{quote}{body}{quote}"), [line]
    newlines = ("\n", "\\\n") if "r" in prefix else ("\n", "\\n")
    for match in ESCAPE.finditer(body):
        line += match[0].endswith("\n")
        if match[0] in newlines:
            lines.append(line)
    if len(lines) != text.count("\n") + 1:
        raise ValueError("it has newlines by other escapes")
    return text, lines


def _f_string(body: str, prefix: str, quote: str, line: int) -> Iterator[tuple[str, list[int]]]:
    position = 0
    while position < len(body):
        text = re.compile(r"(?:[^{}]|\{\{|\}\})*", re.DOTALL).match(body, position)
        assert text
        yield _text_of(text[0].replace("{{", "{").replace("}}", "}"), prefix, quote, line)
        line, position = line + text[0].count("\n"), text.end()
        if position < len(body):
            end = _end_of_value(body, position)
            yield OPEN, [line]
            line, position = line + body.count("\n", position, end), end


def _end_of_value(body: str, start: int) -> int:
    """Return where the value of an f-string ends that begins at a brace."""
    depth = 0
    for position in range(start, len(body)):
        depth += (body[position] == "{") - (body[position] == "}")
        if depth == 0:
            return position + 1
    raise ValueError("a brace is open")
