"""Tests that values of declarations travel unchanged, and that no message of another process does more than that."""

from __future__ import annotations

import json
import math
import random
import socket
import threading
import time
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from warpwatch.catalogue.arrays import ALL_ROWS, DeclaredArray, Role
from warpwatch.catalogue.launches import Capability, Owner, Work
from warpwatch.catalogue.tolerance import DotError, Relative
from warpwatch.catalogue.variants import Configuration
from warpwatch.devices.foreign.encoding import COUNT, SIZE, BadMessage, Decoder, Encoder, Received, send

STRUCT = np.dtype([("width", "i4"), ("data", "u8"), ("box", "f4", (2, 3))], align=True)
VALUES: list[Any] = [
    *(None, True, 0, -(2**70), 0.1, -0.0, float("inf"), "text", "two\nlines\t", b"\x00\xff", 1 - 2j, ALL_ROWS),
    *((), (1, (2, "a")), [1, [2.5]], {"a": 1, ("b", 2): [None]}, Path("a/b.cu"), Role.IN_OUT),
    *(np.float32(0.1), np.uint64(2**63), np.bool_(True), ml_dtypes.bfloat16(1.5), np.zeros(1, STRUCT)[0]),
    *(Work(3, 4), Capability(9, 0), Owner((1, 2), None), Relative(0.5), DotError(("n",), "float32")),
    *(Configuration((16, 16), (("ROWS", 2),)), DeclaredArray(Role.IN, (3, 4), "float32", low=-1.0)),
]
ARRAYS = [
    *(np.arange(6).reshape(2, 3).astype(kind) for kind in ("i1", "u8", ">i4", "f2", "f8", "c16", "?")),
    *(np.ones((2, 0)), np.array(3.0), np.arange(12).reshape(3, 4)[::2, ::-1]),
    *(np.ones(3, ml_dtypes.float8_e4m3fn), np.ones(2, STRUCT), np.array([np.nan, -np.inf, -0.0])),
]


def travelled(value: Any) -> Any:
    """Send a value through a socket, and return what arrives."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sender = threading.Thread(target=send, args=(theirs, value))
        sender.start()
        received, _ = Received(ours, time.monotonic() + 10).message()
        sender.join()
        return received


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_travels_unchanged(value: Any) -> None:
    received = travelled(value)
    assert repr(received) == repr(value)
    assert type(received) is type(value)


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}-{array.shape}")
def test_an_array_travels_unchanged(array: Any) -> None:
    received = travelled({"A": array})["A"]
    assert (received.dtype, received.shape) == (array.dtype, array.shape)
    assert received.tobytes() == array.tobytes()
    assert not array.size or received.flags.writeable


def test_random_numbers_go_on_where_they_were() -> None:
    rng = np.random.default_rng(5)
    rng.random(3)
    received = travelled(rng)
    assert np.array_equal(received.random(4), rng.random(4))


class Odd:
    def __repr__(self) -> str:
        return "odd at 0x7f00 \x1b[31m"

    def __reduce__(self) -> Any:
        raise AssertionError("is pickled")


def test_what_does_not_travel_arrives_as_its_text() -> None:
    received = travelled((Odd(), {1, 2}))
    assert repr(received) == "(odd \\x1b[31m, {1, 2})"
    assert [type(each).__name__ for each in received] == ["Odd", "set"]


def test_a_text_steers_no_terminal() -> None:
    assert travelled(["::error::\x1b[2J\r", "line\n\ttab"]) == ["::error::\\x1b[2J\\r", "line\n\ttab"]


@pytest.mark.parametrize("value", [np.array([Odd()]), np.array(["a"]), np.array(["2020-01-01"], "M8[D]")])
def test_arrays_of_something_else_than_numbers_are_refused_where_they_are_sent(value: Any) -> None:
    with pytest.raises(BadMessage, match="does not travel: give numbers"):
        Encoder()(value)


BAD: list[Any] = [
    *({}, {"a": 1}, [], ["no such kind"], ["class", "Popen"], ["class", "Work", ["operations", 1]], ["tuple", {}]),
    *(["class", "Work", ["operations", 1], ["bytes", 2], ["more", 3]], ["role", "king"], ["n", "1e5"]),
    *(["array", "O", [1], 0], ["array", "f4", [1 << 40], 0], ["array", "f4", [-1], 0], ["array", "f4", [2], 9]),
    *(["array", "f4", ["a"], 0], ["array", "f4", [1] * 99, 0], ["array", [8, False, ["a", "O", 0]], [1], 0]),
    *(["array", [1 << 40, False, ["a", "i4", 0]], [1], 0], ["array", [8, False, ["a", "i4", 1 << 40]], [1], 0]),
    *(["generic", "f4", "zz"], ["generic", "f4", ""], ["bytes", 7], ["rng", "{}"], ["function", 1], ["slice", 1]),
    *(["mapping", [["list"], 1]], ["mapping", [1]], ["case", "a", "b", "c", 1, 2], ["complex", "a"]),
]


@pytest.mark.parametrize("given", BAD, ids=lambda given: str(given)[:40])
def test_what_is_not_a_value_is_refused(given: Any) -> None:
    assert isinstance(failure(given, [bytearray(8)]), BadMessage)


def failure(given: Any, buffers: list[bytearray], most: float = math.inf) -> Exception | None:
    """Return what the reader of a message makes of it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        text = json.dumps(given).encode()
        sizes = b"".join(SIZE.pack(len(buffer)) for buffer in buffers)
        message = COUNT.pack(len(text), len(buffers)) + sizes + text + b"".join(buffers)
        sender = threading.Thread(target=theirs.send, args=(message,))  # as much as there is room for
        sender.start()
        try:
            Received(ours, time.monotonic() + 10, lambda: most).message()
        except Exception as error:
            return error
        finally:
            ours.shutdown(socket.SHUT_RDWR)
            sender.join()
    return None


def test_a_deep_a_large_and_a_slow_message_are_refused() -> None:
    deep: Any = 1
    for _ in range(900):
        deep = ["tuple", deep]
    assert isinstance(failure(deep, []), BadMessage)
    large = failure(["array", "u1", [2**20 + 1], 0], [bytearray(2**20 + 1)], most=2**20)
    assert "arrays of 1,048,577 bytes, for which there is no memory" in str(large)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(COUNT.pack(1 << 60, 0))
        with pytest.raises(BadMessage, match="more than 64 MiB"):
            Received(ours, time.monotonic() + 10).message()
        theirs.sendall(b"\x01")
        with pytest.raises(TimeoutError):
            Received(ours, time.monotonic() + 0.05).message()


def test_damaged_messages_are_values_or_refused() -> None:
    rng, encode = random.Random(1), Encoder()
    text = json.dumps(encode([*VALUES, *ARRAYS]))
    buffers = [bytearray(buffer) for buffer in encode.buffers]
    for _ in range(400):
        damaged, i = list(text), rng.randrange(len(text))
        damaged[i : i + rng.randrange(4)] = rng.choice(('"', "[", "]", ",", "9", "-1", "1e9", "null", "x", '"f8"'))
        try:
            given = json.loads("".join(damaged))
        except ValueError:
            continue
        assert isinstance(failure(given, buffers), BadMessage | None)
    assert Decoder(buffers)(json.loads(text))[3] == VALUES[3]
