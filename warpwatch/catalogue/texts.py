"""Kernels whose CUDA C++ is a text in Python: in a declaration, returned by a function, or in a module of others."""

from __future__ import annotations

import ast
import inspect
import re
import string
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from warpwatch.catalogue.python_strings import (
    BRACES,
    DOLLAR,
    OPEN,
    PythonFile,
    Reading,
    Scope,
    Traced,
    code_of,
    python_file,
)
from warpwatch.catalogue.safe_values import PERCENT, NotRead, formatted, percent

Mark = tuple[int, str, int]
ENOUGH = 20  # characters that a literal must have in common with a text that is to come from it
KERNELS = re.compile(r"__global__\b[^;{}]*?\b(?!__launch_bounds__)(\w+)\s*\(")
KERNEL = r"__global__\b[^;{}]*\b%s\s*\("


@dataclass(frozen=True)
class Text:
    """CUDA C++ that is no file of its own, or a function that returns it (``make``).

    ``marks``: which lines of it begin a part of a Python file, with the file and its line. ``problem``: why there is no
    text, in a sentence.
    """

    code: str = ""
    marks: tuple[Mark, ...] = ()
    make: Callable[..., Any] | None = None
    problem: str = ""

    @property
    def file(self) -> Path | None:
        """The Python file that it begins in, where that is known."""
        return Path(self.marks[0][1]) if self.marks else None

    def place(self, line: int) -> tuple[Path, int] | None:
        """Return the file and the line that a line of it comes from, counted from 1."""
        before = [mark for mark in self.marks if mark[0] < line]
        return (Path(before[-1][1]), before[-1][2] + line - 1 - before[-1][0]) if before else None

    def numbered(self, root: Path) -> str:
        """Return the text with directives by which compilers name the Python file's lines; file names from ``root``."""
        lines, marks = self.code.split("\n"), {number: (Path(file), line) for number, file, line in self.marks}
        done = list[str]()
        for number, written in enumerate(lines):
            if number in marks and not (number and lines[number - 1].endswith("\\")):
                file, line = marks[number]
                name = file.relative_to(root) if file.is_relative_to(root) else file
                done.append('#line {} "{}"'.format(line, str(name).replace("\\", "\\\\").replace('"', '\\"')))
            done.append(written)
        return "\n".join(done)


def text(code: str | Callable[..., str]) -> Text:
    """Make a kernel's ``source`` of CUDA C++ in Python.

    ``code``: the text, or a function that returns it and takes by name what it needs: ``block``, ``dtype``,
    ``itemsize``, ``c``.
    """
    if callable(code):
        return Text(make=code)
    if not isinstance(code, str):
        return Text(problem=f"is a text of {type(code).__name__}: give ww.text a str of CUDA C++")
    frame = sys._getframe(1)
    return _with_marks(code, _shapes_of_call(frame.f_code, frame.f_lasti))


def returned_text(function: Callable[..., Any], value: Any) -> Text:
    """Make a Text of what a function of a declaration has returned. Raises TypeError."""
    if isinstance(value, Text) and not value.make:
        return value
    if not isinstance(value, str):
        raise TypeError(f"it returns {type(value).__name__}: give CUDA C++ as a str")
    return _with_marks(value, _shapes_of_function(inspect.unwrap(function)))


def from_python(path: str | Path, name: str, *values: Any, **named: Any) -> Text:
    """Make a kernel's ``source`` of a text in a Python file, which is not run.

    ``path``: from the folder of the declaration, or from one above it. ``name``: of a variable, of a function that
    returns the text, or of a kernel; ``Filter.code`` for one inside. ``values``, ``named``: fill the places of ``%``,
    ``.format`` and ``string.Template``, and names that have no value before the file runs.
    """
    folder = Path(sys._getframe(1).f_code.co_filename).resolve().parent
    try:
        return _read(python_file(_found(folder, path)), name, values, named)
    except (NotRead, RecursionError) as error:
        why = error if isinstance(error, NotRead) else "it is nested too deeply"
        return Text(problem=f'cannot be read by from_python("{path}", "{name}"): {why}')


def _found(folder: Path, path: str | Path) -> Path:
    """Find a file from a folder or one above it, as far as the repository goes. Raises NotRead."""
    for above in (folder, *folder.parents):
        if (file := above / path).is_file():
            return file.resolve()
        if any((above / each).exists() for each in ("pyproject.toml", ".git")):
            break
    raise NotRead(f"there is no file {path} in {folder}, or above it as far as {above}")


def _read(file: PythonFile, name: str, values: Sequence[Any], named: Mapping[str, Any]) -> Text:
    """Read the text of that name. Raises NotRead."""
    node, scope = _expression(file, name)
    reading = Reading(file, named)
    value, shape = reading.value(node, scope), reading.shape(node, scope)
    left = {key: each for key, each in named.items() if key not in reading.used}
    if isinstance(value, bytes):
        value = value.decode()
    if values or left or isinstance(value, string.Template):
        pattern = _places(value, left)
        value, shape = _filled(value, pattern, values, left), shape.opened(pattern)
    if not isinstance(value, str):
        raise NotRead(f"it is {type(value).__name__}, not a text")
    return _with_marks(value, [shape, *_literals(file)])


