"""Writes what a revision declares, as JSON: ``python -I declarations.py TREE OUTPUT MODULE [FOLDER ...]``.

This script is run by declared.py. OUTPUT: a file descriptor, so that what the revision prints does not mix with it.
MODULE: the package or module that declares its kernels. FOLDER: where packages are, such as NumPy, that an isolated
Python does not find by itself. Standard input: the architecture of this GPU, such as sm_90, for functions that return
machine code; it is read when the first of them is called, because this script is started before the GPU is known.

It imports that package from that tree, and the revision's own engine where the tree has one. It relies on what
revisions have in common: FAMILIES, or the families by themselves, ``timed_cases``, and of a case its id, launch,
source, macros and arguments.
"""

from __future__ import annotations

import ast
import base64
import dataclasses
import dis
import enum
import functools
import hashlib
import importlib
import importlib.util
import inspect
import itertools
import json
import math
import resource
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

FIRST, SPACING = 1 << 44, 1 << 40  # stand-ins for pointers, far enough apart to tell offsets
MOST_BYTES = 2**26  # the largest file that the revision's code may write


class NotFollowed(Exception):
    """Raised where it cannot be told what a function of a declaration does; the message says what stands in the way."""


def declared(case: Any, tree: Path, architecture: Callable[[], str] = str) -> dict[str, Any]:
    """Describe one case of the revision that lies in ``tree``. ``architecture``: returns that of this GPU."""
    build, variant = case.build, case.variant
    return {
        "code": machine_code(build, architecture),
        "source": source_name(build.source, tree),
        "macros": macros(build),
        "own_macros": own_macros(build),
        "entries": entries_of(case),
        "flags": list(getattr(variant, "flags", ())),
        "include": [source_name((build.family.folder / each).resolve(), tree) for each in included(variant)],
        "identity": identity(case, tree),
    }


def identity(case: Any, tree: Path) -> dict[str, Any]:
    """Describe what decides a case's work, as warpwatch/runs/identity.py has it, without its machine code."""
    variant, why = case.variant, dict[str, str]()

    def known(part: str, describe: Callable[[Any, Path], Any]) -> Any:
        try:
            return describe(case, tree)
        except NotFollowed as error:
            why[part] = "".join(c if " " <= c <= "~" else "?" for c in str(error))[:300]
            return None

    return {
        "version": 1,
        "steps": described_steps(case),
        "arrays": arrays_of(case),
        "symbols": symbols_of(variant),
        "draw": known("draw", drawn),
        "call": call_name(variant),
        "source": known("source", prepared),
        "library": " ".join(map(need_name, needs_of(variant))),
        "why": why,
    }


def arrays_of(case: Any) -> list[dict[str, Any]]:
    """Describe each array; older revisions have operands and one result, all of the case's element type."""
    if hasattr(case, "arrays"):
        return [array_of(array) for array in case.arrays]
    result = case.family.result(case.shape) if case.family.result else None
    arrays = [(name, shape, "in") for name, shape in case.family.operands(case.shape).items()]
    arrays += [(result[0], result[1], "out")] if result else []
    return [{"name": name, "role": role, "shape": list(shape), "dtype": case.dtype} for name, shape, role in arrays]


def array_of(array: Any) -> dict[str, Any]:
    role = getattr(array, "role", None)
    numbers = {name: getattr(array, name, None) for name in ("initial", "low", "high")}
    return {
        "name": array.name,
        "role": role.value if role else "out" if array.is_result else "in",
        "shape": list(array.shape),
        "dtype": getattr(array, "dtype", ""),
        "aligned": getattr(array, "aligned", 0),
        **{name: None if value is None else number(value) for name, value in numbers.items()},
    }


def described_steps(case: Any) -> list[dict[str, Any]]:
    """Describe each launch: kernel, grid, block and arguments by value."""
    arrays = [array["name"] for array in arrays_of(case)]
    return [
        {
            "entry": entry,
            "grid": list(launch.grid),
            "block": list(launch.block),
            "shared_bytes": launch.shared_bytes,
            "cluster": list(getattr(launch, "cluster", (1, 1, 1))),
            "arguments": [described(value, arrays) for value in values],
            "names": names,
        }
        for entry, launch, values, names in steps_of(case, arrays)
    ]


