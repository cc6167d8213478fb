"""Writes what a revision declares, as JSON: ``python -I declarations.py TREE OUTPUT MODULE [FOLDER ...]``.

This script is run by declared.py. OUTPUT: a file descriptor, so that what the revision prints does not mix with it.
MODULE: the package or module that declares its kernels. FOLDER: where packages are, such as NumPy, that an isolated
Python does not find by itself. Standard input: the architecture of this GPU, such as sm_90, for functions that return
machine code; it is read when the first of them is called, because this script is started before the GPU is known.

It imports that package from that tree, and the revision's own engine where the tree has one: a revision's kernels may
import any module of it. What this script asks of an engine is in ENGINE.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import importlib
import inspect
import json
import math
import os
import resource
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

if __name__ != "__main__":
    from warpwatch.catalogue.function_digest import NotFollowed, digest_of_source
else:  # the package warpwatch is the revision's here, and the digest this engine's
    sys.path.insert(0, str(Path(__file__).parents[1] / "catalogue"))
    from function_digest import NotFollowed, digest_of_source  # type: ignore[import-not-found,no-redef]

    del sys.path[0]

# What is asked of a revision's engine, and where it is: today, and in the revisions before it moved.
ENGINE = {
    "kernels_of": ("devices.compile.builds", "devices.builds"),
    "returned_code": ("devices.compile.builds", "devices.builds"),
    "timed_cases": ("catalogue.selection",),
    "tested_cases": ("catalogue.selection",),
    "DRAWN": ("catalogue.inputs",),
    "initial_values": ("catalogue.cases",),
}
FIRST, SPACING = 1 << 44, 1 << 40  # stand-ins for pointers, far enough apart to tell offsets
FIELDS = ("cooperative", "after", "programmatic")  # of a launch; an older engine has none of them
MOST_BYTES = 2**26  # the largest file that the revision's code may write; 900 cases take 1 MB


@functools.cache
def engine(name: str) -> Any:
    """Return a function or a constant of the revision's engine."""
    for module in ENGINE[name]:
        with contextlib.suppress(ModuleNotFoundError):
            return getattr(importlib.import_module(f"warpwatch.{module}"), name)
    raise ImportError(f"its engine has no {name}")


def declared(case: Any, tree: Path, architecture: Callable[[], str] = str) -> dict[str, Any]:
    """Describe one case of the revision that lies in ``tree``. ``architecture``: returns that of this GPU."""
    build = case.build
    kernels = None if case.variant.call else kernels_of(build)
    text = getattr(kernels, "text", None)
    return {
        "code": machine_code(build, architecture),
        "source": source_of(build, kernels, tree).relative_to(tree).as_posix(),
        "text": text.numbered(tree) if text else "",
        "macros": dict(kernels.macros) if kernels else {},
        "own_macros": dict(kernels.own_macros) if kernels else {},
        "entries": list(kernels.entries) if kernels else [],
        "flags": list(kernels.flags) if kernels else [],
        "include": [folder.relative_to(tree).as_posix() for folder in kernels.include] if kernels else [],
        "identity": identity(case, tree),
    }


def source_of(build: Any, kernels: Any, tree: Path) -> Path:
    """Return the file that a kernel's code is in; that of a text may lie in an installed package, and is not read."""
    source: Path = build.source
    if getattr(kernels, "text", None):
        own = kernels.source
        source = own if own.is_relative_to(tree) else build.family.folder / f"{build.variant.name}.cu"
    return source


def identity(case: Any, tree: Path) -> dict[str, Any]:
    """Describe what decides a case's work, as warpwatch/runs/identity.py has it, without its machine code."""
    variant, why = case.variant, dict[str, str]()

    def known(part: str, describe: Callable[[Any, Path], str]) -> str | None:
        try:
            return describe(case, tree)
        except NotFollowed as error:
            why[part] = "".join(c if " " <= c <= "~" else "?" for c in str(error))[:300]
            return None

    return {
        "version": 1,
        "steps": described_steps(case),
        "arrays": [described_array(case, array) for array in case.arrays],
        "symbols": dict(variant.symbols),
        "draw": known("draw", drawn),
        "call": variant.name if variant.call else "",
        "source": known("source", prepared),
        "library": " ".join(map(need_name, variant.call.needs)) if variant.call else "",
        "why": why,
    }


def described_array(case: Any, array: Any) -> dict[str, Any]:
    numbers = {name: getattr(array, name) for name in ("low", "high")}
    return {
        "name": array.name,
        "role": array.role.value,
        "shape": list(array.shape),
        "dtype": array.dtype,
        "aligned": array.aligned,
        "initial": initial(case, array),
        **{name: None if value is None else number(value) for name, value in numbers.items()},
    }


def initial(case: Any, array: Any) -> str | None:
    """Describe the first values of an array: one number, or the digest of those that a function returns."""
    if callable(array.initial):
        return f"values_{hashlib.sha256(engine('initial_values')(case, array).tobytes()).hexdigest()[:32]}"
    return None if array.initial is None else number(array.initial)


def described_steps(case: Any) -> list[dict[str, Any]]:
    """Describe each launch: kernel, grid, block and arguments by value, with pointers that stand for the arrays."""
    arrays = [array.name for array in case.arrays]
    launches: list[tuple[str, Any, Sequence[Any], Sequence[str]]]
    if case.variant.call:
        given = given_numbers(case)
        launches = [(case.entry, case.launch, tuple(given.values()), tuple(given))]
    else:
        at = {name: FIRST + i * SPACING for i, name in enumerate(arrays)}
        launches = [(s.entry, s.launch, case.arguments(s, at), names_of(case, s, arrays)) for s in case.steps]
    streams = list(dict.fromkeys(["", *(getattr(launch, "stream", "") for _, launch, _, _ in launches)]))
    return [
        {
            "entry": entry,
            "grid": list(launch.grid),
            "block": list(launch.block),
            "shared_bytes": launch.shared_bytes,
            "cluster": list(launch.cluster),
            **{name: value for name in FIELDS if (value := getattr(launch, name, None))},
            **({"stream": str(streams.index(launch.stream))} if getattr(launch, "stream", "") else {}),
            "arguments": [described(value, arrays) for value in values],
            "names": names,
        }
        for entry, launch, values, names in launches
    ]


