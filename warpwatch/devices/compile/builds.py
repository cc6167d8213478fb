"""Compiles builds: a kernel's file, or machine code that is there already, in one configuration and element type."""

from __future__ import annotations

import contextlib
import functools
import re
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from pathlib import Path

from warpwatch.catalogue import named_arguments
from warpwatch.catalogue.cases import Build, Case, given_of
from warpwatch.catalogue.elements import C_TYPES
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import builds
from warpwatch.catalogue.suspicious import Remark, in_cuda, in_python
from warpwatch.catalogue.texts import Text, returned_text
from warpwatch.catalogue.variants import Variant
from warpwatch.devices.atomic_write import write_whole
from warpwatch.devices.compile.compiler import (
    NVCC_FLAGS,
    CompileError,
    Image,
    Target,
    compile_file,
    compile_text,
    digest_of,
    name_from,
    nvcc,
    permitted,
    private_folder,
    read_image,
)
from warpwatch.devices.compile.entries import TABLE, Kernels, compile_entries, needs_names
from warpwatch.devices.compile.ready import READY, code_image, find_entries, is_ptx
from warpwatch.devices.compile.symbols import pointed_to
from warpwatch.devices.machine import DeviceError

# A macro, a constant, or a parameter of a template of that name.
DEFINED = r"#\s*define\s+%s\b|\b(?:int|unsigned|size_t|auto|typename|class|using)\s+%s\b"
# Any other place where a word may be a name of the file's own: behind a type, or a member.
OWN_NAME = r"\btypedef\b[^;{}]*\b%s\s*;|(?:::|\.|->)\s*%s\b|[,{]\s*%s\s*="
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">\0\n]+)[">].*$', re.MULTILINE)
COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
EXTERN_C = re.compile(r'\bextern\s+"C"\s*\{')
GLOBAL = r"\b(?:using|class|struct|enum|auto|int|unsigned|size_t)\s+%s\b|\btypedef\b[^;]*\b%s\s*;"
DEEPEST = 100  # brackets within brackets
INNER = re.compile(r"\{[^{}]*\}|\([^(){};]*\)|<[^<>{};]*>")  # what is in brackets
PARAMETER = r"\btemplate\s*<[^<>;{}]*\b%s\s*[,=>]"
DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
MISSING = (ImportError, OSError, RuntimeError)  # what lacks a GPU or a package raises, other than a mistake
MOST_LOOKED_AT = 2**20  # characters of a file in which unusual lines are looked for
ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once\b.*$", re.MULTILINE)


@functools.cache  # a build does not change, and many ask
def text_of(build: Build) -> Text | None:
    """Return the CUDA C++ of a build that the declaration has as a text; None where a file or machine code has it.

    A function that takes ``arch`` returns machine code. Raises whatever the declaration's function raises.
    """
    text = _declared_text(build)
    return text if not text or text.marks else _in_cache(text, f"{build.family.name}_{build.variant.name}.cu")


def _in_cache(text: Text, name: str) -> Text:
    """Write a text that no lines of Python show to a file, which messages then name."""
    with contextlib.suppress(CompileError, OSError):
        path = private_folder("texts") / digest_of(text.code.encode()) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            write_whole(path, text.code)
        return Text(text.code, ((0, str(path), 1),))
    return text


def _declared_text(build: Build) -> Text | None:
    source = build.variant.source
    if isinstance(source, Text) and not source.make:
        return source
    make = source.make if isinstance(source, Text) else source if callable(source) else None
    if make is None or (make is source and named_arguments.takes(make, "arch")):
        return None
    code = named_arguments.call(make, given_of(build.configuration, build.dtype))
    return returned_text(make, code) if _is_text(code) or make is not source else None


def _is_text(code: object) -> bool:
    """Tell CUDA C++ from machine code."""
    return isinstance(code, Text) or (isinstance(code, str) and not is_ptx(code.encode()))


