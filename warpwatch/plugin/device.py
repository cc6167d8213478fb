"""Device of a pytest run, which is opened once and named in the header."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Generator
from dataclasses import replace

import pytest

from warpwatch.catalogue.project import Project
from warpwatch.devices.compile.compiler import CompileError, Target, cache_notes
from warpwatch.devices.compile.toolchain import Toolchain, read_toolchain
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.opening import NoDevice
from warpwatch.devices.worker import Worker, describe_device
from warpwatch.plugin.options import spelled, value_of
from warpwatch.plugin.xdist.processes import is_controller, is_part

PROJECT = pytest.StashKey[Project]()
WORKER = pytest.StashKey[Worker]()
DEVICE = pytest.StashKey["DeviceInfo | NoDevice | pytest.UsageError"]()
TOOLCHAIN = pytest.StashKey[Toolchain | None]()  # of --toolchain
INSTALLED_TARGET = pytest.StashKey[Target]()  # what the other side is compiled for then
MODEL = pytest.StashKey[str]()  # the GPU's slug, where processes of xdist are told of it before a GPU is opened here
WATCHED_LAUNCH_COST = 3e8  # about a second under racecheck on an H200, tests by six processes at the same time
CACHE_NOTES = pytest.StashKey[dict[str, None]]()  # a sentence for each file or folder that the caches refused


def open_device(config: pytest.Config) -> DeviceInfo | NoDevice:
    """Return the device of this run, opened by the first call, or the error that says what is missing.

    Raises UsageError where the device asked for is missing or a set-up is broken, because neither is a reason to skip.
    """
    if DEVICE not in config.stash:
        wanted = value_of(config, "device")
        config.stash[DEVICE] = try_device(config.stash[WORKER], wanted, spelled(config, "device"))
        if isinstance(found := config.stash[DEVICE], DeviceInfo):
            config.stash[DEVICE] = with_toolchain(config, found)
            config.stash[CACHE_NOTES].update(dict.fromkeys(config.stash[WORKER].call(cache_notes)))
        if value_of(config, "sanitizer"):
            config.stash[DEVICE] = with_lines(config, config.stash[DEVICE])
    device = config.stash[DEVICE]
    if isinstance(device, pytest.UsageError):
        raise device
    return device


def with_toolchain(config: pytest.Config, device: DeviceInfo) -> DeviceInfo | pytest.UsageError:
    """Return the device as --toolchain has kernels compiled for it, or why that is impossible."""
    text, word = value_of(config, "toolchain"), spelled(config, "toolchain")
    config.stash[TOOLCHAIN] = None
    if not text:
        return device
    if not value_of(config, "against"):
        return pytest.UsageError(f"{word} compares with another revision: give {spelled(config, 'against')} HEAD")
    if not device.has_gpu_clock:
        cure = "`python -m warpwatch diff --toolchain` compares machine code without one"
        return pytest.UsageError(f"{word} needs a GPU, which machine code is for: {cure}")
    try:
        toolchain = read_toolchain(text, functools.partial(print, file=sys.stderr, flush=True))
    except CompileError as error:
        return pytest.UsageError(f"{word}: {error}")
    if not toolchain.runs_on(device.capability):
        own = device.capability.arch
        return pytest.UsageError(f"{word}: {device.name} runs code for {own}, and none for {toolchain.arch}")
    config.stash[TOOLCHAIN], config.stash[INSTALLED_TARGET] = toolchain, device.timing_target
    return replace(device, target=toolchain.target(device.target), timing_target=toolchain.target(device.timing_target))


def with_lines(
    config: pytest.Config, device: DeviceInfo | NoDevice | pytest.UsageError
) -> DeviceInfo | pytest.UsageError:
    """Return the GPU as compute-sanitizer has it, slow and with lines in its kernels, or why there is none."""
    if isinstance(device, pytest.UsageError):
        return device
    if isinstance(device, NoDevice) or not device.has_gpu_clock:
        lacking = device if isinstance(device, NoDevice) else f"{device.name} looks for faults by itself"
        return pytest.UsageError(f"{spelled(config, 'sanitizer')} needs a GPU: {lacking}")
    target, timing = (replace(each, flags=(*each.flags, "-lineinfo")) for each in (device.target, device.timing_target))
    return replace(device, target=target, timing_target=timing, largest_launch_cost=WATCHED_LAUNCH_COST)


def try_device(worker: Worker, wanted: str, option: str = "--device") -> DeviceInfo | NoDevice | pytest.UsageError:
    """Return the device that ``--device`` asks for, or the error that says what is missing or broken.

    ``option``: how that option is written in this repository.
    """
    if wanted == "none":
        return NoDevice(f"{option}=none")
    try:
        return worker.call(describe_device)
    except NoDevice as missing:
        return missing if wanted == "auto" else pytest.UsageError(f"{option}={wanted}: {missing}")
    except Exception as error:
        return pytest.UsageError(f"{option}={wanted}: {_cause(error)}")


def _cause(error: Exception) -> str:
    """Return the message of an error, without its traceback."""
    if isinstance(error, DeviceError | CompileError):
        return str(error)
    lines = str(error).strip().splitlines() or [""]
    return f"the device cannot be opened: {type(error).__name__}: {lines[-1]}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> Generator[None, None, None]:
    """Open the device before anything else starts, so that a failure leaves nothing to clean up.

    Where the model of all GPUs is known, it is opened while processes of xdist start.
    """
    config = session.config
    if config.option.collectonly:
        return (yield)
    if not is_part(config) and not config.stash[MODEL]:
        open_device(config)
    yield
    if is_controller(config) and not config.stash[MODEL]:
        config.stash[WORKER].stop()  # the worker processes of xdist open it again


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Open the device where it was not opened before, and name it then."""
    config = session.config
    model = config.stash[MODEL]
    if not model or config.option.collectonly:
        return (yield)
    device, reporter = open_device(config), config.pluginmanager.get_plugin("terminalreporter")
    if reporter and reporter.showheader:
        reporter.write_line(_header(device))
    if isinstance(device, DeviceInfo) and device.slug != model:
        raise pytest.UsageError(f"the GPU is {model} for NVML and {device.slug} for CUDA: leave -n out")
    result = yield
    config.stash[WORKER].stop()
    return result


