"""Compiles kernels that a declaration names as C++ does: in namespaces, of templates, overloaded or static ones.

The names that a compiler gives to such kernels cannot be told from the text: types may be typedefs or macros, and
arguments of templates may be left out. So the compiler is asked. The user's file is included by another one that has a
table with the address of each kernel. That makes instances of templates as a launch would, and the image's relocations
say which kernel is in which place of the table. The kernels' machine code is the same without it (nvcc 13.0).
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from warpwatch.devices.compile.compiler import (
    ENGINE,
    NVCC_FLAGS,
    Compiled,
    CompileError,
    Image,
    Target,
    all_flags,
    compile_bytes,
    compile_file,
    compiled,
    key_of,
    link_all,
    name_from,
    nvcc,
    read_image,
)
from warpwatch.devices.compile.ready import READY, code_image, find_entries
from warpwatch.devices.compile.symbols import demangled, entries, opening, pointed_to

TABLE = "warpwatch_entries"
ENTRY = "entry"  # the file of the table's lines, in compilers' messages
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
# What stands for the path of a compiled file in the names of an anonymous namespace.
PATH_HASH = re.compile(rb"(_GLOBAL__N__|_INTERNAL_)[0-9a-f]{8}(?=_)")
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

    ``source``: a ``.cu`` file, or machine code (READY). ``entries``: names such as ``ln::forward<scalar_t, ROWS>``, in
    which macros may stand, ``scale(float*, int)``, ``hidden`` or the name of an ``extern "C"`` kernel. ``macros``:
    those that the declaration names. ``own_macros``: those that every kernel is given, such as scalar_t; a source whose
    kernels have C++ names does not see them, because it may use these words for something else.
    """

    source: Path
    entries: tuple[str, ...]
    macros: Mapping[str, str]
    own_macros: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = NVCC_FLAGS
    include: tuple[Path, ...] = ()
    root: Path = ENGINE

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


def compile_entries(kernels: Kernels, target: Target | None) -> Image:
    """Compile a source and return its image, which has each of the kernels. Raises CompileError.

    ``target``: None for the host, whose functions have C names.
    """
    source, names, root = kernels.source, kernels.entries, kernels.root
    if source.suffix in READY:
        image = ready_image(source, target)
        find_entries(image.path, names, str(name_from(root, source)))
        return image
    if target is None:
        return compile_file(source, kernels.all_macros, None, root=root, include=kernels.include)
    for name in names:
        _check(name)
    if not kernels.are_named:
        image = compile_file(source, kernels.all_macros, target, kernels.flags, root, kernels.include)
        if set(names) <= set(entries(read_image(image.path))):
            return image
    try:
        image = _compile_table(kernels, target)
    except CompileError:
        # Raises where the file itself is wrong.
        plain = compile_file(source, kernels.seen_macros, target, kernels.flags, root, kernels.include)
        _find_wrong(kernels, plain, target)
        raise
    code = read_image(image.path)
    known = set(entries(code))
    for name, symbol in zip(names, pointed_to(code, TABLE), strict=True):
        if symbol not in known:
            has = _kernels(source, known)
            raise CompileError(f"{name} of {name_from(root, source)} is not a kernel (__global__): {has}")
    return image


def ready_image(source: Path, target: Target | None) -> Image:
    """Return a file of machine code as an image. Raises CompileError where it cannot run on the target's device."""
    try:
        code = source.read_bytes()
    except OSError as error:
        raise CompileError(f"{source} cannot be read: {error.strerror}") from None
    return code_image(code, str(source), target)


def table_text(source: str, names: Sequence[str], macros: Mapping[str, str]) -> str:
    """Return a file that includes ``source``, and has a table of the kernels of these names, in which macros stand."""
    lines = [f'#include "{source}"', *(f"#define {name} {value}" for name, value in macros.items())]
    lines += ['extern "C" {', f"__device__ const void* {TABLE}[] = {{"]
    lines += [f'#line 1 "{ENTRY}"', *(f"    (const void*){_address(name)}," for name in names)]
    return "\n".join((*lines, "};", "}", ""))


