"""Asks the CUDA driver for GPUs in another process, because a libcuda that is loaded cannot be unloaded.

It imports little, so that the worker process asks before it imports anything else: the answer takes 0.2 s (H200).
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import IO

# Prints the answers of cuInit and cuDeviceGetCount, or why libcuda cannot be loaded, and waits until its input ends.
ASK_FOR_GPUS = """
import ctypes, os, sys
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    print("unloadable", error, flush=True)
else:
    count = ctypes.c_int()
    print(cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)), count.value, flush=True)
sys.stdin.read()
os._exit(0)  # at once, because the device is opened by now and the first case waits
"""
_started: list[tuple[subprocess.Popen[str], IO[str]]] = []  # the process whose answer is still to come, and its errors


def begin() -> None:
    """Start the process that asks the driver, so that ``asked`` waits less for its answer."""
    command, pipe = [sys.executable, "-I", "-S", "-c", ASK_FOR_GPUS], subprocess.PIPE
    errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115  # a pipe that nobody reads may become full
    _started.append((subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True), errors))


def begin_for(settings: str) -> None:
    """Start the process that asks, unless ``settings`` (of devices/gpu.py, as JSON) want no GPU, or one was seen."""
    given = json.loads(settings)
    if given["kind"] != "software" and not given["gpu_seen"]:
        begin()


@contextlib.contextmanager
def asked() -> Iterator[tuple[str, str, int]]:
    """Yield the driver's answer, and where there is none the error output and the exit status.

    The driver stays initialized in that process while the body runs: to initialize it once more takes half as long then
    (H100: 0.09 s, not 0.18).
    """
    if not _started:
        begin()
    process, errors = _started.pop()
    with errors, process:  # at the end of the body its standard input is closed, at which it ends
        assert process.stdout
        answer = process.stdout.readline().strip()
        if answer:
            yield answer, "", 0
            return
        process.communicate()
        errors.seek(0)
        yield "", errors.read(), process.returncode
