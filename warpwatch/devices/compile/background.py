"""Compiles many kernels at once in threads, in the background of tests or until all are done."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, as_completed, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

from warpwatch.catalogue.cases import Build
from warpwatch.devices.compile.builds import check_builds, compile_build
from warpwatch.devices.compile.compiler import CompileError, Image, Target, compile_for, kill_compilers

_K = TypeVar("_K", bound=Hashable)
_T = TypeVar("_T")
Job = tuple[Build, Target | None]
Check = tuple[tuple[Build, ...], Target]
Progress = Callable[[int, int], None]
Permit = Callable[[], AbstractContextManager[object] | None]
Compile = Callable[[Build, Target | None], Image]
SECONDS_TO_ASK = 0.02  # between two requests for the permit
SECONDS_TO_DIE = 0.05  # between two looks for a compiler that was started while others were killed


class Compilation:
    """Compiles builds in background threads, each once, in the order in which they are given.

    ``threads``: how many at once; 0 means one for each core. ``permit``: called before each build; returns a context to
    compile in, or None if compiling must wait, and is then called again. ``compile_one``: what compiles a build, if not
    compile_build.
    """

    def __init__(self, threads: int = 0, permit: Permit = nullcontext, compile_one: Compile | None = None) -> None:
        self._pool = _pool(self, threads)
        self._permit, self._compile_one = permit, compile_one or compile_build
        self._stopping = threading.Event()
        self._jobs: dict[tuple[str, Target | None], Future[Image]] = {}
        self._checks: dict[tuple[str, Target | None], _Checking] = {}

    def add(self, build: Build, target: Target | None) -> None:
        """Queue a build, unless it was queued before."""
        key = (build.id, target)
        if key not in self._jobs:
            self._jobs[key] = self._pool.submit(self._compile, build, target)

    def add_check(self, builds: Sequence[Build], target: Target) -> None:
        """Queue a check that builds of one source compile, without those that are queued to be compiled."""
        builds = tuple(build for build in builds if (build.id, target) not in self._jobs)
        if builds:
            checking = _Checking((builds, target), self._pool.submit(self._check, builds, target))
            self._checks |= dict.fromkeys(((build.id, target) for build in builds), checking)

    def _compile(self, build: Build, target: Target | None) -> Image:
        with self._permitted():
            return self._compile_one(build, target)

    def _check(self, builds: Sequence[Build], target: Target) -> dict[str, CompileError]:
        with self._permitted():
            return check_builds(builds, target)

    def _permitted(self) -> AbstractContextManager[object]:
        while (permitted := self._permit()) is None:
            if self._stopping.wait(SECONDS_TO_ASK):
                raise CancelledError
        return permitted

    def finish_check(self, build: Build, target: Target) -> None:
        """Return when it is known whether a build compiles. A check that no thread has begun runs in this thread."""
        checking = self._checks.get((build.id, target))
        if checking is None:
            self.finish(build, target)
            return
        if checking.job.cancel():
            checking.job = Future()
            try:
                checking.job.set_result(self._check(*checking.check))
            except Exception as error:  # check() raises it
                checking.job.set_exception(error)
        wait([checking.job])

    def check(self, build: Build, target: Target) -> None:
        """Raise CompileError unless a build compiles."""
        self.finish_check(build, target)
        checking = self._checks.get((build.id, target))
        if checking is None:
            self.image(build, target)
        elif error := checking.job.result().get(build.id):
            raise error

    def _all(self) -> list[Future[Any]]:
        checks = {id(checking): checking.job for checking in self._checks.values()}
        return [*self._jobs.values(), *checks.values()]

    def finish(self, build: Build, target: Target | None) -> None:
        """Return when a build is compiled or has failed. If no thread has begun it, it is compiled in this thread."""
        job = self._jobs.get((build.id, target))
        if job is None or job.cancel():
            job = self._jobs[build.id, target] = Future()
            try:
                job.set_result(self._compile(build, target))
            except Exception as error:  # image() raises it
                job.set_exception(error)
        wait([job])

    def finish_all(self) -> None:
        """Return when all builds are compiled or have failed."""
        wait(self._all())

    def image(self, build: Build, target: Target | None) -> Image:
        """Return the machine code of a build. Raises CompileError."""
        self.finish(build, target)
        return self._jobs[build.id, target].result()

    def wait(self, progress: Progress, first: Job | None = None) -> None:
        """Wait until everything is compiled, or the job ``first`` is. ``progress`` is called with done and total."""
        jobs = self._all()
        last = [self._jobs[first[0].id, first[1]]] if first else jobs
        waiting, done = set(jobs), 0
        while not all(job.done() for job in last):
            finished, waiting = wait(waiting, return_when="FIRST_COMPLETED")
            done += len(finished)
            progress(done, len(jobs))

    def errors(self) -> dict[str, CompileError]:
        """Wait for all builds, and return the errors of those that do not compile, by build id. Raises other errors."""
        failed = {}
        for (name, _), job in self._jobs.items():
            error = job.exception()
            if isinstance(error, CompileError):
                failed[name] = error
            elif error:
                raise error
        return failed

    def stop(self) -> None:
        """Drop the builds that are queued and kill the compilers that run."""
        self._stopping.set()
        _stop(self._pool, self, self._all())


@dataclass
class _Checking:
    """A check that several builds compile, and the job that makes it."""

    check: Check
    job: Future[dict[str, CompileError]]


def _pool(owner: object, threads: int = 0) -> ThreadPoolExecutor:
    """Make threads to compile in, one for each core where no number is given; their compilers belong to ``owner``."""
    return ThreadPoolExecutor(threads or len(os.sched_getaffinity(0)), "compiling", compile_for, (owner,))


def _stop(pool: ThreadPoolExecutor, owner: object, jobs: Iterable[Future[_T]]) -> None:
    pool.shutdown(wait=False, cancel_futures=True)
    waiting = {job for job in jobs if not job.done()}
    while waiting:
        kill_compilers(owner)
        waiting = wait(waiting, SECONDS_TO_DIE).not_done
    pool.shutdown()


def compile_all(jobs: Iterable[Job], progress: Progress) -> dict[str, CompileError]:
    """Compile on all cores into the cache; return errors by build id. ``progress`` is called with done and total."""
    compilation = Compilation()
    try:
        for build, target in jobs:
            compilation.add(build, target)
        compilation.wait(progress)
        return compilation.errors()
    finally:
        compilation.stop()


def on_all_cores(calls: Mapping[_K, Callable[[], _T]], progress: Progress) -> dict[_K, Future[_T]]:
    """Call functions that compile, each in a thread. On an interrupt the rest is dropped and compilers are killed."""
    owner = object()
    pool = _pool(owner)
    jobs = {key: pool.submit(call) for key, call in calls.items()}
    try:
        for done, _ in enumerate(as_completed(jobs.values()), 1):
            progress(done, len(jobs))
    finally:
        _stop(pool, owner, jobs.values())
    return jobs
