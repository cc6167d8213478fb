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

import base64
import functools
import importlib
import json
import resource
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

FIRST, SPACING = 1 << 44, 1 << 40  # stand-ins for pointers, far enough apart to tell offsets
MOST_BYTES = 2**26  # the largest file that the revision's code may write


def declared(case: Any, tree: Path, architecture: Callable[[], str] = str) -> dict[str, Any]:
    """Describe one case of the revision that lies in ``tree``. ``architecture``: returns that of this GPU."""
    build, variant = case.build, case.variant
    arrays = arrays_of(case)
    return {
        "call": call_name(variant),
        "code": machine_code(build, architecture),
        "source": source_name(build.source, tree),
        "macros": macros(build),
        "own_macros": own_macros(build),
        "entries": entries_of(case),
        "flags": list(getattr(variant, "flags", ())),
        "include": [
            source_name((build.family.folder / each).resolve(), tree) for each in getattr(variant, "include", ())
        ],
        "steps": [
            {
                "entry": entry,
                "grid": list(launch.grid),
                "block": list(launch.block),
                "shared_bytes": launch.shared_bytes,
                "cluster": list(getattr(launch, "cluster", (1, 1, 1))),
                "arguments": [described(value, len(arrays)) for value in values],
            }
            for entry, launch, values in steps_of(case, [name for name, _, _ in arrays])
        ],
        "arrays": arrays,
        "symbols": symbols_of(variant),
    }


def arrays_of(case: Any) -> list[list[Any]]:
    """Name and shape of each array, and whether it is a result; older revisions have operands and one result."""
    if hasattr(case, "arrays"):
        return [[array.name, list(array.shape), array.is_result] for array in case.arrays]
    arrays = [[name, list(shape), False] for name, shape in case.family.operands(case.shape).items()]
    result = case.family.result(case.shape) if case.family.result else None
    return [*arrays, [result[0], list(result[1]), True]] if result else arrays


def steps_of(case: Any, names: Sequence[str]) -> list[tuple[str, Any, Sequence[Any]]]:
    """Kernel, launch and arguments of each launch, for pointers that stand for arrays of these names."""
    pointers = [FIRST + i * SPACING for i in range(len(names))]
    if call_name(case.variant):
        return [(case.entry, case.launch, ())]
    if not hasattr(case, "steps"):  # an older revision
        entry = getattr(case, "entry", case.build.entry)
        return [(entry, case.launch, case.variant.arguments(pointers, case.shape))]
    at = dict(zip(names, pointers, strict=True))
    return [(step.entry, step.launch, case.arguments(step, at)) for step in case.steps]


def macros(build: Any) -> dict[str, str]:
    """Return the macros that a kernel's file is compiled with, without those that its entry alone sees."""
    return dict(kernels_of(build).macros if is_named(build) else build.macros)


@functools.cache
def given_architecture() -> str:
    """Return the architecture of this GPU, which standard input brings."""
    return sys.stdin.read()


@functools.cache
def machine_code(build: Any, architecture: Callable[[], str]) -> str:
    """Machine code that a function of the declaration returns, in base64; empty where the kernel has a file."""
    if not callable(getattr(build.variant, "source", "")):
        return ""
    code = importlib.import_module("warpwatch.devices.builds").returned_code(build, architecture())
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
    return importlib.import_module("warpwatch.devices.builds").kernels_of(build)


def entries_of(case: Any) -> list[str]:
    """Every kernel that a case's build is launched by; older revisions have one for each case."""
    if not hasattr(case, "steps"):
        return [getattr(case, "entry", case.build.entry)]
    builds = importlib.import_module("warpwatch.devices.builds")
    return [] if call_name(case.variant) else list(builds.entries_of(case.build))


def included(variant: Any) -> Sequence[str]:
    """Folders with headers, from the family's folder; older revisions have none."""
    return getattr(variant, "include", ())


def symbols_of(variant: Any) -> dict[str, str]:
    """Variables that inputs are copied to; older revisions name one input, and its variable after it."""
    constant = getattr(variant, "constant", "")
    return {f"constant_{constant}": constant} if constant else dict(getattr(variant, "symbols", {}))


def call_name(variant: Any) -> str:
    """Name of the call that takes a kernel's place, or nothing; older revisions call it a library."""
    library = getattr(variant, "library", None)
    if library:
        return library if isinstance(library, str) else str(library.name)
    return variant.name if getattr(variant, "call", None) else ""


def source_name(source: Any, tree: Path) -> str:
    """Path of the kernel's file from ``tree``; older revisions name it from the package ``kernels``."""
    return f"kernels/{source}" if isinstance(source, str) else source.relative_to(tree).as_posix()


def described(value: Any, count: int) -> list[Any]:
    """Describe an argument: type and value, or which pointer and how far into its array, or a struct of such."""
    if value.dtype.names:
        fields = [[name, value.dtype.fields[name][1], described(value[name], count)] for name in value.dtype.names]
        return ["struct", value.dtype.itemsize, fields]
    number, offset = divmod(int(value) - FIRST, SPACING)
    if value.dtype.itemsize == 8 and value.dtype.kind == "u" and 0 <= number < count:
        return ["pointer", number, offset]
    return [str(value.dtype), value.item()]


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
        return selection.timed_cases, importlib.import_module("warpwatch.devices.compiler")
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
