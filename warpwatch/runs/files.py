"""Lists and reads the files of saved runs, and writes files whole or not at all."""

from __future__ import annotations

import contextlib
import json
import lzma
import os
import tempfile
from collections.abc import Mapping
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


def write_run(folder: Path, name: str, document: Mapping[str, Any]) -> Path:
    """Save a document as the folder's next NNNN_<name>.json, whole or not at all; two runs at once are both kept.

    Raises OSError, and ValueError for a number that JSON does not have.
    """
    # json would write NaN, which other readers refuse; no run holds one.
    text = json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".tmp") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
        Path(file.name).chmod(0o644)
        while True:
            numbers = [int(path.name[:4]) for path in run_files(folder, NUMBERED)]
            path = folder / f"{max(numbers, default=0) + 1:04}_{name}.json"
            with contextlib.suppress(FileExistsError):  # another run was quicker
                os.link(file.name, path)
                return path
