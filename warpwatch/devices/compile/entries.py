"""Compiles kernels that a declaration names as C++ does: in namespaces, of templates, overloaded or static ones.

The names that a compiler gives to such kernels cannot be told from the text: types may be typedefs or macros, and
arguments of templates may be left out. So the compiler is asked. The user's file is included by another one that has a
table with the address of each kernel. That makes instances of templates as a launch would, and the image's relocations
say which kernel is in which place of the table. The kernels' machine code is the same without it (nvcc 13.0).
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from warpwatch.catalogue.texts import Text
from warpwatch.devices.compile.compiler import (
    ENGINE,
    NVCC_FLAGS,
    CompileError,
    Image,
    Target,
    compile_file,
    compile_text,
    cure_of,
    name_from,
    read_image,
)
from warpwatch.devices.compile.ready import READY, code_image, find_entries
from warpwatch.devices.compile.symbols import demangled, entries, opening, pointed_to

TABLE = "warpwatch_entries"
# How a text names headers of a package, the package, and the folder in it that they lie in.
PACKAGED = (("#include <pycuda-", "pycuda", "cuda"), ("#include <cupy/", "cupy", "_core/include"))
ENTRY = "entry"  # the file of the table's lines, in compilers' messages
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
INNERMOST = re.compile(r"\([^][(){}]*\)|\[[^][(){}]*\]|\{[^][(){}]*\}")  # brackets that match, without any inside
KERNEL = re.compile(r"([^;{}]*)\b__global__\b[^;{}(]*?\b(\w+)\s*\(")
NO_KERNEL = re.compile(r"//[^\n]*|/\*.*?\*/|__launch_bounds__\s*\((?:[^()]|\([^()]*\))*\)", re.DOTALL)
ERROR = re.compile(r"^(.*?)[(:](\d+)(?:\)|:\d+)?: (?:fatal )?error(?: #\S+)?: (.*)", re.MULTILINE)


def needs_names(entry: str) -> bool:
    """Return whether an entry is more than an identifier, so that the compiler has to be asked for its symbol.

    A plain identifier may be a C++ function too; that is seen when the image has no symbol of that name.
    """
    return not IDENTIFIER.fullmatch(entry)


@dataclass(frozen=True, kw_only=True)
class Kernels:
    """Names what is compiled: a source, and the kernels of it that are launched.

    ``source``: a ``.cu`` file, or machine code (READY); where there is a ``text``, the file that this comes from.
    ``entries``: names such as ``ln::forward<scalar_t, ROWS>``, in which macros may stand, ``scale(float*, int)``,
    ``hidden`` or the name of an ``extern "C"`` kernel. ``macros``: those that the declaration names. ``own_macros``:
    those that every kernel is given, such as scalar_t; a source whose kernels have C++ names does not see them, because
    it may use these words for something else.
    """

    source: Path
    entries: tuple[str, ...]
    macros: Mapping[str, str]
    own_macros: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = NVCC_FLAGS
    include: tuple[Path, ...] = ()
    root: Path = ENGINE
    text: Text | None = None

    @property
    def all_macros(self) -> dict[str, str]:
        return {**self.own_macros, **self.macros}

    @property
    def are_named(self) -> bool:
        """True where a kernel has a name of C++, so that the compiler is asked for its symbol."""
        return any(map(needs_names, self.entries))

    @property
    def seen_macros(self) -> Mapping[str, str]:
        """The macros that the source itself sees."""
        return self.macros if self.are_named else self.all_macros


def compile_entries(kernels: Kernels, target: Target) -> Image:
    """Compile a source and return its image, which has each of the kernels. Raises CompileError."""
    source, names, shown = kernels.source, kernels.entries, name_from(kernels.root, kernels.source)
    if source.suffix in READY and not kernels.text:
        try:
            image = code_image(source.read_bytes(), str(source), target)
        except OSError as error:
            raise CompileError(f"{source} cannot be read: {error.strerror}") from None
        find_entries(image.path, names, str(shown))
        return image
    for name in names:
        _check(name)
    plain = functools.partial(_compile_plain, kernels, target)
    if not kernels.are_named:
        image = plain()
        if set(names) <= set(entries(read_image(image.path))):
            return image
    try:
        image = _compile_table(kernels, target)
    except CompileError:
        _find_wrong(kernels, plain(), target)  # plain() raises where the file itself is wrong
        raise
    code = read_image(image.path)
    known = set(entries(code))
    for name, symbol in zip(names, pointed_to(code, TABLE), strict=True):
        if symbol not in known:
            raise CompileError(f"{name} of {shown} is not a kernel (__global__): {_kernels(kernels, known)}")
    return image


def _folders(kernels: Kernels) -> tuple[Path, ...]:
    """Return the folders with headers; those of PyCUDA and CuPy are found where a text asks for one, as they do it."""
    asked_for = [home for begin, *home in PACKAGED if kernels.text and begin in kernels.text.code]
    specs = ((importlib.util.find_spec(package), below) for package, below in asked_for)
    packaged = [
        Path(folder, below) for spec, below in specs if spec for folder in spec.submodule_search_locations or ()
    ]
    return *kernels.include, *packaged


def _compile_plain(kernels: Kernels, target: Target) -> Image:
    """Compile a source as it is. Raises CompileError."""
    settings = kernels.flags, kernels.seen_macros, kernels.root, _folders(kernels)
    if kernels.text:
        shown, text = str(name_from(kernels.root, kernels.source)), kernels.text.numbered(kernels.root)
        return compile_text(text, f"{kernels.source.stem}.cu", target, *settings, shown=shown)
    flags, macros, root, include = settings
    return compile_file(kernels.source, macros, target, flags, root, include)


def _address(name: str) -> str:
    """Return the expression of a kernel's address. ``scale(float*, int)``: the overload with these parameters."""
    if not name.endswith(")"):
        return f"(&{name})"
    position = opening(name)
    return f"static_cast<void (*){name[position:]}>(&{name[:position].strip()})"


