"""Defines the identity of a case, by which two sides are told to do the same work, or not.

Two sides do the same work where every part of their identities is known and equal. Tolerance, reference and tests are
no part of it. What another revision declares and what a saved run holds are checked by these types, by msgspec.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Struct, structs

from warpwatch.catalogue.elements import numpy_type

VERSION = 1  # of an identity; one of another version is unknown
DEEPEST = 8  # levels of structs within structs

Word = Annotated[str, Meta(pattern=r"^\w*\Z", max_length=200)]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z_]\w*\Z", max_length=200)]
Text = Annotated[str, Meta(pattern=r"^[ -~]*\Z", max_length=2000)]
Number = Annotated[str, Meta(pattern=r"^[-+.\w()]{1,100}\Z")]  # as ``declarations.number`` writes it
Extent = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Three = tuple[Extent, Extent, Extent]
Bytes = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Shape = Annotated[tuple[Annotated[int, Meta(ge=0, le=2**48)], ...], Meta(max_length=8)]


class Pointer(Struct, frozen=True, array_like=True, tag="pointer"):
    """An address: that of an array, and bytes from there on."""

    array: Name
    offset: Annotated[int, Meta(ge=0, lt=2**40)]

    def __str__(self) -> str:
        return f"{self.array} + {self.offset:,} bytes" if self.offset else self.array

    def fill(self, addresses: Mapping[str, int]) -> np.generic:
        return np.uint64(addresses[self.array] + self.offset)


class Scalar(Struct, frozen=True, array_like=True, tag="scalar"):
    """A number, written so that equal texts are equal bits."""

    dtype: Annotated[str, Meta(pattern=r"^(u?int(8|16|32|64)|b?float(16|32|64)|bool|complex(64|128))\Z")]
    value: Number

    def __str__(self) -> str:
        return self.value

    def fill(self, addresses: Mapping[str, int]) -> np.generic:
        kind = numpy_type(self.dtype)
        if self.value.startswith("nan0x"):
            return np.frombuffer(bytes.fromhex(self.value[5:]), kind)[0]  # type: ignore[no-any-return]
        if kind.kind in "iub":
            return kind.type(int(self.value))  # type: ignore[no-any-return]
        with np.errstate(over="ignore"):
            return kind.type(complex(self.value) if kind.kind == "c" else float(self.value))  # type: ignore[no-any-return]


class Field(Struct, frozen=True, array_like=True):
    """A field of a struct: its name, the bytes before it, and its value."""

    name: Name
    offset: Annotated[int, Meta(ge=0, lt=4096)]
    value: Argument


class Structure(Struct, frozen=True, array_like=True, tag="struct"):
    """A struct that is passed by value: its size in bytes and its fields."""

    size: Annotated[int, Meta(gt=0, le=4096)]
    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        if _depth(self) > DEEPEST:
            raise ValueError(f"a struct has more than {DEEPEST} levels")

    def __str__(self) -> str:
        return f"{{{', '.join(f'{field.name} {field.value}' for field in self.fields)}}}"

    def fill(self, addresses: Mapping[str, int]) -> np.generic:
        filled = [field.value.fill(addresses) for field in self.fields]
        layout = {
            "names": [field.name for field in self.fields],
            "formats": [each.dtype for each in filled],
            "offsets": [field.offset for field in self.fields],
            "itemsize": self.size,
        }
        struct: Any = np.zeros(1, np.dtype(layout))  # type: ignore[call-overload]
        for own, each in zip(self.fields, filled, strict=True):
            struct[own.name] = each
        return struct[0]  # type: ignore[no-any-return]


Argument = Pointer | Scalar | Structure


def _depth(value: Argument) -> int:
    return 1 + max((_depth(field.value) for field in value.fields), default=0) if isinstance(value, Structure) else 0


class Step(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One launch of a case. ``names``: what the declaration calls its arguments, for messages alone."""

    entry: Text
    grid: Three
    block: Three
    shared_bytes: Bytes = 0
    cluster: Three = (1, 1, 1)
    cooperative: bool = False
    stream: Text = ""
    after: Annotated[tuple[Annotated[int, Meta(ge=0, lt=64)], ...], Meta(max_length=64)] = ()
    programmatic: bool = False
    arguments: Annotated[tuple[Argument, ...], Meta(max_length=256)] = ()
    names: Annotated[tuple[Text, ...], Meta(max_length=256)] = ()


