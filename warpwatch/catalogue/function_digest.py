"""Computes a digest of what a function of a declaration does: its code, and every function and constant it reaches."""

from __future__ import annotations

import builtins
import dis
import functools
import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

# Libraries whose functions compute the same from the same arguments; known by their name and version.
LIBRARIES = frozenset(
    {"abc", "bisect", "builtins", "cmath", "collections", "dataclasses", "decimal", "enum", "fractions", "functools"}
    | {"heapq", "itertools", "math", "ml_dtypes", "numbers", "numpy", "operator", "scipy", "statistics", "string"}
    | {"struct", "typing", "warpwatch"}
)
# What reads files, or reaches names that the code does not show.
UNFOLLOWED = frozenset(
    {"DataSource", "__dict__", "__import__", "breakpoint", "compile", "ctypeslib", "datasets", "eval", "exec"}
    | {"fromfile", "fromregex", "genfromtxt", "getattr", "globals", "hash", "id", "input", "io", "load", "load_npz"}
    | {"loadtxt", "locals", "memmap", "open", "setattr", "vars"}
)
PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...), np.generic, np.dtype, range, slice)
READS_GLOBAL, READS_ATTRIBUTE = ("LOAD_GLOBAL", "LOAD_NAME"), ("LOAD_ATTR", "LOAD_METHOD")


class _Unfollowed(Exception):
    """Raised when a function reaches a value that cannot be digested."""


def digest(function: Callable[..., Any]) -> str | None:
    """Return a digest of a function with all that it reaches, or None where that cannot be followed.

    Two functions of one digest return the same for the same arguments, as far as their code and constants decide it.
    Libraries count by their versions, Python by its own. A file that is read, a name that is looked up by a string and
    an object of an unknown kind cannot be followed.
    """
    parts = _Parts()
    try:
        parts.add(function)
    except (_Unfollowed, RecursionError):
        return None
    return hashlib.sha256(repr((sys.version_info[:2], np.__version__, parts.text)).encode()).hexdigest()[:32]


class _Parts:
    """Describes values one after the other. ``text``: the descriptions so far, in an order that the code decides."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self._known: dict[int, tuple[int, Any]] = {}  # by id: their numbers, and the values, so that ids stay theirs

    def add(self, value: Any) -> None:
        """Describe a value, and all that it holds or calls."""
        if isinstance(value, PLAIN):
            self.text.append(f"{type(value).__name__} {value!r}")
        elif id(value) in self._known:
            self.text.append(f"again {self._known[id(value)][0]}")
        else:
            self._known[id(value)] = (len(self._known), value)
            self._add_new(value)

    def _add_new(self, value: Any) -> None:
        if known := _library_name(value):
            self.text.append(known)
        elif isinstance(value, FunctionType):
            self._add_function(value)
        elif isinstance(value, CodeType):
            self._add_code(value, {})
        elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
            data = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
            self.text.append(f"array {value.dtype.descr} {value.shape} {data}")
        elif type(value) in (tuple, list, dict):
            held = [each for pair in value.items() for each in pair] if type(value) is dict else value
            self._add_all(type(value).__name__, *held)
        elif type(value) in (set, frozenset) and all(isinstance(each, PLAIN) for each in value):
            self.text.append(f"set {sorted(map(repr, value))}")
        elif isinstance(value, functools.partial):
            self._add_all("partial", value.func, value.args, value.keywords)
        elif isinstance(value, MethodType):
            self._add_all("method", value.__func__, value.__self__)
        elif isinstance(value, functools._lru_cache_wrapper):
            self._add_all("cached", value.__wrapped__)
        else:
            raise _Unfollowed(type(value).__name__)

    def _add_all(self, kind: str, *values: Any) -> None:
        self.text.append(f"{kind} of {len(values)}")
        for value in values:
            self.add(value)

    def _add_function(self, function: FunctionType) -> None:
        self.add((function.__defaults__, function.__kwdefaults__))
        for cell in function.__closure__ or ():
            try:
                self.add(cell.cell_contents)
            except ValueError:  # it is filled later
                raise _Unfollowed("an empty cell") from None
        self._add_code(function.__code__, function.__globals__)

    def _add_code(self, code: CodeType, names: Mapping[str, Any]) -> None:
        """Describe code, the code in it, and the values of the global names that it reads."""
        if UNFOLLOWED.intersection(code.co_names):
            raise _Unfollowed(code.co_name)
        shape = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        names_in_code = (code.co_names, code.co_varnames, code.co_freevars)
        self.text.append(repr((shape, code.co_code, code.co_exceptiontable, names_in_code)))
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._add_code(constant, names)
            else:
                self.add(constant)
        for value in _globals_read(code, names):
            self.add(value)


def _globals_read(code: CodeType, names: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the values of the global names that code reads; of a project's module, what is taken from it."""
    steps = list(dis.get_instructions(code))
    for position, step in enumerate(steps):
        if step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            raise _Unfollowed(f"{code.co_name} changes {step.argval}")
        if step.opname == "IMPORT_NAME" and step.argval.partition(".")[0] not in LIBRARIES:
            raise _Unfollowed(f"{code.co_name} imports {step.argval}")
        if step.opname in READS_GLOBAL:
            value = names.get(step.argval, getattr(builtins, step.argval, None))
            for following in steps[position + 1 :]:
                if not isinstance(value, ModuleType) or _library_name(value):
                    break
                if following.opname not in READS_ATTRIBUTE or not hasattr(value, following.argval):
                    raise _Unfollowed(f"{code.co_name} uses the module {value.__name__} whole")
                value = getattr(value, following.argval)
            yield value


def _library_name(value: Any) -> str:
    """Return the name and version of what belongs to a library, or an empty text."""
    if isinstance(value, np.ufunc):  # one that ``frompyfunc`` made hides a function
        ufunc = value.__name__
        return f"ufunc {ufunc}" if getattr(np, ufunc, None) is value else ""
    if not isinstance(value, ModuleType | type | FunctionType | BuiltinFunctionType) and not callable(value):
        return ""
    if isinstance(value, BuiltinFunctionType) and not isinstance(value.__self__, ModuleType | None):
        return ""  # a method of some object
    is_module = type(value) is ModuleType
    owner = str(getattr(value, "__name__" if is_module else "__module__", ""))
    name = owner if is_module else getattr(value, "__qualname__", "")
    root = owner.partition(".")[0].removeprefix("_")
    return f"{owner} {name} {_version(root)}" if name and root in LIBRARIES else ""


@functools.cache
def _version(root: str) -> str:
    """Return the version of a library; of the engine the digest of its catalogue, which declarations may call."""
    if root != "warpwatch":
        return str(getattr(sys.modules.get(root), "__version__", ""))
    sources = sorted(Path(__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()
