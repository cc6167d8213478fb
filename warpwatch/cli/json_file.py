"""Collects what a subcommand finds for programs, and writes the file of its ``--json``, however the command ends."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import msgspec

from warpwatch.cli.options import BadArgument
from warpwatch.compare.code_difference import CodeDifference
from warpwatch.report.document import (
    COMMAND_ENDS,
    UNFINISHED,
    BisectionEntry,
    Cause,
    End,
    document_of,
    encoded,
    unwritable,
)
from warpwatch.runs.files import write_whole
from warpwatch.runs.record import Outcome, RunRecord, TestRecord

STDOUT = "-"


class JsonFile:
    """File of ``--json``, and what a subcommand has found so far: the record of its run, and what only some find.

    ``root``: the repository. ``checks``: the command checks kernels, so that its success is a passed run. ``messages``:
    why it ended as it did.
    """

    def __init__(self, name: str = "", words: Sequence[str] = ()) -> None:
        """``name``: the file, ``-`` for the standard output, or empty for none. ``words``: of the command line."""
        self._name, self._command, self._stdout = name, shlex.join(["warpwatch", *words]), sys.stdout
        self.root = Path.cwd()
        self.record = RunRecord(path=Path(name))
        self.causes: dict[str, Cause] = {}
        self.bisections: dict[str, BisectionEntry] = {}
        self.code: CodeDifference | None = None
        self.checks = False
        self.messages: list[str] = []

    def begin(self) -> AbstractContextManager[object]:
        """Write that the run is unfinished, so that no earlier document is taken for its own.

        Returns a context in which lines for people go elsewhere, where the document is the standard output. Raises
        BadArgument where the file cannot be written.
        """
        if self._name == STDOUT:
            return contextlib.redirect_stdout(sys.stderr)
        if self._name:
            if why := unwritable(Path(self._name)):
                raise BadArgument(why)
            self._write(End.UNFINISHED, UNFINISHED, None)
        return contextlib.nullcontext()

    def restart(self, settings: Mapping[str, str]) -> None:
        """Forget what was found, because it is looked for anew."""
        self.record = RunRecord(path=Path(self._name), settings={name: v for name, v in settings.items() if v})
        self.messages = []
        if self._name != STDOUT:
            self._write(End.UNFINISHED, UNFINISHED, None)

    def nothing(self, reason: str) -> None:
        """Record why nothing, or not all, was checked."""
        self.record = replace(self.record, nothing=(*self.record.nothing, " ".join(reason.split())))

    def add(self, *tests: TestRecord) -> None:
        self.record = replace(self.record, tests=(*self.record.tests, *tests))

    def end(self, status: int, message: str = "", *, broken: bool = False) -> None:
        """Write the document. ``message``: of the error that ended the command. ``broken``: it was not foreseen."""
        end = End.BROKEN if broken else COMMAND_ENDS.get(status, End.BROKEN)
        if end == End.DONE and self.checks:
            end = End.PASSED
        if end == End.REFUSED and any(test.outcome == Outcome.FAILED for test in self.record.tests):
            end = End.FAILED  # the error is the kernel's
        self._write(end, "\n".join([*self.messages, *filter(None, [message])]), status)

    def _write(self, end: End, message: str, status: int | None) -> None:
        if not self._name:
            return
        record = replace(self.record, exit_status=status)
        document = document_of(
            record, self._command, self.root, end, message, causes=self.causes, bisections=self.bisections
        )
        document = msgspec.structs.replace(document, code=self.code)
        if self._name == STDOUT:  # a line for each document, because `watch` writes several
            self._stdout.write(msgspec.json.encode(document).decode() + "\n")
            self._stdout.flush()
        else:
            write_whole(self._name, encoded(document))


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", metavar="FILE", help="write what was found for programs, as JSON (-: to the standard output)"
    )
