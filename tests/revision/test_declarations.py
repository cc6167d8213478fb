"""Tests how declarations describe the arguments of kernels: numbers by their bits."""

from __future__ import annotations

import struct
import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.project import ROOT
from warpwatch.revision.declarations import described, number
from warpwatch.runs.identity import Scalar


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32(0.1), "0.1"),
        (np.float32(1), "1"),
        (np.float32(-0.0), "-0"),
        (np.float64(1e300), "1e+300"),
        (np.float16(65504), "65504"),
        (ml_dtypes.bfloat16(0.1), "0.1"),
        (np.float64(0.1) + np.float64(0.2), "0.30000000000000004"),
        (np.float32("inf"), "inf"),
        (np.float32("nan"), "nan"),
        (np.int64(-(2**63)), "-9223372036854775808"),
        (np.bool_(True), "1"),
        (0.5, "0.5"),
        (-0.0, "-0"),
        (True, "1"),
    ],
)
def test_a_number_is_written_as_the_shortest_text_of_its_bits(value: Any, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize("word", [0x7FC00001, 0xFFC00000, 0x7FC00000, 0x80000000, 0x00000001, 0x3DCCCCCD])
def test_a_number_that_is_read_again_has_its_bits(word: int) -> None:
    value = np.frombuffer(struct.pack("I", word), np.float32)[0]
    kind, dtype, text = described(value, [])
    assert kind == "scalar"
    assert Scalar(dtype, text).fill({}).tobytes() == value.tobytes()


def test_every_kind_of_number_is_read_again() -> None:
    kinds = (np.int8, np.uint64, np.float16, np.float64, np.bool_, np.complex64, ml_dtypes.bfloat16)
    for value in (kind(1) for kind in kinds):
        _, dtype, text = described(value, [])
        again = Scalar(dtype, text).fill({})
        assert (again.dtype, again.tobytes()) == (value.dtype, value.tobytes())


FIRST = """
import sys, threading
from warpwatch.revision.declared import parse

sys.setswitchinterval(1e-6)
together = threading.Barrier(8)

def read():
    together.wait()
    parse(b'{"cases": {}}', "HEAD")

threads = [threading.Thread(target=read) for _ in range(8)]
for each in threads:
    each.start()
for each in threads:
    each.join()
"""


def test_threads_may_be_the_first_to_read_what_revisions_declare() -> None:
    for _ in range(3):
        subprocess.run([sys.executable, "-c", FIRST], cwd=ROOT, check=True)
