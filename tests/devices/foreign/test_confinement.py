"""Tests what a confined process can reach, that it ends with all that it started, and that what is missing is said."""

from __future__ import annotations

import ctypes
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.project import ROOT
from tools import confinement as trial
from warpwatch.devices.compile.compiler import cache_folder
from warpwatch.devices.foreign import confined_process, confinement
from warpwatch.devices.foreign.confined_process import (
    CALLS,
    CGROUP,
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
    Means,
    call_filter,
)
from warpwatch.devices.foreign.confinement import Confined, unmet

# Refused in place of a kernel and a container that lack all means: unshare, Landlock, mount_setattr.
OF_NAMESPACES = {"x86_64": (272, 444, 442), "aarch64": (97, 444, 442)}

ESCAPES = """
import os, subprocess, sys, time
name = sys.argv[1]
sleep = ["sleep", name]
subprocess.Popen(sleep)
subprocess.Popen(sleep, start_new_session=True, env={})
subprocess.Popen(["nohup", *sleep], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
if os.fork() == 0:  # twice, so that nothing above it is its parent
    os.setsid()
    if os.fork() == 0:
        os.closerange(3, 100)
        os.execvpe("sleep", sleep, {"PATH": os.environ["PATH"]})
    os._exit(0)
print("started", flush=True)
if sys.argv[2] == "stays":
    time.sleep(60)
"""

TRIES = """
import json, os, socket, sys
said = {}
def attempt(name, action):
    try:
        action()
        said[name] = "done"
    except OSError as error:
        said[name] = type(error).__name__
def read(path):
    if not open(path).read(1):
        raise OSError("there is nothing in its place")
given = json.loads(sys.argv[1])
for name, path in given["write"].items():
    attempt("write " + name, lambda: open(path, "a").close())
for name, path in given["read"].items():
    attempt("read " + name, lambda: read(path))
attempt("permissions", lambda: os.chmod(given["read"]["tree"], 0o777))
attempt("remove", lambda: os.remove(given["read"]["tree"]))
attempt("rename", lambda: os.rename(given["read"]["tree"], os.path.expanduser("~/moved")))
os.makedirs(os.path.expanduser("~/a/b"))
attempt("home", lambda: open(os.path.expanduser("~/a/x"), "w").close())
attempt("rename in home", lambda: os.rename(os.path.expanduser("~/a/x"), os.path.expanduser("~/a/b/x")))
attempt("internet", lambda: socket.socket(socket.AF_INET))
attempt("internet 6", lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
attempt("virtual machine", lambda: socket.socket(socket.AF_VSOCK))
attempt("abstract", lambda: socket.socket(socket.AF_UNIX).connect("\\0" + given["abstract"]))
attempt("list top", lambda: os.listdir("/"))
attempt("socket", lambda: socket.socket(socket.AF_UNIX).connect(given["socket"]))
attempt("signal", lambda: os.kill(given["parent"], 0))
attempt("signal above", lambda: os.kill(os.getppid(), 9))
attempt("environment", lambda: open(f"/proc/{given['parent']}/environ", "rb").read())
attempt("list drivers", lambda: os.listdir(os.environ["XDG_CACHE_HOME"] + "/softcuda"))
attempt("thread's name", lambda: open("/proc/self/comm", "w").close())
attempt("pair", lambda: socket.socketpair())
print(json.dumps(said))
"""


def run(program: Path, tmp_path: Path, *arguments: str, **options: bool | Sequence[Path]) -> tuple[int, str, Confined]:
    """Run a program in a confined process to its end; return its status, what it prints, and the process."""
    with tempfile.TemporaryFile() as output:
        process = Confined(program, arguments, tmp_path, output, **options)  # type: ignore[arg-type]
        assert isinstance(process.missing, tuple)
        status = process.process.wait(30)
        process.end()
        output.seek(0)
        return status, output.read().decode(), process


def written(tmp_path: Path, text: str) -> Path:
    program = tmp_path / "program" / "program.py"
    program.parent.mkdir(exist_ok=True)
    program.write_text(text)
    return program


