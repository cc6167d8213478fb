"""Reads what a revision declares: runs its Python apart from ours, and checks what it says.

The revision's code runs with this user's rights, in a process of isolated.py, with little time and output. It is no
sandbox (see SECURITY.md).
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Annotated, Any

import msgspec
from msgspec import Meta

from warpwatch.catalogue.cases import Case
from warpwatch.revision import declarations
from warpwatch.revision.isolated import Isolated
from warpwatch.runs.identity import VERSION, Identity, Name, Text

EXPORT_SECONDS = 120.0
MOST_BYTES = 2**26  # the most that a revision may write to a file or its output; 900 cases take 1 MB
POLL_SECONDS = 0.02
# Options of nvcc that change code alone: others name programs that it would run, or files that it would write.
FLAG = re.compile(
    r"--?(cubin|O[0-3]|std=c\+\+\d\d|lineinfo|generate-line-info|use_fast_math|restrict|fmad=\w+|ftz=\w+|prec-div=\w+"
    r"|prec-sqrt=\w+|maxrregcount=\d+|extra-device-vectorization|expt-relaxed-constexpr|(expt-)?extended-lambda"
    r"|default-stream=[\w-]+|D\w+(=\w*)?)"
)
CaseId = Annotated[str, Meta(pattern=r"^[\w.-]+\Z", max_length=400)]


class BadRevision(ValueError):
    """Raised for a revision that cannot be compared with; the message says why and what helps."""


@dataclass(frozen=True, kw_only=True)
class DeclaredCase:
    """One case as warpwatch/revision/declarations.py describes it, checked. ``flags``: all that nvcc is given."""

    source: Text
    macros: Annotated[dict[Name, Text], Meta(max_length=64)]
    entries: Annotated[tuple[Text, ...], Meta(max_length=256)]
    identity: Identity
    own_macros: Annotated[dict[Name, Text], Meta(max_length=64)] = field(default_factory=dict)
    flags: Annotated[tuple[Text, ...], Meta(max_length=64)] = ()
    include: Annotated[tuple[Text, ...], Meta(max_length=64)] = ()
    code: Annotated[str, Meta(pattern=r"^[A-Za-z0-9+/=]*\Z")] = ""

    def __post_init__(self) -> None:
        for given in (self.source, *self.include):
            path = Path(given)
            if path.is_absolute() or ".." in path.parts or not path.parts:
                raise ValueError(f"its source {given!r} is no file of its kernels")
        for flag in self.flags:
            if not FLAG.fullmatch(flag):
                raise ValueError(f"it compiles with {flag!r}, which is none of the options that are taken from others")
        if self.identity.call:
            return
        steps = self.identity.steps or ()
        if not steps or self.identity.arrays is None:
            raise ValueError("it does not say how it is launched")
        if unknown := [step.entry for step in steps if step.entry not in self.entries]:
            raise ValueError(f"it launches {unknown[0]!r}, which is none of its kernels {', '.join(self.entries)}")


@dataclass(frozen=True, kw_only=True)
class Declared:
    """Cases that a revision declares, by their ids. ``untimed``: one of each build that it tests and does not time."""

    cases: Annotated[dict[CaseId, DeclaredCase], Meta(max_length=100_000)]
    untimed: Annotated[dict[CaseId, DeclaredCase], Meta(max_length=100_000)] = field(default_factory=dict)


def declared_case(document: Mapping[str, Any]) -> DeclaredCase:
    """Check what ``declarations.declared`` says of a case. Raises ValueError."""
    return msgspec.convert(document, DeclaredCase)


@functools.lru_cache(maxsize=2**14)
def own_identity(case: Case) -> Identity:
    """Describe what decides a case's work as that of another revision is described, without its machine code."""
    try:
        return msgspec.convert(declarations.identity(case, case.family.root), Identity)
    except msgspec.ValidationError as error:  # such as a name of thousands of characters: it is measured all the same
        why = f"it cannot be recorded ({error})".encode("ascii", "replace").decode()[:300]
        return Identity(version=VERSION, why={"steps": why})


def of_code(identity: Identity, code: str, version: str = "") -> Identity:
    """Return an identity with its machine code, or a call's with the version of its library: None where unknown."""
    if not identity.call:
        return msgspec.structs.replace(identity, code=code)
    needed = identity.library
    library = None if needed is None or (needed and not version) else f"{needed} {version}".strip()
    return msgspec.structs.replace(identity, code="", library=library)


