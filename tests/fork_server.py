"""Runs ``python -m ...`` in forks of a process that has imported the libraries which such a run needs.

Most of the processor time of a short run of ``pytest bench`` goes into starting Python and importing pytest, NumPy and
SciPy. The server imports these once, and nothing of this repository: each run imports that from its own folder. A run
is a process of its own, with its own folder, environment, arguments and output. What Python reads only when it starts
is that of the server, so there is a server for each such environment; PYTHONPATH alone is read again for each run.

A test may ask for more: a fork of the server imports packages from a folder, and stays as a server for the runs that
use them, until a file of these packages changes.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import io
import json
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from select import select
from typing import IO, Any, NoReturn

# Plugins of pytest are not among them: pytest must import them itself, because it rewrites their assertions.
LIBRARIES = ("numpy", "numpy.typing", "scipy.optimize", "scipy.special", "scipy.stats", "msgspec", "pytest")
STANDARD = ("argparse", "concurrent.futures", "lzma", "multiprocessing.connection", "statistics", "tarfile", "zipfile")
READ_AT_THE_START = ("PYTHON", "LD_", "LC_", "LANG", "OPENBLAS_", "OMP_", "MALLOC_")  # how such names begin
KEPT = 2  # servers with a folder's packages: tests of a file often take turns with two folders


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """What is the same for several runs. ``code`` imports ``packages`` from ``folder``, and no others from there."""

    folder: Path
    packages: tuple[str, ...]
    code: str

    def state(self) -> frozenset[tuple[str, int, int, int]]:
        """List the files of the packages, each with what differs after it was written or replaced."""
        found = set()
        for package in self.packages:
            for path, _, names in os.walk(self.folder / package):
                if not path.endswith("__pycache__"):
                    for name in names:
                        about = os.stat(os.path.join(path, name), follow_symlinks=False)
                        found.add((os.path.join(path, name), about.st_ino, about.st_mtime_ns, about.st_ctime_ns))
        return frozenset(found)


def run_module(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    seconds: float,
    *,
    imports_from_folder: bool = True,
    preparation: Preparation | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m`` with these arguments in a folder, as subprocess.run does with text and captured output.

    ``imports_from_folder``: False is ``python -P``, which does not search for modules in the folder. ``preparation``:
    what may be done once for several runs; what goes wrong in it goes wrong again in the run, which shows it.
    """
    at_the_start = {n: v for n, v in environment.items() if n.startswith(READ_AT_THE_START) and n != "PYTHONPATH"}
    server = _server(frozenset(at_the_start.items()))
    if preparation:
        server = server.prepared(preparation)
    return server.run(arguments, folder, environment, seconds, imports_from_folder)