def steps_of(case: Any, arrays: Sequence[str]) -> list[tuple[str, Any, Sequence[Any], Sequence[str]]]:
    """Kernel, launch, arguments and their names of each launch, for pointers that stand for arrays of these names."""
    pointers = [FIRST + i * SPACING for i in range(len(arrays))]
    if call_name(case.variant):
        given = given_numbers(case)
        return [(case.entry, case.launch, tuple(given.values()), tuple(given))]
    if not hasattr(case, "steps"):  # an older revision
        entry = getattr(case, "entry", case.build.entry)
        return [(entry, case.launch, case.variant.arguments(pointers, case.shape), ())]
    at = dict(zip(arrays, pointers, strict=True))
    return [(step.entry, step.launch, case.arguments(step, at), names_of(case, step, arrays)) for step in case.steps]


def given_numbers(case: Any) -> dict[str, Any]:
    """Return the sizes and scalars that a call is prepared with, by name; older revisions do not tell."""
    given, prepare = getattr(case, "given", {}), prepare_of(case)
    return {name: given[name] for name in sorted(asked_for(prepare)) if isinstance(given.get(name), bool | int | float)}


def asked_for(function: Any) -> set[str]:
    """Return the names that a function of a declaration may be given."""
    return set(inspect.signature(function).parameters) if function else set()


def names_of(case: Any, step: Any, arrays: Sequence[str]) -> Sequence[str]:
    """Return what a declaration calls the arguments of a launch; nothing where a function returns them."""
    if not isinstance(step.arguments, str):
        return ()
    words = step.arguments.split() or [*arrays, *case.family.scalars, *case.family.sizes]
    return [word.partition(":")[0] for word in words]


def macros(build: Any) -> dict[str, str]:
    """Return the macros that a kernel's file is compiled with, without those that its entry alone sees."""
    return dict(kernels_of(build).macros if is_named(build) else build.macros)


@functools.cache
def given_architecture() -> str:
    """Return the architecture of this GPU, which standard input brings."""
    return sys.stdin.read()


@functools.cache
def compiling(name: str) -> Any:
    """Import a module of the engine's room for compilation, which older revisions do not have."""
    try:
        return importlib.import_module(f"warpwatch.devices.compile.{name}")
    except ModuleNotFoundError:
        return importlib.import_module(f"warpwatch.devices.{name}")


@functools.cache
def machine_code(build: Any, architecture: Callable[[], str]) -> str:
    """Machine code that a function of the declaration returns, in base64; empty where the kernel has a file."""
    if not callable(getattr(build.variant, "source", "")):
        return ""
    code = compiling("builds").returned_code(build, architecture())
    return base64.b64encode(code).decode()


def own_macros(build: Any) -> dict[str, str]:
    """Macros that every kernel is given; in older revisions they are among the others."""
    return dict(kernels_of(build).own_macros if is_named(build) else getattr(build, "own_macros", {}))


def is_named(build: Any) -> bool:
    """Tell whether a build is a kernel of a revision that gives its own macros apart from the declaration's."""
    return hasattr(build, "own_macros") and not call_name(build.variant)


@functools.cache  # all shapes of a build ask, and the files of a revision do not change
def kernels_of(build: Any) -> Any:
    """Return what is compiled for a build."""
    return compiling("builds").kernels_of(build)


def entries_of(case: Any) -> list[str]:
    """Every kernel that a case's build is launched by; older revisions have one for each case."""
    if not hasattr(case, "steps"):
        return [getattr(case, "entry", case.build.entry)]
    builds = compiling("builds")
    return [] if call_name(case.variant) else list(builds.entries_of(case.build))


def included(variant: Any) -> Sequence[str]:
    """Folders with headers, from the family's folder; older revisions have none."""
    return getattr(variant, "include", ())