def returns_text(variant: Variant) -> bool:
    """Tell whether a variant's function returns CUDA C++. Raises what it raises where that is not a mistake in it."""
    assert callable(variant.source)
    if named_arguments.takes(variant.source, "arch"):
        return False
    error: Exception | None = None
    for dtype in variant.dtypes or C_TYPES:
        given = given_of(variant.listed[0], dtype)
        try:
            code = named_arguments.call(variant.source, given)
        except Exception as caught:  # a declaration's own function may raise anything
            error = error or caught
        else:
            return _is_text(code)
    assert error
    if isinstance(error, MISSING) or type(error).__module__ != "builtins":
        raise error
    return True  # its compilation says what is wrong


@functools.cache  # each launch asks
def entries_of(build: Build) -> tuple[str, ...]:
    """List the kernels that a build is launched by, on the shapes that it is tested and timed on."""
    family = build.family
    shapes = dict.fromkeys((*family.tests_of(build.variant), *family.benchmarks_of(build.variant, build.dtype)))
    return tuple(dict.fromkeys(step.entry for shape in shapes for step in Case(build, shape).steps))


def kernels_of(build: Build) -> Kernels:
    """Return what is to be compiled for a build.

    A macro that is also the name of a template's parameter, in the file or in what it includes, is seen by the entry
    alone: ``scale<ROWS, scalar_t>`` may name an instance of ``template <int ROWS, typename scalar_t>``.
    """
    family, variant = build.family, build.variant
    include = tuple((family.folder / folder).resolve() for folder in variant.include)
    text = text_of(build)
    source = (text and text.file) or build.source
    if text and INCLUDE.search(text.code) and source.is_relative_to(family.root):  # as beside the Python file
        include += (source.parent,)
    texts = list(named_files(source, include, text.code if text else None).values()) or [""]  # the compiler says why
    whole = "\n".join(texts)
    for_entry = {name: value for name, value in build.macros.items() if re.search(PARAMETER % name, whole)}
    mine = {name: _is_global(name, texts[0]) for name in build.own_macros}  # whether the file says what it is
    used = [name for name, known in mine.items() if known or re.search(DEFINED % (name, name), texts[0])]
    own = {name: value for name, value in build.own_macros.items() if name not in used}
    macros = {name: value for name, value in build.macros.items() if name not in for_entry}
    names = entries_of(build)
    if any(map(needs_names, names)):  # of its own macros the source sees those that it uses, and does not define
        macros = {name: value for name, value in own.items() if _is_used(name, whole)} | macros
        for_entry |= {name: build.own_macros[name] for name in used if not mine[name]}
    return Kernels(
        source=source,
        text=text,
        entries=names,
        macros=macros,
        own_macros={name: value for name, value in own.items() if name not in macros} | for_entry,
        flags=(*NVCC_FLAGS, *variant.flags),
        include=include,
        root=family.root,
    )


def _is_used(name: str, text: str) -> bool:
    """Return whether a file uses a word that nothing in it declares."""
    own = "|".join((DEFINED % (name, name), OWN_NAME % (name, name, name), PARAMETER % name))
    return bool(re.search(rf"\b{name}\b", text)) and not re.search(own, text)


def _is_global(name: str, text: str) -> bool:
    """Return whether a file defines a word as a macro, or where all later lines see it: in no function or template."""
    text = COMMENTS.sub(" ", text)
    if re.search(rf"^[ \t]*#[ \t]*define[ \t]+{name}\b", text, re.MULTILINE):
        return True
    text = EXTERN_C.sub(" ", text)
    for _ in range(DEEPEST):
        text, found = INNER.subn(" ; ", text)
        if not found:
            break
    return bool(re.search(GLOBAL % (name, name), text))


def named_files(source: Path, include: Sequence[Path], code: str | None = None) -> dict[Path, str]:
    """Read a file and the headers of the project that its text names, without asking a compiler, by their paths.

    ``code``: is in its place. Empty where one cannot be read.
    """
    texts: dict[Path, str] = {}
    waiting = [source]
    while waiting:
        path = waiting.pop()
        try:
            texts[path] = code if path == source and code is not None else path.read_text(errors="replace")
        except OSError:
            return {}
        for quote, name in INCLUDE.findall(texts[path]):
            folders = [path.parent, *include] if quote == '"' else include
            header = next((file for folder in folders if (file := (folder / name).resolve()).is_file()), None)
            if header and header not in (*texts, *waiting, source.resolve()):
                waiting.append(header)
    return texts


