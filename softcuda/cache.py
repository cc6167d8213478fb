"""Keeps built files in a folder that processes share, and reads them back only where they are whole and trusted.

An entry's name ends with a checksum of its contents: ``tiled-<key>-<checksum>.cubin``. Name and contents appear
together, by one rename, so two processes that make the same entry at once leave one whole file. An entry that is
damaged, or that another user could have written, is never used: it is made anew. What was refused, and why, is kept in
``notes()``.

What a compiler makes depends on more than can be known before it is called. So such an entry is found in two steps: by
a key of all that is known before, such as ``tiled-<key>-<checksum>.reads``, which lists the paths that the compiler
read or searched in vain (dependencies.py); and by a digest of that list with what is at these paths now.

Shared objects and programs are loaded by their path, after they were checked. So they are kept in a folder where
nobody else can replace them in between: in one that others can write to, a private folder takes its place.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import grp
import hashlib
import math
import os
import pwd
import re
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from .dependencies import Dependencies, names_in

DIGITS = 16  # of SHA-256, in a name
SECONDS_TO_ASK = 0.02  # between two requests for a lock
READS = ".reads"  # the tail of a list of dependencies
READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)
# A compiled file, and what it depends on, or None where it must not be used again.
Compiled = tuple[bytes, Dependencies | None]
_notes: dict[str, None] = {}


class CacheError(Exception):
    """Raised for a cache that cannot be used, or an entry that must not be; the message says what to do."""


class BadEntry(CacheError):
    """An entry that another user could have written, or whose contents are not what was kept."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A file of the cache, checked when it was found or made."""

    path: Path
    checksum: str  # of its contents


