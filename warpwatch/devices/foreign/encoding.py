"""Messages between a trusted process and one that runs declarations: a closed set of values, and never pickle.

What is unpickled may run code. Here a message is JSON and raw bytes: numbers, text, bytes, tuples, lists, mappings,
NumPy arrays, and the dataclasses that declarations consist of or return. A function travels as a number and its
parameters; whoever reads it chooses what stands for it. Anything else arrives as its ``repr``, which rules of the
declaration then refuse by name.
"""

from __future__ import annotations

import json
import math
import os
import re
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path, PurePath
from typing import Any

import ml_dtypes
import numpy as np

from warpwatch.catalogue.accepted import Accept
from warpwatch.catalogue.arrays import CaseArray, DeclaredArray, Role, Scalar
from warpwatch.catalogue.calls import Call, PythonPackage
from warpwatch.catalogue.cases import Build, Case
from warpwatch.catalogue.declaration import Family, registered
from warpwatch.catalogue.launches import Capability, Owner, Step, Work
from warpwatch.catalogue.texts import Text
from warpwatch.catalogue.tolerance import DotError, ErrorOf, Exact, Relative, Ulp
from warpwatch.catalogue.variants import Configuration, Variant
from warpwatch.devices.foreign.shared_arrays import mapped, memory_of
from warpwatch.devices.foreign_text import CONTROL

CLASSES: Mapping[str, type[Any]] = {
    each.__name__: each
    for each in (
        *(
            Accept,
            Call,
            Capability,
            CaseArray,
            Configuration,
            DeclaredArray,
            Family,
            Owner,
            PythonPackage,
            Scalar,
            Step,
        ),
        *(Text, Variant, Work),
        *(DotError, ErrorOf, Exact, Relative, Ulp),
    )
}
PLAIN = re.compile(r"[<>|=]?[biufcSV]\d{1,2}", re.ASCII)
EXTENDED = {name for name in vars(ml_dtypes) if re.fullmatch(r"(b?float|u?int)\d+\w*", name)}
MOST_TEXT, MOST_BUFFERS = 2**26, 2**12  # bytes of a message without its arrays, and the number of these
MOST_DESCRIPTORS = 253  # of a message, as Linux has it (SCM_MAX_FD)
FEW_BYTES = 2**20  # of arrays that are always taken
MOST_FIELDS, LARGEST_STRUCT = 256, 4096  # of a struct that a kernel is given
DEEPEST, MOST_AXES = 50, 32
SHOWN = 300  # characters of what is not encoded
ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # in what Python writes of an object, different in each process
COUNT, SIZE = struct.Struct("<QQ"), struct.Struct("<Q")


class BadMessage(ValueError):
    """A message that is not one: it is too large, or holds what no message may hold."""


class Unsupported:
    """A value that does not travel: its text alone does. A class for each type, so that messages name the type."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


@dataclass(frozen=True)
class Needed:
    """A requirement of a declaration that is not a Python package: the process of the declarations looks for it."""

    name: str
    missing: Callable[[], str]
    version: Callable[[], str]


class Encoder:
    """Turns values into JSON, and collects the bytes of arrays.

    ``number``: returns what a function is called; without it functions do not travel. ``maps``: arrays in memory that
    can be mapped stay there, and its descriptors travel.
    """

    def __init__(self, number: Callable[[Callable[..., Any]], Any] | None = None, *, maps: bool = False) -> None:
        self.buffers: list[memoryview] = []
        self.descriptors: list[int] = []
        self._number, self._maps = number, maps

    def __call__(self, value: Any) -> Any:  # noqa: PLR0911  # a line a kind
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else ["n", repr(value)]
        if kind in (tuple, list):
            return [kind.__name__, *map(self, value)]
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, np.generic):
            return ["generic", described_type(value.dtype), np.asarray(value).tobytes().hex()]
        if isinstance(value, bytes):
            return ["bytes", self._add(np.frombuffer(value, np.uint8))]
        if CLASSES.get(kind.__name__) is kind:
            return ["class", kind.__name__, *([name, self(each)] for name, each in stated(value))]
        return self._rest(value)

    def _array(self, array: np.ndarray[Any, Any]) -> Any:
        kind, shape = described_type(array.dtype), list(array.shape)
        if not self._maps or not (found := memory_of(array)):
            return ["array", kind, shape, self._add(array)]
        self.descriptors.append(found[0].descriptor)
        return ["mapped", kind, shape, found[1], len(self.descriptors) - 1]

    def _add(self, array: np.ndarray[Any, Any]) -> int:
        flat = np.ascontiguousarray(array).reshape(-1)
        self.buffers.append((flat.view(np.uint8) if flat.size else np.empty(0, np.uint8)).data)
        return len(self.buffers) - 1

    def _rest(self, value: Any) -> Any:  # noqa: PLR0911
        match value:
            case complex() | int() | str():
                return ["complex", repr(value)] if isinstance(value, complex) else self(_plain_kind(value))
            case Role():
                return ["role", value.value]
            case slice():
                return ["slice", *map(self, (value.start, value.stop, value.step))]
            case PurePath():
                return ["path", str(value)]
            case Case():
                build = value.build
                names = [build.family.name, build.variant.name, build.dtype]
                return ["case", *names, self(build.configuration), self(value.shape)]
            case Mapping():
                return ["mapping", *([self(key), self(each)] for key, each in value.items())]
            case np.random.Generator():
                return ["rng", json.dumps(value.bit_generator.state, default=_plain)]
        if self._number and all(callable(getattr(value, name, None)) for name in ("missing", "version")):
            name = str(getattr(value, "name", "") or type(value).__name__)
            return ["needed", name, self(value.missing), self(value.version)]
        if callable(value) and self._number and not isinstance(value, type):
            return ["function", self._number(value)]
        return ["other", type(value).__name__, ADDRESS.sub("", repr(value))[:SHOWN]]


def _plain_kind(value: int | str) -> int | str:
    return str(value) if isinstance(value, str) else int(value)


def _plain(value: Any) -> Any:
    return value.tolist()


def stated(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a dataclass of a declaration that are not the defaults of its class."""
    for field in fields(value):
        own = getattr(value, field.name)
        if own is not field.default:
            yield field.name, own


