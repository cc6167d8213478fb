"""The declarations of a project as data, where the process that uses them must not run their Python.

A family is the usual dataclass. Each of its functions is a stand-in, which asks a process that has imported the
declarations (answering.py). References have a process of their own: what drawing inputs has left behind is not there.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from warpwatch.catalogue.calls import Call
from warpwatch.catalogue.declaration import Family, register
from warpwatch.catalogue.function_digest import NotFollowed
from warpwatch.catalogue.named_arguments import BadFunction
from warpwatch.catalogue.names import BadCase
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.setting import BadProject, Setting
from warpwatch.catalogue.tolerance import ErrorOf
from warpwatch.devices.foreign import answering
from warpwatch.devices.foreign.confinement import Confined
from warpwatch.devices.foreign.encoding import BadMessage, Received, send, shown
from warpwatch.devices.foreign_text import last_line, plain
from warpwatch.devices.host_memory import available

START_SECONDS = 120.0  # in which declarations are imported
LAST_BYTES = 4096  # of what a process printed, where its last words are looked for
KEPT = 2**16  # answers that are remembered
DECLARATIONS, REFERENCES = "declarations", "references"
_P = inspect.Parameter
KINDS = (_P.POSITIONAL_ONLY, _P.POSITIONAL_OR_KEYWORD, _P.VAR_POSITIONAL, _P.KEYWORD_ONLY, _P.VAR_KEYWORD)
KNOWN: Mapping[str, type[Exception]] = {
    **{each.__name__: each for each in (BadCase, BadFunction, MemoryError)},
    BadMessage.__name__: BadFunction,
}


class DeclaredError(Exception):
    """An error that a function of a declaration raised, in its process. ``place``: where, in its files."""

    place: tuple[Path, int] = Path(), 0


class Process:
    """A process that answers for the declarations of a setting. It is started when it is asked, and after it has ended.

    ``seconds``: that an answer may take.
    """

    def __init__(self, setting: Setting, seconds: float) -> None:
        self._setting, self._seconds = setting, seconds
        self._isolated: Confined | None = None
        self._open = contextlib.ExitStack()
        self._lock = threading.Lock()  # inputs of later cases are drawn in a thread
        self._questions = 0
        self.started = 0  # processes so far
        self._text = b""  # of its first description

    def describe(self) -> Any:
        """Start the process, and return what it declares. Raises BadProject."""
        with self._lock:
            return self._start()

    def expect(self, other: Process) -> None:
        """Expect the declarations that another process has described."""
        self._text = other._text

    def ask(self, function: StandIn, given: Mapping[str, Any]) -> Any:
        """Return what a function of the declarations returns. Raises what it raised, or BadFunction.

        A function that another function returned is known to the process that returned it, and to no other.
        """
        with self._lock:
            try:
                if not (self._isolated and self._isolated.process.poll() is None):
                    self._start()
                if function.started not in (0, self.started):
                    raise BadFunction("it was made in a process that has ended: define it in the module instead")
                self._questions += 1
                send(self._socket, (self._questions, function.number, dict(given)), maps=True)
                number, reply = self._receive(self._seconds)
                if number != self._questions:
                    raise BadMessage(f"the answer to question {number}")
            except BadProject as error:
                raise BadFunction(str(error)) from None
            except TimeoutError:
                raise BadFunction(self._end(f"did not return within {self._seconds:g} s")) from None
            except (EOFError, ConnectionError):
                raise BadFunction(self._end("ended the process in which it ran")) from None
            except BadMessage as error:
                raise BadFunction(self._end(f"returns what cannot be used ({error})")) from None
        return _value(reply)

    @property
    def missing(self) -> tuple[str, ...]:
        """Sentences on what the process is not kept from here."""
        return self._isolated.missing if self._isolated else ()

    def _start(self) -> Any:
        self.stop()
        self.started += 1
        ours, theirs = socket.socketpair()
        self._socket = self._open.enter_context(ours)
        self._printed = self._open.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        setting = self._setting
        try:
            with theirs:
                arguments = [str(theirs.fileno()), str(setting.root), setting.module, setting.named]
                program = Path(answering.__file__)
                self._isolated = Confined(program, arguments, setting.root, self._printed, [theirs.fileno()])
            self._open.callback(self._isolated.end)
            _, reply = self._receive(START_SECONDS)
        except TimeoutError:
            raise BadProject(f"{self._named}: {self._end(f'did not end within {START_SECONDS:g} s')}") from None
        except (EOFError, OSError) as error:
            words = self._end("ended the process in which it ran") if self._isolated else str(error)
            raise BadProject(f"{self._named}: {words}") from None
        except BadMessage as error:
            raise BadProject(f"{self._named}: {self._end(f'declares what cannot be used ({error})')}") from None
        return self._checked(reply)

    @property
    def _named(self) -> str:
        return f"{self._setting.named} = {self._setting.module!r}"

    def _receive(self, seconds: float) -> tuple[int, Any]:
        message, text = Received(self._socket, time.monotonic() + seconds, available).message(self._stand_in)
        match message:
            case (int(number), (str(), *_) as reply):
                self._last = text
                return number, reply
        raise BadMessage("another form of answer")

    def _stand_in(self, called: Any) -> StandIn:
        match called:
            case [int(number), None | list() as parameters, str(name)]:
                return StandIn(self, number, parameters, shown(name), self.started if self._text else 0)
        raise BadMessage("an unknown function")

    def _checked(self, reply: Any) -> Any:
        """Return a description, which must be that of the first process: functions are asked by their numbers."""
        match reply:
            case ("project", tuple(families), dict(digests)) if all(map(_is_named, families)):
                if self._text and self._text != self._last:
                    self.stop()
                    words = "differ from one process to the next: do not let them depend on random numbers, or on sets"
                    raise BadProject(f"{self._named}: its declarations {words}")
                self._text = self._last
                return families, digests
            case ("error", str(message)):
                self.stop()
                raise BadProject(message)
        raise BadProject(f"{self._named}: {self._end('declares what cannot be used')}")

    def _end(self, what: str) -> str:
        """End the process, and return the words on it: with how it ended, and what it printed last."""
        assert self._isolated
        has_ended = self._isolated.has_ended(0.1, lambda: False)
        self._isolated.end()
        code = self._isolated.process.returncode
        how = f" ({signal.Signals(-code).name if code < 0 else f'exit status {code}'})" if has_ended else ""
        self._printed.seek(max(0, os.fstat(self._printed.fileno()).st_size - LAST_BYTES))
        last = plain(last_line(self._printed.read()))
        self.stop()
        last = f"; it printed last: {last}" if last else ""
        return f"{what}{how}: let it return, or raise an error{last}"

    def stop(self) -> None:
        """End the process, if it runs."""
        self._isolated = None
        self._open.close()


class StandIn:
    """Stands for a function of a declaration, and takes what that takes.

    ``number``: of the function. ``parameters``: name, kind and whether it has a default, None where it does not say
    them. ``started``: the number of the only process that knows it, 0 where all do.
    """

    def __init__(self, process: Process, number: int, parameters: Any, name: str, started: int) -> None:
        self.process, self.number, self.started = process, number, started
        self._parameters, self._name = parameters, name
        self.digest: tuple[str, str] | None = None
        self._answers: dict[object, Any] = {}

    def __repr__(self) -> str:
        return f"<function {self._name}>"

    @functools.cached_property
    def __signature__(self) -> inspect.Signature:
        if self._parameters is None:
            raise ValueError("it does not say what it takes")
        empty = inspect.Parameter.empty
        return inspect.Signature(
            [
                inspect.Parameter(str(name), KINDS[kind], default=None if has_default else empty)
                for name, kind, has_default in self._parameters
            ]
        )

    def __call__(self, **given: Any) -> Any:
        try:
            key = _key(given)
            if key in self._answers:
                return self._answers[key]
        except TypeError:  # arrays: what is asked once is not remembered
            return self.process.ask(self, given)
        answer = self.process.ask(self, given)
        if "rng" not in given and len(self._answers) < KEPT:
            self._answers[key] = answer
        return answer

    def digest_of_source(self) -> str:
        """Return the digest that the declarations' own process made of the function's source. Raises NotFollowed."""
        digest, why = self.digest or ("", "its source is not read here")
        if why or not digest:
            raise NotFollowed(why)
        return digest


def _key(given: Mapping[str, Any]) -> object:
    """Return what an answer is remembered by. Raises TypeError where values cannot be compared, as arrays."""
    parts = (
        (name, type(each), tuple(each.items()) if isinstance(each, dict) else each) for name, each in given.items()
    )
    key = tuple(parts)
    hash(key)
    return key


def _value(reply: Any) -> Any:
    """Return the value of an answer, or raise its error: one of the engine's by name, or one named as it was."""
    match reply:
        case ("value", value):
            return value
        case ("error", str(name), str(message), Path() as path, int(line)):
            kind = KNOWN.get(name) or type(name if name.isidentifier() else "Error", (DeclaredError,), {})
            error = kind(message)
            if isinstance(error, DeclaredError):
                error.place = path, line
            raise error
    raise BadFunction("it returns what cannot be used")


