"""Runs calls that are not trusted in a process of their own, on memory of this one: the worker process's side.

That process has the arrays of a call and nothing else: no expected result, and no clock that is believed. This one
writes inputs just before each go, and looks at results itself. Each array lies alone in its pages, because a handle
opens whole pages.
"""

from __future__ import annotations

import functools
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from warpwatch.catalogue.cases import Case
from warpwatch.devices import driver_calls
from warpwatch.devices.digest import digests
from warpwatch.devices.foreign import candidate_process
from warpwatch.devices.foreign.confinement import Confined
from warpwatch.devices.foreign.conversation import Answer, Conversation
from warpwatch.devices.foreign.inspection import MOST, Outside
from warpwatch.devices.foreign_text import plain_lines
from warpwatch.devices.gpu import Device
from warpwatch.devices.machine import DeviceError, poison_of
from warpwatch.devices.opening import Settings

PAGE_BYTES = 2**21  # of a GPU's memory, which a handle opens whole
PREPARE_SECONDS = 120.0  # for imports and preparation, which may compile
GO_SECONDS = 5.0  # beyond the launch limit
IDLE_GOES = 11  # whose median is the time of a go without a launch
MOST_SHOWN = 4000  # characters of an error
CLOSED = "--untrusted runs calls in a process of their own on the same GPU"


@dataclass(frozen=True)
class Mirror:
    """Shared memory in which a call works on a copy of an allocation. Addresses, and size in bytes."""

    own: int
    shared: int
    size: int


@dataclass(frozen=True, kw_only=True)
class Found(Answer):
    """Answer that says what has changed in the process, or how many seconds it took to queue the launches of a go."""

    found: tuple[str, ...] = ()
    queued: float = 0.0


