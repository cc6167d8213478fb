"""Finds what a compilation depends on, so that its result is used again only where all of that is as it was.

gcc and clang, which nvcc calls too, write the files that they open to where SUNPRO_DEPENDENCIES says, and name the
folders that they search where they are asked to (SAYING). Both cost nothing, while ``nvcc -MD`` preprocesses once more
and lists what the host's pass reads too. From these, and from the names of headers in what was read, follow the paths
that were searched in vain: a header that appears there changes the build.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

# Variables that change what gcc and binutils make, and nvcc (as GCC 12 and CUDA 13.0 call getenv()), and those by which
# scripts in nvcc's place find a toolkit.
GCC_READS = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "GCC_EXEC_PREFIX", "COMPILER_PATH", "LIBRARY_PATH",
             "LPATH", "GCC_ROOT", "G++_ROOT", "BINUTILS_ROOT", "LD_RUN_PATH", "SOURCE_DATE_EPOCH")  # fmt: skip
NVCC_READS = (*GCC_READS, "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "compiler-bindir", "INCLUDES",
              "SYSTEM_INCLUDES", "LIBRARIES", "PTXAS_FLAGS", "CUDAFE_FLAGS", "NVVM_FLAGS", "OCG_FLAGS", "CICC_PATH",
              "NVVMIR_LIBRARY_DIR", "EDG_BASE", "USR_INCLUDE", "CUDA_HOME", "CUDA_PATH", "CUDA_ROOT",
              "CXX")  # fmt: skip
SAYING = ("-Xpreprocessor", "-v")  # lets gcc and clang name the folders that they search
SETTLED = 3_000_000_000  # nanoseconds; the times of some file systems have steps of two seconds
AGAIN = 0.5  # seconds until the files of a compiler are looked at again
SAMPLE, SAMPLES = 4096, 64  # bytes, and how many of these are read of a program

# What compilers print for SAYING, and nvcc for -v.
SEARCHED = re.compile(
    r'^#include "\.\.\." search starts here:\n((?: .*\n)*)#include <\.\.\.> search starts here:\n((?: .*\n)*)',
    re.MULTILINE,
)
IGNORED = re.compile(r'^ignoring nonexistent directory "(.*)"$', re.MULTILINE)
NOISE = re.compile(
    r"^(?:#\$ .*|ignoring (?:nonexistent|duplicate) directory .*|  as it is a non-system directory .*"
    r"|#include .* search starts here:(?:\n .*)*|End of search list\.)\n",
    re.MULTILINE,
)
SETTING = re.compile(r"^#\$ (\w+)=(.*)$", re.MULTILINE)
COMMAND = re.compile(r'^#\$ (?:"([^"\n]+)"|([^\s"=]+)) ', re.MULTILINE)

# How texts name headers. What is named in other ways, such as by a macro, is found by what was opened.
NAME = rb'[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)'
INCLUDE = re.compile(rb"#[ \t]*(include_next|include|import|embed)\b" + NAME)
QUESTION = re.compile(rb"(?:has|HAS)_(?:include|INCLUDE|embed|EMBED)\w*[ \t]*\(" + NAME)
# Uses of __has_include that are followed, or ask whether there is such a thing. All others are UNKNOWN.
KNOWN_USE = re.compile(
    QUESTION.pattern + rb"|\b(?:defined?[ \t]*\(?|ifn?def|undef)[ \t]*__has_(?:include(?:_next)?|embed)\b"
    rb"|\bdefine[ \t]+\w*has_(?:include|embed)\w*\([^\n]*",
    re.IGNORECASE,
)
UNKNOWN = re.compile(rb"\b__has_(?:include(?:_next)?|embed)\b")
COMMENT = re.compile(rb'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)  # a string first, which is none
CLOCK = re.compile(rb"__(?:DATE|TIME|TIMESTAMP)__")
ASSEMBLER = re.compile(rb'"[^"\n]*\.inc(?:bin|lude)\b')


class Unrepeatable(Exception):
    """Raised for a compilation whose result must not be used again; the message goes on after "because"."""


@dataclass(frozen=True, kw_only=True)
class Dependencies:
    """Paths whose states decide what a compilation makes. Those that are not absolute start at the project's root.

    ``files``: what was opened, or asked for by ``__has_include``. ``headers``: those that were installed with the
    compilers. ``programs``: the compilers' own. ``scripts``: those that stand before them, which are small. ``absent``:
    names that folders lacked, by folder. ``source``: the digest of the source, which the key decides as well.
    """

    files: Sequence[str]
    headers: Sequence[str]
    programs: Sequence[str]
    scripts: Sequence[str]
    absent: Mapping[str, Sequence[str]]
    source: str = ""

    @classmethod
    def from_bytes(cls, contents: bytes) -> Dependencies:
        """Read dependencies. Raises ValueError or TypeError if another version wrote them."""
        return cls(**json.loads(contents))

    def to_bytes(self) -> bytes:
        return json.dumps(vars(self), sort_keys=True, separators=(",", ":")).encode()

    def states(self, root: Path) -> bytes:
        """Return the present states: digests of all contents, and which of the absent names exist now."""
        base = f"{root}/"
        now = time.monotonic() // AGAIN
        states = [_installation(base, tuple(self.headers), tuple(self.programs), now)]
        states += [digest_of(path if path[:1] == "/" else base + path) for path in (*self.files, *self.scripts)]
        for folder, names in self.absent.items():
            there = names_in(folder if folder[:1] == "/" else base + folder)
            states.append("" if there.isdisjoint(names) else "/".join(sorted(there.intersection(names))))
        return "\n".join(states).encode(errors="surrogateescape")


def surroundings(names: Sequence[str] = NVCC_READS) -> bytes:
    """Return what a compiler reads besides its arguments: variables, and the gcc and g++ of the PATH."""
    values = [f"{name}={value}" for name in names if (value := os.environ.get(name)) is not None]
    path = os.environ.get("PATH", "")
    return "\0".join([*values, _on_path("gcc", path), _on_path("g++", path)]).encode(errors="surrogateescape")


def without_noise(output: str) -> str:
    """Return the output of a compiler, without what SAYING and -v of nvcc add to it."""
    return NOISE.sub("", output)


# States of files, folders and programs.

Status = tuple[int, ...]
_digests: dict[str, tuple[Status, str]] = {}  # of files that had not been changed for a while, by path
_folders: dict[str, tuple[Status, frozenset[str]]] = {}  # names in folders, likewise
T = TypeVar("T")


def _remembered(known: dict[str, tuple[Status, T]], path: str, look: Callable[[os.stat_result], T], absent: T) -> T:
    """Return what is at a path, looked at again only if its status has changed; ``absent`` if nothing is.

    It is kept unless a further change might not show in the status, as one within a tick of the clock.
    """
    try:
        status = os.stat(path)
        signature = status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_dev
        entry = known.get(path)
        if entry is not None and entry[0] == signature:
            return entry[1]
        result = look(status)
    except OSError:
        return absent
    if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > SETTLED:
        known[path] = signature, result
    return result


def digest_of(path: str) -> str:
    """Return the digest of a file, which is read again only if its status has changed; a word if it is not a file."""

    def look(status: os.stat_result) -> str:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest() if stat.S_ISREG(status.st_mode) else "no file"

    return _remembered(_digests, path, look, "absent")


@functools.lru_cache(maxsize=32)
def _installation(base: str, headers: tuple[str, ...], programs: tuple[str, ...], _now: float) -> str:
    """Return a digest of a compiler and its headers: hundreds of files, looked at once in a while."""
    states = [digest_of(os.path.join(base, path)) for path in headers]
    states += [_sampled(os.path.join(base, path)) for path in programs]
    return hashlib.sha256("\n".join(states).encode()).hexdigest()


def _sampled(path: str) -> str:
    """Return a digest of parts of a program, which may have 100 MB, and of its size."""

    def look(status: os.stat_result) -> str:
        digest = hashlib.sha256(str(status.st_size).encode())
        with open(path, "rb") as stream:
            for number in range(SAMPLES) if status.st_size > SAMPLE else [0]:
                digest.update(os.pread(stream.fileno(), SAMPLE, number * (status.st_size - SAMPLE) // (SAMPLES - 1)))
        return digest.hexdigest()

    return _remembered(_digests, path, look, "absent")


def names_in(folder: str) -> frozenset[str]:
    """Return the names in a folder, read again only if its status has changed."""
    return _remembered(_folders, folder, lambda status: frozenset(os.listdir(folder)), frozenset())


@functools.lru_cache
def _on_path(program: str, path: str) -> str:
    return shutil.which(program, path=path) or ""


@functools.lru_cache
def _with_its_programs(gxx: str) -> list[str]:
    """Return a gcc, and the programs that it calls."""
    done = subprocess.run([gxx, "-print-prog-name=cc1plus"], capture_output=True, text=True, check=False)
    path = os.environ.get("PATH", "")
    return [gxx, done.stdout.strip(), _on_path("as", path), _on_path("ld", path)]


def programs_of(program: str, output: str) -> list[str]:
    """Return the files of a compiler: of nvcc, by its -v, or of g++."""
    settings = dict(SETTING.findall(output))
    path = settings.get("PATH", os.environ.get("PATH", ""))
    program = _on_path(program, path)
    programs = [program]
    if here := settings.get("_HERE_"):
        programs += [f"{here}/nvcc", f"{here}/nvcc.profile", f"{settings.get('NVVMIR_LIBRARY_DIR')}/libdevice.10.bc"]
    for quoted, plain in COMMAND.findall(output) if here else [(program, "")]:
        called = _on_path(re.sub(r"\$(\w+)", lambda match: settings.get(match[1], ""), quoted or plain), path)
        programs += _with_its_programs(called) if re.search(r"(?:cc|\+\+|clang)[-.\d]*$", called) else [called]
    return [name for name in dict.fromkeys(programs) if os.path.isabs(name) and os.path.isfile(name)]


def _installed_by(programs: Iterable[str]) -> tuple[str, ...]:
    """Return where compilers are installed: above the ``bin`` of their programs."""
    parts = (path.rpartition("/bin/") for path in programs)
    return tuple({f"{top}/" for top, _, name in parts if top and "/" not in name})


# What a text names.


@dataclass(frozen=True, kw_only=True)
class _Scan:
    """``headers``: by which directive (b"" for a question), name, whether in quotes. ``reason``: not to repeat it."""

    headers: Sequence[tuple[bytes, str, bool]]
    reason: str


_scans: dict[str, tuple[Status, _Scan | None]] = {}


def _scan(path: str) -> _Scan | None:
    """Return the headers that a file names; None if there is no such file."""
    return _remembered(_scans, path, lambda _: _scan_text(Path(path).read_bytes()), None)


def _scan_text(text: bytes) -> _Scan:
    text = re.sub(rb"\\\r?\n", b"", text) if b"\\" in text else text
    named = INCLUDE.findall(text)
    asks = b"has_" in text or b"HAS_" in text
    text = COMMENT.sub(rb"\1 ", text) if asks else text
    named += [(b"", *names) for names in (QUESTION.findall(text) if asks else ())]
    headers = [(kind, os.fsdecode(quoted or other), bool(quoted)) for kind, quoted, other in named]
    reason = _of_the_clock(text)
    if asks and UNKNOWN.search(KNOWN_USE.sub(b"", text)):
        reason = "asks __has_include for what a macro names"
    elif b".inc" in text and ASSEMBLER.search(text):
        reason = "includes a file in assembly"
    return _Scan(headers=headers, reason=reason)


def _of_the_clock(text: bytes) -> str:
    """Return why a text means something else tomorrow; an empty text if the time is set from outside."""
    words = set(CLOCK.findall(text)) if b"__DATE__" in text or b"__TIME" in text else set()
    if "SOURCE_DATE_EPOCH" in os.environ:
        words -= {b"__DATE__", b"__TIME__"}
    return f"uses {min(words).decode()}" if words else ""


# What a compilation does.


@dataclass(frozen=True, kw_only=True)
class Place:
    """Place of a compilation.

    ``root``: where relative paths start. ``temporary``: folders that go with the compilation: their names stand for
    those below the root, or for what is made of the key. ``generated``: the name of a source that is. ``renamed``:
    other beginnings of paths, and what they stand for. ``covered``: a folder whose contents the compiler's version
    covers.
    """

    root: Path
    temporary: Sequence[Path]
    generated: str = ""
    renamed: Mapping[str, str] = field(default_factory=dict)
    covered: str = ""

    @functools.cached_property
    def _temporary(self) -> tuple[str, ...]:
        return tuple(f"{name}/" for folder in self.temporary for name in (folder, os.path.realpath(folder)))

    def name(self, path: str) -> str:
        """Return the path as it is kept."""
        for beginning, other in self.renamed.items():
            if path.startswith(beginning):
                return other + path[len(beginning) :]
        for folder in self._temporary:
            if path.startswith(folder):
                rest = path[len(folder) :]
                return rest if os.path.lexists(self.on_disk(rest.partition("/")[0])) else path
        return path

    def is_covered(self, path: str) -> bool:
        """Return whether the key and the compiler's version already decide the file's contents."""
        inside = path.startswith(self._temporary) or (self.covered and path.startswith(f"{self.covered}/"))
        return bool(inside or (self.generated and path == self.generated))

    def on_disk(self, path: str) -> str:
        return path if path.startswith("/") else f"{self.root}/{path}"


@dataclass(kw_only=True)
class Observation:
    """Observation of one compilation: the files that its compilers open, and where they look for them."""

    folder: Path  # of temporary files
    since: int = field(default_factory=time.time_ns)
    _lists: list[str] = field(default_factory=list)

    def environment(self, base: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the variables for one call of a compiler. Its messages are in English, because some are read.

        ``base``: the variables otherwise; those of this process unless given.
        """
        place = "/tmp" if " " in str(self.folder) else str(self.folder)  # a blank would end the name
        file, name = tempfile.mkstemp(prefix="opened-", dir=place)
        os.close(file)
        self._lists.append(name)
        return {**(base or os.environ), "SUNPRO_DEPENDENCIES": f"{name} made", "LC_ALL": "C"}

    def end(self) -> list[str]:
        """Return the files that compilers have opened, each once."""
        files: dict[str, None] = {}
        while self._lists:
            with open(name := self._lists.pop(), errors="surrogateescape") as stream:
                text = stream.read().replace("\\\n", " ")
            os.unlink(name)
            for word in re.findall(r"(?:[^\s\\]|\\.)+", text):
                if not word.endswith(":"):
                    files[re.sub(r"\\(.)", r"\1", word).replace("$$", "$")] = None
        return list(files)

    def dependencies(
        self, output: str, place: Place, program: str, flags: Sequence[str], main: str = ""
    ) -> Dependencies:
        """Return what the compilation depends on, by the output of its compilers. Raises Unrepeatable.

        ``main``: the source, as it is kept, unless it is a temporary one.
        """
        opened = self.end()
        if not SEARCHED.search(output) or not opened:
            raise Unrepeatable("its compiler does not say what it reads")
        search = _Search(place, [*filter(None, [main]), *opened], output)
        absolute = {beginning: other for beginning, other in place.renamed.items() if other.startswith("/")}
        if absolute != place.renamed and search.names_the_root():
            search = _Search(replace(place, renamed=absolute), [*filter(None, [main]), *opened], output)
        for path in search.opened:
            self._follow(search, path)
        search.follow_unnamed(main)
        absent, present = search.absent()
        files = dict.fromkeys([*search.opened, *search.asked, *present])
        programs = dict.fromkeys(map(place.name, programs_of(program, output)))
        if not programs:
            raise Unrepeatable(f"{program} is no longer where it was")
        for path in named_by([program, *flags], place.root):
            (programs if os.access(place.on_disk(path), os.X_OK) else files)[path] = None
        for path in (files := dict.fromkeys(path for path in files if not place.is_covered(path))):
            self._check(place.on_disk(path), path)
        scripts = [path for path in programs if os.path.getsize(place.on_disk(path)) <= SAMPLE * SAMPLES]
        large = [path for path in programs if path not in scripts]
        installed = _installed_by(large)
        headers = [path for path in files if path.startswith(installed)]
        own = [path for path in files if not path.startswith(installed)]
        return Dependencies(files=own, headers=headers, programs=large, scripts=scripts, absent=absent)

    def _follow(self, search: _Search, path: str) -> None:
        scan = _scan(search.place.on_disk(path)) or _Scan(headers=(), reason="has gone while it was compiled")
        if scan.reason and not search.place.is_covered(path):
            raise Unrepeatable(f"{path} {scan.reason}")
        for header in scan.headers:
            search.follow(path, *header)

    def _check(self, path: str, shown: str) -> None:
        """Raise Unrepeatable for a file that was changed since the compilation began."""
        with contextlib.suppress(OSError):  # expected to be absent
            if max(os.stat(path).st_ctime_ns, os.lstat(path).st_ctime_ns) > self.since:
                raise Unrepeatable(f"{shown} was changed while it was compiled")


