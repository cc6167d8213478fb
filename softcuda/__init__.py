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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
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
    library = folder / f"libcuda-{hashlib.sha256(texts).hexdigest()[:16]}.so"
    if library.exists():
        return library
    folder.mkdir(parents=True, exist_ok=True)
    if not shutil.which("g++"):
        raise BuildError("softcuda is built by g++, and there is none: apt install g++")
    with tempfile.TemporaryDirectory(dir=folder) as name, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        objects = [Path(name, f"{source.stem}.o") for source in sources]
        for _ in pool.map(
            lambda pair: _gxx("-c", str(pair[0]), "-o", str(pair[1])), zip(sources, objects, strict=True)
        ):
            pass
        made = Path(name, "libcuda.so.1")
        _gxx("-shared", *map(str, objects), "-o", str(made), "-lpthread", "-ldl")
        made.replace(library)
    return library


def _gxx(*arguments: str) -> None:
    done = subprocess.run(["g++", *FLAGS, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"softcuda does not build\n{done.stderr}")


def stand_in(folder: Path) -> Path:
    """A script named nvcc that calls the compiler of this folder with this Python."""
    text = f'#!/bin/sh\nexec "{sys.executable}" -S "{HERE / "nvcc"}" "$@"\n'
    script = folder / f"bin-{hashlib.sha256(text.encode()).hexdigest()[:16]}" / "nvcc"
    if not script.exists():
        script.parent.mkdir(parents=True, exist_ok=True)
        made = script.with_name(f"nvcc.{os.getpid()}")
        made.write_text(text)
        made.chmod(0o755)
        made.replace(script)
    return script
