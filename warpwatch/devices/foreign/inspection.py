"""Looks at the process of a call that is not trusted: what it changed, and what it left running or open.

``Inside`` is part of that process, and so may be lied to by code that means to; it names what careless code and plain
cheats change. ``Outside`` belongs to a process that is trusted, and reads /proc, where the other one cannot write. Both
compare with what was there before, so libraries' own threads and files are not reported.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import time
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# Modules that take times, launch, or make and compare data; those of the packages with all that is in them.
WATCHED = frozenset({"time", "builtins", "numpy", "warpwatch", "pycuda", "softcuda"})
# Modules that a call imports for itself, which decide times there. Each is compared with nothing: code of the tree in
# one of them is what is found.
CLOCKS = frozenset(
    {"torch.cuda", "torch.cuda.streams", "torch.cuda.graphs", "torch.utils.benchmark", "triton.testing", "cupy.cuda"}
    | {"cupy.cuda.stream", "cupyx.profiler", "cuda.bindings.driver", "cuda.bindings.runtime", "numba.cuda"}
)
# Packages that a folder of the tree may hide; a tree's own modules have other names.
OTHERS = frozenset(
    {
        "numpy",
        "pycuda",
        "torch",
        "triton",
        "cupy",
        "cutlass",
        "cupyx",
        "cuda",
        "numba",
        "jax",
        "scipy",
        "ml_dtypes",
        "msgspec",
        "pytest",
    }
)
HEAD = 16  # bytes of an object before its own fields, but in an interpreter of free threads
MOST = 20  # findings of a kind that are said
QUIET_SECONDS = 1.0  # within which a thread of a library stops to wait for more work
PAUSE_SECONDS = 0.05
POOL = 4 + 2 * (os.cpu_count() or 1)  # idle threads by which pools may grow, such as that of concurrent.futures
# Files that libraries open when they like: devices, memory of several processes, the kernel's own.
HARMLESS = ("/dev/", "/proc/", "/sys/", "/memfd:", "pipe:", "socket:", "anon_inode:")

Parts = tuple[object, ...]


class Inside:
    """Modules as they were before any code of ``tree`` was imported, and the threads that are expected.

    ``packages``: folders of packages, which may lie in the tree.
    """

    def __init__(self, tree: Path, packages: Sequence[str | Path]) -> None:
        self._tree = os.path.realpath(tree)
        self._packages = tuple(os.path.join(os.path.realpath(path), "") for path in packages if str(path) != str(tree))
        modules = {name: module for name, module in [*sys.modules.items()] if name.partition(".")[0] in WATCHED}
        self._modules = {name: (module, _origin(module)) for name, module in modules.items()}
        self._parts = {name: dict(_parts_of(module)) for name, module in modules.items()}

    def changes(self) -> list[str]:
        """List what is not any more what it was, and modules that hide others, each in a sentence."""
        found: dict[object, str] = {}
        for name in self._modules:  # a part of several modules is named after its own
            for part, home, sentence in self._changed(name):
                if part not in found or home == name:
                    found[part] = sentence
        sentences = [*found.values()]
        for name, module in [*sys.modules.items()]:
            if name not in self._modules and isinstance(module, types.ModuleType):
                sentences += self._hiding(name, module)
                sentences += self._planted(name, module) if name in CLOCKS else []
        return shortened(sentences)

    def _changed(self, name: str) -> Iterator[tuple[object, str, str]]:
        """Yield what tells a changed part from others, the module that it is of, and a sentence."""
        module, origin = self._modules[name]
        if sys.modules.get(name) is not module:
            yield name, name, f"module {name} was replaced in sys.modules"
        elif _origin(module) != origin:
            yield name, name, f"module {name} has another file: {_origin(module)[0]}"
        now, gone = dict(_parts_of(module)), ""
        for place, before in self._parts[name].items():
            after, home = now.get(place), str(getattr(before[0], "__module__", name))
            if gone and place.startswith(gone):  # a part of a class that is another one
                continue
            if after is None:
                yield (name, place), name, f"{name}.{place} was removed or replaced by something else"
            elif after[0] is not before[0]:
                yield (name, place), name, f"{name}.{place} is not the one that was imported"
            elif not _same(before, after):
                yield id(before[0]), home, f"{name}.{place}: its code or its defaults were replaced"
            if after is None or after[0] is not before[0]:
                gone = f"{place}."

    def _hiding(self, name: str, module: types.ModuleType) -> Iterator[str]:
        top = name.partition(".")[0]
        known = top in sys.stdlib_module_names or top in OTHERS
        if known and top == name and self._is_of_tree(getattr(module, "__file__", None)):
            kind = "the standard library's" if top in sys.stdlib_module_names else "the installed"
            yield f"module {name} is {module.__file__}, which hides {kind} one"

    def _planted(self, name: str, module: types.ModuleType) -> Iterator[str]:
        for place, parts in _parts_of(module):
            files = [file for part in parts for file in _files_of(part)]
            if file := next((file for file in files if self._is_of_tree(file)), None):
                yield f"{name}.{place} is not the package's own: it comes from {file}"

    def _is_of_tree(self, file: str | None) -> bool:
        path = os.path.realpath(file) if file else ""
        return path.startswith(self._tree + os.sep) and not path.startswith(self._packages)


def _origin(module: object) -> tuple[str, str]:
    spec = getattr(module, "__spec__", None)
    return str(getattr(module, "__file__", "")), str(getattr(spec, "origin", ""))


def _parts_of(module: object) -> Iterator[tuple[str, Parts]]:
    """Yield the functions, classes and modules of a module and the functions of its classes, by their names."""
    for name, value in [*vars(module).items()]:
        if isinstance(value, type):
            yield name, (value,)
            for inner, part in [*vars(value).items()] if value.__module__ == getattr(module, "__name__", "") else []:
                if callable(part) or isinstance(part, staticmethod | classmethod | property):
                    yield f"{name}.{inner}", _parts(part)
        elif isinstance(value, types.ModuleType) or (callable(value) and hasattr(value, "__name__")):
            yield name, _parts(value)


def _parts(value: object) -> Parts:
    """Return an object and what decides what a call of it does."""
    function = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
    if isinstance(function, types.FunctionType):
        keywords = function.__kwdefaults__ or {}
        return value, function.__code__, function.__defaults__, *keywords, *keywords.values()
    if isinstance(function, types.BuiltinFunctionType):
        return value, _pointer(function)
    return (value,)


def _pointer(function: types.BuiltinFunctionType) -> int:
    """Return the address of the C function that a built-in one calls."""
    if sys.implementation.name != "cpython" or object.__basicsize__ != HEAD:
        return 0
    definition = ctypes.c_void_p.from_address(id(function) + HEAD).value or 0
    return ctypes.c_void_p.from_address(definition + ctypes.sizeof(ctypes.c_void_p)).value or 0 if definition else 0


def _same(before: Parts, after: Parts) -> bool:
    pairs = zip(before, after, strict=True) if len(before) == len(after) else ()
    return len(before) == len(after) and all(a is b or (isinstance(a, int | str) and a == b) for a, b in pairs)


def _files_of(part: object) -> Iterator[str]:
    """Yield the files that a function or a class comes from, as far as it tells."""
    function = getattr(part, "__func__", None) or getattr(part, "fget", None) or part
    if isinstance(function, types.FunctionType):
        yield function.__code__.co_filename
        yield str(function.__globals__.get("__file__", ""))
    elif isinstance(part, type):
        yield str(getattr(sys.modules.get(part.__module__), "__file__", None) or "")


def shortened(sentences: Iterable[str]) -> list[str]:
    """Return the first sentences, and how many more there are."""
    found = list(sentences)
    return found if len(found) <= MOST else [*found[:MOST], f"and {len(found) - MOST} more"]


# From outside.


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Processes, threads and open files, as /proc shows them.

    ``processes``: command lines by number and start. ``threads``: names by process, number and start. ``files``: paths,
    and whether each may be written through. ``unreadable``: processes that ended meanwhile or hide their files.
    """

    processes: Mapping[tuple[int, str], str]
    threads: Mapping[tuple[int, int, str], str]
    files: frozenset[tuple[str, bool]]
    unreadable: frozenset[int]


