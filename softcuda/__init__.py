"""A CUDA device made of software: PyCUDA and cuda.core, unmodified, load it as libcuda.so.1.

``activate()`` before the first import of either. It builds the driver with g++ on first use, loads it, and puts a
stand-in for nvcc on the PATH, where PyCUDA finds it; one for NVRTC is loaded beside it. See README.md beside this file.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .cache import Cache, CacheError, Compiled, checksum_of, note, write_entry
from .dependencies import GCC_READS, SAYING, Observation, Place, Unrepeatable, surroundings, without_noise

__all__ = ["BuildError", "activate", "cache_folder", "in_another_order"]

HERE = Path(__file__).resolve().parent
LAUNCHER = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <vector>

int main(int, char** arguments)
{{
    char python[] = {python}, flag[] = "-S", compiler[] = {compiler};
    std::vector<char*> command{{python, flag, compiler}};
    while (*++arguments)
        command.push_back(*arguments);
    command.push_back(nullptr);
    unsetenv("PYTHONSAFEPATH"); // by which the compiler would not find the modules beside it
    execv(python, command.data());
    perror(python);
    return 127;
}}
"""
# Sources that are compiled by themselves: they take longest, and names of theirs mean something else in others.
APART = (
    "arithmetic",
    "benign",
    "unset",
    "checker",
    "barriers",
    "ordering",
    "kernel_races_coarse",
    "executor",
    "footprint",
    "forks",
)
UNITS = 4  # that the other sources are compiled in
# Unfortified, because fibers leave a stack by ways that glibc would take for a fault.
FLAGS = ("-std=c++17", "-O3", "-U_FORTIFY_SOURCE", "-fPIC", "-fvisibility=hidden")
_active: list[bool] = []  # whether the driver is loaded
NVRTC = ("libnvrtc.so.13", "libnvrtc.so.12")  # the names that clients made for CUDA 13 and 12 ask for


class BuildError(Exception):
    """Raised when the driver does not build; the message is that of g++."""


def activate(
    *,
    launch_seconds: float | None = None,
    seed: int | None = None,
    fill: int | None = None,
    checks: bool | None = None,
    cache: Path | None = None,
) -> Path:
    """Make the software device the CUDA device of this process. Returns the compiler to call in place of nvcc.

    ``launch_seconds``: stop a kernel that runs longer. ``seed``: run threads and blocks in a random order, the
    same for the same seed. ``fill``: the 4 bytes that fresh memory is full of. ``checks``: whether every kernel that
    is compiled from now on is checked, also without ``--checks``. ``cache``: where to keep what is built. Raises
    BuildError, and ImportError when a libcuda is loaded already. A second call changes the settings that it is given.
    """
    folder = cache or cache_folder()
    library, compiler = build(folder), stand_in(folder)
    settings = {
        "SOFTCUDA_LAUNCH_SECONDS": launch_seconds,
        "SOFTCUDA_SEED": seed,
        "SOFTCUDA_FILL": fill,
        "SOFTCUDA_CHECKS": None if checks is None else int(checks),
        "SOFTCUDA_NVCC": compiler,
    }
    for name, value in settings.items():
        if value is not None:
            os.environ[name] = str(value)
    os.environ["CUPY_CACHE_DIR"] = str(folder / f"cupy-{_kind_of_images()}")
    if str(compiler.parent) not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = f"{compiler.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    if _active:
        return compiler
    if "pycuda._driver" in sys.modules:
        raise ImportError("softcuda.activate() comes before the first import of pycuda.driver")
    # By its SONAME the loader then takes it for the libcuda.so.1 that PyCUDA asks for.
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    for name in NVRTC:
        ctypes.CDLL(str(build_nvrtc(folder, name)), mode=ctypes.RTLD_GLOBAL)
    _active.append(True)
    return compiler


def is_active() -> bool:
    """Tell whether the software device is the CUDA device of this process."""
    return bool(_active)


@contextlib.contextmanager
def in_another_order(number: int) -> Iterator[int]:
    """Run the kernels that are launched inside in a random order of threads and blocks. The value is its seed.

    ``number``: is added to the seed of this process, or to 0 where there is none.
    """
    before = os.environ.get("SOFTCUDA_SEED")
    seed = int(before or 0) + number
    os.environ["SOFTCUDA_SEED"] = str(seed)  # which the driver reads at each launch
    try:
        yield seed
    finally:
        os.environ.pop("SOFTCUDA_SEED")
        if before is not None:
            os.environ["SOFTCUDA_SEED"] = before


def accept(findings: Iterable[str]) -> None:
    """Let kernels that are launched from now on go on where they do what is accepted, and nothing else.

    ``findings``: of each its kind, its kernel and ``file:line``, with tabs between.
    """
    os.environ["SOFTCUDA_ACCEPT"] = "\n".join(findings)  # which the driver reads at each finding


def accepted() -> list[str]:
    """Return which of the findings that ``accept`` was given there were since this was asked last."""
    ask = ctypes.CDLL("libcuda.so.1").softcuda_accepted
    ask.restype = ctypes.c_char_p
    return [finding for finding in ask().decode().split("\n") if finding]


