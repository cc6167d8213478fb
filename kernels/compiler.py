"""Compiles kernels: nvcc makes cubins, g++ the serial variants' shared objects.

PyCUDA's SourceModule compiles and loads in one step, one kernel at a time, into a cache that it writes in
place. Here the same nvcc call stands apart from the loading, so that it needs no GPU, runs on all cores,
and leaves whole files in a cache that processes can share: written under another name, then renamed.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from kernels.catalogue import Build, Capability

ROOT = Path(__file__).resolve().parent.parent
NVCC_FLAGS = ("-cubin", "-O3", "-std=c++17")
GXX_FLAGS = ("-shared", "-fPIC", "-O3", "-std=c++17")


class CompileError(Exception):
    """A kernel that does not compile; the message holds the compiler's own, with file and line."""


class NoCompiler(CompileError):
    """There is no compiler to call; the message says how to get one."""


@dataclass(frozen=True)
class Image:
    """A compiled kernel: a cubin or a shared object, with the hashes that name what is in it."""

    path: Path
    source_hash: str  # of source, macros, flags and compiler
    image_hash: str  # of the machine code: the same code from other source has the same


@dataclass(frozen=True)
class Compiler:
    """A compiler that can be called, and what it says of itself."""

    program: str
    version: str  # of nvcc: '13.0'
    banner: str


@dataclass(frozen=True)
class Target:
    """What a kernel is compiled for: an architecture such as 'sm_90', by the nvcc at hand or by ``program``."""

    arch: str
    program: str = ""
    flags: tuple[str, ...] = ()


@functools.cache
def nvcc(program: str = "") -> Compiler:
    """nvcc from $NVCC, the PATH, /usr/local/cuda or the packages from PyPI, or the one named; else NoCompiler."""
    known = (os.environ.get("NVCC"), shutil.which("nvcc"), "/usr/local/cuda/bin/nvcc", *_pypi())
    for candidate in [program] if program else filter(None, known):
        if Path(candidate).exists():
            banner = _capture([candidate, "--version"])
            release = re.search(r"release (\d+\.\d+)", banner)
            return Compiler(candidate, release[1] if release else "unknown", banner)
    raise NoCompiler("no nvcc: install the CUDA toolkit, or run `make test`, which takes nvcc from PyPI")


def _pypi() -> list[str]:
    spec = importlib.util.find_spec("nvidia")
    places = [] if spec is None else list(spec.submodule_search_locations or [])
    return sorted((str(nvcc) for place in places for nvcc in Path(place).glob("cu*/bin/nvcc")), reverse=True)


@functools.cache
def gxx() -> Compiler:
    """g++ from $CXX or the PATH; NoCompiler where there is none."""
    program = shutil.which(os.environ.get("CXX", "g++"))
    if program is None:
        raise NoCompiler("no g++: install it (apt install g++)")
    banner = _capture([program, "--version"])
    return Compiler(program, banner.split("\n", 1)[0], banner)


def _capture(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def architectures() -> list[Capability]:
    """Every architecture that the installed nvcc compiles for, oldest first."""
    numbers = re.findall(r"compute_(\d+)(\d)\b", _capture([nvcc().program, "--list-gpu-arch"]))
    return sorted(Capability(int(major), int(minor)) for major, minor in numbers)


def compile_build(build: Build, target: Target | None) -> Image:
    """The machine code of a build, from the cache or made now; ``target`` for a device, None for the host."""
    if build.variant.library:  # compiled by its vendor
        return Image(Path(), build.variant.library, build.variant.library)
    source = ROOT / "kernels" / build.source
    return compile_file(source, build.macros, None if build.variant.on_host else target)


def compile_file(
    source: Path,
    macros: Mapping[str, str],
    target: Target | None,
    nvcc_flags: Sequence[str] = NVCC_FLAGS,
    root: Path = ROOT,
) -> Image:
    """Compile one file: by nvcc for ``target``, or by g++ for the host where that is None. Raises CompileError.

    ``nvcc_flags`` and ``root`` are those of another checkout, for a file of it.
    """
    compiler = nvcc(target.program) if target else gxx()
    flags = [*nvcc_flags, f"-arch={target.arch}", *target.flags] if target else [*GXX_FLAGS]
    flags += [f"-D{name}={value}" for name, value in macros.items()]
    # By the file's name from the root, so that messages name kernels/matmul/tiled.cu wherever the checkout lies.
    name = source.relative_to(root) if source.is_relative_to(root) else source
    key = _digest(compiler.banner.encode(), " ".join(flags).encode(), str(name).encode(), *_texts(source))
    path = cache_folder() / f"{source.stem}-{key}.{'cubin' if target else 'so'}"
    if not path.exists():
        _compile([compiler.program, *flags, str(name)], root, path)
    return Image(path, key, _digest(path.read_bytes()))


def _compile(command: list[str], root: Path, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder, path.name)
        command = [*command, "-o", str(made)]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        if done.returncode:
            source = command[-3]
            raise CompileError(f"{source} does not compile\n{done.stderr}{done.stdout}\n{' '.join(command)}")
        made.replace(path)


def _texts(source: Path, seen: frozenset[Path] = frozenset()) -> list[bytes]:
    """The file and the files that it includes by "name"; system headers belong to the compiler's version."""
    text = source.read_bytes()
    texts = [text]
    for name in re.findall(rb'^\s*#\s*include\s*"([^"]+)"', text, re.MULTILINE):
        header = (source.parent / name.decode()).resolve()
        if header.exists() and header not in seen:
            texts += _texts(header, seen | {header})
    return texts


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def cache_folder() -> Path:
    """Where compiled kernels are kept: $WARPWATCH_CACHE, else warpwatch in the user's cache folder."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "warpwatch"
    return Path(os.environ.get("WARPWATCH_CACHE") or default).absolute()  # other processes stand in other folders


def compile_all(
    jobs: Iterable[tuple[Build, Target | None]], progress: Callable[[int, int], None]
) -> dict[str, CompileError]:
    """Fill the cache on all cores; what did not compile, by build id. ``progress`` gets done and total."""
    failed: dict[str, CompileError] = {}
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        running = {pool.submit(compile_build, build, target): build for build, target in jobs}
        for done, job in enumerate(as_completed(running), 1):
            error = job.exception()
            if isinstance(error, CompileError):
                failed[running[job].id] = error
            elif error:
                raise error
            progress(done, len(running))
    return failed