@dataclass(frozen=True, kw_only=True)
class DescribedProject(Project):
    """A project whose declarations are data.

    ``processes``: those that answer for them, by what they do it for. ``others``: sentences on what other processes of
    the same code, those of its calls, are not kept from here.
    """

    processes: Mapping[str, Process] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)

    @property
    def missing(self) -> tuple[str, ...]:
        """Sentences on what the processes are not kept from here."""
        own = self.processes[DECLARATIONS].missing
        return *own, *sorted(self.others - {*own})

    def stop(self) -> None:
        """End the processes."""
        for process in self.processes.values():
            process.stop()


def load_described(setting: Setting, seconds: float = 300.0) -> DescribedProject:
    """Load a project as ``load_setting`` does, without running its Python here. ``seconds``: of an answer.

    Raises BadProject.
    """
    processes = {what: Process(setting, seconds) for what in (DECLARATIONS, REFERENCES)}
    families, digests = processes[DECLARATIONS].describe()
    processes[REFERENCES].expect(processes[DECLARATIONS])
    families = tuple(_with_references(_with_digests(family, digests), processes[REFERENCES]) for family in families)
    register(families, setting.root)
    return DescribedProject(**vars(setting), families=families, processes=processes)


def _is_named(family: object) -> bool:
    return isinstance(family, Family) and isinstance(family.name, str)


def _with_digests(family: Family, digests: Mapping[Any, Any]) -> Family:
    variants = family.variants if isinstance(family.variants, tuple) else ()
    calls = [variant.call for variant in variants if isinstance(getattr(variant, "call", None), Call)]
    for function in (family.draw, *(call.prepare for call in calls if call)):
        if isinstance(function, StandIn):
            match digests.get(function.number):
                case (str(digest), str(why)):
                    function.digest = digest, why
    return family


def _with_references(family: Family, references: Process) -> Family:
    """Have what decides whether results are right asked in the process of references."""

    def moved(value: Any) -> Any:
        match value:
            case StandIn():
                return StandIn(references, value.number, value._parameters, value._name, value.started)
            case ErrorOf():
                return replace(value, plain=moved(value.plain))
            case dict():
                return {name: moved(each) for name, each in value.items()}
        return value

    return replace(family, **{name: moved(getattr(family, name)) for name in ("reference", "prints", "tolerance")})
