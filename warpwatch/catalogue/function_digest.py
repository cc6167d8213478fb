"""Digest of what a function of a declaration does: its source, and every function, class and constant it reaches.

It needs the standard library alone: revision/declarations.py takes it into the process of another revision, whose own
engine may have another one. So a digest is the same in all versions of Python, and does not change with comments,
docstrings, annotations and layout.
"""

from __future__ import annotations

import ast
import dataclasses
import dis
import enum
import functools
import hashlib
import importlib
import importlib.util
import itertools
import json
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

# Packages whose functions do what their names say, wherever they are called: they are named, and not followed.
PURE = frozenset(
    {"abc", "bisect", "builtins", "cmath", "collections", "contextlib", "dataclasses", "decimal", "enum", "fractions"}
    | {"functools", "heapq", "itertools", "math", "ml_dtypes", "numbers", "numpy", "operator", "scipy", "statistics"}
    | {"string", "struct", "types", "typing", "warpwatch"}
)
# Names in packages of what reads files, or code from files.
READERS = frozenset(
    {"DataSource", "RawModule", "cpp_extension", "ctypeslib", "datasets", "from_file", "fromfile", "fromregex"}
    | {"genfromtxt", "import_module", "io", "load", "load_file", "load_library", "load_npz", "loadmat", "loads"}
    | {"loadtxt", "memmap", "mmread", "open_memmap"}
)
# Built-in functions that read files, or reach names that the code does not show.
IMPURE = frozenset(
    {"__import__", "breakpoint", "compile", "eval", "exec", "globals", "hash", "id", "input", "locals", "open"}
    | {"setattr", "vars"}
)
LOOKUP = frozenset({"getattr"})  # which takes a function from a library by its name, and may take anything else
PLAIN = (set, frozenset, dict, list, tuple, int, float, complex, str, bytes)  # a class of these may have more to it
WRAPPED = ("__func__", "fget", "func")  # attributes of what stands for a function in a class
LANGUAGE, JIT = "triton.language", "triton.runtime.jit"  # the former has a `load` that reads no file
RAW, GIVEN_RAW = ("cupy._core.raw", "RawKernel"), ("code", "name", "options", "backend", "enable_cooperative_groups")
# All that Triton is given for a kernel besides its function.
GIVEN = ("do_not_specialize", "do_not_specialize_on_alignment", "noinline", "debug", "pre_run_hooks")
AGAIN = ["again"]  # instead of a value that is being described


class NotFollowed(Exception):
    """Raised where it cannot be told what a function of a declaration does; the message says what stands in the way."""


@functools.cache  # many cases ask
def digest_of_source(
    function: Any, tree: Path, packages: tuple[str, ...] = (), refused: frozenset[str] = frozenset()
) -> str:
    """Return a digest of a function's source and of all that it reaches in ``tree``: functions, classes, constants.

    Other packages count by the names that are taken from them, and not by their versions. ``packages``: those that may
    be called besides PURE. ``refused``: built-in functions that are not followed besides IMPURE. Raises NotFollowed.
    What stands for a function of another process (devices/foreign/described.py) knows its digest itself.
    """
    if stated := getattr(type(function), "digest_of_source", None):
        return stated(function)  # type: ignore[no-any-return]
    return _hash(Reached(tree.resolve(), PURE | set(packages), IMPURE | refused).value(function))[:20]


def _hash(description: Any) -> str:
    return hashlib.sha256(json.dumps(description).encode()).hexdigest()


def is_named_so(value: Any) -> bool:
    """Tell whether a value is what its module has by its name: numpy.vectorize gives its own that of a function."""
    names = getattr(value, "__qualname__", value.__name__).split(".")
    module = sys.modules.get(getattr(value, "__module__", None) or type(value).__module__)
    return functools.reduce(lambda owner, name: getattr(owner, name, None), names, module) is value


@functools.cache
def parsed(file: str) -> ast.Module:
    """Return the syntax tree of a file. Raises NotFollowed."""
    try:
        return ast.parse(Path(file).read_bytes())
    except (OSError, ValueError, SyntaxError) as error:
        raise NotFollowed(f"the source of {Path(file).name} cannot be read ({error})") from None