def _locked(file: IO[bytes]) -> bool:
    """Try to lock a file; false while another holder has it, true as well on a file system without locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


@dataclass(frozen=True, kw_only=True)
class Cache:
    """A folder of entries, and what to call it in a message.

    ``program``: names the private folder in the folder for temporary files. ``variable``: the environment variable
    that names another folder.
    """

    folder: Path
    program: str
    variable: str

    def find(self, stem: str, tail: str, *, is_code: bool) -> Entry | None:
        """Return the entry of that name, whole and trusted, or None. ``is_code``: the system loads it by its path."""
        return next((entry for entry, _ in self._entries(stem, tail, is_code)), None)

    def _entries(self, stem: str, tail: str, is_code: bool) -> Iterator[tuple[Entry, bytes]]:
        """Yield the entries of a stem, with or without a key behind it, with their contents."""
        for folder in self._folders(is_code):
            for path, checksum in _candidates(folder, stem, tail):
                try:
                    contents = read(path)
                except BadEntry as error:
                    note(f"{error}; it is made anew")
                except OSError:  # another process has removed it
                    continue
                else:
                    yield Entry(path=path, checksum=checksum), contents

    def compiled(
        self,
        stem: str,
        key: bytes,
        tail: str,
        root: Path,
        make: Callable[[], Compiled],
        *,
        is_code: bool,
        mode: int = 0o644,
        permit: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext,
        seconds: float = math.inf,
        waiting: Callable[[], object] = lambda: None,
    ) -> tuple[str, Entry]:
        """Return what was compiled with that key, and a digest of all of it, if all that it depends on is unchanged.

        Else make and keep it; without dependencies it is never found again. ``root``: where the paths of the project
        start. ``permit``: is waited for before. ``seconds``, ``waiting``: of _alone().
        """
        if known := self._find_compiled(stem, key, tail, root, is_code):
            return known
        with permit(), self._alone(stem, key, seconds, waiting):
            if known := self._find_compiled(stem, key, tail, root, is_code):
                return known
            contents, dependencies = make()
            text = dependencies.to_bytes() if dependencies else b"not to be found"
            digest = _digest(key, text, dependencies.states(root) if dependencies else os.urandom(DIGITS))
            entry = self.add(f"{stem}-{digest}", tail, contents, is_code=is_code, mode=mode)
            if dependencies:
                self.add(f"{stem}-{checksum_of(key)}", READS, text, is_code=is_code)
            return digest, entry

    def _find_compiled(self, stem: str, key: bytes, tail: str, root: Path, is_code: bool) -> tuple[str, Entry] | None:
        for _, text in self._entries(f"{stem}-{checksum_of(key)}", READS, is_code):
            with contextlib.suppress(ValueError, TypeError):  # another version wrote it
                digest = _digest(key, text, Dependencies.from_bytes(text).states(root))
                if entry := self.find(f"{stem}-{digest}", tail, is_code=is_code):
                    return digest, entry
        return None

    @contextlib.contextmanager
    def _alone(self, stem: str, key: bytes, seconds: float, waiting: Callable[[], object]) -> Iterator[None]:
        """Let one thread of all processes at a time through for a key; all of them where no lock file can be made.

        ``seconds``: the longest time to wait for another one, which may stand still. ``waiting``: is called meanwhile;
        what it raises ends the waiting.
        """
        path = self.folder / f"{stem}-{checksum_of(key)}.lock"
        try:
            file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb")
        except OSError:
            yield
            return
        with file:
            end = time.monotonic() + seconds
            while not _locked(file) and time.monotonic() < end:
                waiting()
                time.sleep(SECONDS_TO_ASK)
            try:
                yield
            finally:
                path.unlink(missing_ok=True)

    def dependencies(self, stem: str) -> Iterator[Dependencies]:
        """Yield the dependencies of every entry of that stem, whatever its key."""
        for _, text in self._entries(stem, READS, is_code=False):
            with contextlib.suppress(ValueError, TypeError):
                yield Dependencies.from_bytes(text)

    def add(self, stem: str, tail: str, contents: bytes, *, is_code: bool, mode: int = 0o644) -> Entry:
        """Keep ``contents`` under that name. Raises CacheError where there is no room or no such place."""
        checksum = checksum_of(contents)
        name = f"{stem}-{checksum}{tail}"
        with self._naming_what_cannot_be_written():
            try:
                path = write_entry(self.private() if is_code else self.folder, name, contents, mode)
            except OSError as error:
                if error.errno not in READ_ONLY:
                    raise
                place = self._private_temporary()
                note(f"{self.folder} cannot be written ({error.strerror}): what it lacks is kept in {place}")
                path = write_entry(place, name, contents, mode)
        return Entry(path=path, checksum=checksum)

    def private(self) -> Path:
        """Return the folder itself, or a private one if others can write to it or the user cannot."""
        why, can_write = "", False
        with self._naming_what_cannot_be_written():
            try:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                why, can_write = distrust(self.folder.stat(), is_folder=True), os.access(self.folder, os.W_OK)
            except OSError as error:
                if error.errno not in READ_ONLY:
                    raise
        if can_write and not why:
            return self.folder
        place = self._private_temporary()
        if why:
            cure = f"`chmod go-w {self.folder}` as its owner, or set {self.variable} to a folder of your own"
            note(f"{self.folder} {why}: code that is loaded is kept in {place} in its place; {cure}")
        else:
            note(f"{self.folder} cannot be written: what it lacks is kept in {place}")
        return place

    def _folders(self, is_code: bool) -> list[Path]:
        """Return the folders in which an entry may lie."""
        folders = []
        with contextlib.suppress(OSError):  # add() says what is wrong
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.folder.is_dir() and not (is_code and distrust(self.folder.stat(), is_folder=True)):
            folders.append(self.folder)
        if self._temporary().is_dir():
            folders.append(self._private_temporary())
        return folders

    def _temporary(self) -> Path:
        return Path(tempfile.gettempdir(), f"{self.program}-{os.geteuid()}")

    def _private_temporary(self) -> Path:
        """Return the user's own folder among the temporary files, the same for all processes."""
        place = self._temporary()
        with self._naming_what_cannot_be_written():
            place.mkdir(mode=0o700, exist_ok=True)
            status = place.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise CacheError(f"{place} is not a folder of the user's alone; remove it, or set {self.variable}")
        return place

    @contextlib.contextmanager
    def _naming_what_cannot_be_written(self) -> Iterator[None]:
        """Turn OSError into CacheError, which says what to do."""
        try:
            yield
        except OSError as error:
            place, cure = error.filename2 or error.filename or self.folder, f"set {self.variable} to another folder"
            raise CacheError(f"{place} cannot be written: {error.strerror}; make room there, or {cure}") from None