def _header(device: DeviceInfo | NoDevice) -> str:
    if isinstance(device, NoDevice):
        return f"device: none: {device}; tests that need one are skipped"
    about = f"device: {device.name}, compute capability {device.capability}, CUDA driver {device.driver}"
    return about + (f" ({device.note})" if device.note else "")


def pytest_report_header(config: pytest.Config) -> list[str]:
    if config.option.collectonly or is_part(config) or config.stash[MODEL]:  # not shown for processes of xdist
        return []
    device = open_device(config)
    return [_header(device), *([_launches(config, device)] if isinstance(device, DeviceInfo) else [])]


def _launches(config: pytest.Config, device: DeviceInfo) -> str:
    """Say how often a tested case is launched on the same inputs."""
    chosen, option = value_of(config, "launches"), spelled(config, "launches")
    if chosen or device.cheap_launch_cost == math.inf:
        return f"launches: {chosen or device.launches} of each tested case ({option})"
    cheapest = f"{DeviceInfo.launches} of a kernel's cheapest"
    return f"launches: {device.launches} of each tested case, {cheapest}, 1 where it is slow ({option})"


@pytest.fixture(scope="session")
def warpwatch_device(pytestconfig: pytest.Config) -> DeviceInfo:
    """The device; a test that asks for it is skipped where there is none."""
    try:
        device = open_device(pytestconfig)
    except pytest.UsageError as broken:
        raise pytest.fail.Exception(str(broken), pytrace=False) from None
    if isinstance(device, NoDevice):
        pytest.skip(f"needs a device: {device}")
    return device