def look(processes: Iterable[int]) -> Seen:
    """Return what these processes run and hold open now."""
    running: dict[tuple[int, str], str] = {}
    threads: dict[tuple[int, int, str], str] = {}
    files: set[tuple[str, bool]] = set()
    unreadable = set()
    for process in processes:
        folder = Path("/proc", str(process))
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            command = " ".join(word.decode(errors="replace") for word in words).strip()
            # A process that begins to run a program has its name already, and no arguments yet.
            running[process, _start(folder)] = command or (folder / "comm").read_text(errors="replace").strip()
            for task in (folder / "task").iterdir():
                with contextlib.suppress(OSError):  # it has ended meanwhile
                    threads[process, int(task.name), _start(task)] = (task / "comm").read_text(errors="replace").strip()
            files |= set(_files(folder))
        except OSError:
            unreadable.add(process)
    return Seen(processes=running, threads=threads, files=frozenset(files), unreadable=frozenset(unreadable))


def _start(folder: Path) -> str:
    """Return when a process or thread began, which tells it from a later one of the same number."""
    return (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[19]


def _files(folder: Path) -> Iterator[tuple[str, bool]]:
    for descriptor in (folder / "fd").iterdir():
        with contextlib.suppress(OSError):
            target = os.readlink(descriptor)
            flags = (folder / "fdinfo" / descriptor.name).read_text().split("flags:")[1].split()[0]
            yield target, int(flags, 8) & os.O_ACCMODE != os.O_RDONLY


class Outside:
    """Processes as they were when all was well. ``list_processes``: returns their numbers, at any time."""

    def __init__(self, tree: Path, list_processes: Callable[[], Iterable[int]]) -> None:
        self._tree, self._list_processes = os.path.realpath(tree), list_processes
        self.expect()

    def expect(self) -> None:
        """Take what they run and hold open now for what they may: after the first call, which makes threads."""
        self._before = look(self._list_processes())

    def changes(self) -> list[str]:
        """List what they run and hold open besides, each in a sentence. Called while a call is to do nothing.

        A new thread is found where it is at work all the same, or one of more than pools grow by. A new open file is
        found where it may be written, or lies in the tree.
        """
        now, before = look(self._list_processes()), self._before
        children = {each: command for each, command in now.processes.items() if each not in before.processes}
        forks = set(before.processes.values())
        found = [
            f"process {number} ({'a fork' if command in forks else command[:200]}) runs on after the call"
            for (number, _), command in children.items()
        ]
        found += _threads_left(before, now, {number for number, _ in children})
        for path, is_written in sorted(now.files - before.files):
            if path.startswith(HARMLESS):
                continue
            if is_written:
                found.append(f"{path} is left open for writing")
            elif Path(path).is_relative_to(self._tree) and not path.endswith((".so", ".py", ".pyc")):
                found.append(f"{path} is left open")
        hiding = [number for number in now.unreadable if Path(f"/proc/{number}").exists()]
        return shortened([*found, *(f"process {number} hides its open files" for number in hiding)])


def _threads_left(before: Seen, now: Seen, children: set[int]) -> list[str]:
    """Say which new threads are at work although no call runs, and where there are too many that wait."""
    left = {each: name for each, name in now.threads.items() if each not in before.threads and each[0] not in children}
    active, latest = [*left], time.monotonic() + QUIET_SECONDS
    while active and time.monotonic() < latest:
        begin = {each: _progress(each) for each in active}
        time.sleep(PAUSE_SECONDS)
        active = [each for each in active if _is_at_work(begin[each], _progress(each))]
    found = [f"thread {each[1]} ({left[each]}) is at work after the call" for each in active]
    if len(left) > POOL:
        found.append(f"{len(left)} new threads are left behind")
    return found


def _progress(thread: tuple[int, int, str]) -> tuple[str, str]:
    """Return the state of a thread, and how long it has run, as the scheduler counts it; "X" where it has ended."""
    folder = Path(f"/proc/{thread[0]}/task/{thread[1]}")
    try:
        state = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
        return state, (folder / "schedstat").read_text().split()[0]
    except (OSError, IndexError):
        return "X", ""


def _is_at_work(before: tuple[str, str], after: tuple[str, str]) -> bool:
    """Return whether a thread has run in between, or waits for a processor to run on."""
    return after[0] != "X" and (after[0] in "RD" or after[1] != before[1])