def symbols_of(variant: Any) -> dict[str, str]:
    """Variables that inputs are copied to; older revisions name one input, and its variable after it."""
    constant = getattr(variant, "constant", "")
    return {f"constant_{constant}": constant} if constant else dict(getattr(variant, "symbols", {}))


def needs_of(variant: Any) -> Sequence[Any]:
    """Return the packages and libraries that a call needs, none for a kernel; older revisions name a library."""
    call, library = getattr(variant, "call", None), getattr(variant, "library", None)
    return getattr(call, "needs", (library,) if library else ())


def need_name(need: Any) -> str:
    """The name of a requirement, such as ``cublas``; that of its class where it has none, as the driver."""
    return need if isinstance(need, str) else str(getattr(need, "name", "") or type(need).__name__).lower()


def call_name(variant: Any) -> str:
    """Name of the call that takes a kernel's place, or nothing; older revisions call it a library."""
    library = getattr(variant, "library", None)
    if library:
        return library if isinstance(library, str) else str(library.name)
    return variant.name if getattr(variant, "call", None) else ""


def source_name(source: Any, tree: Path) -> str:
    """Path of the kernel's file from ``tree``; older revisions name it from the package ``kernels``."""
    return f"kernels/{source}" if isinstance(source, str) else source.relative_to(tree).as_posix()


def described(value: Any, arrays: Sequence[str]) -> list[Any]:
    """Describe an argument: type and value, or which array and how far into it, or a struct of such."""
    if not hasattr(value, "dtype"):
        return ["scalar", {bool: "bool", int: "int64"}.get(type(value), "float64"), number(value)]
    if value.dtype.names:
        fields = [[name, value.dtype.fields[name][1], described(value[name], arrays)] for name in value.dtype.names]
        return ["struct", value.dtype.itemsize, fields]
    if value.dtype.itemsize == 8 and value.dtype.kind == "u":
        which, offset = divmod(int(value) - FIRST, SPACING)
        if 0 <= which < len(arrays):
            return ["pointer", arrays[which], offset]
    return ["scalar", str(value.dtype), number(value)]


def number(value: Any) -> str:
    """Write a number, of NumPy or not, as the shortest text that stands for its bits and no others."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if isinstance(value, int) or kind in tuple("biu"):
        return str(int(value))
    if isinstance(value, complex) or kind == "c":
        return str(complex(value))
    plain = float(value)
    of_type: Any = type(value) if kind else float
    if math.isnan(plain):
        bits, usual = (each.tobytes() if kind else b"" for each in (value, of_type("nan")))
        return "nan" if bits == usual else f"nan0x{bits.hex()}"
    if plain.is_integer() and abs(plain) < 1 << 53:
        return ("-" if math.copysign(1, plain) < 0 else "") + str(abs(int(plain)))
    shorter = (f"{plain:.{digits}g}" for digits in range(1, 17))
    return next((text for text in shorter if of_type(float(text)) == value), repr(plain))


def drawn(case: Any, tree: Path) -> str:
    """Say how the inputs of a case are drawn: by which version of the engine's way, and by which source of its own."""
    family = case.family
    way = f"uniform {getattr(importlib.import_module('warpwatch.catalogue.inputs'), 'DRAWN', 1)}"
    if not (draw := getattr(family, "draw", None)):
        return way
    scalars = {name: number(case.given[name]) for name in sorted({*family.scalars} & asked_for(draw))}
    return " ".join((way, digest_of_source(draw, tree), *(f"{name}={value}" for name, value in scalars.items())))


def prepare_of(case: Any) -> Any:
    """Return the function that prepares a call; None for a kernel, and in older revisions."""
    return getattr(getattr(case.variant, "call", None), "prepare", None)


def prepared(case: Any, tree: Path) -> str:
    """Digest of what prepares a call; empty for a kernel. In older revisions one file prepares all calls."""
    prepare = prepare_of(case)
    if call_name(case.variant) and not prepare:
        return digest(shape(parsed(str(tree / "kernels" / "vendor.py"))))[:20]
    packages = tuple(str(getattr(need, "name", "")) for need in needs_of(case.variant))
    return digest_of_source(prepare, tree, ("ctypes", *packages)) if prepare else ""


