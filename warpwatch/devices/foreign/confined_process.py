"""Confines this process, then runs a program in a child: ``python confined_process.py PLAN PROGRAM [ARGUMENT ...]``.

confinement.py starts it. PLAN: a ``Plan``, as JSON. What this kernel or container does not offer is written to the
pipe REPORT before the program's first line runs, as JSON: names of means, and why each is missing.

This process stays above the program: whatever the program leaves behind becomes its child, or ends with its PID
namespace. It runs nothing but this file, which needs the standard library alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import glob
import json
import os
import platform
import resource
import runpy
import signal
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

ISOLATED = Path(__file__).resolve().parent.parent / "isolated.py"
# Linux's numbers.
PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, SECCOMP_FILTER = 1, 22, 36, 2
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 1 << 17, 1 << 27, 1 << 28, 1 << 29, 1 << 30
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 1 << 12, 1 << 14, 1 << 18
MNT_DETACH = 2
MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE = 442, -100, 0x8000
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF, PATH_BENEATH = 444, 445, 446, 1
WRITE_FILE, READ_FILE, READ_DIR, REFER, TRUNCATE = 1 << 1, 1 << 2, 1 << 3, 1 << 13, 1 << 14
CHANGES = sum(1 << bit for bit in range(4, 13))  # to remove and to make files of each kind
TCP, ABSTRACT_SOCKETS, SIGNALS = 0b11, 1, 2
SCOPES_SINCE = 6  # version of Landlock, of Linux 6.12

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix", "/proc", "/sys")  # are read
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/nvidia*", "/dev/dxg")  # are read and written
RANDOM = ("/dev/random", "/dev/urandom")
# Folders in which programs of this user and of the system listen, such as tmux and Docker: only what is read is there.
LISTENING = ("/tmp", "/var/tmp", "/run", "/var/run")
OF_DRIVERS = ("/run/nvidia*", "/run/opengl-driver*", "/run/current-system")
OF_KERNEL = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/driver")  # what root could set there
MOST_BYTES = 16 << 30  # of a file
MORE_PROCESSES = 4096  # threads of this user, beside those that run now
SECONDS_TO_LOOK = 0.5  # between two looks whether the process that started this one is still there

PID, MOUNT, NETWORK, IPC = "PID namespace", "mount namespace", "network namespace", "IPC namespace"
CGROUP, OWN_PROC, OWN_SHM = "cgroup", "/proc of its own", "/dev/shm of its own"
READ_ONLY, LANDLOCK = "read-only mounts", "Landlock"
SECCOMP, PROCESSES = "seccomp", "limit of processes"
SIGNAL_SCOPE, SOCKET_SCOPE = "Landlock scope for signals", "Landlock scope for sockets"
SHARED = "not used, because the software device shares memory by it"
FLAGS = {MOUNT: CLONE_NEWNS, PID: CLONE_NEWPID, NETWORK: CLONE_NEWNET, IPC: CLONE_NEWIPC}

AUDIT_X86, AUDIT_ARM = 0xC000003E, 0xC00000B7
# Architecture, its number of ``socket``, and those of calls that reach into other processes or around the file system:
# ptrace, process_vm_readv, process_vm_writev, pidfd_getfd, perf_event_open, bpf, add_key, request_key, keyctl,
# open_by_handle_at, io_uring_setup (which opens sockets too).
CALLS = {
    "x86_64": (AUDIT_X86, 41, (101, 310, 311, 438, 298, 321, 248, 249, 250, 304, 425)),
    "aarch64": (AUDIT_ARM, 198, (117, 270, 271, 438, 241, 280, 217, 218, 219, 265, 425)),
}
AF_UNIX, AF_NETLINK = 1, 16
X32 = 0x40000000  # system calls of x86-64 with another numbering

system = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Folders that the program may use, and how strictly it is kept.

    ``home``: written and read. ``tree``: where it starts. ``readable``: files and folders. ``listed``: folders of which
    names alone are read. ``hidden``: is not read, though it lies in one of these. ``shares_files``: it has this
    machine's /dev/shm. ``cgroup``: a folder to enter, or why there is none. ``user``: the user's own home folder.
    ``parent``: the process that starts this one. ``report``: descriptor of a pipe.
    """

    home: str
    tree: str
    readable: Sequence[str]
    listed: Sequence[str]
    hidden: Sequence[str]
    shares_files: bool
    cgroup: str
    user: str
    parent: int
    report: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class Means:
    """Means that are missing here: why each of them is, by its name."""

    def __init__(self) -> None:
        self.missing: dict[str, str] = {}

    def need(self, name: str, result: int) -> bool:
        """Note that a system call failed, for want of which ``name`` is missing; return whether it succeeded."""
        if result < 0:
            self.missing.setdefault(name, os.strerror(ctypes.get_errno()))
        return result >= 0


