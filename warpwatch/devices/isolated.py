"""Processes that run another revision's Python, kept apart from this user's others.

Such a process has the variables of the environment that a GPU's programs need, an empty home folder, and a session of
its own. Run as a script, this file is its first code: it gives up what would let that Python read the memory and the
environment of other processes, and then runs the program. Files and network stay in reach: SECURITY.md says so.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import runpy
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

ENGINE = Path(__file__).resolve().parent.parent.parent  # the folder that holds the package warpwatch
# Variables that Python, a compiler or CUDA needs, or that change what is timed: both sides of a pair have the same.
KEPT = re.compile(
    r"PATH|LD_LIBRARY_PATH|LANG|LC_\w+|NVCC|CXX|NVIDIA_TF32_OVERRIDE"
    r"|(CUDA|CUBLAS|CUDNN|CUPY|TORCH|PYTORCH|TRITON|OMP|MKL|OPENBLAS|SOFTCUDA)_\w+"
)
# The first code of a Python that runs nothing of a checkout, though the engine may lie there: it is found by itself.
FIND_ENGINE = f"""
import sys
from importlib.machinery import PathFinder
class Engine:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return PathFinder.find_spec(name, [{str(ENGINE)!r}]) if name in ("softcuda", "warpwatch") else None
sys.meta_path.insert(0, Engine)
"""
POLL_SECONDS = 0.02  # between two looks at a process that is waited for
SECRET = re.compile(r"TOKEN|SECRET|PASS|KEY|CREDENTIAL|AUTH", re.IGNORECASE)  # names of variables that are never kept
# Linux's numbers, the same for all processors but Alpha.
PR_SET_NO_NEW_PRIVS = 38
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
LANDLOCK_VERSION, PATH_BENEATH, REFER, SCOPE_SIGNALS = 1, 1, 1 << 13, 2
CAPABILITIES_VERSION = 0x20080522
FILE_CAPABILITIES = 0b1111  # CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER


class Isolated:
    """A process that runs a program on another revision's files, and its process group, until ``end``."""

    def __init__(
        self,
        program: Path,
        arguments: Sequence[str],
        tree: Path,
        output: IO[bytes],
        pass_fds: Sequence[int] = (),
    ) -> None:
        """Start ``program``, whose last arguments are the folders of packages. Raises OSError.

        ``output``: the file that takes what is printed.
        """
        self._home = tempfile.TemporaryDirectory(prefix="warpwatch-", ignore_cleanup_errors=True)
        # -I takes nothing from environment, current folder or the user's packages. Compiled modules are kept where this
        # process keeps its own, so that the next comparison with this revision finds them: 0.5 to 0.6 s instead of 1.0.
        # The tree is nobody's checkout.
        options = ["-I", *(["-B"] if sys.dont_write_bytecode else [])]
        options += ["-X", f"pycache_prefix={sys.pycache_prefix}"] if sys.pycache_prefix else []
        try:
            self.process = subprocess.Popen(
                [sys.executable, *options, *self._launcher(tree), str(program), *arguments, *packages(), str(ENGINE)],
                cwd=tree,
                env=self._variables(),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=pass_fds,
                start_new_session=True,
            )
        except OSError:
            self._home.cleanup()
            raise

    def _launcher(self, tree: Path) -> list[str]:
        """Return the script that runs the program, and the script's own arguments."""
        return [__file__]

    def _variables(self) -> dict[str, str]:
        return environment(self._home.name)

    def has_ended(self, seconds: float, is_enough: Callable[[], bool]) -> bool:
        """Wait until the process ends, for so long or until there ``is_enough``; return whether it has ended.

        It is not reaped: its number stays its group's.
        """
        latest = time.monotonic() + seconds
        while not (ended := os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)):
            if time.monotonic() > latest or is_enough():
                break
            time.sleep(POLL_SECONDS)
        return ended is not None

    def end(self) -> None:
        """Kill what still runs of the process group, and remove its home folder."""
        if self.process.returncode is None:  # before it is reaped, while its number still is its group's
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if self.process.stdin:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        self._home.cleanup()


def environment(home: str) -> dict[str, str]:
    from warpwatch.devices.compile.compiler import cache_folder  # noqa: PLC0415  # absent where this file is a script

    kept = {name: text for name, text in os.environ.items() if KEPT.fullmatch(name) and not SECRET.search(name)}
    folder = cache_folder()  # what is compiled there need not be compiled again
    caches = {"WARPWATCH_CACHE": folder, "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"}
    return kept | {"HOME": home, "TMPDIR": home} | {name: os.path.abspath(path) for name, path in caches.items()}


def packages() -> list[str]:
    """List the folders of packages, such as NumPy.

    Folders of PYTHONPATH count where they cannot be this checkout's: modules that a revision lacks are not ours.
    """
    here, given = Path.cwd(), map(Path, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    there = (path for path in given if path.is_absolute())
    apart = [str(path) for path in there if not (here.is_relative_to(path) or path.is_relative_to(here))]
    # In Python's own order: what PYTHONPATH names comes before what is installed.
    return [*apart, *(path for path in sys.path if Path(path).name in ("site-packages", "dist-packages"))]


def keep_apart() -> None:
    """Give up access to the memory, the environment and the signals of processes that this one does not start.

    A sandbox of Landlock (Linux 5.19) whose rules forbid nothing does that: a process may not trace one outside of its
    sandbox. Root could all the same, by its capabilities, and keeps those that concern files alone. Programs that
    change the user, such as sudo, gain nothing any more.
    """
    system = ctypes.CDLL(None, use_errno=True)
    system.prctl(PR_SET_NO_NEW_PRIVS, *map(ctypes.c_ulong, (1, 0, 0, 0)))
    header, sets = (ctypes.c_uint32 * 2)(CAPABILITIES_VERSION, 0), (ctypes.c_uint32 * 6)()
    if not system.capget(header, sets):  # effective, permitted and inheritable: the lower 32 bits, then the upper ones
        sets[:] = [*(bits & FILE_CAPABILITIES for bits in sets[:3]), 0, 0, 0]
        system.capset(header, sets)
    version = system.syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), LANDLOCK_VERSION)
    if version < 2:  # a kernel without Landlock, or one that would forbid to rename files from folder to folder
        return
    handled = struct.pack("=QQQ", REFER, 0, SCOPE_SIGNALS)[: 24 if version >= 6 else 8]
    rules = system.syscall(LANDLOCK_CREATE_RULESET, handled, ctypes.c_size_t(len(handled)), 0)
    top = os.open("/", os.O_PATH | os.O_CLOEXEC)
    system.syscall(LANDLOCK_ADD_RULE, rules, PATH_BENEATH, struct.pack("=Qi", REFER, top), 0)
    system.syscall(LANDLOCK_RESTRICT_SELF, rules, 0)
    os.close(top)
    os.close(rules)


if __name__ == "__main__":
    keep_apart()
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
