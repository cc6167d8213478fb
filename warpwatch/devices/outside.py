"""Finds what a call does beside its launch: work that its time leaves out, threads, settings that it leaves changed.

The time of a call is that of what lies between two events on its stream. Work on another stream is a part of it where
it begins after an event of the stream and the stream waits for it. Other work makes a call look fast:

- what goes on after the stop event, which an event of the whole context shows (``Aftermath``);
- what began before the start event, while the stream was held: it takes longer where nothing may begin earlier
  (``early_work``);
- both of them, however short, where CUPTI records what runs (``stray``);
- what a thread queues or computes after the call has returned (``thread_fault``).
"""

from __future__ import annotations

import locale
import math
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from warpwatch.catalogue.launches import MOST_LAUNCHED
from warpwatch.devices import driver_calls
from warpwatch.devices.activity import Activity
from warpwatch.devices.driver_calls import Event
from warpwatch.devices.machine import LATE, DeviceError, in_order
from warpwatch.devices.mismatch import WrongResult

RESOLUTION = 0.5e-6  # seconds, of CUDA's events
READINGS = 20  # of what an event of the context reads where nothing else runs
SPREADS = 10  # of these readings: what is later than that is work
# Seconds that an event of the context may come later all the same, and that a call may take longer where no stream
# begins earlier: more than honest calls of 5 to 170 µs, such as those of cuBLAS, have shown (46 µs at most, H200).
LATEST, LEAST_SLACK = 100e-6, 10e-6
IN_A_ROW = 3  # samples: one alone may have been interrupted by another process
EARLY_SECONDS = 0.002  # that such work may run before a time begins, 20 times as long as a hold lasts
PAIRS = 8  # of samples that compare work which may begin early with work which may not
EARLY_SHARE = 0.1  # of a sample
HOST_SLACK = 1e-3  # seconds, where times are the host's
UNSEEN = (
    "work that a call does before or after its time is not looked for: the driver has no events of a whole context, as "
    "those of CUDA 12.5 and newer have"
)
UNRECORDED = (
    "its work of less than 0.1 ms outside its time is not looked for, and what it launches is not known: CUPTI has not "
    "recorded it; pip install cupti-python, and let no profiler watch the run"
)
UNSEEN_CODE = "the machine code of kernels that its call launches was not seen"
IDLE_SECONDS = 0.03  # in which no thread of a call has anything to do
BUSY_SHARE = 0.05  # of it that a thread computes which is not idle
SPINNING_SECONDS = (
    0.3  # by then a pool's threads have stopped to wait actively: Intel's OpenMP has them do so for 0.2 s
)
LAUNCHES = 3  # each of which starts a thread
TASKS = Path("/proc/self/task")
MARK = "hold"  # name of the kernel of hold.cu, which runs before and behind a recorded call
HOLD_AND_MARKS = 3  # launches of it
RECORDED_SLACK = 1000  # nanoseconds by which the times of records are out
# Variables of the environment that CUDA and its libraries read: one that is new is removed.
READ_BY_CUDA = ("CUDA_", "CUBLAS", "CUDNN", "NVIDIA_", "NCCL_")


Record = Callable[[Callable[[], None]], list[Activity] | None]  # of what runs meanwhile; None where it is unknown


class Time(Protocol):
    """Seconds that a device spends on what a function queues; None where the sample does not count."""

    def __call__(self, start: Callable[[], None], *, watched: bool = True) -> float | None: ...


