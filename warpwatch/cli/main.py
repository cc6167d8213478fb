"""The command ``warpwatch``, also ``python -m warpwatch``: kernels by hand, saved runs and baselines."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from collections.abc import Collection
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import argcomplete

from warpwatch import __version__
from warpwatch.catalogue.names import BadCase, suggestion
from warpwatch.catalogue.project import BadProject, find_project
from warpwatch.cli.options import INTERRUPTED, BadArgument
from warpwatch.devices.compile.compiler import CompileError
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.opening import NoDevice, Settings, ready_to_import
from warpwatch.revision.declared import BadRevision
from warpwatch.runs.record import BadRun

# Each subcommand is a module of this package, `warpwatch baseline record` is baseline_record.py, with two functions:
# add_arguments(parser), and run(project, ...), which is given the arguments by name and returns the exit status.
# A module is imported when its name is on the command line: `warpwatch list` need not wait for what others import.
COMMANDS = {
    "init": "write a small example into a repository: a kernel, its tests, a workflow",
    "setup": "install PyCUDA, and nvcc where there is none",
    "list": "list the cases that the benchmark times, and those that it leaves out",
    "run": "run one case on random data, of any shape, or every kernel once with --all",
    "judge": "check or time kernels that somebody else wrote, without running their Python here",
    "timer": "show the times of an empty kernel and of a small copy",
    "watch": "check each kernel whose files are saved: right, and slower than HEAD?",
    "diff": "show what changed in the machine code since another revision, without a GPU",
    "explain": "say what changed in a case: machine code and, with Nsight Compute, counters",
    "bisect": "find the commits that made a case slower",
    "ci": "check, compare and time the kernels as a job of a pull request does",
    "comment": "write what jobs found out as the one comment of a pull request",
    "notes": "write what jobs found out as the one note of each open merge request at GitLab",
    "baseline record": "measure in several processes, and make these runs the baseline of this GPU",
    "baseline update": "record a baseline, and propose it as a pull request",
    "baseline promote": "make saved runs the baseline of their GPU",
    "baseline migrate": "add to earlier runs what their cases' work was, from their commits",
    "ratchet": "take the limits of contracts from a baseline, and only tighten them",
    "history": "show a case's times in saved runs, and where cases changed permanently",
    "sites": "write a page above the sites of several GPUs",
    "thin": "make older saved runs small: their medians and quartiles stay",
    "report": "print time and rate of each kernel on each shape, or make a site",
    "ladder": "print how far each kernel is from its reference, in Markdown",
    "study": "time a family on several sizes, and write tables and pictures for a report",
    "picture": "draw how far each kernel is from its reference, as SVG",
    "self-check merge": "join parts that were made with -k",
}
GROUPS = {
    "baseline": "change the baseline that later runs are compared with",
    "self-check": "join parts of a self-check",
}
# `watch` reads the declarations again at each save: they may be wrong meanwhile. The others need no kernels.
WITHOUT_PROJECT = ("init", "setup", "judge", "watch", "comment", "notes", "sites", "thin")
# Extras of pyproject.toml, by the package that a command lacks.
EXTRAS = {"matplotlib": "pictures", "jinja2": "report", "watchfiles": "watch"}
DESCRIPTION = "Tests, times and compares the CUDA kernels of a repository."
BEGIN = """\
`warpwatch init` writes an example that works; `pytest` then tests kernels, and `pytest bench` times them.
`warpwatch COMMAND --help` has more on each command."""
UNKNOWN_COMMAND = re.compile(r"invalid choice: ('.*?'|\S+) \(choose from (.*)\)$")
# What a sentence says, without a traceback.
REFUSED = (BadArgument, BadCase, BadProject, BadRevision, BadRun, CompileError, DeviceError, NoDevice, OSError)


class Parser(argparse.ArgumentParser):
    """Parser that answers a misspelt name with the nearest one."""

    def error(self, message: str) -> NoReturn:
        if unknown := UNKNOWN_COMMAND.search(message):
            name, known = unknown[1].strip("'"), re.findall(r"[\w-]+", unknown[2])
            message = f"there is no `{self.prog} {name}`; {suggestion(name, known)}"
        elif message.startswith("unrecognized arguments: "):
            name = message.removeprefix("unrecognized arguments: ").split()[0].partition("=")[0]
            answer = suggestion(name, dict.fromkeys(re.findall(r"--[\w-]+", self.format_help())))
            message += f"; {answer}" if answer.startswith("did") else f"; `{self.prog} --help` lists what there is"
        super().error(message)


def make_parser(words: Collection[str] | None = None) -> Parser:
    """Make the parser of the command line ``words``: other subcommands have no arguments. None: all have theirs.

    What it parses has the ``command``, empty where a group or no command is named, and its ``parser``.
    """
    form = argparse.RawDescriptionHelpFormatter
    parser = Parser(prog="warpwatch", description=DESCRIPTION, epilog=BEGIN, formatter_class=form)
    parser.add_argument("--version", action="version", version=f"warpwatch {__version__}")
    parser.set_defaults(command="", parser=parser)
    groups = {"": parser.add_subparsers(metavar="COMMAND")}
    for name, text in COMMANDS.items():
        group, _, last = name.rpartition(" ")
        if group not in groups:
            whole = groups[""].add_parser(group, help=GROUPS[group], description=_sentence(GROUPS[group]))
            whole.set_defaults(parser=whole)
            groups[group] = whole.add_subparsers(metavar="COMMAND")
        own = groups[group].add_parser(last, help=text, description=_sentence(text))
        own.set_defaults(command=name, parser=own)
        if words is None or {*name.split()} <= {*words}:
            _module(name).add_arguments(own)
    return parser


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"warpwatch.cli.{name.replace(' ', '_').replace('-', '_')}")


def main() -> int:
    """Run the command line; returns 0, 1 where a kernel is wrong or something is refused, 2 for bad input."""
    completed = os.environ["COMP_LINE"].split() if "_ARGCOMPLETE" in os.environ else None  # by the tab key
    try:
        parser = make_parser(completed or sys.argv[1:])
        argcomplete.autocomplete(parser)
        parsed, unknown = parser.parse_known_args()
        arguments = vars(parsed)
        name, own = arguments.pop("command"), arguments.pop("parser")
        if unknown:
            own.error(f"unrecognized arguments: {' '.join(unknown)}")
        if not name:
            own.print_help()
            return 0
        if arguments.get("json"):
            return _documented(name, arguments)
        return _run(name, arguments)
    except BrokenPipeError:  # run_command handles it
        raise
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except ImportError as error:
        print(f"error: {error}; {_cure_of(error)}", file=sys.stderr)
    except REFUSED as error:
        print(f"error: {error}", file=sys.stderr)
    return 2


def _run(name: str, arguments: dict[str, Any]) -> int:
    if name in WITHOUT_PROJECT:
        return int(_module(name).run(**arguments))
    with ready_to_import(Settings(kind=arguments.get("device") or "auto")):
        project = find_project(Path.cwd())
    return int(_module(name).run(project, **arguments))


def _documented(name: str, arguments: dict[str, Any]) -> int:
    """Run a subcommand that writes its document, in whatever way it ends."""
    from warpwatch.cli.json_file import JsonFile  # noqa: PLC0415  # what others need not wait for

    json = arguments["json"] = JsonFile(arguments["json"], sys.argv[1:])
    with json.begin():
        try:
            status = _run(name, arguments)
        except REFUSED as error:
            json.end(2, str(error))
            raise
        except ImportError as error:
            json.end(2, f"{error}; {_cure_of(error)}")
            raise
        except KeyboardInterrupt:
            json.end(INTERRUPTED)
            raise
        except BaseException as error:
            json.end(1, f"{type(error).__name__}: {error}", broken=True)
            raise
        json.end(status)
    return status


def _cure_of(error: ImportError) -> str:
    """Say what installs a package that a command lacks."""
    package = (error.name or "").partition(".")[0]
    if package in EXTRAS:
        return f"pip install {package} (extra '{EXTRAS[package]}')"
    return f"Warpwatch is not installed as a whole: pip install {package}"