def described_type(dtype: np.dtype[Any]) -> Any:
    """Describe an element type. Raises BadMessage for one that does not travel, such as that of Python's objects."""
    if dtype.fields:
        parts = [[name, described_type(kind[0]), int(kind[1])] for name, kind in dtype.fields.items()]
        return [dtype.itemsize, dtype.isalignedstruct, *parts]
    if dtype.subdtype:
        return ["of", described_type(dtype.subdtype[0]), *dtype.shape]
    if dtype.name in EXTENDED and dtype.type.__module__.startswith("ml_dtypes"):
        return dtype.name
    if not PLAIN.fullmatch(dtype.str):
        raise BadMessage(f"an array of {dtype} does not travel: give numbers")
    return dtype.str


def _type(given: Any, depth: int = 0) -> Any:
    if isinstance(given, str) and given in EXTENDED:
        return np.dtype(getattr(ml_dtypes, given))
    if isinstance(given, str) and PLAIN.fullmatch(given):
        return np.dtype(given)
    match given:
        case ["of", inner, *shape] if depth < DEEPEST and all(n in range(LARGEST_STRUCT) for n in shape):
            return np.dtype((_type(inner, depth + 1), tuple(shape)))
        case [int(size), bool(aligned), *parts] if size <= LARGEST_STRUCT and len(parts) < MOST_FIELDS and depth < 9:
            parts = [(str(name), _type(kind, depth + 1), int(offset)) for name, kind, offset in parts]
            names, kinds, offsets = zip(*parts, strict=True)
            layout: Any = {"names": names, "formats": kinds, "offsets": offsets, "itemsize": size}
            return np.dtype(layout, align=aligned)
    raise BadMessage("an unknown element type")


class Decoder:
    """Makes values of JSON and bytes. ``function``: makes what stands for a function, of what its encoder called it.

    ``descriptors``: of memory that arrays are mapped from.
    """

    def __init__(
        self,
        buffers: list[bytearray],
        function: Callable[[Any], Any] | None = None,
        descriptors: Sequence[int] = (),
    ) -> None:
        self._buffers, self._function, self._descriptors = buffers, function, descriptors

    def __call__(self, given: Any, depth: int = 0) -> Any:  # noqa: PLR0911
        if not isinstance(given, list):
            if isinstance(given, dict):
                raise BadMessage("an object")
            return shown(given) if isinstance(given, str) else given
        if depth > DEEPEST or not given:
            raise BadMessage("values too deep in each other")

        def inner(value: Any) -> Any:
            return self(value, depth + 1)

        match given:
            case ["tuple", *values]:
                return tuple(map(inner, values))
            case ["list", *values]:
                return list(map(inner, values))
            case ["mapping", *pairs]:
                return {_key(inner(key)): inner(value) for key, value in pairs}
            case ["class", str(name), *pairs] if name in CLASSES:
                return CLASSES[name](**{str(field): inner(value) for field, value in pairs})
            case ["slice", *ends] if len(ends) == len("abc"):
                return slice(*map(inner, ends))
            case ["needed", str(name), missing, version]:
                return Needed(shown(name), inner(missing), inner(version))
            case ["case", str(family), str(variant), str(dtype), configuration, shape]:
                whole = registered(family)
                return Case(Build(whole, whole.variant(variant), inner(configuration), dtype), inner(shape))
            case ["function", called] if self._function:
                return self._function(called)
        return self._single(given)

    def _single(self, given: list[Any]) -> Any:  # noqa: PLR0911
        """Return a value that holds no others."""
        match given:
            case ["n", "nan" | "inf" | "-inf" as text]:
                return float(text)
            case ["complex", str(text)]:
                return complex(text)
            case ["array", kind, list(shape), int(number)]:
                return self._array(_type(kind), shape, number)
            case ["mapped", kind, list(shape), int(first), int(number)] if self._descriptors:
                return mapped(os.dup(self._descriptors[number]), first, tuple(shape), _type(kind))
            case ["generic", kind, str(text)]:
                return np.frombuffer(bytes.fromhex(text), _type(kind), 1)[0]
            case ["bytes", int(number)]:
                return bytes(self._buffers[number])
            case ["role", str(text)]:
                return Role(text)
            case ["path", str(text)]:
                return Path(shown(text))
            case ["rng", str(state)]:
                return _generator(json.loads(state))
            case ["other", str(name), str(text)]:
                return _unsupported(name, shown(text))
        raise BadMessage(f"an unknown value {str(given[0])[:20]!r}")

    def _array(self, dtype: np.dtype[Any], shape: list[Any], number: int) -> Any:
        if not all(type(size) is int and size >= 0 for size in shape) or len(shape) > MOST_AXES:
            raise BadMessage("an array of an impossible shape")
        if not math.prod(shape):
            return np.empty(shape, dtype)
        return np.frombuffer(self._buffers[number], dtype).reshape(shape)