def read_declared(tree: Path, module: str, revision: str, arch: str) -> Declared:
    """Run a revision's declarations and check what they say. Raises BadRevision."""
    return Reading(tree, module, revision).declared(arch)


class Reading:
    """Runs a revision's declarations in the background, until ``declared`` or ``stop`` is called.

    The revision is imported at once. The architecture of the GPU is needed only at the end, by ``declared``.
    """

    def __init__(self, tree: Path, module: str, revision: str) -> None:
        self._revision, self._failure = revision, ""
        self._apart: Apart | None = None
        self._files = contextlib.ExitStack()
        try:
            self._said = self._files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115  # ``stop`` closes them
            self._output = self._files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
            self._apart = run_apart(tree, module, self._said, self._output)
        except OSError as error:
            self._failure = _why(error)

    def declared(self, arch: str) -> Declared:
        """Wait for the declarations and check what they say. ``arch``: of this GPU. Raises BadRevision."""
        why = self._failure
        try:
            if self._apart:
                status = self._apart.finish(arch)
                if not status:
                    return parse(_content(self._output))
                why = f"by this code ({last_line(_last_bytes(self._said)) or f'it ended with status {status}'})"
        except (OSError, ValueError, RecursionError) as error:  # msgspec's and json's errors are ValueErrors
            why = _why(error)
        finally:
            self.stop()
        raise BadRevision(f"{self._revision}: its declarations cannot be read {why}")

    def stop(self) -> None:
        """End the process, if it still runs, and remove its files."""
        if self._apart:
            self._apart.end()
        self._files.close()


def _why(error: Exception) -> str:
    return f"({shortened(str(error) or type(error).__name__)})"


def parse(text: bytes) -> Declared:
    """Check what warpwatch/revision/declarations.py wrote. Raises ValueError or RecursionError."""
    return msgspec.convert(json.loads(text), Declared)


class Apart:
    """A process that runs declarations.py, in a process group of its own that does not outlive it."""

    def __init__(self, process: Isolated, files: Sequence[IO[bytes]]) -> None:
        self._isolated, self._files = process, files
        self._latest = time.monotonic() + EXPORT_SECONDS

    def finish(self, arch: str) -> int:
        """Tell the process the GPU's architecture, and return its exit status.

        Raises ValueError where it takes too long or writes too much.
        """
        process = self._isolated.process
        assert process.stdin
        with contextlib.suppress(OSError), process.stdin as pipe:  # it has ended: its status says why
            pipe.write(arch.encode())
        self._wait(process.pid)
        self.end()
        return process.returncode

    def _wait(self, process: int) -> None:
        """Wait until the process ends, without reaping it."""
        while os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            if time.monotonic() > self._latest:
                raise ValueError(f"no answer within {EXPORT_SECONDS:g} s; process killed")
            if max(_size(file) for file in self._files) > MOST_BYTES:
                raise ValueError(f"it writes more than {MOST_BYTES >> 20} MiB; process killed")
            time.sleep(POLL_SECONDS)

    def end(self) -> None:
        """Kill what still runs of the process group, and remove its home folder."""
        self._isolated.end()


def run_apart(tree: Path, module: str, said: IO[bytes], output: IO[bytes]) -> Apart:
    """Start declarations.py on a tree. What is printed goes to ``said``. Raises OSError."""
    program = Path(__file__).with_name("declarations.py")
    arguments = [str(tree), str(output.fileno()), module]
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    process = Isolated(program, arguments, tree, said, pass_fds=[output.fileno()], variables=threads)
    return Apart(process, (said, output))


def _size(file: IO[bytes]) -> int:
    return os.fstat(file.fileno()).st_size


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    text = file.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise ValueError(f"it wrote more than {MOST_BYTES >> 20} MiB")
    return text


def _last_bytes(file: IO[bytes]) -> bytes:
    file.seek(max(0, _size(file) - 4096))
    return file.read(4096)


def last_line(printed: bytes) -> str:
    """Return the last line of what a revision's Python printed, fit to be printed; empty where there is none."""
    lines = printed.decode(errors="replace").strip().splitlines()
    return shortened(lines[-1]) if lines else ""


def shortened(value: object) -> str:
    """Make one short line without control characters of a foreign text."""
    text = "".join(c if c.isprintable() else "?" for c in str(value)[:300])
    return text + "..." * (len(str(value)) > 300)
