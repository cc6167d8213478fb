"""Writes files that a user names: whole or not at all, and in place of nothing but an ordinary file.

A device, a pipe or an open file (/dev/null, a FIFO, /dev/stdout, /dev/fd/3) is written to and stays what it is. Where a
symbolic link is named, the file that it leads to is replaced. A file that is replaced keeps its owner and permissions.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from pathlib import Path

# Why a file may have to stay: of its folder, its owner, or a mount.
KEEPS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY)
WRITE = os.O_WRONLY | os.O_CLOEXEC


def write_whole(path: str | Path, content: str | bytes) -> None:
    """Write an output: a file whole or not at all. Raises OSError, which names ``path``."""
    data = content.encode() if isinstance(content, str) else content
    try:
        target = replaced(path)
        if target is None:
            _write_to(path, data)
        else:
            _replace(target, data)
    except OSError as error:  # under the name that the user knows
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


def replaced(path: str | Path) -> Path | None:
    """The ordinary file that an output takes the place of, links followed; None for what is written to as it is.

    Raises OSError for a folder and for links in a circle.
    """
    with contextlib.suppress(FileNotFoundError):
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        if not stat.S_ISREG(mode) or _open_file(path):
            return None
    return Path(os.path.realpath(path))


def _open_file(path: str | Path) -> re.Match[str] | None:
    """The process and the number of the open file that a path such as /dev/stdout names, if it does."""
    name = os.fspath(path)
    while os.path.islink(name):
        folder, last = os.path.realpath(os.path.dirname(name)), os.path.basename(name)
        if named := re.fullmatch(r"/proc/(\d+)(?:/task/\d+)?/fd/(\d+)", f"{folder}/{last}"):
            return named
        name = os.path.join(folder, os.readlink(name))
    return None


def _write_to(path: str | Path, data: bytes) -> None:
    named = _open_file(path)
    if named and int(named[1]) == os.getpid():
        file = os.dup(int(named[2]))  # it goes on where the process's own writing has got to
    else:
        try:
            file = os.open(path, WRITE | os.O_APPEND | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno == errno.ENXIO and stat.S_ISFIFO(os.stat(path).st_mode):
                raise OSError(errno.ENXIO, "no process reads this pipe") from None
            raise
        os.set_blocking(file, True)
    with os.fdopen(file, "wb") as stream:
        stream.write(data)


def _replace(target: Path, data: bytes) -> None:
    before = target.stat() if target.exists() else None
    if before and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    made = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with os.fdopen(os.open(made, WRITE | os.O_CREAT | os.O_EXCL, 0o666), "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
            if before:
                os.fchown(stream.fileno(), before.st_uid, before.st_gid)
                os.fchmod(stream.fileno(), stat.S_IMODE(before.st_mode))
        made.replace(target)
    except OSError as error:
        if before is None or error.errno not in KEEPS:
            raise
        with target.open("r+b") as stream:
            stream.write(data)
            stream.truncate()
    finally:
        made.unlink(missing_ok=True)
