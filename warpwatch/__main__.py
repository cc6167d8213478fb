# PYTHON_ARGCOMPLETE_OK
"""Runs the command line: ``warpwatch``, also ``python -m warpwatch``.

It ends well on any output: ASCII terminals without µ, and readers that close the pipe early.
"""

from __future__ import annotations

import codecs
import io
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

from warpwatch.catalogue.leaving import end_now
from warpwatch.cli.main import main
from warpwatch.devices.compile.compiler import cache_notes

PLAIN = {"µ": "u", "×": "x", "–": "-", "²": "^2", "≤": "<="}  # what an ASCII terminal shows instead


def _plainer(error: UnicodeError) -> tuple[str, int]:
    """Replace what an output's encoding lacks; a handler for ``codecs.register_error``."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    plain = (PLAIN.get(character) or character.encode("ascii", "backslashreplace").decode() for character in missing)
    return "".join(plain), error.end


codecs.register_error("warpwatch-plain", _plainer)


def run_command(program: Callable[[], int], *, abruptly: bool = False) -> NoReturn:
    """Run a command and end this process with its status.

    A character that the output's encoding lacks is replaced by a plainer one. When the reader of the output has
    closed it (``| head``), the process ends by SIGPIPE, as other programs do. ``abruptly``: skip the interpreter's own
    shutdown, in which PyCUDA aborts while a context is left.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="warpwatch-plain")
    try:
        try:
            status = program()
            for sentence in cache_notes():
                print(f"cache: {sentence}", file=sys.stderr)
        finally:  # argparse leaves by SystemExit, and its output must be flushed as well
            _flush()
    except BrokenPipeError:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.raise_signal(signal.SIGPIPE)
        end_now(128 + signal.SIGPIPE)  # where the signal is blocked
    if abruptly:
        end_now(status)
    sys.exit(status)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:  # a stream is None where the process was started with it closed
            stream.flush()


def command() -> NoReturn:
    run_command(main, abruptly=True)


if __name__ == "__main__":
    command()
