"""Compiles many kernels at once in threads, in the background of tests or until all are done."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, as_completed, wait
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, Generic, TypeVar

from warpwatch.catalogue.cases import Build
from warpwatch.devices.compile.builds import check_builds, compile_build
from warpwatch.devices.compile.compiler import CompileError, CompilerThreads, Image, Target, with_permit

_K = TypeVar("_K", bound=Hashable)
_T = TypeVar("_T")
Job = tuple[Build, Target | None]
Check = tuple[tuple[Build, ...], Target]
Progress = Callable[[int, int], None]
Permit = Callable[[], AbstractContextManager[object] | None]
Compile = Callable[[Build, Target | None], Image]
SECONDS_TO_ASK = 0.02  # between two requests for the permit


class _Call(Generic[_T]):
    """A call that waits for a thread, or for whoever needs its result first."""

    def __init__(self, threads: CompilerThreads, call: Callable[[], _T]) -> None:
        self._call = call
        self.job = threads.submit(call)

    def finish(self) -> Future[_T]:
        """Return when the call is made. If no thread has begun it, it is made in this thread."""
        if self.job.cancel():
            done = Future[_T]()
            try:
                done.set_result(self._call())
            except Exception as error:  # whoever asks for the result gets it
                done.set_exception(error)
            self.job = done
        wait([self.job])
        return self.job


class Compilation:
    """Compiles builds in background threads, each once, in the order in which they are given.

    ``threads``: how many at once; 0 means one for each core. ``permit``: called before a compiler starts; returns a
    context to compile in, or None if compiling must wait, and is then called again. ``compile_one``: what compiles a
    build, if not compile_build.
    """

    def __init__(self, threads: int = 0, permit: Permit = nullcontext, compile_one: Compile | None = None) -> None:
        self._threads = CompilerThreads(threads)
        self._permit, self._compile_one = permit, compile_one or compile_build
        self._stopping = threading.Event()
        self._looking = threading.Lock()  # in the cache, which threads that take the interpreter in turns do slower
        self._builds: dict[tuple[str, Target | None], _Call[Image]] = {}
        self._checks: dict[tuple[str, Target | None], _Call[dict[str, CompileError]]] = {}

    def add(self, build: Build, target: Target | None) -> _Call[Image]:
        """Queue a build, unless it was queued before."""
        key = (build.id, target)
        if key not in self._builds:
            self._builds[key] = self._queued(functools.partial(self._compile_one, build, target))
        return self._builds[key]

    def add_check(self, builds: Sequence[Build], target: Target) -> None:
        """Queue a check that builds of one source compile, without those that are queued to be compiled."""
        if builds := [build for build in builds if (build.id, target) not in self._builds]:
            check = self._queued(functools.partial(check_builds, builds, target))
            self._checks |= {(build.id, target): check for build in builds}

    def _queued(self, compile_now: Callable[[], _T]) -> _Call[_T]:
        """Queue a call, which compiles when it is permitted. What is in the cache is looked for by one at a time."""
        looking = ExitStack()

        def wait_for_permit() -> AbstractContextManager[object]:
            looking.close()
            while (permitted := self._permit()) is None:
                if self._stopping.wait(SECONDS_TO_ASK):
                    raise CancelledError
            return permitted

        def run() -> _T:
            with looking, with_permit(wait_for_permit):
                looking.enter_context(self._looking)
                return compile_now()

        return _Call(self._threads, run)

    def finish(self, build: Build, target: Target | None) -> None:
        """Return when a build is compiled or has failed. If no thread has begun it, it is compiled in this thread."""
        self.add(build, target).finish()

    def finish_check(self, build: Build, target: Target) -> None:
        """Return when it is known whether a build compiles. A check that no thread has begun runs in this thread."""
        (self._checks.get((build.id, target)) or self.add(build, target)).finish()

    def finish_all(self) -> None:
        """Return when all builds are compiled or have failed."""
        wait(self._all())

    def check(self, build: Build, target: Target) -> None:
        """Raise CompileError unless a build compiles."""
        check = self._checks.get((build.id, target))
        if check is None:
            self.image(build, target)
        elif error := check.finish().result().get(build.id):
            raise error

    def image(self, build: Build, target: Target | None) -> Image:
        """Return the machine code of a build. Raises CompileError."""
        return self.add(build, target).finish().result()

    def _all(self) -> set[Future[Any]]:
        return {*(call.job for call in self._builds.values()), *(call.job for call in self._checks.values())}

    def wait(self, progress: Progress, first: Job | None = None) -> None:
        """Wait until everything is compiled, or the job ``first`` is. ``progress`` is called with done and total."""
        last = self.add(*first).job if first else None
        jobs = self._all()
        for done, job in enumerate(as_completed(jobs) if not (last and last.done()) else (), 1):
            progress(done, len(jobs))
            if job is last:
                break

    def stop(self) -> None:
        """Drop the builds that are queued and kill the compilers that run."""
        self._stopping.set()
        self._threads.stop(self._all())


def on_all_cores(calls: Mapping[_K, Callable[[], _T]], progress: Progress) -> dict[_K, Future[_T]]:
    """Call functions that compile, each in a thread. On an interrupt the rest is dropped and compilers are killed."""
    threads = CompilerThreads()
    jobs = {key: threads.submit(call) for key, call in calls.items()}
    try:
        for done, _ in enumerate(as_completed(jobs.values()), 1):
            progress(done, len(jobs))
    finally:
        threads.stop(jobs.values())
    return jobs


def images_or_errors(calls: Mapping[_K, Callable[[], Image]], progress: Progress) -> dict[_K, Image | CompileError]:
    """Call functions that compile, on all cores; machine code or the error of each."""
    images: dict[_K, Image | CompileError] = {}
    for key, job in on_all_cores(calls, progress).items():
        error = job.exception()
        if error and not isinstance(error, CompileError | OSError):
            raise error
        images[key] = CompileError(str(error)) if error else job.result()
    return images


def compile_all(jobs: Iterable[Job], progress: Progress) -> dict[str, CompileError]:
    """Compile on all cores into the cache; return errors by build id. ``progress`` is called with done and total."""
    images = images_or_errors({job: functools.partial(compile_build, *job) for job in jobs}, progress)
    return {build.id: image for (build, _), image in images.items() if isinstance(image, CompileError)}