# Packages whose functions do what their names say, wherever they are called: they are named, and not followed.
PURE = {"abc", "builtins", "cmath", "collections", "contextlib", "dataclasses", "enum", "fractions", "functools"}
PURE |= {"itertools", "math", "ml_dtypes", "numbers", "numpy", "operator", "scipy", "statistics", "struct", "types"}
PURE |= {"typing", "warpwatch"}
# Names in packages of what reads files, or code from files.
READERS = {"DataSource", "cpp_extension", "ctypeslib", "datasets", "fromfile", "fromregex", "genfromtxt", "io", "load"}
READERS |= {"load_file", "load_library", "load_npz", "loadmat", "loads", "loadtxt", "memmap", "open_memmap"}
READERS |= {"RawModule", "from_file", "import_module", "mmread"}
IMPURE = {"open", "eval", "exec", "compile", "input", "__import__", "globals", "locals", "vars"}  # built-in functions
PLAIN = (set, frozenset, dict, list, tuple, int, float, complex, str, bytes)  # a class of these may have more to it
WRAPPED = ("__func__", "fget", "func")  # attributes of what stands for a function in a class
AGAIN = ["again"]  # instead of a value that is being described


@functools.cache  # many cases ask
def digest_of_source(function: Any, tree: Path, packages: tuple[str, ...] = ()) -> str:
    """Digest a function's source and all that it reaches in ``tree``: functions, classes, constants.

    Comments, docstrings, annotations and layout do not count. ``packages``: others that may be called. Raises
    NotFollowed.
    """
    return digest(Reached(tree.resolve(), PURE | set(packages)).value(function))[:20]


def digest(found: Any) -> str:
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()


def is_named_so(value: Any) -> bool:
    """Tell whether a value is what its module has by its name: numpy.vectorize gives its own that of a function."""
    found: Any = sys.modules.get(getattr(value, "__module__", None) or type(value).__module__)
    for name in getattr(value, "__qualname__", value.__name__).split("."):
        found = getattr(found, name, None)
    return found is value