class CallWatch:
    """Looks at the calls of a device: ``begin`` before one is prepared, ``leave`` when it is not launched any more.

    ``aftermath``: None where the driver has no events of a whole context. ``settings``: before the first call since
    ``leave``, None where there was none. ``launched``: what the last call that was looked at launched.
    """

    def __init__(
        self,
        stream: int,
        time: Time,
        launch_nothing: Callable[[], None],
        patience: float,
        least_slack: float,
        record: Record | None = None,
    ) -> None:
        """Learn from launches of an empty kernel what late and early work cannot explain.

        ``patience``: seconds that a call's work may take. ``least_slack``: that a call may take longer in any case
        where all streams wait for it. ``record``: records what runs on the GPU.
        """
        self._stream, self._time, self._patience = stream, time, patience
        self._launch_nothing, self._record = launch_nothing, record
        self.settings: Settings | None = None
        self.launched: tuple[Activity, ...] = ()
        self._threads: Mapping[int, str] = {}  # before the call was prepared
        self._looked_at: Callable[[], None] | None = None  # the last call of which it is known what it does outside
        self.aftermath, self._slack = None, math.inf
        if driver_calls.has_context_events():
            self.aftermath = self._learn_aftermath(launch_nothing)
            self._slack = self._learn_slack(launch_nothing, least_slack)

    def begin(self) -> Settings:
        """Keep the state before a call is prepared, and return the settings."""
        if self.aftermath:
            self.aftermath.forget()
        self._threads = threads()
        self.settings = self.settings or Settings(self._stream)
        return self.settings

    def remarks(self) -> tuple[str, ...]:
        """Say what calls have changed since ``leave``, and what cannot be seen of them."""
        if not self.settings:
            return ()
        changed = ", ".join(self.settings.changed())
        remarks = [f"its call changes {changed}; restored after it"] * bool(changed)
        if self._slack == math.inf:
            remarks.append(UNSEEN)
        elif self._record and self._looked_at and not self.launched:
            remarks.append(UNRECORDED)
        elif unseen := dict.fromkeys(each.name for each in self.launched if each.name and not each.kernel.get("code")):
            remarks.append(f"{UNSEEN_CODE}: {', '.join(unseen)}")
        return tuple(remarks)

    def leave(self) -> None:
        """Restore what calls have changed."""
        if self.settings:
            self.settings.restore()
        self.settings = self._looked_at = None
        self.launched = ()

    def outside_work(self, start: Callable[[], None], restore: Callable[[], None], finish: Callable[[], None]) -> str:
        """Say how a call works before, after or beside its launch; empty where it does not, or was looked at before."""
        if start is self._looked_at:
            return ""
        self._looked_at = start

        def launch() -> None:
            restore()
            start()
            finish()

        self.launched = ()

        def sample(begin: Callable[[], None]) -> float | None:
            restore()
            return self._time(in_order((begin, partial(time.sleep, EARLY_SECONDS))), watched=False)

        if self.aftermath:
            # Also where no stream may begin earlier: else work on another one can be done while this one is held.
            for begin in (start, holding(start, self._stream)):
                if fault := self._late_work(self.aftermath, begin, restore):
                    return fault
            if fault := early_work(sample, start, self._stream, self._slack):
                return fault
        return thread_fault(launch, self._threads) or self._recorded_work(start, restore, finish)

    def _recorded_work(self, start: Callable[[], None], restore: Callable[[], None], finish: Callable[[], None]) -> str:
        """Note what a call launches, and say what of it runs outside its time; empty where nothing does."""
        aftermath, record = self.aftermath, self._record
        if not aftermath or not record:
            return ""
        between = in_order((self._launch_nothing, start, self._launch_nothing))
        times = list[float | None]()

        def work() -> None:
            times.append(self._time(between, watched=False))
            aftermath.mark()
            aftermath.seconds(self._patience)

        restore()
        finish()
        ran = record(work)
        marks = [activity for activity in ran or () if activity.name == MARK]
        if not ran or times == [None] or len(marks) < HOLD_AND_MARKS:
            return ""
        own = [activity for activity in ran if activity.name != MARK]
        self.launched = tuple(own[:MOST_LAUNCHED])
        return stray(own, *marks[-2:])

    def _late_work(self, aftermath: Aftermath, start: Callable[[], None], restore: Callable[[], None]) -> str:
        """Say how work goes on after samples; empty where it does not.

        On a held stream: otherwise a short call ends before the host has queued the second event.
        """
        aftermath.forget()
        for _ in range(IN_A_ROW):
            restore()
            with suppress(WrongResult):  # which the fault repeats
                if self._time(start) is not None:
                    break
        return aftermath.fault

    def _learn_aftermath(self, launch_nothing: Callable[[], None]) -> Aftermath:
        """Return what finds work of a call that goes on after a sample."""
        aftermath, readings = Aftermath(self._stream), list[float]()
        for _ in range(1 + READINGS):  # the first one is three times as long (H100)
            self._time(in_order((launch_nothing, aftermath.mark)))
            readings.append(aftermath.seconds(self._patience))
        aftermath.learn(readings[1:])
        return aftermath

    def _learn_slack(self, launch_nothing: Callable[[], None], least: float) -> float:
        """Return the seconds that a launch may take longer where all streams wait for it; infinite if unknown."""
        begins = (launch_nothing, holding(launch_nothing, self._stream))
        free, held = (statistics.median(self._time(begin) or math.inf for _ in range(PAIRS)) for begin in begins)
        return 2 * max(held - free, least) if held < math.inf else math.inf  # a call may launch on several streams


