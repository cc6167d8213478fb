"""A CUDA device made of software: PyCUDA, unmodified, loads it as libcuda.so.1.

``activate()`` before the first ``import pycuda.driver``. It builds the driver with g++ on first use, loads it,
and puts a stand-in for nvcc on the PATH, where PyCUDA finds it. See README.md beside this file.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .cache import Cache, CacheError

HERE = Path(__file__).resolve().parent
LAUNCHER = """
#include <stdio.h>
#include <unistd.h>
#include <vector>

int main(int, char** arguments)
{{
    char python[] = {python}, flag[] = "-S", compiler[] = {compiler};
    std::vector<char*> command{{python, flag, compiler}};
    while (*++arguments)
        command.push_back(*arguments);
    command.push_back(nullptr);
    execv(python, command.data());
    perror(python);
    return 127;
}}
"""
FLAGS = ("-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libcuda.so.1")


class BuildError(Exception):
    """The driver does not build; the message is g++'s."""


def activate(
    *, launch_seconds: float | None = None, seed: int | None = None, fill: int | None = None, cache: Path | None = None
) -> Path:
    """Make the software device this process's CUDA device. Returns the compiler to call in place of nvcc.

    ``launch_seconds``: stop a kernel that runs longer. ``seed``: run threads and blocks in a random order, the
    same for the same seed. ``fill``: the 4 bytes that fresh memory is full of. ``cache``: where to keep what is
    built. Raises BuildError, and ImportError when a libcuda is loaded already.
    """
    folder = cache or cache_folder()
    library = build(folder)
    settings = {"SOFTCUDA_LAUNCH_SECONDS": launch_seconds, "SOFTCUDA_SEED": seed, "SOFTCUDA_FILL": fill}
    for name, value in settings.items():
        if value is not None:
            os.environ[name] = str(value)
    compiler = stand_in(folder)
    if str(compiler.parent) not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = f"{compiler.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    _load(library)
    return compiler


def cache_folder() -> Path:
    """Where the driver library and the stand-in for nvcc are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "softcuda"


def _load(library: Path) -> None:
    if "pycuda._driver" in sys.modules:
        raise ImportError("softcuda.activate() comes before the first import of pycuda.driver")
    # By its SONAME the loader then takes it for the libcuda.so.1 that PyCUDA asks for.
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


def build(folder: Path) -> Path:
    """The driver library, built if the folder has not that of these sources. Processes can share the folder."""
    sources = sorted(HERE.glob("*.cpp"))
    texts = b"".join(path.read_bytes() for path in (*sources, *sorted(HERE.glob("*.h"))))
    return _kept(folder, f"libcuda-{_digest(texts)}", ".so", lambda: _build(sources), 0o644)


def _kept(folder: Path, stem: str, tail: str, make: Callable[[], bytes], mode: int) -> Path:
    """The entry of that name in the folder, made where there is none."""
    cache = Cache(folder=folder, program="softcuda", variable="XDG_CACHE_HOME")
    try:
        entry = cache.find(stem, tail, is_code=True) or cache.add(stem, tail, make(), is_code=True, mode=mode)
    except CacheError as error:
        raise BuildError(str(error)) from None
    return entry.path


def _build(sources: Sequence[Path]) -> bytes:
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        objects = [Path(name, f"{source.stem}.o") for source in sources]
        for _ in pool.map(
            lambda pair: _gxx("-c", str(pair[0]), "-o", str(pair[1])), zip(sources, objects, strict=True)
        ):
            pass
        made = Path(name, "libcuda.so.1")
        _gxx("-shared", *map(str, objects), "-o", str(made), "-lpthread", "-ldl")
        return made.read_bytes()


def _gxx(*arguments: str, text: str = "") -> None:
    """Call g++, with ``text`` as its standard input."""
    if not shutil.which("g++"):
        raise BuildError("softcuda is built by g++, and there is none: apt install g++")
    done = subprocess.run(["g++", *FLAGS, *arguments], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"softcuda does not build\n{done.stderr}")


def stand_in(folder: Path) -> Path:
    """A program named nvcc that calls the compiler of this folder with this Python.

    Not a script: a shell would expand the words in the two paths, and a ``#!`` line takes neither blanks nor long
    paths.
    """
    text = LAUNCHER.format(python=_c_string(os.fsencode(sys.executable)), compiler=_c_string(bytes(HERE / "nvcc")))
    return _kept(folder, f"bin-{_digest(text.encode())}", "/nvcc", lambda: _build_launcher(text), 0o755)


def _build_launcher(text: str) -> bytes:
    with tempfile.TemporaryDirectory() as name:
        made = Path(name, "nvcc")
        _gxx("-x", "c++", "-", "-o", str(made), text=text)
        return made.read_bytes()


def _c_string(text: bytes) -> str:
    """A literal of C++ that holds these bytes, whatever they are."""
    return '"' + "".join(f"\\{byte:03o}" for byte in text) + '"'


def _digest(contents: bytes) -> str:
    return hashlib.sha256(contents).hexdigest()[:16]
