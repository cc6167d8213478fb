"""Tests that the software device's launch limit counts processor time: a busy machine ends no kernel."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.softcuda import calls
from tests.written import compile_written
from warpwatch.devices.worker import Worker, describe_device

LAUNCH_SECONDS = 1.0  # the limit of the fixture ``software``
LIMIT = LAUNCH_SECONDS / 2  # of the software device
PAUSE = 2.0  # seconds that the process stands still, as on a machine that has other things to do
LOOP = 'extern "C" __global__ void loop(int* out)\n{\n    for (volatile int i = 0; i < %s; i = i + 1)\n        ;\n}\n'


def launch(worker: Worker, folder: Path, turns: str, *, pause: bool) -> tuple[bytes | str, float]:
    """Launch in a process that is stopped for a while as soon as it has begun; return the outcome and its seconds."""
    (folder / "loop.cu").write_text(LOOP % turns)
    image = compile_written(folder / "loop.cu", {}, worker.call(describe_device).timing_target)
    assert worker.child
    process = worker.child.process.pid

    def stand_still() -> None:
        os.kill(process, signal.SIGSTOP)
        time.sleep(PAUSE)
        os.kill(process, signal.SIGCONT)

    timer = threading.Timer(0.05, stand_still)
    if pause:
        timer.start()
    begin = time.monotonic()
    (said,) = worker.call(calls.in_orders, (None,), calls.run_or_say, image.path, "loop", (1, 1, 1), (1, 1), 128, 0)
    elapsed = time.monotonic() - begin
    if pause:
        timer.join()
    return said, elapsed


def turns_in(worker: Worker, folder: Path, seconds: float) -> int:
    """Return how many turns of the loop take so much of this machine's processor time."""

    def used() -> float:
        assert worker.child
        fields = Path(f"/proc/{worker.child.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    turns = 1_000_000
    launch(worker, folder, str(turns), pause=False)  # starts the process and loads what it needs
    while True:
        before = used()
        said, _ = launch(worker, folder, str(turns), pause=False)
        assert isinstance(said, bytes), said
        taken = used() - before
        if taken >= seconds / 2:
            return int(turns * seconds / taken)
        turns *= 2


@pytest.mark.slow
@pytest.mark.exclusive
def test_a_kernel_is_not_ended_because_its_process_stood_still(software: Worker, tmp_path: Path) -> None:
    turns = turns_in(software, tmp_path, LIMIT / 2)
    said, elapsed = launch(software, tmp_path, str(turns), pause=True)
    assert isinstance(said, bytes), said
    assert elapsed > PAUSE, "the kernel had ended before its process stood still: it must take longer"


@pytest.mark.slow
@pytest.mark.exclusive
def test_an_endless_kernel_is_ended_at_its_limit(software: Worker, tmp_path: Path) -> None:
    said, elapsed = launch(software, tmp_path, "2 || i == i", pause=False)
    assert "endless kernel in loop" in str(said)
    assert LIMIT <= elapsed < 20 * LIMIT
