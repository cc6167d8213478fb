"""Compiles many kernels at once in threads, in the background of tests or until all are done."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, as_completed, wait
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from warpwatch.catalogue.cases import Build
from warpwatch.devices.compile.builds import check_builds, compile_build
from warpwatch.devices.compile.compiler import CompileError, Image, Target, cache_folder, compile_for, kill_compilers

_K = TypeVar("_K", bound=Hashable)
_T = TypeVar("_T")
_B = TypeVar("_B")
_C = TypeVar("_C")
Key = tuple[str, Target | None]
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
        self._jobs: dict[Key, Future[Image]] = {}
        self._checks: dict[Key, Check] = {}
        self._check_jobs: dict[Check, Future[dict[str, CompileError]]] = {}

    def add(self, build: Build, target: Target | None) -> None:
        """Queue a build, unless it was queued before."""
        key = (build.id, target)
        if key not in self._jobs:
            self._jobs[key] = self._pool.submit(self._run, self._compile_one, build, target)

    def add_check(self, builds: Sequence[Build], target: Target) -> None:
        """Queue a check that builds of one source compile, without those that are queued to be compiled."""
        builds = tuple(build for build in builds if (build.id, target) not in self._jobs)
        if builds:
            check = (builds, target)
            self._check_jobs[check] = self._pool.submit(self._run, check_builds, builds, target)
            self._checks |= {(build.id, target): check for build in builds}

    def _run(self, compile_now: Callable[[_B, _C], _T], builds: _B, target: _C) -> _T:
        """Compile when it is permitted."""
        while (permitted := self._permit()) is None:
            if self._stopping.wait(SECONDS_TO_ASK):
                raise CancelledError
        with permitted:
            return compile_now(builds, target)

    def finish(self, build: Build, target: Target | None) -> None:
        """Return when a build is compiled or has failed. If no thread has begun it, it is compiled in this thread."""
        job = self._jobs.get((build.id, target))
        if job is None or job.cancel():
            job = self._jobs[build.id, target] = _done(lambda: self._run(self._compile_one, build, target))
        wait([job])

    def finish_check(self, build: Build, target: Target) -> None:
        """Return when it is known whether a build compiles. A check that no thread has begun runs in this thread."""
        check = self._checks.get((build.id, target))
        if check is None:
            self.finish(build, target)
            return
        if self._check_jobs[check].cancel():
            self._check_jobs[check] = _done(lambda: self._run(check_builds, *check))
        wait([self._check_jobs[check]])

    def finish_all(self) -> None:
        """Return when all builds are compiled or have failed."""
        wait(self._all())

    def check(self, build: Build, target: Target) -> None:
        """Raise CompileError unless a build compiles."""
        self.finish_check(build, target)
        check = self._checks.get((build.id, target))
        if check is None:
            self.image(build, target)
        elif error := self._check_jobs[check].result().get(build.id):
            raise error

    def image(self, build: Build, target: Target | None) -> Image:
        """Return the machine code of a build. Raises CompileError."""
        self.finish(build, target)
        return self._jobs[build.id, target].result()

    def _all(self) -> list[Future[Any]]:
        return [*self._jobs.values(), *self._check_jobs.values()]

    def wait(self, progress: Progress, first: Job | None = None) -> None:
        """Wait until everything is compiled, or the job ``first`` is. ``progress`` is called with done and total."""
        jobs = self._all()
        last = [self._jobs[first[0].id, first[1]]] if first else jobs
        waiting, done = set(jobs), 0
        while not all(job.done() for job in last):
            finished, waiting = wait(waiting, return_when="FIRST_COMPLETED")
            done += len(finished)
            progress(done, len(jobs))

    def stop(self) -> None:
        """Drop the builds that are queued and kill the compilers that run."""
        self._stopping.set()
        _stop(self._pool, self, self._all())


def _done(call: Callable[[], _T]) -> Future[_T]:
    """Call a function in this thread, and return what came of it."""
    job = Future[_T]()
    try:
        job.set_result(call())
    except Exception as error:  # whoever asks for the result gets it
        job.set_exception(error)
    return job


def _pool(owner: object, threads: int = 0) -> ThreadPoolExecutor:
    """Make threads to compile in, one for each core where no number is given; their compilers belong to ``owner``."""
    return ThreadPoolExecutor(
        threads or len(os.sched_getaffinity(0)), "compiling", compile_for, (owner, cache_folder())
    )


def _stop(pool: ThreadPoolExecutor, owner: object, jobs: Iterable[Future[Any]]) -> None:
    pool.shutdown(wait=False, cancel_futures=True)
    waiting = {job for job in jobs if not job.done()}
    while waiting:
        kill_compilers(owner)
        waiting = wait(waiting, SECONDS_TO_DIE).not_done
    pool.shutdown()


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


def compile_all(jobs: Iterable[Job], progress: Progress) -> dict[str, CompileError]:
    """Compile on all cores into the cache; return errors by build id. ``progress`` is called with done and total."""
    calls = {job: functools.partial(compile_build, *job) for job in jobs}
    errors = {job[0].id: done.exception() for job, done in on_all_cores(calls, progress).items()}
    if other := next((error for error in errors.values() if error and not isinstance(error, CompileError)), None):
        raise other
    return {name: error for name, error in errors.items() if isinstance(error, CompileError)}
