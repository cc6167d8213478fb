"""Starts processes for code that this user did not write, and ends them with all that they started.

Such a process reads the system's files, packages and its tree, writes in a home folder of its own, and reaches neither
network nor other processes. Each of these needs a means that a kernel or a container may lack; then the rest holds all
the same, and ``Confined.missing`` says by name what does not. docs/untrusted.md has the whole list.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import secrets
import select
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from warpwatch.devices.compile.compiler import cache_folder
from warpwatch.devices.foreign import confined_process
from warpwatch.devices.foreign.confined_process import (
    CGROUP,
    IPC,
    LANDLOCK,
    MOUNT,
    NETWORK,
    OWN_PROC,
    OWN_SHM,
    PID,
    PROCESSES,
    READ_ONLY,
    SECCOMP,
    SIGNAL_SCOPE,
    SOCKET_SCOPE,
    Plan,
    processes_below,
    signal_all,
)
from warpwatch.devices.isolated import ENGINE, POLL_SECONDS, Isolated, environment, packages

SECONDS_TO_START = 60.0  # until a process says what it is confined by
SECONDS_TO_END = 10.0  # until all that it started is gone
SECONDS_TO_STOP = 1.0  # until all that runs has stopped
SECRETS_OF_A_TREE = (".git", ".benchmarks")  # tokens of its remotes, saved runs
OF_ROOT = (
    *("shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "sudoers.d", "ssh", "ssl/private", "krb5.keytab"),
    *("kubernetes", "rancher", "docker", "wireguard", "NetworkManager"),
)
# What does not hold where each of these means is missing.
WITHOUT = (
    ((PID, CGROUP, SIGNAL_SCOPE), "what it starts may outlive it by ending the process above it"),
    ((READ_ONLY, LANDLOCK), "it can write where this user can, except into the cache of compiled kernels by its name"),
    ((LANDLOCK,), "it can read every file that this user can"),
    ((READ_ONLY,), "it can change the permissions of files that are this user's"),
    ((MOUNT,), "it can connect to sockets in the file system, such as Docker's and tmux's"),
    ((NETWORK, SECCOMP), "it can reach the network"),
    ((NETWORK, SOCKET_SCOPE), "it can connect to abstract sockets of this machine"),
    ((PID, SIGNAL_SCOPE), "it can send signals to this user's processes"),
    ((OWN_PROC, LANDLOCK), "it can read the memory and the environment of this user's processes"),
    ((OWN_PROC,), "it can read the names and the arguments of other processes"),
    ((IPC,), "it can use System V's shared memory and message queues of this machine"),
    ((OWN_SHM,), "it can read and write what this user's programs keep in /dev/shm"),
    ((PROCESSES,), "it can start processes without limit"),
)


class Confined(Isolated):
    """A process that runs a program which is not trusted, and all that it starts, until ``end``.

    ``shares_files``: it has this machine's /dev/shm, where softcuda keeps memory that processes share; CUDA's IPC needs
    no such folder. ``readable``: files and folders that it reads beside the system's, the packages and its tree.
    ``hidden``: which it does not read although they lie there.
    """

    def __init__(
        self,
        program: Path,
        arguments: Sequence[str],
        tree: Path,
        output: IO[bytes],
        pass_fds: Sequence[int] = (),
        *,
        shares_files: bool = False,
        readable: Sequence[Path] = (),
        hidden: Sequence[Path] = (),
    ) -> None:
        """Start ``program``, whose last arguments are the folders of packages. Raises OSError."""
        self._shares_files = shares_files
        self._readable = [program, *readable]
        self._hidden = [
            *(tree / name for name in SECRETS_OF_A_TREE),
            *(Path("/etc", name) for name in OF_ROOT),
            *hidden,
        ]
        self._report, self._reporting = os.pipe()
        self._cgroup = make_cgroup()
        self._stopped: set[int] = set()  # numbers of processes, where there is no cgroup
        try:
            super().__init__(program, arguments, tree, output, [*pass_fds, self._reporting])
        except OSError:
            os.close(self._report)
            remove_cgroup(self._cgroup)
            raise
        finally:
            os.close(self._reporting)

    def _launcher(self, tree: Path) -> list[str]:
        readable = (tree, *self._readable, *readable_folders())
        plan = Plan(
            home=self._home.name,
            tree=os.path.abspath(tree),
            user=os.path.realpath(Path.home()),
            readable=[*dict.fromkeys(os.path.abspath(path) for path in readable)],
            listed=[str(ENGINE)],
            hidden=[os.path.abspath(path) for path in self._hidden],
            shares_files=self._shares_files,
            cgroup=str(self._cgroup),
            parent=os.getpid(),
            report=self._reporting,
        )
        return ["-B", confined_process.__file__, plan.to_json()]

    def _variables(self) -> dict[str, str]:
        """Return the environment. Caches are its own, but for those of the engine, which it only reads."""
        cache = Path(self._home.name, ".cache")
        cache.mkdir()
        if (shared := user_cache() / "softcuda").exists():
            (cache / "softcuda").symlink_to(shared)
        return environment(self._home.name) | {"XDG_CACHE_HOME": str(cache), "CUPY_CACHE_IN_MEMORY": "1"}

    @functools.cached_property
    def missing(self) -> tuple[str, ...]:
        """Sentences on what it is not kept from here, each with the reason. Waits until its confinement is complete."""
        said, latest = b"", time.monotonic() + SECONDS_TO_START
        while select.select([self._report], [], [], max(latest - time.monotonic(), 0))[0]:
            if not (part := os.read(self._report, 1 << 16)):
                break
            said += part
        return unmet(json.loads(said)) if said else ("the process ended before it was confined",)

    def processes(self) -> list[int]:
        """List the processes that run the program and what it started, by their numbers out here."""
        below = processes_below(self.process.pid) if self.process.returncode is None else []
        return sorted({*below, *members(self._cgroup)} - {self.process.pid})

    def pause(self) -> None:
        """Stop all that runs until ``resume``, by its cgroup in 20 µs, or else by a signal to each process."""
        if isinstance(self._cgroup, Path) and members(self._cgroup):
            (self._cgroup / "cgroup.freeze").write_text("1")
            latest = time.monotonic() + SECONDS_TO_STOP
            while "frozen 1" not in (self._cgroup / "cgroup.events").read_text() and time.monotonic() < latest:
                time.sleep(POLL_SECONDS / 100)
            return
        while running := {*self.processes()} - self._stopped:  # what a process started before it stopped comes next
            signal_all(running, signal.SIGSTOP)
            self._stopped |= running

    def resume(self) -> None:
        """Let all run on that was stopped."""
        if isinstance(self._cgroup, Path):
            (self._cgroup / "cgroup.freeze").write_text("0")
        signal_all(self._stopped, signal.SIGCONT)
        self._stopped = set()

    def end(self) -> None:
        """Kill all that runs, whatever it did to leave, and remove its home folder. Raises OSError if some is left."""
        latest = time.monotonic() + SECONDS_TO_END
        if isinstance(self._cgroup, Path):
            with contextlib.suppress(OSError):
                (self._cgroup / "cgroup.kill").write_text("1")
        while running := self.processes():
            signal_all(running, signal.SIGKILL)
            if time.monotonic() > latest:
                break
            time.sleep(POLL_SECONDS / 10)
        super().end()
        remove_cgroup(self._cgroup)
        if self._report >= 0:
            os.close(self._report)
            self._report = -1
        if running:
            raise OSError(f"processes {', '.join(map(str, running))} of a confined process do not end")


def unmet(missing: Mapping[str, str]) -> tuple[str, ...]:
    """Say what does not hold without these means."""
    found = []
    for means, sentence in WITHOUT:
        if all(name in missing for name in means):
            found.append(f"{sentence} ({'; '.join(f'no {name}: {missing[name]}' for name in means)})")
    return tuple(found)


def user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def readable_folders() -> list[Path | str]:
    """List what a Python program of this machine reads beside the system's files: interpreter, packages, compilers."""
    folders: list[Path | str] = [sys.prefix, sys.base_prefix, sys.exec_prefix, *packages()]
    folders += [ENGINE / "warpwatch", ENGINE / "softcuda", cache_folder(), user_cache() / "softcuda"]
    for name in ("PATH", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH"):
        folders += os.environ.get(name, "").split(os.pathsep)
    for name, program in (("NVCC", "nvcc"), ("CXX", "g++")):  # with its headers and libraries
        if path := shutil.which(os.environ.get(name) or program):
            folders.append(Path(os.path.realpath(path)).parent.parent)
    folders.append(sys.pycache_prefix or "")
    return [each for each in folders if os.path.isabs(each) and not Path.home().is_relative_to(each)]


# cgroups, version 2.


def make_cgroup() -> Path | str:
    """Make a cgroup below this process's own, or say why there is none."""
    try:
        mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        top = next((fields[4] for fields in mounts if fields[fields.index("-") + 1] == "cgroup2"), None)
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        own = next((line[3:] for line in lines if line.startswith("0::")), None)
        if top is None or own is None:
            return "there is no cgroup2 here"
        folder = Path(top + own) / f"warpwatch-{os.getpid()}-{secrets.token_hex(4)}"
        folder.mkdir()
    except OSError as error:
        return error.strerror or "not allowed"
    if not (folder / "cgroup.kill").exists():
        folder.rmdir()
        return "this kernel lacks cgroup.kill, which Linux 5.14 added"
    return folder


def members(cgroup: Path | str) -> list[int]:
    try:
        return [int(line) for line in (Path(cgroup) / "cgroup.procs").read_text().split()] if cgroup else []
    except (OSError, ValueError):
        return []


def remove_cgroup(cgroup: Path | str) -> None:
    """Remove a cgroup that was made here; the kernel may take a moment to see that it is empty."""
    latest = time.monotonic() + 1
    while isinstance(cgroup, Path) and cgroup.exists() and time.monotonic() < latest:
        try:
            cgroup.rmdir()
        except OSError:
            time.sleep(POLL_SECONDS)