@functools.cache
def codes_in(file: str) -> frozenset[types.CodeType]:
    """Return every code object that a file is compiled to, as it is now. Raises NotFollowed."""
    codes = [compile(parsed(file), file, "exec", dont_inherit=True)]
    for code in codes:  # which grows meanwhile
        codes += [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return frozenset(codes)


@functools.cache
def functions_in(file: str) -> dict[int, list[Any]]:
    """Return the syntax trees of a file's functions by their first line. Raises NotFollowed."""
    found: dict[int, list[Any]] = {}
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef):
            found.setdefault(first_line(node), []).append(node)
    return found


class Reached:
    """Descriptions of the values that a function reaches, as lists of texts. ``tree``: what lies there is followed."""

    def __init__(self, tree: Path, packages: frozenset[str], refused: frozenset[str]) -> None:
        self._tree, self._packages, self._refused = tree, packages, refused
        self._known: dict[int, tuple[Any, list[Any]]] = {}  # with the value, so that no other gets its number

    def value(self, value: Any) -> list[Any]:
        """Describe a value. Raises NotFollowed."""
        if value is None or type(value) in (bool, int, float, complex, str, bytes, type(...)):
            return [type(value).__name__, repr(value)]
        if id(value) not in self._known:
            self._known[id(value)] = value, AGAIN
            self._known[id(value)] = value, [type(value).__name__, _hash(self._describe(value))]
        return self._known[id(value)][1]

    def _describe(self, value: Any) -> list[Any]:
        kind = type(value)
        if not isinstance(value, enum.Enum) and kind not in PLAIN and issubclass(kind, PLAIN):
            return [self.value(kind), self.value(getattr(value, "__dict__", None)), *self._contents(value)]
        return self._contents(value)

    def _contents(self, value: Any) -> list[Any]:
        parts: Sequence[Any]  # that a value consists of
        match value:
            case dict() | types.MappingProxyType():
                return [[self.value(key), self.value(each)] for key, each in value.items()]
            case types.FunctionType():
                return self._function(value)
            case type():
                return self._class(value) if self._is_followed(value.__module__) else self._named(value)
            case types.ModuleType():
                raise NotFollowed(f"the module {value.__name__} is passed on as a value")
            case set() | frozenset():
                parts = sorted(value, key=repr)
            case enum.Enum():
                parts = type(value), value.name, value.value
            case functools.partial():
                parts = value.func, value.args, value.keywords
            case types.MethodType():
                parts = value.__func__, value.__self__
            case list() | tuple():
                parts = value
            case _ if type(value).__module__ == "functools" and hasattr(value, "__wrapped__"):  # by functools.cache
                parts = (value.__wrapped__,)
            case _ if kernel := of_kernel(value):
                parts = kernel
            case _:
                return self._object(value)
        return [self.value(each) for each in parts]

    def _object(self, value: Any) -> list[Any]:
        if base := next((each for each in PLAIN if isinstance(value, each)), None):  # of numbers and texts
            return [base.__repr__(value)]
        if hasattr(value, "dtype") and hasattr(value, "tobytes") and not value.dtype.hasobject:
            return [str(value.dtype), list(value.shape), hashlib.sha256(value.tobytes()).hexdigest()]
        if type(value).__module__.partition(".")[0] == "numpy" and hasattr(value, "itemsize"):
            return [str(value)]  # a dtype
        if hasattr(value, "__name__"):
            if not is_named_so(value):
                raise NotFollowed(f"it reaches {value.__name__}, which was made by {type(value).__qualname__}")
            return self._named(value)
        if dataclasses.is_dataclass(value):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            return [self.value(type(value)), self.value(fields)]
        if self._is_followed(type(value).__module__) and hasattr(value, "__dict__"):
            return [self.value(type(value)), self.value(vars(value))]
        raise NotFollowed(f"it reaches an object of the type {type(value).__qualname__}")

    def _named(self, value: Any) -> list[Any]:
        """Return the name of a value that is not followed."""
        module = getattr(value, "__module__", None) or type(value).__module__
        name = getattr(value, "__qualname__", value.__name__)
        self._allow(module, f"{module}.{name}", value.__name__)
        return [module.partition(".")[0], name]

    def _allow(self, module: str, shown: str, name: str = "") -> None:
        """Raise NotFollowed for what may read a file, a clock, or the environment."""
        if module.partition(".")[0] not in self._packages or (name in READERS and module != LANGUAGE):
            raise NotFollowed(f"it reaches {shown}, which may do anything or read a file")

    def _is_followed(self, module: str) -> bool:
        return self._is_inside(getattr(sys.modules.get(module), "__file__", None) or "")

    def _is_inside(self, file: str) -> bool:
        """Tell whether a file is the project's own: in the tree, and neither installed there nor the engine's."""
        path = Path(file).resolve()
        if not file or not path.is_relative_to(self._tree):
            return False
        parts = path.relative_to(self._tree).parts
        return parts[0] != "warpwatch" and not {"site-packages", "dist-packages"} & set(parts)

    def _function(self, function: types.FunctionType) -> list[Any]:
        code = function.__code__
        try:
            cells = {
                n: cell.cell_contents for n, cell in zip(code.co_freevars, function.__closure__ or (), strict=True)
            }
        except ValueError:
            raise NotFollowed(f"{function.__qualname__} uses a variable that has no value yet") from None
        given = [function.__defaults__, function.__kwdefaults__, cells]
        given += [more] if (more := {n: each for n, each in vars(function).items() if n != "__wrapped__"}) else []
        if not self._is_inside(code.co_filename):
            if not Path(code.co_filename).is_file():
                raise NotFollowed(f"{function.__qualname__} has no file")
            return [self._named(function), *(self.value(each) for each in given if each)]
        node = node_of(code)
        refuse_unfollowed(node)
        names = sorted(name for name in global_names(code) if name not in cells)
        reached = [[name, self._global(function.__globals__, name, node)] for name in names]
        return [shape(node), *(self.value(each) for each in given), reached, self._imports(function, node)]

    def _global(self, known: Mapping[str, Any], name: str, node: ast.AST) -> list[Any]:
        if name in known:
            value = known[name]
            chains = [path[1:] for path in dotted_in(node) if path[0] == name]
            return self._module(value, chains) if isinstance(value, types.ModuleType) else self.value(value)
        if name in self._refused:
            raise NotFollowed(f"it calls {name}(), which may do anything or read a file")
        return ["built-in", name]

    def _module(self, module: types.ModuleType, chains: Sequence[Sequence[str]]) -> list[Any]:
        """Describe what is taken from a module by these chains of attributes."""
        name = module.__name__
        if not self._is_inside(getattr(module, "__file__", None) or ""):
            for chain in chains:
                for part in chain or ("",):
                    self._allow(name, f"{name}.{'.'.join(chain)}", part)
            return [name]
        taken: list[Any] = []
        for first, rest in itertools.groupby(sorted(set(map(tuple, chains))), key=lambda chain: chain[:1]):
            value: Any = getattr(module, first[0], None) if first else module
            inside = bool(first) and isinstance(value, types.ModuleType)
            inner = self._module(value, [chain[1:] for chain in rest]) if inside else self.value(value)
            taken.append([*first, inner])
        return taken

    def _imports(self, function: types.FunctionType, node: ast.AST) -> list[Any]:
        wanted: list[tuple[str, str, str]] = []
        for each in ast.walk(node):
            if isinstance(each, ast.Import):
                wanted += [(alias.name, "", alias.asname or alias.name.partition(".")[0]) for alias in each.names]
            elif isinstance(each, ast.ImportFrom):
                relative = "." * each.level + (each.module or "")
                name = importlib.util.resolve_name(relative, function.__globals__.get("__package__"))
                wanted += [(name, alias.name, alias.asname or alias.name) for alias in each.names]
        return [self._imported(module, name, bound, node) for module, name, bound in wanted]

    def _imported(self, module: str, name: str, bound: str, node: ast.AST) -> list[Any]:
        if module.partition(".")[0] in self._packages:
            self._allow(module, f"{module}.{name}", name)
            return [module, name]
        try:
            loaded: Any = importlib.import_module(module)
            loaded = getattr(loaded, name) if name else loaded
        except Exception as error:
            raise NotFollowed(f"it imports {module}, which cannot be loaded ({error})") from None
        return self._global({bound: loaded}, bound, node)

    def _class(self, kind: type) -> list[Any]:
        body: Any = parsed(sys.modules[kind.__module__].__file__ or "")
        for name in kind.__qualname__.split("."):
            own = (n for n in getattr(body, "body", ()) if isinstance(n, ast.ClassDef) and n.name == name)
            if (body := next(own, None)) is None:
                raise NotFollowed(f"the source of the class {kind.__qualname__} is not found")
        unwrapped = [next((getattr(e, n) for n in WRAPPED if hasattr(e, n)), e) for e in vars(kind).values()]
        methods = [each for each in unwrapped if isinstance(each, types.FunctionType)]
        reached = [self.value(each) for each in methods if not each.__code__.co_filename.startswith("<")]
        # What its body computes of other values, or is set later.
        data = {n: e for n, e in vars(kind).items() if n[:1] != "_" and (type(e) in PLAIN or hasattr(e, "tobytes"))}
        reached += [self.value(data)] if data else []
        reached += [self.value(type(kind))] if self._is_followed(type(kind).__module__) else []
        return [shape(body), reached, [self.value(base) for base in kind.__bases__ if base is not object]]


