"""File of ``--json``: said to be unfinished when a run begins, and written from its record when it has ended."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from warpwatch.plugin import judge
from warpwatch.report.document import PYTEST_ENDS, UNFINISHED, End, document_of, encoded, unwritable
from warpwatch.runs.files import write_whole
from warpwatch.runs.record import BadRun, RunRecord, parse_run

RECORD = pytest.StashKey[bytes]()  # of this run, as it is written
LOST = pytest.StashKey[list[str]]()  # sentences on files that could not be saved
BEGUN = pytest.StashKey[bool]()  # this run has written to its file


def begin(config: pytest.Config, path: Path, option: str) -> None:
    """Write that the run is unfinished, so that no earlier document is taken for its own. Raises UsageError.

    ``option``: as it is written in this repository.
    """
    if path.name == "-":
        raise pytest.UsageError(f"{option} -: pytest prints its own lines to the standard output; name a file")
    if why := unwritable(path):
        raise pytest.UsageError(f"{option}: {why}")
    try:
        _write(config, path, RunRecord(path=path, exit_status=None), End.UNFINISHED, UNFINISHED)
    except OSError as error:
        raise pytest.UsageError(f"{option}: {path} cannot be written: {error.strerror}") from None
    config.stash[BEGUN] = True


def write(config: pytest.Config, path: Path, option: str, status: int, message: str) -> bool:
    """Write the document of a run that has ended; returns whether that worked, and says why where it did not.

    ``message``: of the error that ended it, or empty. Where the file itself is refused, that error says so. A process
    of xdist, which begins no document, leaves it to the first one.
    """
    content = config.stash.get(RECORD, b"")
    if not config.stash.get(BEGUN, False) and (not message or path.name == "-" or unwritable(path)):
        return True
    record, end = RunRecord(path=path), PYTEST_ENDS.get(status, End.BROKEN)
    try:
        record = parse_run(path, content, tolerant=True) if content else record
    except BadRun as error:
        end, message = End.BROKEN, f"the record of this run cannot be read: {error}"
    texts = [message, *config.stash.get(LOST, [])]
    try:
        _write(config, path, replace(record, exit_status=status), end, "\n".join(filter(None, texts)))
    except OSError as error:
        print(f"{option}={path} could not be saved: {error.strerror}", file=sys.stderr)
        return False
    return True


def _write(config: pytest.Config, path: Path, record: RunRecord, end: End, message: str) -> None:
    write_whole(path, encoded(document_of(record, judge.command(config), config.rootpath, end, message)))
