"""Records what runs on the GPU while a function works: by CUPTI, where NVIDIA's package cupti-python is installed.

CUPTI stamps the work of all streams with one clock of the GPU and launches nothing for it, so that it shows work of a
microsecond, where an event of the whole context shows some 100. Before each launch it tells the module that the kernel
is of, with its machine code, whoever has made that. Its records change with its version, and NVIDIA's own package keeps
up with them. It is detached after each use, because it would be a part of every later launch.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from warpwatch.devices.compile.compiler import digest_of
from warpwatch.devices.compile.symbols import (
    ALLOCATED,
    BROKEN,
    CUDA_ENTRY,
    EXECUTABLE,
    NOBITS,
    SYMBOLS,
    demangled,
    read_sections,
    read_symbols,
)

BUFFER_BYTES = 2**20  # which CUPTI fills with records of some 200 bytes
LONGEST_NAME = 200  # characters of a kernel's; templates of libraries take thousands
MODULE = struct.Struct("<I4xQQ")  # CUpti_ModuleResourceData: number, bytes and address; cupti-python's own is for texts


@dataclass(frozen=True, kw_only=True)
class Activity:
    """A kernel, a copy or a fill that ran on the GPU.

    ``name``: a kernel's, empty for others; ``symbol``: as its module has it. ``words``: what ran, with a kernel's grid,
    block and shared memory. ``stream``: its number. ``begin``, ``end``: nanoseconds of a clock that all streams share.
    ``kernel``: what is recorded of a kernel (LaunchedKernel in warpwatch/runs/launched.py).
    """

    name: str
    words: str
    stream: int
    begin: int
    end: int
    symbol: str = ""
    kernel: Mapping[str, Any] = field(default_factory=dict)


def recorded(work: Callable[[], None]) -> list[Activity] | None:
    """Return what runs while ``work``, which waits for its end, in the order in which it begins.

    None where there is no CUPTI, or none to be had, as under a profiler, which has it to itself.
    """
    cupti, ran, modules = _cupti(), list[Activity](), dict[int, bytes]()
    if not cupti:
        return None
    kinds: dict[int, Callable[[Any], Activity]] = {
        cupti.ActivityKind.CONCURRENT_KERNEL: _kernel,
        cupti.ActivityKind.MEMCPY: functools.partial(_moved, "copy"),
        cupti.ActivityKind.MEMSET: functools.partial(_moved, "fill"),
    }

    def keep(records: Iterable[Any]) -> None:
        ran.extend(kinds[record.kind](record) for record in records if record.kind in kinds)

    def keep_module(_user: object, _domain: int, _event: int, data: Any) -> None:
        number, size, address = MODULE.unpack(ctypes.string_at(data.resource_descriptor, MODULE.size))
        if number not in modules:  # the stream is held meanwhile: it is read later
            modules[number] = ctypes.string_at(address, size)

    try:
        cupti.activity_register_callbacks(lambda: (BUFFER_BYTES, 0), keep)
        for kind in kinds:
            cupti.activity_enable(kind)
    except (cupti.cuptiError, RuntimeError):
        return None
    try:
        with _told_modules(cupti, keep_module):
            work()
    finally:
        with contextlib.suppress(cupti.cuptiError):  # no fault of the work's
            cupti.activity_flush_all(cupti.ActivityFlag.FLUSH_FORCED)
            for kind in kinds:
                cupti.activity_disable(kind)
            cupti.finalize()
    return _with_codes(sorted(ran, key=lambda activity: activity.begin), modules.values())


@contextlib.contextmanager
def _told_modules(cupti: Any, told: Callable[..., None]) -> Iterator[None]:
    """Have CUPTI tell the module of each kernel that is launched meanwhile; nothing where it does not."""
    subscriber, parameters = None, cupti.SubscriberParams()
    parameters.struct_size, parameters.subscriber_name = cupti.SUBSCRIBER_PARAMS_SIZE, "warpwatch"
    with contextlib.suppress(cupti.cuptiError):
        subscriber = cupti.subscribe_v2(told, None, parameters.ptr)
        event = cupti.CallbackIdResource.MODULE_PROFILED
        cupti.enable_callback(1, subscriber, cupti.CallbackDomain.RESOURCE, event)
    try:
        yield
    finally:
        if subscriber is not None:
            with contextlib.suppress(cupti.cuptiError):
                cupti.unsubscribe(subscriber)


def _with_codes(ran: Sequence[Activity], modules: Iterable[bytes]) -> list[Activity]:
    """Return what ran with the digests of kernels; without, where two that have one name differ in their code."""
    codes: dict[str, set[str]] = {}
    for module in modules:
        for symbol, code in kernel_digests(module).items():
            codes.setdefault(symbol, set()).add(code)
    known = {symbol: min(each) for symbol, each in codes.items() if len(each) == 1}
    return [
        replace(each, kernel={**each.kernel, "code": known.get(each.symbol, "")}) if each.name else each for each in ran
    ]


def kernel_digests(cubin: bytes) -> dict[str, str]:
    """Return a digest of what each kernel of a cubin runs, by symbol: its code, other functions, constants, variables.

    It is the same whatever else a compiler writes into the file, such as its version and line numbers. Empty where the
    file is damaged.
    """
    try:
        sections = read_sections(cubin)
        (table,) = (section for section in sections if section.kind == SYMBOLS)
        symbols = [each for each in read_symbols(cubin, sections, table) if each.section and each.other & CUDA_ENTRY]
    except BROKEN:
        return {}
    kernels = {symbol.section: symbol.name for symbol in symbols}
    parts: dict[int, list[str]] = {number: [] for number in (0, *kernels)}  # 0: of all kernels
    for number, section in enumerate(sections):
        if section.flags & ALLOCATED:
            owner = number if section.flags & EXECUTABLE else section.info  # a kernel's own data name its section
            content = b"" if section.kind == NOBITS else cubin[section.offset : section.offset + section.length]
            parts[owner if owner in kernels else 0].append(digest_of(content, str(section.length).encode()))
    return {name: digest_of(*map(str.encode, sorted(parts[number] + parts[0]))) for number, name in kernels.items()}


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
    sizes = {what: tuple(getattr(record, f"{what}_{axis}") for axis in "xyz") for what in ("grid", "block")}
    shared = record.static_shared_memory + record.dynamic_shared_memory
    words = ", ".join([name[:LONGEST_NAME], *(f"{what} {'x'.join(map(str, each))}" for what, each in sizes.items())])
    kernel = {
        "name": name[:LONGEST_NAME],
        **sizes,
        "cluster": tuple(max(1, getattr(record, f"cluster_{axis}")) for axis in "xyz"),
        "registers": record.registers_per_thread,
        "local_bytes": record.local_memory_per_thread,
        "shared_bytes": shared,
    }
    return Activity(
        name=name,
        words=words + f", {shared:,} bytes of shared memory" * bool(shared),
        stream=record.stream_id,
        begin=record.start,
        end=record.end,
        symbol=record.name,
        kernel=kernel,
    )


def _moved(what: str, record: Any) -> Activity:
    words = f"a {what} of {record.bytes:,} bytes"
    return Activity(name="", words=words, stream=record.stream_id, begin=record.start, end=record.end)