def of_kernel(value: Any) -> tuple[Any, ...]:
    """Return what a kernel of Triton or CuPy, or a constant for one, consists of; nothing for other objects.

    A text that includes files is none of them.
    """
    kind, function = type(value), getattr(value, "fn", None)
    if (kind.__module__, kind.__name__) == RAW and value.code and "#include" not in value.code:
        return tuple(getattr(value, name) for name in GIVEN_RAW)
    if kind.__module__ == JIT and isinstance(function, types.FunctionType):
        return function, str(function.__annotations__), *(getattr(value, name, None) for name in GIVEN)
    return (value.value,) if (kind.__module__, kind.__name__) == (f"{LANGUAGE}.core", "constexpr") else ()


def shape(node: Any) -> Any:
    """Describe a syntax tree without docstrings, annotations and positions, equally in all versions of Python."""
    if isinstance(node, list):
        kept = [each for each in node if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
        return [shape(each) for each in kept]
    if not isinstance(node, ast.AST):
        return [type(node).__name__, repr(node)]
    left_out = ("annotation", "ctx", "kind", "returns", "type_comment", "type_params")
    fields = [(name, each) for name, each in ast.iter_fields(node) if name not in left_out and each not in (None, [])]
    return [type(node).__name__, *([name, shape(each)] for name, each in fields)]


def refuse_unfollowed(node: ast.AST) -> None:
    """Raise NotFollowed where a function changes a global variable, or loads a shared library by its path.

    A library of the system has a name alone.
    """
    for call in ast.walk(node):
        if isinstance(call, ast.Global):
            raise NotFollowed(f"it changes the global variable {call.names[0]}")
        if not isinstance(call, ast.Call):
            continue
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if name in ("CDLL", "PyDLL", "LoadLibrary") and call.args:
            file = getattr(call.args[0], "value", None)
            if not isinstance(file, str) or "/" in file:
                raise NotFollowed(f"it loads {ast.unparse(call.args[0])}, a library whose code is not recorded")


def dotted_in(node: ast.AST) -> Iterator[list[str]]:
    """Yield the names in a syntax tree, each with the attributes that are taken from it: ``a.b.c``."""
    path: list[str] = []
    while isinstance(node, ast.Attribute):
        path.insert(0, node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        yield [node.id, *path]
    else:
        yield from itertools.chain.from_iterable(map(dotted_in, ast.iter_child_nodes(node)))


def global_names(code: types.CodeType) -> set[str]:
    """Return the names that a function and those inside it take from its module or from the built-in ones."""
    names = {each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return names.union(*(global_names(each) for each in code.co_consts if isinstance(each, types.CodeType)))


def node_of(code: types.CodeType) -> Any:
    """Find a function in its file by where its instructions come from. Raises NotFollowed."""
    begun_there = functions_in(code.co_filename).get(code.co_firstlineno, [])
    nodes = [node for node in begun_there if getattr(node, "name", "<lambda>") == code.co_name]
    if len(nodes) > 1:  # several on one line
        places = [(row, column) for row, _, column, end in code.co_positions() if row and column is not None and end]
        nodes = [node for node in nodes if places and all(is_within(place, node.body) for place in places)]
    if not nodes or code not in codes_in(code.co_filename):  # it may have been changed since it was loaded
        raise NotFollowed(f"the source of {code.co_name} is not found in {Path(code.co_filename).name}")
    return min(nodes, key=lambda node: (node.end_lineno - node.lineno, node.end_col_offset - node.col_offset))


def first_line(node: Any) -> int:
    """The first line of a function, its decorators included."""
    return min(int(each.lineno) for each in (node, *getattr(node, "decorator_list", ())))


def is_within(place: tuple[int, int], body: Any) -> bool:
    first, last = (body[0], body[-1]) if isinstance(body, list) else (body, body)
    return (first.lineno, first.col_offset) <= place < (last.end_lineno, last.end_col_offset)