def _check(name: str) -> None:
    """Raise CompileError for what cannot be the name of a kernel, and would be other C++ in the table."""
    rest, matched = name, 1
    while matched:
        rest, matched = INNERMOST.subn("", rest)
    if re.search(r"[][(){}]", rest) or not re.fullmatch(r"(?:::)?[A-Za-z_][^;\"#\\\n]*", name):
        example = "such as ns::scale, scale<float, 4> or scale(float*, int)"
        raise CompileError(f"{name!r} is not a valid name of a kernel: write it as C++ does, {example}")


def _compile_table(kernels: Kernels, target: Target) -> Image:
    """Compile a file that includes a source, and has a table of its kernels. Raises CompileError."""
    source, macros = name_from(kernels.root, kernels.source), kernels.own_macros if kernels.are_named else {}
    if re.search(r'["\\\n]', str(source)):
        raise CompileError(f"{str(source)!r} cannot be included: use a path without quotation marks and backslashes")
    included = kernels.text.numbered(kernels.root) if kernels.text else f'#include "{source}"'
    lines = [included, *(f"#define {name} {value}" for name, value in macros.items())]
    lines += ['extern "C" {', f"__device__ const void* {TABLE}[] = {{"]
    lines += [f'#line 1 "{ENTRY}"', *(f"    (const void*){_address(name)}," for name in kernels.entries), "};", "}", ""]
    return compile_text(
        "\n".join(lines),
        f"{TABLE}.cu",
        target,
        kernels.flags,
        kernels.seen_macros,
        kernels.root,
        _folders(kernels),
        None if kernels.text else kernels.source,
    )


def _find_wrong(kernels: Kernels, plain: Image, target: Target) -> None:
    """Raise CompileError for the first of the kernels that does not compile by itself, in one sentence that says why.

    Either the name is wrong, which is an error in the table, or a template does not compile for these arguments, which
    is an error in the source. The compiler's own words follow.
    """
    shown = name_from(kernels.root, kernels.source)
    for name in kernels.entries:
        try:
            _compile_table(replace(kernels, entries=(name,)), target)
        except CompileError as wrong:
            output = str(wrong).partition("\n")[2]
            error = ERROR.search(output)
            where, line, why = error.groups() if error else ("", "0", "the compiler gives no reason")
            sentence = f"{name} of {shown} does not compile: {why} ({where}:{line})"
            if where == ENTRY and (cure := cure_of(output)):
                sentence = f"{name}: {shown} does not compile for this type{cure}"
            elif where == ENTRY:
                has = _kernels(kernels, entries(read_image(plain.path)))
                sentence = f"{name} names no kernel of {shown}: {why}; {has}"
            raise CompileError(f"{sentence}\n{output}") from None


def _kernels(kernels: Kernels, symbols: Iterable[str]) -> str:
    """List the kernels of an image as C++ writes them, and the templates of a file that have no instance there."""
    known = demangled(sorted(symbols))
    with contextlib.suppress(OSError):
        text = kernels.text.code if kernels.text else kernels.source.read_text(errors="replace")
        text = NO_KERNEL.sub(" ", text)
        known += dict.fromkeys(
            f"{name}<...>" for head, name in KERNEL.findall(text) if re.search(r"\btemplate\b", head)
        )
    return f"the file has {', '.join(known)}" if known else "the file has no kernel"
