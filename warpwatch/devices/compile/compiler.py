"""Compiles kernels: nvcc makes cubins, and g++ makes shared objects of the serial variants.

PyCUDA's SourceModule compiles and loads in one step, one kernel at a time, and its cache can hold files that are
written in part. Here the same nvcc call is apart from the loading, so that it needs no GPU, runs on all cores, and
leaves whole files in a cache that processes can share (softcuda/cache.py). background.py runs it in parallel.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from softcuda.cache import Cache, CacheError, Compiled, Entry, note, notes, read
from softcuda.dependencies import SAYING, Dependencies, Observation, Place, Unrepeatable, surroundings, without_noise
from softcuda.dependencies import digest_of as state_of
from warpwatch.catalogue.launches import ARCH_FLAG, Capability
from warpwatch.devices.compile.symbols import code_bytes

ENGINE = Path(__file__).resolve().parents[3]  # the folder that holds the packages warpwatch and softcuda
NVCC_FLAGS = ("-cubin", "-O3", "-std=c++17")
SECONDS_TO_DIE = 0.05  # between two looks for a compiler that was started while others were killed
SECONDS_TO_WAIT = 60  # for another process that compiles the same
PLAIN = re.compile(r"[\w./+=:,@%-]*")  # letters that have no special meaning in a shell
# What stands for the path of a compiled file in the names of an anonymous namespace.
PATH_HASH = re.compile(rb"(_GLOBAL__N__|_INTERNAL_)[0-9a-f]{8}(?=_)")
OF_PYTORCH = ("--expt-relaxed-constexpr",)  # PyTorch gives it to nvcc for every extension, and softcuda needs none
PART = ENGINE / "softcuda" / "compiling" / "device_part.py"  # compiles the device code of a file
PLACE = re.compile(r"^(\S[^:(\n]*)(?:\((\d+)\)|:(\d+):\d+): (?:fatal |catastrophic )?error", re.MULTILINE)
NOTHING, UNREAD = 3, 4  # its exit status where there is nothing to set aside, or nothing to read it with
UNKNOWN_TYPE = re.compile(r"error: .*?['\"](__half|__nv_(?:bfloat16|fp8_e\w+))['\"] (?:was|has|is|does) ")
# Where these types are declared; the others are in cuda_fp8.h.
HEADERS = {"__half": "cuda_fp16.h", "__nv_bfloat16": "cuda_bf16.h"}
GXX_FLAGS = ("-shared", "-fPIC", "-O3", "-std=c++17")


ARCH = "sm_90"  # what machine code is compiled for where no GPU and no option says it


class CompileError(Exception):
    """A kernel that does not compile; the message holds the compiler's message, with file and line."""


def cure_of(output: str) -> str:
    """Name the header that declares the element type which a compiler does not know; or an empty text."""
    unknown = UNKNOWN_TYPE.search(output)
    return f": #include <{HEADERS.get(unknown[1], 'cuda_fp8.h')}> in it, for {unknown[1]}" if unknown else ""


class NoCompiler(CompileError):
    """A missing compiler; the message says how to get one."""


@dataclass(frozen=True)
class Image:
    """A compiled kernel: a cubin or a shared object, with its hashes.

    ``source_hash``: of all that it was compiled of and with. ``image_hash``: of the machine code, which may be equal
    for different sources. ``seconds``: the processor time of its compilers, or None where it was in the cache.
    """

    path: Path
    source_hash: str
    image_hash: str
    seconds: float | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Compiler:
    """A compiler that can be called. ``version``: such as '13.0' for nvcc. ``banner``: what it prints for --version."""

    program: str
    version: str
    banner: str

    @property
    def is_nvidias(self) -> bool:
        return "NVIDIA" in self.banner

    @property
    def is_softcuda(self) -> bool:
        return "stand-in of softcuda" in self.banner


@dataclass(frozen=True)
class Target:
    """The target of a compilation: an architecture such as 'sm_90', for the nvcc that is found or for ``program``."""

    arch: str
    program: str = ""
    flags: tuple[str, ...] = ()


@contextlib.contextmanager
def _cache_errors() -> Iterator[None]:
    """Turn the cache's errors into CompileError."""
    try:
        yield
    except CacheError as error:
        raise CompileError(str(error)) from None


