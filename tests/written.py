"""Compiles files that a test wrote."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import warpwatch as ww
from warpwatch.devices.compile.compiler import Image, Target, compile_file

# A copy of int8, of which every poison is a right value.
BYTES = ww.Family(
    "bytes",
    sizes=("n",),
    arrays=lambda n: {"x": ww.In(n, "int8"), "y": ww.Out(n, "int8")},
    reference=lambda x: x,
    tests=((9,),),
    variants=(ww.serial("plain", x=0, y=None),),
)


def compile_written(source: Path, macros: Mapping[str, str], target: Target | None) -> Image:
    """Compile a file in a temporary folder as compile_file does, and name it without its folder. Raises CompileError.

    So the file has the same name each time that the tests run, and its image is found in the cache.
    """
    return compile_file(source, macros, target, root=source.parent)


def compile_planted(folder: Path, source: Path, old: str, new: str, macros: Mapping[str, str]) -> Image:
    """Compile a file for the host with ``new`` in the place of ``old``, from a temporary folder."""
    text = source.read_text()
    assert old in text
    (folder / source.name).write_text(text.replace(old, new))
    return compile_written(folder / source.name, macros, None)