def parts_of(value: Any) -> Sequence[Any] | None:
    """Return the values that a value consists of; None where it is not known to consist of others."""
    if isinstance(value, enum.Enum):
        return type(value), value.name, value.value
    if isinstance(value, functools.partial):
        return value.func, value.args, value.keywords
    if isinstance(value, types.MethodType):
        return value.__func__, value.__self__
    if type(value).__module__ == "functools" and hasattr(value, "__wrapped__"):  # such as by functools.cache
        return (value.__wrapped__,)
    return value if isinstance(value, list | tuple) else None


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
    found: set[types.CodeType] = set()
    waiting = [compile(parsed(file), file, "exec", dont_inherit=True)]
    while waiting:
        found.add(code := waiting.pop())
        waiting += [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return frozenset(found)


class Reached:
    """Describes values that a function reaches, as lists of texts. ``tree``: what lies there is followed."""

    def __init__(self, tree: Path, packages: set[str]) -> None:
        self._tree, self._packages = tree, packages
        self._known: dict[int, tuple[Any, list[Any]]] = {}  # with the value, so that no other gets its number

    def value(self, value: Any) -> list[Any]:
        """Describe a value. Raises NotFollowed."""
        if value is None or type(value) in (bool, int, float, complex, str, bytes, type(...)):
            return [type(value).__name__, repr(value)]
        if id(value) not in self._known:
            self._known[id(value)] = value, AGAIN
            self._known[id(value)] = value, [type(value).__name__, digest(self._describe(value))]
        return self._known[id(value)][1]

    def _describe(self, value: Any) -> list[Any]:
        kind = type(value)
        if not isinstance(value, enum.Enum) and kind not in PLAIN and issubclass(kind, PLAIN):
            return [self.value(kind), self.value(getattr(value, "__dict__", None)), *self._contents(value)]
        return self._contents(value)

    def _contents(self, value: Any) -> list[Any]:
        if isinstance(value, set | frozenset):
            return [self.value(each) for each in sorted(value, key=repr)]
        if isinstance(value, dict | types.MappingProxyType):
            return [[self.value(key), self.value(each)] for key, each in value.items()]
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, type):
            return self._class(value) if self._is_followed(value.__module__) else self._named(value)
        if isinstance(value, types.ModuleType):
            raise NotFollowed(f"the module {value.__name__} is passed on as a value")
        return [self.value(each) for each in parts] if (parts := parts_of(value)) is not None else self._object(value)

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
        """Name what is not followed."""
        module = getattr(value, "__module__", None) or type(value).__module__
        name = getattr(value, "__qualname__", value.__name__)
        self._allow(module, f"{module}.{name}", value.__name__)
        return [module.partition(".")[0], name]

    def _allow(self, module: str, shown: str, name: str = "") -> None:
        """Raise NotFollowed for what may read a file, a clock, or the environment."""
        top = module.partition(".")[0]
        if top not in self._packages or name in READERS:
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
        refuse_own_libraries(node)
        names = sorted(name for name in global_names(code) if name not in cells)
        reached = [[name, self._global(function.__globals__, name, node)] for name in names]
        return [shape(node), *(self.value(each) for each in given), reached, self._imports(function, node)]

    def _global(self, known: Mapping[str, Any], name: str, node: ast.AST) -> list[Any]:
        if name in known:
            value = known[name]
            chains = [path[1:] for path in dotted_in(node) if path[0] == name]
            return self._module(value, chains) if isinstance(value, types.ModuleType) else self.value(value)
        if name in IMPURE:
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
        found: list[Any] = []
        for first, rest in itertools.groupby(sorted(set(map(tuple, chains))), key=lambda chain: chain[:1]):
            value: Any = getattr(module, first[0], None) if first else module
            inner = [chain[1:] for chain in rest]
            inside = bool(first) and isinstance(value, types.ModuleType)
            found.append([*first, self._module(value, inner) if inside else self.value(value)])
        return found

    def _imports(self, function: types.FunctionType, node: ast.AST) -> list[Any]:
        """Describe what a function imports itself."""
        found: list[Any] = []
        for each in ast.walk(node):
            if isinstance(each, ast.Import):
                wanted = [(alias.name, "", alias.asname or alias.name.partition(".")[0]) for alias in each.names]
            elif isinstance(each, ast.ImportFrom):
                relative = "." * each.level + (each.module or "")
                name = importlib.util.resolve_name(relative, function.__globals__.get("__package__"))
                wanted = [(name, alias.name, alias.asname or alias.name) for alias in each.names]
            else:
                continue
            found += [self._imported(module, name, bound, node) for module, name, bound in wanted]
        return found

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


def refuse_own_libraries(node: ast.AST) -> None:
    """Raise NotFollowed where a function loads a shared library by its path: one of the system has a name alone."""
    for call in (each for each in ast.walk(node) if isinstance(each, ast.Call)):
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if name in ("CDLL", "PyDLL", "LoadLibrary") and call.args:
            file = getattr(call.args[0], "value", None)
            if not isinstance(file, str) or "/" in file:
                raise NotFollowed(f"it loads {ast.unparse(call.args[0])}, a library whose code is not recorded")


def dotted_in(node: ast.AST) -> Iterator[list[str]]:
    """Yield the names in a syntax tree, each with the attributes that are taken from it: ``a.b.c``."""
    path: list[str] = []
    inner = node
    while isinstance(inner, ast.Attribute):
        path.insert(0, inner.attr)
        inner = inner.value
    if isinstance(inner, ast.Name):
        yield [inner.id, *path]
    else:
        for child in ast.iter_child_nodes(inner):
            yield from dotted_in(child)


