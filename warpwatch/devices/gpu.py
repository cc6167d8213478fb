"""Runs kernels on a GPU through PyCUDA, or on the software device in its place.

PyCUDA is imported when a device is opened (opening.py), because it binds to the libcuda.so.1 that it finds then.
"""

from __future__ import annotations

import functools
import struct
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from warpwatch.catalogue import named_arguments
from warpwatch.catalogue.arrays import Array
from warpwatch.catalogue.calls import CallError, DeviceArray
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.launches import Launch
from warpwatch.catalogue.tensor_maps import is_tensor_map
from warpwatch.catalogue.textures import OF_MEMORY, is_surface, is_texture
from warpwatch.devices import activity, driver_calls, outside
from warpwatch.devices.arguments import read_parameters
from warpwatch.devices.compile import symbols
from warpwatch.devices.compile.compiler import compile_file, read_image
from warpwatch.devices.compile.symbols import demangled, missing_entry
from warpwatch.devices.info import read_info
from warpwatch.devices.machine import LATE, CopiedArray, DeviceError, Function, GuardedArray, Resources, in_order, pack
from warpwatch.devices.mismatch import WrongResult
from warpwatch.devices.staging import LARGE_BYTES, Staging

HOLD_ARGUMENTS = struct.Struct("<QI4xq")  # what hold.cu takes, packed in 0.2 µs, which each sample waits for
HOLD_SECONDS = 0.25  # limit of a hold, which usually lasts 30 µs
STRAY_SECONDS = 0.01  # in which work that is queued elsewhere has begun to write
STRAY_BYTES = 2**16  # of each result that are looked at, so that the look ends before the hold does
CROWDED_SECONDS = 0.0005  # in which the blocks of a kernel that takes room are all there
CROWDS = 4  # shares of the multiprocessors that it takes: an eighth to a half
OCCUPY = Path(__file__).with_name("occupy.cu")
ASKED_BYTES = 2**24  # of an allocation, for which it is asked first what is free: that takes longer than a small one
ONE = Launch((1, 1, 1), (1, 1, 1))


class Calls(Protocol):
    """Runs calls elsewhere (foreign/candidate.py)."""

    def launcher(self, case: Case, addresses: Mapping[str, int]) -> Callable[[], None]:
        """Prepare a call, and return a function that runs it and waits."""

    def freed(self, address: int) -> None:
        """Take note that memory is freed."""

    def look(self) -> str:
        """Say what the process in which they run has changed or left behind; empty where that is nothing."""

    def stop(self) -> None:
        """End the process in which they run."""

    def leave(self) -> None:
        """End it, and free the memory that it had, before this process ends."""


T = TypeVar("T")


class QueuedCall:
    """Launches a prepared call.

    ``queue``: the function that its declaration returns. ``settings``: as they were before it was prepared.
    """

    def __init__(self, device: Device, case: Case, queue: Callable[[], object], settings: outside.Settings) -> None:
        self._device, self._case, self.queue, self.settings = device, case, queue, settings

    def __call__(self) -> None:
        self._device.called = self._case
        with self.errors():
            self.queue()
            self.settings.return_to_context()

    def errors(self) -> AbstractContextManager[None]:
        """Turn whatever the call raises into DeviceError."""
        return self._device.errors_of_call(f"queueing {self._case.variant.name}")