def _address(name: str) -> str:
    """Return the expression of a kernel's address. ``scale(float*, int)``: the overload with these parameters."""
    if not name.endswith(")"):
        return f"(&{name})"
    position = opening(name)
    return f"static_cast<void (*){name[position:]}>(&{name[:position].strip()})"


def _check(name: str) -> None:
    """Raise CompileError for what cannot be the name of a kernel, and would be other C++ in the table."""
    opened, pairs = [], {")": "(", "]": "[", "}": "{"}
    for character in name:
        if character in pairs.values():
            opened.append(character)
        elif character in pairs and (not opened or opened.pop() != pairs[character]):
            opened = ["wrong"]
            break
    if opened or not re.fullmatch(r"(?:::)?[A-Za-z_][^;\"#\\\n]*", name):
        example = "such as ns::scale, scale<float, 4> or scale(float*, int)"
        raise CompileError(f"{name!r} is not a valid name of a kernel: write it as C++ does, {example}")


def _compile_table(kernels: Kernels, target: Target) -> Image:
    """Compile a source with the table of its kernels. Raises CompileError."""
    compiler, root, source = nvcc(target.program), kernels.root, kernels.source
    flags = all_flags(kernels.seen_macros, target, kernels.flags, root, kernels.include)
    name = name_from(root, source)
    if re.search(r'["\\\n]', str(name)):
        raise CompileError(f"{str(name)!r} cannot be included: use a path without quotation marks and backslashes")
    text = table_text(str(name), kernels.entries, kernels.own_macros if kernels.are_named else {})
    key = key_of(compiler, flags, text, source)

    def make() -> Compiled:
        with tempfile.TemporaryDirectory(prefix="warpwatch-", ignore_cleanup_errors=True) as folder:
            main = Path(folder, f"{TABLE}.cu")
            main.write_bytes(os.fsencode(text))
            link_all(root, Path(folder))
            try:
                contents, needed = compile_bytes(compiler, flags, Path(main.name), Path(folder), project=root)
            except CompileError as error:
                raise CompileError(str(error).replace(f"{folder}/", "")) from None
            # So the image does not depend on the folder's name.
            return PATH_HASH.sub(rb"\g<1>00000000", contents) if compiler.is_nvidias else contents, needed

    return compiled(source.stem, key, ".cubin", root, make, source)


def _find_wrong(kernels: Kernels, plain: Image, target: Target) -> None:
    """Raise CompileError for the first of the kernels that does not compile by itself."""
    for name in kernels.entries:
        try:
            _compile_table(replace(kernels, entries=(name,)), target)
        except CompileError as error:
            raise CompileError(_explain(str(error), kernels.source, kernels.root, name, plain)) from None


def _explain(message: str, source: Path, root: Path, name: str, plain: Image) -> str:
    """Return in one sentence what a compiler says of a table of one kernel, followed by the compiler's own words.

    Either the name is wrong, which is an error in the table, or a template does not compile for these arguments, which
    is an error in the source.
    """
    shown, output = name_from(root, source), message.partition("\n")[2]
    error = ERROR.search(output)
    where, line, why = error.groups() if error else ("", "0", "the compiler gives no reason")
    if where == ENTRY:
        has = _kernels(source, entries(read_image(plain.path)))
        return f"{name} names no kernel of {shown}: {why}; {has}\n{output}"
    return f"{name} of {shown} does not compile: {why} ({where}:{line})\n{output}"


def _kernels(source: Path, symbols: Iterable[str]) -> str:
    """List the kernels of an image as C++ writes them, and the templates of a file that have no instance there."""
    known = demangled(sorted(symbols))
    with contextlib.suppress(OSError):
        text = NO_KERNEL.sub(" ", source.read_text(errors="replace"))
        known += dict.fromkeys(
            f"{name}<...>" for head, name in KERNEL.findall(text) if re.search(r"\btemplate\b", head)
        )
    return f"the file has {', '.join(known)}" if known else "the file has no kernel"