def _expression(file: PythonFile, name: str) -> tuple[ast.expr, Scope]:
    """Find what a name stands for: a variable, what a function returns, or a text with a kernel. Raises NotRead."""
    if not re.fullmatch(r"\w+(\.\w+)*", name):
        try:
            return ast.parse(name, mode="eval").body, file.module
        except (SyntaxError, ValueError):
            raise NotRead(f"{name!r} is not the name of a text") from None
    path, _, last = name.rpartition(".")
    own = [scope for scope in file.scopes if last in scope.names]
    functions = [scope for scope in file.scopes if scope.name == last and scope.returned]
    for exact in (True, False):
        variables = [scope for scope in own if scope.path == path or not (exact or path)]
        returning = [scope for scope in functions if scope.path == name or not (exact or path)]
        if len(variables) == 1:
            return ast.Name(last, ast.Load(), lineno=0, col_offset=0), variables[0]
        if len(returning) == 1 and len(returning[0].returned) == 1:
            return returning[0].returned[0], returning[0]
    with_kernel = dict[str, tuple[ast.expr, Scope]]()  # by text: a module, and a function got from it, show the same
    for _, node, scope, code in _known(file):
        if re.search(KERNEL % last, code):
            with_kernel.setdefault(code, (node, scope))
    if len(with_kernel) == 1 and not path:
        return next(iter(with_kernel.values()))
    if len(own) + len(functions) + len(with_kernel) > 1:
        raise NotRead(f"{file.path.name} has several of that name: {_names(file)}")
    raise NotRead(f"{file.path.name} has no text of that name; {_names(file)}")


def _names(file: PythonFile) -> str:
    """List the names of a file that stand for a text, and the kernels of texts without one."""
    names = dict.fromkeys(
        each for name, _, _, code in _known(file) for each in ([name] if name else KERNELS.findall(code))
    )
    return f"it has {', '.join(names)}" if names else "no name in it stands for a kernel's text"


def _known(file: PythonFile) -> Iterator[tuple[str, ast.expr, Scope, str]]:
    """Yield names of a file, and calls without one, that stand for a text with a kernel, and what their shape shows."""
    reading, seen = Reading(file), set[str]()
    for scope in file.scopes:
        for name in scope.names:
            node: ast.expr = ast.Name(name, ast.Load(), lineno=0, col_offset=0)
            code = reading.shape(node, scope).text
            if "__global__" in code:
                seen.add(code)
                yield ".".join(filter(None, [scope.path, name])), node, scope, code
        for node in scope.returned:
            if "__global__" in (code := reading.shape(node, scope).text):
                seen.add(code)
                yield scope.path, node, scope, code
    for call, scope in file.calls:
        for given in filter(None, (code_of(call), *call.args)):
            if "__global__" in (code := reading.shape(given, scope).text) and code not in seen:
                seen.add(code)
                yield "", given, scope, code


def _places(value: Any, named: Mapping[str, Any]) -> re.Pattern[str]:
    """Return the pattern of a template's places, by what they look like. Raises NotRead."""
    if isinstance(value, string.Template):
        return DOLLAR
    template = str(value)
    looks = {PERCENT: ("%({})",), DOLLAR: ("${}", "${{{}}}"), BRACES: ("{{{}}}", "{{{}:")}
    for pattern, forms in looks.items():
        if named and all(any(form.format(key) in template for form in forms) for key in named):
            return pattern
    if named:
        raise NotRead(f"it has no place for {', '.join(named)}")
    return BRACES if "{{" in template else PERCENT


def _filled(value: Any, pattern: re.Pattern[str], values: Sequence[Any], named: Mapping[str, Any]) -> str:
    """Fill in a template. Raises NotRead."""
    template = value.template if isinstance(value, string.Template) else str(value)
    try:
        if pattern is DOLLAR:
            return string.Template(template).substitute(named)
        if pattern is BRACES:
            return formatted(template, *values, **named)
        return str(percent(template, dict(named) if named else tuple(values)))
    except KeyError as error:
        raise NotRead(f"it has a place for {error.args[0]}, which has no value: give {error.args[0]}=...") from None
    except (IndexError, TypeError, ValueError) as error:
        raise NotRead(f"its places cannot be filled: {error}") from None


def _shapes_of_call(code: CodeType, instruction: int) -> Iterator[Traced]:
    """Yield the texts that the argument of a call shows, in the file that it stands in, then those of its literals."""
    try:
        file = python_file(Path(code.co_filename))
    except NotRead:
        return
    line, end_line, column, end_column = [*code.co_positions()][instruction // 2]
    for call, scope in file.calls:
        if (call.lineno, call.end_lineno, call.col_offset, call.end_col_offset) == (line, end_line, column, end_column):
            yield Reading(file).shape(call.args[0] if call.args else call.keywords[0].value, scope)
    yield from _literals(file)


def _shapes_of_function(function: Callable[..., Any]) -> Iterator[Traced]:
    """Yield the texts that a function's file shows: what it returns, then its literals."""
    code = getattr(function, "__code__", None)
    try:
        file = python_file(Path(code.co_filename)) if code else None
    except NotRead:
        return
    if code is None or file is None:
        return
    for scope in file.scopes:
        node = scope.node
        first = min((node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ())))) if node else 0
        if node and first == code.co_firstlineno:
            yield from (Reading(file).shape(each, scope) for each in scope.returned)
    yield from _literals(file)


def _literals(file: PythonFile) -> Iterator[Traced]:
    return (Reading(file).shape(node, file.module) for node in file.literals)


def _with_marks(code: str, shapes: Iterator[Traced] | Sequence[Traced]) -> Text:
    """Return a text with the lines that the first shape shows which it can have come from."""
    for shape in shapes:
        if len(shape.text.replace(OPEN, "")) >= min(ENOUGH, len(code)) and (traced := shape.matched(code)):
            return Text(code, tuple(_marks(traced)))
    return Text(code)


def _marks(traced: Traced) -> Iterator[Mark]:
    file, line = Path(), 0
    for number, place in enumerate(traced.places):
        if (place.file, place.line) != (file, line + 1):
            yield number, str(place.file), place.line
        file, line = place.file, place.line
