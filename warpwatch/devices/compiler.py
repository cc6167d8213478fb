"""Keeps the name under which programs outside of this repository import the compiler."""

from __future__ import annotations

from warpwatch.devices.compile.compiler import Target as Target  # noqa: PLC0414
from warpwatch.devices.compile.compiler import compile_file as compile_file  # noqa: PLC0414
from warpwatch.devices.compile.compiler import nvcc as nvcc  # noqa: PLC0414