# Namespaces and mounts.


def enter_namespaces(means: Means) -> None:
    """Enter namespaces of this process's own: as root at once, else by way of a user namespace."""
    if system.unshare(CLONE_NEWNS) and not enter_user_namespace():
        means.missing |= {name: f"user namespace: {os.strerror(ctypes.get_errno())}" for name in FLAGS}
        return
    for name, flag in FLAGS.items():
        means.need(name, system.unshare(flag))


def enter_user_namespace() -> bool:
    """Enter a user namespace, and return whether there may be one.

    A child tries it first: a security module may allow to enter one in which nothing is allowed, with no way back.
    """
    if (child := os.fork()) == 0:
        is_useful = change_user_namespace() and not system.unshare(CLONE_NEWNS)
        os._exit(0 if is_useful else ctypes.get_errno() or errno.EPERM)
    if number := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        ctypes.set_errno(number)
        return False
    return change_user_namespace()


def change_user_namespace() -> bool:
    """Enter a user namespace in which this process keeps its user and group; return whether it has them there."""
    user, group = os.geteuid(), os.getegid()
    if system.unshare(CLONE_NEWUSER):
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        try:
            Path(f"/proc/self/{name}").write_text(text)
        except OSError as error:
            ctypes.set_errno(error.errno or errno.EPERM)
            return False
    return True


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> int:
    return int(system.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode()))