@functools.cache
def nvcc(program: str = "") -> Compiler:
    """Find nvcc: ``program``, or by $NVCC, the PATH, /usr/local/cuda or Python packages. Raises NoCompiler.

    softcuda's, which its ``activate`` puts on the PATH, is none of them unless it is asked for.
    """
    asked_for = program or os.environ.get("NVCC")
    on_path = (shutil.which("nvcc", path=folder) for folder in os.get_exec_path())
    known = (asked_for, *on_path, "/usr/local/cuda/bin/nvcc", *from_pypi("nvcc"))
    for candidate in [program] if program else filter(None, known):
        if Path(candidate).exists():
            banner = _capture([candidate, "--version"])
            release = re.search(r"release (\d+\.\d+)", banner)
            compiler = Compiler(candidate, release[1] if release else "unknown", banner)
            if candidate == asked_for or not compiler.is_softcuda:
                return compiler
    raise NoCompiler("no nvcc: install the CUDA toolkit, or run `make test`, which takes nvcc from PyPI")


def from_pypi(program: str) -> list[str]:
    """List the programs of that name that Python packages of NVIDIA's have brought, newest first."""
    spec = importlib.util.find_spec("nvidia")
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    return sorted((str(path) for folder in folders for path in Path(folder).glob(f"cu*/bin/{program}")), reverse=True)


@functools.cache
def gxx() -> Compiler:
    """Find g++ by $CXX or the PATH. Raises NoCompiler."""
    program = shutil.which(os.environ.get("CXX", "g++"))
    if program is None:
        raise NoCompiler("no g++: install it (apt install g++)")
    banner = _capture([program, "--version"])
    return Compiler(program, banner.split("\n", 1)[0], banner)


def _capture(command: list[str]) -> str:
    environment = os.environ | {"LC_ALL": "C"}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


@functools.cache
def architectures(program: str = "") -> list[Capability]:
    """List the architectures that an nvcc compiles for, oldest first. ``program``: as for ``nvcc``."""
    numbers = re.findall(r"compute_(\d+)(\d)\b", _capture([nvcc(program).program, "--list-gpu-arch"]))
    return sorted(Capability(int(major), int(minor)) for major, minor in numbers)


def compile_file(
    source: Path,
    macros: Mapping[str, str],
    target: Target | None,
    nvcc_flags: Sequence[str] = NVCC_FLAGS,
    root: Path = ENGINE,
    include: Sequence[Path] = (),
) -> Image:
    """Compile one file: by nvcc for ``target``, or by g++ for the host where that is None. Raises CompileError.

    ``nvcc_flags``: may be those of another revision. ``root``: the folder that file names in messages start from.
    ``include``: folders in which headers are looked for.
    """
    compiler = nvcc(target.program) if target else gxx()
    flags = _flags(macros, target, nvcc_flags, root, include)
    name = name_from(root, source)
    tail = ".cubin" if target else ".so"
    make = functools.partial(compile_bytes, compiler, flags, name, root)
    return _compiled(compiler, [*flags, str(name), source], tail, root, source, make)


def compile_text(
    text: str,
    name: str,
    target: Target,
    flags: Sequence[str] = NVCC_FLAGS,
    macros: Mapping[str, str] = MappingProxyType({}),
    root: Path = ENGINE,
    include: Sequence[Path] = (),
    source: Path | None = None,
    *,
    shown: str = "",
) -> Image:
    """Compile a text by nvcc, as a file ``name`` in the folder ``root``. Raises CompileError.

    ``source``: the file of the project that the text includes, after which the image is called. ``shown``: what
    messages call the file.
    """
    compiler, all_flags = nvcc(target.program), _flags(macros, target, flags, root, include)

    def make() -> Compiled:
        with tempfile.TemporaryDirectory(prefix="warpwatch-", ignore_cleanup_errors=True) as temporary:
            folder = Path(temporary)
            (folder / name).write_bytes(os.fsencode(text))
            _link_all(root, folder)
            try:
                contents, needed = compile_bytes(compiler, all_flags, Path(name), folder, project=root)
            except CompileError as error:
                message = str(error).replace(f"{folder}/", "")
                raise CompileError(f"{shown}{message.removeprefix(name)}" if shown else message) from None
            # So the image does not depend on the folder's name.
            return PATH_HASH.sub(rb"\g<1>00000000", contents) if compiler.is_nvidias else contents, needed

    included = [source] if source else []
    return _compiled(compiler, [*all_flags, name, text, *included], ".cubin", root, source or Path(name), make)