class Device:
    """An open GPU with one context, and one stream that does not wait for the default stream."""

    def __init__(self, driver: Any, ordinal: int, launch_timeout: float, compiler: Path | None = None) -> None:
        """Open GPU number ``ordinal``. ``compiler``: given where the driver is the software device's."""
        self._driver = driver
        self._device = driver.Device(ordinal)
        # The primary context, which PyTorch, CuPy and Triton use too.
        self.context = self._device.retain_primary_context()
        self.context.push()
        self.calls: Calls | None = None  # None: calls run in this process
        self.launch_timeout = launch_timeout
        # The software device ends kernels itself: by processor time, and on a busy machine after ten times the limit.
        self._patience = launch_timeout * (11 if compiler else 1)
        self._lost = False
        self.info = read_info(driver, self._device, ordinal, compiler)
        self.finds_faults = self.info.finds_faults
        self._stream = driver.Stream(1)  # CU_STREAM_NON_BLOCKING
        self._start, self._stop = driver.Event(), driver.Event()
        self._memory: dict[int, Any] = {}
        self._streams = {"": self._stream}  # those of launch sequences too, by their names
        # Modules whose kernels PyCUDA cannot launch as they want, loaded once more: their variables are set in both.
        self._loaded_again = WeakKeyDictionary[Any, driver_calls.Module]()
        self._cuda_arrays = WeakValueDictionary[tuple[int, ...], driver_calls.CudaArray]()  # while a launch has them
        # The number of the last hold that was released, and how many holds ran into their limit; hold.cu reads them.
        self._hold_flags = driver.pagelocked_zeros(2, np.uint32, mem_flags=driver.host_alloc_flags.DEVICEMAP)
        self._gate, self._holds = int(self._hold_flags.base.get_device_pointer()), 0
        image = compile_file(Path(__file__).with_name("hold.cu"), {}, self.info.timing_target)
        self._hold = self.load(image.path, "hold")
        self.launcher(self._hold, ONE, (np.uint64(0), np.uint32(0), np.int64(0)))  # prepared once for all samples
        self.called: Case | None = None  # whose call is a part of the present sample
        self._watch: outside.CallWatch | None = None  # once there was a call that runs in this process

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """Turn PyCUDA's errors into DeviceError, which says what was being done and whether the context is lost."""
        try:
            yield
        except (self._driver.Error, CallError) as error:
            self._lost = self._lost or self._is_dead()
            raise DeviceError(f"{what}: {error}", self._lost) from None

    def _is_dead(self) -> bool:
        try:
            self.context.synchronize()
        except self._driver.Error:
            return True
        return False

    def close(self) -> None:
        """Leave the context, which PyCUDA wants before the process ends. No kernel can be launched after this."""
        with self._errors("closing the device"):
            self._memory.clear()
            self.context.pop()
            self.context.detach()

    # Memory

    def require(self, size: int) -> None:
        with self._errors("asking for free memory"):
            free, total = self._driver.mem_get_info()
        if size > free:
            raise DeviceError(
                f"not enough memory: {size / 1e9:,.2f} GB needed, {free / 1e9:,.2f} of {total / 1e9:,.2f} GB free"
            )

    @property
    def free_memory(self) -> int:
        with self._errors("asking for free memory"):
            return int(self._driver.mem_get_info()[0])

    def allocate(self, size: int) -> int:
        if size >= ASKED_BYTES:
            self.require(size)
        with self._errors(f"allocating {size:,} bytes"):
            memory = self._driver.mem_alloc(size)
        self._memory[int(memory)] = memory
        return int(memory)

    def free(self, address: int) -> None:
        if self.calls:
            self.calls.freed(address)
        if not self._lost:  # freeing waits for all kernels, and a lost one may never end
            with self._errors("freeing memory"):
                self._memory.pop(address).free()

    def _packed(
        self, function: Function, arguments: Sequence[np.generic]
    ) -> tuple[bytes, list[driver_calls.TextureObject]]:
        """Pack a kernel's arguments, with the tensor maps and textures that they describe. Raises DeviceError.

        The second value is what ``free_textures`` takes when the arguments are not used any more.
        """
        made, textures = list[np.generic](), list[driver_calls.TextureObject]()
        for each in arguments:
            value = driver_calls.made_tensor_map(each) if is_tensor_map(each) else each
            if is_texture(each):
                textures.append(driver_calls.made_texture(each, self._cuda_array(each)))
                value = np.uint64(textures[-1].handle)
            made.append(value)
        return pack(made, function.parameters or ()), textures

    def _cuda_array(self, described: Any) -> driver_calls.CudaArray | None:
        """Return the CUDA array of a texture or surface, one for all of the same declared array; None without one."""
        if described["kind"] == OF_MEMORY:
            return None
        names = ("texture", "format", "channels", "width", "height", "depth", "row_bytes")
        key = tuple(int(described[name]) for name in names)
        if (array := self._cuda_arrays.get(key)) is None:
            array = self._cuda_arrays[key] = driver_calls.CudaArray(described, int(self._stream.handle))
            weakref.finalize(array, self._free_array, array.handle).atexit = False
        array.is_written = array.is_written or is_surface(described)
        return array

    def _free_array(self, handle: Any) -> None:
        if not self._lost:
            driver_calls.free_array(handle)

    def cuda_arrays(self, arguments: Sequence[np.generic]) -> Sequence[CopiedArray]:
        made = (self._cuda_array(each) for each in arguments if is_texture(each))
        return tuple(dict.fromkeys(array for array in made if array))

    def owning(self, start: T, textures: Sequence[driver_calls.TextureObject]) -> T:
        """Return a function that launches, and have textures destroyed with it."""
        if textures:
            weakref.finalize(start, self._destroy, textures).atexit = False
        return start

    def _destroy(self, textures: Sequence[driver_calls.TextureObject]) -> None:
        if not self._lost:  # as in ``free``
            driver_calls.free_textures(textures)

    def abandon(self) -> None:
        """Stop waiting for kernels, because this process ends."""
        self._lost = True

    def fill(self, address: int, size: int, word: int) -> None:
        driver, each = self._driver, next(each for each in (4, 2, 1) if address % each == 0 and size % each == 0)
        fill = {4: driver.memset_d32_async, 2: driver.memset_d16_async, 1: driver.memset_d8_async}[each]
        with self._errors("filling memory"):
            fill(address, word & ((1 << 8 * each) - 1), size // each, self._stream)

    def copy(self, to: int, source: int, size: int) -> None:
        with self._errors("copying on the device"):
            self._driver.memcpy_dtod_async(to, source, size, self._stream)

    def write(self, address: int, array: Array) -> None:
        # On this device's stream: a plain copy may still be under way when a kernel on another stream starts.
        with self._errors("copying to the device"):
            if staging := self._staging_of(array):
                staging.write(address, array)
            else:
                self._driver.memcpy_htod_async(address, array, self._stream)

    def _staging_of(self, array: Array) -> Staging | None:
        """Return what copies an array, where it is large; None for a plain copy."""
        return self._staging if array.nbytes >= LARGE_BYTES and self.info.has_gpu_clock else None

    @functools.cached_property
    def _staging(self) -> Staging | None:
        with suppress(self._driver.Error):  # no page-locked memory is left
            return Staging(self._driver, self._stream)
        return None

    def read(self, address: int, array: Array) -> None:
        if staging := self._staging_of(array):
            self.finish()  # a kernel that never ends is found by this alone
            with self._errors("copying from the device"):
                staging.read(address, array)
            return
        with self._errors("copying from the device"):
            self._driver.memcpy_dtoh_async(array, address, self._stream)
        self.finish()

    # Kernels

    def load(self, image: Path, entry: str, beside: Function | None = None) -> Function:
        with self._errors(f"loading {entry}"):
            module = beside.handle[0] if beside else source_module_class()(read_image(image))
            function = module.get_function(entry)
            resources = Resources(
                function.num_regs,
                function.shared_size_bytes,
                function.local_size_bytes,
                function.max_threads_per_block,
            )
        return Function(entry, (module, function, image), resources, read_parameters(image, entry))

    def source_module(self, image: Path) -> Any:
        """A compiled file as PyCUDA's SourceModule. Raises CompileError where the file is damaged, and DeviceError."""
        with self._errors(f"loading {image.name}"):
            return source_module_class()(read_image(image))

    def launcher(self, function: Function, launch: Launch, arguments: Sequence[np.generic]) -> Callable[[], None]:
        refused = self.info.limits.refusal(launch, function.resources)
        if refused:
            raise DeviceError(refused)
        kernel = function.handle[1]
        (packed, textures), shared = self._packed(function, arguments), launch.shared_bytes
        queue = self._queue(launch.stream)
        if launch.has_attributes or function.handle[0] in self._loaded_again:
            again = self._again(function).launcher(function.name, launch, int(queue.handle), packed)
            return self.owning(again, textures)
        values = (packed,) if packed else ()
        what = (
            f"launching {demangled([function.name])[0]}, grid {launch.grid}, block {launch.block}, {shared:,} bytes of "
            f"dynamic shared memory, {len(arguments)} arguments of {len(packed):,} bytes"
        )
        with self._errors(what):
            if shared > 48 * 1024:  # CUDA allows more only on request
                kernel.set_attribute(self._driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
            kernel.prepare(f"{len(packed)}s" if packed else "")

        def start() -> None:
            with self._errors(what):
                kernel.prepared_async_call(launch.grid, launch.block, queue, *values, shared_size=shared)

        return self.owning(start, textures)

    def timed_launcher(
        self, function: Function, launch: Launch, arguments: Sequence[np.generic]
    ) -> Callable[[], float]:
        """Return a function that launches, and returns the host's seconds of the driver's call. Raises DeviceError."""
        module, _, image = function.handle
        is_new, again = module not in self._loaded_again, self._again(function)
        for name in symbols.variables(read_image(image)) if is_new else ():
            with suppress(self._driver.Error, DeviceError):  # as for ``variables``
                address, size = module.get_global(name)
                self.copy(again.variable(name), int(address), size)
        (packed, textures), queue = self._packed(function, arguments), int(self._queue(launch.stream).handle)
        return self.owning(again.timed_launcher(function.name, launch, queue, packed), textures)

    def _again(self, function: Function) -> driver_calls.Module:
        """Return a kernel's module as it is loaded once more. Raises DeviceError."""
        module, _, image = function.handle
        again = self._loaded_again.get(module) or driver_calls.Module(image, function.name)
        self._loaded_again[module] = again
        return again

    def _queue(self, name: str) -> Any:
        """Return the stream of that name, which no other waits for by itself."""
        if name not in self._streams:
            with self._errors("making a stream"):
                self._streams[name] = self._driver.Stream(1)
        return self._streams[name]

    def in_sequence(self, launches: Sequence[Launch], starts: Sequence[Callable[[], None]]) -> Callable[[], None]:
        names = dict.fromkeys(launch.stream for launch in launches if launch.stream)
        if not names:
            return in_order(starts)
        own, others = self._stream, [self._queue(name) for name in names]
        last = [max(i for i, launch in enumerate(launches) if launch.stream == name) for name in names]
        without_time = self._driver.event_flags.DISABLE_TIMING
        with self._errors("making an event"):
            begin, *ends = (self._driver.Event(without_time) for _ in range(1 + len(launches)))

        def start() -> None:
            with self._errors("queueing launches on several streams"):
                begin.record(own)
                for other in others:
                    other.wait_for_event(begin)
                for launch, each, end in zip(launches, starts, ends, strict=True):
                    queue = self._queue(launch.stream)
                    for earlier in launch.after:
                        queue.wait_for_event(ends[earlier])
                    each()
                    end.record(queue)
                for number in last:
                    own.wait_for_event(ends[number])

        return start

    def call(self, case: Case, addresses: Mapping[str, int]) -> Callable[[], None]:
        assert case.variant.call
        if self.calls:
            return self.calls.launcher(case, addresses)
        arrays = {
            array.name: DeviceArray(
                name=array.name,
                address=addresses[array.name],
                shape=array.shape,
                dtype=array.dtype,
                ordinal=self.info.ordinal,
            )
            for array in case.arrays
        }
        given = case.given | arrays | {"stream": int(self._stream.handle)}
        self._watch = self._watch or self._learn()
        settings = self._watch.begin()
        with self.errors_of_call(f"preparing {case.variant.name}"):
            queue = named_arguments.call(case.variant.call.prepare, given)
            settings.return_to_context()
            self.context.synchronize()  # whatever it queued, on whatever stream

        return QueuedCall(self, case, queue, settings)

    @property
    def has_call(self) -> bool:
        """True from the preparation of a call to ``leave_call``."""
        return self._watch is not None and self._watch.settings is not None

    def remarks_on_launches(self) -> tuple[str, ...]:
        return driver_calls.notes("softcuda_remarks") if self.finds_faults else ()

    def likely_causes(self) -> tuple[str, ...]:
        return driver_calls.notes("softcuda_likely_causes") if self.finds_faults else ()

    def remarks_on_call(self) -> tuple[str, ...]:
        return self._watch.remarks() if self._watch else ()

    def launched_by_call(self) -> tuple[activity.Activity, ...]:
        return self._watch.launched if self._watch else ()

    def leave_call(self) -> None:
        if self._watch:
            self._watch.leave()

    def _learn(self) -> outside.CallWatch:
        """Learn from an empty kernel what to expect of calls."""
        # Without a GPU's clock a time contains what else the machine does.
        least = outside.LEAST_SLACK if self.info.has_gpu_clock else outside.HOST_SLACK
        launch_nothing = functools.partial(self._launch_hold, 0, 0)
        record = activity.recorded if self.info.has_gpu_clock else None
        return outside.CallWatch(int(self._stream.handle), self.time, launch_nothing, self._patience, least, record)

    def _has_ended(self, aftermath: outside.Aftermath) -> bool:
        """Tell whether the work of the last launch of a call ended with that of its stream."""
        try:
            return aftermath.look(self._patience)
        except DeviceError as error:
            self._lost = self._lost or bool(error.lost)
            raise

    @contextmanager
    def errors_of_call(self, what: str) -> Iterator[None]:
        """Turn whatever a call raises into DeviceError."""
        try:
            with self._errors(what):
                yield
        except DeviceError:
            raise
        except Exception as error:  # a call is anybody's code
            raise DeviceError(f"{what}: {type(error).__name__}: {error}", self._is_dead()) from None

    def strays(self, start: Callable[[], None], written: Sequence[GuardedArray], restore: Callable[[], None]) -> str:
        fault = self._held_work(start, written, restore)
        return fault or (self._watch.outside_work(start, restore, self.finish) if self._watch else "")

    def _held_work(
        self, start: Callable[[], None], written: Sequence[GuardedArray], restore: Callable[[], None]
    ) -> str:
        """Say that a call does not keep to its stream; empty where it does.

        ``written``: its results, which ``restore`` poisons. While the stream is held, nothing that is queued on it can
        run: a call that writes its results nevertheless queues elsewhere, and one that does not return waits for the
        stream.
        """
        if self.calls:
            return self.calls.look()
        if not self.info.has_gpu_clock:  # what is queued there runs at once, on whatever stream
            return ""
        for _ in range(outside.IN_A_ROW):  # one hold alone may run into its limit, as where the host was interrupted
            restore()
            self.finish()
            before = [np.empty(min(array.nbytes, STRAY_BYTES), np.uint8) for array in written]
            for array, old in zip(written, before, strict=True):
                self.read(array.address, old)
            changed = list[bool]()

            def held(before: Sequence[Array] = before, changed: list[bool] = changed) -> None:
                start()
                time.sleep(STRAY_SECONDS)
                aside = self._driver.Stream(1)
                for array, old in zip(written, before, strict=True):
                    now = np.empty_like(old)
                    self._driver.memcpy_dtoh_async(now, array.address, aside)
                    aside.synchronize()
                    changed.append(bool((now != old).any()))

            if self.time(held, watched=False) is not None:
                wrong = "queues its work on another stream than the `stream` that it is given"
                return wrong if any(changed) else ""
        return "waits until its work is done: queue it on `stream` and return"

    @contextmanager
    def in_another_order(self, number: int) -> Iterator[str]:
        if number and self.info.has_gpu_clock:
            with self._crowded(number):
                yield ", beside another kernel"
        elif number:
            import softcuda  # noqa: PLC0415  # where it is needed

            with softcuda.in_another_order(number) as seed:
                yield f", the second with --schedule-seed {seed}"
        else:
            yield ""

    def accept(self, findings: Iterable[str]) -> None:
        if self.finds_faults:
            import softcuda  # noqa: PLC0415  # where it is needed

            softcuda.accept(findings)

    def accepted(self) -> list[str] | None:
        """Return which of the accepted findings there were since this was asked last; None where none is looked for."""
        if not self.finds_faults:
            return None
        import softcuda  # noqa: PLC0415  # where it is needed

        return softcuda.accepted()

    @functools.cached_property
    def _occupy(self) -> Function:
        return self.load(compile_file(OCCUPY, {}, self.info.timing_target).path, "occupy")

    @contextmanager
    def _crowded(self, number: int) -> Iterator[None]:
        """Let blocks of another kernel take a part of the multiprocessors, on a stream of their own."""
        gate = self._driver.pagelocked_zeros(1, np.uint32, mem_flags=self._driver.host_alloc_flags.DEVICEMAP)
        address, limit = int(gate.base.get_device_pointer()), int(HOLD_SECONDS * self.info.clock_hz)
        shared = self.info.limits.shared_bytes // 2 + 1024  # one to a multiprocessor
        blocks = max(1, self.info.multiprocessors * (1 + number % CROWDS) // (2 * CROWDS))
        launch = Launch((blocks, 1, 1), (self.info.limits.threads, 1, 1), shared)
        self.launcher(self._occupy, launch, (np.uint64(address), np.int64(limit)))  # prepares it, for this stream too
        aside, packed = self._driver.Stream(1), pack((np.uint64(address), np.int64(limit)))
        with self._errors("launching a kernel beside another"):
            self._occupy.handle[1].prepared_async_call(launch.grid, launch.block, aside, packed, shared_size=shared)
        time.sleep(CROWDED_SECONDS)
        try:
            yield
        finally:
            gate[0] = 1
            with suppress(self._driver.Error):  # what failed inside is said instead
                aside.synchronize()

    def finish(self) -> None:
        with self._errors("the kernel failed"):  # the fault of a fast kernel may show here already
            self._stop.record(self._stream)
        self._wait()

    def _wait(self) -> None:
        """Wait for the stop event. Raises DeviceError where it does not come within the launch limit."""
        begin = time.monotonic()
        # Pauses are a part of what the kernel has taken so far: its end is seen 3 % late at most. A kernel of the
        # software device runs on a core, which this thread must leave to it.
        spinning, part = (0.002, 32) if self.info.has_gpu_clock else (0.0, 8)
        with self._errors("the kernel failed"):
            while not self._stop.query():
                waited = time.monotonic() - begin
                if waited > self._patience:
                    self._lost = True
                    said = f"the kernel did not end within {self.launch_timeout:g} s (--launch-timeout)"
                    raise DeviceError(said, LATE)
                if waited > spinning:
                    time.sleep(min(max(waited / part, 0.00005), 0.0005))
            # Unlike a query, this prints what kernels wrote by printf.
            self._stop.synchronize()

    def _hold_stream(self) -> None:
        """Queue the kernel that waits until the host lets it end."""
        self._holds += 1
        with self._errors("holding the stream"):
            self._launch_hold(self._holds, HOLD_SECONDS * self.info.clock_hz)

    def _launch_hold(self, number: int, cycles: float) -> None:
        """Launch the kernel that waits for the release of this hold, for so long at most; 0: it ends at once."""
        packed = HOLD_ARGUMENTS.pack(self._gate, number, int(cycles))
        self._hold.handle[1].prepared_async_call(ONE.grid, ONE.block, self._stream, packed)

    def time(
        self, start: Callable[[], None], after: Callable[[], None] | None = None, *, watched: bool = True
    ) -> float | None:
        """Return the seconds that the GPU spends on what ``start`` queues; None where the sample does not count.

        That is where the hold ran into its limit, or a call works on after its stream has ended, which raises
        WrongResult where it recurs, unless it is not to be ``watched``. ``after``: queues what is to run behind it.

        The stream is held until everything is queued, as in NVIDIA's nvbench, so that the time does not contain
        Python's launch cost. It contains the GPU's own start of a kernel: an empty one takes 2.7 µs on an H200.
        """
        timeouts = int(self._hold_flags[1])
        self.called = None
        self._hold_stream()
        try:
            with self._errors("recording an event"):
                self._start.record(self._stream)
                start()
                self._stop.record(self._stream)
                call = self.called if watched else None
                aftermath = self._watch.aftermath if call and self._watch else None
                if aftermath:
                    aftermath.mark()
                elif after:
                    after()
        finally:
            self._hold_flags[0] = self._holds
        self._wait()
        has_ended = not aftermath or self._has_ended(aftermath)
        if aftermath and after:
            after()  # not before: an event of the context waits for what runs behind the call too
        if self._hold_flags[1] != timeouts:
            return None
        if call and aftermath and not has_ended:
            if aftermath.fault:
                raise WrongResult(f"{call.id} {aftermath.fault}")
            return None
        with self._errors("reading an event"):
            return float(self._stop.time_since(self._start)) * 1e-3

    @contextmanager
    def graph(self, starts: Sequence[Callable[[], None]]) -> Iterator[Callable[[], None]]:
        """Record what functions queue, and yield one that queues all of it again at the cost of one launch."""
        with self._errors("recording launches"):
            graph = driver_calls.Graph(int(self._stream.handle), starts)
        try:
            yield graph.launch
        finally:
            graph.destroy()

    def end_of_queue(self) -> Callable[[], bool]:
        """Mark the end of what is queued, and return a function that says whether the GPU has come to it."""
        with self._errors("recording an event"):
            event = self._driver.Event()
            event.record(self._stream)
        return event.query  # type: ignore[no-any-return]  # of a kernel that failed, ``finish`` says so

    def occupancy(self, function: Function, launch: Launch) -> float | None:
        blocks = self.resident_blocks(function, launch)
        most = self._device.get_attribute(self._driver.device_attribute.MAX_THREADS_PER_MULTIPROCESSOR)
        return None if blocks is None else blocks * int(np.prod(launch.block)) / most

    def resident_blocks(self, function: Function, launch: Launch) -> int | None:
        """Return how many blocks a multiprocessor holds at once, or None where that is unknown."""
        return driver_calls.resident_blocks(function.handle[2], function.name, launch) if function.handle else None

    def set_constant(self, function: Function, name: str, address: int, size: int) -> int:
        targets, capacity = self._variables(function, name)
        for target in targets:
            self.copy(target, address, min(size, capacity))
        return capacity

    def variables(self, function: Function) -> list[tuple[int, int]]:
        """Return address and size of each variable of the module that holds a kernel; none where it is unknown."""
        if not function.handle:  # a call
            return []
        module, _, image = function.handle
        again, ranges = self._loaded_again.get(module), list[tuple[int, int]]()
        for name in symbols.variables(read_image(image)):
            with suppress(self._driver.Error, DeviceError):  # what the image defines for the compiler's own use
                address, size = module.get_global(name)
                ranges.append((int(address), size))
                ranges += [(again.variable(name), size)] if again else []
        return ranges

    def reset_persisting_cache(self) -> None:
        """Give the lines of L2 that a launch before asked to be kept back to all. Raises DeviceError."""
        driver_calls.reset_persisting_cache()

    def set_variable(self, function: Function, name: str, value: np.generic) -> None:
        for address in self._variables(function, name)[0]:
            self.write(address, np.array([value]))
            self.finish()

    def _variables(self, function: Function, name: str) -> tuple[list[int], int]:
        """Return the addresses of a variable in the module, also where that is loaded again, and the size in bytes."""
        module, _, _ = function.handle
        try:
            with self._errors(f"setting {name}"):
                address, size = module.get_global(name)
        except DeviceError as error:
            cure = "a variable of a namespace and a static one have mangled names, such as _ZN2ns1wE"
            raise DeviceError(f"{error}; {cure}" if "not found" in str(error) else str(error), error.lost) from None
        again = self._loaded_again.get(module)
        return [int(address), *([again.variable(name)] if again else [])], size


@functools.cache
def source_module_class() -> Any:
    """Return PyCUDA's SourceModule with another compile step: it takes machine code that our cache holds already.

    Its ``get_function`` raises DeviceError for a name that the file lacks, with those that it has. Raises ImportError
    where PyCUDA, or what it needs, is missing.
    """
    from pycuda import compiler, driver  # noqa: PLC0415

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