def shown(text: str) -> str:
    """Write out what changes how a terminal shows a text, but for the ends of lines."""
    return CONTROL.sub(_escaped, text)


def _escaped(control: re.Match[str]) -> str:
    return control[0] if control[0] == "\n" else control[0].encode("unicode_escape").decode()


def _key(key: Any) -> Any:
    if not isinstance(key, str | int | tuple):
        raise BadMessage("a mapping of something else than names")
    return key


def _unsupported(name: str, text: str) -> Unsupported:
    kind = type(name if name.isidentifier() else "object", (Unsupported,), {})
    return kind(text[:SHOWN])  # type: ignore[no-any-return]


def _generator(state: Any) -> np.random.Generator:
    """Return a generator of NumPy's usual kind in the state of another."""
    kind = np.random.PCG64()
    kind.state = state
    return np.random.Generator(kind)


def send(
    connection: socket.socket,
    value: Any,
    number: Callable[[Callable[..., Any]], Any] | None = None,
    *,
    maps: bool = False,
) -> None:
    """Send a message. Raises BadMessage, or OSError where the other process has ended.

    ``maps``: as of Encoder, where the other process takes descriptors.
    """
    encode = Encoder(number, maps=maps)
    text = json.dumps(encode(value)).encode()
    sizes = b"".join(SIZE.pack(buffer.nbytes) for buffer in encode.buffers)
    head = COUNT.pack(len(text), len(encode.buffers)) + sizes + text
    if encode.descriptors:
        head = head[socket.send_fds(connection, [head], encode.descriptors) :]
    connection.sendall(head)
    for buffer in encode.buffers:
        connection.sendall(buffer)


class Received:
    """Reads messages from a process.

    ``latest``: until when, by ``time.monotonic``. ``most``: is asked for the bytes that arrays may have, if not few.
    ``maps``: it takes descriptors of memory, as from a process that is trusted.
    """

    def __init__(
        self,
        connection: socket.socket,
        latest: float = math.inf,
        most: Callable[[], float] = lambda: math.inf,
        *,
        maps: bool = False,
    ) -> None:
        self._connection, self._latest, self._most = connection, latest, most
        self._maps, self._descriptors = maps, list[int]()

    def message(self, function: Callable[[Any], Any] | None = None) -> tuple[Any, bytes]:
        """Return the next message, and its text. Raises BadMessage, EOFError, OSError or TimeoutError."""
        length, count = COUNT.unpack(self._begin() if self._maps else self._bytes(COUNT.size))
        if length > MOST_TEXT or count > MOST_BUFFERS:
            raise BadMessage(f"more than {MOST_TEXT >> 20} MiB, or {MOST_BUFFERS:,} arrays")
        sizes = [SIZE.unpack(self._bytes(SIZE.size))[0] for _ in range(count)]
        if (total := sum(sizes)) > FEW_BYTES and total > self._most():
            raise BadMessage(f"arrays of {total:,} bytes, for which there is no memory")
        text = self._bytes(length)
        buffers = [self._bytes(size) for size in sizes]
        try:
            return Decoder(buffers, function, self._descriptors)(json.loads(bytes(text))), bytes(text)
        except BadMessage:
            raise
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise BadMessage(f"{type(error).__name__}: {str(error)[:SHOWN]}") from None
        finally:
            while self._descriptors:
                os.close(self._descriptors.pop())

    def _begin(self) -> bytes:
        """Return the first bytes of a message, with which its descriptors come."""
        begin, self._descriptors, _, _ = socket.recv_fds(self._connection, COUNT.size, MOST_DESCRIPTORS)
        if not begin:
            raise EOFError
        return begin + self._bytes(COUNT.size - len(begin))

    def _bytes(self, size: int) -> bytearray:
        buffer = bytearray(size)
        view, there = memoryview(buffer), 0
        ready = select.poll()
        ready.register(self._connection, select.POLLIN)
        while there < size:
            left = self._latest - time.monotonic()
            if left < math.inf and not ready.poll(max(0.0, 1000 * left)):
                raise TimeoutError
            count = self._connection.recv_into(view[there:])
            if not count:
                raise EOFError
            there += count
        return buffer
