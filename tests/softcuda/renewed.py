"""A new context in the same worker process after a finding, in place of a new process."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from warpwatch.devices import worker as here
from warpwatch.devices.gpu import Device
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.opening import Settings
from warpwatch.devices.worker import Worker, gpu

_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True)
class RenewedDevice:
    """Calls functions as a worker does, but keeps its process where a kernel broke the software device.

    The driver of a GPU would refuse all further calls of that process; the software device has a new context then.
    ``seed``: draws the order of threads and blocks.
    """

    worker: Worker
    seed: int | None = None

    @property
    def settings(self) -> Settings:
        """Settings of the worker."""
        return self.worker.settings

    def call(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run ``function`` in the worker. Raises what it raises, a DeviceError with ``lost`` too."""
        value, message = self.worker.call(_call_and_renew, self.seed, function, args, kwargs)
        if message is not None:
            raise DeviceError(message, lost=True)
        return value  # type: ignore[no-any-return]


def _call_and_renew(
    seed: int | None, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Any, str | None]:
    """In the worker: what a function returns, or the message of the error with which it lost the device."""
    os.environ["SOFTCUDA_SEED"] = "" if seed is None else str(seed)
    try:
        return function(*args, **kwargs), None
    except DeviceError as error:
        if not error.lost:
            raise
        message = str(error)
    finally:
        os.environ["SOFTCUDA_SEED"] = ""
    _renew()
    return None, message


def _renew() -> None:
    """Leave the context that a kernel broke, and open the device anew."""
    broken = gpu()
    broken.context.pop()
    broken.context.detach()
    compiler = Path(broken.info.target.program)
    driver = importlib.import_module("pycuda.driver")
    here._machines[False] = Device(driver, broken.info.ordinal, broken.launch_timeout, compiler)