@functools.cache
def _server(at_the_start: frozenset[tuple[str, str]]) -> Server:
    others = {n: value for n, value in os.environ.items() if not n.startswith(READ_AT_THE_START)}
    process = subprocess.Popen(
        [sys.executable, __file__, *_searched(os.environ)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,  # so that what select() sees is all that there is
        # Threads that wait for products do not survive a fork. A run of a few cases needs none.
        env={**others, **dict(at_the_start), "OPENBLAS_NUM_THREADS": "1"},
    )
    assert process.stdin
    assert process.stdout
    server = Server(process.stdin, process.stdout)
    atexit.register(process.wait)
    atexit.register(server.stop)  # before the other
    return server


class Server:
    """The client's side of a server: it sends one request at a time, and ends the server when this process ends."""

    def __init__(self, requests: IO[bytes], answers: IO[bytes]) -> None:
        self._requests, self._answers = requests, answers
        self._prepared: dict[object, Server] = {}  # the one that was used last comes last

    def prepared(self, preparation: Preparation) -> Server:
        """Return a server that has made a preparation from the files as they are now."""
        key = (preparation, preparation.state())
        self._prepared[key] = self._prepared.pop(key) if key in self._prepared else self._prepare(preparation)
        if len(self._prepared) > KEPT:
            self._prepared.pop(next(iter(self._prepared))).stop()
        return self._prepared[key]

    def _prepare(self, preparation: Preparation) -> Server:
        (its_requests, requests), (answers, its_answers) = os.pipe(), os.pipe()
        files = [f"/proc/{os.getpid()}/fd/{end}" for end in (its_requests, its_answers)]
        self._ask({**asdict(preparation), "folder": str(preparation.folder), "files": files})
        server = Server(os.fdopen(requests, "wb", 0), os.fdopen(answers, "rb", 0))
        server._answer(100)  # until then it has not opened the files
        os.close(its_requests)
        os.close(its_answers)
        return server

    def run(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        seconds: float,
        imports_from_folder: bool,
    ) -> subprocess.CompletedProcess[str]:
        """Run ``python -m`` in a fork. Raises TimeoutExpired, and RuntimeError where the server has ended."""
        # Pipes, because a test may limit the size of all files that a run writes.
        pipes = [os.pipe() for _ in range(2)]
        with ThreadPoolExecutor(len(pipes)) as pool:
            texts = [pool.submit(_read, reading) for reading, _ in pipes]
            try:
                files = [f"/proc/{os.getpid()}/fd/{writing}" for _, writing in pipes]
                request = {
                    "arguments": arguments,
                    "folder": str(folder),
                    "environment": dict(environment),
                    "files": files,
                    "imports_from_folder": imports_from_folder,
                }
                status = self._run(request, seconds)
            finally:
                for _, writing in pipes:
                    os.close(writing)
        output = (text.result() for text in texts)
        return subprocess.CompletedProcess([sys.executable, "-m", *arguments], status, *output)

    def _run(self, request: Mapping[str, Any], seconds: float) -> int:
        child = self._ask(request)
        try:
            return self._answer(seconds)
        except TimeoutError:
            os.kill(child, signal.SIGKILL)
            self._answer(None)
            raise subprocess.TimeoutExpired(request["arguments"], seconds) from None

    def _ask(self, request: Mapping[str, Any]) -> int:
        self._requests.write(json.dumps(request).encode() + b"\n")
        return self._answer(None)

    def _answer(self, seconds: float | None) -> int:
        if not select([self._answers], [], [], seconds)[0]:
            raise TimeoutError
        line = self._answers.readline()
        if not line:
            raise RuntimeError("the process whose forks run commands has ended")
        return int(line)

    def stop(self) -> None:
        """End the server and those that were forked of it."""
        for server in self._prepared.values():
            server.stop()
        self._requests.close()
        self._answers.close()


def _read(descriptor: int) -> str:
    with open(descriptor, encoding="utf-8") as file:
        return file.read()


def start() -> None:
    """Import the libraries and serve."""
    own = sys.path[1:]  # without this file's folder
    sys.path[:1] = sys.argv[1:]  # where the tests find the libraries
    for name in (*STANDARD, *LIBRARIES):
        importlib.import_module(name)
    sys.path[:] = own
    serve()


def serve() -> None:
    """Do, in the server, what is asked for line by line.

    Answers a request for a run with the fork's number and its exit status, and one for a preparation with the number of
    the fork, which answers with 0 once it can be asked.
    """
    gc.collect()
    gc.freeze()  # what is imported would be looked through in each fork
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            if "code" in request:
                prepare(**request)
            become(**request)
        print(child, flush=True)
        if "code" not in request:
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def prepare(folder: str, files: Sequence[str], packages: Sequence[str], code: str) -> NoReturn:
    """Make a preparation and serve, in a fork of the server."""
    with open(files[0], "rb") as requests, open(files[1], "wb") as answers:
        os.dup2(requests.fileno(), 0)
        os.dup2(answers.fileno(), 1)
    print(0, flush=True)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  # for as long as the process lives
    sys.path.insert(0, folder)
    try:
        exec(code, {})
    except BaseException:  # the run does the same, and shows it
        for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
            del sys.modules[name]
    sys.path.remove(folder)
    serve()
    sys.exit()


def become(
    arguments: Sequence[str],
    folder: str,
    environment: Mapping[str, str],
    files: Sequence[str],
    imports_from_folder: bool,
) -> NoReturn:
    """Run ``python -m`` with these arguments in place of the server, in a fork of it."""
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    for descriptor, path in enumerate(files, 1):
        with open(path, "wb") as file:
            os.dup2(file.fileno(), descriptor)
    sys.stdout = _opened_again(sys.stdout)
    sys.stderr = _opened_again(sys.stderr)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = [*([folder] if imports_from_folder else ()), *_searched(environment)]
    sys.argv = list(arguments)
    importlib.invalidate_caches()
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    sys.exit()


def _searched(environment: Mapping[str, str]) -> list[str]:
    """List the folders of PYTHONPATH as Python does when it starts."""
    given = environment.get("PYTHONPATH", "")
    return [os.path.abspath(path) for path in given.split(os.pathsep)] if given else []


def _opened_again(stream: Any) -> io.TextIOWrapper:
    """Open a standard stream anew: the server's remembers whether its descriptor was a file."""
    unbuffered = stream.write_through
    return io.TextIOWrapper(
        open(stream.fileno(), "wb", 0 if unbuffered else -1, closefd=False),
        encoding=stream.encoding,
        errors=stream.errors,
        newline="\n",
        line_buffering=stream.line_buffering,
        write_through=unbuffered,
    )


if __name__ == "__main__":
    start()
