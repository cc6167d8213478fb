"""The public names, signatures and options are those of public_api.txt: no change of them goes unnoticed.

``python -m tests.test_public_api`` writes the list anew. docs/stability.md says which changes are allowed when.
"""

from __future__ import annotations

import argparse
import difflib
import enum
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.project import ROOT
from warpwatch.cli.main import make_parser
from warpwatch.plugin.options import OPTIONS, PREFIX

LIST = Path(__file__).with_name("public_api.txt")
MODULES = ("warpwatch", "warpwatch.testing", "warpwatch.results", "softcuda")
OURS = ("warpwatch", "softcuda")


def signature_of(value: Any) -> str:
    """The signature as it is written, without quotes around annotations and the addresses of functions."""
    text = re.sub(r" at 0x[0-9a-f]+>", ">", str(inspect.signature(value)))
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)


def members_of(owner: type) -> Iterator[str]:
    """The public names of a class that are its own or of a class of ours, with their types."""
    own = [each for each in owner.__mro__ if each.__module__.partition(".")[0] in OURS]
    if issubclass(owner, enum.Enum):
        yield from (f".{member.name} = {member.value!r}" for member in owner)
    fields = {name: text for each in reversed(own) for name, text in inspect.get_annotations(each).items()}
    yield from (f".{name}: {text}" for name, text in fields.items() if not name.startswith("_"))
    names = {name for each in own for name in vars(each) if not name.startswith("_") or name == "__call__"}
    for name in names - fields.keys():
        value = inspect.getattr_static(owner, name)
        if isinstance(value, property | functools.cached_property):
            getter = value.fget if isinstance(value, property) else value.func
            yield f".{name} -> {inspect.signature(getter).return_annotation}"
        elif callable(value) or isinstance(value, classmethod | staticmethod):
            yield f".{name}{signature_of(getattr(owner, name))}"


def described(module: str) -> Iterator[str]:
    """Lines for each public name of a module: what it is, and its signature or its type."""
    for name in sorted(importlib.import_module(module).__all__):
        value, path = getattr(importlib.import_module(module), name), f"{module}.{name}"
        if inspect.isclass(value) and not hasattr(value, "__origin__"):
            plain = issubclass(value, enum.Enum | BaseException)
            yield f"class {path}{'' if plain else signature_of(value)}"
            yield from sorted(f"  {path}{member}" for member in members_of(value))
        elif inspect.isfunction(value):
            yield f"def {path}{signature_of(value)}"
        else:
            yield f"data {path}: {type(value).__name__}"


def options_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The options and arguments of a command, and those of its subcommands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name in action.choices:
                yield from options_of(action.choices[name])
        elif action.dest not in ("help", "version"):
            yield f"{parser.prog} {' '.join(action.option_strings) or action.dest.upper()}"


def public_api() -> str:
    """The whole list, a name a line."""
    lines = [line for module in MODULES for line in described(module)]
    lines += sorted(f"pytest {PREFIX}{name} --{name}" for name in OPTIONS)
    return "\n".join([*lines, *options_of(make_parser())]) + "\n"


def test_the_public_names_and_signatures_are_those_of_the_list() -> None:
    changed = difflib.unified_diff(LIST.read_text().splitlines(), public_api().splitlines(), lineterm="", n=0)
    lines = [line for line in changed if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    if lines:
        cure = "docs/stability.md says what a change needs; python -m tests.test_public_api writes the list anew"
        pytest.fail("\n".join([f"the public API differs from {LIST.relative_to(ROOT)}; {cure}:", *lines]))


if __name__ == "__main__":
    LIST.write_text(public_api())
