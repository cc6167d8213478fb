"""Runs ``python -m ...`` in forks of a process that has imported the libraries which such a run needs.

Most of the processor time of a short run of ``pytest bench`` goes into starting Python and importing pytest, NumPy and
SciPy. The server imports these once, and nothing of this repository: each run imports that from its own folder. A run
is a process of its own, with its own folder, environment, arguments and output. What Python reads only when it starts
is that of the server, so there is a server for each such environment; PYTHONPATH alone is read again for each run.
"""

from __future__ import annotations

import atexit
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
from pathlib import Path
from select import select
from typing import Any, NoReturn

# Plugins of pytest are not among them: pytest must import them itself, because it rewrites their assertions.
LIBRARIES = ("numpy", "numpy.typing", "scipy.optimize", "scipy.special", "scipy.stats", "msgspec", "pytest")
STANDARD = ("argparse", "concurrent.futures", "lzma", "multiprocessing.connection", "statistics", "tarfile", "zipfile")
READ_AT_THE_START = ("PYTHON", "LD_", "LC_", "LANG", "OPENBLAS_", "OMP_", "MALLOC_")  # how such names begin


def run_module(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    seconds: float,
    *,
    imports_from_folder: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m`` with these arguments in a folder, as subprocess.run does with text and captured output.

    ``imports_from_folder``: False is ``python -P``, which does not search for modules in the folder.
    """
    at_the_start = {n: v for n, v in environment.items() if n.startswith(READ_AT_THE_START) and n != "PYTHONPATH"}
    server = _server(frozenset(at_the_start.items()))
    return server.run(arguments, folder, environment, seconds, imports_from_folder)


@functools.cache
def _server(at_the_start: frozenset[tuple[str, str]]) -> Server:
    return Server(dict(at_the_start))


class Server:
    """The client's side of a server: it sends one request at a time, and ends the server when this process ends."""

    def __init__(self, at_the_start: Mapping[str, str]) -> None:
        others = {n: value for n, value in os.environ.items() if not n.startswith(READ_AT_THE_START)}
        self._process = subprocess.Popen(
            [sys.executable, __file__, *_searched(os.environ)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,  # so that what select() sees is all that there is
            # Threads that wait for products do not survive a fork. A run of a few cases needs none.
            env={**others, **at_the_start, "OPENBLAS_NUM_THREADS": "1"},
        )
        atexit.register(self.stop)

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
        assert self._process.stdin
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        child = self._answer(None)
        try:
            return self._answer(seconds)
        except TimeoutError:
            os.kill(child, signal.SIGKILL)
            self._answer(None)
            raise subprocess.TimeoutExpired(request["arguments"], seconds) from None

    def _answer(self, seconds: float | None) -> int:
        assert self._process.stdout
        if not select([self._process.stdout], [], [], seconds)[0]:
            raise TimeoutError
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the process whose forks run commands has ended")
        return int(line)

    def stop(self) -> None:
        """End the server."""
        self._process.communicate()


def _read(descriptor: int) -> str:
    with open(descriptor, encoding="utf-8") as file:
        return file.read()


def serve() -> None:
    """Run, in the server, what is asked for line by line; answer each with the fork's number and its exit status."""
    own = sys.path[1:]  # without this file's folder
    sys.path[:1] = sys.argv[1:]  # where the tests find the libraries
    for name in (*STANDARD, *LIBRARIES):
        importlib.import_module(name)
    sys.path[:] = own
    gc.collect()
    gc.freeze()  # what is imported would be looked through in each fork
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            become(**json.loads(line))
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


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
    serve()
