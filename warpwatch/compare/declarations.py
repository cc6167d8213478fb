"""Writes what a revision's kernels are, as JSON: ``python -I declarations.py TREE OUTPUT [FOLDER ...]``.

Run by declared.py. OUTPUT: a file descriptor, so that what the revision prints does not mix with it. FOLDER:
where packages are, such as NumPy, that an isolated Python does not find by itself.

It imports the package ``kernels`` of that tree, never this one's, and so leans on what revisions have in common:
FAMILIES, ``timed_cases``, and of a case its id, launch, source, macros and arguments.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

FIRST, SPACING = 1 << 44, 1 << 40  # addresses that stand for pointers, so far apart that an offset shows as such
MOST_BYTES = 2**26  # of a file that the revision's code writes


def declared(case: Any) -> dict[str, Any]:
    """One case of the revision, or what keeps it from being compared."""
    build, variant, family = case.build, case.variant, case.family
    operands = {name: list(shape) for name, shape in family.operands(case.shape).items()}
    result = [family.result(case.shape)[0], list(family.result(case.shape)[1])] if family.result else None
    count = len(operands) + (result is not None)
    pointers = [FIRST + i * SPACING for i in range(count)]
    launch = case.launch
    return {
        "library": getattr(variant, "library", ""),
        "source": f"kernels/{build.source}",
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


def described(value: Any, count: int) -> list[Any]:
    """A kernel's argument: its type and value, which pointer it is and how far into that array, or a struct of such."""
    if value.dtype.names:
        fields = [[name, value.dtype.fields[name][1], described(value[name], count)] for name in value.dtype.names]
        return ["struct", value.dtype.itemsize, fields]
    number, offset = divmod(int(value) - FIRST, SPACING)
    if value.dtype.itemsize == 8 and value.dtype.kind == "u" and 0 <= number < count:
        return ["pointer", number, offset]
    return [str(value.dtype), value.item()]


def main() -> None:
    tree, output, *packages = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES, MOST_BYTES))
    sys.path[:] = [tree, *(path for path in sys.path if Path(path) != Path(__file__).parent), *packages]
    import kernels  # noqa: PLC0415
    from warpwatch.devices import compiler  # noqa: PLC0415

    try:
        from warpwatch.catalogue.selection import timed_cases  # noqa: PLC0415
    except ImportError:  # where it was before it had a module of its own
        from warpwatch.catalogue.declaration import timed_cases  # type: ignore[attr-defined,no-redef]  # noqa: PLC0415
    cases = [case for case in timed_cases(kernels.FAMILIES) if not case.variant.on_host]
    document = {"flags": list(compiler.NVCC_FLAGS), "cases": {case.id: declared(case) for case in cases}}
    with open(int(output), "w") as file:
        json.dump(document, file)


if __name__ == "__main__":
    main()