def sleepers(name: str) -> list[int]:
    """List the processes whose last argument is that name."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().split(b"\0")[:-1][-1:] == [name.encode()]:
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def wait_until(count: int, name: str) -> None:
    latest = time.monotonic() + 20
    while len(sleepers(name)) != count and time.monotonic() < latest:
        time.sleep(0.01)
    assert len(sleepers(name)) == count


def unique() -> str:
    return f"600.{secrets.randbelow(10**12):012d}"


MODES = pytest.mark.parametrize("mode", ["namespace", "cgroup", "parents"])


@pytest.fixture(autouse=True)
def _only_means(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave what ends a process's children to the means of the test's mode, where it has one."""
    mode = getattr(request.node, "callspec", None) and request.node.callspec.params.get("mode", "namespace")
    if mode == "parents":
        monkeypatch.setattr(confinement, "make_cgroup", lambda: "not tried")
    if mode in ("parents", "cgroup"):  # a copy that lacks PID namespaces
        program, text = tmp_path / "confined.py", Path(confined_process.__file__).read_text()
        changes = {
            "PID: CLONE_NEWPID, ": "",
            "self.missing: dict[str, str] = {}": "self.missing = {PID: 'not tried'}",
            "Path(__file__)": f"Path({confined_process.__file__!r})",
        }
        for old, new in changes.items():
            assert text.count(old) == 1
            text = text.replace(old, new)
        program.write_text(text)
        monkeypatch.setattr(confined_process, "__file__", str(program))


@MODES
def test_what_leaves_its_group_and_its_parents_ends_with_the_process(tmp_path: Path, mode: str) -> None:
    program, name = written(tmp_path, ESCAPES), unique()
    with tempfile.TemporaryFile() as output:
        process = Confined(program, [name, "stays"], tmp_path, output)
        wait_until(4, name)
        assert set(process.processes()) >= set(sleepers(name))
        process.end()
    assert not sleepers(name)
    assert not process.processes()


@MODES
def test_what_it_leaves_ends_where_the_process_ends_by_itself(tmp_path: Path, mode: str) -> None:
    program, name = written(tmp_path, ESCAPES), unique()
    status, printed, _ = run(program, tmp_path, name, "leaves")
    assert (status, printed) == (0, "started\n")
    assert not sleepers(name)


@pytest.mark.once
@pytest.mark.parametrize("mode", ["cgroup", "namespace"])
def test_everything_ends_where_the_process_that_started_it_is_killed(tmp_path: Path, mode: str) -> None:
    program, name = written(tmp_path, ESCAPES), unique()
    code = (
        "import sys, time; from pathlib import Path; from warpwatch.devices.foreign import confinement\n"
        f"confinement.confined_process.__file__ = {confined_process.__file__!r}\n"
        f"p = confinement.Confined(Path({str(program)!r}), [{name!r}, 'stays'], Path({str(tmp_path)!r}),"
        " sys.stderr.buffer)\ntime.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.DEVNULL) as parent:
        wait_until(4, name)
        parent.kill()
    wait_until(0, name)


@pytest.mark.parametrize(
    ("code", "status"),
    [("import sys; sys.exit(3)", 3), ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV)],
)
@pytest.mark.parametrize("mode", ["namespace", "cgroup"])
def test_its_status_is_the_programs(tmp_path: Path, code: str, status: int, mode: str) -> None:
    assert run(written(tmp_path, code), tmp_path)[0] == status


# What a program can do where one of these sentences is said.
UNKEPT = {
    "it can write": {
        "write tree",
        "write new",
        "write outside",
        "write cache",
        "write driver",
        "write setting",
        "write group",
        "remove",
        "rename",
    },
    "it can read every file": {"read git", "read run", "read outside", "read baselines", "read secret", "list top"},
    "it can change the permissions": {"permissions"},
    "it can reach the network": {"internet", "internet 6", "virtual machine"},
    "it can connect to abstract sockets": {"abstract"},
    "it can connect to sockets": {"socket"},
    "it can send signals": {"signal", "signal above"},
    "it can read the memory": {"environment"},
}
ALLOWED = {"write null", "write shared", "read tree", "read data", "read passwd", "read engine", "home", "pair"}


