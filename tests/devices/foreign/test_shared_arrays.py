"""Tests of arrays that other processes map: they are the same there, and their memory is used again when it is free."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from warpwatch.devices.foreign import shared_arrays
from warpwatch.devices.foreign.encoding import BadMessage, Received, send
from warpwatch.devices.foreign.shared_arrays import LEAST_BYTES, empty, memory_of, place_of

LARGE = (LEAST_BYTES // 8, 2)
READ = """
import pickle, sys
array = pickle.load(sys.stdin.buffer).array()
print(array.shape, array.dtype, array.sum(), array.flags.writeable)
"""


@pytest.fixture(autouse=True)
def _none_left() -> Iterator[None]:
    yield
    shared_arrays.free()


def large(value: float) -> Any:
    array = empty(LARGE, np.dtype("float32"))
    array[:] = value
    return array


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_another_process_reads_a_part_of_an_array() -> None:
    array = large(0.0)
    array[5:7] = 1.5
    place = place_of(array[4:8])
    done = subprocess.run([sys.executable, "-c", READ], input=pickle.dumps(place), capture_output=True, check=True)
    assert done.stdout.decode().split("\n")[0] == "(4, 2) float32 6.0 False"


def test_only_a_large_array_that_lies_in_one_piece_is_mapped() -> None:
    assert memory_of(empty((LEAST_BYTES - 1,), np.dtype("uint8"))) is None
    assert memory_of(np.zeros(LARGE)) is None
    assert memory_of(large(1.0)[:, 0]) is None


def test_memory_is_used_again_when_no_array_is_left() -> None:
    before, first = descriptors(), large(1.0)
    view = first[3:]
    del first
    second = large(2.0)
    assert view.max() == 1.0  # a view keeps it
    address = second.ctypes.data
    del second
    third = large(3.0)
    assert (third.ctypes.data, view.max()) == (address, 1.0)
    del view, third
    shared_arrays.free()
    assert descriptors() == before


def test_an_array_is_mapped_by_who_receives_its_message() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        before, array = descriptors(), large(4.0)
        send(theirs, {"A": array, "part": array[2:3], "n": 3}, maps=True)
        received, _ = Received(ours, maps=True).message()
        array[2] = 5.0
        assert received["part"].tolist() == [[5.0, 5.0]]
        assert received["A"][2:4].tolist() == [[5.0, 5.0], [4.0, 4.0]]
        assert received["n"] == 3
        del received, array
        shared_arrays.free()
        assert descriptors() == before


def test_nobody_who_is_not_trusted_makes_this_process_map() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        before, array = descriptors(), large(4.0)
        send(theirs, array, maps=True)
        with pytest.raises(BadMessage, match="an unknown value 'mapped'"):
            Received(ours).message()
        del array
        shared_arrays.free()
        assert descriptors() == before
