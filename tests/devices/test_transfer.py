"""Tests that messages arrive as they were sent, arrays with every bit, and what happens where the other side ends."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection

import ml_dtypes
import numpy as np
import pytest

from warpwatch.catalogue.arrays import Array
from warpwatch.devices.transfer import receive, send

Pair = tuple[Connection, Connection]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = (Connection(end.detach()) for end in socket.socketpair())
    yield ours, theirs
    ours.close()
    theirs.close()


def passed(pair: Pair, contents: object) -> object:
    """Send contents and return what arrives; more than a socket holds must be sent while it is read."""
    sender = threading.Thread(target=send, args=(pair[0], (1, "of", None), contents))
    sender.start()
    head, contents_of_message = receive(pair[1])
    sender.join()
    assert head == (1, "of", None)
    return contents_of_message()


GRID = np.arange(24, dtype=np.float32).reshape(4, 6)


@pytest.mark.parametrize(
    "array",
    [
        GRID,
        GRID.T,
        GRID[::2, 1:4],
        np.zeros((0, 3), np.int32),
        np.array(7, np.uint8),
        np.array([0x7FC00000, 0xFFA00001], np.uint32).view(np.float32),  # two NaNs
        np.arange(-4, 4).astype(ml_dtypes.bfloat16),
        np.arange(5).astype([("a", "<i4"), ("b", "<f8")]),
        np.random.default_rng(1).random(2**20),  # 8 MB
    ],
    ids=["rows", "columns", "strided", "empty", "scalar", "nans", "bfloat16", "structs", "large"],
)
def test_arrays_arrive_with_every_bit_and_can_be_changed(pair: Pair, array: Array) -> None:
    got = passed(pair, {"one": array, "again": array})
    assert isinstance(got, dict)
    for each in got.values():
        assert (each.dtype, each.shape) == (array.dtype, array.shape)
        assert each.tobytes() == array.tobytes()
        each[...] = each
    assert got["one"] is got["again"]


def test_a_read_only_array_stays_so(pair: Pair) -> None:
    array = GRID.copy()
    array.flags.writeable = False
    got = passed(pair, array)
    assert isinstance(got, np.ndarray)
    assert (got == array).all()
    assert not got.flags.writeable


def test_what_cannot_be_pickled_sends_nothing(pair: Pair) -> None:
    with pytest.raises(Exception, match=r"(?i)pickle"):
        send(pair[0], 1, (GRID, lambda: None))
    send(pair[0], 2, "next")
    assert receive(pair[1])[0] == 2


def test_contents_that_cannot_be_made_leave_the_next_message_whole(pair: Pair) -> None:
    send(pair[0], 1, (GRID, Broken()))
    send(pair[0], 2, GRID)
    with pytest.raises(ValueError, match="not here"):
        receive(pair[1])[1]()
    head, contents = receive(pair[1])
    assert (head, contents().tolist()) == (2, GRID.tolist())


class Broken:
    """An object that cannot be made where it arrives."""

    def __reduce__(self) -> tuple[object, tuple[()]]:
        return refuse, ()


def refuse() -> None:
    raise ValueError("not here")


def test_an_end_in_the_midst_of_an_array_is_an_end(pair: Pair) -> None:
    """The other process was killed: half of its array came, and no more will."""
    ours, theirs = pair
    ours.send((1, b"", [100]))
    os.write(ours.fileno(), bytes(50))
    ours.close()
    with pytest.raises(EOFError):
        receive(theirs)


def test_to_send_to_a_process_that_has_ended_is_an_error(pair: Pair) -> None:
    pair[1].close()
    with pytest.raises(OSError, match="pipe"):
        send(pair[0], 1, np.zeros(2**22))
