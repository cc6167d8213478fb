"""Lists, reads and numbers the files of saved runs."""

from __future__ import annotations

import contextlib
import json
import lzma
import os
import re
import signal
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from warpwatch.devices.atomic_write import write_whole as write_whole  # noqa: PLC0414  # users import both from here

LARGEST = 2**27  # bytes of a file, unpacked: ten times the largest run, and small enough for memory
PLAIN, PACKED = ".json", ".json.xz"  # how the name of a saved run ends; the second one is compressed by xz
NUMBERED = re.compile(r"([0-9]{4,})_.*\.json(\.xz)?", re.DOTALL)  # names of the runs that ``write_run`` saves


def number_of(name: str) -> int | None:
    """Return the number that the file of a saved run begins with; None where it has none."""
    match = NUMBERED.fullmatch(name)
    return int(match[1]) if match else None


def numbered_runs(folder: Path) -> list[Path]:
    """List the files of the saved runs in a folder that have a number, in its order."""
    return [path for path in run_files(folder) if number_of(path.name) is not None]


def run_files(folder: Path, pattern: str = "*") -> list[Path]:
    """List the files of the saved runs in a folder, in the order of their numbers, then those without one by name.

    ``pattern``: of the names without their endings. Where a run is there twice, the one that is not compressed counts:
    the other one was being written when its program was ended.
    """
    files: list[str] = []
    with contextlib.suppress(OSError):
        files = os.listdir(folder)
    ending_so = [
        (file.removesuffix(ending), file) for ending in (PACKED, PLAIN) for file in files if file.endswith(ending)
    ]
    paths = {name: folder / file for name, file in ending_so if fnmatchcase(name, pattern)}
    numbers = {name: number_of(path.name) for name, path in paths.items()}
    return [paths[name] for name in sorted(paths, key=lambda name: (numbers[name] is None, numbers[name] or 0, name))]


def chosen_files(paths: Sequence[Path]) -> list[Path]:
    """Return the files that are named, and those of the saved runs in a folder that is named. Raises OSError."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = run_files(path)
            if not inside:
                raise FileNotFoundError(f"{path}: holds no saved runs; `pytest bench` saves to .benchmarks/<gpu>/")
            files += inside
        else:
            files.append(path)
    return files


def read_content(path: Path) -> bytes:
    """Return the first bytes of a file, unpacked where it is compressed: at most one more than LARGEST.

    Raises OSError, EOFError or LZMAError.
    """
    with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
        return file.read(LARGEST + 1)


def compact_json(document: Mapping[str, Any]) -> bytes:
    """Return a document as JSON in one line. Raises ValueError for a number that JSON does not have."""
    # json would write NaN, which other readers refuse; no run holds one.
    return (json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n").encode()


def write_run(folder: Path, name: str, document: Mapping[str, Any]) -> Path:
    """Save a document as the folder's next NNNN_<name>.json, whole or not at all. Raises OSError and ValueError."""
    return write_numbered(folder, [(f"{name}{PLAIN}", compact_json(document))])[0]


def write_numbered(folder: Path, files: Iterable[tuple[str, bytes]], instead_of: Sequence[Path] = ()) -> list[Path]:
    """Write files into a folder, each under the next number that no run has: all of them, or none. Returns their paths.

    ``files``: the rest of each name, and the content. ``instead_of``: files of the folder that are removed then.
    A file is written as ``.NNNN.tmp``, which one process alone can create: so no number is taken twice, whatever the
    names. Where a process is killed, such a file costs a number and stops nobody. Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    moves: list[tuple[Path, Path]] = []
    number = 0
    try:
        for name, content in files:
            number, temporary = _take_number(folder, number)
            moves.append((temporary, folder / f"{number:04}_{name}"))
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        aside = [path.with_name(f".{path.name}.tmp") for path in instead_of]
        with _signals_later():
            _rename_all([*moves, *zip(instead_of, aside, strict=True)])
            for path in aside:
                path.unlink()
    except BaseException:
        for temporary, _ in moves:
            temporary.unlink(missing_ok=True)
        raise
    return [path for _, path in moves]


def _take_number(folder: Path, after: int) -> tuple[int, Path]:
    """Create the file in which a run is written, of the next number above ``after`` that is free."""
    number = max(after, *_numbers(folder), 0) + 1
    while True:
        path = folder / f".{number:04}.tmp"
        with contextlib.suppress(FileExistsError):  # another process writes it
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
            if number not in _numbers(folder):
                return number, path
            path.unlink()  # another process has written it since
        number += 1


def _numbers(folder: Path) -> set[int]:
    return {number for name in os.listdir(folder) if (number := number_of(name)) is not None}


def _rename_all(moves: Sequence[tuple[Path, Path]]) -> None:
    """Rename files: all of them, or none."""
    done: list[tuple[Path, Path]] = []
    try:
        for old, new in moves:
            old.rename(new)
            done.append((old, new))
    except BaseException:
        for old, new in reversed(done):
            new.rename(old)
        raise


@contextlib.contextmanager
def _signals_later() -> Iterator[None]:
    """Let signals that end a process wait until this context ends: some milliseconds."""
    if threading.current_thread() is not threading.main_thread():  # which alone is told of signals
        yield
        return
    waiting: list[int] = []
    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda number, frame: waiting.append(number)) for number in ending}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
        for arrived in waiting:
            signal.raise_signal(arrived)
