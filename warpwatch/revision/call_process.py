"""Measures a call of another revision: ``python isolated.py call_process.py SOCKET SETTINGS TREE MODULE [FOLDER ...]``.

This script is started by apart.py. SOCKET: a file descriptor, for lines of JSON. Each question is a list of its number,
a function's name and arguments; each answer is an object, which apart.py reads as an ``Answer``. SETTINGS: of the
device, as JSON. MODULE: the package or module that declares the kernels of the folder TREE. FOLDER: where packages are.

The engine is that of the parent, so both ends of the socket are the same code; only declarations are the revision's.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpwatch.catalogue.project import Project

SAID = 2000  # characters of an error


def answer(project: Project, name: str, arguments: Sequence[Any]) -> dict[str, Any]:
    """Do what a question asks for, and return what its answer says besides."""
    from warpwatch.catalogue.cases import find_case  # noqa: PLC0415  # found by ``main``
    from warpwatch.timing import sampling  # noqa: PLC0415

    match name, arguments:
        case "prepare", [str(case), bool(cold), bool(checked)]:
            facts = sampling.prepare(find_case(project.families, case), Path(), cold, accepted=() if checked else None)
            return {name: facts.get(name, ()) for name in ("launches", "kernels")}
        case "warm_up", [str(kind), float(seconds)]:
            sampling.warm_up(kind, seconds)
        case "sample", [str(kind)]:
            return {"value": sampling.sample(kind)}
        case "observe", [str(option), int(core)]:
            return {"value": (value, 0) if (value := sampling.observe_turn(option, core)) else None}
        case "finish", []:
            sampling.finish("cold")
        case _:
            raise ValueError(f"{name} with {len(arguments)} arguments is not a question")
    return {}


def serve(lines: socket.SocketIO, project: Project) -> None:
    while question := lines.readline():
        number, name, *arguments = json.loads(question)
        try:
            said = answer(project, name, arguments)
        except (Exception, SystemExit) as caught:  # a revision's code may raise anything
            said = {"error": reason(caught)}
        lines.write(json.dumps({"number": number, **said}).encode() + b"\n")


def reason(error: BaseException) -> str:
    """Return an error in one line: the first of the engine's messages, the last of others, which say why at the end."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return (lines[0] if type(error).__module__.startswith("warpwatch.") else lines[-1])[:SAID]


def main() -> None:
    descriptor, settings, tree, module, *packages = sys.argv[1:]
    # Whatever the engine needs is imported before the revision, whose modules may have the same names.
    sys.path[:0] = packages[::-1]  # the engine first
    from warpwatch.catalogue.project import load_project  # noqa: PLC0415
    from warpwatch.devices import worker  # noqa: PLC0415

    with socket.socket(fileno=int(descriptor)) as end, end.makefile("rwb", buffering=0) as lines:
        try:
            worker.use(settings)
            worker.gpu()
            sys.path[:] = [tree, *(path for path in sys.path if path not in packages), *packages]
            project, error = load_project(Path(tree), module), ""
            worker.gpu().context.push()  # above one that a declaration's import of pycuda.autoinit has made
        except (Exception, SystemExit) as caught:
            project, error = None, reason(caught)
        lines.write(json.dumps({"number": 0, "value": None, "error": error}).encode() + b"\n")
        if project:
            serve(lines, project)
    os._exit(0)  # without the interpreter's own exit, where PyCUDA aborts if a context is left


if __name__ == "__main__":
    main()