@_cache_errors()
def _compiled(
    compiler: Compiler,
    parts: Sequence[str | Path],
    tail: str,
    root: Path,
    source: Path,
    make: Callable[[], Compiled],
) -> Image:
    """Return what the cache has for a compilation, if all that it was compiled of is unchanged, or else compile it.

    ``parts``: all that is known of it before, as texts, and files for their contents. ``source``: what the image is
    called after. Raises OSError for a file that is missing.
    """
    program = "" if compiler.is_softcuda else compiler.program  # what softcuda makes depends on its version alone
    texts = (
        each.encode(errors="surrogateescape") if isinstance(each, str) else each.read_bytes()
        for each in (program, compiler.banner, *parts)
    )
    key = b"\0".join((surroundings(), *texts))

    def make_anew() -> Compiled:
        _thread.seconds = 0.0
        contents, needed = make()
        return contents, needed and replace(needed, source=state_of(str(source)))

    _thread.seconds = None
    digest, entry = kernel_cache().compiled(
        source.stem,
        key,
        tail,
        root,
        make_anew,
        is_code=tail == ".so",
        permit=permitted,
        seconds=SECONDS_TO_WAIT,  # processes of xdist often need the same kernel at the same time
        waiting=_end_if_stopped,
    )
    return Image(entry.path, digest, entry.checksum, _thread.seconds)


def _flags(
    macros: Mapping[str, str], target: Target | None, nvcc_flags: Sequence[str], root: Path, include: Sequence[Path]
) -> list[str]:
    """Return what a compiler is called with beside its file. Raises CompileError for a folder with an odd name."""
    flags = [*nvcc_flags, *target.flags] if target else [*GXX_FLAGS]
    if target and not any(flag.startswith(ARCH_FLAG) for flag in nvcc_flags):
        flags.insert(len(nvcc_flags), f"{ARCH_FLAG}{target.arch}")
    folders = [name_from(root, folder) for folder in include]
    for folder in folders:
        if target and not PLAIN.fullmatch(str(folder)):  # nvcc gives it to a shell
            raise CompileError(f"the include folder {str(folder)!r} must have a name of letters, digits and ._-+=:,@%")
    return [*flags, *(f"-I{folder}" for folder in folders), *(f"-D{name}={value}" for name, value in macros.items())]


def name_from(root: Path, path: Path) -> Path:
    """Return the name of a file or folder relative to the root, or as it is where it lies elsewhere.

    So messages name kernels/matmul/tiled.cu in every checkout, and machine code is the same in all of them.
    """
    return path.relative_to(root) if path.is_relative_to(root) else path


@_cache_errors()
def cached(stem: str, tail: str, make: Callable[[], bytes]) -> Entry:
    """Return the cache's entry of that name, which is not code that the system loads; make it where there is none."""
    cache = kernel_cache()
    return cache.find(stem, tail, is_code=False) or cache.add(stem, tail, make(), is_code=False)