def cache_folder() -> Path:
    """Return the folder of the driver library and of the stand-in for nvcc."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "softcuda"


def _kind_of_images() -> str:
    """Return a digest of what tells apart images that CuPy would take for the same: their compiler and the checks.

    In CuPy's own folder they would be given to a real GPU later.
    """
    texts = b"".join(path.read_bytes() for path in sorted(HERE.rglob("*")) if path.suffix in (".py", ".h"))
    return checksum_of(texts + os.environ.get("SOFTCUDA_CHECKS", "").encode())


def build(folder: Path) -> Path:
    """Return the driver library, built if the folder has none of these sources. Processes can share the folder."""
    sources = sorted((*HERE.glob("device/*.cpp"), *HERE.glob("races/*.cpp")))
    return _kept(folder, "libcuda", ".so", _key(*sources), lambda: _built(_units(sources), "libcuda.so.1"))


def build_nvrtc(folder: Path, name: str) -> Path:
    """Return the stand-in for NVRTC under that name, built if the folder has none of this source."""
    source = HERE / "compiling" / "nvrtc.cpp"
    return _kept(folder, name.replace(".so.", "-"), ".so", _key(source), lambda: _built(_units([source]), name))


def stand_in(folder: Path) -> Path:
    """Return a program named nvcc that calls the compiler of this folder with this Python.

    Not a script: a shell would expand the words in the two paths, and a ``#!`` line takes neither blanks nor long
    paths.
    """
    compiler = _c_string(bytes(HERE / "compiling" / "nvcc"))
    text = LAUNCHER.format(python=_c_string(os.fsencode(sys.executable)), compiler=compiler)
    program = _kept(folder, "bin", "/nvcc", b"\0".join([_key(), text.encode()]), lambda: _built([text]))
    _keep_device_runtime(program.parent.parent)
    return program


def _keep_device_runtime(folder: Path) -> None:
    """Have the library of kernels that launch others, empty, where PyCUDA looks for it: beside the folder of nvcc."""
    if not (folder / "lib64" / "libcudadevrt.a").exists():
        with contextlib.suppress(OSError, CacheError):  # without it PyCUDA says which file is missing
            write_entry(folder, "lib64/libcudadevrt.a", b"!<arch>\n", 0o644)


def _c_string(text: bytes) -> str:
    """Return a literal of C++ that holds these bytes, whatever they are."""
    return '"' + "".join(f"\\{byte:03o}" for byte in text) + '"'


def _key(*sources: Path) -> bytes:
    """Return what is known of a library before it is built: its sources, and how this file builds it."""
    texts = (path.read_bytes() for path in (*sources, Path(__file__)))
    return b"\0".join([surroundings(GCC_READS), *(path.name.encode() for path in sources), *texts])


def _kept(folder: Path, stem: str, tail: str, key: bytes, make: Callable[[], Compiled]) -> Path:
    """Return the entry of a key, if all that it was built of is unchanged; else build it."""
    cache = Cache(folder=folder, program="softcuda", variable="XDG_CACHE_HOME")
    try:
        mode = 0o644 if tail == ".so" else 0o755
        _, entry = cache.compiled(stem, key, tail, HERE, make, is_code=True, mode=mode)
    except CacheError as error:
        raise BuildError(str(error)) from None
    return entry.path


def _built(units: Sequence[str], library: str = "") -> Compiled:
    """Return what g++ makes of these texts, and what it depends on, unless that cannot be said.

    ``library``: its name for the loader; empty for a program.
    """
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        folder, observation = Path(name), Observation(folder=Path(name))

        def compile_unit(number: int) -> str:
            (folder / f"unit{number}.cpp").write_text(units[number])
            unit = f"{folder}/unit{number}"
            return _gxx(observation, *SAYING, "-c", f"{unit}.cpp", "-o", f"{unit}.o", f"-I{HERE}")

        output = "".join(pool.map(compile_unit, range(len(units))))
        objects = [f"{folder}/unit{number}.o" for number in range(len(units))]
        shared = ["-shared", f"-Wl,-soname,{library}", "-lpthread", "-ldl"] if library else []
        _gxx(observation, *objects, "-o", f"{folder}/built", *shared)
        contents = (folder / "built").read_bytes()
        try:
            place = Place(root=HERE, temporary=[folder], renamed={f"{HERE}/": ""})
            return contents, observation.dependencies(output, place, "g++", [])
        except Unrepeatable as error:
            note(f"softcuda is built anew each time, because {error}")
            return contents, None


def _units(sources: Sequence[Path]) -> list[str]:
    """Return texts that include several of these sources each: half of the time of a small one goes to headers."""
    together = [source for source in sources if source.stem not in APART]
    groups = [[source] for source in sources if source.stem in APART]
    groups += [group for first in range(UNITS) if (group := together[first::UNITS])]
    return ["".join(f'#include "{source}"\n' for source in group) for group in groups]


def _gxx(observation: Observation, *arguments: str) -> str:
    """Call g++. Returns what it says, other than an error."""
    if not shutil.which("g++"):
        raise BuildError("softcuda is built by g++, and there is none: apt install g++")
    environment = observation.environment()
    done = subprocess.run(
        ["g++", *FLAGS, *arguments], capture_output=True, errors="replace", check=False, env=environment
    )
    if done.returncode:
        raise BuildError(f"softcuda does not build\n{without_noise(done.stderr)}")
    return done.stderr