def paths(tmp_path: Path, name: str) -> dict[str, dict[str, str]]:
    """Make files that a program may try to read and to write, and return their paths."""
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    read = {"tree": tree / "kernel.cu", "git": tree / ".git" / "config", "run": tree / "kept" / "run"}
    read |= {"outside": outside / "file", "data": outside / "data"}
    for path in read.values():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text")
    drivers = confinement.user_cache() / "softcuda"
    for folder in (cache_folder(), drivers):
        folder.mkdir(parents=True, exist_ok=True)
    read |= {
        "passwd": Path("/etc/passwd"),
        "secret": Path("/etc/shadow"),
        "engine": Path(confinement.__file__),
        "baselines": ROOT / "README.md",
    }
    write = {"tree": read["tree"], "new": tree / "new", "outside": outside / "new", "null": Path("/dev/null")}
    write |= {"shared": Path("/dev/shm", name), "cache": cache_folder() / name, "driver": drivers / name}
    write |= {"setting": Path("/proc/sys/kernel/core_pattern"), "group": Path("/sys/fs/cgroup/cgroup.procs")}
    return {
        "read": {key: str(path) for key, path in read.items()},
        "write": {key: str(path) for key, path in write.items()},
    }


def landlock() -> int:
    code = "import ctypes; print(ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1))"
    return int(subprocess.check_output([sys.executable, "-c", code]))


@pytest.mark.parametrize("shares_files", [False, True])
def test_it_writes_at_home_alone_and_reaches_nothing_else(tmp_path: Path, shares_files: bool) -> None:
    name = secrets.token_hex()
    door = f"/tmp/warpwatch-{name[:16]}"
    given = {**paths(tmp_path, name), "abstract": name, "parent": os.getpid(), "socket": door}
    program, options = written(tmp_path, TRIES), {"shares_files": shares_files}
    readable, hidden = [tmp_path / "outside" / "data"], [tmp_path / "tree" / "kept"]
    with socket.socket(socket.AF_UNIX) as abstract, socket.socket(socket.AF_UNIX) as listener:
        for each, address in ((abstract, f"\0{name}"), (listener, door)):
            each.bind(address)
            each.listen()
        arguments = [program, tmp_path / "tree", json.dumps(given)]
        _, printed, process = run(*arguments, readable=readable, hidden=hidden, **options)  # type: ignore[arg-type]
    is_left = Path("/dev/shm", name).exists()
    for path in ("/dev/shm/" + name, door):
        Path(path).unlink(missing_ok=True)
    assert (tmp_path / "tree" / "kernel.cu").exists()
    done = {name for name, result in json.loads(printed.splitlines()[-1]).items() if result == "done"}
    unkept = {
        name
        for beginning in UNKEPT
        if any(each.startswith(beginning) for each in process.missing)
        for name in UNKEPT[beginning]
    }
    assert done - unkept == ALLOWED | {"rename in home", "list drivers", "thread's name"}
    assert is_left is any("/dev/shm" in each for each in process.missing)
    assert is_left or not shares_files
    if landlock() >= 6:
        assert unkept <= {"permissions", "socket"}


def test_it_finds_the_engine_and_its_packages(tmp_path: Path) -> None:
    """Import what call programs import, from a tree elsewhere."""
    code = "import sys\nsys.path[:0] = sys.argv[1:][::-1]\nimport warpwatch, numpy, softcuda, ctypes\nprint('found')"
    (tmp_path / "tree").mkdir()
    assert run(written(tmp_path, code), tmp_path / "tree")[:2] == (0, "found\n")


