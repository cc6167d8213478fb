"""Gives tests the software device, whatever else the machine has."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from tests.checkout import Bench, lent_checkout
from tests.project import PROJECT
from tests.report.pull_request.stand_in import StandIn, serve
from tests.softcuda.calls import state
from warpwatch.devices.opening import Settings
from warpwatch.devices.worker import Worker


def pytest_configure() -> None:
    """Let SIGINT interrupt tests and their processes, also where a shell has it ignored in the background."""
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if ignored and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def workers() -> Iterator[dict[float, Worker]]:
    """Give processes of the software device by the seconds that their kernels may run."""
    started: dict[float, Worker] = {}
    yield started
    for worker in started.values():
        worker.stop()


@pytest.fixture
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Give a checkout without a baseline."""
    with lent_checkout(tmp_path_factory) as made:
        yield made


@pytest.fixture
def there() -> Iterator[StandIn]:
    """Give a stand-in for GitHub."""
    with serve(StandIn()) as host:
        yield host


@pytest.fixture(scope="module")
def software(request: pytest.FixtureRequest, workers: dict[float, Worker]) -> Iterator[Worker]:
    """Give a module's tests a process of the software device, whose kernels may run for LAUNCH_SECONDS of the module.

    Modules share it, and leave it as they found it: settings that changed, or a fault in the first context, where a
    launch that may be faulty has a context of its own, fail the module, and end the process so that it spoils no other.
    """
    seconds = getattr(request.module, "LAUNCH_SECONDS", 60.0)
    if seconds not in workers:
        workers[seconds] = Worker(PROJECT, Settings(kind="software", launch_timeout=seconds))
    before = workers[seconds].call(state)
    yield workers[seconds]
    if changed := workers[seconds].call(state).items() ^ before.items():
        workers.pop(seconds).stop()
        pytest.fail(f"{request.module.__name__} left behind: {sorted(changed)}", pytrace=False)
