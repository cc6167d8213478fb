"""Describes a configuration of a kernel: its block, and the macros that it is compiled with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from warpwatch.catalogue.names import size_name

Block = tuple[int, ...]  # the size that an id calls the block (see Variant)
Macro = int | str


@dataclass(frozen=True)
class Configuration:
    """One way to compile and launch a kernel. A macro is an attribute: ``c.ROWS``.

    ``block``: the size that ids call the block; () where there is none. ``macros``: those that were written for it.
    ``name``: what stands in ids in place of the block, or an empty text. ``plain``: it is written as a block alone,
    and a block of any other size would do as well.
    """

    block: Block
    macros: tuple[tuple[str, Macro], ...] = ()
    name: str = ""
    plain: bool = True

    def __getattr__(self, name: str) -> Macro:
        for known, value in self.__dict__.get("macros", ()):
            if known == name:
                return value  # type: ignore[no-any-return]
        raise AttributeError(f"this configuration has no {name}; it has block, {', '.join(dict(self.macros))}")

    @property
    def label(self) -> str:
        """The configuration's part of an id, such as 16x16 or 256_rows2; empty where there is no block."""
        if self.name or not self.block:
            return self.name
        return "_".join([size_name(self.block), *(f"{name}{value}".lower() for name, value in self.macros)])


def configurations(given: object) -> tuple[Configuration, ...]:
    """Read a declaration's list of configurations: tuples are blocks, mappings have a block and macros.

    Raises ValueError, which says what is wrong.
    """
    if not isinstance(given, tuple | list) or not given:
        raise ValueError(f"is {given!r}: give a tuple of at least one, such as ((16, 16),) or (dict(block=(256,)),)")
    made = tuple(_configuration(each) for each in given)
    if len({len(each.block) for each in made}) > 1:
        first, other = next((a.block, b.block) for a in made for b in made if len(a.block) < len(b.block))
        raise ValueError(f"has blocks of {len(first)} and of {len(other)} sizes: {first!r} and {other!r}")
    labels = [each.label for each in made]
    if twice := next((label for i, label in enumerate(labels) if label in labels[:i]), None):
        raise ValueError(f"has {twice} twice: ids would be the same; give one of them a name=")
    return made


def _configuration(given: object) -> Configuration:
    if isinstance(given, Mapping):
        return _from_mapping(given)
    if isinstance(given, int) and not isinstance(given, bool):
        given = (given,)
    if given == ():
        return Configuration(())
    return Configuration(_block(given))


def _from_mapping(given: Mapping[str, object]) -> Configuration:
    block, name = given.get("block", ()), given.get("name", "")
    macros = {key: value for key, value in given.items() if key not in ("block", "name")}
    for key, value in macros.items():
        if not key.isidentifier() or not key.isascii() or not isinstance(value, int | str):
            raise ValueError(f"has {key!r} = {value!r}: a macro is a name, and a whole number or a text")
    if not isinstance(name, str) or (name and not (name.isascii() and name.replace("_", "a").isalnum())):
        raise ValueError(f"has the name {name!r}: it stands in ids, and has letters, digits and _ alone")
    sizes = (block,) if isinstance(block, int) else block
    return Configuration(_block(sizes), tuple(macros.items()), name, plain=False)  # type: ignore[arg-type]


def _block(given: object) -> Block:
    most = 3
    sizes = tuple(given) if isinstance(given, tuple | list) else None
    if not sizes or len(sizes) > most or not all(_is_count(size) for size in sizes):
        raise ValueError(f"has {given!r}: a block is one to three whole numbers from 1 on, such as (16, 16)")
    return sizes


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