class Aftermath:
    """Work that goes on after the stop event of a call's sample.

    ``limit``: seconds by which an event of the whole context comes later than one of the stream at most where nothing
    else runs.
    """

    def __init__(self, stream: int) -> None:
        self._stream, self._stop, self._all = stream, Event(), Event()
        self._late: list[float] = []
        self.limit = 0.0

    def learn(self, readings: Sequence[float]) -> None:
        """Set the limit from readings of launches beside which nothing runs."""
        middle = statistics.median(readings)
        spread = 1.4826 * statistics.median(abs(reading - middle) for reading in readings)
        self.limit = max(LATEST, middle + SPREADS * max(spread, RESOLUTION))

    def mark(self) -> None:
        """Queue the events: after the stop event of a sample, or after a launch."""
        self._stop.record(self._stream)
        self._all.record_context()

    def seconds(self, patience: float) -> float:
        """Return how much later than the stream's the context's work ends. Raises DeviceError after ``patience``."""
        begin = time.monotonic()
        while not self._all.is_done():
            waited = time.monotonic() - begin
            if waited > patience:
                raise DeviceError(f"what the call queues elsewhere does not end within {patience:g} s", lost=LATE)
            if waited > 0.002:
                time.sleep(min(waited / 32, 0.0005))
        return self._all.seconds_since(self._stop)

    def forget(self) -> None:
        """Forget earlier samples, which were another call's."""
        self._late.clear()

    def look(self, patience: float) -> bool:
        """Look at the last sample, and tell whether it counts, because no work goes on after it."""
        seconds = self.seconds(patience)
        if seconds <= self.limit:
            self._late.clear()
        else:
            self._late.append(seconds)
        return not self._late

    @property
    def fault(self) -> str:
        """Sentence on work that goes on after each of the last samples; empty where one alone was late."""
        if len(self._late) < IN_A_ROW:
            return ""
        return (
            f"works on for {_duration(min(self._late))} after its stream has ended: the work is queued on another "
            "stream; queue it on `stream`, or let `stream` wait for it"
        )


def stray(ran: Sequence[Activity], first: Activity, last: Activity) -> str:
    """Say which work of a call runs outside its time, as CUPTI has recorded it; empty where none does.

    ``first``, ``last``: empty kernels on its stream, before and behind it.
    """
    for each in ran:
        where = "" if each.stream == first.stream else " on another stream"
        if each.end > last.begin + RECORDED_SLACK:
            late = _duration((each.end - last.begin) * 1e-9)
            return (
                f"works on for {late} after its stream has ended: it runs {each.words}{where}; queue it on `stream`, "
                "or let `stream` wait for it"
            )
        if each.begin < first.end - RECORDED_SLACK:
            early = _duration((first.end - each.begin) * 1e-9)
            return (
                f"runs a part of its work {early} before its time begins: {each.words}{where}; let that stream wait "
                "for an event of `stream` before it works"
            )
    return ""


def early_work(
    sample: Callable[[Callable[[], None]], float | None], start: Callable[[], None], stream: int, slack: float
) -> str:
    """Say that a call runs a part of its work before its time begins; empty where it does not.

    ``sample``: takes the time of a launch, None where it does not count. ``slack``: seconds that a launch may take
    longer where all streams wait for the start event.
    """
    free, held, hold_and_start = list[float](), list[float](), holding(start, stream)
    blocked = 0  # samples in a row
    for _ in range(PAIRS):
        seconds, whole = sample(start), sample(hold_and_start)
        if seconds is None or slack == math.inf:
            return ""
        free.append(seconds)
        if whole is None:
            blocked += 1
            if blocked == IN_A_ROW:
                return (
                    "waits for another stream before it has queued its work: what it computes on the host meanwhile is "
                    "not timed; queue all of it on `stream`"
                )
            continue
        blocked = 0
        held.append(whole)
        if min(held) <= (1 + EARLY_SHARE) * max(free) + slack:
            return ""
    return (
        f"runs a part of its work before its time begins: it takes {_duration(statistics.median(free))}, and "
        f"{_duration(statistics.median(held))} where no stream may begin earlier; let another stream wait for an event "
        "of `stream` before it works"
    )


def holding(start: Callable[[], None], stream: int) -> Callable[[], None]:
    """Return a function that starts the same, and lets all streams of the context wait for this one first."""
    begun = Event()

    def hold_and_start() -> None:
        begun.record(stream)
        begun.hold_context()
        start()

    return hold_and_start


def allocated_bytes(launch: Callable[[], None]) -> int:
    """Return the bytes that each launch of a call allocates: from the driver's pool, PyTorch's or CuPy's.

    ``launch``: launches, and waits for the end. Other memory of a GPU is freed when its work is done: a call that
    allocates it waits while its stream is held, or keeps the memory (timing/observers/observer.py).
    """
    return min(max(count(launch) for count in (_from_driver, _from_torch, _from_cupy)) for _ in range(LAUNCHES))


def _from_driver(launch: Callable[[], None]) -> int:
    try:
        pool = driver_calls.Pool()
    except (AttributeError, DeviceError):  # of a driver or GPU without pools
        launch()
        return 0
    pool.forget()
    before = pool.used(driver_calls.USED_NOW)
    launch()
    return max(0, pool.used(driver_calls.USED_AT_MOST) - before)


