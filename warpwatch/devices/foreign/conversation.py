"""Asks an isolated process questions, and reads its answers, both as lines of JSON.

Whatever the process sends, prints or leaves out is an error, usually of one line. Nothing is unpickled: that may run
code, and the code would run where the verdict is made.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta

from warpwatch.devices.foreign_text import last_line, shortened
from warpwatch.devices.isolated import Isolated

LONGEST = 2**17  # bytes of an answer
LAST = 4096  # bytes that are kept of what the process prints


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Answer to a question: its number, and the error, empty where there is none."""

    number: Annotated[int, Meta(ge=0)]
    error: str = ""


AnswerT = TypeVar("AnswerT", bound=Answer)


class Conversation(Generic[AnswerT]):
    """Isolated process that answers questions. It is started by the first one, and again where it was stopped.

    ``answer``: the type of its answers. ``fails``: makes the error that is raised. ``shown``: makes its text fit to be
    printed, by default one line without control characters. ``seconds``: from the moment at which the last question was
    sent to the answer.
    """

    def __init__(
        self,
        program: Path,
        arguments: Sequence[str],
        tree: Path,
        answer: type[AnswerT],
        fails: Callable[[str], Exception],
        shown: Callable[[str], str] = shortened,
        isolate: Callable[..., Isolated] = Isolated,
    ) -> None:
        """Ask ``program``, which is given a file descriptor and ``arguments``, in the folder ``tree``.

        ``isolate``: starts it.
        """
        self._program, self._arguments, self._tree = program, arguments, tree
        self._answer_type, self._fails, self._shown, self._isolate = answer, fails, shown, isolate
        self._isolated: Isolated | None = None
        self._received, self._printed = bytearray(), bytearray()
        self._questions = 0
        self.seconds = 0.0

    @property
    def is_running(self) -> bool:
        """True from the first question until ``stop``."""
        return self._isolated is not None

    @property
    def isolated(self) -> Isolated:
        """The process, which runs."""
        assert self._isolated
        return self._isolated

    def start(self, limit: float) -> None:
        """Start the process, unless it runs, and wait until it is ready. ``limit``: in seconds."""
        if self._isolated:
            return
        (self._socket, theirs), (self._output, printing) = socket.socketpair(), os.pipe()
        self._questions, self._received, self._printed = 0, bytearray(), bytearray()
        arguments = [str(theirs.fileno()), *self._arguments]
        with theirs, open(printing, "wb") as output:
            try:
                self._isolated = self._isolate(self._program, arguments, self._tree, output, [theirs.fileno()])
            except OSError as error:
                self._socket.close()
                os.close(self._output)
                raise self._failed(f"its process does not start: {error}") from None
        try:
            self._answer(limit)
        except BaseException:
            self.stop()
            raise

    def ask(self, limit: float, name: str, *arguments: object) -> AnswerT:
        """Return the answer to a question, which comes within ``limit`` seconds. The process is stopped if it fails."""
        try:
            self.start(limit)
            self._questions += 1
            question = json.dumps([self._questions, name, *arguments]).encode() + b"\n"
            begin = time.perf_counter_ns()
            with contextlib.suppress(OSError):  # the process has ended; the missing answer says why
                self._socket.sendall(question)
            answer = self._answer(limit)
            self.seconds = 1e-9 * (self._arrived - begin)
            return answer
        except BaseException:  # an answer that is still to come would be taken for that to the next question
            self.stop()
            raise

    def stop(self) -> None:
        """End the process, if it runs."""
        if self._isolated:
            self._isolated.end()
            self._socket.close()
            os.close(self._output)
        self._isolated = None

    def _answer(self, limit: float) -> AnswerT:
        line = self._line(limit)
        self._arrived = time.perf_counter_ns()
        try:
            answer = msgspec.json.decode(line, type=self._answer_type)
            if answer.number != self._questions:
                raise ValueError(f"it is number {answer.number}, not {self._questions}")
        except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
            raise self._failed(f"its process sent what is not an answer ({error}); process killed") from None
        if answer.error:
            raise self._failed(answer.error)
        return answer

    def _line(self, limit: float) -> bytes:
        """Return the next line that the process sends."""
        latest, sources = time.monotonic() + limit, [self._socket.fileno(), self._output]
        while (end := self._received.find(b"\n")) < 0:
            if len(self._received) > LONGEST:
                raise self._failed(f"its process sent more than {LONGEST >> 10} KiB at once; process killed")
            left = latest - time.monotonic()
            ready = select.select(sources, [], [], left)[0] if left > 0 else []
            if not ready:
                raise self._failed(f"no answer within {limit:g} s; process killed")
            if self._output in ready:  # read first: what is printed last may say why the process died
                printed = os.read(self._output, LONGEST)
                self._printed = (self._printed + printed)[-LAST:]
                sources = sources if printed else sources[:1]
            if sources[0] in ready:
                self._received += self._receive()
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line

    def _receive(self) -> bytes:
        """Return what the process has sent. Raises an error where it has ended."""
        with contextlib.suppress(OSError):
            if part := self._socket.recv(LONGEST):
                return part
        words = last_line(bytes(self._printed))
        raise self._failed(f"its process died{f' ({words})' if words else ''}")

    def _failed(self, why: str) -> Exception:
        return self._fails(self._shown(why))