class Candidates:
    """The process in which the calls of one variant run: that of the last one, a new one for each variant.

    ``device``: of this process, which opens the same GPU. ``tree``, ``module``: where declarations are.
    """

    def __init__(self, device: Device, settings: Settings, tree: Path, module: str) -> None:
        self._device, self._settings = device, settings
        opened = Settings(  # nothing else of the settings, which may be secret
            kind=settings.kind,
            ordinal=settings.ordinal,
            launch_timeout=settings.launch_timeout,
            schedule_seed=settings.schedule_seed,
            gpu_seen=not device.finds_faults,
        )
        arguments = [json.dumps(asdict(opened)), str(tree), module]
        program = Path(candidate_process.__file__)
        confined = functools.partial(Confined, shares_files=device.finds_faults)
        self._conversation = Conversation(program, arguments, tree, Found, DeviceError, _shown, confined)
        self.missing: tuple[str, ...] = ()  # sentences on what the process is not kept from, once it was started
        self._tree = tree
        self._outside: Outside | None = None  # what it ran after its first call
        self._variant: object = None  # whose calls the process has imported
        self._has_memory = False
        self._is_paused = False
        self._word = (0, 0)  # of this process's memory: address and bytes
        self.queued = 0.0  # seconds that queuing the last go took, as the process says
        # Before the process has imported what is not trusted: of a go without a launch, and what a first launch takes.
        self.idle_seconds = self.first_seconds = 0.0
        self._mirrors: list[Mirror] = []
        self._allocated: set[int] = set()

    # Memory

    def allocate(self, size: int) -> int:
        """Allocate memory that the other process may have, alone in its pages and poisoned. Raises DeviceError."""
        page = 1 if self._device.finds_faults else PAGE_BYTES  # there each allocation has pages of its own, and an end
        whole = -(-size // page) * page
        address = self._device.allocate(whole)
        self._allocated.add(address)
        if address % page:
            self._device.free(address)
            raise DeviceError(f"memory for another process begins within a page of {page >> 20} MB; {CLOSED}")
        self._device.fill(address, whole, poison_of(4))  # freed memory may hold results
        return address

    # The process

    def prepare(self, case: Case, sets: Sequence[Mapping[str, int]]) -> None:
        """Let the call of a case be prepared for sets of arrays, addresses by name. Raises DeviceError."""
        self._start(case)
        self._has_memory = True
        try:
            given = [{name: _handle(address) for name, address in arrays.items()} for arrays in sets]
            self._ask(PREPARE_SECONDS, "open", given)
        except DeviceError as error:
            cure = "needs CUDA's IPC: of a container, --ipc=host; WSL has none"
            raise DeviceError(f"{error}: {CLOSED}, which {cure}") from None
        self._ask(PREPARE_SECONDS, "prepare", case.id)

    def pause(self) -> None:
        """Stop the process and all that it started until the next question: what is written now is not seen before.

        Otherwise a thread, or a handler of a signal, might do the work on new inputs before its time begins.
        """
        if self._conversation.is_running and not self._is_paused:
            self._confined.pause()
            self._is_paused = True

    def _resume(self) -> None:
        if self._conversation.is_running and self._is_paused:
            self._confined.resume()
        self._is_paused = False

    def go(self, count: int) -> float:
        """Let the call run on the first ``count`` sets; return the seconds until the process says that it is done.

        Nothing is believed: what is not there by now is wrong. Raises DeviceError.
        """
        self.queued = self._ask(count * self._settings.launch_timeout + GO_SECONDS, "go", count).queued
        seconds = self._conversation.seconds
        if count and not self._outside:  # the first call makes threads
            self._outside = Outside(self._tree, self._processes)
        return seconds

    def look(self) -> str:
        """Say what the process has changed, left running or left open; empty where that is nothing."""
        if not self._outside or not self._conversation.is_running:
            return ""
        self._resume()
        inside = self._conversation.ask(self._settings.launch_timeout + GO_SECONDS, "look").found
        return "; ".join(_shown(sentence) for sentence in (*inside[:MOST], *self._outside.changes()))

    def _processes(self) -> list[int]:
        return self._confined.processes()

    @property
    def _confined(self) -> Confined:
        isolated = self._conversation.isolated
        assert isinstance(isolated, Confined)
        return isolated

    def close(self) -> None:
        """Let the process forget the prepared case and its arrays, before their memory is freed."""
        if self._has_memory and self._conversation.is_running:
            with suppress(DeviceError):  # then it has been ended
                self._ask(self._settings.launch_timeout + GO_SECONDS, "close")
        self._has_memory = False

    def stop(self) -> None:
        """End the process."""
        self._conversation.stop()
        self._variant, self._has_memory, self._outside = None, False, None
        self._is_paused = False

    def leave(self) -> None:
        """End the process, and free all memory that it had."""
        self.stop()
        self._mirrors = []
        for address in tuple(self._allocated):
            self._device.free(address)

    def _start(self, case: Case) -> None:
        """Start the process of a variant, if the one that runs is another's. Raises DeviceError."""
        key = (case.family.name, case.variant.name)
        if self._variant == key and self._conversation.is_running:
            return
        self.stop()
        self._conversation.start(PREPARE_SECONDS)
        self.missing = self._confined.missing
        try:
            self._ask(PREPARE_SECONDS, "device")
        except DeviceError as error:
            cure = "which nvidia-smi -c DEFAULT allows where the compute mode is exclusive"
            raise DeviceError(f"{error}: {CLOSED}, {cure}") from None
        self.idle_seconds = statistics.median(self._idle_go() for _ in range(IDLE_GOES))
        self._word = self._word if self._word[1] else (self._device.allocate(4), 4)
        empty, filled = (statistics.median(self._fill(count) for _ in range(IDLE_GOES)) for count in (0, 1))
        self.first_seconds = max(0.0, filled - empty)
        self._ask(PREPARE_SECONDS, "load")
        self._variant = key

    def _idle_go(self) -> float:
        self.pause()
        return self.go(0)

    def _fill(self, count: int) -> float:
        """Let the process fill so many words; return the seconds until this one's own next work is done."""
        self.pause()
        self._device.finish()
        begin = time.perf_counter()
        self._ask(GO_SECONDS, "fill", count)
        digests(self._device, [self._word])
        return time.perf_counter() - begin

    def _ask(self, limit: float, name: str, *arguments: object) -> Found:
        self._resume()
        return self._conversation.ask(limit, name, *arguments)

    # Calls in the place of kernels

    def launcher(self, case: Case, addresses: Mapping[str, int]) -> Callable[[], None]:
        """Prepare a call on a copy of its arrays, and return a function that runs it and waits. Raises DeviceError.

        What prepares sees other inputs (preparing.py). A launch copies the allocations with their guard bands, the call
        works on them, and they are copied back as soon as it says that it is done.
        """
        self.release()
        for base, size in dict.fromkeys(driver_calls.allocation_of(address) for address in addresses.values()):
            self._mirrors.append(Mirror(own=base, shared=self.allocate(size), size=size))
        shared = {name: self._shared(address) for name, address in addresses.items()}
        self._share()
        self.prepare(case, [shared])
        return self._run

    def _share(self) -> None:
        for mirror in self._mirrors:
            self._device.copy(mirror.shared, mirror.own, mirror.size)
        self._device.finish()

    def _run(self) -> None:
        self._share()
        self.go(1)
        for mirror in self._mirrors:
            self._device.copy(mirror.own, mirror.shared, mirror.size)

    def _shared(self, address: int) -> int:
        """Return the address in shared memory of what lies at an address."""
        mirror = next(each for each in self._mirrors if each.own <= address < each.own + each.size)
        return mirror.shared + address - mirror.own

    def freed(self, address: int) -> None:
        """Free the shared memory of ``launcher`` if ``address`` is that of an allocation that it is a copy of."""
        self._allocated.discard(address)
        if any(mirror.own == address for mirror in self._mirrors):
            self.release()

    def release(self) -> None:
        """Free the shared memory of the last ``launcher``. Raises DeviceError."""
        self.close()
        mirrors, self._mirrors = self._mirrors, []
        for mirror in mirrors:
            self._device.free(mirror.shared)


def _handle(address: int) -> tuple[str, int]:
    """Return the handle of the memory at an address, and how far into it that is. Raises DeviceError."""
    return driver_calls.handle_of(address).hex(), address - driver_calls.allocation_of(address)[0]


def _shown(text: str) -> str:
    """Return an error of the process fit to be printed: softcuda's have several lines."""
    return plain_lines(text[:MOST_SHOWN])