def _from_torch(launch: Callable[[], None]) -> int:
    if not (torch := sys.modules.get("torch")) or not torch.cuda.is_initialized():
        return 0

    def allocated() -> int:
        return int(torch.cuda.memory_stats().get("allocated_bytes.all.allocated", 0))

    before = allocated()
    launch()
    return allocated() - before


def _from_cupy(launch: Callable[[], None]) -> int:
    cupy: Any = sys.modules.get("cupy")
    if not cupy:
        return 0
    sizes = list[int]()

    class Hook(cupy.cuda.memory_hook.MemoryHook):  # type: ignore[misc]  # CuPy has no types here
        name = "warpwatch"

        def malloc_postprocess(self, **given: Any) -> None:
            sizes.append(given["mem_size"])

    with Hook():
        launch()
    return sum(sizes)


def threads() -> dict[int, str]:
    """Return the threads of this process by number, with the names that Python has for them."""
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    return {number: names.get(number, "") for number in map(int, os.listdir(TASKS))}


def thread_fault(launch: Callable[[], None], before: Mapping[int, str]) -> str:
    """Say that a call starts a thread with each launch, or computes in one after it; empty where it does not.

    ``launch``: launches, and waits for the end. ``before``: the threads before the call was prepared. Threads of a pool
    that is made once are honest.
    """
    started = list[str]()
    for number in range(1, LAUNCHES + 1):
        known = threads()
        launch()
        started += [name for thread, name in threads().items() if thread not in known]
        if len(started) < number:
            return _busy_thread(before)
    return (
        f"starts a thread with each launch, {len(started)} in {LAUNCHES} launches{_such_as(started)}: queue the work "
        "on `stream` from the thread that calls, or make a pool in `prepare`"
    )


def _busy_thread(before: Mapping[int, str]) -> str:
    """Say that a thread which is not one of those ``before`` computes while nothing is to be done; empty otherwise."""
    busy = {thread: name for thread, name in threads().items() if thread not in before}
    for pause in (0.0, SPINNING_SECONDS):
        if not busy:
            return ""
        time.sleep(pause)
        begin = {thread: _computed(thread) for thread in busy}
        time.sleep(IDLE_SECONDS)
        taken = {thread: _computed(thread) - earlier for thread, earlier in begin.items()}
        busy = {thread: name for thread, name in busy.items() if taken[thread] > BUSY_SHARE * IDLE_SECONDS}
    cure = "do its work on `stream`, or before the call returns"
    return f"computes in a thread{_such_as([*busy.values()])} after its launch has ended: {cure}" if busy else ""


def _such_as(names: Sequence[str]) -> str:
    return next((f", such as {name!r}" for name in names if name), "")


def _computed(thread: int) -> float:
    """Return the seconds of a core that a thread has taken so far; 0 where it has ended or the system does not say."""
    with suppress(OSError, ValueError, IndexError):
        return int((TASKS / str(thread) / "schedstat").read_text().split()[0]) * 1e-9
    return 0.0


class Settings:
    """State of this process and of its context before a call was prepared, as far as the call may change it."""

    def __init__(self, stream: int) -> None:
        self._own = driver_calls.settings(stream)
        self._context = driver_calls.current_context()
        self._environment = dict(os.environ)
        self._before = self._read()
        self._left_context = False

    def _read(self) -> dict[str, Any]:
        return {
            **{setting.words: setting.read() for setting in self._own},
            "NumPy's handling of errors": np.geterr(),
            "the locale": locale.setlocale(locale.LC_ALL),
        }

    def return_to_context(self) -> None:
        """Make the context current in which the call was prepared, where it left another one."""
        if driver_calls.current_context().value != self._context.value:
            driver_calls.make_current(self._context)
            self._left_context = True

    def changed(self) -> tuple[str, ...]:
        """Return in words what has changed."""
        now = self._read()
        words = [words for words, value in self._before.items() if now[words] != value]
        return (*["the current context"] * self._left_context, *words, *self._variables())

    def _variables(self) -> list[str]:
        """Return the variables of the environment that have changed, and new ones that CUDA's libraries read."""
        new = [name for name in os.environ if name not in self._environment and name.startswith(READ_BY_CUDA)]
        return [*(name for name, value in self._environment.items() if os.environ.get(name) != value), *new]

    def restore(self) -> None:
        """Give everything its earlier value."""
        changed = self.changed()
        for setting in self._own:
            if setting.words in changed and (value := self._before[setting.words]) is not None:
                setting.write(value)
        np.seterr(**self._before["NumPy's handling of errors"])
        locale.setlocale(locale.LC_ALL, self._before["the locale"])
        for name in self._variables():
            os.environ.pop(name, None)
            if name in self._environment:
                os.environ[name] = self._environment[name]


def _duration(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"
