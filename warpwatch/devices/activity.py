"""Records what runs on the GPU while a function works: by CUPTI, where NVIDIA's package cupti-python is installed.

CUPTI stamps the work of all streams with one clock of the GPU and launches nothing for it, so that it shows work of a
microsecond, where an event of the whole context shows some 100. Its records change with its version, and NVIDIA's own
package keeps up with them. It is detached after each use, because it would be a part of every later launch.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from warpwatch.devices.compile.symbols import demangled

BUFFER_BYTES = 2**20  # which CUPTI fills with records of some 200 bytes
LONGEST_NAME = 200  # characters of a kernel's; templates of libraries take thousands


@dataclass(frozen=True, kw_only=True)
class Activity:
    """A kernel, a copy or a fill that ran on the GPU.

    ``name``: a kernel's, empty for others. ``words``: what ran, with a kernel's grid, block and shared memory.
    ``stream``: its number. ``begin``, ``end``: nanoseconds of a clock that all streams share.
    """

    name: str
    words: str
    stream: int
    begin: int
    end: int


def recorded(work: Callable[[], None]) -> list[Activity] | None:
    """Return what runs while ``work``, which waits for its end, in the order in which it begins.

    None where there is no CUPTI, or none to be had, as under a profiler, which has it to itself.
    """
    cupti, ran = _cupti(), list[Activity]()
    if not cupti:
        return None
    kinds: dict[int, Callable[[Any], Activity]] = {
        cupti.ActivityKind.CONCURRENT_KERNEL: _kernel,
        cupti.ActivityKind.MEMCPY: functools.partial(_moved, "copy"),
        cupti.ActivityKind.MEMSET: functools.partial(_moved, "fill"),
    }

    def keep(records: Iterable[Any]) -> None:
        ran.extend(kinds[record.kind](record) for record in records if record.kind in kinds)

    try:
        cupti.activity_register_callbacks(lambda: (BUFFER_BYTES, 0), keep)
        for kind in kinds:
            cupti.activity_enable(kind)
    except (cupti.cuptiError, RuntimeError):
        return None
    try:
        work()
    finally:
        with contextlib.suppress(cupti.cuptiError):  # no fault of the work's
            cupti.activity_flush_all(cupti.ActivityFlag.FLUSH_FORCED)
            for kind in kinds:
                cupti.activity_disable(kind)
            cupti.finalize()
    return sorted(ran, key=lambda activity: activity.begin)


@functools.cache
def _cupti() -> Any:
    """Return NVIDIA's module; None where it is not installed."""
    try:
        from cupti import cupti  # noqa: PLC0415  # nothing else needs it
    except (ImportError, RuntimeError):
        return None
    return cupti


def _kernel(record: Any) -> Activity:
    (name,) = demangled([record.name])
    grid, block = ("x".join(str(getattr(record, f"{what}_{axis}")) for axis in "xyz") for what in ("grid", "block"))
    shared = record.static_shared_memory + record.dynamic_shared_memory
    words = f"{name[:LONGEST_NAME]}, grid {grid}, block {block}" + f", {shared:,} bytes of shared memory" * bool(shared)
    return Activity(name=name, words=words, stream=record.stream_id, begin=record.start, end=record.end)


def _moved(what: str, record: Any) -> Activity:
    words = f"a {what} of {record.bytes:,} bytes"
    return Activity(name="", words=words, stream=record.stream_id, begin=record.start, end=record.end)
