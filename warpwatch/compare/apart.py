"""Measures a call and its counterpart of another revision in two processes that take turns on the GPU.

Two versions of Python code cannot be in one process, so each side has a process of its own. That is less precise than
two kernels side by side in one process: each process places its arrays elsewhere, and a turn begins with a change of
context. The first sample after each change is left out.

The other side's process answers in JSON of a few types, not by pickle as a worker process does: what is unpickled may
run code, and that code would run where the verdict is made.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from warpwatch.devices.gpu import Settings
from warpwatch.devices.isolated import Isolated
from warpwatch.devices.worker import CALL_SECONDS
from warpwatch.revision import call_process
from warpwatch.revision.declared import last_line, shortened
from warpwatch.timing import sampling
from warpwatch.timing.measurement import Measured
from warpwatch.timing.pair_samples import PairSamples
from warpwatch.timing.side_by_side import OtherSideFailed, Plan, take_turns
from warpwatch.timing.stopping import FEWEST_TURNS, MOST_TURNS, Stopping

LONGEST = 2**16  # bytes of an answer
LAST = 4096  # bytes that are kept of what the process prints


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Answer of call_process.py. ``value``: of a sample, its seconds, and how many were thrown away before it."""

    number: Annotated[int, Meta(ge=0)]
    error: str = ""
    value: tuple[Annotated[float, Meta(gt=0, le=1e6)], Annotated[int, Meta(ge=0, le=10**6)]] | None = None


class OtherProcess:
    """Process that takes samples of another revision's calls.

    ``tree``, ``module``: that revision's files, and its package of kernels. ``settings``: the device to open.
    """

    def __init__(self, tree: Path, module: str, settings: Settings) -> None:
        self._tree, self._module, self._settings = tree, module, settings
        self._isolated: Isolated | None = None
        self._received, self._printed = bytearray(), bytearray()
        self._questions = 0
        self._process = 0  # number of the processes so far that both sides have had; a pair is measured in several

    def measure(self, measured: Measured, process: int, plan: Plan) -> PairSamples:
        """Prepare and check both sides, and sample them in turns: old new new old, new old old new.

        What the samples scatter ends no turns early. Raises WrongResult or DeviceError for the new side,
        OtherSideFailed for the old one.
        """
        if process != self._process:  # this side's process is older than the other's
            self.stop()
            self._process = process
        case, call, cold, checked = measured.case, measured.kernel.worker.call, plan.kind == "cold", not plan.check
        accepted = (measured.accepted or ()) if checked else None
        facts = call(sampling.prepare, case, measured.kernel.image.path, cold, accepted=accepted)
        self._ask("prepare", case.id, cold, checked)
        call(sampling.settle)
        call(sampling.warm_up, plan.kind, plan.warm_up)
        before = call(sampling.read_clock)
        rule = Stopping(fewest=FEWEST_TURNS, most=MOST_TURNS, step=2, seconds=plan.seconds)
        pairs = take_turns(self._sampler(measured, plan.kind), rule)
        pairs = replace(pairs, clocks=(before, call(sampling.read_clock)), facts=facts if plan.check else {})
        if plan.check:
            measured.accepted = call(sampling.finish, plan.kind, statistics.median(pairs.new))
            self._ask("finish")
        return pairs

    def _sampler(self, measured: Measured, kind: str) -> Callable[[int, bool], tuple[float, int]]:
        """Return a function that takes a sample of a side; the first one after a change of sides is left out."""
        last: bool | None = None

        def take(is_new: bool) -> tuple[float, int]:
            return measured.kernel.worker.call(sampling.sample, kind) if is_new else self.sample(kind)

        def sample(_copy: int, is_new: bool) -> tuple[float, int]:
            nonlocal last
            if is_new != last:
                take(is_new)
            last = is_new
            return take(is_new)

        return sample

    def sample(self, kind: str) -> tuple[float, int]:
        """Take one sample of the prepared case, as ``sampling.sample``. Raises OtherSideFailed."""
        value = self._ask("sample", kind)
        if value is None:
            self.stop()
            raise OtherSideFailed("its process took no sample")
        return value

    def stop(self) -> None:
        """End the process, if there is one."""
        if self._isolated:
            self._isolated.end()
            self._socket.close()
            os.close(self._output)
        self._isolated = None

    def _start(self) -> None:
        (self._socket, theirs), (self._output, printing) = socket.socketpair(), os.pipe()
        self._questions, self._received, self._printed = 0, bytearray(), bytearray()
        arguments = [str(theirs.fileno()), json.dumps(asdict(self._settings)), str(self._tree), self._module]
        program = Path(call_process.__file__)
        with theirs, open(printing, "wb") as output:
            try:
                self._isolated = Isolated(program, arguments, self._tree, output, [theirs.fileno()])
            except OSError as error:
                self._socket.close()
                os.close(self._output)
                raise OtherSideFailed(f"its process does not start: {error}") from None
        self._answer()

    def _ask(self, name: str, *arguments: str | bool) -> tuple[float, int] | None:
        try:
            if not self._isolated:
                self._start()
            self._questions += 1
            with contextlib.suppress(OSError):  # the process has ended; the missing answer says why
                self._socket.sendall(json.dumps([self._questions, name, *arguments]).encode() + b"\n")
            return self._answer()
        except BaseException:  # an answer that is still to come would be taken for that to the next question
            self.stop()
            raise

    def _answer(self) -> tuple[float, int] | None:
        try:
            answer = msgspec.json.decode(self._line(), type=Answer)
            if answer.number != self._questions:
                raise ValueError(f"it is number {answer.number}, not {self._questions}")
        except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
            raise _failed(f"its process sent what is not an answer ({error}); process killed") from None
        if answer.error:
            raise _failed(answer.error)
        return answer.value

    def _line(self) -> bytes:
        """Return the next line that the process sends. Raises OtherSideFailed."""
        limit = self._settings.launch_timeout + CALL_SECONDS
        latest, sources = time.monotonic() + limit, [self._socket.fileno(), self._output]
        while (end := self._received.find(b"\n")) < 0:
            if len(self._received) > LONGEST:
                raise _failed(f"its process sent more than {LONGEST >> 10} KiB at once; process killed")
            left = latest - time.monotonic()
            ready = select.select(sources, [], [], left)[0] if left > 0 else []
            if not ready:
                raise _failed(f"no answer within {limit:g} s; process killed")
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
        """Return what the process has sent. Raises OtherSideFailed where it has ended."""
        with contextlib.suppress(OSError):
            if part := self._socket.recv(LONGEST):
                return part
        words = last_line(bytes(self._printed))
        raise _failed(f"its process died{f' ({words})' if words else ''}")


def _failed(why: str) -> OtherSideFailed:
    """Return an error of one line."""
    return OtherSideFailed(shortened(why))
