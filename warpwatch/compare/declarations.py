"""Writes what a revision declares, as JSON: ``python -I declarations.py TREE OUTPUT MODULE [FOLDER ...]``.

This script is run by declared.py. OUTPUT: a file descriptor, so that what the revision prints does not mix with it.
MODULE: the package or module that declares its kernels. FOLDER: where packages are, such as NumPy, that an isolated
Python does not find by itself.

It imports that package from that tree, and the revision's own engine where the tree has one. It relies on what
revisions have in common: FAMILIES, or the families by themselves, ``timed_cases``, and of a case its id, launch,
source, macros and arguments.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
from pathlib import Path
from typing import Any

FIRST, SPACING = 1 << 44, 1 << 40  # stand-ins for pointers, far enough apart to tell offsets
MOST_BYTES = 2**26  # the largest file that the revision's code may write


def declared(case: Any, tree: Path) -> dict[str, Any]:
    """Describe one case of the revision that lies in ``tree``."""
    build, variant, family = case.build, case.variant, case.family
    operands = {name: list(shape) for name, shape in family.operands(case.shape).items()}
    result = [family.result(case.shape)[0], list(family.result(case.shape)[1])] if family.result else None
    count = len(operands) + (result is not None)
    pointers = [FIRST + i * SPACING for i in range(count)]
    launch = case.launch
    return {
        "library": library_name(getattr(variant, "library", "")),
        "source": source_name(build.source, tree),
        "entry": getattr(case, "entry", build.entry),
        "macros": build.macros,
        "grid": list(launch.grid),
        "block": list(launch.block),
        "shared_bytes": launch.shared_bytes,
        "operands": operands,
        "result": result,
        "constant": getattr(variant, "constant", ""),
        "arguments": [described(value, count) for value in variant.arguments(pointers, case.shape)],
    }


def library_name(library: Any) -> str:
    """Name of the library that takes a kernel's place, or nothing; older revisions have names alone."""
    return library if isinstance(library, str) else library.name if library else ""


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
    return tuple(dict.fromkeys(found) if listed is None else listed)


def engine(folder: Path, module: str) -> tuple[Any, Any]:
    """Find the function that lists a revision's timed cases, and its compiler module."""
    if not (folder / "catalogue.py").exists():
        selection = importlib.import_module("warpwatch.catalogue.selection")
        return selection.timed_cases, importlib.import_module("warpwatch.devices.compiler")
    # In older revisions of this suite the engine was no package of its own.
    listing = "selection" if (folder / "selection.py").exists() else "catalogue"
    return importlib.import_module(f"{module}.{listing}").timed_cases, importlib.import_module(f"{module}.compiler")


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
    document = {"flags": list(compiler.NVCC_FLAGS), "cases": {case.id: declared(case, Path(tree)) for case in cases}}
    with open(int(output), "w") as file:
        json.dump(document, file)


if __name__ == "__main__":
    main()