def _status(path: str) -> os.stat_result | None:
    with contextlib.suppress(OSError):
        return os.stat(path)
    return None


class _Search:
    """Search for the paths at which a compiler has looked for headers in vain, by the files that it has opened."""

    def __init__(self, place: Place, opened: Iterable[str], output: str) -> None:
        self.place = place
        self._status = functools.cache(lambda path: _status(place.on_disk(path)))
        self.opened = dict.fromkeys(map(place.name, opened))
        self.asked: dict[str, None] = {}  # further paths whose presence or contents matter
        quote: dict[str, None] = {}
        bracket: dict[str, None] = {}
        for block in SEARCHED.findall(output):
            for folders, lines in zip((quote, bracket), block, strict=True):
                folders.update(dict.fromkeys(place.name(f"{line[1:]}/") for line in lines.splitlines()))
        self.quote, self.bracket = list(quote), list(bracket)
        self._vain = dict.fromkeys(place.name(f"{path}/")[:-1] for path in IGNORED.findall(output))
        self._named: set[str] = set()  # opened files that a text names
        self._identities = {self._identity(path): path for path in self.opened}

    def names_the_root(self) -> bool:
        """Return whether a file of the project names this checkout by its whole path, and so reads it elsewhere too."""
        own = [path for path in self.opened if not path.startswith("/") and self._status(path)]
        return any(os.fsencode(f"{self.place.root}/") in Path(self.place.on_disk(path)).read_bytes() for path in own)

    def _identity(self, path: str) -> tuple[int, int] | str:
        status = self._status(path)
        return (status.st_dev, status.st_ino) if status else path

    def follow(self, includer: str, kind: bytes, name: str, in_quotes: bool) -> None:
        """Add where a compiler has looked for a header that a file names."""
        beside = [includer[: includer.rfind("/") + 1], *self.quote] if in_quotes else []
        vain: dict[str, None] = {}
        for folder in [*beside, *self.bracket] if not name.startswith("/") else [""]:
            path = folder + name
            opened = self._identities.get(self._identity(path))
            if opened is not None:
                self._named.add(opened)
                self._vain |= vain
                if path != opened and os.path.normpath(path) != os.path.normpath(opened):
                    self.asked[path] = None  # a symbolic link leads to the file
            elif (status := self._status(path)) is None:
                vain[path] = None
                continue
            elif kind or not stat.S_ISREG(status.st_mode):  # a directive that was not reached, or a folder
                if kind != b"include_next" and stat.S_ISREG(status.st_mode):
                    return
                continue
            else:
                self.asked[path] = None
            if kind != b"include_next":
                break
        if not kind:
            self._vain |= vain

    def follow_unnamed(self, main: str) -> None:
        """Add where a compiler may have looked for files that no text names: those of macros and of flags."""
        folders = [*self.quote, *self.bracket]
        beside = dict.fromkeys(["", *(path[: path.rfind("/") + 1] for path in self.opened)])
        for path in self.opened.keys() - self._named - {main}:
            for number, folder in enumerate(folders):
                if path.startswith(folder):
                    name = path[len(folder) :]
                    before = [f"{other}{name}" for other in (*beside, *folders[:number])]
                    self._vain |= dict.fromkeys(other for other in before if self._status(other) is None)

    def absent(self) -> tuple[dict[str, list[str]], list[str]]:
        """Return missing names by their folder, and paths of what is not a file, as a dangling link."""
        absent: dict[str, set[str]] = {}
        present = []
        for path in self._vain:
            if self.place.is_covered(path):
                continue
            folder, name = self._first_missing(path)
            if name in names_in(self.place.on_disk(folder)):
                present.append(os.path.join(folder, name))
            else:
                absent.setdefault(folder, set()).add(name)
        return {folder: sorted(absent[folder]) for folder in sorted(absent)}, sorted(set(present))

    def _first_missing(self, path: str) -> tuple[str, str]:
        while True:
            parent, slash, name = path.rpartition("/")
            parent = parent or slash
            if not parent or self._status(parent):
                return parent, name
            path = parent


def named_by(flags: Sequence[str], root: Path) -> Iterator[str]:
    """Yield the files that flags and variables name, such as response files, and those that these name.

    Raises Unrepeatable for flags that mean something else tomorrow.
    """
    texts, seen = [*flags, *(os.environ.get(name, "") for name in NVCC_READS)], set()
    while texts:
        text = texts.pop()
        if reason := _of_the_clock(text.encode(errors="surrogateescape")):
            raise Unrepeatable(f"a flag {reason}")
        for word in re.findall(r"[^\s=,@'\"]+", text):
            for path in (word, f"{word}/gcc", f"{word}/g++"):
                whole = os.path.join(f"{root}/", path)
                if path not in seen and os.path.isfile(whole):
                    seen.add(path)
                    yield path
                    if os.path.getsize(whole) < SAMPLE * SAMPLES:
                        with open(whole, errors="surrogateescape") as stream:
                            text = stream.read()
                        texts += [] if "\0" in text else [text]  # no program
