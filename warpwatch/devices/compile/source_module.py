"""Makes the kind of PyCUDA's SourceModule that kernels are loaded as."""

from __future__ import annotations

from typing import Any

from warpwatch.devices.compile.symbols import missing_entry
from warpwatch.devices.machine import DeviceError


def cached_source_module(compiler: Any, driver: Any) -> Any:
    """Return PyCUDA's SourceModule with another compile step: it takes machine code that our cache holds already.

    ``compiler``, ``driver``: PyCUDA's modules. ``get_function`` raises DeviceError for a name that the file lacks, with
    those that it has.
    """

    class CachedSourceModule(compiler.SourceModule):  # type: ignore[misc]  # PyCUDA has no types
        def __init__(self, cubin: bytes) -> None:
            self._cubin = cubin
            self.module = driver.module_from_buffer(cubin)
            self._bind_module()

        def get_function(self, name: str) -> Any:
            try:
                return super().get_function(name)
            except driver.LogicError as error:
                if "not found" not in str(error):
                    raise
                raise DeviceError(missing_entry(name, self._cubin)) from None

    return CachedSourceModule
