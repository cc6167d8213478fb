"""Gives tests the software device, whatever else the machine has."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from tests.project import PROJECT
from warpwatch.devices.gpu import Settings
from warpwatch.devices.worker import Worker


def pytest_configure() -> None:
    """Let SIGINT interrupt tests and their processes, also where a shell has it ignored in the background."""
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if ignored and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def software(request: pytest.FixtureRequest) -> Iterator[Worker]:
    """Give a module's tests a process of the software device, whose kernels may run for LAUNCH_SECONDS of the module.

    Each launch has a context of its own there, so that no finding spoils another's.
    """
    seconds = getattr(request.module, "LAUNCH_SECONDS", Settings().launch_timeout)
    worker = Worker(PROJECT, Settings(kind="software", launch_timeout=seconds))
    yield worker
    worker.stop()
