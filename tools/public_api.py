"""Lists the public names, signatures and options: ``python -m tools.public_api`` writes tests/public_api.txt anew.

tests/test_public_api.py compares the list with the code. docs/stability.md says which changes are allowed when.
"""

from __future__ import annotations

import argparse
import enum
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from warpwatch.cli.main import make_parser
from warpwatch.plugin.options import OPTIONS, PREFIX

LIST = Path(__file__).resolve().parent.parent / "tests" / "public_api.txt"
MODULES = ("warpwatch", "warpwatch.testing", "warpwatch.results", "softcuda")
OURS = ("warpwatch", "softcuda")


def signature_of(value: Any) -> str:
    """Return a signature as it is written: without the object of a method, defaults that have no text as three dots."""
    text = re.sub(r"<[^<>]*(<\w+>)?[^<>]*>", "...", str(inspect.signature(value)))
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)
    text = re.sub(r"(?:typing\.)?Annotated\[(\w+), [\w.]*Meta\(.*?\)\]", r"\1", text)
    return re.sub(r"^\(self(, )?", "(", text)


def members_of(owner: type) -> Iterator[str]:
    """Yield the public names of a class that are its own or of a class of ours, with their types."""
    own = [each for each in owner.__mro__ if each.__module__.partition(".")[0] in OURS]
    if issubclass(owner, enum.Enum):
        yield from (f".{member.name} = {member.value!r}" for member in owner)
    fields = {name for each in own for name in inspect.get_annotations(each)}
    names = {name for each in own for name in vars(each) if not name.startswith("_") or name == "__call__"}
    for name in names - fields:
        value = inspect.getattr_static(owner, name)
        if isinstance(value, property | functools.cached_property):
            getter: Any = value.fget if isinstance(value, property) else value.func
            yield f".{name} -> {inspect.signature(getter).return_annotation}"
        elif callable(value) or isinstance(value, classmethod | staticmethod):
            yield f".{name}{signature_of(getattr(owner, name))}"


def described(module: str) -> Iterator[str]:
    """Yield lines for each public name of a module: what it is, and its signature."""
    for name in sorted(importlib.import_module(module).__all__):
        value, path = getattr(importlib.import_module(module), name), f"{module}.{name}"
        if inspect.isclass(value) and not hasattr(value, "__origin__"):
            plain = issubclass(value, enum.Enum | BaseException)
            yield f"class {path}{'' if plain else signature_of(value)}"
            yield from sorted(f"  {path}{member}" for member in members_of(value))
        elif inspect.isfunction(inspect.unwrap(value)):
            yield f"def {path}{signature_of(value)}"
        else:
            yield f"data {path}"


def options_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the options and arguments of a command, and those of its subcommands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name in action.choices:
                yield from options_of(action.choices[name])
        elif action.dest not in ("help", "version"):
            yield f"{parser.prog} {' '.join(action.option_strings) or action.dest.upper()}"


def public_api() -> str:
    """Return the whole list, a name a line."""
    lines = [line for module in MODULES for line in described(module)]
    lines += sorted(f"pytest {PREFIX}{name} --{name}" for name in OPTIONS)
    return "\n".join([*lines, *sorted(options_of(make_parser()))]) + "\n"


if __name__ == "__main__":
    LIST.write_text(public_api())