def suspicious_lines(project: Project) -> list[str]:
    """List what is unusual in the sources of a project's kernels and in its declarations, a sentence for each line.

    Machine code is named as not looked at.
    """
    declared = project.root.joinpath(*project.module.split("."))
    python = sorted(declared.rglob("*.py")) if declared.is_dir() else [declared.with_suffix(".py")]
    remarks = {path: _looked_at(path) for path in python}
    for build in {build.variant: build for build in builds(project.families)}.values():
        variant, include = build.variant, [(build.family.folder / folder).resolve() for folder in build.variant.include]
        if variant.call:
            continue
        text = None
        with contextlib.suppress(Exception):  # a function of theirs may raise anything, and its compilation says so
            text = text_of(build)
        if text:
            source = text.file or build.source
            remarks[source] = [*dict.fromkeys((*remarks.get(source, ()), *_in_text(text)))]
            headers = {*named_files(source, [source.parent, *include], text.code)} - {source}
            remarks |= {path: _looked_at(path) for path in sorted(headers - remarks.keys())}
        elif callable(variant.source) or isinstance(variant.source, Text) or build.source.suffix in READY:
            remarks[build.source] = [Remark(1, f"{build.family.name} {variant.name}: machine code is not looked at")]
        else:
            files = {path.resolve() for path in named_files(build.source, include)} or {build.source}
            remarks |= {path: _looked_at(path) for path in sorted(files - remarks.keys())}
    return [
        f"{name_from(project.root, path)}:{remark.line}: {remark.text}"
        for path, found in remarks.items()
        for remark in found
    ]


def _in_text(text: Text) -> list[Remark]:
    """List what is unusual in a text, by the lines of the file that it comes from."""
    remarks = in_cuda(text.code) if len(text.code) <= MOST_LOOKED_AT else [Remark(1, "is too long to be looked at")]
    places = ((text.place(remark.line), remark) for remark in remarks)
    return [Remark(place[1] if place else remark.line, remark.text) for place, remark in places]


def _looked_at(path: Path) -> list[Remark]:
    """List what is unusual in a file, by its name: Python or CUDA C++."""
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        return [Remark(1, f"cannot be read: {error.strerror}")]
    if len(text) > MOST_LOOKED_AT:
        return [Remark(1, f"is too long to be looked at: {len(text):,} characters")]
    return in_python(text) if path.suffix == ".py" else in_cuda(text)


def compile_build(build: Build, target: Target | None) -> Image:
    """Return the machine code of a build, from the cache or compiled now. ``target``: None for the host.

    Raises CompileError.
    """
    variant = build.variant
    if variant.call:  # nothing to compile
        return Image(Path(), variant.name, variant.name)
    if variant.on_host:
        return compile_file(build.source, build.all_macros, None, root=build.family.root)
    assert target
    try:
        if text_of(build) or not callable(variant.source):
            return compile_entries(kernels_of(build), target)
        with permitted():  # it may compile for as long as it likes
            code = returned_code(build, target.arch)
    except (CompileError, CancelledError):
        raise
    except Exception as error:  # a declaration's own function may raise anything
        if not callable(getattr(variant.source, "make", variant.source)):
            raise
        raise CompileError(f"{build.id}: its source returns no code: {type(error).__name__}: {error}") from None
    image = code_image(code, build.id, target)
    find_entries(image.path, entries_of(build), build.id)
    return image


def returned_code(build: Build, arch: str) -> bytes:
    """Call the function of a declaration that returns machine code for an architecture. Raises whatever it raises."""
    source = build.variant.source
    assert callable(source)
    given = given_of(build.configuration, build.dtype) | {"arch": arch}
    code = named_arguments.call(source, given)
    if _is_text(code):
        raise TypeError("it returns CUDA C++, for which it need not take `arch`: the compiler defines __CUDA_ARCH__")
    if not isinstance(code, bytes | str):
        raise TypeError(f"it returns {type(code).__name__}: give a cubin or PTX as bytes, or CUDA C++ as a str")
    return code.encode() if isinstance(code, str) else code


