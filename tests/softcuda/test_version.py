"""Tests that ``nvcc --version`` of the software device tells compilers apart: images are kept by what it says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from softcuda.compiling import version

FOLDER = Path(version.__file__).parent
HEADERS = FOLDER.parent / "include"


def named_in(path: Path) -> Iterator[Path]:
    """Yield the files of softcuda that one of them imports, includes or names in a text."""
    text = path.read_text()
    for name in re.findall(r'"([\w/.]+\.h)"', text):
        yield from (each for each in (HEADERS / name, path.parent / name) if each.is_file())
    if path.suffix != ".h":
        for node in ast.walk(ast.parse(text)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            yield from (each for name in names if (each := FOLDER / f"{name}.py").is_file())


def test_every_file_that_the_compiler_reads_changes_its_version() -> None:
    reached, waiting = set[Path](), [FOLDER / "nvcc"]
    while waiting:
        new = {each.resolve() for each in named_in(waiting.pop())} - reached
        reached |= new
        waiting += new
    assert len(reached) > 30
    assert reached <= {path.resolve() for path in version.sources()}
