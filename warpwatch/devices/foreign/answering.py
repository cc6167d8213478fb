"""Declares and answers: ``python isolated.py answering.py SOCKET ROOT MODULE NAMED [FOLDER ...]``.

It is run by described.py. This process imports the package or module MODULE of the folder ROOT, sends its families as
data, and then answers what its functions return. SOCKET: a file descriptor, for messages of encoding.py. NAMED: the
setting that named MODULE, for messages. FOLDER: where packages are, the engine last. Whatever the declarations' Python
does, it does here: no device, no result of a kernel and no verdict are in reach.
"""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpwatch.catalogue.project import Project
    from warpwatch.catalogue.setting import Setting

PR_SET_PDEATHSIG = 1
MOST_WRITTEN = 2**28  # bytes of a file, what is printed among them
SAID = 2000  # characters of an error


class Functions:
    """The functions of the declarations, by number: in the order in which they are met, the same in each process."""

    def __init__(self) -> None:
        self._all: list[Callable[..., Any]] = []
        self._numbers: dict[int, int] = {}

    def number(self, function: Callable[..., Any]) -> list[Any]:
        """Return a function's number, what it takes, and its name."""
        number = self._numbers.setdefault(id(function), len(self._all))
        if number == len(self._all):
            self._all.append(function)  # which keeps its id its own
        return [number, parameters(function), str(getattr(function, "__qualname__", type(function).__name__))]

    def __getitem__(self, number: int) -> Callable[..., Any]:
        return self._all[number]


def parameters(function: Callable[..., Any]) -> list[list[Any]] | None:
    """Return name, kind and whether there is a default of each parameter; None where a function does not say them."""
    try:
        known = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return [[each.name, int(each.kind), each.default is not each.empty] for each in known]


def digests(project: Project, functions: Functions) -> dict[int, tuple[str, str]]:
    """Return digests, by number, of the functions that decide a case's work; or why one cannot be followed."""
    from warpwatch.catalogue.calls import Call  # noqa: PLC0415  # found by ``main``
    from warpwatch.catalogue.function_digest import digest_of_source  # noqa: PLC0415

    found: dict[int, tuple[str, str]] = {}
    for family in project.families:
        variants = family.variants if isinstance(family.variants, tuple) else ()
        calls = [call for variant in variants if isinstance(call := getattr(variant, "call", None), Call)]
        packages = {call.prepare: tuple(str(getattr(need, "name", "")) for need in call.needs) for call in calls}
        for function, allowed in [(family.draw, ()), *((f, ("ctypes", *names)) for f, names in packages.items())]:
            if not callable(function):
                continue
            try:
                digest = digest_of_source(function, family.root, allowed), ""
            except Exception as error:  # NotFollowed, and what the declarations' own classes raise
                digest = "", str(error)[:SAID]
            found[functions.number(function)[0]] = digest
    return found


def described(functions: Functions, setting: Setting) -> tuple[Any, ...]:
    """Load the project, and return ("project", families, digests of functions), or ("error", why)."""
    from warpwatch.catalogue.project import BadProject, load_setting  # noqa: PLC0415
    from warpwatch.devices.foreign.encoding import BadMessage, Encoder  # noqa: PLC0415

    try:
        project = load_setting(setting)
        Encoder(functions.number)(project.families)  # which numbers the functions
    except (BadMessage, BadProject) as error:
        return "error", str(error)[:SAID]
    return "project", project.families, digests(project, functions)


def answer(function: Callable[..., Any], given: dict[str, Any]) -> tuple[Any, ...]:
    """Call a function: ("value", what it returns), or ("error", type, message, file, line)."""
    from warpwatch.catalogue.named_arguments import call  # noqa: PLC0415

    try:
        return "value", call(function, given)
    except BaseException as error:  # a declaration's own function may raise anything
        return failure(error)


def failure(error: BaseException) -> tuple[Any, ...]:
    """Describe an error, with the innermost place that is neither the engine's nor a package's."""
    engine = Path(__file__).parents[3]
    frames = [(Path(frame.filename), frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)]
    own = [(path, line) for path, line in frames if not {"site-packages", "dist-packages"} & set(path.parts)]
    own = [(path, line) for path, line in own if not path.is_relative_to(engine / "warpwatch")]
    path, line = own[-1] if own else (Path(), 0)
    return "error", type(error).__name__, str(error)[:SAID], path, line


def serve(connection: socket.socket, setting: Setting) -> None:
    """Describe the declarations, and answer questions (number, function, given) until the parent hangs up."""
    from warpwatch.devices.foreign.encoding import BadMessage, Received, send  # noqa: PLC0415

    functions = Functions()
    send(connection, (0, described(functions, setting)), functions.number)
    questions = Received(connection, maps=True)
    while True:
        (number, which, given), _ = questions.message()
        reply = answer(functions[which], given)
        sys.stdout.flush()
        try:
            send(connection, (number, reply), functions.number)
        except BadMessage as error:
            send(connection, (number, failure(error)))


def main() -> None:
    descriptor, root, module, named, *packages = sys.argv[1:]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_WRITTEN, MOST_WRITTEN))
    # Whatever the engine needs is imported before the declarations, whose modules may have the same names.
    sys.path[:0] = packages[::-1]  # the engine first
    from warpwatch.catalogue import function_digest, project  # noqa: F401, PLC0415
    from warpwatch.catalogue.leaving import end_now  # noqa: PLC0415
    from warpwatch.catalogue.setting import Setting  # noqa: PLC0415
    from warpwatch.devices.foreign import encoding  # noqa: F401, PLC0415

    for stream in (sys.stdout, sys.stderr):  # the last words of one that ends
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    sys.path[:] = [root, *(path for path in sys.path if path not in packages), *packages]
    connection, setting = socket.socket(fileno=int(descriptor)), Setting(root=Path(root), module=module, named=named)
    with contextlib.suppress(EOFError, ConnectionError):  # the parent has ended, or asks no more
        serve(connection, setting)
    end_now(0)


if __name__ == "__main__":
    main()