def global_names(code: types.CodeType) -> set[str]:
    """Return the names that a function and those inside it take from its module or from the built-in ones."""
    names = {each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return names.union(*(global_names(each) for each in code.co_consts if isinstance(each, types.CodeType)))


def node_of(code: types.CodeType) -> Any:
    """Find a function in its file by where its instructions come from. Raises NotFollowed."""
    kinds = (ast.Lambda,) if code.co_name == "<lambda>" else (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes: list[Any] = [node for node in ast.walk(parsed(code.co_filename)) if isinstance(node, kinds)]
    places = [(row, column) for row, _, column, end in code.co_positions() if row and column is not None and end]
    found = [n for n in nodes if first_line(n) == code.co_firstlineno and getattr(n, "name", "") in ("", code.co_name)]
    if len(found) > 1:  # several on one line
        found = [node for node in found if places and all(is_within(place, node.body) for place in places)]
    if not found or code not in codes_in(code.co_filename):  # it may have been changed since it was loaded
        raise NotFollowed(f"the source of {code.co_name} is not found in {Path(code.co_filename).name}")
    return min(found, key=lambda node: (node.end_lineno - node.lineno, node.end_col_offset - node.col_offset))


def first_line(node: Any) -> int:
    """The first line of a function, its decorators included."""
    return min(int(each.lineno) for each in (node, *getattr(node, "decorator_list", ())))


def is_within(place: tuple[int, int], body: Any) -> bool:
    """Tell whether a place is in the body of a function."""
    first, last = (body[0], body[-1]) if isinstance(body, list) else (body, body)
    return (first.lineno, first.col_offset) <= place < (last.end_lineno, last.end_col_offset)


def families_of(package: Any) -> tuple[Any, ...]:
    """Return what a revision declares: FAMILIES, or every Family of the package in order of definition."""
    listed = getattr(package, "FAMILIES", None)
    found = [value for value in vars(package).values() if type(value).__name__ == "Family"]
    families = tuple(dict.fromkeys(found) if listed is None else listed)
    if not families:
        raise LookupError(f"{package.__name__} declares no Family")
    return families


def engine(folder: Path, module: str) -> tuple[Any, Any]:
    """Find the function that lists a revision's timed cases, and its compiler module."""
    if not (folder / "catalogue.py").exists():
        selection = importlib.import_module("warpwatch.catalogue.selection")
        return selection.timed_cases, compiling("compiler")
    # In older revisions of this suite the engine was no package of its own.
    listing = "selection" if (folder / "selection.py").exists() else "catalogue"
    return importlib.import_module(f"{module}.{listing}").timed_cases, importlib.import_module(f"{module}.compiler")


def untimed_cases(families: Sequence[Any], timed: set[Any]) -> list[Any]:
    """List a case of each build that is tested and not timed; none in revisions whose engine was no package."""
    try:
        tested_cases = importlib.import_module("warpwatch.catalogue.selection").tested_cases
    except (ImportError, AttributeError):
        return []
    first = {case.build: case for case in reversed(tested_cases(families)) if case.build not in timed}
    return [case for case in reversed(first.values()) if not case.variant.on_host]


def main() -> None:
    tree, output, module, *packages = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES, MOST_BYTES))
    sys.path[:] = [tree, *(path for path in sys.path if Path(path) != Path(__file__).parent), *packages]
    package = importlib.import_module(module)
    if not Path(package.__file__ or "").is_relative_to(tree):  # a package of that name elsewhere on the path
        raise ModuleNotFoundError(f"No module named {module!r} in this revision")
    families = families_of(package)
    timed_cases, compiler = engine(Path(tree, *module.split(".")), module)
    cases = [case for case in timed_cases(families) if not case.variant.on_host]
    said = {case.id: declared(case, Path(tree), given_architecture) for case in cases}
    rest = untimed_cases(families, {case.build for case in cases})
    untimed = {case.id: declared(case, Path(tree), given_architecture) for case in rest}
    document = {"flags": list(compiler.NVCC_FLAGS), "cases": said, "untimed": untimed}
    with open(int(output), "w") as file:
        file.write(json.dumps(document))  # json.dump() takes five times as long


if __name__ == "__main__":
    main()