@functools.cache
def unoptimized(program: str = "") -> tuple[str, ...]:
    """Return flags for code that never runs: with them nvcc takes two fifths of the time, and finds the same errors.

    Errors are found by its front end and by ptxas, before and after what is left out. ``program``: as for ``nvcc``. An
    nvcc that does not know such a flag gets none.
    """
    option, command = "--Ofast-compile", [nvcc(program).program, "--help"]
    known = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return (f"{option}=max",) if option in known else ()


def check_builds(builds: Sequence[Build], target: Target) -> dict[str, CompileError]:
    """Compile builds of one source for a device, in one call if possible, and return the errors by build id."""
    source = builds[0].source
    if len(builds) > 1 and not any(map(_is_special, builds)):
        with contextlib.suppress(CompileError, OSError, UnicodeError):
            text = in_one_file(source, [build.all_macros for build in builds])
            compile_text(text, f"{source.stem}-together.cu", target, (*NVCC_FLAGS, *unoptimized(target.program)))
            return {}
    failed = {}
    for build in builds:  # each by itself, so that the error names its build
        try:
            compile_build(build, target)
        except CompileError as error:
            failed[build.id] = error
    return failed


def _is_special(build: Build) -> bool:
    """Return whether a build needs more than its file and macros."""
    variant = build.variant
    return (
        callable(variant.source)
        or isinstance(variant.source, Text)
        or bool(variant.include or variant.flags)
        or any(map(needs_names, entries_of(build)))
    )


@functools.lru_cache
def symbols_in(image: Path, names: tuple[str, ...]) -> Mapping[str, str]:
    """Return the symbol of each kernel of an image, by the name that the declaration has for it.

    Raises CompileError where the image is damaged, and DeviceError where it has no such kernel.
    """
    code = read_image(image)
    if table := pointed_to(code, TABLE):
        return dict(zip(names, table, strict=False))
    try:
        return find_entries(image, names, image.name)
    except CompileError as error:
        raise DeviceError(str(error)) from None


def symbol_of(image: Path, case: Case, entry: str) -> str:
    """Return the symbol of a kernel that a case launches. Raises DeviceError or CompileError."""
    names = entries_of(case.build)
    if entry in names and not case.variant.on_host:
        return symbols_in(image, names)[entry]
    if needs_names(entry):
        raise DeviceError(f"{entry} was not compiled: it is launched on no shape of `tests` or `benchmarks`")
    return entry


def in_one_file(source: Path, builds: Sequence[Mapping[str, str]]) -> str:
    """Return the text of a file that holds ``source`` once for each set of macros, each in a namespace of its own.

    nvcc spends nearly all of its time on CUDA's headers, which it reads once then: nine builds take about as long as
    one. No kernel that runs comes from such a file. Functions lose their C linkage, because two of one name would be
    the same function. Macros end with each build. The text may not compile although each build does, where a source
    leaves its namespace (``::name``) or includes a header under a condition; then each build has to be compiled by
    itself.
    """
    seen, system = set[Path](), list[str]()

    def read(path: Path) -> str:
        """Return a source with the project's headers in place of their includes, once."""
        seen.add(path)

        def included(match: re.Match[str]) -> str:
            header = (path.parent / match[2]).resolve()
            if match[1] == "<" or not header.exists():
                system.append(match[0].strip())
                return ""
            return "" if header in seen else read(header)

        return ONCE.sub("", INCLUDE.sub(included, path.read_text()))

    body = re.sub(r'\bextern\s+"C"', 'extern "C++"', read(source.resolve()))
    own = dict.fromkeys(DEFINE.findall(body))
    parts = list(dict.fromkeys(system))
    for number, macros in enumerate(builds):
        parts += [f"#define {name} {value}" for name, value in macros.items()]
        parts += [f"namespace build{number} {{", body, "}"]
        parts += [f"#undef {name}" for name in (*macros, *own)]
    return "\n".join((*parts, ""))