def given_numbers(case: Any) -> dict[str, Any]:
    """Return the sizes and scalars that a call is prepared with, by name."""
    given, asked = case.given, asked_for(case.variant.call.prepare)
    return {name: given[name] for name in sorted(asked) if isinstance(given.get(name), bool | int | float)}


def asked_for(function: Any) -> set[str]:
    """Return the names that a function of a declaration may be given."""
    return set(inspect.signature(function).parameters) if function else set()


def names_of(case: Any, step: Any, arrays: Sequence[str]) -> Sequence[str]:
    """Return what a declaration calls the arguments of a launch; nothing where a function returns them."""
    if not isinstance(step.arguments, str):
        return ()
    usual = [*arrays, *case.family.scalars, *case.family.sizes]
    words = case.words(step) if hasattr(case, "words") else step.arguments.split() or usual
    return [word.partition(":")[0] for word in words]


@functools.cache
def given_architecture() -> str:
    """Return the architecture of this GPU, which standard input brings."""
    return sys.stdin.read()


@functools.cache
def machine_code(build: Any, architecture: Callable[[], str]) -> str:
    """Return the machine code that a function of the declaration returns, in base64; else an empty text."""
    if not callable(build.variant.source) or getattr(kernels_of(build), "text", None):
        return ""
    return base64.b64encode(engine("returned_code")(build, architecture())).decode()


@functools.cache  # all shapes of a build ask, and the files of a revision do not change
def kernels_of(build: Any) -> Any:
    return engine("kernels_of")(build)


def need_name(need: Any) -> str:
    """Return the name of a requirement, such as ``cublas``; that of its class where it has none, as the driver."""
    return need if isinstance(need, str) else str(getattr(need, "name", "") or type(need).__name__).lower()


def described(value: Any, arrays: Sequence[str]) -> list[Any]:
    """Describe an argument: type and value, or which array and how far into it, or a struct of such."""
    if not hasattr(value, "dtype"):
        return ["scalar", {bool: "bool", int: "int64"}.get(type(value), "float64"), number(value)]
    if value.dtype.names:
        fields = [[name, value.dtype.fields[name][1], described(value[name], arrays)] for name in value.dtype.names]
        return ["struct", value.dtype.itemsize, fields]
    if value.ndim:  # a field that is an array, such as the sizes of a tensor: a struct of its elements
        fields = [[f"_{i}", i * value.itemsize, described(each, arrays)] for i, each in enumerate(value.flat)]
        return ["struct", value.nbytes, fields]
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
    """Describe how a case's inputs are drawn: the version of the engine's way, and the source of the family's own."""
    way, draw = f"uniform {engine('DRAWN')}", case.family.draw
    if not draw:
        return way
    scalars = {name: number(case.given[name]) for name in sorted({*case.family.scalars} & asked_for(draw))}
    return " ".join((way, digest_of_source(draw, tree), *(f"{name}={value}" for name, value in scalars.items())))


def prepared(case: Any, tree: Path) -> str:
    """Return a digest of what prepares a call; empty for a kernel."""
    call = case.variant.call
    if not call or not call.prepare:
        return ""
    packages = tuple(str(getattr(need, "name", "")) for need in call.needs)
    return digest_of_source(call.prepare, tree, ("ctypes", *packages))


def families_of(package: Any) -> tuple[Any, ...]:
    """Return what a revision declares: FAMILIES, or every Family of the package in order of definition."""
    listed = getattr(package, "FAMILIES", None)
    defined = [value for value in vars(package).values() if type(value).__name__ == "Family"]
    families = tuple(dict.fromkeys(defined) if listed is None else listed)
    if not families:
        raise LookupError(f"{package.__name__} declares no Family")
    return families


def main() -> None:
    tree, output, module, *packages = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES, MOST_BYTES))
    os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    sys.path[:] = [tree, *(path for path in sys.path if Path(path) != Path(__file__).parent), *packages]
    with contextlib.ExitStack() as ready:
        for place in ("opening", "gpu"):  # where engines have it, and some have none
            with contextlib.suppress(ImportError):
                device = importlib.import_module(f"warpwatch.devices.{place}")
                if hasattr(device, "ready_to_import"):
                    ready.enter_context(device.ready_to_import(device.Settings()))
                    break
        package = importlib.import_module(module)
    if not Path(package.__file__ or "").is_relative_to(tree):  # a package of that name elsewhere on the path
        raise ModuleNotFoundError(f"No module named {module!r} in this revision")
    families = families_of(package)
    timed = [case for case in engine("timed_cases")(families) if not case.variant.on_host]
    builds = {case.build for case in timed}
    rest = {case.build: case for case in reversed(engine("tested_cases")(families)) if case.build not in builds}
    untimed = [case for case in reversed(rest.values()) if not case.variant.on_host]
    document = {
        name: {case.id: declared(case, Path(tree), given_architecture) for case in cases}
        for name, cases in {"cases": timed, "untimed": untimed}.items()
    }
    with open(int(output), "w") as file:
        file.write(json.dumps(document))  # json.dump() takes five times as long


if __name__ == "__main__":
    main()
