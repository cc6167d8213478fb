"""Asks the CUDA driver for GPUs in another process, because a libcuda that is loaded cannot be unloaded.

It imports little, so that the worker process asks before it imports anything else: the answer takes 0.2 s (H200).
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator

# Prints the answers of cuInit and cuDeviceGetCount, or why libcuda cannot be loaded. Then it waits to be let go.
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
_asking: list[subprocess.Popen[str]] = []  # the process that asks already


def begin() -> None:
    """Begin to ask, so that ``asked`` has to wait less."""
    command, pipe = [sys.executable, "-I", "-S", "-c", ASK_FOR_GPUS], subprocess.PIPE
    _asking.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True))


def begin_for(settings: str) -> None:
    """Begin to ask, unless these settings (devices/gpu.py, as JSON) say that there is a GPU, or that none is wanted."""
    given = json.loads(settings)
    if given["kind"] != "software" and not given["gpu_seen"]:
        begin()


@contextlib.contextmanager
def asked() -> Iterator[tuple[str, str, int]]:
    """Give what was printed, or else what was said of an error, and the exit status.

    The body runs while the driver still is initialized there: to initialize it once more takes half as long then (H100:
    0.09 s, not 0.18).
    """
    if not _asking:
        begin()
    with _asking.pop() as process:  # its end closes the pipes, for which the process waits, and waits for the process
        assert process.stdout
        said = process.stdout.readline().strip()
        errors = "" if said else process.communicate()[1]
        yield said, errors, process.returncode or 0