def compile_bytes(
    compiler: Compiler, flags: list[str], source: Path, root: Path, *, project: Path | None = None
) -> Compiled:
    """Compile a source, whose name is relative to ``root``, and return the compiled file with what it depends on.

    What nvcc does not take whole is compiled without its host code.
    ``project``: the project's root, where the source is a temporary file that is made of the key alone.
    """
    # Compiled outside the cache, so that a process that is killed leaves nothing in it.
    with tempfile.TemporaryDirectory(prefix="warpwatch-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        program, working, observation = compiler.program, root, Observation(folder=folder)
        if compiler.is_nvidias:
            program, working = _with_shell_safe_paths(Path(program), source, root, folder)
        # A name that begins with - or @ would be taken for an option, or for a file of options.
        named = f"./{source}" if str(source).startswith(("-", "@")) else str(source)
        # By its name nvcc would not take a kernel in a .cuh, .cc or .inc for CUDA.
        language = ["-x", "cu"] if compiler.is_nvidias and source.suffix != ".cu" else []
        command = [*flags, *language, named, "-o", str(folder / "made")]
        is_nvcc = compiler.is_nvidias or compiler.is_softcuda
        saying = ["-v", "-Xcompiler", ",".join(SAYING)] if is_nvcc else [*SAYING]
        code, output = _run([program, *saying, *command], working, observation)
        is_part = code > 0 and compiler.is_nvidias
        if is_part:
            whole = [program, *saying, *flags, *language]
            code, output = _without_host_code(whole, named, working, observation, output)
        if code:
            observation.end()
            ended = f"the compiler was ended by {signal.Signals(-code).name}\n" if code < 0 else ""
            shown = shlex.join([program, *command])
            raise CompileError(f"{source} does not compile{cure_of(output)}\n{ended}{without_noise(output)}\n{shown}")
        contents = (folder / "made").read_bytes()
        place = _place(compiler, source, root, folder, project, output, is_part=is_part)
        reader, main = "g++" if compiler.is_softcuda else compiler.program, "" if project else str(source)
        try:
            needed = observation.dependencies(output, place, reader, flags, main)
        except Unrepeatable as error:
            note(f"{source} is compiled anew each time, because {error}")
            return contents, None
        return _of_part(contents, needed, place.root) if is_part else (contents, needed)


def _of_part(contents: bytes, needed: Dependencies, root: Path) -> Compiled:
    """Return the machine code of a device part, which is the same in every folder, and all that it depends on."""
    front_end = [*PART.parent.glob("*.py"), *(PART.parents[1] / "include" / "softcuda" / "torch").iterdir()]
    scripts = [*needed.scripts, *sorted(str(name_from(root, path)) for path in front_end)]
    return PATH_HASH.sub(rb"\g<1>00000000", contents), replace(needed, scripts=scripts)


def _without_host_code(
    nvcc_call: list[str], source: str, working: Path, observation: Observation, said: str
) -> tuple[int, str]:
    """Compile the device code of a source alone, and return the exit status and what compilers said.

    ``said``: of the whole source. It is returned where nothing can be set aside, or the errors are those of device
    code.
    """
    folder = observation.folder / "warpwatch-device-part"
    folder.mkdir()
    part = [sys.executable, "-S", str(PART), str(folder), str(observation.folder / "made"), source]
    code, output = _run([*part, *nvcc_call, *OF_PYTORCH], working, observation)
    places = {tuple(place) for place in PLACE.findall(said)}
    if code == UNREAD:
        return code, f"{said}{output}"
    if code == NOTHING or (code and places <= {tuple(place) for place in PLACE.findall(output)}):
        return 1, said
    return code, output


def _place(
    compiler: Compiler, source: Path, root: Path, folder: Path, project: Path | None, output: str, *, is_part: bool
) -> Place:
    """Return where the files of a compilation lie. ``folder``: of the compiler's temporary files."""
    # The softcuda that compiles need not be the one beside this package.
    covering = re.search(r"^ (/.*/softcuda)/include$", output, re.MULTILINE) if compiler.is_softcuda else None
    covered = str(PART.parents[1]) if is_part else covering[1] if covering else ""
    toolkit, whole, renamed = folder / "toolkit", root / source, {}
    if toolkit.exists():
        renamed[f"{toolkit}/"] = f"{toolkit.readlink()}/"
    if not project and compiler.is_softcuda:  # it calls the source's folder by its whole path
        renamed[f"{whole.parent.resolve()}/"] = f"{source.parent}/".removeprefix("./")
    return Place(
        root=project or root,
        temporary=[folder, whole.parent] if project else [folder],
        generated=str(source) if project else "",
        renamed=renamed,
        covered=covered,
    )


def _with_shell_safe_paths(program: Path, source: Path, root: Path, folder: Path) -> tuple[str, Path]:
    """Return an nvcc and a working folder whose names a shell takes as they are.

    NVIDIA's nvcc gives its own path, the working folder and the source's name to a shell. Where one of them has other
    letters than PLAIN, symbolic links in ``folder`` take its place. Raises CompileError where that is impossible.
    """
    for path in (source, folder):
        if not PLAIN.fullmatch(str(path)):
            raise CompileError(f"nvcc would give {str(path)!r} to a shell: use a path of letters, digits and ._-+=:,@%")
    if not PLAIN.fullmatch(str(program)):
        top = program.parent.parent if program.parent.name == "bin" else program.parent
        Path(folder, "toolkit").symlink_to(top.absolute())
        program = Path(folder, "toolkit", program.absolute().relative_to(top.absolute()))
    if not PLAIN.fullmatch(str(root)):
        shown = folder / "project"
        shown.mkdir()
        _link_all(root, shown)
        root = shown
    return str(program), root


def _link_all(root: Path, folder: Path) -> None:
    """Show a folder's contents in another one, where names relative to the first are then right."""
    for path in root.iterdir():
        with contextlib.suppress(FileExistsError):
            Path(folder, path.name).symlink_to(path.absolute())


_compilers: dict[subprocess.Popen[bytes], object] = {}  # those that run now, and the threads that they belong to
_thread = threading.local()
_permit: ContextVar[Callable[[], AbstractContextManager[object]]] = ContextVar("permit", default=nullcontext)


@contextlib.contextmanager
def with_permit(wait: Callable[[], AbstractContextManager[object]]) -> Iterator[None]:
    """Have what compiles in this thread wait for a permit. What the cache has needs none."""
    before = _permit.set(wait)
    try:
        yield
    finally:
        _permit.reset(before)


def permitted() -> AbstractContextManager[object]:
    """Wait for the permit to compile, and return the context in which it holds."""
    return _permit.get()()


class CompilerThreads(ThreadPoolExecutor):
    """Threads to compile in, one for each core where no number is given.

    They use the environment of the beginning, the folder of the cache among it, whatever it becomes meanwhile.
    """

    stopped = False

    def __init__(self, threads: int = 0) -> None:
        super().__init__(
            threads or len(os.sched_getaffinity(0)), "compiling", self._begin, (cache_folder(), {**os.environ})
        )

    def _begin(self, folder: Path, environment: Mapping[str, str]) -> None:
        _thread.owner, _thread.folder, _thread.environment = self, folder, environment

    def stop(self, jobs: Iterable[Future[Any]]) -> None:
        """Drop the jobs that are queued and kill the compilers that run; who waits for one gets a CompileError."""
        self.stopped = True
        self.shutdown(wait=False, cancel_futures=True)
        waiting = {job for job in jobs if not job.done()}
        while waiting:
            for process, owner in tuple(_compilers.items()):
                if owner is self:
                    _kill(process)
            waiting = wait(waiting, SECONDS_TO_DIE).not_done
        self.shutdown()


def _end_if_stopped() -> None:
    """Raise CompileError in a thread that is told to stop."""
    if getattr(getattr(_thread, "owner", None), "stopped", False):
        raise CompileError("compiling was stopped")


def _run(command: list[str], root: Path, observation: Observation) -> tuple[int, str]:
    """Run a compiler in a process group of its own, so that it can be killed with all that it started.

    Its temporary files go to the observation's folder, which is removed even if the compiler is killed.
    """
    environment = observation.environment(getattr(_thread, "environment", None)) | {"TMPDIR": str(observation.folder)}
    environment.pop("PYTHONSAFEPATH", None)  # by which PART would not find the modules beside it
    with (
        tempfile.TemporaryFile("w+", errors="replace") as output,
        tempfile.TemporaryFile("w+", errors="replace") as errors,
        subprocess.Popen(
            command,
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            process_group=0,
        ) as process,
    ):
        _compilers[process] = getattr(_thread, "owner", None)
        try:
            with contextlib.suppress(ChildProcessError):  # it was killed, and waited for
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
                _thread.seconds = (getattr(_thread, "seconds", None) or 0.0) + _processor_seconds(process.pid)
            process.wait()
        except BaseException:
            _kill(process)
            raise
        finally:
            del _compilers[process]
        for file in (errors, output):
            file.seek(0)
        return process.returncode, errors.read() + output.read()


def _processor_seconds(process: int) -> float:
    """Return the processor time of a process that has ended, and of those that it has waited for."""
    with contextlib.suppress(OSError):
        ticks = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:15]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@_cache_errors()