def read(path: Path) -> bytes:
    """Return the contents of an entry. Raises BadEntry where another user could have written them, or they are damaged.

    A file whose name holds no checksum was not made by a cache: the contents are returned as they are.
    """
    checksum = re.search(rf"-([0-9a-f]{{{DIGITS}}})(\.\w+)?$", path.name if "." in path.name else path.parent.name)
    if not checksum:
        return path.read_bytes()
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise BadEntry(f"{path} is not used: it is a symbolic link; remove it") from None
        raise
    with os.fdopen(file, "rb") as stream:
        why = distrust(os.fstat(file))
        if why:
            raise BadEntry(f"{path} is not used: it {why}; remove it, or `chmod go-w` it if it is yours")
        contents = stream.read()
    if checksum_of(contents) != checksum[1]:
        raise BadEntry(f"{path} is damaged: its contents do not match the checksum in its name")
    return contents


def _digest(*parts: bytes) -> str:
    return checksum_of(b"\0".join(parts))


def checksum_of(contents: bytes) -> str:
    """Return the checksum that an entry of these contents has in its name."""
    return hashlib.sha256(contents).hexdigest()[:DIGITS]


def distrust(status: os.stat_result, *, is_folder: bool = False) -> str:
    """Return why a file or folder may hold what another user wrote, or an empty text.

    A group may write where it is the user's private group: of the user's own name, without other members. Others may
    write to a folder in which nobody can replace what is another's (sticky, as /tmp): there each entry is checked.
    """
    if not (stat.S_ISDIR if is_folder else stat.S_ISREG)(status.st_mode):
        return "is not a folder" if is_folder else "is not an ordinary file"
    if status.st_uid not in (os.geteuid(), 0):
        return f"belongs to {_user_name(status.st_uid)}"
    if is_folder and status.st_mode & stat.S_ISVTX:
        return ""
    if status.st_mode & stat.S_IWOTH:
        return "can be written by everybody"
    if status.st_mode & stat.S_IWGRP and not _is_private_group(status.st_gid):
        return "can be written by its group"
    return ""


def note(sentence: str) -> None:
    """Keep a sentence for ``notes()``, once."""
    _notes[sentence] = None


def notes() -> list[str]:
    """Return the notes of this process about the caches that it used, for whoever runs it to print."""
    return list(_notes)


def _candidates(folder: Path, stem: str, tail: str) -> list[tuple[Path, str]]:
    """Return paths and checksums of the entries of a stem, with or without a key behind it."""
    suffix, _, inner = tail.partition("/")
    number = f"[0-9a-f]{{{DIGITS}}}"
    pattern = re.compile(rf"{re.escape(stem)}-(?:{number}-)?({number}){re.escape(suffix)}")
    names = sorted(name for name in names_in(str(folder)) if name.startswith(stem))
    entries = [(folder / name, match[1]) for name in names if (match := pattern.fullmatch(name))]
    if inner:
        entries = [(place, checksum) for place, checksum in entries if not distrust(place.lstat(), is_folder=True)]
    return [(place / inner, checksum) for place, checksum in entries]


def write_entry(folder: Path, name: str, contents: bytes, mode: int) -> Path:
    """Write a file into a folder, whole or not at all. Raises CacheError, and OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / name
    path.parent.mkdir(mode=0o700, exist_ok=True)
    if path.parent != folder and (why := distrust(path.parent.lstat(), is_folder=True)):
        raise CacheError(f"{path.parent} is not used: it {why}; remove it")
    file, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(contents)
            os.fchmod(file, mode)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def _is_private_group(group: int) -> bool:
    try:
        user, entry = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    return entry.gr_name == user and set(entry.gr_mem) <= {user}


def _user_name(user: int) -> str:
    try:
        return f"the user {pwd.getpwuid(user).pw_name}"
    except KeyError:
        return f"user {user}"
