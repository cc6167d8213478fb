"""Lists and reads the files of saved runs, and writes files whole or not at all."""

from __future__ import annotations

import contextlib
import json
import lzma
import os
import tempfile
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

PLAIN, PACKED = ".json", ".json.xz"  # how the name of a saved run ends; the second one is compressed by xz
NUMBERED = "[0-9][0-9][0-9][0-9]_*"  # names of the runs that ``write_run`` saves


def run_files(folder: Path, pattern: str = "*") -> list[Path]:
    """List the files of the saved runs in a folder, in the order of their names.

    ``pattern``: of the names without their endings. Where a run is there twice, the one that is not compressed counts:
    the other one was being written when its program was ended.
    """
    found = {}
    for ending in (PACKED, PLAIN):
        for path in folder.glob(f"*{ending}"):  # a pattern of the user's may hold a slash, which glob refuses
            name = path.name.removesuffix(ending)
            if fnmatchcase(name, pattern):
                found[name] = path
    return [found[name] for name in sorted(found)]


def chosen_files(paths: Sequence[Path]) -> list[Path]:
    """Return the files that are named, and those of the saved runs in a folder that is named. Raises OSError."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = run_files(path)
            if not inside:
                raise FileNotFoundError(f"{path}: holds no saved runs; `pytest bench` saves to .benchmarks/<gpu>/")
            found += inside
        else:
            found.append(path)
    return found


def read_content(path: Path, most: int) -> bytes:
    """Return the first bytes of a file, unpacked where it is compressed: at most one more than ``most``.

    Raises OSError, EOFError or LZMAError.
    """
    with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
        return file.read(most + 1)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file under another name and rename it, so that it is there whole or not at all. Raises OSError."""
    with tempfile.NamedTemporaryFile(
        dir=path.absolute().parent, prefix=f".{path.name}-", suffix=".tmp", delete=False
    ) as file:
        made = Path(file.name)
        try:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
            made.chmod(0o644)
            made.replace(path)
        except BaseException:
            made.unlink(missing_ok=True)
            raise


def write_run(folder: Path, name: str, document: Mapping[str, Any], *, packed: bool = False) -> Path:
    """Save a document as the folder's next NNNN_<name>.json, whole or not at all; two runs at once are both kept.

    ``packed``: compress it. Raises OSError, and ValueError for a number that JSON does not have.
    """
    # json would write NaN, which other readers refuse; no run holds one.
    content = (json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n").encode()
    ending = PACKED if packed else PLAIN
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".tmp") as file:
        file.write(lzma.compress(content) if packed else content)
        file.flush()
        os.fsync(file.fileno())
        Path(file.name).chmod(0o644)
        while True:
            numbers = [int(path.name[:4]) for path in run_files(folder, NUMBERED)]
            path = folder / f"{max(numbers, default=0) + 1:04}_{name}{ending}"
            with contextlib.suppress(FileExistsError):  # another run was quicker
                os.link(file.name, path)
                return path
