"""Keeps what Clang has read of softcuda's headers and of the standard library's, so that it reads a file on top of it.

Those are most of a preprocessed text: 1.4 MB of the 1.5 of a file that includes <iostream>. They are read once, without
the bodies of functions, and kept beside the driver; a file is then read without what it has of the same headers.
Of what nvcc has preprocessed, 11 MB with CUB, the beginning is kept, up to the first line of the user's.
Without a folder to keep them in, all of a text is read.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import headers
import version

STANDARD = """
    algorithm array atomic bitset cassert cctype cerrno cfloat chrono climits cmath complex condition_variable
    cstdarg cstddef cstdint cstdio cstdlib cstring ctime deque exception fstream functional future initializer_list
    iomanip ios iosfwd iostream istream iterator limits list locale map memory mutex new numeric optional ostream
    queue random ratio set sstream stack stdexcept streambuf string string_view system_error thread tuple
    type_traits typeinfo unordered_map unordered_set utility variant vector assert.h ctype.h errno.h fcntl.h float.h
    inttypes.h limits.h locale.h malloc.h math.h memory.h pthread.h signal.h stdarg.h stdbool.h stddef.h stdint.h
    stdio.h stdlib.h string.h strings.h time.h unistd.h sys/stat.h sys/time.h sys/types.h sys/mman.h sys/wait.h
""".split()  # noqa: SIM905
OWN = ("*.h", "cooperative_groups/*.h", "cub/cub.cuh", "cuda/*", "thrust/*.h", "softcuda/torch/*.h")
LINE = re.compile(r'^# \d+ ".*\n', re.MULTILINE)
FILE = re.compile(r'^# \d+ "([^"]+)"', re.MULTILINE)


KEPT = 8  # beginnings of texts, of some 30 MB each


@dataclass(frozen=True, kw_only=True)
class Precompiled:
    """What Clang has read, where it is kept: the files that it was read from, or the length of a text's beginning."""

    path: Path
    files: frozenset[str] = frozenset()
    length: int = 0


def precompiled(flags: list[str], parse: Callable, arguments: list[str]) -> Precompiled | None:
    """Return what Clang has read of the headers, read now if it is not kept; None where there is no place for it.

    ``flags``: g++'s for the preprocessor; ``arguments``: Clang's; ``parse``: has it read a text.
    """
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        folder = cache()
        kept = folder / f"headers-{key([*flags, *arguments])}.pch"
        files = kept.with_suffix(".files")
        if not is_trusted(kept) or not is_trusted(files):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder) as new:
                text = preprocessed(Path(new), flags)
                parse(text).save(f"{new}/pch")
                Path(new, "files").write_text("\n".join(sorted({*FILE.findall(text)})))
                Path(new, "files").replace(files)
                Path(new, "pch").replace(kept)
        return Precompiled(path=kept, files=frozenset(files.read_text().split("\n")))
    return None


def beginning(text: str, parse: Callable, arguments: list[str], tool: str) -> Path | None:
    """Return what Clang has read of the beginning of texts, read now if it is not kept; None where it cannot be kept.

    Without line markers, which name the folder of a compilation.

    ``tool``: the file of Clang's bindings.
    """
    with contextlib.suppress(OSError, UnicodeError):
        folder, text = cache(), LINE.sub("", text)
        content = "\0".join([text, *arguments, *states(__file__, tool)])
        kept = folder / f"beginning-{hashlib.sha256(content.encode()).hexdigest()[:16]}.pch"
        if not is_trusted(kept):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder) as new:
                parse(text).save(f"{new}/pch")
                Path(new, "pch").replace(kept)
            for old in sorted(folder.glob("beginning-*.pch"), key=lambda path: path.stat().st_mtime)[:-KEPT]:
                old.unlink(missing_ok=True)
        return kept
    return None


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "softcuda"


def states(*paths: str) -> list[str]:
    """Return of files what differs after they were changed."""
    return [f"{each.st_mtime_ns} {each.st_size}" for each in map(os.stat, paths)]


def key(arguments: list[str]) -> str:
    """Return a digest of what the headers are and of who reads them."""
    parts = [*arguments, *states(shutil.which("g++") or "/", __file__)]
    contents = b"".join(path.read_bytes() for path in version.sources() if path.suffix != ".py")
    return hashlib.sha256("\0".join(parts).encode() + contents).hexdigest()[:16]


def is_trusted(path: Path) -> bool:
    """Return whether a file is there and nobody else could have written it."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    others = stat.S_IWGRP | stat.S_IWOTH
    return stat.S_ISREG(status.st_mode) and status.st_uid in (os.geteuid(), 0) and not status.st_mode & others


def preprocessed(folder: Path, flags: list[str]) -> str:
    """Return the headers as g++ preprocesses them."""
    include = headers.SOFTCUDA / "include"
    first = [include / name for name in ("softcuda/cuda_dialect.h", *headers.BROUGHT, *headers.NAMES)]
    own = dict.fromkeys([*first, *(path for names in OWN for path in sorted(include.glob(names)) if path.is_file())])
    lines = [*(f'#include "{path}"' for path in own), *(f"#include <{name}>" for name in STANDARD)]
    source = folder / "headers.cpp"
    source.write_text("\n".join(lines) + "\n")
    command = ["g++", "-E", *flags, f"-I{include}", str(source)]
    # It notes nothing for whoever asks what a kernel is made of: that is not made of all headers.
    environment = {name: value for name, value in os.environ.items() if name != "SUNPRO_DEPENDENCIES"}
    done = subprocess.run(
        command, capture_output=True, text=True, errors="surrogateescape", check=True, env=environment
    )
    return done.stdout