class Array(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An array of a case.

    ``dtype``: empty where it is unknown. ``initial``: what each element is before a launch; empty where the kernel
    writes all. ``low``, ``high``: the range that it is drawn from; empty for the usual one.
    """

    name: Name
    role: Text
    shape: Shape
    dtype: Word = ""
    initial: Number | None = None
    aligned: Bytes = 0
    low: Number | None = None
    high: Number | None = None

    @property
    def is_result(self) -> bool:
        return self.role in ("out", "in-out")

    @property
    def range(self) -> str:
        """The range that it is drawn from, in words."""
        usual = self.low is None and self.high is None
        return "the usual range" if usual else f"[{self.low or 'least'}, {self.high or 'most'})"


class Identity(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that decides a case's work. A part that is None is unknown: it equals nothing.

    - ``code``: the checksum of the machine code; empty for a call;
    - ``steps``: the launches, with textures and tensor maps as structs of what describes them; of a call one, with what
      it is prepared with by name;
    - ``arrays``, and ``symbols``: variable of the module -> the input that is copied there;
    - ``draw``: how inputs are drawn, a digest of the source of the family's ``draw`` and what it reaches;
    - ``call``: the name of a call that takes a kernel's place; ``source``: a digest, as of ``draw``, of what prepares
      it; ``library``: what it needs, and the version. All three are empty for a kernel.

    ``why``: part -> why it is unknown. ``derived``: it was worked out later from the run's commit.
    """

    version: int = 0
    code: Text | None = None
    steps: Annotated[tuple[Step, ...], Meta(min_length=1, max_length=64)] | None = None
    arrays: Annotated[tuple[Array, ...], Meta(max_length=64)] | None = None
    symbols: Annotated[dict[Name, Name], Meta(max_length=64)] | None = None
    draw: Text | None = None
    call: Word | None = None
    source: Text | None = None
    library: Text | None = None
    why: Annotated[dict[Word, Text], Meta(max_length=16)] = {}
    derived: bool = False


PARTS: Mapping[str, str] = {
    "call": "what is called",
    "code": "the machine code",
    "steps": "how it is launched",
    "arrays": "which arrays it has",
    "symbols": "what is copied to symbols",
    "draw": "how inputs are drawn",
    "source": "what prepares the call",
    "library": "the version of the library",
}
SOURCES = ("draw", "source")  # parts that are digests of Python code
FITTING = ("role", "shape", "dtype", "initial")  # of an array: with others, a kernel cannot run on it


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Difference of two identities; false where they are the same work.

    ``changed``: sentences by part. ``unknown``: sentences on parts that a side does not know.
    """

    changed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changed or self.unknown)

    @property
    def words(self) -> str:
        """Changes in words; where there are none, the unknown parts."""
        return "; ".join(each for part in self.changed.values() for each in part) or "; ".join(self.unknown)

    def besides(self, *parts: str) -> str:
        """Return the changes besides those of these parts, in words; empty where there are none."""
        return "; ".join(each for part, words in self.changed.items() if part not in parts for each in words)


def difference(old: Identity | None, new: Identity | None, *, same_source: bool = False) -> Difference:
    """Compare two identities. ``same_source``: no file differs, so that Python code that is unknown is the same."""
    if old is None or new is None or not old.version == new.version == VERSION:
        return Difference(unknown=("which work it did is not recorded",))
    changed: dict[str, tuple[str, ...]] = {}
    unknown = []
    for part, named in PARTS.items():
        before, after = getattr(old, part), getattr(new, part)
        if before is None or after is None:
            if not (same_source and part in SOURCES):
                why = (new if after is None else old).why.get(part, "")
                unknown.append(f"{named} is unknown{f': {why}' if why else ''}")
        elif words := tuple(_words(part, before, after)):
            changed[part] = words
    if not all(array.dtype for array in (*(old.arrays or ()), *(new.arrays or ()))):
        unknown.append("the type of an array is unknown")
    if ranges := tuple(_of_ranges(old.arrays or (), new.arrays or ())):
        changed["draw"] = (*changed.get("draw", ()), *ranges)
    return Difference(changed=changed, unknown=tuple(unknown))


def digest_of_work(identity: Identity | None) -> str:
    """Return a digest that is equal where two identities are, and empty where a part is unknown."""
    if identity is None or difference(identity, identity).unknown:
        return ""
    steps = [structs.replace(step, names=()) for step in identity.steps or ()]
    parts = [steps if part == "steps" else getattr(identity, part) for part in PARTS]
    return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()[:32]


def incomparable(old: Identity, new: Identity) -> str:
    """Say why the kernel of one side cannot run on the arrays of the other; empty where it can."""
    before, after = ({array.name: array for array in side.arrays or ()} for side in (old, new))
    for is_result, what in ((False, "its inputs were others"), (True, "its results were others")):
        names = [name for name in {**before, **after} if (after.get(name) or before[name]).is_result == is_result]
        names = [name for name in names if name in before or after[name].role != "scratch"]  # it may do without
        words = [each for name in names for each in _of_array(before.get(name), after.get(name), FITTING)]
        if words:
            return f"{what} ({'; '.join(words)})"
    return ""


def _words(part: str, old: Any, new: Any) -> Iterator[str]:
    """Yield what differs in a part that both sides know, in words."""
    if part == "steps":
        yield from _of_steps(old, new)
    elif part == "arrays":
        yield from _of_arrays(old, new)
    elif part == "symbols":
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        yield from (f"symbol {name}: {old.get(name, 'none')} -> {new.get(name, 'none')}" for name in names)
    elif old != new:
        shown = {"code": "machine code", "draw": "how inputs are drawn", "source": "the source that prepares the call"}
        yield shown.get(part) or f"{part} {old or 'none'} -> {new or 'none'}"


def _of_steps(old: tuple[Step, ...], new: tuple[Step, ...]) -> Iterator[str]:
    if len(old) != len(new):
        yield f"launches: {len(old)} -> {len(new)}"
    for number, (before, after) in enumerate(zip(old, new, strict=False), 1):
        which = f"launch {number}: " if max(len(old), len(new)) > 1 else ""
        yield from (which + words for words in _of_step(before, after))


def _of_step(old: Step, new: Step) -> Iterator[str]:
    if old.entry != new.entry:
        yield f"entry {old.entry} -> {new.entry}"
    for what in ("grid", "block", "cluster"):
        sizes = ["x".join(map(str, getattr(side, what))) for side in (old, new)]
        if sizes[0] != sizes[1]:
            yield f"{what} {' -> '.join(sizes)}"
    for what in ("cooperative", "stream", "after", "programmatic"):
        before, after = getattr(old, what), getattr(new, what)
        if before != after:
            yield f"{what} {before or 'none'} -> {after or 'none'}"
    if old.shared_bytes != new.shared_bytes:
        yield f"dynamic shared memory {old.shared_bytes:,} -> {new.shared_bytes:,} bytes"
    if len(old.arguments) != len(new.arguments):
        yield f"arguments: {len(old.arguments)} -> {len(new.arguments)}"
        return
    names = next((side.names for side in (new, old) if len(side.names) == len(new.arguments)), ())
    for number, (before, after, name) in enumerate(zip_longest(old.arguments, new.arguments, names), 1):
        if before != after:
            yield f"argument {number}{f' ({name})' if name else ''}: {_both(before, after)}"


def _both(old: Argument, new: Argument) -> str:
    """Return both values, with their types where these differ."""
    same = isinstance(old, Scalar) and isinstance(new, Scalar) and old.dtype == new.dtype
    before, after = (
        str(each) if same or not isinstance(each, Scalar) else f"{each.dtype} {each}" for each in (old, new)
    )
    return f"{before} -> {after}" if before != after else f"another layout of {before}"


def _of_arrays(old: tuple[Array, ...], new: tuple[Array, ...]) -> Iterator[str]:
    before, after = ({array.name: array for array in side} for side in (old, new))
    if list(before) != list(after) and before.keys() == after.keys():
        yield f"order of arrays {' '.join(before)} -> {' '.join(after)}"
    for name in {**before, **after}:
        yield from _of_array(before.get(name), after.get(name), (*FITTING, "aligned"))


def _of_array(old: Array | None, new: Array | None, fields: Sequence[str]) -> Iterator[str]:
    if not (old and new):
        yield f"array {old.name} is gone" if old else f"array {new.name} is new" if new else ""
        return
    for name in fields:
        before, after = getattr(old, name), getattr(new, name)
        if before != after and not (name == "dtype" and "" in (before, after)):
            shown = ("x".join(map(str, each)) if name == "shape" else each for each in (before, after))
            yield f"array {old.name}: {name} {' -> '.join('none' if each is None else str(each) for each in shown)}"


def _of_ranges(old: tuple[Array, ...], new: tuple[Array, ...]) -> Iterator[str]:
    before = {array.name: array for array in old}
    for array in new:
        was = before.get(array.name, array)
        if (was.low, was.high) != (array.low, array.high):
            yield f"array {array.name}: drawn from {was.range} -> {array.range}"