def test_where_nothing_can_be_had_everything_is_said_and_children_still_end(tmp_path: Path) -> None:
    """Refuse the system calls that namespaces and Landlock need, as a container's own filter may."""
    program, name = written(tmp_path, ESCAPES), unique()
    code = f"""
import json, sys, platform, struct, ctypes
from pathlib import Path
from tests.devices.foreign import test_confinement as tests
from warpwatch.devices.foreign import confinement
tests.refuse_namespaces()
confinement.make_cgroup = lambda: "not tried"
status, printed, process = tests.run(Path({str(program)!r}), Path({str(tmp_path)!r}), {name!r}, "leaves")
print(json.dumps([status, printed, process.missing]))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    status, printed, missing = json.loads(done.stdout)
    assert (status, printed) == (0, "started\n"), done.stderr
    assert not sleepers(name)
    everything = dict.fromkeys((PID, CGROUP, SIGNAL_SCOPE, READ_ONLY, LANDLOCK, MOUNT, OWN_PROC, OWN_SHM), "")
    expected = {sentence.partition(" (")[0] for sentence in unmet(everything)}
    assert expected <= {sentence.partition(" (")[0] for sentence in missing}
    assert "no PID namespace: user namespace: Permission denied; no cgroup: not tried; no Landlock scope" in missing[0]


OUTLIVES = "what it starts may outlive it by ending the process above it"
SIGNALS = "it can send signals to this user's processes"


def refuse_namespaces() -> None:
    """Refuse, in this process and its children, what namespaces and Landlock need."""
    import platform  # noqa: PLC0415
    import struct  # noqa: PLC0415

    machine = platform.machine()
    system = ctypes.CDLL(None)
    system.prctl(38, *map(ctypes.c_ulong, (1, 0, 0, 0)))
    words = call_filter(CALLS[machine][0], -1 & 0xFFFFFFFF, OF_NAMESPACES[machine])
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *word) for word in words))
    form = ctypes.create_string_buffer(struct.pack("=H6xQ", len(words), ctypes.addressof(program)))
    assert system.prctl(22, ctypes.c_ulong(2), form, ctypes.c_ulong(0)) == 0


@pytest.mark.parametrize(
    ("missing", "sentences"),
    [
        ({}, ()),
        ({PID: "x"}, ()),
        ({PID: "x", CGROUP: "y"}, ()),
        (
            {PID: "x", CGROUP: "y", SIGNAL_SCOPE: "z"},
            (OUTLIVES, SIGNALS),
        ),
        ({NETWORK: "x"}, ()),
        ({NETWORK: "x", SECCOMP: "y"}, ("it can reach the network",)),
        ({LANDLOCK: "x"}, ("it can read every file that this user can",)),
        ({PROCESSES: "x"}, ("it can start processes without limit",)),
    ],
)
def test_a_sentence_is_said_where_all_its_means_are_missing(
    missing: dict[str, str], sentences: tuple[str, ...]
) -> None:
    said = unmet(missing)
    assert tuple(sentence.partition(" (")[0] for sentence in said) == sentences
    assert all(any(f"no {name}: {why}" in sentence for sentence in said) for name, why in missing.items() if said)


def test_a_process_that_dies_at_once_says_that_it_was_not_confined(tmp_path: Path) -> None:
    with tempfile.TemporaryFile() as output, pytest.MonkeyPatch.context() as patch:
        patch.setattr(confined_process, "__file__", str(written(tmp_path, "raise SystemExit(1)")))
        process = Confined(Path("none"), [], tmp_path, output)
        assert process.missing == ("the process ended before it was confined",)
        process.end()


def test_a_user_namespace_in_which_nothing_is_allowed_is_not_entered() -> None:
    """Let the user's number be refused there, as Ubuntu's AppArmor does."""
    code = (
        "import ctypes, os\nfrom warpwatch.devices.foreign import confined_process as tried\n"
        "enter, before = tried.change_user_namespace, os.readlink('/proc/self/ns/user')\n"
        "tried.change_user_namespace = lambda: enter() and bool(ctypes.set_errno(1))\n"
        "assert not tried.enter_user_namespace()\n"
        "assert ctypes.get_errno() == 1\n"
        "assert os.readlink('/proc/self/ns/user') == before\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_the_first_reason_of_a_means_is_kept() -> None:
    means = Means()
    ctypes.set_errno(1)
    assert not means.need("a", -1)
    ctypes.set_errno(2)
    assert not means.need("a", -1)
    assert means.need("b", 3)
    assert means.missing == {"a": "Operation not permitted"}


class NoGpu:
    """A driver in whose place the other process finds none."""

    def allocated(self) -> tuple[int, str]:
        return 1, "00"

    def exported(self) -> tuple[int, int, int]:
        return 2, os.dup(0), 4096

    def read(self, _: int) -> int:
        return 0

    def write(self, *_: int) -> None:
        pass


def test_a_machine_is_tried_by_one_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    trial.describe()
    assert "a confined process is not kept from this:\n  " in capsys.readouterr().out
    monkeypatch.setenv("LD_LIBRARY_PATH", "")
    rows = [trial.row(NoGpu(), shares_files=shares_files) for shares_files in (True, False)]  # type: ignore[arg-type]
    for row, name in zip(rows, ("this machine's", "its own"), strict=True):
        assert re.fullmatch(rf"\| {name} \| .*(libcuda|cuInit|cuDevice|Handle).* \| - \| - \| [\d.]+ s \|", row)