def arrange_mounts(plan: Plan, means: Means) -> None:
    """Let the file system of this mount namespace be read alone, but for the home folder, and hide what is hidden."""
    if MOUNT in means.missing or not means.need(MOUNT, mount("none", "/", "", MS_REC | MS_PRIVATE)):
        means.missing |= dict.fromkeys((OWN_PROC, OWN_SHM, READ_ONLY), means.missing[MOUNT])
        return
    written = [plan.home, "/dev/shm", "/proc"]  # programs name their threads in /proc
    kept = [plan.home, *plan.readable, *(path for pattern in OF_DRIVERS for path in glob.glob(pattern))]
    for folder in dict.fromkeys((*LISTENING, plan.user)):
        means.need(MOUNT, leave_alone(folder, kept))
    mount(plan.home, plan.home, "", MS_BIND)
    if plan.shares_files:
        means.missing[OWN_SHM] = SHARED
        mount("/dev/shm", "/dev/shm", "", MS_BIND)
    else:
        means.need(OWN_SHM, mount("none", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777"))
    for path in plan.hidden:
        if os.path.isdir(path):
            mount("none", path, "tmpfs", MS_RDONLY, "size=4k,mode=0")
        elif os.path.exists(path):
            mount("/dev/null", path, "", MS_BIND)
    if PID in means.missing:
        means.missing[OWN_PROC] = means.missing[PID]
    else:
        means.need(OWN_PROC, mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC))
    for path in OF_KERNEL:
        mount(path, path, "", MS_BIND)
    if means.need(READ_ONLY, set_read_only("/", True)):
        for path in written:
            set_read_only(path, False)


def leave_alone(folder: str, kept: Iterable[str]) -> int:
    """Put a folder in the place of one, in which nothing is but what is kept of it; return what its mount returns."""
    paths = {path for each in kept for path in (os.path.abspath(each), os.path.realpath(each)) if os.path.exists(path)}
    if not os.path.isdir(folder) or os.path.realpath(folder) != folder or any(is_in(folder, path) for path in paths):
        return 0
    places = {path: os.open(path, os.O_PATH) for path in sorted(paths) if is_in(path, folder)}
    result = mount("none", folder, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755")
    for path, place in places.items():
        if result >= 0 and not os.path.lexists(path):  # else it lies in another one that is kept
            os.makedirs(path if os.path.isdir(f"/proc/self/fd/{place}") else os.path.dirname(path), exist_ok=True)
            if not os.path.exists(path):
                Path(path).touch()
            if (result := mount(f"/proc/self/fd/{place}", path, "", MS_BIND | MS_REC)) < 0:
                system.umount2(folder.encode(), MNT_DETACH)
        os.close(place)
    return result


def is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def set_read_only(path: str, is_so: bool) -> int:
    """Let a mount be read alone, with all below it, or let this one be written."""
    attributes = struct.pack("=QQQQ", *((MS_RDONLY, 0) if is_so else (0, MS_RDONLY)), 0, 0)
    flags = AT_RECURSIVE if is_so else 0
    return int(system.syscall(MOUNT_SETATTR, AT_FDCWD, path.encode(), flags, attributes, ctypes.c_size_t(32)))


# Files, by Landlock.


def restrict_files(plan: Plan, means: Means) -> None:
    """Let this process and its children write in its home folder alone, and read what the plan names."""
    version = system.syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    why = f"Linux 6.12 has it; Landlock's version here is {version}"
    if version < 1:
        means.missing[LANDLOCK] = why = os.strerror(ctypes.get_errno())
    if version < SCOPES_SINCE:
        means.missing |= {SIGNAL_SCOPE: why, SOCKET_SCOPE: why}
    if version < 1:
        return
    handled = WRITE_FILE | READ_FILE | READ_DIR | CHANGES
    handled |= (REFER if version >= 2 else 0) | (TRUNCATE if version >= 3 else 0)
    length = 24 if version >= SCOPES_SINCE else 16 if version >= 4 else 8
    form = struct.pack("=QQQ", handled, TCP, SIGNALS | ABSTRACT_SOCKETS)[:length]
    rules = system.syscall(LANDLOCK_CREATE_RULESET, form, ctypes.c_size_t(len(form)), 0)
    if not means.need(LANDLOCK, rules):
        return
    for path, access in accesses(plan):
        allow(rules, path, access & handled)
    means.need(LANDLOCK, system.syscall(LANDLOCK_RESTRICT_SELF, rules, 0))
    os.close(rules)


def accesses(plan: Plan) -> Iterator[tuple[str, int]]:
    """Yield files and folders with what may be done with them and with all that lies in them."""
    everything, read = ~0, READ_FILE | READ_DIR
    yield from ((path, everything) for path in (plan.home, "/dev/shm"))
    yield from ((path, everything) for pattern in DEVICES for path in glob.glob(pattern))
    yield from ((path, read) for path in RANDOM)
    yield "/proc/self", read | WRITE_FILE | TRUNCATE
    yield from ((path, READ_DIR) for path in ("/dev", *plan.listed))
    hidden = [os.path.realpath(path) for path in plan.hidden]
    for path in (*SYSTEM, *plan.readable):
        yield from reading(os.path.realpath(path), hidden)


def reading(path: str, hidden: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield what lets ``path`` be read, but for what is hidden in it, of which names alone are told."""
    inside = [each for each in hidden if is_in(each, path)]
    if not inside:
        yield path, READ_FILE | READ_DIR
    elif path not in inside and os.path.isdir(path):
        yield path, READ_DIR
        for entry in os.scandir(path):
            if not entry.is_symlink():  # what it leads to has rules of its own
                yield from reading(entry.path, inside)


def allow(rules: int, path: str, access: int) -> None:
    """Add a rule of Landlock, for a file with those of its rights that files have; a path may be missing."""
    with contextlib.suppress(OSError):
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        if not os.path.isdir(path):
            access &= WRITE_FILE | READ_FILE | TRUNCATE
        system.syscall(LANDLOCK_ADD_RULE, rules, PATH_BENEATH, struct.pack("=Qi", access, place), 0)
        os.close(place)


# System calls, and limits.


def restrict_calls(means: Means) -> None:
    """Refuse system calls that reach into other processes, and sockets but those of this machine's file system."""
    if platform.machine() not in CALLS:
        means.missing[SECCOMP] = f"no list of the system calls of {platform.machine()}"
        return
    architecture, socket, refused = CALLS[platform.machine()]
    words = call_filter(architecture, socket, refused)
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *word) for word in words))
    form = ctypes.create_string_buffer(struct.pack("=H6xQ", len(words), ctypes.addressof(program)))
    means.need(SECCOMP, system.prctl(PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_FILTER), form, ctypes.c_ulong(0)))


