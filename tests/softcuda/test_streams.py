"""What the software device says of several streams: faults of order are found, and nobody else is accused."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project import ROOT

PROGRAM = Path(__file__).with_name("streams.py")


def cases(kind: str) -> list[str]:
    return re.findall(rf"^@{kind}\ndef (\w+)", PROGRAM.read_text(), re.MULTILINE)


WRONG, RIGHT = cases("wrong"), cases("right")
# What is not told as a race of two operations of streams.
OTHERS = {
    "memory_copied_after_another_stream_frees_it": "use after free",
    "buffer_changed_under_a_copy": "page-locked memory changed under a copy",
    "buffer_changed_after_waiting_for_another_stream": "page-locked memory changed under a copy",
}
KERNELS = """race between streams in consume
  kernel.cu:12: consume reads bytes 0 to 1023 of from (argument 2), 1,024 bytes, in stream 2
  kernel.cu:7: produce writes them in stream 1, with no event or synchronisation between
    record an event in stream 1 after produce and let stream 2 wait for it (cuStreamWaitEvent) before consume, \
use one stream for both, or synchronise between them"""


def run_cases(*names: str) -> dict[str, str]:
    """Return the message of each case of tests/softcuda/streams.py, or of these; empty where it has none."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "tests.softcuda.streams", *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    answers: dict[str, str] = json.loads(done.stdout)
    return answers


@pytest.fixture(scope="module")
def found() -> dict[str, str]:
    """Return the message of every case."""
    answers = run_cases()
    assert sorted(answers) == sorted(WRONG + RIGHT)
    return answers


def test_a_record_is_waited_for_whatever_is_recorded_later() -> None:
    """The earlier of two records may come to pass last; a stream that waits for the later one once waited for ever."""
    (message,) = run_cases(*["event_recorded_anew_elsewhere"] * 40).values()
    assert "race between streams" in message


@pytest.mark.parametrize("case", WRONG)
def test_a_missing_order_is_found(found: dict[str, str], case: str) -> None:
    assert f"\nsoftcuda: {OTHERS.get(case, 'race between streams')}" in found[case]


@pytest.mark.parametrize("case", RIGHT)
def test_an_order_that_is_there_is_seen(found: dict[str, str], case: str) -> None:
    assert found[case] == ""


def test_a_race_names_kernels_streams_bytes_lines_and_the_cure(found: dict[str, str]) -> None:
    assert found["kernel_reads_what_another_stream_writes"].partition("\nsoftcuda: ")[2] == KERNELS


def test_the_bytes_are_those_that_both_touch(found: dict[str, str]) -> None:
    assert "writes bytes 1020 to 1023 of to (argument 1)" in found["halves_that_share_an_element"]
    assert "writes byte 101 of to (argument 1)" in found["one_byte_of_a_word"]


def test_copies_fills_and_variables_have_their_names(found: dict[str, str]) -> None:
    assert "\n  the fill writes bytes 0 to 1023 of from (argument 2)" in found["fill_of_another_stream"]
    assert (
        "\n  the copy to the device writes 8 bytes of step, in stream 2\n" in found["constant_is_set_beside_its_reader"]
    )
    assert "\n  cuMemFreeAsync frees bytes 0 to 1023 of" in found["memory_freed_while_another_stream_uses_it"]
    assert "the host changed some of bytes 0 to 1023 of them" in found["buffer_changed_under_a_copy"]


def test_a_non_blocking_stream_is_said_not_to_wait_for_the_default_one(found: dict[str, str]) -> None:
    text = found["non_blocking_stream_beside_the_default_stream"]
    assert "produce writes them in the default stream, with no event or synchronisation between: a non-blocking" in text
