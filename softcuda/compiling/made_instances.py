"""Makes the instances of kernel templates that host code launches, and tells which of them g++ refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator

import instances
from host_bodies import functions, head, is_marked, line_of
from items import Item, Source

INSTANCE = "softcuda-instance-"  # what the file of an instance is called, with its number


def wrong_ones(errors: str) -> list[int]:
    """The numbers of the instances whose very words g++ refuses; not of those within which it finds an error."""
    return [int(number) for number in re.findall(rf"^{INSTANCE}(\d+):.*: error:", errors, re.MULTILINE)]


def bare(instance: str) -> str:
    """The name of an instance without the namespaces and spaces in it, which g++ writes as it likes."""
    return re.sub(r"\w+::", "", "".join(instance.split()))


def launches(
    source: Source, found: list[Item], hosts: list[Item], remaining: list[Item], refused: set[str]
) -> dict[Item, list[str]]:
    """The instances of templates that host functions launch, by the function in whose place they are to be made.

    For functions of a class that is behind it. ``refused``: instances that are none.
    """
    known = {name[-1] for item in remaining for name in item.names}
    templates: dict[str, list[Item]] = {}
    for item in remaining:
        template = item.kind == "function" and source.tokens[item.first : item.first + 2] == ["template", "<"]
        if template and "__global__" in head(source, item):
            templates.setdefault(item.names[0][-1], []).append(item)
    owners = {member: item for item in found for member in host_members(source, item)} if templates else {}
    hosts = [*hosts, *owners]
    made: dict[Item, list[str]] = {}
    done: set[str] = set()
    for item in hosts:
        for instance, behind in instances.launched(source, hosts, item, templates, known) if item.body else ():
            if instance not in done and bare(instance) not in refused:
                made.setdefault(owners.get(behind, behind), []).append(instance)
                done.add(instance)
    return made


def made_at(source: Source, token: int, made: dict[int, str]) -> str:
    """What makes instances, by their numbers, where a token is: each in a file of its own, which errors name."""
    if not made:
        return ""
    file, line = line_of(source, token)
    variables = (
        f'\n# 1 "{INSTANCE}{number}"\n__attribute__((used)) static const auto softcuda_instance{number} = &{instance};'
        for number, instance in made.items()
    )
    return f'{"".join(variables)}\n# {line} "{file}"\n'


def host_members(source: Source, item: Item) -> Iterator[Item]:
    """The functions of a class that have a body and are not the device's."""
    if item.kind == "class" and item.body and "enum" not in head(source, item):
        for member in functions(source, [item]):
            if not is_marked(source, member):
                yield member