def call_filter(architecture: int, socket: int, refused: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """Return a program of classic BPF: instruction, jumps if true and if false, operand."""
    load, equal, at_least, end = 0x20, 0x15, 0x35, 0x06
    allowed, denied = (end, 0, 0, 0x7FFF0000), (end, 0, 0, 0x00050000 | errno.EACCES)
    return [
        (load, 0, 0, 4),
        (equal, 1, 0, architecture),
        denied,
        (load, 0, 0, 0),
        *([(at_least, 0, 1, X32), denied] if architecture == AUDIT_X86 else []),
        *(word for number in refused for word in ((equal, 0, 1, number), denied)),
        (equal, 1, 0, socket),
        allowed,
        (load, 0, 0, 16),
        (equal, 1, 0, AF_UNIX),
        (equal, 0, 1, AF_NETLINK),
        allowed,
        denied,
    ]


def limit_resources(means: Means) -> None:
    """Limit what this process and its children may use up: no dumps of memory, no endless file, no endless children."""
    running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: MOST_BYTES,
        resource.RLIMIT_NPROC: running + MORE_PROCESSES,
    }
    for kind, most in limits.items():
        hard = resource.getrlimit(kind)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (value, value))
    if os.geteuid() == 0:
        means.missing[PROCESSES] = "Linux has none for root"


# Processes.


def processes_below(top: int) -> list[int]:
    """List the processes that descend from ``top`` and still run."""
    parents: dict[int, int] = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            state, parent = Path(path).read_text(errors="replace").rpartition(")")[2].split()[:2]
            if state not in "ZX":
                parents[int(path.split("/")[2])] = int(parent)
    found, below = [], {top}
    while below := {child for child, parent in parents.items() if parent in below}:
        found += sorted(below)
        parents = {child: parent for child, parent in parents.items() if child not in below}
    return found


def signal_all(processes: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to processes, of which some may have ended."""
    for each in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(each, number)


def wait_for(child: int, is_wanted: Callable[[], bool]) -> int:
    """Reap what ends until ``child`` does, and return its status, or that of one killed where nobody wants it."""
    while True:
        process, status = os.waitpid(-1, os.WNOHANG)
        if process == child:
            return status
        if process == 0:
            if not is_wanted():
                return signal.SIGKILL
            signal.sigtimedwait([signal.SIGCHLD], SECONDS_TO_LOOK)


def fork() -> int:
    """Start a child that ends when this process does."""
    above = os.getpid()
    if child := os.fork():
        return child
    system.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    if os.getppid() not in (above, 0):  # 0: the parent is outside of the PID namespace
        os._exit(1)
    return 0


def leave_as(status: int) -> NoReturn:
    """End as a process of that status did."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def close_all_but(kept: int) -> None:
    """Close what the program talks through, so that its end is seen there."""
    os.closerange(0, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))


def run_in_namespace(plan: Plan, means: Means) -> NoReturn:
    """Run the program in a child, which the first process of a PID namespace starts; end with the program's status."""
    ended, ending = os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    if (child := fork()) == 0:
        os.close(ended)
        arrange_mounts(plan, means)
        if PID not in means.missing and (program := fork()):
            close_all_but(ending)
            status = wait_for(program, lambda: True)
            os.write(ending, struct.pack("=i", status))
            os._exit(0)
        os.close(ending)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        run(plan, means)
    close_all_but(ended)
    status = wait_for(child, lambda: os.getppid() == plan.parent)
    if PID not in means.missing:
        signal_all([child], signal.SIGKILL)
        status = struct.unpack("=i", told)[0] if len(told := os.read(ended, 4)) == 4 else status
    while PID in means.missing and (left := processes_below(os.getpid())):
        signal_all(left, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)
    leave_as(status)


def run(plan: Plan, means: Means) -> NoReturn:
    """Give up the rest, say what is missing, and run the program."""
    runpy.run_path(str(ISOLATED))["keep_apart"]()
    os.chdir(plan.tree)  # in the mounts that are new
    restrict_files(plan, means)
    restrict_calls(means)
    if LANDLOCK in means.missing and READ_ONLY in means.missing:
        os.environ["WARPWATCH_CACHE"] = f"{plan.home}/.cache/warpwatch"  # what others read must not be its own work
        Path(plan.home, ".cache", "softcuda").unlink(missing_ok=True)
    os.write(plan.report, json.dumps(means.missing).encode())
    os.close(plan.report)
    del sys.argv[:2]
    runpy.run_path(sys.argv[0], run_name="__main__")
    sys.exit()


def main() -> NoReturn:
    plan, means = Plan(**json.loads(sys.argv[1])), Means()
    system.prctl(PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1))
    if plan.cgroup.startswith("/"):
        try:
            Path(plan.cgroup, "cgroup.procs").write_text("0")
        except OSError as error:
            means.missing[CGROUP] = str(error.strerror)
    else:
        means.missing[CGROUP] = plan.cgroup
    limit_resources(means)
    enter_namespaces(means)
    run_in_namespace(plan, means)


if __name__ == "__main__":
    main()
