"""Declarations of another revision: its Python runs apart from ours, and what it says is checked.

It must not run in the process that gives the verdict: its modules have the names of ours, and it may change anything
there. It runs with this user's rights, in a process of isolated.py, with little time and output. That is not a sandbox
(see SECURITY.md).
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.variant_rules import PLAIN_FLAG
from warpwatch.devices.foreign_text import last_line, shortened
from warpwatch.devices.isolated import Isolated
from warpwatch.revision import declarations
from warpwatch.revision.declarations import MOST_BYTES
from warpwatch.runs.identity import VERSION, Identity, Name, Text

EXPORT_SECONDS = 120.0
CaseId = Annotated[str, Meta(pattern=r"^[\w.-]+\Z", max_length=400)]


class BadRevision(ValueError):
    """Raised for a revision that cannot be compared with; the message says why and what helps."""


@dataclass(frozen=True, kw_only=True)
class DeclaredCase:
    """One case as warpwatch/revision/declarations.py describes it, checked. ``flags``: all that nvcc is given.

    ``text``: its CUDA C++, where ``source`` is the Python file that has it.
    """

    source: Text
    macros: Annotated[dict[Name, Text], Meta(max_length=64)]
    entries: Annotated[tuple[Text, ...], Meta(max_length=256)]
    identity: Identity
    own_macros: Annotated[dict[Name, Text], Meta(max_length=64)] = field(default_factory=dict)
    flags: Annotated[tuple[Text, ...], Meta(max_length=64)] = ()
    include: Annotated[tuple[Text, ...], Meta(max_length=64)] = ()
    code: Annotated[str, Meta(pattern=r"^[A-Za-z0-9+/=]*\Z")] = ""
    text: str = ""

    def __post_init__(self) -> None:
        for given in (self.source, *self.include):
            path = Path(given)
            if path.is_absolute() or ".." in path.parts or not (path.parts or given in self.include):
                raise ValueError(f"its source {given!r} is not a file of its kernels")
        for flag in self.flags:
            if not PLAIN_FLAG.fullmatch(flag):
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


msgspec.json.Decoder(Declared)  # reads the types now: msgspec 0.22 crashes where two threads are the first to ask


@functools.lru_cache(maxsize=2**14)
def own_identity(case: Case) -> Identity:
    """Describe what decides a case's work as that of another revision is described, without its machine code."""
    try:
        return msgspec.convert(declarations.identity(case, case.family.root), Identity)
    except msgspec.ValidationError as error:  # such as a name of thousands of characters: it is measured all the same
        why = f"it cannot be recorded ({error})".encode("ascii", "replace").decode()[:300]
        return Identity(version=VERSION, why={"steps": why})


def with_code(identity: Identity, code: str, version: str = "") -> Identity:
    """Return an identity with its machine code, or a call's with the version of its library: None where unknown."""
    if not identity.call:
        return msgspec.structs.replace(identity, code=code)
    needed = identity.library
    library = None if needed is None or (needed and not version) else f"{needed} {version}".strip()
    return msgspec.structs.replace(identity, code="", library=library)


def parse(text: bytes, revision: str) -> Declared:
    """Check what warpwatch/revision/declarations.py wrote. Raises BadRevision."""
    try:
        return msgspec.convert(json.loads(text), Declared)
    except (ValueError, RecursionError) as error:  # msgspec's and json's errors are ValueErrors
        raise unreadable(revision, error) from None


def unreadable(revision: str, why: Exception | str) -> BadRevision:
    """Return the error of a revision whose declarations cannot be read."""
    text = why if isinstance(why, str) else f"({shortened(str(why) or type(why).__name__)})"
    return BadRevision(f"{revision}: its declarations cannot be read {text}")


class DeclarationProcess:
    """Runs a revision's declarations in the background, until ``declared`` or ``stop`` is called.

    The revision is imported at once, in a process group of its own that does not outlive this object. The architecture
    of the GPU is needed only at the end, by ``declared``.
    """

    def __init__(self, tree: Path, module: str, revision: str) -> None:
        self._revision = revision
        self._failure: OSError | None = None
        self._latest = time.monotonic() + EXPORT_SECONDS
        self._open = contextlib.ExitStack()  # ``stop`` closes it
        try:
            self._printed = self._open.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
            self._output = self._open.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
            arguments = [str(tree), str(self._output.fileno()), module]
            program = Path(declarations.__file__)
            self._isolated = Isolated(program, arguments, tree, self._printed, [self._output.fileno()])
            self._open.callback(self._isolated.end)
        except OSError as error:
            self._failure = error

    def declared(self, arch: str) -> Declared:
        """Wait for the declarations and check what they say. ``arch``: of this GPU. Raises BadRevision."""
        try:
            if self._failure:
                raise self._failure
            if problem := self._finished(arch):
                raise unreadable(self._revision, problem)
            self._output.seek(0)
            return parse(self._output.read(), self._revision)
        except OSError as error:
            raise unreadable(self._revision, error) from None
        finally:
            self.stop()

    def _finished(self, arch: str) -> str:
        """Tell the process the GPU's architecture, and wait until it has written all; return what went wrong, if so."""
        process = self._isolated.process
        assert process.stdin
        with contextlib.suppress(OSError), process.stdin as pipe:  # it has ended: its status says why
            pipe.write(arch.encode())
        ended = self._isolated.has_ended(self._latest - time.monotonic(), self._is_full)
        self._isolated.end()
        if self._is_full():
            return f"(it writes more than {MOST_BYTES >> 20} MiB; process killed)"
        if not ended:
            return f"(no answer within {EXPORT_SECONDS:g} s; process killed)"
        self._printed.seek(max(0, os.fstat(self._printed.fileno()).st_size - 4096))
        last = last_line(self._printed.read()) or f"it ended with status {process.returncode}"
        return f"by this code ({last})" if process.returncode else ""

    def _is_full(self) -> bool:
        return max(os.fstat(file.fileno()).st_size for file in (self._printed, self._output)) >= MOST_BYTES

    def stop(self) -> None:
        self._open.close()