def read_image(path: Path) -> bytes:
    """Read a compiled kernel. Raises CompileError where it is damaged, or belongs to another user."""
    return read(path)


@functools.cache
def code_size(path: Path) -> int:
    """Return the bytes of machine code of a compiled kernel; 0 where they are unknown, as of PTX."""
    with contextlib.suppress(CompileError, OSError):  # it is damaged, or has gone: whoever runs it says so
        return code_bytes(read_image(path))
    return 0


def files_of(source: Path, root: Path) -> set[Path]:
    """Return the files that a source, as it is now, was compiled of, in any configuration.

    Empty where the cache knows of no compilation. The compilers' own headers are not among them, nor are those that a
    source of the same text had in another project or folder.
    """
    now, names = state_of(str(source)), {source, source.resolve()}
    compilations = (each for each in kernel_cache().dependencies(source.stem) if each.source == now)
    files = ({root / name for name in each.files} for each in compilations)
    return {path for paths in files if names & paths for path in paths if path.is_file()}


def digest_of(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def cache_folder() -> Path:
    """Return the folder of compiled kernels: $WARPWATCH_CACHE, else warpwatch in the user's cache folder."""
    if folder := getattr(_thread, "folder", None):
        return Path(folder)
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "warpwatch"
    return Path(os.environ.get("WARPWATCH_CACHE") or default).absolute()  # other processes have other working folders


def kernel_cache() -> Cache:
    """Return the cache of compiled kernels."""
    return Cache(folder=cache_folder(), program="warpwatch", variable="WARPWATCH_CACHE")


@_cache_errors()
def private_folder(name: str) -> Path:
    """Return a folder of that name that no other user can write to, in the cache if possible. Raises CompileError."""
    return kernel_cache().private() / name


cache_notes = notes  # which caches this process refused, and which folders it used instead
